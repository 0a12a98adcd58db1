"""Interpolation, convolution, polynomials, weighted statistics, quantiles of what is no NaN: against NumPy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.ops.derivatives import gradients
from tests.ops.functions import assert_same, check_function
from tests.ops.samples import values
from tracegrad.errors import ArgumentError, ShapeError, UnsupportedError
from tracegrad.tensor import Tensor

V, W, M = values((5,)), values((3,), seed=1), values((3, 4))
C = V + 1j * values((5,), seed=2)
POSITIVE = np.abs(M) + 0.1
XP, PROBES = np.array([-2.0, -0.5, 0.3, 1.7]), np.array([[-3.0, -0.9, 0.1], [1.1, 1.6, 2.5]])
BINS = np.array([3, 0, 1, 3, 1])
HOLES = np.where(M > 1, np.nan, M)

CASES: list[tuple[Any, ...]] = [
    (np.interp, PROBES, XP, M[0]), (np.interp, PROBES, XP, M[0] * 1j, -7.0, 5.0), (np.interp, V, XP[:1], W[:1]),
    (np.interp, PROBES, XP[::-1] * 1.9, M[0], None, None, 3.0), (np.interp, V.astype("f4"), XP, [1, 2, 3, 4]),
    *((f, a, v, mode) for f in (np.convolve, np.correlate) for mode in ("full", "same", "valid")
      for a, v in ((V, W), (W, V), (C, values((4,)) * 1j))),
    (np.convolve, V, 2.0), (np.convolve, V, W), (np.correlate, V, W),
    (np.polyval, W, M), (np.polyval, [2, 0, 1], V), (np.vander, V), (np.vander, W, 5, True), (np.vander, V, 0),
    (np.polyadd, V, W), (np.polysub, W, V), (np.polyadd, V, V), (np.polyder, V), (np.polyder, V, 2), (np.polyint, V),
    (np.polyint, W, 2, [1.0, -2.0]), (np.polyint, W, 2, 3.0), (np.polyfit, V, V**2 + M[0, 0], 2),
    (np.polyfit, V, values((5, 2)), 3, None, False, np.abs(V)),
    (np.average, M), (np.average, M, 1, POSITIVE), (np.average, M, 0, np.abs(W)), (np.average, M, None, POSITIVE, True),
    (np.average, values((2, 3, 4)), (2, 0), POSITIVE[:2].T, True), (np.average, M, (0,), None, True),
    (np.average, np.arange(12).reshape(3, 4), 1, POSITIVE),
    (np.cov, M), (np.cov, V), (np.cov, V, C), (np.cov, M, None, False, True), (np.cov, M, 2 * M[::-1]),
    (np.cov, M, None, True, False, None, [1, 2, 3, 1], POSITIVE[0]), (np.cov, M, None, True, False, 0, [1, 2, 3, 1]),
    (np.corrcoef, M), (np.corrcoef, V, V[::-1] ** 2), (np.corrcoef, M.T, None, False),
    *((np.nanquantile, HOLES, q, axis) for q, axis in ((0.3, None), (0.5, 1), ([0.1, 0.9], 0))),
    (np.nanmedian, HOLES, 1), (np.nanmedian, M, (0, 1)), (np.nanpercentile, HOLES, [[20], [70]], 1),
    (np.nanmedian, np.array([[np.nan, np.nan], [1.0, 2.0]]), 1),
    (np.unwrap, 4 * V), (np.unwrap, 9 * M, None, 0), (np.unwrap, V.cumsum(), 2.0), (np.i0, M),
    (np.logspace, W, 2.0, 4), (np.geomspace, -np.abs(W), -3.0, 4), (np.copy, M),
    (np.resize, M, (3, 7)), (np.resize, V, 2),
    (np.bincount, BINS, V), (np.bincount, BINS, V, 9), (np.bincount, BINS > 0, V),
    (np.add.reduceat, V, [0, 3, 1, 4]), (np.add.reduceat, M, [0, 2], 1), (np.add.reduceat, M, [2]),
    (np.apply_along_axis, lambda v: v / np.sum(v**2), 0, M), (np.apply_along_axis, np.prod, 1, M),
    (np.apply_along_axis, np.outer, 1, values((2, 3, 2)), np.array([1.0, 2.0])),
    (np.piecewise, V, [V < 0, V > 0.5], [np.exp, lambda v: v - np.mean(v), 7.0]),
    (np.piecewise, M, [M < 0, M > -1], [np.sin, np.cos]), (np.piecewise, V, V < 0, [lambda v, k: k * v**2], 3.0),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0].__name__ + repr(c[2:])[:30])
def test_against_numpy(case: tuple[Any, ...]):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        order = 0 if any(isinstance(a, np.ndarray) and np.isnan(a).any() for a in case) else 2
        check_function(case[0], case[1:], order=order)


def test_gradients_where_elements_are_missing():
    (g,) = gradients(np.nanmedian, [np.array([3.0, np.nan, 1.0, 2.0, 9.0])])
    np.testing.assert_array_equal(g, [0.5, 0, 0, 0.5, 0])


def test_orders_and_questions():
    keys = (V, np.array([1.0, 0.0, 1.0, 0.0, 1.0]))
    assert_same(np.lexsort(tuple(map(Tensor._wrap, keys))), np.lexsort(keys))
    for function in (np.isreal, np.iscomplex, np.tril_indices_from, np.triu_indices_from):
        assert_same(function(Tensor._wrap(np.atleast_2d(C.real * 1j))), function(np.atleast_2d(C.real * 1j)))
    assert_same(np.isin(Tensor._wrap(M), [M[0, 0], 7]), np.isin(M, [M[0, 0], 7]))
    assert np.array_equiv(Tensor._wrap(M), M) and not np.array_equiv(Tensor._wrap(M), V)
    assert_same(np.diag_indices_from(Tensor._wrap(M[:, :3])), np.diag_indices_from(M[:, :3]))


def written(x: Any) -> Any:
    """What the functions that write into their first argument leave in it."""
    a, b, c = np.zeros_like(x), x * 1.0, x + 0.0
    np.copyto(a, x**2, where=x > 0)
    np.putmask(b, x < 0, x[0])
    np.fill_diagonal(c, x[:, 1])
    return a + 2 * b + 3 * c


def test_writes():
    expected = written(M)
    for found in (written(Tensor._wrap(M)), tg.jit(written)(M)):
        assert_same(found, expected)
    tg.gradcheck(written, M)


def test_compiled():
    """Values, gradient and the product with the Hessian of one program."""

    def loss(x: Any, xp: Any, fp: Any) -> Any:
        smooth = np.convolve(np.interp(x, xp, fp) * x, fp, "same")
        return np.polyval(fp, np.average(smooth, weights=x**2)) + np.nanmedian(np.unwrap(smooth) ** 2)

    def derivatives(x: Any) -> Any:
        value_and_gradient = tg.value_and_grad(lambda z: loss(z, XP, M[0]))
        return *value_and_gradient(x), tg.jvp(lambda z: value_and_gradient(z)[1], (x,), (np.cos(x),))[1]

    with tg.eager():
        expected = derivatives(V)
    for found, wanted in zip(tg.jit(derivatives)(V), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10)
    np.testing.assert_allclose(expected[0], loss(V, XP, M[0]), rtol=1e-12)


def test_bad_arguments():
    x, matrix = Tensor._wrap(V), Tensor._wrap(M)
    with pytest.raises(ShapeError, match="of the same length"):
        np.interp(x, XP, W)
    with pytest.raises(ShapeError, match="two vectors"):
        np.convolve(matrix, W)
    with pytest.raises(ArgumentError, match="mode must be"):
        np.correlate(x, W, "whole")
    with pytest.raises(ShapeError, match="with weights of shape"):
        np.average(matrix, 1, W)
    with pytest.raises(UnsupportedError, match="full or cov"):
        np.polyfit(x, V, 1, full=True)
    with pytest.raises(ShapeError, match="vander takes a vector"):
        np.vander(matrix)
    with pytest.raises(ShapeError, match="fill_diagonal"):
        np.fill_diagonal(x, 0)
    with pytest.raises(UnsupportedError, match="by the method"):
        np.nanquantile(x, 0.5, method="weibull")


def test_bins_and_parts_that_are_wrong():
    with pytest.raises(ArgumentError, match="negative"):
        np.bincount(BINS - 1, tg.tensor(V))
    with pytest.raises(ShapeError, match="one weight"):
        np.bincount(BINS, tg.tensor(W))
    with pytest.raises(ArgumentError, match="vector of integers"):
        np.bincount(tg.tensor(V))
    with pytest.raises(ArgumentError, match="2 conditions and 1 functions"):
        np.piecewise(tg.tensor(V), [V < 0, V > 1], [np.exp])
    with pytest.raises(IndexError, match="out of range"):
        np.add.reduceat(tg.tensor(V), [0, 5])


def test_bins_of_an_argument_follow_its_numbers():
    count = tg.jit(lambda bins: np.bincount(bins))
    f = tg.value_and_grad(lambda w, bins: np.sum(np.bincount(bins, w) ** 2))
    for bins in (BINS, BINS + 2, BINS[::-1].copy()):
        assert_same(count(bins), np.bincount(bins))
        value, gradient = f(V, bins)
        sums = np.bincount(bins, V)
        np.testing.assert_allclose((value, *gradient), (np.sum(sums**2), *(2 * sums)[bins]))
