"""The derivative of a product without a division: for each element the product of all others."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.ir.dims import Dim, product
from tracegrad.ops.arithmetic import Add, Mul
from tracegrad.ops.creation import ones_like
from tracegrad.ops.shape import reshape, transpose
from tracegrad.ops.slicing import Slice, Unslice
from tracegrad.state import state


def products_of_others(x: Any, axis: tuple[int, ...]) -> Any:
    """Per element of `x` the product over `axis` of the elements beside it; exact and differentiable at zeros."""
    kept = tuple(i for i in range(x.ndim) if i not in axis)
    order = (*kept, *axis)
    moved = transpose(x, order)
    rows = reshape(moved, (product(x.shape[i] for i in kept), product(x.shape[i] for i in axis)))
    others = _others(rows) if not isinstance(rows.shape[1], Dim) else _others_by_scans(rows)
    return transpose(reshape(others, moved.shape), tuple(order.index(i) for i in range(x.ndim)))


def _others(x: Any) -> Any:
    """Along the rows of a matrix, by a tree: neighbours are multiplied in pairs, and each pair's result comes back
    to its two members, multiplied by the partner."""
    if type(x) is np.ndarray and state.trace is None:
        return _others_of_array(x)
    rows, n = x.shape
    if n <= 1:
        return ones_like(x)
    half = n // 2
    left, right = _every_second(x, 0, half), _every_second(x, 1, half)
    pairs = Mul.apply(left, right)
    if n % 2:
        last = Slice.apply(x, start=(0, n - 1), size=(rows, 1), step=(1, 1))
        pairs = Add.apply(_placed(pairs, (rows, half + 1), 0, 1), _placed(last, (rows, half + 1), half, 1))
    outside = _others(pairs)
    of_pairs = Slice.apply(outside, start=(0, 0), size=(rows, half), step=(1, 1)) if n % 2 else outside
    result = Add.apply(
        _placed(Mul.apply(of_pairs, right), (rows, n), 0, 2), _placed(Mul.apply(of_pairs, left), (rows, n), 1, 2)
    )
    if n % 2:
        of_last = Slice.apply(outside, start=(0, half), size=(rows, 1), step=(1, 1))
        result = Add.apply(result, _placed(of_last, (rows, n), n - 1, 1))
    return result


def _others_of_array(x: np.ndarray) -> np.ndarray:
    """Of numbers: products of what comes before times products of what comes after."""
    before, after = np.ones_like(x), np.ones_like(x)
    np.multiply.accumulate(x[:, :-1], axis=1, out=before[:, 1:])
    np.multiply.accumulate(x[:, :0:-1], axis=1, out=after[:, -2::-1])
    return before * after


def _every_second(x: Any, first: int, count: int) -> Any:
    return Slice.apply(x, start=(0, first), size=(x.shape[0], count), step=(1, 2))


def _placed(x: Any, shape: tuple[Any, Any], first: int, step: int) -> Any:
    return Unslice.apply(x, shape=shape, start=(0, first), step=(1, step), fill=0)


def _others_by_scans(x: Any) -> Any:
    """The same for rows of symbolic length: products of what comes before times products of what comes after."""
    from tracegrad.ops.cumulative import cumprod

    rows, n = x.shape

    def before(values: Any) -> Any:
        running = cumprod(values, axis=1)
        head = Slice.apply(running, start=(0, 0), size=(rows, n - 1), step=(1, 1))
        return Unslice.apply(head, shape=(rows, n), start=(0, 1), step=(1, 1), fill=1)

    backwards = Slice.apply(x, start=(0, n - 1), size=(rows, n), step=(1, -1))
    after = Slice.apply(before(backwards), start=(0, n - 1), size=(rows, n), step=(1, -1))
    return Mul.apply(before(x), after)
