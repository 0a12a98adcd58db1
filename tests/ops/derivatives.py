"""Derivatives against finite differences, along a random direction, first and second order, real and complex.

For L = Re(sum(conj(w) * f(x))) the gradient g is such that L changes by Re(sum(conj(g) * dx)): in complex numbers g is
the direction of steepest ascent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.autograd import grad
from tracegrad.tensor import Tensor

STEP = 1e-6


def leaf(x: np.ndarray) -> Tensor:
    """A Tensor with its own memory that requires a gradient."""
    out = Tensor._wrap(np.array(x))
    out.requires_grad = True
    return out


def directions(arrays: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
    """Random directions in the spaces of the arrays."""
    rng = np.random.default_rng(seed)
    out = []
    for x in arrays:
        d = rng.standard_normal(x.shape)
        if x.dtype.kind == "c":
            d = d + 1j * rng.standard_normal(x.shape)
        out.append(d)
    return out


def inner(a: Any, b: Any) -> float:
    """The real inner product Re(sum(conj(a) * b))."""
    return float(np.real(np.sum(np.conj(a) * b)))


def gradients(
    function: Callable[..., Any], arrays: Sequence[np.ndarray], weights: Sequence[np.ndarray] | None = None
) -> list[np.ndarray]:
    """Reverse-mode gradients of Re(sum(conj(w) * outputs)) in `arrays`; w is all ones without `weights`."""
    leaves = [leaf(x) for x in arrays]
    outputs = [o for o in _as_tuple(function(*leaves)) if o.requires_grad]
    weights = [np.ones(o.shape, o.dtype) for o in outputs] if weights is None else weights
    seeds = [Tensor._wrap(np.asarray(w).astype(o.dtype)) for w, o in zip(weights, outputs, strict=True)]
    found = grad(outputs, leaves, seeds, allow_unused=True)
    return [np.zeros_like(x) if g is None else np.array(g._array) for g, x in zip(found, arrays, strict=True)]


def _as_tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def check_derivatives(
    function: Callable[..., Any], arrays: Sequence[Any], order: int = 2, rtol: float = 2e-6, seed: int = 0
) -> None:
    """Assert that the gradients of `function` in the (float64 or complex128) arrays, to `order`, are right."""
    arrays = [np.asarray(x) for x in arrays]
    probe = [o for o in _as_tuple(function(*map(leaf, arrays))) if o.requires_grad]
    if not probe:
        return
    weights = directions([o._array for o in probe], seed + 1)
    along = directions(arrays, seed + 2)

    def loss(shift: float) -> float:
        results = _as_tuple(function(*(leaf(x + shift * d) for x, d in zip(arrays, along, strict=True))))
        return sum(inner(w, o._array) for w, o in zip(weights, (r for r in results if r.requires_grad), strict=True))

    found = gradients(function, arrays, weights)
    for g, x in zip(found, arrays, strict=True):
        assert g.shape == x.shape and g.dtype == x.dtype
    numerical = (loss(STEP) - loss(-STEP)) / (2 * STEP)
    analytic = sum(inner(g, d) for g, d in zip(found, along, strict=True))
    scale = 1 + sum(float(np.sum(np.abs(g) * np.abs(d))) for g, d in zip(found, along, strict=True))
    assert abs(numerical - analytic) <= rtol * scale, (
        f"order {order}: {analytic!r} by backward, {numerical!r} by differences; gradients {found}"
    )
    if order > 1:
        check_derivatives(gradient_of(function, weights), arrays, order - 1, rtol * 5, seed + 10)


def gradient_of(function: Callable[..., Any], weights: Sequence[np.ndarray]) -> Callable[..., Any]:
    """The gradients as a function of the leaves, themselves differentiable."""

    def gradient(*leaves: Tensor) -> tuple[Tensor, ...]:
        outputs = [o for o in _as_tuple(function(*leaves)) if o.requires_grad]
        seeds = [Tensor._wrap(np.asarray(w).astype(o.dtype)) for w, o in zip(weights, outputs, strict=True)]
        found = grad(outputs, list(leaves), seeds, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradient
