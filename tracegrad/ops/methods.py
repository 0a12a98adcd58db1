"""Operators and NumPy-like methods of Tensor, attached here so that tensor.py depends on nothing that computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad import numpy_protocols
from tracegrad.errors import ArgumentError
from tracegrad.ir.dims import Dim
from tracegrad.ir.sizes import Size
from tracegrad.ops import (
    arithmetic,
    comparison,
    cumulative,
    diagonal,
    indexing,
    linalg,
    reduction,
    repeating,
    rounding,
    select,
    shape,
    sorting,
    statistics,
    taking,
    torch_methods,
)  # fmt: skip
from tracegrad.ops.casting import astype, conj, imag, real
from tracegrad.ops.creation import dimension
from tracegrad.ops.power import operator_power
from tracegrad.ops.to_python import CONVERSIONS
from tracegrad.tensor import Tensor

_USUAL = frozenset((Tensor, float, int, np.ndarray))
_OPERANDS = (Tensor, int, float, complex, np.ndarray, np.generic, list, tuple)

BINARY: dict[str, Callable[..., Any]] = {
    "add": arithmetic.add, "sub": arithmetic.subtract, "mul": arithmetic.multiply, "truediv": arithmetic.divide,
    "floordiv": arithmetic.floor_divide, "mod": arithmetic.remainder, "pow": operator_power,
    "divmod": arithmetic.divmod, "and": comparison.bitwise_and, "or": comparison.bitwise_or,
    "matmul": linalg.matmul, "xor": comparison.bitwise_xor, "lshift": comparison.left_shift,
    "rshift": comparison.right_shift,
}  # fmt: skip
COMPARISONS: dict[str, Callable[..., Any]] = {
    "eq": comparison.equal, "ne": comparison.not_equal, "lt": comparison.less, "le": comparison.less_equal,
    "gt": comparison.greater, "ge": comparison.greater_equal,
}  # fmt: skip
UNARY: dict[str, Callable[..., Any]] = {
    "__neg__": arithmetic.negative, "__pos__": arithmetic.positive, "__abs__": arithmetic.absolute,
    "__invert__": comparison.invert,
}  # fmt: skip


def binary(operation: Callable[..., Any], name: str, reflected: bool = False) -> Callable[..., Any]:
    """The operator method for `operation`; NotImplemented for operands that are no numbers."""

    def method(self: Tensor, other: Any) -> Any:
        if type(other) not in _USUAL and not isinstance(other, _OPERANDS):
            if not isinstance(other, Dim):
                return NotImplemented
            other = other.number if isinstance(other, Size) else dimension(other)
        return operation(other, self) if reflected else operation(self, other)

    method.__name__ = method.__qualname__ = name
    return method


def _method(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    method.__doc__ = function.__doc__
    return method


def _varargs(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A method that takes its sizes or axes one by one or as one tuple."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        given = args[0] if len(args) == 1 and (args[0] is None or isinstance(args[0], (tuple, list))) else args
        return function(self, given, **kwargs) if args or kwargs else function(self)

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    method.__doc__ = function.__doc__
    return method


def _astype(
    self: Tensor, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
) -> Tensor:
    """The values in another dtype, a copy unless `copy=False`."""
    from tracegrad.errors import DTypeError

    if not np.can_cast(self.dtype, np.dtype(dtype), casting):
        raise DTypeError(f"cannot cast from {self.dtype} to {np.dtype(dtype)} by the rule {casting!r}")
    cast = astype(self, dtype)
    return arithmetic.positive(cast) if copy and cast is self and self.dtype.kind != "b" else cast


@numpy_protocols.implements(np.astype)
def _astype_function(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The method as NumPy 2.1's function; `device` is None or "cpu"."""
    if device not in (None, "cpu"):
        raise ArgumentError(f'device must be "cpu" or None, not {device!r}')
    return x.astype(dtype, copy=copy)  # type: ignore[no-any-return]


def _clip(self: Tensor, min: Any = None, max: Any = None, out: Any = None) -> Tensor:
    """Values below `min` or above `max` replaced by the bound."""
    return reduction.finish(select.clip(self, min, max), out)


def _copy(self: Tensor, order: str = "C") -> Tensor:
    """A copy; gradients flow through it."""
    return arithmetic.positive(self) if self.dtype.kind != "b" else comparison.logical_or(self, False)


def _flatten(self: Tensor, order: str = "C") -> Tensor:
    """A copy with one dimension."""
    return _copy(shape.ravel(self, order))


def _compress(self: Tensor, condition: Any, axis: Any = None, out: Any = None) -> Tensor:
    """The slices along an axis at which the condition holds."""
    return taking.compress(condition, self, axis, out)


def _round(self: Tensor, decimals: int = 0, out: Any = None) -> Tensor:
    """Rounded to `decimals` digits after the point, ties to even."""
    return rounding.round(self, decimals, out)


def _builtin_round(self: Tensor, ndigits: int | None = None) -> Any:
    return rounding.round(self, 0 if ndigits is None else ndigits)


METHODS: dict[str, Callable[..., Any]] = {
    "sum": reduction.sum, "prod": reduction.prod, "max": reduction.max, "min": reduction.min, "any": reduction.any,
    "all": reduction.all, "argmax": reduction.argmax, "argmin": reduction.argmin, "mean": statistics.mean,
    "var": statistics.var, "std": statistics.std,
    "swapaxes": shape.swapaxes, "ravel": shape.ravel, "conj": conj, "conjugate": conj, "cumsum": cumulative.cumsum,
    "cumprod": cumulative.cumprod, "repeat": repeating.repeat, "take": taking.take, "compress": _compress,
    "choose": taking.choose, "nonzero": taking.nonzero, "diagonal": diagonal.diagonal, "trace": diagonal.trace,
    "dot": linalg.dot, "argsort": sorting.argsort, "searchsorted": sorting.searchsorted,
}  # fmt: skip
VARARGS: dict[str, Callable[..., Any]] = {"reshape": shape.reshape, "transpose": shape.transpose}
PROPERTIES: dict[str, Callable[..., Any]] = {
    "T": shape.transpose,
    "mT": lambda self: shape.swapaxes(self, -1, -2),
    "real": real,
    "imag": imag,
    "itemsize": lambda self: self.dtype.itemsize,
    "nbytes": lambda self: self.size * self.dtype.itemsize,
}


def attach() -> None:
    """Give Tensor its operators and methods."""
    for name, operation in BINARY.items():
        setattr(Tensor, f"__{name}__", binary(operation, f"__{name}__"))
        setattr(Tensor, f"__r{name}__", binary(operation, f"__r{name}__", reflected=True))
    for name, operation in COMPARISONS.items():
        setattr(Tensor, f"__{name}__", binary(operation, f"__{name}__"))
    for name, operation in UNARY.items():
        setattr(Tensor, name, _method(operation, name))
    for name, function in METHODS.items():
        setattr(Tensor, name, _method(function, name))
    for name, function in VARARGS.items():
        setattr(Tensor, name, _varargs(function, name))
    for name, function in PROPERTIES.items():
        setattr(Tensor, name, property(function))
    for name, function in (*CONVERSIONS.items(), *torch_methods.METHODS.items()):
        setattr(Tensor, name, function)
    for name, function in {
        "astype": _astype, "clip": _clip, "copy": _copy, "round": _round, "__round__": _builtin_round,
        "__getitem__": indexing.getitem, "flatten": _flatten,
        "__array_ufunc__": numpy_protocols.array_ufunc, "__array_function__": numpy_protocols.array_function,
    }.items():  # fmt: skip
        setattr(Tensor, name, function)


attach()
