"""Negative log-likelihood and cross entropy of classes (axis 1 of the input, or its only one)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.nn.functional.activation import log_softmax
from tracegrad.nn.functional.arguments import floats, indices, reduced
from tracegrad.ops.base import shape_text
from tracegrad.ops.creation import as_tensor


def nll_loss(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Any:
    """-weight[t] input[n, t] with logarithms of probabilities (N, C, …) or (C,) and classes t (N, …) or ().

    The mean is over the sum of the weights used. Targets equal to `ignore_index` count as nothing. Raises ShapeError,
    TracegradIndexError for a class outside 0 … C - 1.
    """
    return _nll(floats(input, "nll_loss"), as_tensor(target), weight, ignore_index, reduction, 0.0, "nll_loss")


def cross_entropy(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """nll_loss of log_softmax(input): logits (N, C, …) or (C,), and classes (N, …), or probabilities in their shape.

    `label_smoothing` mixes the target with the uniform distribution. The mean is over the sum of the weights used, for
    probabilities over the number of samples.
    """
    x, target = floats(input, "cross_entropy"), as_tensor(target)
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(f"cross_entropy: label_smoothing lies between 0 and 1, got {label_smoothing}")
    if x.ndim == 0:
        raise ShapeError("cross_entropy takes logits (N, C, …) or (C,), not a single number")
    axis = 0 if x.ndim == 1 else 1
    logs = log_softmax(x, axis)
    if target.shape == x.shape and target.dtype.kind == "f":
        return _soft(logs, target, _class_weights(weight, x, axis), axis, reduction, label_smoothing)
    return _nll(logs, target, weight, ignore_index, reduction, label_smoothing, "cross_entropy")


def _class_weights(weight: Any, x: Any, axis: int) -> Any:
    if weight is None:
        return None
    weight = as_tensor(weight)
    if tuple(weight.shape) != (x.shape[axis],):
        raise ShapeError(f"a weight for each of {x.shape[axis]} classes is needed, got {shape_text(weight.shape)}")
    return weight


def _soft(logs: Any, target: Any, weight: Any, axis: int, reduction: str, smoothing: float) -> Any:
    """Cross entropy with probabilities as the target."""
    count = logs.shape[axis]
    if smoothing:
        target = target * (1 - smoothing) + smoothing / count
    terms = target * logs
    if weight is not None:
        terms = terms * weight.reshape((-1,) + (1,) * (logs.ndim - 1 - axis))
    loss = -terms.sum(axis=axis)
    return loss.sum() / max(logs.size // count, 1) if reduction == "mean" else reduced(loss, reduction)


def _nll(logs: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float, what: str) -> Any:
    if logs.ndim == 0 or target.shape != (logs.shape[:1] + logs.shape[2:] if logs.ndim > 1 else ()):
        raise ShapeError(
            f"{what}: an input of shape {shape_text(logs.shape)} does not fit a target of shape "
            f"{shape_text(target.shape)}",
            fix="input (N, C, …) takes classes (N, …), input (C,) a single class",
        )
    axis = 0 if logs.ndim == 1 else 1
    weight = _class_weights(weight, logs, axis)
    used = target != ignore_index
    classes = indices(np.where(used, target, 0), logs.shape[axis], f"the targets of {what}")
    chosen = np.take_along_axis(logs, np.expand_dims(classes, axis), axis).squeeze(axis)
    counted = used.astype(logs.dtype) if weight is None else np.where(used, weight[classes], 0)
    loss = np.where(used, -chosen * (1 if weight is None else weight[classes]), 0)
    if smoothing:
        weighted = logs if weight is None else logs * weight.reshape((-1,) + (1,) * (logs.ndim - 1 - axis))
        spread = np.where(used, -weighted.sum(axis=axis), 0) * (smoothing / logs.shape[axis])
        loss = loss * (1 - smoothing) + spread
    if reduction == "mean":
        return loss.sum() / counted.sum()
    return reduced(loss, reduction)
