"""Convolutions (in the sense of neural networks: correlations) and their transposes, over one or two axes.

A convolution is one matrix product with all windows of the input as rows; its transpose adds the rows of such a product
into overlapping windows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.nn.functional.arguments import floats, sizes, with_ndim
from tracegrad.ops.base import shape_text
from tracegrad.ops.windows import WindowPut, sliding_windows

_LAYOUT = {1: "(N, C, L) or (C, L)", 2: "(N, C, H, W) or (C, H, W)"}
Sizes = tuple[int, ...]


def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Correlation of (N, C, L) or (C, L) with weight (O, C / groups, K); the result is (N, O, L')."""
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Correlation of (N, C, H, W) or (C, H, W) with weight (O, C / groups, KH, KW); the result is (N, O, H', W').

    stride, padding and dilation are integers or one per axis; padding may be 'valid' (none) or 'same' (stride 1 only).
    Raises ShapeError where channels, groups or sizes do not fit.
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


def _conv(n: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    what = f"conv{n}d"
    x = with_ndim(floats(input, what), (n + 1, n + 2), what, _LAYOUT[n])
    weight = floats(weight, what)
    steps, spread = sizes(stride, n, f"{what}: stride"), sizes(dilation, n, f"{what}: dilation")
    _check_weight(x, weight, groups, what, n)
    kernel = tuple(weight.shape[-n:])
    widths = pad_widths(padding, kernel, steps, spread, what)
    if x.ndim == n + 1:
        x = x[None]
        return _conv_batch(x, weight, bias, steps, widths, spread, groups, what)[0]
    return _conv_batch(x, weight, bias, steps, widths, spread, groups, what)


def _check_weight(x: Any, weight: Any, groups: int, what: str, n: int) -> None:
    channels = x.shape[-n - 1]
    if weight.ndim != n + 2 or groups < 1 or weight.shape[0] % groups or weight.shape[1] * groups != channels:
        raise ShapeError(
            f"{what}: an input of shape {shape_text(x.shape)} with {channels} channels does not fit a weight of shape "
            f"{shape_text(weight.shape)} (out, in / groups, …) with groups={groups}",
            fix="the input's channels must be weight.shape[1] * groups, and weight.shape[0] a multiple of groups",
        )


def pad_widths(padding: Any, kernel: Sizes, stride: Sizes, dilation: Sizes, what: str) -> list[tuple[int, int]]:
    """(before, after) for each axis, from an integer, a tuple, 'valid' or 'same'."""
    if padding == "valid":
        return [(0, 0)] * len(kernel)
    if padding == "same":
        if any(s != 1 for s in stride):
            raise ArgumentError(f"{what}: padding='same' is for stride 1 only", fix="give the padding as integers")
        total = (d * (k - 1) for k, d in zip(kernel, dilation, strict=True))
        return [(t // 2, t - t // 2) for t in total]
    if isinstance(padding, str):
        raise ArgumentError(f"{what}: padding is an integer, a tuple, 'valid' or 'same', not {padding!r}")
    return [(p, p) for p in sizes(padding, len(kernel), f"{what}: padding", least=0)]


def _conv_batch(
    x: Any, weight: Any, bias: Any, stride: Sizes, widths: Any, dilation: Sizes, groups: int, what: str
) -> Any:
    n, batch = len(stride), x.shape[0]
    if any(map(any, widths)):
        x = np.pad(x, [(0, 0), (0, 0), *widths])
    kernel = tuple(weight.shape[-n:])
    reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
    if any(w < r for w, r in zip(x.shape[2:], reach, strict=True)):
        raise ShapeError(
            f"{what}: a kernel that reaches over {shape_text(reach)} does not fit into the (padded) input of size "
            f"{shape_text(x.shape[2:])}",
            fix="use a smaller kernel or dilation, or more padding",
        )
    x = x.reshape((batch, groups, weight.shape[1], *x.shape[2:]))
    windows = sliding_windows(x, kernel, stride, dilation)
    places = windows.shape[-n:]
    # (groups, batch, *places, in, *kernel): one row per window.
    order = (1, 0, *range(3 + n, 3 + 2 * n), 2, *range(3, 3 + n))
    length = int(np.prod(weight.shape[1:]))
    rows = windows.transpose(order)
    if groups == 1:
        out = rows.reshape((-1, length)) @ weight.reshape((-1, length)).T
        out = out.reshape((batch, *places, weight.shape[0]))
        out = out if bias is None else out + bias
        return np.moveaxis(out, -1, 1)
    columns = np.swapaxes(weight.reshape((groups, -1, length)), 1, 2)
    out = (rows.reshape((groups, batch * int(np.prod(places)), length)) @ columns).reshape((groups, batch, *places, -1))
    out = np.moveaxis(np.moveaxis(out, -1, 1), 2, 0).reshape((batch, weight.shape[0], *places))
    return out if bias is None else out + bias.reshape((-1, *(1,) * n))


def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The transpose of conv1d with respect to its input: (N, C, L) and weight (C, O / groups, K) give (N, O, L')."""
    return _conv_transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The transpose of conv2d with respect to its input.

    (N, C, H, W) and weight (C, O / groups, KH, KW) give (N, O, H', W') with
    H' = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1.
    """
    return _conv_transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _conv_transpose(
    n: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int,
    dilation: Any,
) -> Any:  # fmt: skip
    what = f"conv_transpose{n}d"
    x = with_ndim(floats(input, what), (n + 1, n + 2), what, _LAYOUT[n])
    if x.ndim == n + 1:
        args = (weight, bias, stride, padding, output_padding, groups, dilation)
        return _conv_transpose(n, x[None], *args)[0]
    weight = floats(weight, what)
    if weight.ndim != n + 2 or groups < 1 or x.shape[1] % groups or weight.shape[0] != x.shape[1]:
        raise ShapeError(
            f"{what}: an input of shape {shape_text(x.shape)} does not fit a weight of shape "
            f"{shape_text(weight.shape)} (in, out / groups, …) with groups={groups}",
            fix="the input's channels must be weight.shape[0], a multiple of groups",
        )
    steps, spread = sizes(stride, n, f"{what}: stride"), sizes(dilation, n, f"{what}: dilation")
    cut = sizes(padding, n, f"{what}: padding", least=0)
    extra = sizes(output_padding, n, f"{what}: output_padding", least=0)
    if any(e >= max(s, d) for e, s, d in zip(extra, steps, spread, strict=True)):
        raise ArgumentError(f"{what}: output_padding {extra} must be smaller than stride or dilation")
    batch, space, kernel = x.shape[0], x.shape[2:], weight.shape[2:]
    rows = x.reshape((batch, groups, -1, int(np.prod(space)))).transpose(1, 0, 3, 2)  # (groups, batch, place, in)
    columns = weight.reshape((groups, x.shape[1] // groups, -1))
    out = rows.reshape((groups, -1, columns.shape[1])) @ columns
    out = out.reshape((groups, batch, *space, weight.shape[1], *kernel))
    order = (1, 0, 2 + n, *range(3 + n, 3 + 2 * n), *range(2, 2 + n))  # (batch, groups, out, *kernel, *space)
    full = tuple(
        (w - 1) * s + d * (k - 1) + 1 + e for w, s, d, k, e in zip(space, steps, spread, kernel, extra, strict=True)
    )
    put = WindowPut.apply(out.transpose(order), size=full, stride=steps, dilation=spread)
    out = put.sum(axis=tuple(range(3, 3 + n))).reshape((batch, -1, *full))
    out = out[(slice(None), slice(None), *(slice(c, f - c) for c, f in zip(cut, full, strict=True)))]
    return out if bias is None else out + bias.reshape((-1, *(1,) * n))
