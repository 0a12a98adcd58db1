"""np.einsum: parsed here, then worked out two operands at a time as products of matrices, or product and sum."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.dims import DimLike, product
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import multiply
from tracegrad.ops.base import shape_text
from tracegrad.ops.casting import astype, number_dtype
from tracegrad.ops.diagonal import Diagonal
from tracegrad.ops.linalg import MatMul, matmul
from tracegrad.ops.operands import operand
from tracegrad.ops.reduction import sum as tensor_sum
from tracegrad.ops.shape import Reshape, Transpose, moveaxis, reshape, squeeze, transpose
from tracegrad.records import record
from tracegrad.state import state

# A label is a letter, or the number of an axis of the ellipsis, counted from its last one (-1, -2, …).
Label = str | int
Labels = tuple[Label, ...]
Term = tuple[Any, Labels]

_GUESSED_SIZE = 64  # of a symbolic dimension, when orders of contraction are compared


@implements(np.einsum)
def einsum(*operands: Any, out: Any = None, optimize: Any = False, dtype: Any = None, **kwargs: Any) -> Any:
    """NumPy's einsum, in all forms. The order of contractions is chosen by their cost whatever `optimize` says."""
    if out is not None:
        raise ArgumentError("np.einsum has no out= here", fix="assign the result instead")
    if len(operands) == 3 and type(operands[0]) is str and dtype is None and state.trace is None:
        x, y = operand(operands[1]), operand(operands[2])
        product_of = _product_of(operands[0], x.shape, y.shape) if x.dtype == y.dtype else None
        if product_of is not None:
            return product_of.run(x, y)
    texts, result, arrays = _parse(operands)
    common = number_dtype(dtype) if dtype is not None else np.result_type(*(x.dtype for x in arrays))
    terms = [(astype(x, common), labels) for x, labels in zip(arrays, texts, strict=True)]
    sizes = _sizes(terms)
    terms = [_simplified(x, labels, sizes) for x, labels in terms]
    while len(terms) > 1:
        i, j = _cheapest_pair([labels for _, labels in terms], result, sizes)
        left, right = terms[i], terms[j]
        terms = [t for n, t in enumerate(terms) if n not in (i, j)]
        kept = _ordered({*result, *(label for _, labels in terms for label in labels)}, result)
        terms.append(_contract(left, right, kept))
    return _arranged(terms[0], result)


# ---- reading the subscripts ---------------------------------------------------------------------------------------


def _parse(operands: Sequence[Any]) -> tuple[list[Labels], Labels, list[Any]]:
    """The labels of each operand, those of the result, and the operands."""
    if not operands:
        raise ArgumentError("np.einsum needs subscripts and operands", fix="write np.einsum('ij,j->i', A, x)")
    if isinstance(operands[0], str):
        arrays = [operand(x) for x in operands[1:]]
        return *_read(operands[0], tuple([x.ndim for x in arrays])), arrays
    count = len(operands) // 2
    arrays = [operand(x) for x in operands[: 2 * count : 2]]
    terms = [_from_list(labels) for labels in operands[1 : 2 * count : 2]]
    result = _from_list(operands[-1]) if len(operands) % 2 else None
    return *_labels(terms, result, tuple([x.ndim for x in arrays])), arrays


@functools.lru_cache(maxsize=1024)
def _read(text: str, ndims: tuple[int, ...]) -> tuple[list[Labels], Labels]:
    """The labels of operands of so many dimensions, and of the result."""
    before, arrow, after = text.replace(" ", "").partition("->")
    return _labels([_split(term) for term in before.split(",")], _split(after) if arrow else None, ndims)


def _labels(terms: list[list[Any]], result: list[Any] | None, ndims: tuple[int, ...]) -> tuple[list[Labels], Labels]:
    if len(terms) != len(ndims):
        raise ShapeError(f"the subscripts name {len(terms)} operands, {len(ndims)} were given")
    labels = [_with_axes(term, ndim) for term, ndim in zip(terms, ndims, strict=True)]
    width = max((-min((n for n in term if isinstance(n, int)), default=0) for term in labels), default=0)
    ellipsis = tuple(range(-width, 0))
    used = [label for term in labels for label in term]
    if result is None:
        once = sorted({n for n in used if isinstance(n, str) and used.count(n) == 1})
        return labels, (*ellipsis, *once)
    return labels, _checked_result(result, ellipsis, used)


def _checked_result(result: list[Any], ellipsis: Labels, used: list[Label]) -> Labels:
    if ellipsis and Ellipsis not in result:
        raise ShapeError(
            "the operands have an ellipsis (...), the result has not", fix="write ... in the result, or sum over it"
        )
    labels = tuple(part for label in result for part in (ellipsis if label is Ellipsis else (label,)))
    for label in labels:
        if label not in used or labels.count(label) > 1:
            raise ShapeError(
                f"the result has the subscript {label!r} " + ("twice" if label in used else "that no operand has"),
                fix="name each subscript of the result once, and in some operand",
            )
    return labels


def _split(text: str) -> list[Any]:
    """'ab...c' as ['a', 'b', Ellipsis, 'c']."""
    head, dots, tail = text.partition("...")
    if not all(c.isascii() and c.isalpha() for c in head + tail):
        raise ShapeError(f"{text!r} is not a row of subscripts", fix="use letters, and ... at most once per operand")
    return [*head, *([Ellipsis] if dots else []), *tail]


def _from_list(labels: Iterable[Any]) -> list[Any]:
    """A list of numbers as letters in the same order."""
    names = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    return [label if label is Ellipsis else names[int(label)] for label in labels]


def _with_axes(term: list[Any], ndim: int) -> Labels:
    """The labels of one operand, those of its ellipsis written out."""
    named = sum(label is not Ellipsis for label in term)
    if named > ndim or (Ellipsis not in term and named != ndim):
        text = "".join("..." if n is Ellipsis else n for n in term)
        raise ShapeError(f"the subscripts {text!r} do not go with an operand of {ndim} dimensions")
    width = ndim - named
    return tuple(part for n in term for part in (range(-width, 0) if n is Ellipsis else (n,)))


def _sizes(terms: list[Term]) -> dict[Label, DimLike]:
    sizes: dict[Label, DimLike] = {}
    for x, labels in terms:
        for label, size in zip(labels, x.shape, strict=True):
            known = sizes.setdefault(label, size)
            if known == 1:
                sizes[label] = size
            elif size not in (1, known):
                shapes = ", ".join(shape_text(y.shape) for y, _ in terms)
                raise ShapeError(f"einsum: subscript {label!r} has the sizes {known} and {size} in the shapes {shapes}")
    return sizes


# ---- most of what is written ---------------------------------------------------------------------------------------


@record
class _Product:
    """One product of matrices: the axes and the shape in which each operand is one, and those of the result; None where
    they are so already."""

    left: tuple[Any, Any]
    right: tuple[Any, Any]
    shape: Any
    axes: Any

    def run(self, x: Any, y: Any) -> Any:
        (x_axes, x_shape), (y_axes, y_shape) = self.left, self.right
        if x_axes is not None:
            x = Transpose.apply(x, axes=x_axes)
        if x_shape is not None:
            x = Reshape.apply(x, shape=x_shape)
        if y_axes is not None:
            y = Transpose.apply(y, axes=y_axes)
        if y_shape is not None:
            y = Reshape.apply(y, shape=y_shape)
        z = MatMul.apply(x, y)
        if self.shape is not None:
            z = Reshape.apply(z, shape=self.shape)
        return z if self.axes is None else Transpose.apply(z, axes=self.axes)


@functools.lru_cache(maxsize=1024)
def _product_of(text: str, left: tuple[int, ...], right: tuple[int, ...]) -> _Product | None:
    """How an einsum of two operands of these shapes is one product of matrices; None where it is something else."""
    (a, b), result = _read(text, (len(left), len(right)))
    sizes = dict(zip(a, left, strict=True)) | dict(zip(b, right, strict=True))
    batch, rows, summed, columns = _roles(a, b, result)
    fit = all(sizes[n] == d for n, d in zip(a, left, strict=True))
    alone = {*a, *b} - {*batch, *rows, *summed, *columns}  # summed over in one operand before the product
    if not fit or alone or len({*a}) < len(a) or len({*b}) < len(b) or not _is_matmul(batch, rows, summed, columns):
        return None
    ways = []
    for own, shape, groups in ((a, left, (rows, summed)), (b, right, (summed, columns))):
        axes, wanted = _as_matrix(own, sizes, batch, *groups)
        moved = tuple(shape[i] for i in axes)
        ways.append((None if axes == tuple(range(len(axes))) else axes, None if wanted == moved else wanted))
    labels = (*batch, *rows, *columns)
    full = tuple(sizes[n] for n in labels)
    whole = len(batch) + (len(rows) == 1) + (len(columns) == 1)
    order = tuple(labels.index(n) for n in result)
    return _Product(
        *ways, None if whole == len(labels) and (not batch or (rows and columns)) else full,
        None if order == tuple(range(len(order))) else order,
    )  # fmt: skip


# ---- working it out -----------------------------------------------------------------------------------------------


def _simplified(x: Any, labels: Labels, sizes: dict[Label, DimLike]) -> Term:
    """Without broadcast axes and without repeated labels, whose diagonal is taken."""
    stretched = tuple(i for i, n in enumerate(labels) if x.shape[i] == 1 and sizes[n] != 1)
    if not stretched and len(set(labels)) == len(labels):
        return x, labels
    x, labels = squeeze(x, stretched), tuple(n for i, n in enumerate(labels) if i not in stretched)
    for label in sorted({n for n in labels if labels.count(n) > 1}, key=str):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = Diagonal.apply(moveaxis(x, (i, j), (-2, -1)), offset=0)
            labels = (*(n for axis, n in enumerate(labels) if axis not in (i, j)), label)
    return x, labels


def _ordered(labels: set[Label], result: Labels) -> Labels:
    """Those of the result first, in its order, so that the last contraction needs no transposition."""
    return (*(n for n in result if n in labels), *sorted(labels - set(result), key=str))


def _cheapest_pair(terms: list[Labels], result: Labels, sizes: dict[Label, DimLike]) -> tuple[int, int]:
    """The two operands whose contraction takes the fewest multiplications; of equal ones the smallest result."""
    if len(terms) == 2:
        return 0, 1

    def extent(labels: Iterable[Label]) -> int:
        out = 1
        for n in labels:
            out *= sizes[n] if isinstance(sizes[n], int) else _GUESSED_SIZE
        return out

    def cost(pair: tuple[int, int]) -> tuple[int, int]:
        both = {*terms[pair[0]], *terms[pair[1]]}
        others = {n for k, labels in enumerate(terms) if k not in pair for n in labels}
        return extent(both), extent(both & {*result, *others})

    return min(((i, j) for i in range(len(terms)) for j in range(i + 1, len(terms))), key=cost)


def _summed(term: Term, kept: Iterable[Label]) -> Term:
    """With the labels summed over that nobody wants any more."""
    x, labels = term
    axes = tuple(i for i, n in enumerate(labels) if n not in kept)
    return (tensor_sum(x, axis=axes, dtype=x.dtype), tuple(n for n in labels if n in kept)) if axes else term


def _arranged(term: Term, result: Labels) -> Any:
    x, labels = _summed(term, result)
    return transpose(x, tuple(labels.index(n) for n in result))


def _contract(left: Term, right: Term, kept: Labels) -> Term:
    """The product of two operands, summed over the labels that are not kept."""
    a, b = _summed(left, {*kept, *right[1]}), _summed(right, {*kept, *left[1]})
    batch, rows, summed, columns = _roles(a[1], b[1], kept)
    if not _is_matmul(batch, rows, summed, columns):
        labels = tuple(n for n in kept if n in a[1] or n in b[1])
        return _summed(
            (multiply(_aligned(a, (*labels, *summed)), _aligned(b, (*labels, *summed))), (*labels, *summed)), labels
        )
    x = _as_matrices(a, batch, rows, summed)
    y = _as_matrices(b, batch, summed, columns)
    sizes = dict(zip(a[1], a[0].shape, strict=True)) | dict(zip(b[1], b[0].shape, strict=True))
    labels = (*batch, *rows, *columns)
    return reshape(matmul(x, y), tuple(sizes[n] for n in labels)), labels


def _aligned(term: Term, labels: Labels) -> Any:
    """The axes in the order of `labels`, with size 1 where there is none of the name."""
    x, own = term
    sizes = dict(zip(own, x.shape, strict=True))
    x = transpose(x, tuple(own.index(n) for n in labels if n in own))
    return reshape(x, tuple(sizes.get(n, 1) for n in labels))


def _roles(a: Labels, b: Labels, kept: Labels) -> tuple[Labels, Labels, Labels, Labels]:
    """The labels of both that are kept, those of the first alone, those of both that are not kept, of the second."""
    shared = set(a) & set(b)
    rows, columns = (tuple(n for n in kept if n in labels and n not in shared) for labels in (a, b))
    return tuple(n for n in kept if n in shared), rows, tuple(n for n in a if n in shared and n not in kept), columns


def _is_matmul(batch: Labels, rows: Labels, summed: Labels, columns: Labels) -> bool:
    """Whether labels of these roles are worth a product of matrices."""
    return bool(summed) and not (batch and not rows and not columns)


def _as_matrices(term: Term, batch: Labels, first: Labels, second: Labels) -> Any:
    x, own = term
    axes, shape = _as_matrix(own, dict(zip(own, x.shape, strict=True)), batch, first, second)
    return reshape(transpose(x, axes), shape)


def _as_matrix(
    own: Labels, sizes: dict[Label, Any], batch: Labels, first: Labels, second: Labels
) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Axes transposed to (batch…, first, second), each of the two groups as one axis; the order and the shape.

    A group without labels is left away if there is no batch: matmul then takes a vector.
    """
    groups = [group for group in (first, second) if group or batch]
    shape = (*(sizes[n] for n in batch), *(product(sizes[n] for n in group) for group in groups))
    return tuple(own.index(n) for n in (*batch, *first, *second)), shape
