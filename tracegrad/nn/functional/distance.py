"""Norms, distances and angles between vectors along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.nn.functional.arguments import floats


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """Vectors along `dim` divided by their p-norm, or by `eps` where that is larger."""
    x = floats(input, "normalize")
    norm = np.linalg.norm(x, p, axis=dim, keepdims=True)
    return x / np.maximum(norm, eps)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between vectors along `dim`; a norm below `eps` counts as `eps`."""
    a, b = floats(x1, "cosine_similarity"), floats(x2, "cosine_similarity")
    a, b = np.broadcast_arrays(a, b)
    norms = (np.maximum(np.linalg.norm(v, axis=dim, keepdims=True), eps) for v in (a, b))
    first, second = norms
    return ((a / first) * (b / second)).sum(axis=dim)


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """The p-norm of `x1 - x2 + eps` along the last axis."""
    difference = floats(x1, "pairwise_distance") - floats(x2, "pairwise_distance") + eps
    return np.linalg.norm(difference, p, axis=-1, keepdims=keepdim)
