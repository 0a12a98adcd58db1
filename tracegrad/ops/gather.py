"""Reading and writing at computed positions: gather, its transpose, and positions of what is true."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import TracegradIndexError, UnsupportedError
from tracegrad.function import Operation
from tracegrad.ir import lowering
from tracegrad.ir.dims import DimLike
from tracegrad.ir.types import Type

Shape = tuple[DimLike, ...]
_MOST_INDICES = 9  # `saves` names inputs by one digit


class Gather(Operation):
    """`out[i…, r…] = x[indices0[i…], …, indicesK[i…], r…]`: integer arrays of one shape index the first axes.

    Negative positions count from the end. Raises TracegradIndexError where one is out of range.
    """

    name = "gather"
    lower = lowering.Gather()
    saves = ("123456789",)

    @staticmethod
    def forward(x: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        try:
            taken = x[indices]
        except IndexError as error:
            raise TracegradIndexError(str(error), fix="keep positions between -size and size - 1") from None
        return taken if type(indices[0]) is np.ndarray and indices[0].ndim else np.array(taken)

    @staticmethod
    def infer(x: Type, *indices: Type) -> Type:
        if len(indices) > _MOST_INDICES:
            raise UnsupportedError(
                f"{len(indices)} index arrays at once are more than the {_MOST_INDICES} tracegrad takes",
                fix="flatten some of the axes first",
            )
        return x.with_shape((*indices[0].shape, *x.shape[len(indices) :]))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, ...]:
        indices = ctx.inputs[1:]
        return (ScatterAdd.apply(g, *indices, shape=ctx.types[0].shape), *(None for _ in indices))


class CombineAt(Operation):
    """A vector of integers or bools after `np.add.at(x, places, value)` of floats, or np.subtract.at.

    NumPy casts each sum to the vector's dtype before it adds the next value, which a loop in one dtype cannot say.
    """

    name = "combine_at"
    differentiable = False

    @staticmethod
    def forward(x: np.ndarray, places: np.ndarray, value: np.ndarray, *, subtract: bool) -> np.ndarray:
        out = np.array(x)
        (np.subtract if subtract else np.add).at(out, places, value)
        return out

    @staticmethod
    def infer(x: Type, places: Type, value: Type, *, subtract: bool) -> Type:
        return x.with_shape(x.shape)


class ScatterAdd(Operation):
    """The transpose of Gather: zeros of `shape`, to which the operand's elements are added at the positions."""

    name = "scatter_add"
    lower = lowering.ScatterAdd()
    saves = ("123456789",)

    @staticmethod
    def forward(x: np.ndarray, *indices: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        out = np.zeros(shape, x.dtype)
        try:
            np.add.at(out, indices, x)
        except IndexError as error:
            raise TracegradIndexError(str(error), fix="keep positions between -size and size - 1") from None
        return out

    @staticmethod
    def infer(x: Type, *indices: Type, shape: Shape) -> Type:
        return x.with_shape(shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, ...]:
        indices = ctx.inputs[1:]
        return (Gather.apply(g, *indices), *(None for _ in indices))


class Nonzero(Operation):
    """The positions, in C order of the flattened operand, of its `count` elements that are not zero.

    Where the operand has another number of them the result is cut off or filled up with zeros: whoever records it
    guards the count, so that such a result is never used.
    """

    name = "nonzero"
    differentiable = False

    @staticmethod
    def forward(x: np.ndarray, *, count: int) -> np.ndarray:
        found = np.flatnonzero(x)
        return found if found.size == count else np.resize(found if found.size else np.zeros(1, np.intp), count)

    @staticmethod
    def infer(x: Type, *, count: int) -> Type:
        return Type(np.dtype(np.intp), (count,))


class WriteSource(Operation):
    """For each element of an array of `shape` the number of the last write to it, -1 where there is none.

    The operands are integer arrays of one shape: write number n goes to position (indices0[n], …, indicesK[n]), counted
    in C order.
    """

    name = "write_source"
    differentiable = False

    @staticmethod
    def forward(*indices: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        out = np.full(shape, -1, np.intp)
        numbers = np.arange(np.size(indices[0])).reshape(np.shape(indices[0]))
        try:
            np.maximum.at(out, indices, numbers)
        except IndexError as error:
            raise TracegradIndexError(str(error), fix="keep positions between -size and size - 1") from None
        return out

    @staticmethod
    def infer(*indices: Type, shape: Shape) -> Type:
        return Type(np.dtype(np.intp), shape)
