"""Fitting a cotangent to the value it belongs to: the one place that undoes broadcasting and promotion."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.ir.types import Type
from tracegrad.state import state


def fit(g: Any, target: Type) -> Any:
    """`g` summed over the dimensions that broadcasting had added or stretched, cast to the target's dtype."""
    if type(g) is np.ndarray and state.trace is None:
        return _fit_array(g, target)
    from tracegrad.ops.elementwise import astype, real
    from tracegrad.ops.reduction import sum as tensor_sum
    from tracegrad.ops.shape import broadcast_to

    if g.shape != target.shape:
        extra = g.ndim - len(target.shape)
        stretched = tuple(
            i + extra for i, dim in enumerate(target.shape) if dim == 1 and i + extra >= 0 and g.shape[i + extra] != 1
        )
        if stretched:
            g = tensor_sum(g, axis=stretched, keepdims=True)
        if extra > 0:
            g = tensor_sum(g, axis=tuple(range(extra)))
        if g.shape != target.shape:
            g = broadcast_to(g, target.shape)
    if g.dtype != target.dtype:
        if g.dtype.kind == "c" and target.dtype.kind != "c":
            g = real(g)
        g = astype(g, target.dtype)
    return g


def _fit_array(g: np.ndarray, target: Type) -> np.ndarray:
    """The same of an array, which is what eager backward exchanges."""
    shape: Any = target.shape
    if g.shape != shape:
        extra = g.ndim - len(shape)
        stretched = tuple(i + extra for i, dim in enumerate(shape) if dim == 1 and i + extra >= 0)
        g = np.add.reduce(g, axis=stretched, keepdims=True) if stretched else g
        g = np.asarray(np.add.reduce(g, axis=tuple(range(extra)))) if extra > 0 else g
        g = g if g.shape == shape else np.broadcast_to(g, shape)
    if g.dtype != target.dtype:
        g = (g.real if g.dtype.kind == "c" and target.dtype.kind != "c" else g).astype(target.dtype)
    return g


def zeros(target: Type) -> Any:
    """A cotangent of zeros for a value of this type."""
    from tracegrad.ops.creation import full

    return full(target.shape, 0, target.dtype)


def ones(target: Type) -> Any:
    """The cotangent 1 of a scalar result."""
    return np.ones(target.shape, target.dtype) if all(isinstance(d, int) for d in target.shape) else NotImplemented
