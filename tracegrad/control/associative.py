"""`associative_scan`: all partial results of an associative operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad import tree
from tracegrad.control.carry import check_structure, join_types, leaf_names, type_of
from tracegrad.control.counted import traced_scan
from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.dims import DimLike
from tracegrad.ops.base import normalize_axis
from tracegrad.state import state
from tracegrad.trace.tracer import Trace

WHAT = "associative_scan"


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """The partial results e₀, fn(e₀, e₁), fn(fn(e₀, e₁), e₂), … of the elements along `axis`, stacked along it.

    fn:       associative: fn(fn(a, b), c) is fn(a, fn(b, c)). It gets two trees of arrays like `elems`, in which `axis`
              is there and has any size, the same in both, and returns one like them: write it for all elements at once.
    elems:    an array with at least one axis, or a tree of them, all of the same size along `axis`.
    reverse:  start from the end; then fn's first argument stands behind its second.

    Compiled, it is one loop that applies fn n - 1 times, to one element at a time, since on a CPU the least work is the
    fastest; eagerly fn is called on O(log n) slices with many elements each. So the order in which fn is applied is not
    part of the meaning. Raises ShapeError for sizes that differ, and ShapeError, DTypeError or ArgumentError where fn
    changes shapes, dtypes or structure. The signature is that of jax.lax.associative_scan.
    """
    leaves, spec = tree.flatten(elems)
    if not leaves:
        raise ArgumentError(f"{WHAT} got no array", fix="pass an array or a tree of arrays as elems")
    axes = [_axis_of(leaf, axis) for leaf in leaves]
    sizes = list(dict.fromkeys(type_of(leaf).shape[a] for leaf, a in zip(leaves, axes, strict=True)))
    if len(sizes) > 1:
        raise ShapeError(
            f"the arrays of {WHAT} have different sizes along axis {axis}: {', '.join(map(str, sizes))}",
            fix="give all of them the same number of elements",
        )
    if isinstance(sizes[0], int) and sizes[0] < 2:
        return elems
    names = leaf_names(elems)

    def combine(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        result, result_spec = tree.flatten(fn(tree.unflatten(spec, list(a)), tree.unflatten(spec, list(b))))
        check_structure(WHAT, spec, result_spec)
        join_types(WHAT, names, list(map(type_of, b)), list(map(type_of, result)))
        return result

    if state.trace is not None:
        return tree.unflatten(spec, _loop(state.trace, combine, leaves, axes, sizes[0], reverse))
    if reverse:
        leaves = [np.flip(leaf, a) for leaf, a in zip(leaves, axes, strict=True)]
    results = _halving(combine, leaves, axes)
    if reverse:
        results = [np.flip(leaf, a) for leaf, a in zip(results, axes, strict=True)]
    return tree.unflatten(spec, results)


def _axis_of(leaf: Any, axis: int) -> int:
    ndim = type_of(leaf).ndim
    if not ndim:
        raise ShapeError(
            f"{WHAT} runs along an axis, but a leaf of elems is a single number",
            fix="put it into an array with one element per step, or use it from outside fn",
        )
    return normalize_axis(axis, ndim)


def _loop(trace: Trace, combine: Any, leaves: list[Any], axes: list[int], size: DimLike, reverse: bool) -> list[Any]:
    """One element after the other, in a native loop."""
    columns = [np.moveaxis(leaf, a, 0) for leaf, a in zip(leaves, axes, strict=True)]
    first = [x[-1:] if reverse else x[:1] for x in columns]
    rest = [x[:-1] if reverse else x[1:] for x in columns]

    def step(total: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        def placed(values: list[Any]) -> list[Any]:
            return [np.expand_dims(v, a) for v, a in zip(values, axes, strict=True)]

        results = combine(placed(total), placed(x))
        found = [np.squeeze(r, a) for r, a in zip(results, axes, strict=True)]
        return found, found

    xs = tree.flatten(rest)
    _, ys = traced_scan(trace, step, [x[0] for x in first], xs, size - 1, reverse, 1, WHAT)
    joined = [np.concatenate([y, x] if reverse else [x, y]) for x, y in zip(first, ys, strict=True)]
    return [np.moveaxis(x, 0, a) for x, a in zip(joined, axes, strict=True)]


def _halving(combine: Any, leaves: list[Any], axes: list[int]) -> list[Any]:
    """Pairs first, then the partial results of the pairs, then those between them (Ladner & Fischer 1980)."""

    def part(values: list[Any], where: slice) -> list[Any]:
        return [v[(*(slice(None),) * a, where)] for v, a in zip(values, axes, strict=True)]

    size = leaves[0].shape[axes[0]]
    if size < 2:
        return leaves
    pairs = combine(part(leaves, slice(0, size - 1, 2)), part(leaves, slice(1, None, 2)))
    odd = _halving(combine, pairs, axes)
    if size == 2:
        even = part(leaves, slice(0, 1))
    else:
        between = combine(part(odd, slice(0, (size - 1) // 2)), part(leaves, slice(2, None, 2)))
        even = [np.concatenate(pair, a) for *pair, a in zip(part(leaves, slice(0, 1)), between, axes, strict=True)]
    return [_interleaved(x, y, a) for x, y, a in zip(even, odd, axes, strict=True)]


def _interleaved(even: Any, odd: Any, axis: int) -> Any:
    """x₀, y₀, x₁, y₁, …; one more of the first than of the second, or as many."""
    size = odd.shape[axis]
    head = even[(*(slice(None),) * axis, slice(0, size))]
    shape = (*odd.shape[:axis], 2 * size, *odd.shape[axis + 1 :])
    both = np.reshape(np.stack([head, odd], axis + 1), shape)
    rest = even[(*(slice(None),) * axis, slice(size, None))]
    return both if not rest.shape[axis] else np.concatenate([both, rest], axis)
