"""PyTorch's names: rand, randn, randint, randperm, bernoulli, normal, multinomial, and their `_like` forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError
from tracegrad.ops.casting import astype, number_dtype
from tracegrad.ops.comparison import less
from tracegrad.ops.creation import _wanted
from tracegrad.ops.operands import as_shape, operand
from tracegrad.random import distributions
from tracegrad.random.distributions import source_of
from tracegrad.random.generator import draw
from tracegrad.random.numbers import integers, unit_interval
from tracegrad.tensor import Tensor


def _sizes(size: tuple[Any, ...]) -> tuple[Any, ...]:
    return as_shape(size[0] if len(size) == 1 else size)


def rand(*size: Any, dtype: Any = float, requires_grad: bool = False, generator: Any = None) -> Tensor:
    """Uniform numbers in [0, 1): `rand(2, 3)` or `rand((2, 3))`."""
    return _wanted(distributions.uniform(_sizes(size), dtype=dtype, generator=generator), requires_grad)


def randn(*size: Any, dtype: Any = float, requires_grad: bool = False, generator: Any = None) -> Tensor:
    """Standard normal numbers: `randn(2, 3)` or `randn((2, 3))`."""
    return _wanted(distributions.normal(_sizes(size), dtype=dtype, generator=generator), requires_grad)


def randint(low: int, high: Any = None, size: Any = None, *, dtype: Any = np.int64, generator: Any = None) -> Tensor:
    """Integers from `low` (0 if only one bound is given) up to, not including, `high`."""
    if size is None and isinstance(high, (tuple, list)):
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    sizes = as_shape(() if size is None else size)
    return integers(source_of(generator), sizes, int(low), int(high), number_dtype(dtype))


def randperm(n: int, *, dtype: Any = np.int64, generator: Any = None) -> Tensor:
    """The integers 0 to n - 1 in random order."""
    return astype(distributions.permutation(n, generator=generator), number_dtype(dtype))


def rand_like(input: Any, *, dtype: Any = None, requires_grad: bool = False, generator: Any = None) -> Tensor:
    """Uniform numbers in [0, 1) with the shape and dtype of `input`."""
    x = operand(input)
    return rand(x.shape, dtype=dtype or x.dtype, requires_grad=requires_grad, generator=generator)


def randn_like(input: Any, *, dtype: Any = None, requires_grad: bool = False, generator: Any = None) -> Tensor:
    """Standard normal numbers with the shape and dtype of `input`."""
    x = operand(input)
    return randn(x.shape, dtype=dtype or x.dtype, requires_grad=requires_grad, generator=generator)


def randint_like(input: Any, low: int, high: int | None = None, *, dtype: Any = None, generator: Any = None) -> Tensor:
    """Integers as `randint` draws them, with the shape and dtype of `input`."""
    x = operand(input)
    return randint(low, high, x.shape, dtype=dtype or x.dtype, generator=generator)


def bernoulli(input: Any, p: float | None = None, *, generator: Any = None) -> Tensor:
    """1 with the probability that stands in `input` (or `p`, everywhere), else 0, in the shape and dtype of `input`."""
    x = operand(input)
    if p is None and x.dtype.kind != "f":
        raise ArgumentError(f"probabilities are floats, not {x.dtype}", fix="pass a float Tensor, or p=")
    (bits,) = draw(source_of(generator), x.shape)
    return astype(less(unit_interval(bits, np.dtype(float)), x if p is None else p), x.dtype)


def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, dtype: Any = float, generator: Any = None) -> Tensor:
    """Normal numbers; mean and standard deviation are numbers or Tensors, which broadcast and get gradients."""
    return distributions.normal(shape=size, loc=mean, scale=std, dtype=dtype, generator=generator)


def multinomial(input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Tensor:
    """`num_samples` positions per row of `input`, whose rows are probabilities up to a factor; int64.

    Raises ArgumentError where more are asked for without replacement than a row has.
    """
    from tracegrad.ops.sorting import argsort

    weights = operand(input)
    if weights.ndim not in (1, 2):
        raise ArgumentError(f"multinomial takes a vector or a matrix of weights, not an array of shape {weights.shape}")
    classes = weights.shape[-1]
    if not replacement:
        if num_samples > classes:
            raise ArgumentError(
                f"{num_samples} different classes are asked for, of {classes}", fix="pass replacement=True"
            )
        noise = distributions._gumbel_of(source_of(generator), weights.shape)
        return argsort(-(distributions.log_weights(weights) + noise), axis=-1)[..., :num_samples]
    shape = (num_samples, *weights.shape[:-1])
    drawn = distributions.categorical(shape, logits=distributions.log_weights(weights), generator=generator)
    return drawn.T if weights.ndim == 2 else drawn
