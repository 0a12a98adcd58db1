"""Result dtypes and shapes at the edges of NumPy's rules: small integers, bools, 0-d and empty arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.ops.functions import assert_same
from tracegrad.errors import ShapeError, TracegradIndexError

DTYPES = ("?", "i2", "i4", "u1", "f2", "f4", "f8", "c8")
NUMBER, NONE = np.array(2.5), np.zeros((0, 2))


@pytest.fixture(params=["eager", "compiled"], autouse=True)
def mode(request: pytest.FixtureRequest):
    with tg.eager() if request.param == "eager" else contextlib.nullcontext(), np.errstate(all="ignore"):
        yield request.param


def check(function: Callable[..., Any], *args: Any) -> None:
    expected = function(*args)
    assert_same(tg.jit(function)(*args), expected)
    if all(a.dtype.isnative for a in args if isinstance(a, np.ndarray)):
        assert_same(function(*(tg.tensor(a) if isinstance(a, np.ndarray) else a for a in args)), expected)


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_of_results(dtype: str):
    x = np.arange(3).astype(dtype)

    def several(x: Any) -> Any:
        parts = np.modf(x) if x.dtype.kind != "c" else ()
        sums = np.add.reduceat(x, [0, 1]), np.add.reduceat(x, [0, 1], dtype=float)
        return np.vecdot(x, x), np.linalg.vecdot(x, x), np.angle(x), np.angle(x, deg=True), *sums, *parts

    check(several, x)
    check(lambda x: (np.var(x), np.std(x), np.var(x, where=[True, False, True])), x)
    for wanted in ("f4", "c16", "i8") if dtype != "c8" else ("c8", "c16"):

        def spread(x: Any, wanted: str = wanted) -> Any:
            mean = np.mean(x, keepdims=True)
            given = np.var(x, dtype=wanted, mean=mean), np.std(x, dtype=wanted, mean=mean)
            return np.var(x, dtype=wanted), np.std(x, dtype=wanted), *given

        check(spread, x)


def test_variances_in_integers():
    for function in (np.var, np.std, np.mean):
        check(lambda x: function(x, dtype=int), np.array([0.5, 1.7, 9.6]))


def test_powers_of_bools():
    b = np.array([True, False])
    for exponent in (0, 1, 2, 3, 2.0, 0.5, True):
        check(lambda b: b**exponent, b)
        check(lambda b: np.power(b, exponent), b)
    with pytest.raises((TypeError, ValueError), match=r"(?i)integers to negative integer powers"):
        tg.jit(lambda b: b**-1)(b)


def test_outer_of_numbers():
    for y in (np.ones((), "f4"), np.ones(2, "f4"), np.ones(2, "i2")):
        check(lambda y: (np.power.outer(2.0, y), np.subtract.outer(y, 2)), y)
        check(np.multiply.outer, 2.0, y)


def test_products_of_several_arrays():
    cube, matrix, vector = np.arange(12.0).reshape(2, 2, 3), np.arange(9.0).reshape(3, 3), np.arange(3.0)
    check(lambda a, b: np.linalg.multi_dot([a, b]), cube, matrix)
    check(lambda a, b: np.linalg.multi_dot([a, b, a]), vector, matrix)
    check(lambda a: np.linalg.multi_dot([a, a]), vector)
    with pytest.raises(ShapeError, match="multi_dot of arrays of shapes"):
        np.linalg.multi_dot([tg.tensor(cube), matrix, matrix])


def test_unwrap_of_nothing():
    for shape, axis in (((2, 0), -1), ((0, 2), 0), ((0, 2), 1), ((2, 0), 0)):
        check(lambda a: np.unwrap(a, axis=axis), np.zeros(shape))


@pytest.mark.parametrize("ufunc", [np.logical_and, np.logical_or, np.add, np.maximum], ids=lambda u: u.__name__)
def test_reduce_from_an_initial_value(ufunc: np.ufunc):
    for initial in (None, True, 0, 2):
        check(lambda a: ufunc.reduce(a, initial=initial), np.ones((3, 2)))
        check(lambda a: ufunc.reduce(a, initial=initial), np.ones((2, 0)))
        if initial is not None:
            check(lambda a: ufunc.reduce(a, initial=initial, keepdims=True), NONE)
    check(lambda a: ufunc.reduce(a, axis=None, initial=1, where=[True, False]), np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"no elements|zero-size"):
        tg.jit(lambda a: ufunc.reduce(a, initial=None))(NONE)


@pytest.mark.parametrize("dtype", [">f8", ">f4", ">i4"])
def test_running_extremes_of_swapped_bytes(dtype: str):
    x = np.array([1, 3, 2], dtype)
    check(lambda x: (np.maximum.accumulate(x), np.minimum.accumulate(x), np.add.accumulate(x)), x)


@pytest.mark.filterwarnings("ignore:Mean of empty", "ignore:invalid value", "ignore:divide by zero")
def test_reductions_of_nothing():
    check(lambda a: (np.nanmax(a, initial=-1.0), np.nanmin(a, axis=0, initial=3)), NONE)
    check(lambda a: (np.nanmax(a, initial=-1.0), np.nanmin(a, initial=-9)), np.array([np.nan, -4.0]))
    for order in (1, np.inf, 2, 0, 3, -1):
        check(lambda a: (np.linalg.norm(a, order, axis=0), np.linalg.norm(a, order, axis=1)), NONE)
    for order in (1, np.inf, 2, "fro", "nuc"):
        check(lambda a: np.linalg.norm(a, order, keepdims=True), np.zeros((0, 0)))
    check(lambda a: (np.median(a), np.median(a, axis=0), np.median(a, axis=1), np.nanmedian(a, axis=0)), NONE)
    check(lambda a: np.median(a, axis=1, keepdims=True), np.zeros((2, 0, 3), "f4"))


def test_norm_of_negative_order_of_infinities():
    check(lambda a: np.linalg.norm(a, -1), np.array([np.inf, -np.inf]))


def test_repeats_of_nothing():
    check(lambda a: np.repeat(a, [1] * len(a), axis=0), NONE)
    check(lambda a: np.repeat(a, []), np.zeros(0))


def test_axes_of_numbers():
    """Those of NumPy's functions that take axis 0 or -1 of a 0-d array."""
    for f in (
        np.sum, np.prod, np.max, np.min, np.nansum, np.nanprod, np.nanmax, np.nanmin, np.ptp, np.any, np.all, np.argmax,
        np.argmin, np.cumsum, np.cumprod, np.nancumsum, np.count_nonzero, np.squeeze, np.nanmean, np.nanvar, np.nanstd,
        np.add.reduce, np.maximum.reduce, np.logical_and.reduce, np.cumulative_sum,
    ):  # fmt: skip
        check(lambda a: (f(a, axis=0), f(a, axis=-1)), NUMBER)
    check(lambda a: (np.repeat(a, 2, axis=0), np.take(a, 0, axis=0), np.sum(a, axis=0, keepdims=True)), NUMBER)
    for f in (np.sum, np.max, np.mean, np.var, np.median, np.argmax):
        for axis in (1, (0,)) if f is not np.argmax else (1,):
            with pytest.raises(ValueError, match="out of bounds"):
                tg.jit(lambda a: f(a, axis=axis))(NUMBER)
    with pytest.raises(ValueError, match="out of bounds"):
        tg.jit(lambda a: np.mean(a, axis=0))(NUMBER)
    np.testing.assert_array_equal(tg.grad(lambda a: np.sum(a, axis=0) * np.max(a, axis=-1))(NUMBER), 5.0)


def test_positions_outside_say_the_shape():
    def write(o: Any) -> Any:
        o[0] = 1
        return o

    for call in (lambda: tg.jit(write)(np.zeros(())), lambda: write(tg.tensor(np.zeros(())))):
        with pytest.raises(TracegradIndexError, match=r"(?s)too many indices.*shape"):
            call()
