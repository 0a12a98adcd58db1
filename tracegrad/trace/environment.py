"""What a recording depends on besides its arguments: closures, globals, defaults, attributes of objects.

The recording is right only while all of these are what they were; `Environment.holds` says so before each call.
Arrays are compared by identity, since compiled programs read their numbers afresh; where the function computed with
them in plain NumPy, so that the numbers themselves went into the recording, their contents are compared too.
"""

from __future__ import annotations

import functools
import operator
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from tracegrad.errors import is_internal
from tracegrad.tensor import Tensor

_ATOMS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, np.ufunc, types.ModuleType)
_LIBRARIES = {"tracegrad", "numpy", "scipy"}
_INSTALLED = tuple(path + os.sep for path in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
_CONTAINERS = (dict, list, tuple, set, frozenset)
_MODULE_TABLES = (
    "_parameters", "_buffers", "_modules", "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks",
    "_backward_hooks",
)  # fmt: skip


class Environment:
    """A snapshot: per dependency the place it is read from, and what was found there."""

    def __init__(self, function: Callable[..., Any], static: Sequence[Any] = ()):
        self._cells: list[tuple[Any, Any]] = []
        self._items: list[tuple[dict[str, Any], str, Any]] = []
        self._attributes: list[tuple[Any, str, Any]] = []
        self._containers: list[tuple[Any, tuple[Any, ...]]] = []
        self.arrays: dict[int, np.ndarray] = {}
        self._contents: list[tuple[np.ndarray, np.ndarray]] = []
        self.generators: list[Any] = []  # NumPy's, whose numbers a recording would freeze
        _Collector(self).collect(function, *static)
        self.holds = self._compile()

    @property
    def always(self) -> bool:
        """Whether there is nothing that could change."""
        return not (self._cells or self._items or self._attributes or self._containers or self._contents)

    def watch_contents(self) -> None:
        """From now on the numbers in the arrays count too, not only which arrays they are."""
        self._contents = [(a, a.copy()) for a in self.arrays.values()]
        self.holds = self._compile()

    def changed(self) -> str:
        """What differs now, in words for `explain`."""
        for cell, value in self._cells:
            if not same(_cell_value(cell), value):
                return f"a closure variable changed from {value!r} to {_cell_value(cell)!r}"
        for namespace, name, value in self._items:
            if not same(namespace.get(name, _MISSING), value):
                return f"{name!r} changed from {value!r} to {namespace.get(name)!r}"
        for owner, name, value in self._attributes:
            if not same(getattr(owner, name, _MISSING), value):
                return f"attribute {name!r} of {type(owner).__name__} changed"
        return "a container or an array that the function reads was modified"

    def _compile(self) -> Callable[[], bool]:
        """One generated expression: an `is` per dependency, slower comparisons only where that fails."""
        scope: dict[str, Any] = {"same": same, "cell_value": _cell_value, "missing": _MISSING, "items": container_items}
        terms = []
        for i, (cell, value) in enumerate(self._cells):
            scope |= {f"c{i}": cell, f"cv{i}": value}
            terms.append(f"(c{i}.cell_contents is cv{i} or same(cell_value(c{i}), cv{i}))")
        for i, (namespace, name, value) in enumerate(self._items):
            scope |= {f"n{i}": namespace, f"nv{i}": value}
            terms.append(f"(n{i}.get({name!r}, missing) is nv{i} or same(n{i}.get({name!r}, missing), nv{i}))")
        for i, (owner, name, value) in enumerate(self._attributes):
            scope |= {f"a{i}": owner, f"av{i}": value}
            terms.append(f"same(getattr(a{i}, {name!r}, missing), av{i})")
        for i, (container, snapshot) in enumerate(self._containers):
            scope |= {f"s{i}": container, f"sv{i}": snapshot, "is_": operator.is_, "chain": chain}
            terms.append(f"({_same_elements(i, container, snapshot)} or same(items(s{i}), sv{i}))")
        for i, (array, contents) in enumerate(self._contents):
            scope |= {f"d{i}": array, f"dv{i}": contents, "equal": np.array_equal}
            terms.append(f"equal(d{i}, dv{i}, equal_nan=d{i}.dtype.kind in 'fc')")
        return eval("lambda: " + (" and ".join(terms) or "True"), scope)


_MISSING = object()


def _cell_value(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty cell
        return _MISSING


def same(a: Any, b: Any) -> bool:
    """Identity, or for atoms and tuples of them equality of type and bits (so that 0.0 and -0.0, 1 and True differ)."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (float, complex, np.generic)):
        return np.asarray(a).tobytes() == np.asarray(b).tobytes()
    if isinstance(a, (bool, int, str, bytes, np.dtype)):
        return a == b
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, types.MethodType):
        return a.__func__ is b.__func__ and a.__self__ is b.__self__
    return False


def container_items(container: Any) -> tuple[Any, ...]:
    """The contents of a container as a tuple, keys included."""
    if isinstance(container, dict):
        return (*container.keys(), *container.values())
    return tuple(container)


def _same_elements(number: int, container: Any, snapshot: tuple[Any, ...]) -> str:
    """An expression that compares a container with its snapshot by identity, without a step of Python per element."""
    if not snapshot:
        return f"not s{number}"
    elements, count = f"s{number}", len(snapshot)
    if isinstance(container, dict):
        elements, count = f"chain({elements}, {elements}.values())", count // 2
    return f"len(s{number}) == {count} and all(map(is_, {elements}, sv{number}))"


class _Collector:
    """Walks from a function through everything its code names, and fills an Environment."""

    def __init__(self, environment: Environment):
        self.environment = environment
        self.names: set[str] = set()
        self.seen: set[int] = set()
        self.objects: list[Any] = []

    def collect(self, *roots: Any) -> None:
        for root in roots:
            self.visit(root)
        # Attribute names grow while functions are found, so objects are walked until nothing new turns up.
        done: set[tuple[int, str]] = set()
        progress = True
        while progress:
            progress = False
            for owner in list(self.objects):
                for name in self.names & _attribute_names(owner):
                    if (id(owner), name) not in done:
                        done.add((id(owner), name))
                        progress = True
                        self._attribute(owner, name)

    def visit(self, value: Any) -> None:
        if isinstance(value, _ATOMS) or id(value) in self.seen:
            return
        self.seen.add(id(value))
        if isinstance(value, np.ndarray):
            self.environment.arrays[id(value)] = value
        elif isinstance(value, Tensor):
            return
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self.visit(value.__func__)
            self.visit(value.__self__)
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self.visit(part)
        elif isinstance(value, (staticmethod, classmethod, property)):
            self.visit(getattr(value, "__func__", None) or getattr(value, "fget", None))
        elif isinstance(value, _CONTAINERS):
            self._container(value)
        elif isinstance(getattr(value, "__wrapped__", None), Callable) and _library(type(value).__module__):
            self.visit(value.__wrapped__)  # a decorated function
        elif hasattr(type(value), "trace_structure"):  # an optimizer, which reads its numbers afresh in each call
            self.environment._attributes.append((value, "trace_structure", value.trace_structure))
        elif str(type(value).__module__).startswith("numpy.random"):
            self.environment.generators.append(value)
        elif not _foreign(value):
            self.objects.append(value)
            if not isinstance(value, type):
                self.visit(type(value))
                self.names.add("forward" if hasattr(value, "forward") else "__call__")
                if "_parameters" in getattr(value, "__dict__", ()):
                    self._nn_module(value)

    def _function(self, function: types.FunctionType) -> None:
        if is_internal(function.__code__) or _library(function.__module__):
            wrapped = getattr(function, "__wrapped__", None)
            if wrapped is not None:
                self.visit(wrapped)
            return
        environment = self.environment
        environment._attributes.append((function, "__code__", function.__code__))
        for name in ("__defaults__", "__kwdefaults__"):
            value = getattr(function, name)
            if value:
                environment._attributes.append((function, name, value))
                self.visit(value)
        for cell in function.__closure__ or ():
            value = _cell_value(cell)
            environment._cells.append((cell, value))
            self.visit(value)
        for name in _code_names(function.__code__):
            self.names.add(name)
            if name in function.__globals__:
                value = function.__globals__[name]
                environment._items.append((function.__globals__, name, value))
                self.visit(value)
                if isinstance(value, types.ModuleType) and not _library(value.__name__):
                    self._module(value, function.__code__)

    def _nn_module(self, module: Any) -> None:
        """What it holds, and where code of ours runs it, which is not walked, its settings."""
        ours = any(c.__module__.startswith("tracegrad.nn.") for c in type(module).__mro__ if c.__name__ != "Module")
        if ours:
            self._container(module.__dict__)
        for name in () if ours else _MODULE_TABLES:
            self._attribute(module, name)

    def _module(self, module: types.ModuleType, code: types.CodeType) -> None:
        for name in _code_names(code):
            if name in module.__dict__:
                self.environment._items.append((module.__dict__, name, module.__dict__[name]))
                self.visit(module.__dict__[name])

    def _container(self, value: Any) -> None:
        if not isinstance(value, tuple) and len(value) <= 10_000:
            self.environment._containers.append((value, container_items(value)))
        for item in container_items(value)[:10_000]:
            self.visit(item)

    def _attribute(self, owner: Any, name: str) -> None:
        namespace = getattr(owner, "__dict__", None)
        if isinstance(namespace, dict) and name in namespace:
            value = namespace[name]
            self.environment._items.append((namespace, name, value))
        else:
            try:
                value = getattr(owner, name)
            except AttributeError:  # a descriptor that has nothing to give on the class itself, as in enum
                return
            self.environment._attributes.append((owner, name, value))
        self.visit(value)


def _attribute_names(owner: Any) -> set[str]:
    names: set[str] = set()
    if isinstance(owner, type):
        for cls in owner.__mro__[:-1]:
            if not _library(cls.__module__):
                names.update(cls.__dict__)
        return names
    names.update(getattr(owner, "__dict__", ()))
    for cls in type(owner).__mro__:
        names.update(n for n in cls.__dict__.get("__slots__", ()) if hasattr(owner, n))
    return names


def _code_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_names(constant)


@functools.cache
def _library(module: str | None) -> bool:
    """Modules whose contents do not change under a program: the standard library's, installed packages', our own."""
    name = module or "builtins"
    top = name.split(".")[0]
    if top in _LIBRARIES or top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    return file.startswith(_INSTALLED)


def _foreign(value: Any) -> bool:
    """Objects that have nothing to watch: builtins, and instances of our own and NumPy's classes."""
    cls = value if isinstance(value, type) else type(value)
    return _library(cls.__module__) and not cls.__module__.startswith("tracegrad.nn")
