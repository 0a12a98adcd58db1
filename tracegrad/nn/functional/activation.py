"""Activation functions, elementwise and along one axis. Slopes at kinks are PyTorch's: relu has 0 at 0."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.nn.functional.arguments import floats
from tracegrad.nn.random import uniform_like
from tracegrad.ops.base import normalize_axis, shape_text
from tracegrad.ops.creation import as_tensor
from tracegrad.ops.exponential import logaddexp
from tracegrad.ops.special import erfc, expit

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805  # Klambauer et al. 2017, eq. 14


def relu(x: Any, inplace: bool = False) -> Any:
    """max(x, 0)."""
    return _placed(x, lambda x: np.where(x <= 0, 0, x), inplace)


def _placed(x: Any, function: Any, inplace: bool) -> Any:
    """`function(x)`, written into x itself if `inplace`."""
    x = as_tensor(x)
    return x.copy_(function(x.clone())) if inplace else function(x)


def relu6(x: Any, inplace: bool = False) -> Any:
    """x limited to 0 … 6."""
    return hardtanh(x, 0.0, 6.0, inplace)


def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """x limited to `min_val` … `max_val`; the slope at the bounds is 0."""
    if min_val > max_val:
        raise ArgumentError(f"hardtanh: min_val {min_val} is larger than max_val {max_val}")

    def limited(x: Any) -> Any:
        return np.where(x <= min_val, min_val, np.where(x >= max_val, max_val, x))

    return _placed(x, limited, inplace)


def leaky_relu(x: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """x where it is positive, `negative_slope * x` elsewhere."""
    return _placed(x, lambda x: np.where(x > 0, x, negative_slope * x), inplace)


def prelu(x: Any, weight: Any) -> Any:
    """x where it is positive, `weight * x` elsewhere; `weight` has one element, or one per channel (axis 1)."""
    x, weight = floats(x, "prelu"), as_tensor(weight)
    if weight.size != 1:
        channels = x.shape[1] if x.ndim > 1 else 1
        if weight.ndim != 1 or weight.shape[0] != channels:
            raise ShapeError(
                f"prelu: {weight.size} slopes for an input of shape {shape_text(x.shape)}",
                fix=f"use one slope, or one for each of the {channels} channels (axis 1)",
            )
        weight = weight.reshape((-1,) + (1,) * (x.ndim - 2))
    return np.where(x > 0, x, weight.reshape(()) * x if weight.size == 1 else weight * x)


def rrelu(x: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False) -> Any:
    """leaky_relu with slopes drawn from [lower, upper) while training, and their mean otherwise."""
    if not training:
        return leaky_relu(x, (lower + upper) / 2, inplace)
    slope = uniform_like(as_tensor(x)) * (upper - lower) + lower
    return _placed(x, lambda x: np.where(x > 0, x, slope * x), inplace)


def elu(x: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x where it is positive, `alpha * (exp(x) - 1)` elsewhere."""
    return _placed(x, lambda x: np.where(x > 0, x, alpha * np.expm1(np.where(x > 0, 0, x))), inplace)


def selu(x: Any, inplace: bool = False) -> Any:
    """The self-normalising elu (Klambauer et al. 2017)."""
    return _placed(x, lambda x: _SELU_SCALE * elu(x, _SELU_ALPHA), inplace)


def celu(x: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x where it is positive, `alpha * (exp(x / alpha) - 1)` elsewhere."""
    return _placed(x, lambda x: np.where(x > 0, x, alpha * np.expm1(np.where(x > 0, 0, x) / alpha)), inplace)


def gelu(x: Any, approximate: str = "none") -> Any:
    """x Φ(x) with the normal distribution function Φ; `approximate="tanh"` is Hendrycks and Gimpel's formula."""
    x = floats(x, "gelu")
    if approximate == "none":
        return 0.5 * x * erfc(x * -math.sqrt(0.5))
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    raise ArgumentError(f"gelu: approximate must be 'none' or 'tanh', not {approximate!r}")


def silu(x: Any, inplace: bool = False) -> Any:
    """x sigmoid(x)."""
    return _placed(x, lambda x: x * expit(x), inplace)


def mish(x: Any, inplace: bool = False) -> Any:
    """x tanh(softplus(x))."""
    return _placed(x, lambda x: x * np.tanh(logaddexp(0.0, x)), inplace)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return expit(as_tensor(x))


def logsigmoid(x: Any) -> Any:
    """log(sigmoid(x)), without overflow."""
    return -logaddexp(0.0, -as_tensor(x))


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return np.tanh(as_tensor(x))


def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta x)) / beta; x itself where beta x exceeds the threshold."""
    x = as_tensor(x)
    return np.where(beta * x > threshold, x, logaddexp(0.0, beta * x) * (1 / beta))


def softsign(x: Any) -> Any:
    """x / (1 + |x|)."""
    x = as_tensor(x)
    return x / (1 + abs(x))


def tanhshrink(x: Any) -> Any:
    """x - tanh(x)."""
    x = as_tensor(x)
    return x - np.tanh(x)


def softshrink(x: Any, lambd: float = 0.5) -> Any:
    """x moved towards 0 by `lambd`, and 0 within that distance."""
    if lambd < 0:
        raise ArgumentError(f"softshrink: lambd must not be negative, got {lambd}")
    x = as_tensor(x)
    return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, x * 0))


def hardshrink(x: Any, lambd: float = 0.5) -> Any:
    """x, and 0 within the distance `lambd` of 0."""
    x = as_tensor(x)
    return np.where(abs(x) <= lambd, 0, x)


def hardsigmoid(x: Any, inplace: bool = False) -> Any:
    """relu6(x + 3) / 6."""
    return _placed(x, lambda x: relu6(x + 3) * (1 / 6), inplace)


def hardswish(x: Any, inplace: bool = False) -> Any:
    """x relu6(x + 3) / 6."""
    return _placed(x, lambda x: x * relu6(x + 3) * (1 / 6), inplace)


def threshold(x: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """x where it exceeds the threshold, `value` elsewhere."""
    return _placed(x, lambda x: np.where(x <= threshold, value, x), inplace)


def glu(x: Any, dim: int = -1) -> Any:
    """The first half along an axis, times the sigmoid of the second half."""
    x = floats(x, "glu")
    axis = normalize_axis(dim, x.ndim)
    if x.shape[axis] % 2:
        raise ShapeError(f"glu halves axis {axis}, which has the odd size {x.shape[axis]}")
    first, second = np.split(x, 2, axis)
    return first * expit(second)


# ---- along an axis ------------------------------------------------------------------------------------------------


def softmax(x: Any, dim: int | None = None, dtype: Any = None) -> Any:
    """exp(x) / sum(exp(x)) along `dim`, without overflow; `dtype` converts the input first."""
    from tracegrad.scipy import special

    return _along(special.softmax, x, dim, dtype, "softmax")


def log_softmax(x: Any, dim: int | None = None, dtype: Any = None) -> Any:
    """log(softmax(x)) along `dim`, without underflow."""
    from tracegrad.scipy import special

    return _along(special.log_softmax, x, dim, dtype, "log_softmax")


def softmin(x: Any, dim: int | None = None, dtype: Any = None) -> Any:
    """softmax(-x)."""
    return softmax(-as_tensor(x), dim, dtype)


def _along(function: Any, x: Any, dim: int | None, dtype: Any, what: str) -> Any:
    x = floats(x if dtype is None else as_tensor(x).astype(dtype), what)
    if dim is None:
        dim = 0 if x.ndim in (0, 1, 3) else 1
        warnings.warn(f"{what} without dim= is ambiguous; axis {dim} is taken", UserWarning, stacklevel=3)
    if x.ndim == 0:
        normalize_axis(dim, 1)
        return function(x.reshape(1), 0).reshape(())
    return function(x, normalize_axis(dim, x.ndim))


def gumbel_softmax(logits: Any, tau: float = 1.0, hard: bool = False, dim: int = -1) -> Any:
    """softmax of the logits with Gumbel noise; `hard` gives one-hot values with the gradient of the soft ones."""
    logits = floats(logits, "gumbel_softmax")
    exponential = -np.log1p(-uniform_like(logits))
    noise = -np.log(np.maximum(exponential, float(np.finfo(logits.dtype).tiny)))
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    axis = normalize_axis(dim, soft.ndim)
    places = np.arange(soft.shape[axis]).reshape((-1,) + (1,) * (soft.ndim - 1 - axis))
    largest = np.expand_dims(np.argmax(soft.detach(), axis=axis), axis)
    return (largest == places).astype(soft.dtype) + (soft - soft.detach())
