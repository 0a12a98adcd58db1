"""Products of matrices and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ShapeError
from tracegrad.function import Operation
from tracegrad.ir.dims import DimLike, product
from tracegrad.ir.lowering import Library
from tracegrad.ir.types import Type
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import conj, multiply
from tracegrad.ops.base import broadcast_shapes, normalize_axis, shape_text
from tracegrad.ops.operands import operand
from tracegrad.ops.reduction import finish
from tracegrad.ops.reduction import sum as tensor_sum
from tracegrad.ops.shape import broadcast_to, expand_dims, moveaxis, ravel, reshape, squeeze, swapaxes, transpose

Shape = tuple[DimLike, ...]


class MatMul(Operation):
    """NumPy's matmul: 1-D operands are a row on the left and a column on the right, leading axes broadcast."""

    name = "matmul"
    lower = Library("matmul")
    saves = ("1", "0")

    @staticmethod
    def forward(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        try:
            few = 0 < a.ndim <= 2 and 0 < b.ndim <= 2 and a.dtype.char in "fdFD"
            return np.asarray(np.dot(a, b) if few else np.matmul(a, b))  # to begin, matmul takes four times as long
        except ValueError:
            MatMul.infer(Type(a.dtype, a.shape), Type(b.dtype, b.shape))
            raise

    @staticmethod
    def infer(a: Type, b: Type) -> Type:
        if not a.ndim or not b.ndim:
            raise ShapeError(
                f"matmul needs arrays of at least one dimension, got {shape_text(a.shape)} and {shape_text(b.shape)}",
                fix="use * to multiply by a number",
            )
        if a.shape[-1] != b.shape[max(b.ndim - 2, 0)]:
            raise cannot_multiply(a.shape, b.shape)
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        shape = (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ()))
        return Type(np.result_type(a.dtype, b.dtype), shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        a, b = ctx.inputs
        needs = ctx.needs_input_grad
        shapes = tuple(t.shape for t in ctx.types)
        return (
            _left_cotangent(g, conj(b), shapes) if needs[0] else None,
            _right_cotangent(g, conj(a), shapes) if needs[1] else None,
        )


def cannot_multiply(a: Shape, b: Shape) -> ShapeError:
    return ShapeError(
        f"matmul of arrays of the shapes {shape_text(a)} and {shape_text(b)}: the last size of the first, {a[-1]}, is "
        f"not the {'last but one' if len(b) > 1 else 'only'} size of the second, {b[max(len(b) - 2, 0)]}",
        fix="transpose one of them with .T",
    )


def _left_cotangent(g: Any, b: Any, shapes: tuple[Shape, Shape]) -> Any:
    """g @ bᵀ; the caller sums over axes that were broadcast."""
    a_shape, b_shape = shapes
    if type(g) is type(b) is np.ndarray and len(a_shape) <= 2 and len(b_shape) == 2:
        return np.matmul(b, g) if len(a_shape) == 1 else np.matmul(g, b.T)
    if len(b_shape) == 1:
        return multiply(g, b) if len(a_shape) == 1 else multiply(expand_dims(g, -1), b)
    if len(a_shape) == 1:
        return (
            matmul(b, g) if len(b_shape) == 2 else reshape(matmul(b, expand_dims(g, -1)), (*b_shape[:-2], b_shape[-2]))
        )
    if len(a_shape) == 2 and len(b_shape) > 2:
        return tensordot(g, b, ((*range(len(b_shape) - 2), -1), (*range(len(b_shape) - 2), -1)))
    return matmul(g, swapaxes(b, -1, -2))


def _right_cotangent(g: Any, a: Any, shapes: tuple[Shape, Shape]) -> Any:
    """aᵀ @ g; the caller sums over axes that were broadcast."""
    a_shape, b_shape = shapes
    if type(g) is type(a) is np.ndarray and len(a_shape) == 2 and len(b_shape) <= 2:
        return np.matmul(a.T, g)
    if len(a_shape) == 1:
        return multiply(g, a) if len(b_shape) == 1 else multiply(expand_dims(a, -1), expand_dims(g, -2))
    if len(b_shape) <= 2:
        # All rows at once: one product instead of a stack of products to be summed.
        rows = reshape(a, (product(a_shape[:-1]), a_shape[-1]))
        columns = g.shape[len(a_shape) - 1 :]
        return matmul(transpose(rows), reshape(g, (rows.shape[0], *columns)))
    return matmul(swapaxes(a, -1, -2), g)


@implements(np.matmul, np.linalg.matmul)
def matmul(x1: Any, x2: Any, /) -> Any:
    """`x1 @ x2`. Raises ShapeError."""
    return MatMul.apply(operand(x1), operand(x2))


@implements(np.matvec)
def matvec(x1: Any, x2: Any, /) -> Any:
    """Matrices times the vectors along the last axis of `x2`."""
    return squeeze(matmul(x1, expand_dims(operand(x2), -1)), -1)


@implements(np.vecmat)
def vecmat(x1: Any, x2: Any, /) -> Any:
    """The conjugate vectors along the last axis of `x1` times matrices."""
    return squeeze(matmul(expand_dims(conj(operand(x1)), -2), x2), -2)


@implements(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """NumPy's dot: over the last axis of `a` and the last but one (or only) of `b`; numbers multiply."""
    x, y = operand(a), operand(b)
    if not x.ndim or not y.ndim:
        return multiply(x, y)
    if x.ndim <= 2 and y.ndim <= 2:
        return matmul(x, y)
    return tensordot(x, y, (-1, -2 if y.ndim > 1 else -1))


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """The scalar product of all elements, those of `a` conjugated."""
    return matmul(conj(ravel(a)), ravel(b))


@implements(np.linalg.vecdot, np.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Scalar products along an axis, which broadcast over the others; elements of `x1` are conjugated."""
    a, b = operand(x1), operand(x2)
    if axis != -1:
        a, b = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"vecdot along axes of sizes {a.shape[-1]} and {b.shape[-1]}")
    products = multiply(conj(a), b)
    return tensor_sum(products, axis=-1, dtype=products.dtype)


@implements(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    """Over the last axes of both."""
    x, y = operand(a), operand(b)
    return multiply(x, y) if not x.ndim or not y.ndim else tensordot(x, y, (-1, -1))


@implements(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """All products of an element of `a` with one of `b`, both flattened."""
    x, y = operand(a), operand(b)
    return multiply(reshape(x, (x.size, 1)), y if y.ndim == 1 else ravel(y))


@implements(np.linalg.outer)
def linalg_outer(x1: Any, x2: Any, /) -> Any:
    """As np.outer, for vectors only."""
    if operand(x1).ndim != 1 or operand(x2).ndim != 1:
        raise ShapeError("linalg.outer takes two vectors", fix="np.outer flattens its arguments")
    return outer(x1, x2)


@implements(np.tensordot, np.linalg.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum of products over pairs of axes: the last `axes` of `a` with the first of `b`, or two lists of axes."""
    x, y = operand(a), operand(b)
    left, right = _contracted(axes, x.ndim, y.ndim)
    if any(x.shape[i] != y.shape[j] for i, j in zip(left, right, strict=True)):
        raise ShapeError(
            f"tensordot over axes {left} of shape {shape_text(x.shape)} and axes {right} of shape {shape_text(y.shape)}"
            ": their sizes differ"
        )
    kept_left = tuple(i for i in range(x.ndim) if i not in left)
    kept_right = tuple(j for j in range(y.ndim) if j not in right)
    shape = (*(x.shape[i] for i in kept_left), *(y.shape[j] for j in kept_right))
    inner_size = product(x.shape[i] for i in left)
    rows = reshape(transpose(x, (*kept_left, *left)), (product(x.shape[i] for i in kept_left), inner_size))
    columns = reshape(transpose(y, (*right, *kept_right)), (inner_size, product(y.shape[j] for j in kept_right)))
    return reshape(matmul(rows, columns), shape)


def _contracted(axes: Any, ndim_a: int, ndim_b: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if not isinstance(axes, Sequence):
        count = int(axes)
        if not 0 <= count <= min(ndim_a, ndim_b):
            raise ShapeError(f"cannot contract {count} axes of arrays of {ndim_a} and {ndim_b} dimensions")
        return tuple(range(ndim_a - count, ndim_a)), tuple(range(count))
    left, right = (tuple(a) if isinstance(a, (tuple, list)) else (a,) for a in axes)
    if len(left) != len(right):
        raise ShapeError(f"tensordot pairs axes {left} with {right}: give as many of the one as of the other")
    return tuple(normalize_axis(i, ndim_a) for i in left), tuple(normalize_axis(j, ndim_b) for j in right)


@implements(np.kron)
def kron(a: Any, b: Any) -> Any:
    """The Kronecker product."""
    x, y = operand(a), operand(b)
    ndim = max(x.ndim, y.ndim)
    x, y = (reshape(z, (1,) * (ndim - z.ndim) + z.shape) for z in (x, y))
    sizes = zip(x.shape, y.shape, strict=True)
    left = reshape(x, tuple(d for m in x.shape for d in (m, 1)))
    right = reshape(y, tuple(d for n in y.shape for d in (1, n)))
    return reshape(multiply(left, right), tuple(m * n for m, n in sizes))


@implements(np.cross, np.linalg.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """The vector product of vectors of size 3 (or 2, taken as lying in a plane) along an axis."""
    from tracegrad.ops.arithmetic import subtract
    from tracegrad.ops.indexing import getitem
    from tracegrad.ops.joining import stack

    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = moveaxis(operand(a), axisa, -1), moveaxis(operand(b), axisb, -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ShapeError(f"cross takes vectors of size 2 or 3, got {x.shape[-1]} and {y.shape[-1]}")
    u, v = ([getitem(z, (..., i)) for i in range(z.shape[-1])] for z in (x, y))

    def minor(i: int, j: int) -> Any:
        terms = [multiply(p[m], q[n]) for p, q, m, n in ((u, v, i, j), (u, v, j, i)) if m < len(p) and n < len(q)]
        if len(terms) == 2:
            return subtract(*terms)
        return terms[0] if i < len(u) and j < len(v) else np.negative(terms[0])

    if len(u) == len(v) == 2:
        return minor(0, 1)
    return moveaxis(stack([minor(1, 2), minor(2, 0), minor(0, 1)], -1), -1, axisc)


@implements(np.linalg.multi_dot)
def multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Any:
    """The product of several matrices (the first and last may be vectors), in the cheapest order."""
    factors = [operand(a) for a in arrays]
    if len(factors) < 2:
        raise ShapeError("multi_dot needs at least two arrays")
    if len(factors) == 2:
        return dot(*factors, out=out)  # of any dimensions, as in NumPy
    if any(f.ndim != 2 for f in factors[1:-1]) or any(f.ndim not in (1, 2) for f in (factors[0], factors[-1])):
        raise ShapeError(
            "multi_dot of arrays of shapes " + " ".join(shape_text(f.shape) for f in factors),
            fix="give matrices; the first and the last may be vectors",
        )
    row, column = factors[0].ndim == 1, factors[-1].ndim == 1
    if row:
        factors[0] = expand_dims(factors[0], 0)
    if column:
        factors[-1] = expand_dims(factors[-1], 1)
    result = _product_of(
        factors, _best_splits([factors[0].shape[0], *(f.shape[1] for f in factors)]), 0, len(factors) - 1
    )
    kept = (*(() if row else (result.shape[0],)), *(() if column else (result.shape[1],)))
    return finish(reshape(result, kept), out)


def _best_splits(sizes: list[DimLike]) -> dict[tuple[int, int], int]:
    """Where to part each subchain: the dynamic program of Cormen et al., Introduction to Algorithms, section 15.2."""
    count = len(sizes) - 1
    if not all(isinstance(s, int) for s in sizes):
        return {(i, j): j - 1 for i in range(count) for j in range(i + 1, count)}
    cost = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = {k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)}
            split[i, j] = min(options, key=options.__getitem__)
            cost[i, j] = options[split[i, j]]
    return split


def _product_of(factors: list[Any], split: dict[tuple[int, int], int], first: int, last: int) -> Any:
    if first == last:
        return factors[first]
    middle = split[first, last]
    return matmul(_product_of(factors, split, first, middle), _product_of(factors, split, middle + 1, last))


@implements(np.linalg.matrix_power)
def matrix_power(a: Any, n: int) -> Any:
    """`a` multiplied n times with itself, by repeated squaring; negative powers invert it first."""
    from tracegrad.ops.creation import eye
    from tracegrad.ops.solve import inv

    x = operand(a)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"a power needs square matrices, got an array of shape {shape_text(x.shape)}")
    if n < 0:
        x, n = inv(x), -n
    if n == 0:
        return broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape)
    result = None
    while n:
        if n & 1:
            result = x if result is None else matmul(result, x)
        n >>= 1
        x = matmul(x, x) if n else x
    return result
