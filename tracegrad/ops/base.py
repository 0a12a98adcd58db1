"""What families of operations share: NumPy's rules on types, and the normal form of axes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tracegrad.autograd.straight import straight_elementwise
from tracegrad.errors import DTypeError, ShapeError
from tracegrad.function import Operation, recorded_or_general
from tracegrad.ir.dims import DimLike
from tracegrad.ir.types import Type

_WEAK = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


def broadcast_shapes(*shapes: tuple[DimLike, ...]) -> tuple[DimLike, ...]:
    """NumPy's broadcasting on dimensions that may be symbols (a symbol is never 1). Raises ShapeError."""
    ndim = max(map(len, shapes), default=0)
    out: list[DimLike] = [1] * ndim
    for shape in shapes:
        for position, dim in enumerate(shape, ndim - len(shape)):
            if dim == 1 or dim == out[position]:
                continue
            if out[position] != 1:
                raise ShapeError(
                    "operands could not be broadcast together with shapes " + " ".join(map(shape_text, shapes)),
                    fix="reshape one of them, or add axes with [:, None], so that each pair of sizes is equal or 1",
                )
            out[position] = dim
    return tuple(out)


def shape_text(shape: tuple[DimLike, ...]) -> str:
    """(3, n) as NumPy writes a shape."""
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def promotion_key(type: Type) -> Any:
    """What stands for a type in NumPy's promotion: its dtype, or for a weak value the Python number type."""
    return _WEAK[type.dtype.kind] if type.weak else type.dtype


@functools.lru_cache(maxsize=4096)
def _resolve(ufunc: np.ufunc, keys: tuple[Any, ...]) -> np.dtype:
    if all(isinstance(k, type) for k in keys):
        return np.asarray(ufunc(*(k(1) for k in keys))).dtype
    keys = tuple(np.dtype(bool) if k is bool else k for k in keys)
    return ufunc.resolve_dtypes((*keys, *(None,) * ufunc.nout))[ufunc.nin]


def result_dtype(ufunc: np.ufunc, types: tuple[Type, ...]) -> np.dtype:
    """The dtype NumPy's ufunc gives for operands of these types. Raises DTypeError."""
    try:
        return _resolve(ufunc, tuple(map(promotion_key, types)))
    except TypeError as error:
        names = ", ".join(str(t.dtype) for t in types)
        raise DTypeError(
            f"np.{ufunc.__name__} has no meaning for operands of dtype {names}",
            fix="convert an operand with .astype",
        ) from error


class ElementwiseOperation(Operation):
    """One scalar function of all operands, which broadcast. `ufunc` gives values and dtypes."""

    ufunc: ClassVar[np.ufunc]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "ufunc" in vars(cls):
            compute = cls.forward if "forward" in vars(cls) else cls.ufunc
            cls.apply = staticmethod(straight_elementwise(cls, compute, recorded_or_general(cls)))

    @classmethod
    def forward(cls, *arrays: Any) -> Any:
        return cls.ufunc(*arrays)

    @classmethod
    def infer(cls, *types: Type) -> Type:
        dtype = result_dtype(cls.ufunc, types)
        return Type(dtype, broadcast_shapes(*(t.shape for t in types)), all(t.weak for t in types))


_ALL_AXES = tuple(tuple(range(ndim)) for ndim in range(65))  # 64 is the most NumPy has


def normalize_axis(axis: Any, ndim: int) -> int:
    """One axis as a non-negative int. Raises ShapeError (a ValueError) where it is out of range."""
    position = operator.index(axis)
    if not -ndim <= position < ndim:
        raise ShapeError(f"axis {position} is out of bounds for an array of dimension {ndim}")
    return position % ndim


def normalize_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """None (all), an int or a tuple of ints as a sorted tuple of non-negative ints without duplicates."""
    if axis is None:
        return _ALL_AXES[ndim]
    if not isinstance(axis, (tuple, list)):
        return (normalize_axis(axis, ndim),)
    axes = sorted(normalize_axis(a, ndim) for a in axis)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"duplicate value in axis {tuple(axis)}")
    return tuple(axes)


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """As `normalize_axes`; NumPy's reductions also take axis 0 or -1 of a 0-d array, and reduce nothing then."""
    return () if is_whole(axis, ndim) else normalize_axes(axis, ndim)


def is_whole(axis: Any, ndim: int) -> bool:
    """Whether the axis is one of those that many of NumPy's functions take 0-d arrays to have."""
    return ndim == 0 and isinstance(axis, (int, np.integer)) and -1 <= axis <= 0


Samples = Callable[[], list[Any]]
