"""Pooling over windows of one or two axes. Equal maxima in a window share the gradient equally."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.nn.functional.arguments import floats, sizes, with_ndim
from tracegrad.ops.base import shape_text
from tracegrad.ops.creation import as_tensor
from tracegrad.ops.windows import sliding_windows
from tracegrad.records import record

_LAYOUT = {1: "(N, C, L) or (C, L)", 2: "(N, C, H, W) or (C, H, W)"}
Sizes = tuple[int, ...]


@record
class _Plan:
    """Where the windows lie: padding before and after each axis, and how many windows there are."""

    kernel: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes
    after: Sizes
    size: Sizes


def _plan(n: int, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, what: str) -> _Plan:
    window = sizes(kernel, n, f"{what}: kernel_size")
    step = window if stride is None or stride == () else sizes(stride, n, f"{what}: stride")
    pads, spread = sizes(padding, n, f"{what}: padding", least=0), sizes(dilation, n, f"{what}: dilation")
    after, counts = [], []
    for w, k, s, p, d in zip(x.shape[-n:], window, step, pads, spread, strict=True):
        reach = d * (k - 1) + 1
        if 2 * p > reach:
            raise ArgumentError(f"{what}: padding {p} exceeds half of the kernel, which reaches over {reach}")
        free = w + 2 * p - reach
        count = (-(-free // s) if ceil_mode else free // s) + 1
        if ceil_mode and (count - 1) * s >= w + p:
            count -= 1  # a window must not start in the padding after the input
        if free < 0 and not (ceil_mode and count > 0):
            raise ShapeError(
                f"{what}: a window that reaches over {reach} does not fit into the input of shape "
                f"{shape_text(x.shape)} with padding {p}",
                fix="use a smaller kernel_size",
            )
        after.append(max(p, (count - 1) * s + reach - w - p))
        counts.append(count)
    return _Plan(window, step, pads, spread, tuple(after), tuple(counts))


def _windows(x: Any, plan: _Plan, fill: float) -> Any:
    """(…, kernel offsets flattened, *places)."""
    n = len(plan.kernel)
    widths = list(zip(plan.padding, plan.after, strict=True))
    if any(map(any, widths)):
        x = np.pad(x, [(0, 0)] * (x.ndim - n) + widths, constant_values=fill)
    return sliding_windows(x, plan.kernel, plan.stride, plan.dilation, plan.size)


def max_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """The maximum of each window of (N, C, L) or (C, L); with `return_indices` also where it lies."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """The maximum of each window of (N, C, H, W) or (C, H, W); with `return_indices` also its flat place in H × W.

    `stride` is the kernel's size unless given. Raises ShapeError where no window fits.
    """
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _max_pool(
    n: int, input: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, where: bool
) -> Any:
    what = f"max_pool{n}d"
    x = with_ndim(as_tensor(input), (n + 1, n + 2), what, _LAYOUT[n])
    plan = _plan(n, x, kernel, stride, padding, dilation, ceil, what)
    lowest = -np.inf if x.dtype.kind == "f" else int(np.iinfo(x.dtype).min)
    windows = _windows(x, plan, lowest)
    axes = tuple(range(x.ndim - n, x.ndim))
    out = windows.max(axis=axes)
    return (out, _places(windows, plan, x.shape[-n:])) if where else out


def _places(windows: Any, plan: _Plan, space: Sizes) -> Any:
    """The flat position in the input of the first maximum of each window."""
    n = len(space)
    lead = windows.shape[: -2 * n]
    flat = windows.detach().reshape((*lead, -1, *plan.size))
    offset = np.argmax(flat, axis=len(lead))
    place: Any = 0
    for axis, (stride, before, spread) in enumerate(zip(plan.stride, plan.padding, plan.dilation, strict=True)):
        inner = int(np.prod(plan.kernel[axis + 1 :]))
        start = (np.arange(plan.size[axis]) * stride - before).reshape((-1,) + (1,) * (n - 1 - axis))
        place = place * space[axis] + (start + offset // inner % plan.kernel[axis] * spread)
    return place


def avg_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """The mean of each window of (N, C, L) or (C, L)."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """The mean of each window of (N, C, H, W) or (C, H, W); zeros of the padding count if `count_include_pad`."""
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _avg_pool(
    n: int, input: Any, kernel: Any, stride: Any, padding: Any, ceil: bool, padding_counts: bool, divisor: int | None
) -> Any:
    what = f"avg_pool{n}d"
    x = with_ndim(floats(input, what), (n + 1, n + 2), what, _LAYOUT[n])
    if divisor == 0:
        raise ArgumentError(f"{what}: divisor_override must not be 0")
    plan = _plan(n, x, kernel, stride, padding, 1, ceil, what)
    total = _windows(x, plan, 0).sum(axis=tuple(range(x.ndim - n, x.ndim)))
    if divisor is not None:
        return total * (1 / divisor)
    counts = _counts(plan, x.shape[-n:], padding_counts)
    if (counts == counts.flat[0]).all():
        return total * (1 / float(counts.flat[0]))
    return total * (1 / counts).astype(x.dtype)


def _counts(plan: _Plan, space: Sizes, padding_counts: bool) -> np.ndarray:
    """How many elements each window's mean is over."""
    counts = np.ones(())
    for size, w, k, s, p in zip(plan.size, space, plan.kernel, plan.stride, plan.padding, strict=True):
        start = np.arange(size) * s - p
        end = np.minimum(start + k, w + p)
        if not padding_counts:
            start, end = np.maximum(start, 0), np.minimum(end, w)
        counts = np.multiply.outer(counts, end - start)
    return counts


# ---- to a given size ----------------------------------------------------------------------------------------------


def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    """Means of `output_size` parts of L; part i goes from floor(i L / size) to ceil((i + 1) L / size)."""
    return _adaptive(1, input, output_size, "avg")


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """Means of output_size parts of H × W; a size that is None is kept."""
    return _adaptive(2, input, output_size, "avg")


def adaptive_max_pool1d(input: Any, output_size: Any) -> Any:
    """Maxima of `output_size` parts of L, which lie as in adaptive_avg_pool1d."""
    return _adaptive(1, input, output_size, "max")


def adaptive_max_pool2d(input: Any, output_size: Any) -> Any:
    """Maxima of output_size parts of H × W; a size that is None is kept."""
    return _adaptive(2, input, output_size, "max")


def _adaptive(n: int, input: Any, output_size: Any, kind: str) -> Any:
    what = f"adaptive_{kind}_pool{n}d"
    x = with_ndim(floats(input, what), (n + 1, n + 2), what, _LAYOUT[n])
    given = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * n
    kept = tuple(w if s is None else s for w, s in zip(x.shape[-n:], given, strict=len(given) == n))
    for axis, size in enumerate(sizes(kept, n, f"{what}: output_size"), x.ndim - n):
        x = _parts_of_axis(x, axis, size, kind)
    return x


def _parts_of_axis(x: Any, axis: int, size: int, kind: str) -> Any:
    length = x.shape[axis]
    if length == 0:
        raise ShapeError(f"adaptive pooling of axis {axis}, which is empty")
    if length % size == 0:
        parts = x.reshape((*x.shape[:axis], size, length // size, *x.shape[axis + 1 :]))
        return parts.mean(axis=axis + 1) if kind == "avg" else parts.max(axis=axis + 1)
    bounds = [(i * length // size, -(-(i + 1) * length // size)) for i in range(size)]
    if kind == "max":
        before = (slice(None),) * axis
        return np.stack([x[(*before, slice(a, b))].max(axis=axis) for a, b in bounds], axis=axis)
    weights = np.zeros((length, size), x.dtype)
    for i, (a, b) in enumerate(bounds):
        weights[a:b, i] = 1 / (b - a)
    return np.moveaxis(np.moveaxis(x, axis, -1) @ weights, -1, axis)
