"""The numbers behind Tensor's in-place methods uniform_, normal_, bernoulli_, exponential_, random_ and their kin."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import DTypeError
from tracegrad.random import distributions
from tracegrad.random.distributions import source_of
from tracegrad.random.numbers import integers
from tracegrad.tensor import Tensor


def _float_of(x: Tensor, what: str) -> np.dtype:
    if x.dtype.kind != "f":
        raise DTypeError(f"{what} draws floats, which a Tensor of {x.dtype} cannot hold", fix="use random_")
    return x.dtype


def uniform(x: Tensor, generator: Any, low: Any, high: Any) -> Tensor:
    return distributions.uniform(x.shape, low=low, high=high, dtype=_float_of(x, "uniform_"), generator=generator)


def normal(x: Tensor, generator: Any, mean: Any, std: Any) -> Tensor:
    return distributions.normal(x.shape, loc=mean, scale=std, dtype=_float_of(x, "normal_"), generator=generator)


def log_normal(x: Tensor, generator: Any, mean: Any, std: Any) -> Tensor:
    return distributions.lognormal(x.shape, loc=mean, scale=std, dtype=_float_of(x, "log_normal_"), generator=generator)


def exponential(x: Tensor, generator: Any, rate: Any) -> Tensor:
    return distributions.exponential(x.shape, scale=1.0 / rate, dtype=_float_of(x, "exponential_"), generator=generator)


def cauchy(x: Tensor, generator: Any, median: Any, sigma: Any) -> Tensor:
    return distributions.cauchy(x.shape, loc=median, scale=sigma, dtype=_float_of(x, "cauchy_"), generator=generator)


def bernoulli(x: Tensor, generator: Any, p: Any) -> Tensor:
    return distributions.bernoulli(x.shape, p=p, dtype=x.dtype, generator=generator)


def random(x: Tensor, generator: Any, low: int, high: int | None) -> Tensor:
    """Integers of [low, high); without `high` up to what the dtype holds exactly."""
    if high is None:
        high = 2 ** (np.finfo(x.dtype).nmant + 1) if x.dtype.kind == "f" else 2
        high = int(np.iinfo(x.dtype).max) + 1 if x.dtype.kind in "iu" else high
    return integers(source_of(generator), x.shape, low, high, x.dtype)
