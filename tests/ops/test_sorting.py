"""Sorting, searching, medians and quantiles against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.derivatives import gradients
from tests.ops.functions import assert_same, check_function
from tests.ops.samples import values
from tracegrad.errors import ArgumentError, ShapeError, UnsupportedError
from tracegrad.tensor import Tensor

V, M, T = values((5,)), values((3, 4)), values((2, 3, 4))

CASES: list[tuple[Any, ...]] = [
    *((np.sort, x, axis) for x, axis in ((V, -1), (M, 0), (M, None), (T, 1), (values((0, 2)), 0))),
    (np.sort, np.array([2.0, np.nan, 1.0, np.inf])),
    *((np.median, x, axis) for x, axis in ((V, None), (M, None), (M, 0), (M, 1), (T, (0, 2)))),
    *((np.quantile, x, 0.3, axis) for x, axis in ((V, None), (M, 0), (T, (1, 2)))),
    *((np.quantile, T, q, 1) for q in ([0.0, 0.5, 1.0], [[0.1], [0.9]])),
    (np.percentile, M, 30, 1), (np.percentile, V, [25, 75]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0].__name__ + repr(c[2:]) + str(c[1].shape))
def test_against_numpy(case: tuple[Any, ...]):
    check_function(case[0], case[1:], order=0 if np.isnan(case[1]).any() else 1)


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_quantile_methods(method: str):
    for x in (V, M.astype(np.float32), np.arange(12).reshape(3, 4)[::-1]):
        for q in (0.0, 0.3, 0.5, [0.2, 1.0]):
            for keep in (False, True):
                found = np.quantile(Tensor._wrap(x), q, 0, method=method, keepdims=keep)
                assert_same(found, np.quantile(x, q, 0, method=method, keepdims=keep))


def test_nan_wins():
    x = M.copy()
    x[1, 2] = np.nan
    for axis in (None, 0, 1):
        assert_same(np.median(Tensor._wrap(x), axis), np.median(x, axis))
        assert_same(np.quantile(Tensor._wrap(x), 0.3, axis), np.quantile(x, 0.3, axis))


def test_ties_are_stable():
    (g,) = gradients(np.sort, [np.array([2.0, 1.0, 2.0, 1.0])], [np.array([1.0, 2.0, 3.0, 4.0])])
    np.testing.assert_array_equal(g, [3, 1, 4, 2])
    (g,) = gradients(np.median, [np.array([1.0, 1.0, 1.0])])
    np.testing.assert_array_equal(g, [0, 1, 0])


def test_orders_and_positions():
    for axis in (0, 1, None, -1):
        assert_same(np.argsort(Tensor._wrap(M), axis), np.argsort(M, axis, kind="stable"))
    edges, probes = np.sort(V), np.array([[-9.0, 0.0], [V[2], 9.0]])
    for side in ("left", "right"):
        assert_same(np.searchsorted(Tensor._wrap(edges), probes, side), np.searchsorted(edges, probes, side))
        assert_same(np.searchsorted(Tensor._wrap(V), probes, side, np.argsort(V)), np.searchsorted(edges, probes, side))
    for bins in (edges, edges[::-1]):
        for right in (False, True):
            assert_same(np.digitize(Tensor._wrap(probes), bins, right), np.digitize(probes, bins, right))


def test_partition_puts_the_kth_in_its_place():
    found = np.partition(Tensor._wrap(V), 2)._array
    assert found[2] == np.sort(V)[2] and (found[:2] <= found[2]).all() and (found[3:] >= found[2]).all()
    order = np.argpartition(Tensor._wrap(V), 2)._array
    assert V[order[2]] == np.sort(V)[2]


def test_bad_arguments():
    with pytest.raises(ShapeError):
        np.sort(Tensor._wrap(np.array(1.0)))
    with pytest.raises(ArgumentError, match="side"):
        np.searchsorted(Tensor._wrap(V), 1.0, "middle")
    with pytest.raises(ShapeError):
        np.searchsorted(Tensor._wrap(M), 1.0)
    with pytest.raises(ShapeError, match="no elements"):
        np.quantile(Tensor._wrap(np.zeros(0)), 0.5)
    with pytest.raises(UnsupportedError, match="hazen"):
        np.quantile(Tensor._wrap(V), 0.5, method="hazen")
