"""Gradient clipping, and parameters as one vector."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from tracegrad.errors import OptimizerTypeError, OptimizerValueError, ShapeError, UnsupportedError
from tracegrad.ops.arithmetic import absolute
from tracegrad.ops.casting import astype
from tracegrad.ops.reduction import sum as tensor_sum
from tracegrad.ops.select import clip, maximum, minimum
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor

Parameters = Tensor | Iterable[Tensor]


def _gradients(parameters: Parameters) -> list[Tensor]:
    found = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    for p in found:
        if not isinstance(p, Tensor):
            raise OptimizerTypeError(f"gradients are those of Tensors, not of {type(p).__name__}")
    return [g for p in found if (g := p.grad) is not None]


def _norm(parts: list[Any], norm_type: float) -> Any:
    """The norm of all elements together. The largest element is 0 for none."""
    if norm_type == math.inf:
        total: Any = 0.0
        for part in parts:
            if part.size:
                total = maximum(total, absolute(part).max())
        return total
    powers = [tensor_sum(absolute(part) ** norm_type) for part in parts]
    return sum(powers[1:], powers[0]) ** (1.0 / norm_type) if powers else 0.0


def get_total_norm(tensors: Iterable[Tensor], norm_type: float = 2.0) -> Tensor:
    """The norm of all elements of the Tensors together, as if they were one vector."""
    with setting(grad_enabled=False):
        total = _norm(list(tensors), float(norm_type))
    return total if isinstance(total, Tensor) else Tensor._wrap(np.array(total))


def clip_grad_norm_(
    parameters: Parameters, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Scale all gradients, in place, so that their norm as one vector is at most `max_norm`; returns the former norm.

    The factor is max_norm / (norm + 1e-6), or 1 where that is larger. Raises OptimizerValueError for a norm that is not
    finite if `error_if_nonfinite`, which a traced function cannot ask for.
    """
    gradients = _gradients(parameters)
    total = get_total_norm(gradients, norm_type)
    if error_if_nonfinite:
        if state.trace is not None:
            raise UnsupportedError(
                "error_if_nonfinite=True in a traced function, where the norm is not known yet",
                fix="return the norm from the function and look at it outside",
            )
        if not math.isfinite(float(total)):
            raise OptimizerValueError(f"the total norm of the gradients is {float(total)}, so they cannot be clipped")
    clip_grads_with_norm_(gradients, max_norm, total)
    return total


def clip_grads_with_norm_(gradients: Iterable[Tensor], max_norm: float, total_norm: Any) -> None:
    """Multiply the Tensors in place by max_norm / (total_norm + 1e-6), where that is below 1."""
    with setting(grad_enabled=False):
        factor = minimum(max_norm / (total_norm + 1e-6), 1.0)
        for g in gradients:
            g.copy_(g * astype(factor, np.zeros(0, g.dtype).real.dtype))


def clip_grad_value_(parameters: Parameters, clip_value: float) -> None:
    """Bring every element of the gradients into [-clip_value, clip_value], in place."""
    with setting(grad_enabled=False):
        for g in _gradients(parameters):
            g.copy_(clip(g, -clip_value, clip_value))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of the parameters as one vector, with gradients to them."""
    return np.concatenate([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write the elements of a vector into the parameters, in order. Raises ShapeError where they are not as many."""
    found = list(parameters)
    needed = sum(p.size for p in found)
    if tuple(vec.shape) != (needed,):
        raise ShapeError(f"the parameters have {needed} elements, the vector has shape {tuple(vec.shape)}")
    start = 0
    with setting(grad_enabled=False):
        for p in found:
            p.copy_(vec[start : start + p.size].reshape(p.shape))
            start += p.size
