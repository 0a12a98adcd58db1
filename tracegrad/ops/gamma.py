"""Special functions whose values come from SciPy, in compiled programs too; their derivatives are operations.

Formulas: NIST Digital Library of Mathematical Functions (DLMF), the chapters named with each function.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracegrad.function import Operation
from tracegrad.ir.lowering import Elementwise
from tracegrad.ir.types import Type
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import add, chain, in_precision, multiply, sign, square, subtract
from tracegrad.ops.base import broadcast_shapes, result_dtype
from tracegrad.ops.exponential import exp
from tracegrad.ops.operands import operand
from tracegrad.ops.special import SpecialOperation


class Gammaln(SpecialOperation):
    """log |Γ(x)| (DLMF 5.2)."""

    name = "gammaln"
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Digamma.apply(ctx.inputs[0])),)


class Digamma(SpecialOperation):
    """The logarithmic derivative of Γ (DLMF 5.2.2)."""

    name = "digamma"
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Polygamma.apply(ctx.inputs[0], n=1)),)


class Polygamma(Operation):
    """The n-th derivative of digamma (DLMF 5.15)."""

    name = "polygamma"
    saves = ("0",)

    @staticmethod
    def forward(x: Any, *, n: int) -> np.ndarray:
        import scipy.special

        x = np.asarray(x)
        return np.asarray(scipy.special.polygamma(n, x)).astype(_float_of(x.dtype))

    @staticmethod
    def infer(x: Type, *, n: int) -> Type:
        return x.with_dtype(_float_of(x.dtype))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Polygamma.apply(ctx.inputs[0], n=ctx.attrs["n"] + 1)),)


def _float_of(dtype: np.dtype) -> np.dtype:
    return dtype if dtype.kind == "f" else np.dtype(float)


class Gamma(SpecialOperation):
    """Γ(x) (DLMF 5.2)."""

    name = "gamma"
    saves = ("0y",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, multiply(ctx.output, Digamma.apply(ctx.inputs[0]))),)


class LogNdtr(SpecialOperation):
    """The logarithm of the standard normal distribution function (DLMF 7.20)."""

    name = "log_ndtr"
    saves = ("0y",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        # The density over the distribution, both as logarithms: neither underflows far to the left.
        exponent = subtract(multiply(square(ctx.inputs[0]), -0.5), ctx.output)
        return (chain(g, multiply(exp(exponent), 1 / math.sqrt(2 * math.pi))),)


class Ndtri(SpecialOperation):
    """The quantile function of the standard normal distribution."""

    name = "ndtri"
    lower = Elementwise("ndtri")
    saves = ("y",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, multiply(exp(multiply(square(ctx.output), 0.5)), math.sqrt(2 * math.pi))),)


class Erfinv(SpecialOperation):
    """The inverse of erf (DLMF 7.17)."""

    name = "erfinv"
    saves = ("y",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, multiply(exp(square(ctx.output)), math.sqrt(math.pi) / 2)),)


class Erfcinv(SpecialOperation):
    """The inverse of erfc (DLMF 7.17)."""

    name = "erfcinv"
    saves = ("y",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, multiply(exp(square(ctx.output)), -math.sqrt(math.pi) / 2)),)


class Erfcx(SpecialOperation):
    """exp(x²) erfc(x) (DLMF 7.2)."""

    name = "erfcx"
    saves = ("0y",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        slope = subtract(multiply(multiply(ctx.inputs[0], ctx.output), 2.0), 2 / math.sqrt(math.pi))
        return (chain(g, slope),)


class BesselI(Operation):
    """The modified Bessel function of the first kind of order n, times exp(-|x|) if `scaled` (DLMF 10.25)."""

    name = "bessel_i"
    saves = ("0y",)

    @staticmethod
    def forward(x: Any, *, n: int, scaled: bool) -> np.ndarray:
        import scipy.special as special

        x = np.asarray(x)
        if n > 1:
            return np.asarray((special.ive if scaled else special.iv)(n, x)).astype(_float_of(x.dtype))
        name = f"i{n}{'e' if scaled else ''}"
        return np.asarray(getattr(special, name)(x)).astype(_float_of(x.dtype))

    @staticmethod
    def infer(x: Type, *, n: int, scaled: bool) -> Type:
        return x.with_dtype(_float_of(x.dtype))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        x, n, scaled = ctx.inputs[0], ctx.attrs["n"], ctx.attrs["scaled"]
        # DLMF 10.29.1: the derivative is half the sum of the neighbouring orders; the order -1 is the order 1.
        below, above = (BesselI.apply(x, n=abs(m), scaled=scaled) for m in (n - 1, n + 1))
        slope = multiply(add(below, above), 0.5)
        return (chain(g, subtract(slope, multiply(sign(x), ctx.output)) if scaled else slope),)


class _BetaOperation(Operation):
    """A ufunc of scipy.special of two operands, under the operation's name."""

    @classmethod
    def scipy_ufunc(cls) -> np.ufunc:
        import scipy.special

        return getattr(scipy.special, cls.name)

    @classmethod
    def forward(cls, a: Any, b: Any) -> Any:
        return cls.scipy_ufunc()(a, b)

    @classmethod
    def infer(cls, a: Type, b: Type) -> Type:
        dtype = result_dtype(cls.scipy_ufunc(), (a, b))
        return Type(dtype, broadcast_shapes(a.shape, b.shape), a.weak and b.weak)


def _log_slopes(ctx: Any, dtype: np.dtype) -> tuple[Any, Any]:
    """The derivatives of log |B(a, b)| with respect to a and b (DLMF 5.12.1 and 5.2.2), in `dtype`."""
    a, b = (in_precision(x, dtype) for x in ctx.inputs)
    both = Digamma.apply(add(a, b))
    needs = ctx.needs_input_grad
    slopes = (subtract(Digamma.apply(x), both) if needed else None for x, needed in zip((a, b), needs, strict=True))
    return tuple(slopes)


class Betaln(_BetaOperation):
    """log |B(a, b)| (DLMF 5.12)."""

    name = "betaln"
    saves = ("01", "01")

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, ...]:
        return tuple(None if slope is None else chain(g, slope) for slope in _log_slopes(ctx, g.dtype))


class Beta(_BetaOperation):
    """B(a, b) (DLMF 5.12)."""

    name = "beta"
    saves = ("01y", "01y")

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, ...]:
        y = ctx.output
        return tuple(None if slope is None else chain(g, multiply(y, slope)) for slope in _log_slopes(ctx, g.dtype))


gammaln, digamma, gamma, beta, betaln = Gammaln.apply, Digamma.apply, Gamma.apply, Beta.apply, Betaln.apply
log_ndtr, ndtri, erfinv, erfcinv, erfcx = LogNdtr.apply, Ndtri.apply, Erfinv.apply, Erfcinv.apply, Erfcx.apply


@implements(np.i0)
def i0(x: Any) -> Any:
    """The modified Bessel function of order 0, by SciPy's approximation of it."""
    return BesselI.apply(operand(x), n=0, scaled=False)
