"""Running results, differences and the trapezoidal rule against NumPy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.ops.derivatives import gradients
from tests.ops.functions import assert_same, check_function
from tests.ops.samples import values
from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ops.cumulative import LinearRecurrence, cummax, cummin
from tracegrad.tensor import Tensor

V, M, T = values((4,)), values((3, 4)), values((2, 3, 2))
E0, Z = values((0, 3)), np.array(2.0)

RUNS = ((V, None), (M, None), (M, 0), (M, -1), (T, 1), (E0, 0), (Z, None))
CASES: list[tuple[Any, ...]] = [
    *((f, x, axis) for f in (np.cumsum, np.cumprod) for x, axis in RUNS),
    (np.cumsum, values((3,), dtype=np.float32)), (np.cumprod, V + 1j * V[::-1]),
    (np.cumsum, V.astype(np.float32), None, float),
    (np.nancumsum, np.where(V > 1, np.nan, V)), (np.nancumprod, M, 1), (np.diff, V), (np.diff, M), (np.diff, M, 2, 0),
    (np.diff, V, 9),
    (np.diff, V, 0), (np.diff, M, 1, 0), (np.diff, V, 2, -1, 5.0), (np.diff, M, 1, 1, M[:, :1], 3.0),
    (np.diff, E0, 1, 0), (np.ediff1d, M),
    (np.ediff1d, V, 9.0, [1.0, 2.0]), (np.trapezoid, V), (np.trapezoid, M, None, 0.5, 0),
    (np.trapezoid, M, np.cumsum(np.abs(V))),
    (np.trapezoid, M, M + 3), (np.trapezoid, M, np.array([0.0, 1.0, 4.0]), 1.0, 0), (np.add.accumulate, M),
    (np.multiply.accumulate, M, 1),
    (np.maximum.accumulate, M, 1), (np.minimum.accumulate, M), (np.maximum.accumulate, V),
    (np.gradient, V), (np.gradient, M), (np.gradient, M, 0.5), (np.gradient, M, 0.5, np.array([0.0, 1.0, 3.0, 3.5])),
    (np.gradient, M[:, :2]), (np.gradient, V, np.cumsum(np.abs(V))),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0].__name__ + repr(c[2:])[:40] + str(c[1].shape))
def test_against_numpy(case: tuple[Any, ...]):
    check_function(case[0], case[1:])


@pytest.mark.parametrize("function", [np.cumulative_sum, np.cumulative_prod], ids=lambda f: f.__name__)
def test_array_api_names(function: Any):
    check_function(function, (V,), {"include_initial": True})
    check_function(function, (M,), {"axis": 0, "include_initial": True})
    check_function(function, (M,), {"axis": -1})
    with pytest.raises(ShapeError):
        function(Tensor._wrap(M))


@pytest.mark.parametrize("axis", [0, -1, (1, 0)])
@pytest.mark.parametrize("edge_order", [1, 2])
def test_gradient_options(axis: Any, edge_order: int):
    x = values((3, 5))
    check_function(np.gradient, (x,), {"axis": axis, "edge_order": edge_order})
    if axis != (1, 0):
        check_function(
            np.gradient,
            (x, np.array([0.0, 0.5, 2.0, 2.5, 4.0])[: x.shape[axis]]),
            {"axis": axis, "edge_order": edge_order},
        )


def test_integers_and_bools():
    squares = np.array([1, 4, 9, 16])
    assert_same(np.gradient(Tensor._wrap(squares)), np.gradient(squares))
    for x in (np.array([3, 1, 2], np.int8), np.array([True, False, True])):
        for function in (np.cumsum, np.cumprod, np.diff):
            assert_same(function(Tensor._wrap(x)), function(x))


@pytest.mark.parametrize(
    ("x", "expected"),
    [([0, 2, 3], [9, 0, 0]), ([2, 3, 0], [4, 2, 6]), ([2, 0, 0, 3], [1, 2, 0, 0]), ([2, 0, 3, 4], [1, 32, 0, 0])],
)
def test_cumprod_with_zeros(x: list[float], expected: list[float]):
    (g,) = gradients(np.cumprod, [np.array(x, float)])
    np.testing.assert_array_equal(g, expected)


def powers_of_running_products(x: Any, axis: int) -> Any:
    return np.sum(np.cumprod(x, axis) ** 3)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_derivatives_of_cumprod_are_native(axis: int, dtype: Any):
    x = values((4, 5, 3)).astype(dtype)
    x[1, 2], x[3, 2, 1], x[0, 0, 0] = 0, 0, 0
    cubes = partial(powers_of_running_products, axis=axis)
    gradient, product = tg.grad(cubes), tg.grad(lambda x: np.sum(gradient(x) * np.cos(x)))
    for function in (gradient, product):
        assert function(x).dtype == dtype
        assert "host" not in function.show("schedule")
    wide = x.astype(np.float64)
    assert_close_to_differences(gradient(wide), cubes, wide)
    assert_close_to_differences(product(wide), lambda x: np.sum(gradient(x) * np.cos(x)), wide)


def assert_close_to_differences(found: Any, function: Any, x: Any) -> None:
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-5
        expected = (function(x + step) - function(x - step)) / 2e-5
        np.testing.assert_allclose(found[place], expected, rtol=1e-5, atol=1e-5)


def test_gradients_of_cumprod_of_all_sizes():
    gradient = tg.grad(partial(powers_of_running_products, axis=0))
    for n in (5, 7, 11, 2000):
        x = 1 + values((n, 3)) / n
        x[n // 2] = 0
        found, y = gradient(x), np.cumprod(x, 0)
        before = np.concatenate([np.ones((1, 3)), y[:-1]])
        after = LinearRecurrence.forward(np.roll(x, -1, 0), 3 * y**2, axis=0, reverse=True)
        np.testing.assert_allclose(found, before * after, rtol=1e-12, atol=1e-300)
    assert "host" not in gradient.show("schedule")


def test_running_extremes_give_the_first_of_equals_the_gradient():
    x = np.array([1.0, 3.0, 3.0, 2.0, 4.0, 4.0])
    (g,) = gradients(cummax, [x])
    np.testing.assert_array_equal(g, [1, 3, 0, 0, 2, 0])
    (g,) = gradients(cummin, [-x])
    np.testing.assert_array_equal(g, [1, 3, 0, 0, 2, 0])


def test_running_maximum_hands_nan_on():
    x = np.array([1.0, np.nan, 3.0])
    assert_same(cummax(Tensor._wrap(x)), np.maximum.accumulate(x))
    (g,) = gradients(cummax, [x])
    np.testing.assert_array_equal(g, [1, 2, 0])


def test_bad_arguments():
    with pytest.raises(ArgumentError):
        np.diff(Tensor._wrap(V), -1)
    with pytest.raises(ShapeError):
        np.diff(Tensor._wrap(Z))
    with pytest.raises(ShapeError):
        np.cumsum(Tensor._wrap(V), 1)
