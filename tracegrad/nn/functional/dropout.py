"""Dropout: random zeros while training, the identity otherwise (Srivastava et al. 2014)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError
from tracegrad.nn.functional.activation import _SELU_ALPHA, _SELU_SCALE
from tracegrad.nn.functional.arguments import floats, with_ndim
from tracegrad.nn.random import uniform_like


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Each element 0 with probability p, else divided by 1 - p."""
    x = floats(input, "dropout")
    return _dropped(x, x.shape, p, training, inplace)


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Whole channels of (N, C, L) or (C, L) are dropped."""
    return _channels(input, p, training, inplace, 1)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Whole channels of (N, C, H, W) or (C, H, W) are dropped."""
    return _channels(input, p, training, inplace, 2)


def _channels(input: Any, p: float, training: bool, inplace: bool, n: int) -> Any:
    what = f"dropout{n}d"
    x = with_ndim(floats(input, what), (n + 1, n + 2), what, "(N, C, space) or (C, space)")
    return _dropped(x, (*x.shape[:-n], *(1,) * n), p, training, inplace)


def _dropped(x: Any, shape: tuple[int, ...], p: float, training: bool, inplace: bool) -> Any:
    if not 0 <= p <= 1:
        raise ArgumentError(f"a dropout probability lies between 0 and 1, got {p}")
    if not training or p == 0:
        return x
    out = x * 0.0 if p == 1 else np.where(_kept(x, shape, p), x * (1 / (1 - p)), 0)
    return x.copy_(out) if inplace else out


def _kept(x: Any, shape: tuple[int, ...], p: float) -> Any:
    return uniform_like(x.new_empty(shape)) >= p


def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """Dropout that keeps mean and variance of selu's outputs (Klambauer et al. 2017, section 3)."""
    x = floats(input, "alpha_dropout")
    if not 0 <= p <= 1:
        raise ArgumentError(f"a dropout probability lies between 0 and 1, got {p}")
    if not training or p == 0:
        return x
    low = -_SELU_ALPHA * _SELU_SCALE
    scale = 0.0 if p == 1 else ((1 - p) * (1 + p * low**2)) ** -0.5
    out = np.where(_kept(x, x.shape, p), x, low) * scale - scale * p * low
    return x.copy_(out) if inplace else out
