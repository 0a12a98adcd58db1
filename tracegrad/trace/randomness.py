"""Random numbers that a recording would freeze: those of NumPy's and Python's generators, while a function is traced.

What they return are plain numbers, so a compiled program would use those of its recording in every call. Their states
are compared before and after a recording; where one has moved, the user's line is looked up in the bytecode.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any

import numpy as np

from tracegrad.errors import FrozenRandomError, user_location
from tracegrad.ir.graph import Location
from tracegrad.state import state
from tracegrad.trace.environment import Environment

_NUMPY = "numpy.random"  # which NumPy imports when it is first asked for
_FIX = (
    "draw with tg.random (tg.rand, tg.random.normal, tg.random.bernoulli, …), which gives fresh numbers in each call, "
    "or draw outside and pass the numbers as an argument"
)


@contextlib.contextmanager
def random_numbers_watched(function: Callable[..., Any], static: Sequence[Any] = ()) -> Iterator[Environment]:
    """Raise FrozenRandomError after the block if it used a generator other than tracegrad's. Gives what the function
    depends on before the block."""
    environment = Environment(function, static)
    sources = [random, *environment.generators]
    numpy_loaded = _NUMPY in sys.modules or _names_random(environment)
    if numpy_loaded:
        _watch_seeding()
        sources.append(np.random.mtrand._rand)
    before = [_state(source) for source in sources]
    yield environment
    for source, former in zip(sources, before, strict=True):
        if not _same(_state(source), former):
            _report(source, function, environment)
    if not numpy_loaded and _NUMPY in sys.modules and _has_drawn(np.random.mtrand._rand):
        _report(np.random.mtrand._rand, function, environment)


def _names_random(environment: Environment) -> bool:
    return any(name == "__code__" and "random" in code.co_names for _, name, code in environment._attributes)


@functools.cache
def _watch_seeding() -> None:
    """Make generators without a seed an error inside traced functions: NumPy asks the system for one in one place."""
    from numpy.random import bit_generator

    from_system = bit_generator.randbits

    def randbits(count: int) -> int:
        if state.trace is not None:
            raise FrozenRandomError(
                "a NumPy generator without a seed was made in a traced function: its numbers would be the same in "
                "every later call",
                fix=_FIX,
                location=user_location(),
            )
        return from_system(count)  # type: ignore[no-any-return]

    bit_generator.randbits = randbits


def _has_drawn(source: Any) -> bool:
    """Whether a generator that was seeded by the system has been used, or seeded again. The first word of such a state
    is the same for every seed, and is replaced when all words have been used."""
    former, fresh = (_state(s) for s in (source, np.random.RandomState()))
    position, new = former["state"], fresh["state"]
    return (position["pos"], position["key"][0], former["has_gauss"]) != (new["pos"], new["key"][0], fresh["has_gauss"])


def _state(source: Any) -> Any:
    if source is random:
        return random.getstate()
    if isinstance(source, np.random.RandomState):
        return source.get_state(legacy=False)
    return getattr(source, "bit_generator", source).state


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


def _report(source: Any, function: Callable[..., Any], environment: Environment) -> None:
    name = getattr(function, "__name__", type(function).__name__)
    if source is random:
        what = "the module random of Python"
    elif source is np.random.mtrand._rand:
        what = "NumPy's global random state (np.random.…)"
    else:
        what = f"a NumPy {type(source).__name__} from outside the function"
    message = f"{what} was used while {name} was traced: its numbers would be the same in every later call"
    location = _find(source, environment)
    if location is None and threading.active_count() > 1:  # it may have been another thread
        warnings.warn(f"{message}, unless it was another thread that used it. {_FIX}", RuntimeWarning, stacklevel=2)
        return
    raise FrozenRandomError(message, fix=_FIX, location=location or _definition(function))


def _definition(function: Callable[..., Any]) -> Location | None:
    code = getattr(function, "__code__", None)
    return None if code is None else Location(code.co_filename, code.co_firstlineno, code.co_name)


def _find(source: Any, environment: Environment) -> Location | None:
    """The first line in the code that was walked that names the generator, or a function bound to it."""
    module = {random: random, np.random.mtrand._rand: np.random}.get(source) if _hashable(source) else None
    names = {name for _, name, value in environment._items if value is source}
    for function, name, code in environment._attributes:
        if name == "__code__":
            scope = function.__globals__
            closure = dict(zip(code.co_freevars, function.__closure__ or (), strict=False))
            bound = {n for n, cell in closure.items() if cell.cell_contents is source}
            bound |= {n for n, value in scope.items() if value is source or getattr(value, "__self__", None) is source}
            modules = {n for n, value in scope.items() if module is not None and value is module}
            found = _find_in(code, names | bound, modules, module)
            if found is not None:
                return found
    return None


def _hashable(source: Any) -> bool:
    return type(source).__hash__ is not None


def _find_in(code: CodeType, names: set[str], modules: set[str], module: Any) -> Location | None:
    line, former = code.co_firstlineno, None
    for instruction in dis.get_instructions(code):
        line = instruction.starts_line or line
        name = instruction.argval
        if instruction.opname.startswith(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_ATTR", "LOAD_METHOD")):
            of_module = former in modules or (module is np.random and former == "random")
            if name in names or (of_module and hasattr(module, str(name))):
                return Location(code.co_filename, line, code.co_name)
        former = name if isinstance(name, str) else None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found = _find_in(constant, names, modules, module)
            if found is not None:
                return found
    return None
