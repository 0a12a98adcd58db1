"""np.pad: more elements at the ends of axes, made from constants or from the array itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError, UnsupportedError
from tracegrad.ir.dims import DimLike
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import add, multiply, subtract
from tracegrad.ops.base import normalize_axis
from tracegrad.ops.casting import astype
from tracegrad.ops.joining import concatenate
from tracegrad.ops.operands import as_dim, assume_non_negative, operand, static_integers
from tracegrad.ops.shape import broadcast_to, flip, reshape
from tracegrad.ops.slicing import Unslice, slice_axis
from tracegrad.ops.taking import take

Widths = tuple[tuple[DimLike, DimLike], ...]


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: str = "constant", **kwargs: Any) -> Any:
    """NumPy's pad in the modes constant, empty, edge, reflect, symmetric, wrap, linear_ramp, maximum, minimum, mean.

    `constant_values` and `end_values` may be Tensors. Raises ShapeError for widths that do not fit the array.
    """
    x = operand(array)
    widths = _pairs(pad_width, x.ndim, as_dim)
    if any(isinstance(w, int) and w < 0 for pair in widths for w in pair):
        raise ShapeError("pad widths may not be negative", fix="cut the array with slices instead")
    if mode not in _MODES:
        raise UnsupportedError(f"np.pad has no mode {mode!r} here", fix="use one of " + ", ".join(sorted(_MODES)))
    known, pad_axis = _MODES[mode]
    if unknown := set(kwargs) - known:
        raise ArgumentError(f"np.pad takes no {', '.join(sorted(unknown))} in mode {mode!r}")
    if mode in ("constant", "empty"):
        value = kwargs.get("constant_values", 0)
        if isinstance(value, (int, float, complex)):
            return _fill(x, widths, value)
    for axis, (before, after) in enumerate(widths):
        if before != 0 or after != 0:
            x = pad_axis(x, axis, before, after, **_of_axis(kwargs, axis, x.ndim))
    return x


def _pairs(given: Any, ndim: int, convert: Callable[[Any], Any]) -> tuple[tuple[Any, Any], ...]:
    """A value, a pair, a pair per axis, or a dict from axis to either, as one pair per axis."""
    if isinstance(given, Mapping):
        pairs = [(convert(0), convert(0))] * ndim
        for axis, value in given.items():
            pairs[normalize_axis(axis, ndim)] = _pairs(value, 1, convert)[0]
        return tuple(pairs)
    if isinstance(given, np.ndarray) and given.ndim:
        given = given.tolist() if given.dtype.kind != "i" else _nested(static_integers(given), given.shape)
    rows = given if isinstance(given, (list, tuple)) else (given,)
    rows = (
        [row if isinstance(row, (list, tuple)) else None for row in rows]
        if any(isinstance(row, (list, tuple)) for row in rows)
        else [rows]
    )
    pairs = [tuple(map(convert, (row * 2 if len(row) == 1 else row))) for row in map(_row, rows)]
    if len(pairs) not in (1, ndim) or any(len(pair) != 2 for pair in pairs):
        raise ShapeError(
            f"{given} does not give a pair for each of {ndim} axes", fix="write n, (before, after) or one pair per axis"
        )
    return tuple(pairs * ndim if len(pairs) == 1 else pairs)


def _row(row: Any) -> tuple[Any, ...]:
    if row is None:
        raise ShapeError("numbers and pairs are mixed", fix="write one pair per axis")
    return tuple(row)


def _nested(flat: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    return flat if len(shape) == 1 else [flat[i * shape[-1] : (i + 1) * shape[-1]] for i in range(shape[0])]


def _of_axis(kwargs: Mapping[str, Any], axis: int, ndim: int) -> dict[str, Any]:
    """The keyword arguments, those that may differ by axis as the pair of this one."""
    per_axis = ("constant_values", "end_values", "stat_length")
    return {
        name: _pairs(value, ndim, lambda v: v)[axis] if name in per_axis and value is not None else value
        for name, value in kwargs.items()
    }


def _fill(x: Any, widths: Widths, value: Any) -> Any:
    """Everything around set to one number."""
    shape = tuple(before + d + after for d, (before, after) in zip(x.shape, widths, strict=True))
    fill = np.asarray(value).astype(x.dtype).item()
    return Unslice.apply(x, shape=shape, start=tuple(b for b, _ in widths), step=(1,) * x.ndim, fill=fill)


def _around(x: Any, axis: int, left: Any, right: Any) -> Any:
    return (
        concatenate([part for part in (left, x, right) if part.shape[axis] != 0], axis)
        if (left.shape[axis] != 0 or right.shape[axis] != 0)
        else x
    )


def _stretched(x: Any, axis: int, size: DimLike) -> Any:
    return broadcast_to(x, tuple(size if i == axis else d for i, d in enumerate(x.shape)))


def _constant(x: Any, axis: int, before: DimLike, after: DimLike, constant_values: Any = (0, 0)) -> Any:
    left, right = (_one(v, x) for v in constant_values)
    shape = tuple(1 if i == axis else d for i, d in enumerate(x.shape))
    parts = (_stretched(broadcast_to(v, shape), axis, n) for v, n in ((left, before), (right, after)))
    return _around(x, axis, *parts)


def _one(value: Any, x: Any) -> Any:
    """A number as an array of x's dtype that broadcasts against x."""
    value = astype(operand(value), x.dtype)
    return reshape(value, (1,) * x.ndim)


def _edge(x: Any, axis: int, before: DimLike, after: DimLike) -> Any:
    _need_elements(x, axis, "edge")
    first, last = slice_axis(x, axis, 0, 1), slice_axis(x, axis, x.shape[axis] - 1, 1)
    return _around(x, axis, _stretched(first, axis, before), _stretched(last, axis, after))


def _need_elements(x: Any, axis: int, mode: str) -> None:
    if x.shape[axis] == 0:
        raise ShapeError(f"cannot extend empty axis {axis} in mode {mode!r}", fix="use mode='constant'")


def _mirrored(mode: str, skipped: int) -> Callable[..., Any]:
    """Padding by the array's own elements in reverse; `skipped` of them, the edge, are not repeated."""

    def pad_axis(x: Any, axis: int, before: DimLike, after: DimLike, reflect_type: str = "even") -> Any:
        _need_elements(x, axis, mode)
        size = x.shape[axis]
        if not _within(before, after, size - skipped):
            if reflect_type != "even":
                raise UnsupportedError(f"{reflect_type!r} reflection of more than the array holds")
            return _from_own(x, axis, before, after, mode)
        left = flip(slice_axis(x, axis, skipped, before), axis)
        right = flip(slice_axis(x, axis, size - skipped - after, after), axis)
        if reflect_type == "odd":
            first, last = slice_axis(x, axis, 0, 1), slice_axis(x, axis, size - 1, 1)
            left, right = (subtract(multiply(e, 2), part) for e, part in ((first, left), (last, right)))
        elif reflect_type != "even":
            raise ArgumentError(f"reflect_type must be 'even' or 'odd', not {reflect_type!r}")
        return _around(x, axis, left, right)

    pad_axis.__name__ = f"pad_{mode}"
    return pad_axis


def _within(before: DimLike, after: DimLike, size: DimLike) -> bool:
    return assume_non_negative(size - before) and assume_non_negative(size - after)


def _wrap(x: Any, axis: int, before: DimLike, after: DimLike) -> Any:
    _need_elements(x, axis, "wrap")
    size = x.shape[axis]
    if not _within(before, after, size):
        return _from_own(x, axis, before, after, "wrap")
    return _around(x, axis, slice_axis(x, axis, size - before, before), slice_axis(x, axis, 0, after))


def _from_own(x: Any, axis: int, before: int, after: int, mode: str) -> Any:
    """Wide padding, in which elements occur several times, by the positions NumPy takes."""
    return take(x, np.pad(np.arange(x.shape[axis]), (before, after), mode), axis)


def _linear_ramp(x: Any, axis: int, before: DimLike, after: DimLike, end_values: Any = (0, 0)) -> Any:
    if x.dtype.kind not in "fc":
        raise UnsupportedError("linear_ramp of integers", fix="convert the array to float")
    _need_elements(x, axis, "linear_ramp")
    ends = tuple(_one(v, x) for v in end_values)
    edges = slice_axis(x, axis, 0, 1), slice_axis(x, axis, x.shape[axis] - 1, 1)
    left, right = (_ramp(end, edge, axis, n) for end, edge, n in zip(ends, edges, (before, after), strict=True))
    return _around(x, axis, left, flip(right, axis))


def _ramp(end: Any, edge: Any, axis: int, size: int) -> Any:
    """`size` steps from `end` towards `edge`, which is not among them."""
    steps = (np.arange(size) / max(size, 1)).astype(edge.dtype)
    steps = steps.reshape(tuple(-1 if i == axis else 1 for i in range(edge.ndim)))
    return add(end, multiply(subtract(edge, end), steps))


def _statistic(name: str) -> Callable[..., Any]:
    """Padding by a statistic of the elements next to each end, `stat_length` of them or all."""

    def pad_axis(x: Any, axis: int, before: DimLike, after: DimLike, stat_length: Any = None) -> Any:
        from tracegrad.ops import reduction, statistics

        function = {"maximum": reduction.max, "minimum": reduction.min, "mean": statistics.mean}[name]
        if name == "mean" and x.dtype.kind not in "fc":
            raise UnsupportedError("padding integers with their mean", fix="convert the array to float")
        _need_elements(x, axis, name)
        size = x.shape[axis]
        left, right = (size, size) if stat_length is None else (min(as_dim(n), size) for n in stat_length)
        first = function(slice_axis(x, axis, 0, left), axis=axis, keepdims=True)
        last = function(slice_axis(x, axis, size - right, right), axis=axis, keepdims=True)
        return _around(x, axis, _stretched(first, axis, before), _stretched(last, axis, after))

    pad_axis.__name__ = f"pad_{name}"
    return pad_axis


_MODES: dict[str, tuple[set[str], Callable[..., Any]]] = {
    "constant": ({"constant_values"}, _constant),
    "empty": (set(), _constant),
    "edge": (set(), _edge),
    "reflect": ({"reflect_type"}, _mirrored("reflect", 1)),
    "symmetric": ({"reflect_type"}, _mirrored("symmetric", 0)),
    "wrap": (set(), _wrap),
    "linear_ramp": ({"end_values"}, _linear_ramp),
    "maximum": ({"stat_length"}, _statistic("maximum")),
    "minimum": ({"stat_length"}, _statistic("minimum")),
    "mean": ({"stat_length"}, _statistic("mean")),
}
