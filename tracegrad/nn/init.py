"""Starting values of parameters, written in place without recording; each function returns its Tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.nn.random import normal_like, uniform_like
from tracegrad.ops.base import shape_text
from tracegrad.state import setting

_GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a nonlinearity's weights are scaled up; `param` is the slope of leaky_relu (0.01).

    Raises ArgumentError for an unknown name.
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    gain = 1.0 if nonlinearity.startswith("conv") else _GAINS.get(nonlinearity)
    if gain is None:
        raise ArgumentError(
            f"no gain is known for the nonlinearity {nonlinearity!r}",
            fix="use one of " + ", ".join((*_GAINS, "leaky_relu", "conv1d", "conv2d")),
        )
    return gain


def _fill(tensor: Any, value: Any) -> Any:
    with setting(grad_enabled=False):
        tensor.copy_(value)
    return tensor


def _by_parts(tensor: Any, draw: Callable[[Any], Any]) -> Any:
    """What `draw` gives for a Tensor like this one, or for its real and its imaginary part."""
    if tensor.dtype.kind != "c":
        return draw(tensor)
    part = tensor.detach().real
    return draw(part) + 1j * draw(part)


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0) -> Any:
    """Uniform numbers from [a, b); of complex numbers both parts."""
    return _fill(tensor, _by_parts(tensor, lambda x: uniform_like(x) * (b - a) + a))


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0) -> Any:
    """Normal numbers; of complex numbers each part has half of the variance."""
    spread = std * math.sqrt(0.5) if tensor.dtype.kind == "c" else std
    return _fill(tensor, _by_parts(tensor, lambda x: normal_like(x) * spread) + mean)


def trunc_normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Any:
    """Normal numbers on the condition that they lie in [a, b]: the inverse distribution function of uniform ones."""
    from scipy.special import ndtr

    from tracegrad.scipy.special import ndtri

    low, high = (float(ndtr((bound - mean) / std)) for bound in (a, b))
    return _fill(tensor, np.clip(ndtri(uniform_like(tensor) * (high - low) + low) * std + mean, a, b))


def constant_(tensor: Any, val: float) -> Any:
    """One number everywhere."""
    return _fill(tensor, val)


def zeros_(tensor: Any) -> Any:
    """Zeros."""
    return _fill(tensor, 0)


def ones_(tensor: Any) -> Any:
    """Ones."""
    return _fill(tensor, 1)


def eye_(tensor: Any) -> Any:
    """The identity matrix. Raises ShapeError for other than two dimensions."""
    if tensor.ndim != 2:
        raise ShapeError(f"eye_ fills a matrix, not a Tensor of shape {shape_text(tensor.shape)}")
    return _fill(tensor, np.eye(*tensor.shape))


def dirac_(tensor: Any, groups: int = 1) -> Any:
    """The weight of a convolution that hands its channels on: a one at the kernel's centre."""
    if tensor.ndim not in (3, 4, 5) or tensor.shape[0] % groups:
        raise ShapeError(
            f"dirac_ fills the weight of a convolution, not a Tensor of shape {shape_text(tensor.shape)} with "
            f"groups={groups}"
        )
    value = np.zeros(tensor.shape)
    per_group = tensor.shape[0] // groups
    centre = tuple(k // 2 for k in tensor.shape[2:])
    for group in range(groups):
        for channel in range(min(per_group, tensor.shape[1])):
            value[(group * per_group + channel, channel, *centre)] = 1
    return _fill(tensor, value)


def fans(tensor: Any) -> tuple[int, int]:
    """How many inputs an output sees and how many outputs an input, of a weight (out, in, *kernel)."""
    if tensor.ndim < 2:
        raise ShapeError(
            f"the fans of a weight need at least 2 dimensions (out, in, …), got shape {shape_text(tensor.shape)}"
        )
    field = int(np.prod(tensor.shape[2:]))
    return tensor.shape[1] * field, tensor.shape[0] * field


def xavier_uniform_(tensor: Any, gain: float = 1.0) -> Any:
    """Uniform within ±gain √(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    bound = gain * math.sqrt(6 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Any, gain: float = 1.0) -> Any:
    """Normal with standard deviation gain √(2 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(fans(tensor))))


def _kaiming(tensor: Any, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(f"mode must be 'fan_in' or 'fan_out', not {mode!r}")
    return calculate_gain(nonlinearity, a) / math.sqrt(fans(tensor)[mode == "fan_out"])


def kaiming_uniform_(tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Any:
    """Uniform within ±gain √(3 / fan); `a` is the slope of leaky_relu (He et al. 2015)."""
    bound = math.sqrt(3) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Any:
    """Normal with standard deviation gain / √fan (He et al. 2015)."""
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity))


def orthogonal_(tensor: Any, gain: float = 1) -> Any:
    """A (semi-)orthogonal matrix, of the first axis against all others, times gain (Saxe et al. 2013)."""
    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_ needs at least 2 dimensions, got shape {shape_text(tensor.shape)}")
    if tensor.size == 0:
        return tensor
    rows = tensor.shape[0]
    flat = normal_like(tensor)._value().reshape((rows, -1)).astype(float)
    tall = flat if rows >= flat.shape[1] else flat.T
    q, r = np.linalg.qr(tall)
    q = q * np.where(np.diag(r) < 0, -1, 1)  # makes the distribution uniform
    return _fill(tensor, gain * (q if rows >= flat.shape[1] else q.T).reshape(tensor.shape))


def sparse_(tensor: Any, sparsity: float, std: float = 0.01) -> Any:
    """Normal numbers in a matrix, with a share `sparsity` of each column set to zero (Martens 2010)."""
    if tensor.ndim != 2:
        raise ShapeError(f"sparse_ fills a matrix, not a Tensor of shape {shape_text(tensor.shape)}")
    rank = np.argsort(uniform_like(tensor)._value(), axis=0).argsort(axis=0)
    return _fill(tensor, np.where(rank < math.ceil(sparsity * tensor.shape[0]), 0, normal_like(tensor) * std))
