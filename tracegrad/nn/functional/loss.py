"""Losses between an input and a target of the same shape. `reduction` is 'mean', 'sum' or 'none'."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.nn.functional.activation import relu
from tracegrad.nn.functional.arguments import floats, reduced, same_shape
from tracegrad.nn.functional.distance import pairwise_distance
from tracegrad.ops.base import shape_text
from tracegrad.ops.creation import as_tensor
from tracegrad.ops.exponential import logaddexp
from tracegrad.ops.stop import stop_gradient
from tracegrad.state import state


def _difference(input: Any, target: Any, what: str) -> Any:
    x, y = floats(input, what), as_tensor(target)
    if x.shape != y.shape:
        warnings.warn(
            f"{what}: the input has shape {shape_text(x.shape)}, the target {shape_text(y.shape)}; they are broadcast, "
            "which is likely a mistake: give both the same shape",
            UserWarning,
            stacklevel=3,
        )
    return x - y


def mse_loss(input: Any, target: Any, reduction: str = "mean", weight: Any = None) -> Any:
    """(input - target)², times `weight` if given (the mean is then over the sum of the weights)."""
    squares = np.square(_difference(input, target, "mse_loss"))
    if weight is None:
        return reduced(squares, reduction)
    weight = as_tensor(weight)
    same_shape(weight, squares, "mse_loss, weight")
    return (squares * weight).sum() / weight.sum() if reduction == "mean" else reduced(squares * weight, reduction)


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """|input - target|."""
    return reduced(abs(_difference(input, target, "l1_loss")), reduction)


def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    """d² / (2 beta) for |d| < beta, else |d| - beta / 2, with d = input - target (Girshick 2015)."""
    if beta < 0:
        raise ArgumentError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    d = _difference(input, target, "smooth_l1_loss")
    if beta == 0:
        return reduced(abs(d), reduction)
    return reduced(np.where(abs(d) < beta, np.square(d) * (0.5 / beta), abs(d) - 0.5 * beta), reduction)


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """d² / 2 for |d| <= delta, else delta (|d| - delta / 2), with d = input - target (Huber 1964)."""
    if delta <= 0:
        raise ArgumentError(f"huber_loss: delta must be positive, got {delta}")
    d = _difference(input, target, "huber_loss")
    return reduced(np.where(abs(d) <= delta, np.square(d) * 0.5, delta * (abs(d) - 0.5 * delta)), reduction)


# ---- of probabilities ---------------------------------------------------------------------------------------------


def binary_cross_entropy(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """-(t log p + (1 - t) log(1 - p)) for probabilities p; logarithms below -100 count as -100.

    Raises ArgumentError (eagerly; a compiled program gives NaN) for an input outside of 0 … 1.
    """
    p, t = floats(input, "binary_cross_entropy"), as_tensor(target)
    same_shape(p, t, "binary_cross_entropy")
    if state.trace is None and not ((p.detach() >= 0) & (p.detach() <= 1)).all():
        raise ArgumentError(
            "binary_cross_entropy takes probabilities between 0 and 1",
            fix="apply sigmoid first, or use binary_cross_entropy_with_logits",
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = -(t * np.maximum(np.log(p), -100.0) + (1 - t) * np.maximum(np.log1p(-p), -100.0))
    return reduced(loss if weight is None else loss * weight, reduction)


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Any:
    """Binary cross entropy of sigmoid(input), without overflow; `pos_weight` multiplies the positive term."""
    x, t = floats(input, "binary_cross_entropy_with_logits"), as_tensor(target)
    same_shape(x, t, "binary_cross_entropy_with_logits")
    positive = logaddexp(0.0, -x)  # -log sigmoid(x)
    if pos_weight is not None:
        positive = (1 + (as_tensor(pos_weight) - 1) * t) * positive
    loss = (1 - t) * x + positive
    return reduced(loss if weight is None else loss * weight, reduction)


def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    """t (log t - input): the input holds logarithms of probabilities, so does the target if `log_target`.

    reduction may also be 'batchmean': the sum over the size of the first axis, which is the divergence proper.
    """
    from tracegrad.scipy.special import xlogy

    x, t = floats(input, "kl_div"), as_tensor(target)
    loss = np.exp(t) * (t - x) if log_target else xlogy(t, t) - t * x
    return loss.sum() / loss.shape[0] if reduction == "batchmean" else reduced(loss, reduction)


def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """½ (log v + (input - target)² / v), plus ½ log 2π if `full`, where v is `var` but at least `eps`.

    var has the shape of the input, or lacks its last axis, or has it with size 1. The limit `eps` leaves the gradient
    of var as it is. Raises ArgumentError (eagerly) for a negative variance.
    """
    x, t = floats(input, "gaussian_nll_loss"), as_tensor(target)
    v = as_tensor(np.full((), var, x.dtype)) if isinstance(var, (int, float)) else as_tensor(var)
    if v.ndim and v.shape != x.shape:
        if v.shape == x.shape[:-1]:
            v = v[..., None]
        elif v.shape != (*x.shape[:-1], 1):
            raise ShapeError(
                f"gaussian_nll_loss: var has shape {shape_text(v.shape)}, the input {shape_text(x.shape)}",
                fix="give var the input's shape, with a last axis of its size, of size 1, or none",
            )
    if state.trace is None and (v.detach() < 0).any():
        raise ArgumentError("gaussian_nll_loss: var has negative entries")
    v = v + stop_gradient(np.maximum(v, eps) - v)
    loss = 0.5 * (np.log(v) + np.square(x - t) / v)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def poisson_nll_loss(
    input: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Any:
    """exp(x) - t x, or for `log_input=False` x - t log(x + eps); `full` adds Stirling's term of log t! for t > 1."""
    x, t = floats(input, "poisson_nll_loss"), as_tensor(target)
    loss = np.exp(x) - t * x if log_input else x - t * np.log(x + eps)
    if full:
        large = np.where(t > 1, t, 1)
        loss = loss + np.where(t > 1, t * np.log(large) - t + 0.5 * np.log(2 * math.pi * large), 0)
    return reduced(loss, reduction)


# ---- margins ------------------------------------------------------------------------------------------------------


def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1; vectors along the last axis."""
    x, y, t = floats(input1, "cosine_embedding_loss"), floats(input2, "cosine_embedding_loss"), as_tensor(target)
    same_shape(x, y, "cosine_embedding_loss")
    if x.ndim not in (1, 2) or t.shape != x.shape[:-1]:
        raise ShapeError(
            f"cosine_embedding_loss: inputs (N, D) need a target (N,), inputs (D,) a 0-d one; got "
            f"{shape_text(x.shape)} and {shape_text(t.shape)}"
        )
    tiny = 1e-12
    products, squares1, squares2 = ((a * b).sum(axis=-1) for a, b in ((x, y), (x, x), (y, y)))
    cosine = products / np.sqrt((squares1 + tiny) * (squares2 + tiny))
    return reduced(np.where(t == 1, 1 - cosine, np.where(t == -1, relu(cosine - margin), 0)), reduction)


def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    """max(0, -target (input1 - input2) + margin)."""
    x, y = floats(input1, "margin_ranking_loss"), floats(input2, "margin_ranking_loss")
    if not x.ndim == y.ndim == as_tensor(target).ndim:
        raise ShapeError("margin_ranking_loss: the inputs and the target must have equally many dimensions")
    return reduced(relu(-as_tensor(target) * (x - y) + margin), reduction)


def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    """The input where the target is 1, max(0, margin - input) where it is -1."""
    x, t = floats(input, "hinge_embedding_loss"), as_tensor(target)
    positive = np.where(t == -1, 0, x)
    return reduced(positive + np.where(t == 1, 0, relu(margin - x)), reduction)


def soft_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """log(1 + exp(-target input)) for targets of ±1."""
    x, t = floats(input, "soft_margin_loss"), as_tensor(target)
    same_shape(x, t, "soft_margin_loss")
    return reduced(logaddexp(0.0, -t * x), reduction)


def triplet_margin_loss(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
    swap: bool = False, reduction: str = "mean",
) -> Any:  # fmt: skip
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) with p-norm distances along the last axis."""
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = np.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced(relu(pairwise_distance(anchor, positive, p, eps) - far + margin), reduction)
