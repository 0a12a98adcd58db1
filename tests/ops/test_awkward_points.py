"""Values and gradients at kinks, ties, zeros and infinities, eager and compiled, first and second order.

The expected numbers follow from the conventions (docs/conventions.md) and from the mathematics beside each case.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.ops.special import expit

inf, nan = np.inf, np.nan
F32 = np.float32


@pytest.fixture(params=["eager", "compiled"])
def mode(request: pytest.FixtureRequest):
    with tg.eager() if request.param == "eager" else contextlib.nullcontext(), np.errstate(all="ignore"):
        yield request.param


def total(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: np.sum(f(*args))


# name: (function, point, gradient of the sum of its values)
FIRST: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "sqrt at 0": (np.sqrt, [0.0, 4.0], [inf, 0.25]),
    "sqrt at 0 not taken": (lambda x: np.where(x > 0, np.sqrt(x), 0), [0.0, -1.0, 4.0], [0, 0, 0.25]),
    "log at 0 not taken": (lambda x: np.where(x > 0, x * np.log(x), 0), [0.0, 1.0], [0, 1]),
    "division by 0 not taken": (lambda x: np.where(x != 0, 1 / x, 0), [0.0, 2.0], [0, -0.25]),
    "exp overflowing not taken": (lambda x: np.where(x <= 0, np.exp(x), 1 + x), F32([100.0]), [1]),
    "arcsin out of domain not taken": (lambda x: np.where(abs(x) < 1, np.arcsin(x), 0), [1.0, 2.0, 0.0], [0, 0, 1]),
    "power not taken": (lambda x: np.where(x > 0, x**0.3, 0), [0.0, 1.0], [0, 0.3]),
    "sqrt of x**0": (lambda x: np.sqrt((x - 1) ** 0), [1.0, 3.0], [0, 0]),
    "abs at 0": (abs, [0.0, -0.0, -2.0], [0, 0, -1]),
    "sign at 0": (np.sign, [0.0, 2.0], [0, 0]),
    "maximum at a tie": (lambda x: np.maximum(x, 1), [1.0, 2.0, 0.0], [0.5, 1, 0]),
    "minimum at a tie": (lambda x: np.minimum(1, x), [1.0, 2.0, 0.0], [0.5, 0, 1]),
    "fmax at a tie and NaN": (lambda x: np.fmax(x, [1, nan, 3]), [1.0, 2.0, nan], [0.5, 1, 0]),
    "max of ties": (np.max, [1.0, 1.0], [0.5, 0.5]),
    "max of ties along an axis": (lambda x: np.max(x, axis=1), [[1.0, 3, 3], [2, 1, 0]], [[0, 0.5, 0.5], [1, 0, 0]]),
    "amin of ties": (np.amin, [2.0, 0, 0, 0], [0, 1 / 3, 1 / 3, 1 / 3]),
    "max of |x|": (lambda x: np.max(abs(x)), [9.0, 9, -9, 1], [1 / 3, 1 / 3, -1 / 3, 0]),
    "max of x twice": (lambda x: np.max(np.concatenate([x, x])), [1.0, 2.0], [0, 1]),
    "clip at bounds": (lambda x: np.clip(x, 0, 1), [0.0, 1.0, 0.5, -1.0, 2.0], [1, 1, 1, 0, 0]),
    "clip at one bound": (lambda x: np.clip(x, 0, None), [0.0, -1.0, 2.0], [1, 0, 1]),
    "x also the bound of clip": (lambda x: np.clip(x, 0, x), [5.0], [1]),
    "x**0 at 0": (lambda x: x**0, [0.0, 2.0], [0, 0]),
    "x**2 at 0": (lambda x: x**2, [0.0, -3.0], [0, -6]),
    "x**2.0": (lambda x: x**2.0, [0.0, -3.0], [0, -6]),
    "x**3 of negatives": (lambda x: x**3, [0.0, -3.0], [0, 27]),
    "x**-1": (lambda x: x**-1, [2.0], [-0.25]),
    "x to integer array": (lambda x: x ** np.arange(4), [0.0, 0.0, -3.0, 0.0], [0, 1, -6, 0]),
    "x to unsigned array": (lambda x: x ** np.array([0, 1, 2], np.uint8), [0.0, 0.0, -3.0], [0, 1, -6]),
    "0**y": (lambda y: 0.0**y, [1.0, 2.0, 0.5, 0.0], [0, 0, 0, 0]),
    "2**y": (lambda y: 2**y, [3.0], [8 * math.log(2)]),
    "x**x": (lambda x: x**x, [2.0], [4 * (1 + math.log(2))]),
    "std of equal values": (np.std, [1.0, 1.0, 1.0], [0, 0, 0]),
    "std of zeros": (np.std, [0.0, 0.0], [0, 0]),
    "std along an axis": (lambda x: np.std(x, axis=1), [[2.0, 2.0], [1.0, 3.0]], [[0, 0], [-0.5, 0.5]]),
    "var of equal values": (np.var, [1.0, 1.0], [0, 0]),
    "logaddexp of -inf": (lambda x: np.logaddexp(x, -inf), [-inf, 1.0], [0, 1]),
    "logaddexp at equality": (lambda x: np.logaddexp(x, 2.0), [2.0], [0.5]),
    "logaddexp at +inf": (lambda x: np.logaddexp(x, inf), [inf, 0.0], [0.5, 0]),
    "logaddexp2 at equality": (lambda x: np.logaddexp2(x, 2.0), [2.0, -inf], [0.5, 0]),
    "arctan2 at the origin": (lambda x: np.arctan2(x, 0.0 * x), [0.0], [0]),
    "arctan2 near the origin": (lambda y: np.arctan2(y, 1e-300), [1e-300], [0.5e300]),
    "hypot at the origin": (lambda x: np.hypot(x, 0.0), [0.0, 3.0], [0, 1]),
    "hypot of large values": (lambda x: np.hypot(x, 4e200), [3e200], [0.6]),
    "prod with a zero": (np.prod, [2.0, 0.0, 3.0], [0, 6, 0]),
    "prod with two zeros": (np.prod, [2.0, 3.0, 0.0, 0.0], [0, 0, 0, 0]),
    "prod of one zero": (lambda x: np.prod(x, axis=0), [0.0], [1]),
    "prod along an axis": (lambda x: np.prod(x, axis=0), [[0.0, 2], [3, 0], [5, 7]], [[15, 0], [0, 14], [0, 0]]),
    "prod of float32": (np.prod, F32([1, 2, 3, 4, 5]), [120, 60, 40, 30, 24]),
    "sum over the empty axis": (lambda x: np.sum(x[:0]), [1.0, 2.0], [0, 0]),
    "copysign": (lambda x: np.copysign(x, -1.0), [0.0, 2.0, -3.0], [0, -1, 1]),
    "sinc at 0": (np.sinc, [0.0, 1.0], [0, -1]),
    "floor, ceil, round": (lambda x: np.floor(x) + np.ceil(x) + np.round(x), [0.5, 1.0], [0, 0]),
    "remainder": (lambda x: np.remainder(x, 3) + np.remainder(7, x), [2.5], [1 - 2]),
    "fmod of negatives": (lambda x: np.fmod(x, 2) + np.fmod(-7, x), [2.5], [1 + 2]),
    "nan_to_num": (lambda x: np.nan_to_num(3 * x), [nan, inf, 2.0], [0, 0, 3]),
    "expit far out": (expit, [800.0, -800.0], [0, 0]),
    "tanh far out": (np.tanh, [800.0, -800.0, 0.0], [0, 0, 1]),
    "expm1 far out": (np.expm1, [-40.0], [math.exp(-40)]),
    "float32 beside Python numbers": (lambda x: np.maximum(x * 0.5, 1) ** 2 / 3.0, F32([4.0]), [2 / 3]),
    "float32 beside float64": (lambda x: x * np.array([2.0]), F32([4.0]), [2]),
    "astype": (lambda x: x.astype(np.float32) * 2, [1.5], [2]),
    "a Python bool": (lambda x: x * True, [1.5], [1]),
    "where of one side": (lambda x: np.where([True, False], x, 3), [1.0, 2.0], [1, 0]),
    "mean with where": (lambda x: np.mean(x, where=np.array([True, True, False])), [1.0, 2, 3], [0.5, 0.5, 0]),
    "mean to a scalar along an axis": (lambda x: np.mean(x**2, 0), [1.0, 2, 3, 4, 5], np.arange(1, 6) * 2 / 5),
    "max with initial": (lambda x: np.max(x, axis=0, initial=5.0), [1.0, 2.0], [0, 0]),
    "broadcast along two axes": (lambda x: x * np.ones((5, 4)), [2.0], [20]),
    "a column": (lambda x: x.reshape(3, 1) * np.ones(4), [1.0, 2, 3], [4, 4, 4]),
    "0-d": (lambda x: x * x, 3.0, 6.0),
    "size 0": (lambda x: x * x, np.zeros((0, 3)), np.zeros((0, 3))),
}


@pytest.mark.parametrize("name", FIRST)
def test_gradient(name: str, mode: str):
    f, x, expected = FIRST[name]
    x = np.asarray(x)
    found = tg.grad(total(f))(x)
    assert found.dtype == x.dtype and found.shape == x.shape
    np.testing.assert_allclose(found, expected, rtol=1e-6 if x.dtype == F32 else 1e-13, atol=0)


# name: (function, point, Hessian of the sum of its values)
SECOND: dict[str, tuple[Callable[[Any], Any], list[float], Any]] = {
    "x**2 at 0": (lambda x: x**2, [0.0], [[2]]),
    "x**0 at 0": (lambda x: x**0, [0.0], [[0]]),
    "x**1": (lambda x: x**1, [0.0], [[0]]),
    "x**3 at 0": (lambda x: x**3, [0.0, 2.0], [[0, 0], [0, 12]]),
    "exp(-x**2)": (lambda x: np.exp(-(x**2)), [0.0], [[-2]]),
    "square of the norm": (lambda x: np.sqrt(np.sum(x * x)) ** 2, [3.0, 4.0], [[2, 0], [0, 2]]),
    "prod with two zeros": (np.prod, [2.0, 3.0, 0.0, 0.0], [[0] * 4, [0] * 4, [0, 0, 0, 6], [0, 0, 6, 0]]),
    "prod with one zero": (np.prod, [2.0, 0.0, 5.0], [[0, 5, 0], [5, 0, 2], [0, 2, 0]]),
    "logaddexp at equality": (lambda x: np.logaddexp(x, 1.0), [1.0], [[0.25]]),
    "sinc at 0": (np.sinc, [0.0], [[-(math.pi**2) / 3]]),
    "sqrt not taken": (lambda x: np.where(x > 0, np.sqrt(x), x), [0.0], [[0]]),
    "var": (np.var, [1.0, 1.0], [[0.5, -0.5], [-0.5, 0.5]]),
    "std of equal values": (np.std, [1.0, 1.0], [[0, 0], [0, 0]]),
    "x/y": (lambda x: x[0] / x[1], [3.0, 2.0], [[0, -0.25], [-0.25, 0.75]]),
    "x**y": (lambda x: x[0] ** x[1], [1.0, 2.0], [[2, 1], [1, 0]]),
    "x**y at y = 0": (lambda x: x[0] ** x[1], [2.0, 0.0], [[0, 0.5], [0.5, math.log(2) ** 2]]),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivative(name: str, mode: str):
    f, x, expected = SECOND[name]
    x = np.asarray(x)

    def directional(x: Any, v: Any) -> Any:
        return np.sum(tg.grad(total(f))(x) * v)

    # A gradient that is the same everywhere does not depend on x any more; its derivative is zero.
    second = tg.grad(directional, allow_unused=True)
    rows = [second(x, v) for v in np.eye(len(x))]
    np.testing.assert_allclose(np.array(rows), expected, rtol=1e-12, atol=1e-15)


def test_fourth_derivative_of_a_gaussian_at_0(mode: str):
    def derivative(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return tg.grad(lambda x: np.sum(f(x)), allow_unused=True)

    f: Callable[[Any], Any] = lambda x: np.exp(-(x**2))
    for expected in (0, -2, 0, 12):
        f = derivative(f)
        np.testing.assert_allclose(f(np.array(0.0)), expected, atol=1e-15)


def test_gradients_of_both_operands(mode: str):
    def both(f: Callable[..., Any], x: Any, y: Any) -> list[Any]:
        return [float(g) for g in tg.grad(f, argnums=(0, 1))(np.array(x), np.array(y))]

    assert both(np.maximum, 2.0, 2.0) == [0.5, 0.5]
    assert both(np.logaddexp, -inf, -inf) == [0, 0]
    assert both(np.logaddexp, inf, inf) == [0.5, 0.5]
    assert both(np.arctan2, 0.0, 0.0) == [0, 0]
    assert both(np.power, 0.0, 0.0) == [0, 0]
    assert both(np.power, 0.0, 1.0) == [1, 0]
    assert both(lambda x, hi: np.clip(x, 0, hi), 3.0, 2.0) == [0, 1]
    assert both(lambda x, hi: np.clip(x, 0, hi), 2.0, 2.0) == [1, 0]
    assert both(lambda lo, hi: np.clip(1.0, lo, hi), 3.0, 2.0) == [0, 1]
    assert both(lambda x, y: np.where(x > 0, np.log(x), y), 0.0, 1.0) == [0, 1]


def test_operands_keep_their_dtype(mode: str):
    x, y = np.float32([1, 2]), np.float64([3, 4])
    gx, gy = tg.grad(lambda x, y: np.sum((x - y) ** 2), argnums=(0, 1))(x, y)
    assert (gx.dtype, gy.dtype) == (np.float32, np.float64)
    np.testing.assert_array_equal(gx, [-4, -4])


class TestComplex:
    """Gradients point in the direction of steepest ascent: for z = x + iy, dL/dx + i dL/dy."""

    @pytest.mark.parametrize(
        ("f", "z", "expected"),
        [
            (lambda z: abs(z), 3 + 4j, 0.6 + 0.8j),
            (lambda z: abs(z), 0j, 0),
            (lambda z: abs(z), complex(inf, 0), 1),
            (lambda z: np.real(z * z), 3 + 4j, 6 - 8j),
            (lambda z: np.imag(z * z), 3 + 4j, 8 + 6j),
            (lambda z: np.real(np.conj(z) * z), 3 + 4j, 6 + 8j),
            (lambda z: np.angle(z), 0j, 0),
            (lambda z: np.angle(z), 1j, -1),
            (lambda z: np.angle(z), 5.6843e-14 + 1e-13j, -7.5579e12 + 4.2962e12j),
            (lambda z: np.real(np.exp(1j * z)), 0j, -1j * 0 + complex(0, -1)),
            (lambda z: np.real(1 / z), 1j, 1),
            (lambda z: np.real(np.sign(z)), 3 + 4j, 16 / 125 - 12j / 125),
        ],
    )
    def test_gradient(self, f: Callable[[Any], Any], z: complex, expected: complex, mode: str):
        np.testing.assert_allclose(tg.grad(total(f))(np.array(z)), expected, rtol=1e-4, atol=1e-15)

    def test_real_operand_of_a_complex_product_has_a_real_gradient(self, mode: str):
        gradient = tg.grad(lambda x: np.sum(abs(x * (3 + 4j))))(np.array([2.0, -1.0]))
        assert gradient.dtype == np.float64
        np.testing.assert_allclose(gradient, [5, -5])
