"""Random Tensors from tracegrad's own generator, under PyTorch's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import LeavesTraceError
from tracegrad.ops.casting import number_dtype
from tracegrad.ops.operands import as_shape
from tracegrad.state import state
from tracegrad.tensor import Tensor

_generator = np.random.default_rng()


def manual_seed(seed: int) -> np.random.Generator:
    """Start the generator of rand, randn, randint and randperm anew; returns it."""
    global _generator
    _generator = np.random.default_rng(seed)
    return _generator


def _drawn(array: np.ndarray, dtype: Any, requires_grad: bool) -> Tensor:
    result = Tensor._wrap(np.asarray(array).astype(number_dtype(dtype), copy=False))
    result.requires_grad = requires_grad
    return result


def _generate() -> np.random.Generator:
    if state.trace is not None:
        raise LeavesTraceError(
            "random numbers drawn while a function is traced would be the same in every later call",
            fix="draw them outside and pass them in as an argument",
        )
    return _generator


def _sizes(size: tuple[Any, ...]) -> tuple[Any, ...]:
    return as_shape(size[0] if len(size) == 1 else size)


def rand(*size: Any, dtype: Any = float, requires_grad: bool = False) -> Tensor:
    """Uniform numbers in [0, 1): `rand(2, 3)` or `rand((2, 3))`."""
    return _drawn(_generate().random(_sizes(size)), dtype, requires_grad)


def randn(*size: Any, dtype: Any = float, requires_grad: bool = False) -> Tensor:
    """Standard normal numbers: `randn(2, 3)` or `randn((2, 3))`."""
    return _drawn(_generate().standard_normal(_sizes(size)), dtype, requires_grad)


def randint(low: int, high: int | None = None, size: Any = (), *, dtype: Any = np.int64) -> Tensor:
    """Integers from `low` (0 if only one bound is given) up to, not including, `high`."""
    low, high = (0, low) if high is None else (low, high)
    return _drawn(_generate().integers(low, high, as_shape(size)), dtype, False)


def randperm(n: int) -> Tensor:
    """The integers 0 to n - 1 in random order."""
    return _drawn(_generate().permutation(n), np.int64, False)
