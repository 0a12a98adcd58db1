"""Where random numbers for layers come from: the one place that knows the generator."""

from __future__ import annotations

from typing import Any

from tracegrad.random.torch_names import rand, randn


def uniform_like(x: Any) -> Any:
    """Uniform numbers in [0, 1) with the shape and dtype of `x`."""
    return rand(x.shape, dtype=x.dtype)


def normal_like(x: Any) -> Any:
    """Standard normal numbers with the shape and dtype of `x`."""
    return randn(x.shape, dtype=x.dtype)
