"""Distributions: `normal(shape)` draws from the global generator, `normal(key, shape)` from a key.

Parameters are numbers, arrays or Tensors, which broadcast; where no shape is given it is theirs. Gradients flow to
location and scale parameters through the numbers drawn (the pathwise derivative). Keyword arguments of all of them:
`dtype` (float64 unless said), `generator` (a Generator instead of the global one).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, AutogradError, ShapeError
from tracegrad.ir.dims import DimLike
from tracegrad.ops.arithmetic import negative, true_divide
from tracegrad.ops.base import broadcast_shapes
from tracegrad.ops.casting import astype, number_dtype
from tracegrad.ops.comparison import less
from tracegrad.ops.exponential import exp, log, log1p
from tracegrad.ops.operands import as_shape, operand
from tracegrad.ops.random_bits import random_gamma
from tracegrad.ops.reduction import argmax
from tracegrad.ops.reduction import sum as tensor_sum
from tracegrad.ops.trigonometric import tan
from tracegrad.random.generator import Generator, Source, default_generator, draw, is_key
from tracegrad.random.numbers import float_dtype, integers, open_interval, standard_normal, unit_interval
from tracegrad.state import state
from tracegrad.tensor import Tensor

Shape = tuple[DimLike, ...]


def source_of(generator: Any) -> Source:
    """The given generator or key, else the global generator. Raises ArgumentError for anything else."""
    if generator is None:
        return default_generator
    if isinstance(generator, Generator) or is_key(generator):
        return generator
    raise ArgumentError(
        f"a generator is a tg.random.Generator, not {type(generator).__name__}",
        fix="make one: tg.random.Generator(seed)",
    )


def _read(args: tuple[Any, ...], shape: Any, generator: Any, *parameters: Any) -> tuple[Source, Shape]:
    """Source and shape out of `(shape)`, `(key)`, `(key, shape)` or keywords."""
    rest = args
    if rest and is_key(rest[0]):
        if generator is not None:
            raise ArgumentError("a key and a generator are given", fix="pass one of them")
        generator, rest = rest[0], rest[1:]
    if len(rest) > 1 or (rest and shape is not None):
        raise ArgumentError(
            "a key and a shape are expected here, or a shape alone",
            fix="write normal((2, 3)) or normal(key, (2, 3)), the parameters of the distribution by name",
        )
    if rest:
        shape = rest[0]
    if isinstance(shape, Tensor) and shape.dtype.kind not in "iu":
        raise ArgumentError(f"a shape is expected here, not a Tensor of {shape.dtype}", fix=_KEY_FIX)
    own = broadcast_shapes(*(np.shape(p) for p in parameters))
    sizes = own if shape is None else as_shape(shape)
    if broadcast_shapes(sizes, own) != sizes:
        raise ShapeError(
            f"parameters of shape {tuple(own)} do not broadcast to the shape {tuple(sizes)} that is asked for"
        )
    return source_of(generator), sizes


_KEY_FIX = "a key comes from tg.random.key(seed), the parameters of a distribution are given by name"


def _unit(source: Source, shape: Shape, dtype: Any) -> Tensor:
    (bits,) = draw(source, shape)
    return unit_interval(bits, float_dtype(dtype))


def _open(source: Source, shape: Shape) -> Tensor:
    (bits,) = draw(source, shape)
    return open_interval(bits)


def _moved(x: Any, scale: Any, loc: Any, dtype: Any) -> Tensor:
    """loc + scale * x in the dtype asked for; exactly x where they are 1 and 0."""
    if not (type(scale) in (int, float) and scale == 1):
        x = x * scale
    if not (type(loc) in (int, float) and loc == 0):
        x = x + loc
    return astype(x, float_dtype(dtype))


def uniform(
    *key_and_shape: Any, low: Any = 0.0, high: Any = 1.0, shape: Any = None, dtype: Any = float, generator: Any = None
) -> Tensor:
    """Uniform numbers in [low, high). `high` itself can come out by rounding where the bounds are not 0 and 1."""
    source, sizes = _read(key_and_shape, shape, generator, low, high)
    return _moved(_unit(source, sizes, dtype), _difference(high, low), low, dtype)


def _difference(high: Any, low: Any) -> Any:
    return high if type(low) in (int, float) and low == 0 else high - low


def normal(
    *key_and_shape: Any, loc: Any = 0.0, scale: Any = 1.0, shape: Any = None, dtype: Any = float, generator: Any = None
) -> Tensor:
    """Normal numbers of mean `loc` and standard deviation `scale`."""
    source, sizes = _read(key_and_shape, shape, generator, loc, scale)
    (bits,) = draw(source, sizes)
    return _moved(standard_normal(bits, float_dtype(dtype)), scale, loc, dtype)


def lognormal(
    *key_and_shape: Any, loc: Any = 0.0, scale: Any = 1.0, shape: Any = None, dtype: Any = float, generator: Any = None
) -> Tensor:
    """exp of normal numbers of mean `loc` and standard deviation `scale`."""
    return exp(normal(*key_and_shape, loc=loc, scale=scale, shape=shape, dtype=dtype, generator=generator))


def exponential(
    *key_and_shape: Any, scale: Any = 1.0, shape: Any = None, dtype: Any = float, generator: Any = None
) -> Tensor:
    """Exponential numbers of mean `scale`: -log(1 - u)."""
    source, sizes = _read(key_and_shape, shape, generator, scale)
    return _moved(negative(log1p(negative(_unit(source, sizes, np.float64)))), scale, 0, dtype)


def gumbel(
    *key_and_shape: Any, loc: Any = 0.0, scale: Any = 1.0, shape: Any = None, dtype: Any = float, generator: Any = None
) -> Tensor:
    """Gumbel numbers, the distribution of the largest of many: -log(-log u)."""
    source, sizes = _read(key_and_shape, shape, generator, loc, scale)
    return _moved(_gumbel_of(source, sizes), scale, loc, dtype)


def logistic(
    *key_and_shape: Any, loc: Any = 0.0, scale: Any = 1.0, shape: Any = None, dtype: Any = float, generator: Any = None
) -> Tensor:
    """Logistic numbers: log(u / (1 - u))."""
    source, sizes = _read(key_and_shape, shape, generator, loc, scale)
    u = _open(source, sizes)
    return _moved(log(u) - log1p(negative(u)), scale, loc, dtype)


def laplace(
    *key_and_shape: Any, loc: Any = 0.0, scale: Any = 1.0, shape: Any = None, dtype: Any = float, generator: Any = None
) -> Tensor:
    """Numbers whose density falls off as exp(-|x - loc| / scale)."""
    source, sizes = _read(key_and_shape, shape, generator, loc, scale)
    centred = _open(source, sizes) - 0.5
    magnitude = negative(log1p(-2.0 * np.abs(centred)))
    return _moved(np.sign(centred) * magnitude, scale, loc, dtype)


def cauchy(
    *key_and_shape: Any, loc: Any = 0.0, scale: Any = 1.0, shape: Any = None, dtype: Any = float, generator: Any = None
) -> Tensor:
    """Cauchy numbers: tan(π(u - 1/2))."""
    source, sizes = _read(key_and_shape, shape, generator, loc, scale)
    return _moved(tan(math.pi * (_open(source, sizes) - 0.5)), scale, loc, dtype)


# ---- from rejection --------------------------------------------------------------------------------------------------


def _no_gradient(name: str, parameter: Any) -> Any:
    """A parameter that the numbers have no derivative in here. Raises AutogradError where one is wanted."""
    if isinstance(parameter, Tensor) and state.grad_enabled:
        traced = parameter.is_traced and parameter._trace.depends_on_differentiated(parameter._var)
        if traced or parameter.requires_grad:
            raise AutogradError(
                f"random numbers have no derivative in the parameter {name!r} of this distribution here",
                fix="pass it without history: x.detach() or tg.stop_gradient(x)",
            )
    return parameter


def gamma(
    *key_and_shape: Any, alpha: Any = 1.0, scale: Any = 1.0, shape: Any = None, dtype: Any = float,
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """Gamma numbers of shape parameter `alpha`; NaN where it is not positive. No gradient flows to `alpha`."""
    source, sizes = _read(key_and_shape, shape, generator, alpha, scale)
    return _moved(_standard_gamma(source, sizes, alpha), scale, 0, dtype)


def _standard_gamma(source: Source, sizes: Shape, alpha: Any, name: str = "alpha") -> Tensor:
    alpha = astype(operand(_no_gradient(name, alpha)), np.float64)
    (own,) = draw(source, sizes)
    return random_gamma(own, np.uint64(0), alpha)


def chisquare(*key_and_shape: Any, df: Any, shape: Any = None, dtype: Any = float, generator: Any = None) -> Tensor:
    """Sums of squares of `df` normal numbers. No gradient flows to `df`."""
    source, sizes = _read(key_and_shape, shape, generator, df)
    return _moved(_standard_gamma(source, sizes, true_divide(_no_gradient("df", df), 2.0), "df"), 2, 0, dtype)


def beta(*key_and_shape: Any, a: Any, b: Any, shape: Any = None, dtype: Any = float, generator: Any = None) -> Tensor:
    """Beta numbers, from two gamma numbers. No gradient flows to `a` and `b`."""
    source, sizes = _read(key_and_shape, shape, generator, a, b)
    first, second = draw(source, sizes, 2)
    parameters = [astype(operand(_no_gradient(n, p)), np.float64) for n, p in (("a", a), ("b", b))]
    x, y = (random_gamma(own, np.uint64(0), p) for own, p in zip((first, second), parameters, strict=True))
    return _moved(x / (x + y), 1, 0, dtype)


def dirichlet(*key_and_shape: Any, alpha: Any, shape: Any = None, dtype: Any = float, generator: Any = None) -> Tensor:
    """Vectors of positive numbers whose sum is 1, along the last axis of `alpha`; `shape` is that before it."""
    alpha = operand(alpha)
    if not alpha.ndim:
        raise ArgumentError("the Dirichlet distribution has a vector of parameters, not a number")
    source, sizes = _read(key_and_shape, shape, generator, np.empty(alpha.shape[:-1]))
    x = _standard_gamma(source, (*sizes, alpha.shape[-1]), alpha)
    return _moved(x / tensor_sum(x, axis=-1, keepdims=True), 1, 0, dtype)


# ---- discrete --------------------------------------------------------------------------------------------------------


def bernoulli(*key_and_shape: Any, p: Any = 0.5, shape: Any = None, dtype: Any = bool, generator: Any = None) -> Tensor:
    """True with probability `p`."""
    source, sizes = _read(key_and_shape, shape, generator, p)
    return astype(less(_unit(source, sizes, np.float64), p), number_dtype(dtype))


def randint(
    *key_and_shape: Any, low: int = 0, high: int, shape: Any = None, dtype: Any = np.int64, generator: Any = None
) -> Tensor:
    """Integers from `low` up to, not including, `high`."""
    source, sizes = _read(key_and_shape, shape, generator)
    return integers(source, sizes, int(low), int(high), number_dtype(dtype))


def categorical(
    *key_and_shape: Any, logits: Any, axis: int = -1, shape: Any = None, dtype: Any = np.int64, generator: Any = None
) -> Tensor:
    """Positions along `axis` with probabilities softmax(logits), by the largest of logits + Gumbel numbers.

    `shape` is that of the result, to which that of `logits` without `axis` broadcasts.
    """
    logits = operand(logits)
    moved = np.moveaxis(logits, axis, -1)
    batch, classes = moved.shape[:-1], moved.shape[-1]
    source, sizes = _read(key_and_shape, shape, generator, np.empty(batch))
    return astype(argmax(moved + _gumbel_of(source, (*sizes, classes)), axis=-1), number_dtype(dtype))


def permutation(*key_and_x: Any, axis: int = 0, generator: Any = None) -> Tensor:
    """The integers below n, or the slices of an array along `axis`, in random order: `permutation(key, x)`."""
    keyed = bool(key_and_x) and is_key(key_and_x[0]) and len(key_and_x) == 2
    if len(key_and_x) != 1 + keyed:
        raise ArgumentError("permutation takes a number or an array, and a key before it if you like")
    source, x = source_of(key_and_x[0] if keyed else generator), key_and_x[-1]
    if isinstance(x, (Tensor, np.ndarray, list)) and np.ndim(x):
        from tracegrad.ops.taking import take

        x = operand(x)
        return take(x, _order(source, x.shape[axis]), axis=axis)
    return _order(source, as_shape(x)[0])


def _order(source: Source, n: DimLike) -> Tensor:
    from tracegrad.ops.sorting import argsort

    (bits,) = draw(source, (n,))
    return argsort(bits)


def choice(
    *key_and_a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0, generator: Any = None
) -> Tensor:
    """Elements of `a` along `axis` (or integers below `a`), with probabilities `p`, with or without repetition."""
    from tracegrad.ops.sorting import argsort, searchsorted
    from tracegrad.ops.taking import take

    keyed = bool(key_and_a) and is_key(key_and_a[0]) and len(key_and_a) == 2
    if len(key_and_a) != 1 + keyed:
        raise ArgumentError("choice takes a number or an array, and a key before it if you like")
    source, a = source_of(key_and_a[0] if keyed else generator), key_and_a[-1]
    array = operand(a) if np.ndim(a) else None
    n = int(a) if array is None else array.shape[axis]
    sizes = as_shape(shape)
    count = math.prod(sizes)
    if not replace and count > n:
        raise ArgumentError(f"{count} different elements are asked for, of {n}", fix="pass replace=True")
    if replace and p is None:
        index = integers(source, sizes, 0, n, np.dtype(np.int64))
    elif replace:
        bounds = np.cumsum(operand(p))
        u = _unit(source, sizes, np.float64) * bounds[-1]
        index = np.clip(searchsorted(bounds, u, side="right"), 0, n - 1)
    elif p is None:
        index = _order(source, n)[:count].reshape(sizes)
    else:
        order = argsort(negative(log_weights(operand(p)) + _gumbel_of(source, (n,))))
        index = order[:count].reshape(sizes)
    return index if array is None else take(array, index, axis=axis)


def log_weights(p: Any) -> Any:
    """log(p), where 0 is -inf without a warning."""
    with np.errstate(divide="ignore"):
        return log(p)


def _gumbel_of(source: Source, shape: Shape) -> Tensor:
    return negative(log(negative(log(_open(source, shape)))))
