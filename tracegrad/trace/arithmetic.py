"""Code of which one can tell that it only calculates: whatever numbers its arrays have, it records the same.

Plain arrays that a function finds outside are inputs of its recording. Whether other numbers in them would have made
another recording (an `if` on one of them, a number that became an index) is known for sure of code without branches
that does nothing but arithmetic, calls of functions of NumPy that calculate, and calls of functions of the same kind.
What plain NumPy computes there stays in sight: as a constant of the recording, or as an array nothing outside has.
"""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Callable, Iterable, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad.tensor import Tensor
from tracegrad.trace.codes import code_names
from tracegrad.trace.dependencies import MISSING, disguised, library

if TYPE_CHECKING:
    from tracegrad.trace.environment import Environment

_UNARY = frozenset(
    "abs absolute arccos arcsin arctan cos cosh exp expm1 log log1p mean negative sin sinh sqrt square sum tan "
    "tanh".split()
)
_BINARY = frozenset("add arctan2 divide dot hypot matmul maximum minimum multiply outer subtract".split())
_KEYWORDS = {"axis", "keepdims"}
_OPERATORS = frozenset("+-*/@")
_OF_ARRAYS = _UNARY | _BINARY | {"T", "dtype", "ndim", "shape", "size"}  # these are alike for one dtype and shape
_PARTS = frozenset(("__class__", "__code__", "__defaults__", "__kwdefaults__"))  # of what is looked at itself
_NUMBERS = (bool, int, float, complex, str, type(None))
_DATA = (np.ndarray, list, tuple, dict, types.SimpleNamespace)
_CONSTANT, _NULL, _VALUE = object(), object(), object()  # on the stack, beside names


def calculates(environment: Environment, static: Sequence[Any]) -> bool:
    """Whether the code that the environment was collected from does nothing but calculate with inexact numbers."""
    if environment.generators or environment._states or not environment.arrays:
        return False
    if any(type(a) is not np.ndarray or not np.issubdtype(a.dtype, np.inexact) for a in environment.arrays.values()):
        return False
    codes = set(environment.codes)
    named: dict[str, list[Any]] = {}
    for _, name, value in (*environment._items, *environment._attributes):
        if name not in _PARTS:
            named.setdefault(name, []).append(value)
    loose = [*static, *(v for _, v in environment._cells), *(v for _, items in environment._containers for v in items)]
    if not all(_known(value, codes) for value in loose):
        return False
    if not all(_known(value, codes, name) for name, values in named.items() for value in values):
        return False
    functions = {n for n, values in named.items() if any(isinstance(v, types.FunctionType) for v in values)}
    modules = {n for n, values in named.items() if any(isinstance(v, types.ModuleType) for v in values)}
    return all(_Walk(code, named.keys(), functions, modules).calculates() for code in codes)


def _known(value: Any, codes: Set[types.CodeType], name: str = "") -> bool:
    """Whether a value from outside is data, or a function whose code is among `codes` or that of NumPy's name."""
    if disguised(value):
        return False
    if value is MISSING or isinstance(value, (*_NUMBERS, Tensor)) or type(value) in _DATA:
        return True
    if isinstance(value, types.FunctionType) and value.__code__ in codes:
        return True
    if isinstance(value, types.ModuleType):
        return value is np
    if (name in _UNARY | _BINARY and getattr(np, name) is value) or value is abs or value is sum:
        return True
    kind = type(value)
    return not callable(value) and not library(kind.__module__) and kind.__getattribute__ is object.__getattribute__


class _Walk:
    """The instructions of a code object in turn, with the names on Python's stack. `named` are those watched, among
    them `functions` and `modules`. Instructions not known here, of other versions of Python too, end it."""

    def __init__(self, code: types.CodeType, named: Set[str], functions: Set[str], modules: Set[str]):
        self.code, self.named, self.functions, self.modules = code, named, functions, modules
        self.stack: list[Any] = []
        self.keywords: tuple[str, ...] = ()

    def calculates(self) -> bool:
        """Whether the code calculates from its first instruction to its last."""
        try:
            return all(map(self._step, dis.get_instructions(self.code)))
        except IndexError:  # the stack is not what it was taken for
            return False

    def _step(self, step: dis.Instruction) -> bool:
        """Let one instruction act on the stack; False where it may take a decision."""
        stack, name, value = self.stack, step.opname, step.argval
        if name in ("RESUME", "NOP", "PRECALL", "COPY_FREE_VARS", "CACHE"):
            return True
        if name == "KW_NAMES":
            self.keywords = self.code.co_consts[step.arg or 0]
        elif name == "CALL":
            return self._call(step.arg or 0)
        elif name == "PUSH_NULL":
            stack.append(_NULL)
        elif name == "LOAD_CONST":
            stack.append(_CONSTANT)
        elif name == "LOAD_FAST":
            stack.append(_VALUE)
        elif name == "LOAD_DEREF":
            stack.append(value)
        elif name == "LOAD_GLOBAL":
            stack += [_NULL, value] if (step.arg or 0) & 1 else [value]
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            method = name == "LOAD_METHOD" or (sys.version_info >= (3, 12) and (step.arg or 0) & 1)
            stack[-1:] = [value, stack[-1]] if method else [value]
            return value in _OF_ARRAYS or (value in self.named and not hasattr(np.ndarray, value))
        elif name in ("STORE_FAST", "RETURN_VALUE", "POP_TOP"):
            stack.pop()
        elif name in ("BINARY_OP", "BINARY_SUBSCR"):
            right, _ = stack.pop(), stack.pop()
            stack.append(_VALUE)
            return right is _CONSTANT if step.argrepr in ("", "**") else step.argrepr in _OPERATORS
        elif name == "BUILD_TUPLE":
            del stack[len(stack) - (step.arg or 0) :]
            stack.append(_VALUE)
        elif name == "UNARY_NEGATIVE":
            stack[-1] = _VALUE
        else:
            return False
        return True

    def _call(self, count: int) -> bool:
        """Let a call act on the stack; whether it is one of a function that calculates, with operands alone."""
        arguments = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        second, first = self.stack.pop(), self.stack.pop()
        self.stack.append(_VALUE)
        callee = second if first is _NULL else first
        operands, keywords = count - len(self.keywords), self.keywords
        self.keywords = ()
        if not isinstance(callee, str):
            return False
        of_module = isinstance(second, str) and second in self.modules
        method = _NULL not in (first, second) and not of_module
        if callee in self.functions and not of_module and not (method and hasattr(np.ndarray, callee)):
            return True
        if not _KEYWORDS.issuperset(keywords) or any(a is not _CONSTANT for a in arguments[operands:]):
            return False
        return (callee in _UNARY and operands == 1 - method) or (callee in _BINARY and operands == 2 - method)


def reads_sizes(environment: Environment) -> bool:
    """Whether code asks an array for its size, which for a plain one is a number."""
    return any(not {"shape", "size"}.isdisjoint(code_names(code)) for code in environment.codes)


def exchanges(
    places: Iterable[tuple[Any, Any]], same: Callable[[Any, Any], bool], resized: bool = False
) -> dict[int, np.ndarray] | None:
    """For pairs (what was in a place, what is there now): by the id of each array the one that took its place.

    None where anything but arrays changed, or their dtypes or shapes did (with `resized`, or their numbers of
    dimensions), or which of them are one and the same.
    """
    found: dict[int, np.ndarray] = {}
    former: dict[int, int] = {}
    for old, new in places:
        if type(old) is not np.ndarray:
            if not same(new, old):
                return None
            continue
        if type(new) is not np.ndarray or new.dtype != old.dtype or new.ndim != old.ndim:
            return None
        if not resized and new.shape != old.shape:
            return None
        if found.setdefault(id(old), new) is not new or former.setdefault(id(new), id(old)) != id(old):
            return None
    return found
