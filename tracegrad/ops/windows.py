"""Sliding windows over the last axes: what convolution and pooling are made of, and its transpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tracegrad.function import Operation
from tracegrad.ir.index import Affine, Bound, Piece, Quotient
from tracegrad.ir.lowering import IndexMap
from tracegrad.ir.types import Type
from tracegrad.ops.shape import broadcast_to, reshape

Sizes = tuple[int, ...]


def _pick_pieces(
    index: Sequence[Affine], inputs: tuple[Type, ...], out: Type, *, size: Sizes, stride: Sizes, dilation: Sizes
) -> tuple[Piece, ...]:
    n = len(size)
    kernel, place = index[-2 * n : -n], index[-n:]
    read = (p * s + k * d for p, k, s, d in zip(place, kernel, stride, dilation, strict=True))
    return (Piece(0, (*index[:-n], *read)),)


class WindowPick(Operation):
    """`out[…, k, p] = x[…, k, p * stride + k * dilation]`: for offset k of the kernel what window number p holds there.

    x has the axes (…, *kernel, *space), the result (…, *kernel, *size). Eagerly a view.
    """

    name = "window_pick"
    lower = IndexMap(_pick_pieces)
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, size: Sizes, stride: Sizes, dilation: Sizes) -> np.ndarray:
        n = len(size)
        steps = x.strides[-n:]
        offsets = (k + s * d for k, s, d in zip(x.strides[-2 * n : -n], steps, dilation, strict=True))
        strides = (*x.strides[: -2 * n], *offsets, *(s * step for s, step in zip(steps, stride, strict=True)))
        return as_strided(x, (*x.shape[:-n], *size), strides, writeable=False)

    @staticmethod
    def infer(x: Type, *, size: Sizes, stride: Sizes, dilation: Sizes) -> Type:
        return x.with_shape((*x.shape[: -len(size)], *size))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        attrs = ctx.attrs
        space = ctx.types[0].shape[-len(attrs["size"]) :]
        return (WindowPut.apply(g, size=space, stride=attrs["stride"], dilation=attrs["dilation"]),)


def _put_pieces(
    index: Sequence[Affine], inputs: tuple[Type, ...], out: Type, *, size: Sizes, stride: Sizes, dilation: Sizes
) -> tuple[Piece, ...]:
    n = len(size)
    kernel, places = index[-2 * n : -n], index[-n:]
    read: list[Any] = []
    when: list[Bound] = []
    for place, k, s, d, windows in zip(places, kernel, stride, dilation, inputs[0].shape[-n:], strict=True):
        distance = place - k * d
        when += [Bound(distance), Bound(distance * -1 + (windows - 1) * s)]
        if s > 1:
            when.append(Bound(distance, "%", s))
        read.append(Quotient(distance, s) if s > 1 else distance)
    return (Piece(0, (*index[:-n], *read), tuple(when)),)


class WindowPut(Operation):
    """The transpose of WindowPick: zeros, and `out[…, k, p * stride + k * dilation] = x[…, k, p]`."""

    name = "window_put"
    lower = IndexMap(_put_pieces)
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, size: Sizes, stride: Sizes, dilation: Sizes) -> np.ndarray:
        n = len(size)
        out = np.zeros((*x.shape[:-n], *size), x.dtype)
        windows = x.shape[-n:]
        if 0 in windows:
            return out
        every = (slice(None),) * n
        for offset in np.ndindex(*x.shape[-2 * n : -n]):
            spans = (
                slice(k * d, k * d + (w - 1) * s + 1, s)
                for k, d, s, w in zip(offset, dilation, stride, windows, strict=True)
            )
            out[(..., *offset, *spans)] = x[(..., *offset, *every)]
        return out

    @staticmethod
    def infer(x: Type, *, size: Sizes, stride: Sizes, dilation: Sizes) -> Type:
        return x.with_shape((*x.shape[: -len(size)], *size))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        attrs = ctx.attrs
        windows = ctx.types[0].shape[-len(attrs["size"]) :]
        return (WindowPick.apply(g, size=windows, stride=attrs["stride"], dilation=attrs["dilation"]),)


def sliding_windows(x: Any, kernel: Sizes, stride: Sizes, dilation: Sizes, size: Sizes | None = None) -> Any:
    """`out[…, *k, *p] = x[…, *(p * stride + k * dilation)]` over the last `len(kernel)` axes.

    `size` is the number of windows along each axis, all that lie inside if not given. At least one window must.
    """
    n = len(kernel)
    lead, space = x.shape[:-n], x.shape[-n:]
    if size is None:
        size = tuple((w - d * (k - 1) - 1) // s + 1 for w, k, s, d in zip(space, kernel, stride, dilation, strict=True))
    repeated = broadcast_to(reshape(x, (*lead, *(1,) * n, *space)), (*lead, *kernel, *space))
    return WindowPick.apply(repeated, size=size, stride=stride, dilation=dilation)
