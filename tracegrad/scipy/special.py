"""scipy.special for Tensors, arrays and traced values. SciPy's own ufuncs also find their way here from Tensors.

Arguments, shapes and values are SciPy's; the derivatives at awkward points are those of docs/conventions.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as _scipy

from tracegrad.autograd.node import type_of
from tracegrad.errors import ArgumentError, UnsupportedError
from tracegrad.numpy_protocols import implements
from tracegrad.ops import gamma as _gamma
from tracegrad.ops import special as _special
from tracegrad.ops.arithmetic import absolute, add, divide, in_precision, multiply, negative, sign, subtract
from tracegrad.ops.base import normalize_axes, result_dtype
from tracegrad.ops.casting import astype
from tracegrad.ops.comparison import (
    equal,
    greater,
    greater_equal,
    isfinite,
    isnan,
    less,
    logical_and,
    logical_not,
    logical_or,
)
from tracegrad.ops.exempt import replaced
from tracegrad.ops.exponential import exp, expm1, log, log1p, logaddexp
from tracegrad.ops.operands import operand
from tracegrad.ops.reduction import max as tensor_max
from tracegrad.ops.reduction import sum as tensor_sum
from tracegrad.ops.select import where
from tracegrad.ops.shape import broadcast_to, squeeze
from tracegrad.ops.stop import stop_gradient

__all__ = [
    "beta", "betaln", "digamma", "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "expit", "expm1", "gamma",
    "gammaln", "i0", "i0e", "i1", "i1e", "kl_div", "log1p", "log_expit", "log_ndtr", "log_softmax", "logit",
    "logsumexp",
    "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "rel_entr", "softmax", "softplus", "xlog1py", "xlogy",
]  # fmt: skip


def _quietly(function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's warnings off: they would tell of intermediate values that the result does not use."""

    @functools.wraps(function)
    def quiet(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            return function(*args, **kwargs)

    return quiet


erf = implements(_scipy.erf)(_special.erf)
erfc = implements(_scipy.erfc)(_special.erfc)
expit = implements(_scipy.expit)(_special.expit)
gammaln = implements(_scipy.gammaln)(_gamma.gammaln)
gamma = implements(_scipy.gamma)(_gamma.gamma)
psi = digamma = implements(_scipy.psi)(_gamma.digamma)
beta = implements(_scipy.beta)(_gamma.beta)
betaln = implements(_scipy.betaln)(_gamma.betaln)
log_ndtr = implements(_scipy.log_ndtr)(_gamma.log_ndtr)
ndtri = implements(_scipy.ndtri)(_gamma.ndtri)
erfinv = implements(_scipy.erfinv)(_gamma.erfinv)
erfcinv = implements(_scipy.erfcinv)(_gamma.erfcinv)
erfcx = implements(_scipy.erfcx)(_gamma.erfcx)
implements(_scipy.expm1)(expm1)
implements(_scipy.log1p)(log1p)


@implements(_scipy.i0)
def i0(x: Any) -> Any:
    """The modified Bessel function of order 0."""
    return _gamma.BesselI.apply(x, n=0, scaled=False)


@implements(_scipy.i0e)
def i0e(x: Any) -> Any:
    """i0(x) exp(-|x|)."""
    return _gamma.BesselI.apply(x, n=0, scaled=True)


@implements(_scipy.i1)
def i1(x: Any) -> Any:
    """The modified Bessel function of order 1."""
    return _gamma.BesselI.apply(x, n=1, scaled=False)


@implements(_scipy.i1e)
def i1e(x: Any) -> Any:
    """i1(x) exp(-|x|)."""
    return _gamma.BesselI.apply(x, n=1, scaled=True)


def polygamma(n: int, x: Any) -> Any:
    """The n-th derivative of digamma; n is a non-negative integer."""
    if not isinstance(n, (int, np.integer)) or n < 0:
        raise ArgumentError(f"the order of polygamma must be a non-negative integer, not {n!r}")
    return digamma(x) if n == 0 else _gamma.Polygamma.apply(x, n=int(n))


def multigammaln(a: Any, d: int) -> Any:
    """The logarithm of the multivariate gamma function of dimension d."""
    constant = d * (d - 1) / 4 * math.log(math.pi)
    terms = [gammaln(subtract(a, j / 2)) for j in range(d)]
    return add(functools.reduce(add, terms), constant)


@implements(_scipy.ndtr)
def ndtr(x: Any) -> Any:
    """The standard normal distribution function, ½ erfc(-x/√2)."""
    return multiply(erfc(multiply(x, -math.sqrt(0.5))), 0.5)


@implements(_scipy.log_expit)
def log_expit(x: Any) -> Any:
    """log(expit(x)), without overflow."""
    return negative(logaddexp(0.0, negative(x)))


@implements(_scipy.logit)
@_quietly
def logit(x: Any) -> Any:
    """log(x / (1 - x)), accurate near ½ too."""
    rest = subtract(1, x)
    odds = divide(x, rest)
    return where(less(x, 0.3), log(odds), log1p(divide(subtract(multiply(x, 2), 1), rest)))


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), without overflow."""
    return logaddexp(0.0, x)


if hasattr(_scipy, "softplus") and isinstance(_scipy.softplus, np.ufunc):
    implements(_scipy.softplus)(softplus)

# ---- x log x and its kin ------------------------------------------------------------------------------------------


def _promoted(ufunc: np.ufunc, x: Any, y: Any) -> tuple[Any, Any]:
    """Both operands in the dtype of the ufunc's result: SciPy computes in it from the start."""
    dtype = result_dtype(ufunc, (type_of(x), type_of(y)))
    return in_precision(x, dtype), in_precision(y, dtype)


@implements(_scipy.xlogy)
@_quietly
def xlogy(x: Any, y: Any) -> Any:
    """x log(y), and 0 where x is 0 unless y is NaN; the derivative with respect to x is log(y) there too."""
    x, y = _promoted(_scipy.xlogy, x, y)
    return replaced(logical_and(equal(x, 0), logical_not(isnan(y))), 0.0, multiply(x, log(y)))


@implements(_scipy.xlog1py)
@_quietly
def xlog1py(x: Any, y: Any) -> Any:
    """x log1p(y), and 0 where x is 0 unless y is NaN."""
    x, y = _promoted(_scipy.xlog1py, x, y)
    return replaced(logical_and(equal(x, 0), logical_not(isnan(y))), 0.0, multiply(x, log1p(y)))


@implements(_scipy.entr)
def entr(x: Any) -> Any:
    """-x log(x); 0 at 0, -inf below."""
    return where(less(x, 0), -math.inf, negative(xlogy(x, x)))


def _entropy_of(x: Any, y: Any, inside: Any, at_zero: Any) -> Any:
    """`inside` for positive x and y, `at_zero` for x = 0 and y ≥ 0, NaN for NaN, else inf."""
    positive = logical_and(greater(x, 0), greater(y, 0))
    zero = logical_and(equal(x, 0), greater_equal(y, 0))
    unknown = logical_or(isnan(x), isnan(y))
    return where(unknown, math.nan, where(positive, inside, where(zero, at_zero, math.inf)))


@implements(_scipy.rel_entr)
@_quietly
def rel_entr(x: Any, y: Any) -> Any:
    """x log(x / y) for positive x and y; 0 for x = 0 and y ≥ 0; else inf."""
    x, y = _promoted(_scipy.rel_entr, x, y)
    ratio = divide(x, y)
    near = logical_and(greater(ratio, 0.5), less(ratio, 2))
    # Three ways to log(x / y): accurate near 1, in the range of the quotient, and where that over- or underflows.
    within = logical_and(greater(ratio, 1e-300), less(ratio, 1e300))
    logarithm = where(within, log(ratio), subtract(log(x), log(y)))
    logarithm = where(near, log1p(divide(subtract(x, y), y)), logarithm)
    return _entropy_of(x, y, multiply(x, logarithm), 0.0)


@implements(_scipy.kl_div)
@_quietly
def kl_div(x: Any, y: Any) -> Any:
    """x log(x / y) - x + y for positive x and y; y for x = 0 and y ≥ 0; else inf."""
    x, y = _promoted(_scipy.kl_div, x, y)
    return _entropy_of(x, y, add(subtract(xlogy(x, divide(x, y)), x), y), y)


# ---- over axes ----------------------------------------------------------------------------------------------------


def _shifted(x: Any, axis: tuple[int, ...]) -> tuple[Any, Any]:
    """x less its maximum, with 0 for infinities that are the maximum, and that maximum."""
    largest = tensor_max(stop_gradient(x), axis=axis, keepdims=True)
    return replaced(equal(x, largest), 0.0, subtract(x, largest)), largest


def _as_float(x: Any) -> Any:
    x = operand(x)
    if x.dtype.kind == "c":
        raise UnsupportedError("complex arguments have no largest element", fix="work with real and imaginary parts")
    return x if x.dtype.kind == "f" else astype(x, float)


@_quietly
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    """log(sum(b exp(a))) over all axes, one or several, without overflow.

    With `return_sign` a pair: the logarithm of the absolute value, and the sign. Where all elements are -inf the
    result is -inf with gradient 0; elements that are +inf share the gradient equally.
    """
    x = _as_float(a)
    if b is not None:
        b = operand(b)
        x = where(equal(b, 0), -math.inf, x)
    axes = normalize_axes(axis, x.ndim)
    if any(x.shape[i] == 0 for i in axes):
        shape = tuple(1 if i in axes else d for i, d in enumerate(x.shape))
        value, direction = (broadcast_to(np.asarray(v, x.dtype), shape) for v in (-math.inf, 0.0))
    else:
        value, direction = _logsumexp(x, axes, b, return_sign)
    if not keepdims:
        value, direction = squeeze(value, axes), squeeze(direction, axes) if return_sign else None
    return (value, direction) if return_sign else value


def _logsumexp(x: Any, axes: tuple[int, ...], b: Any, return_sign: bool) -> tuple[Any, Any]:
    shifted, largest = _shifted(x, axes)
    terms = exp(shifted)
    total = tensor_sum(terms if b is None else multiply(terms, b), axis=axes, keepdims=True)
    empty = equal(largest, -math.inf)
    value = where(empty, largest, add(log(absolute(total) if return_sign else total), largest))
    return value, where(empty, 0.0, stop_gradient(sign(total))) if return_sign else None


@_quietly
def softmax(x: Any, axis: Any = None) -> Any:
    """exp(x) / sum(exp(x)) over all axes, one or several, without overflow."""
    x = _as_float(x)
    axes = normalize_axes(axis, x.ndim)
    terms = exp(subtract(x, tensor_max(stop_gradient(x), axis=axes, keepdims=True)))
    return divide(terms, tensor_sum(terms, axis=axes, keepdims=True))


@_quietly
def log_softmax(x: Any, axis: Any = None) -> Any:
    """log(softmax(x)), without its underflow."""
    x = _as_float(x)
    axes = normalize_axes(axis, x.ndim)
    largest = tensor_max(stop_gradient(x), axis=axes, keepdims=True)
    shifted = subtract(x, where(isfinite(largest), largest, 0))
    return subtract(shifted, log(tensor_sum(exp(shifted), axis=axes, keepdims=True)))
