"""Diagonals of matrices, read and written, and triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ShapeError
from tracegrad.function import Operation
from tracegrad.ir.dims import DimLike
from tracegrad.ir.index import Affine, Bound, Piece
from tracegrad.ir.lowering import IndexMap
from tracegrad.ir.types import Type
from tracegrad.numpy_protocols import implements
from tracegrad.ops.base import normalize_axis
from tracegrad.ops.comparison import greater_equal
from tracegrad.ops.operands import as_dim, operand, positions, smaller
from tracegrad.ops.reduction import sum as tensor_sum
from tracegrad.ops.select import where
from tracegrad.ops.shape import moveaxis, ravel, reshape

Shape = tuple[DimLike, ...]


def _diagonal_pieces(index: Sequence[Affine], inputs: tuple[Type, ...], out: Type, *, offset: int) -> tuple[Piece, ...]:
    *batch, i = index
    return (Piece(0, (*batch, i + max(-offset, 0), i + max(offset, 0))),)


class Diagonal(Operation):
    """The elements `[..., i, i + offset]` of matrices along the last two axes."""

    name = "diagonal"
    lower = IndexMap(_diagonal_pieces)
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, offset: int) -> np.ndarray:
        diagonal = np.diagonal(x, offset, -2, -1)
        if x.flags.writeable:
            diagonal.flags.writeable = True  # NumPy only announces that; in PyTorch and in compiled code it is so
        return diagonal

    @staticmethod
    def infer(x: Type, *, offset: int) -> Type:
        return x.with_shape((*x.shape[:-2], diagonal_size(x.shape[-2], x.shape[-1], offset)))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        rows, columns = ctx.types[0].shape[-2:]
        return (DiagonalPlace.apply(g, rows=rows, columns=columns, offset=ctx.attrs["offset"]),)

    @staticmethod
    def put(x: Any, view: Any, *, offset: int) -> Any:
        rows, columns = x.shape[-2:]
        off = np.not_equal(positions(rows)[:, None] + offset, positions(columns))
        return where(off, x, DiagonalPlace.apply(view, rows=rows, columns=columns, offset=offset))


def diagonal_size(rows: DimLike, columns: DimLike, offset: int) -> DimLike:
    """The number of elements of a diagonal; none where it lies outside."""
    size = smaller(rows - max(-offset, 0), columns - max(offset, 0))
    return max(size, 0) if isinstance(size, int) else size


def _place_pieces(
    index: Sequence[Affine], inputs: tuple[Type, ...], out: Type, *, rows: DimLike, columns: DimLike, offset: int
) -> tuple[Piece, ...]:
    *batch, i, j = index
    return (Piece(0, (*batch, i - max(-offset, 0)), (Bound(j - i - offset, "=="),)),)


class DiagonalPlace(Operation):
    """The transpose of Diagonal: matrices of `rows` by `columns` that are zero off the diagonal."""

    name = "diagonal_place"
    lower = IndexMap(_place_pieces)
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, rows: int, columns: int, offset: int) -> np.ndarray:
        out = np.zeros((*x.shape[:-1], rows, columns), x.dtype)
        i = np.arange(x.shape[-1]) + max(-offset, 0)
        out[..., i, i + offset] = x
        return out

    @staticmethod
    def infer(x: Type, *, rows: DimLike, columns: DimLike, offset: int) -> Type:
        return x.with_shape((*x.shape[:-1], rows, columns))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (Diagonal.apply(g, offset=ctx.attrs["offset"]),)


@implements(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The elements with equal positions (the second larger by `offset`) on two axes, along a new last axis."""
    x = operand(a)
    if x.ndim < 2:
        raise ShapeError("a diagonal needs an array of at least two dimensions", fix="np.diag makes one of a vector")
    first, second = normalize_axis(axis1, x.ndim), normalize_axis(axis2, x.ndim)
    if first == second:
        raise ShapeError("axis1 and axis2 cannot be the same")
    return Diagonal.apply(moveaxis(x, (first, second), (-2, -1)), offset=as_dim(offset))


@implements(np.linalg.diagonal)
def linalg_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of matrices along the last two axes."""
    return diagonal(x, offset, -2, -1)


@implements(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    """The sum of a diagonal."""
    return tensor_sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


@implements(np.linalg.trace)
def linalg_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of matrices along the last two axes."""
    return trace(x, offset, -2, -1, dtype)


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Any:
    """The k-th diagonal of a matrix, or the matrix with a vector on its k-th diagonal."""
    x = operand(v)
    if x.ndim == 1:
        size = x.shape[0] + abs(as_dim(k))
        return DiagonalPlace.apply(x, rows=size, columns=size, offset=k)
    if x.ndim == 2:
        return diagonal(x, k)
    raise ShapeError(f"np.diag takes vectors and matrices, not arrays of {x.ndim} dimensions", fix="use np.diagonal")


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Any:
    """The matrix with all elements of an array on its k-th diagonal."""
    return diag(ravel(v), k)


def _at_or_below(rows: DimLike, columns: DimLike, k: int) -> Any:
    """Where column - row ≤ k."""
    return greater_equal(reshape(positions(rows), (rows, 1)) + k, positions(columns))


@implements(np.tril)
def tril(m: Any, k: int = 0) -> Any:
    """Matrices with zeros above the k-th diagonal."""
    x = _matrices(m)
    return where(_at_or_below(*x.shape[-2:], k), x, _zero(x))


@implements(np.triu)
def triu(m: Any, k: int = 0) -> Any:
    """Matrices with zeros below the k-th diagonal."""
    x = _matrices(m)
    return where(_at_or_below(*x.shape[-2:], k - 1), _zero(x), x)


def _matrices(m: Any) -> Any:
    """A vector counts as so many equal rows."""
    x = operand(m)
    if x.ndim == 0:
        raise ShapeError("a triangle needs an array of at least one dimension")
    return x if x.ndim > 1 else reshape(x, (1, -1)) if x.shape[0] == 1 else np.broadcast_to(x, (x.shape[0],) * 2)


def _zero(x: Any) -> np.ndarray:
    return np.zeros((), x.dtype)
