"""Random blocks of 64 bits as numbers: uniform floats, standard normal floats, integers of a range."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, DTypeError
from tracegrad.ir.dims import DimLike
from tracegrad.ops.casting import astype, number_dtype
from tracegrad.ops.comparison import bitwise_and, less, right_shift
from tracegrad.ops.gamma import ndtri
from tracegrad.random.generator import Source, draw
from tracegrad.tensor import Tensor

_LOW = 2**32 - 1


def float_dtype(dtype: Any) -> np.dtype:
    """A real floating dtype. Raises DTypeError for others."""
    found = number_dtype(float if dtype is None else dtype)
    if found.kind != "f" or found.itemsize > 8:
        raise DTypeError(
            f"random numbers of this distribution have dtype float16, float32 or float64, not {found}",
            fix="convert the result: .astype(...)",
        )
    return found


def unit_interval(bits: Tensor, dtype: np.dtype) -> Tensor:
    """Uniform in [0, 1): multiples of 2**-53, in float32 of 2**-24, in float16 of 2**-11. Exact everywhere."""
    if dtype == np.float64:
        return astype(right_shift(bits, 11), np.float64) * 2.0**-53
    digits = 24 if dtype == np.float32 else 11
    whole = astype(right_shift(bits, 64 - digits), np.int32)
    return astype(astype(whole, np.float32) * np.float32(2.0**-digits), dtype)


def open_interval(bits: Tensor) -> Tensor:
    """Uniform in (0, 1): odd multiples of 2**-53, symmetric about 1/2, exact."""
    return (astype(right_shift(bits, 12), np.float64) + 0.5) * 2.0**-52


def standard_normal(bits: Tensor, dtype: np.dtype) -> Tensor:
    """The quantile of a uniform number in (0, 1): one block per normal number, out to 8.2 standard deviations."""
    return astype(ndtri(open_interval(bits)), dtype)


def integers(source: Source, shape: tuple[DimLike, ...], low: int, high: int, dtype: np.dtype) -> Tensor:
    """Integers in [low, high): the high part of (64 or 128 random bits) * (high - low), so uneven by at most 2**-32."""
    count = high - low
    if count <= 0:
        raise ArgumentError(f"there is no integer from {low} up to, not including, {high}", fix="give low < high")
    _check_range(low, high, dtype)
    if count <= 2**32:
        (bits,) = draw(source, shape)
        number = _product_high(bits, count)
    elif count == 2**64:
        (number,) = draw(source, shape)
    else:
        number = _wide(*draw(source, shape, 2), count)
    number = number + np.uint64(low % 2**64)
    if dtype.kind == "f" and low < 0:
        return astype(astype(number, np.int64), dtype)
    return astype(number, dtype)


def _check_range(low: int, high: int, dtype: np.dtype) -> None:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        smallest, largest = int(limits.min), int(limits.max)
    elif dtype.kind == "f":  # integers that the format holds exactly, in what 64 bits can count
        largest = min(2 ** (np.finfo(dtype).nmant + 1), 2**63 - 1)
        smallest = -largest
    else:
        smallest, largest = 0, 1
    if low < smallest or high - 1 > largest:
        raise ArgumentError(
            f"integers from {low} to {high - 1} do not fit into dtype {dtype}",
            fix="choose a wider dtype, for example dtype=np.int64, or a smaller range",
        )


def _product_high(bits: Any, count: int) -> Any:
    """floor(bits * count / 2**64) for count <= 2**32, by halves, so that nothing overflows."""
    factor = np.uint64(count)
    low = right_shift(bitwise_and(bits, np.uint64(_LOW)) * factor, 32)
    return right_shift(right_shift(bits, 32) * factor + low, 32)


def _product_high_wide(bits: Any, count: int) -> Any:
    """floor(bits * count / 2**64) for any count below 2**64."""
    high, low = np.uint64(count >> 32), np.uint64(count & _LOW)
    upper, lower = right_shift(bits, 32), bitwise_and(bits, np.uint64(_LOW))
    middle = right_shift(lower * low, 32) + upper * low
    carry = bitwise_and(middle, np.uint64(_LOW)) + lower * high
    return upper * high + right_shift(middle, 32) + right_shift(carry, 32)


def _wide(first: Any, second: Any, count: int) -> Any:
    """floor((first * 2**64 + second) * count / 2**128)."""
    lowest = first * np.uint64(count)
    total = lowest + _product_high_wide(second, count)
    return _product_high_wide(first, count) + astype(less(total, lowest), np.uint64)
