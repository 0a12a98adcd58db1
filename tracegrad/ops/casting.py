"""Changes of dtype, and the parts of complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import DTypeError
from tracegrad.function import Operation
from tracegrad.ir.lowering import Elementwise
from tracegrad.ir.types import Type
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import Mul, conj
from tracegrad.ops.base import promotion_key
from tracegrad.tensor import Tensor


class Cast(Operation):
    """The value in another dtype, as NumPy's astype; a complex value loses its imaginary part on the way to a real."""

    name = "cast"
    lower = Elementwise("cast")
    saves = ("",)

    @staticmethod
    def forward(x: Any, *, dtype: np.dtype) -> np.ndarray:
        x = np.asarray(x)
        return (x.real if x.dtype.kind == "c" and dtype.kind not in "cb" else x).astype(dtype)

    @staticmethod
    def infer(x: Type, *, dtype: np.dtype) -> Type:
        return x.with_dtype(dtype)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (g,)  # whoever called casts it to the input's dtype


def number_dtype(dtype: Any) -> np.dtype:
    """What NumPy understands by `dtype`, in native byte order. Raises DTypeError for one that holds no numbers."""
    try:
        found = np.dtype(dtype)
    except TypeError as error:
        raise DTypeError(f"{dtype!r} is not a dtype", fix="use for example float, np.float32 or 'int64'") from error
    if found.kind not in "biufc":
        raise DTypeError(f"a Tensor cannot have dtype {found}", fix="use a float, complex, integer or bool dtype")
    return found.newbyteorder("=")


def astype(x: Any, dtype: Any) -> Any:
    """`x` in another dtype; `x` itself where it has it."""
    dtype = number_dtype(dtype)
    if not isinstance(x, Tensor):
        x = np.asarray(x)
    elif x.is_traced and x._var.type.weak:
        return Cast.apply(x, dtype=dtype)
    return x if x.dtype == dtype else Cast.apply(x, dtype=dtype)


def fitting(x: Any, dtype: np.dtype) -> Any:
    """`x` itself; a Python integer that an integer dtype cannot hold raises NumPy's OverflowError."""
    if type(x) is int and dtype.kind in "iu":
        np.asarray(x, dtype)
    return x


class _Part(Operation):
    saves = ("",)

    @staticmethod
    def infer(x: Type) -> Type:
        return x.with_dtype(np.zeros(0, x.dtype).real.dtype)


class Real(_Part):
    """The real part, a copy."""

    name = "real"
    lower = Elementwise("positive")

    @staticmethod
    def forward(x: Any) -> np.ndarray:
        return np.real(x).copy()

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (g,)


class Imag(_Part):
    """The imaginary part, a copy; zeros of a real value."""

    name = "imag"

    @staticmethod
    def forward(x: Any) -> np.ndarray:
        return np.imag(x).copy()

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (Mul.apply(g, 1j) if ctx.types[0].dtype.kind == "c" else None,)


@implements(np.real)
def real(val: Any) -> Any:
    """The real part; the value itself where it is real."""
    return Real.apply(val) if val.dtype.kind == "c" else val


@implements(np.imag)
def imag(val: Any) -> Any:
    """The imaginary part; zeros where the value is real."""
    return Imag.apply(val)


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """The argument of complex numbers, in (-π, π]; the derivative at 0 is 0."""
    from tracegrad.ops.trigonometric import arctan2, rad2deg

    phase = arctan2(imag(z), real(z)) if z.dtype.kind == "c" else arctan2(0, z)
    return rad2deg(phase) if deg else phase


@implements(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    return x.dtype.kind == "c"


@implements(np.isrealobj)
def isrealobj(x: Any) -> bool:
    return x.dtype.kind != "c"


@implements(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """NumPy's promotion, with Tensors among the operands."""
    return np.result_type(*(promotion_key_value(a) if isinstance(a, Tensor) else a for a in arrays_and_dtypes))


def promotion_key_value(x: Tensor) -> Any:
    """What stands for a Tensor in np.result_type: its dtype, or for a weak one a Python number of its kind."""
    key = promotion_key(x.type)
    return key if isinstance(key, np.dtype) else key(0)


__all__ = ["Cast", "Imag", "Real", "angle", "astype", "conj", "imag", "number_dtype", "real", "result_type"]
