"""Normalisation over batches, layers, groups and root mean squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.dims import product
from tracegrad.nn.functional.arguments import floats
from tracegrad.ops.base import shape_text
from tracegrad.state import setting


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Each channel (axis 1) less its mean, over its standard deviation, then times `weight` plus `bias`.

    While training mean and (biased) variance are those of the batch, and `running_mean` and `running_var` (of the
    unbiased one), unless None, move towards them in place by `momentum`; otherwise the running ones are used.
    Raises ShapeError for a batch with one value per channel while training (Ioffe and Szegedy 2015).
    """
    x = floats(input, "batch_norm")
    if x.ndim < 2:
        raise ShapeError(f"batch_norm takes an input (N, C, …), not one of shape {shape_text(x.shape)}")
    channels = x.shape[1]
    for name, value in zip(
        ("running_mean", "running_var", "weight", "bias"), (running_mean, running_var, weight, bias), strict=True
    ):
        if value is not None and tuple(value.shape) != (channels,):
            raise ShapeError(
                f"batch_norm: {name} has shape {shape_text(value.shape)}, the input {channels} channels (axis 1 of "
                f"{shape_text(x.shape)})"
            )
    along = (1, channels, *(1,) * (x.ndim - 2))
    if training:
        mean, variance = _statistics(x, running_mean, running_var, momentum)
    elif running_mean is None or running_var is None:
        raise ArgumentError("batch_norm: outside training it needs running_mean and running_var")
    else:
        mean, variance = running_mean.reshape(along), running_var.reshape(along)
    out = (x - mean) / np.sqrt(variance + eps)
    if weight is not None:
        out = out * weight.reshape(along)
    return out if bias is None else out + bias.reshape(along)


def _statistics(x: Any, running_mean: Any, running_var: Any, momentum: Any) -> tuple[Any, Any]:
    """Mean and variance per channel of this batch; the running ones follow them."""
    axes = (0, *range(2, x.ndim))
    count = product(x.shape[i] for i in axes)
    if count <= 1:
        raise ShapeError(
            f"batch_norm: more than 1 value per channel is needed while training, got an input of shape "
            f"{shape_text(x.shape)}",
            fix="use a larger batch, or .eval()",
        )
    mean = x.mean(axis=axes, keepdims=True)
    variance = np.square(x - mean).mean(axis=axes, keepdims=True)
    with setting(grad_enabled=False):
        _follow(running_mean, mean.detach().reshape(-1), momentum)
        _follow(running_var, variance.detach().reshape(-1) * (count / (count - 1)), momentum)
    return mean, variance


def _follow(running: Any, value: Any, momentum: Any) -> None:
    if running is not None:
        running.mul_(1 - momentum).add_(value * momentum)


def instance_norm(input: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Each channel of each sample of (N, C, …) normalised over its own elements."""
    x = floats(input, "instance_norm")
    if x.ndim < 3:
        raise ShapeError(f"instance_norm takes an input (N, C, …), not one of shape {shape_text(x.shape)}")
    return group_norm(x, x.shape[1], weight, bias, eps)


def layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """The last axes, of `normalized_shape`, less their mean, over their standard deviation (Ba et al. 2016).

    weight and bias have that shape. Raises ShapeError where the input's last axes have another.
    """
    x = floats(input, "layer_norm")
    axes = _last_axes(x, tuple(normalized_shape), weight, bias, "layer_norm")
    centred = x - x.mean(axis=axes, keepdims=True)
    out = centred / np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + eps)
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def rms_norm(input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    """The last axes over the root of their mean square (Zhang and Sennrich 2019); `eps` defaults to the dtype's."""
    x = floats(input, "rms_norm")
    axes = _last_axes(x, tuple(normalized_shape), weight, None, "rms_norm")
    small = float(np.finfo(x.dtype).eps) if eps is None else eps
    out = x / np.sqrt(np.square(x).mean(axis=axes, keepdims=True) + small)
    return out if weight is None else out * weight


def _last_axes(x: Any, shape: tuple[int, ...], weight: Any, bias: Any, what: str) -> tuple[int, ...]:
    if not shape or tuple(x.shape[-len(shape) :]) != shape:
        raise ShapeError(
            f"{what}: the last axes of an input of shape {shape_text(x.shape)} are not normalized_shape "
            f"{shape_text(shape)}",
            fix="make normalized_shape the sizes of the last axes",
        )
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and tuple(value.shape) != shape:
            raise ShapeError(f"{what}: {name} has shape {shape_text(value.shape)}, not {shape_text(shape)}")
    return tuple(range(x.ndim - len(shape), x.ndim))


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Groups of channels of each sample of (N, C, …) normalised; weight and bias are per channel (Wu and He 2018)."""
    x = floats(input, "group_norm")
    if x.ndim < 2 or num_groups < 1 or x.shape[1] % num_groups:
        raise ShapeError(
            f"group_norm: an input of shape {shape_text(x.shape)} does not have channels (axis 1) for {num_groups} "
            "equal groups"
        )
    channels = x.shape[1]
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and tuple(value.shape) != (channels,):
            raise ShapeError(f"group_norm: {name} has shape {shape_text(value.shape)}, not ({channels},)")
    groups = x.reshape((x.shape[0], num_groups, int(np.prod(x.shape[1:])) // num_groups))
    centred = groups - groups.mean(axis=2, keepdims=True)
    out = centred / np.sqrt(np.square(centred).mean(axis=2, keepdims=True) + eps)
    along = (1, channels, *(1,) * (x.ndim - 2))
    out = out.reshape(x.shape)
    out = out if weight is None else out * weight.reshape(along)
    return out if bias is None else out + bias.reshape(along)
