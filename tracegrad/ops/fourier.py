"""Discrete Fourier transforms. Values come from NumPy, in compiled programs too.

A transform is linear, so its derivative is its conjugate transpose, which is the inverse transform up to a factor:
with the factors moved to the other side (`norm="forward"` for `"backward"`) it is that exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.function import Operation
from tracegrad.ir.dims import DimLike
from tracegrad.ir.types import Type
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import conj, multiply
from tracegrad.ops.base import normalize_axis, shape_text
from tracegrad.ops.casting import astype, real
from tracegrad.ops.comparison import equal
from tracegrad.ops.creation import dimension
from tracegrad.ops.operands import as_dim, operand, positions, smaller
from tracegrad.ops.reduction import finish
from tracegrad.ops.repeating import roll
from tracegrad.ops.select import where
from tracegrad.ops.shape import reshape
from tracegrad.ops.slicing import Unslice, slice_axis

_SWAPPED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _complex(dtype: np.dtype) -> np.dtype:
    """The dtype in which NumPy transforms values of `dtype`."""
    return np.result_type(dtype if dtype.kind in "fc" else np.float64, np.complex64)


class Fourier(Operation):
    """The transform along some axes of real or complex values, or the inverse one."""

    name = "fourier"
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, axis: tuple[int, ...], inverse: bool, norm: str) -> np.ndarray:
        return (np.fft.ifftn if inverse else np.fft.fftn)(x, axes=axis, norm=norm)  # type: ignore[arg-type]

    @staticmethod
    def infer(x: Type, *, axis: tuple[int, ...], inverse: bool, norm: str) -> Type:
        return x.with_dtype(_complex(x.dtype))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        axis, inverse, norm = (ctx.attrs[name] for name in ("axis", "inverse", "norm"))
        return (Fourier.apply(g, axis=axis, inverse=not inverse, norm=_SWAPPED[norm]),)


class RealFourier(Operation):
    """The first half, size // 2 + 1 numbers, of the transform of real values along an axis; the rest is conjugate."""

    name = "real_fourier"
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, axis: int, norm: str) -> np.ndarray:
        return np.fft.rfft(x, axis=axis, norm=norm)  # type: ignore[arg-type]

    @staticmethod
    def infer(x: Type, *, axis: int, norm: str) -> Type:
        shape = tuple(d // 2 + 1 if i == axis else d for i, d in enumerate(x.shape))
        return Type(_complex(x.dtype), shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        axis, norm = ctx.attrs["axis"], ctx.attrs["norm"]
        n = ctx.types[0].shape[axis]
        halved = multiply(g, _weights(g, axis, n, 0.5))
        return (InverseRealFourier.apply(halved, axis=axis, norm=_SWAPPED[norm], n=n),)


class InverseRealFourier(Operation):
    """The n real values whose transform along an axis begins with the operand, which has size n // 2 + 1 there."""

    name = "inverse_real_fourier"
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, axis: int, norm: str, n: DimLike) -> np.ndarray:
        return np.fft.irfft(x, n, axis=axis, norm=norm)  # type: ignore[arg-type]

    @staticmethod
    def infer(x: Type, *, axis: int, norm: str, n: DimLike) -> Type:
        return Type(
            np.zeros(0, _complex(x.dtype)).real.dtype, tuple(n if i == axis else d for i, d in enumerate(x.shape))
        )

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        axis, norm, n = (ctx.attrs[name] for name in ("axis", "norm", "n"))
        half = RealFourier.apply(g, axis=axis, norm=_SWAPPED[norm])
        return (multiply(half, _weights(half, axis, n, 2.0)),)


def _weights(half: Any, axis: int, n: DimLike, inner: float) -> Any:
    """1 for the frequencies that stand alone, 0 and n / 2; `inner` for those whose conjugates were left out."""
    place = positions(half.shape[axis])
    alone = equal(place, 0) | equal(multiply(place, 2), dimension(n))
    column = tuple(d if i == axis else 1 for i, d in enumerate(half.shape))
    return reshape(where(alone, 1.0, astype(np.asarray(inner), real(half).dtype)), column)


def _fitted(x: Any, axis: int, size: DimLike) -> Any:
    """Cut off, or continued with zeros, along an axis."""
    present = x.shape[axis]
    if size == present:
        return x
    if smaller(size, present) == size:
        return slice_axis(x, axis, 0, size)
    shape = tuple(size if i == axis else d for i, d in enumerate(x.shape))
    return Unslice.apply(x, shape=shape, start=(0,) * x.ndim, step=(1,) * x.ndim, fill=0)


def _norm(norm: Any) -> str:
    if norm not in (None, *_SWAPPED):
        raise ArgumentError(f"norm must be 'backward', 'ortho' or 'forward', not {norm!r}")
    return norm or "backward"


def _checked(a: Any, is_real: bool, name: str) -> Any:
    x = operand(a)
    if is_real and x.dtype.kind == "c":
        raise DTypeError(f"np.fft.{name} transforms real values, got {x.dtype}", fix="use fft, or take np.real(x)")
    return x


def _sizes(x: Any, s: Any, axes: Any, last: Any = None) -> list[tuple[int, DimLike]]:
    """(axis, size) of each transform of several axes, in order."""
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    places = [normalize_axis(i, x.ndim) for i in axes]
    sizes = [-1] * len(places) if s is None else list(s)
    if len(sizes) != len(places) or not places:
        raise ArgumentError(
            f"{len(sizes)} sizes do not go with the axes {tuple(places)} of a shape {shape_text(x.shape)}"
        )
    given = [x.shape[i] if type(n) is int and n == -1 else as_dim(n) for i, n in zip(places, sizes, strict=True)]
    if last is not None and s is None:
        given[-1] = (x.shape[places[-1]] - 1) * 2
    return [(i, _positive(n)) for i, n in zip(places, given, strict=True)]


def _positive(n: DimLike) -> DimLike:
    if isinstance(n, int) and n < 1:
        raise ShapeError(f"a Fourier transform needs at least one point, got {n}")
    return n


def _transform(x: Any, sizes: list[tuple[int, DimLike]], inverse: bool, norm: Any) -> Any:
    norm = _norm(norm)
    for axis, size in sizes:
        x = _fitted(x, axis, size)
    axes = tuple(axis for axis, _ in sizes)
    # NumPy transforms the last axis first; an axis that is named twice, twice.
    parts = [axes] if len(set(axes)) == len(axes) else [(axis,) for axis in reversed(axes)]
    for part in parts:
        x = Fourier.apply(x, axis=part, inverse=inverse, norm=norm)
    return x


def _one(x: Any, n: Any, axis: int) -> list[tuple[int, DimLike]]:
    return _sizes(x, None if n is None else (n,), (axis,))


@implements(np.fft.fft)
def fft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """The transform along one axis, of size n: cut off there, or continued with zeros."""
    x = operand(a)
    return finish(_transform(x, _one(x, n, axis), False, norm), out)


@implements(np.fft.ifft)
def ifft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """The inverse transform along one axis."""
    x = operand(a)
    return finish(_transform(x, _one(x, n, axis), True, norm), out)


@implements(np.fft.fftn)
def fftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """The transform along several axes, by default all."""
    x = operand(a)
    return finish(_transform(x, _sizes(x, s, axes), False, norm), out)


@implements(np.fft.ifftn)
def ifftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """The inverse transform along several axes, by default all."""
    x = operand(a)
    return finish(_transform(x, _sizes(x, s, axes), True, norm), out)


@implements(np.fft.fft2)
def fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """The transform along two axes."""
    return fftn(a, s, axes, norm, out)


@implements(np.fft.ifft2)
def ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """The inverse transform along two axes."""
    return ifftn(a, s, axes, norm, out)


def _half(x: Any, sizes: list[tuple[int, DimLike]], norm: Any, out: Any) -> Any:
    """The last of the axes first, half of it; then the others in full."""
    axis, n = sizes[-1]
    half = RealFourier.apply(_fitted(x, axis, n), axis=axis, norm=_norm(norm))
    return finish(_transform(half, sizes[:-1], False, norm) if sizes[:-1] else half, out)


def _from_half(x: Any, sizes: list[tuple[int, DimLike]], norm: Any, out: Any) -> Any:
    axis, n = sizes[-1]
    x = _transform(x, sizes[:-1], True, norm) if sizes[:-1] else x
    half = _fitted(x, axis, n // 2 + 1)
    return finish(InverseRealFourier.apply(half, axis=axis, norm=_norm(norm), n=n), out)


@implements(np.fft.rfft)
def rfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """The half of the transform of real values along an axis that determines the other."""
    x = _checked(a, True, "rfft")
    return _half(x, _one(x, n, axis), norm, out)


@implements(np.fft.irfft)
def irfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """The real values, n of them, an even number unless it is given, whose transform begins with `a`."""
    x = operand(a)
    return _from_half(x, _sizes(x, None if n is None else (n,), (axis,), "half"), norm, out)


@implements(np.fft.rfftn)
def rfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """The transform of real values along several axes, half of it along the last."""
    x = _checked(a, True, "rfftn")
    return _half(x, _sizes(x, s, axes), norm, out)


@implements(np.fft.irfftn)
def irfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """What rfftn undoes."""
    x = operand(a)
    return _from_half(x, _sizes(x, s, axes, "half"), norm, out)


@implements(np.fft.rfft2)
def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """rfftn along two axes."""
    return rfftn(a, s, axes, norm, out)


@implements(np.fft.irfft2)
def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """irfftn along two axes."""
    return irfftn(a, s, axes, norm, out)


@implements(np.fft.hfft)
def hfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """The real transform of values of which the half is given that determines the conjugate other."""
    return irfft(conj(operand(a)), n, axis, _SWAPPED[_norm(norm)], out)


@implements(np.fft.ihfft)
def ihfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """What hfft undoes."""
    return finish(conj(rfft(_checked(a, True, "ihfft"), n, axis, _SWAPPED[_norm(norm)])), out)


def _shifted(x: Any, axes: Any, back: bool) -> Any:
    x = operand(x)
    places = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else tuple(axes)
    halves = [x.shape[normalize_axis(i, x.ndim)] // 2 for i in places]
    return roll(x, tuple(-h if back else h for h in halves), tuple(places))


@implements(np.fft.fftshift)
def fftshift(x: Any, axes: Any = None) -> Any:
    """Frequency 0 from the beginning to the middle."""
    return _shifted(x, axes, False)


@implements(np.fft.ifftshift)
def ifftshift(x: Any, axes: Any = None) -> Any:
    """Frequency 0 from the middle to the beginning."""
    return _shifted(x, axes, True)
