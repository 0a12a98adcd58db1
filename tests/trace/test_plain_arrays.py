"""Plain arrays that a traced function computes with and overwrites: each use has the numbers of its moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import UnsupportedError

X = np.array([1.0, -2.0, 3.0])
BUFFER = np.zeros(3)


def overwritten(x: Any) -> Any:
    a = np.ones(3)
    y = x * a
    a += 5.0
    return np.sum(y * a)


def overwritten_after_the_last_use(x: Any) -> Any:
    a = np.arange(3.0)
    y = x * a
    a[:] = 100.0
    return np.sum(y**2) if y.sum() > 3 else y[0]  # the decision is on numbers of before


def one_hot(x: Any) -> Any:
    weights, total = np.zeros(3), 0.0
    for i in range(3):
        weights[:] = 0
        weights[i] = i + 1.0
        total = total + np.sum(x * weights) ** 2
    return total


def view_of_a_table(x: Any) -> Any:
    table = np.ones((2, 3))
    row = table[1]
    y = x * row
    table *= 4.0
    return np.sum(y * row * np.float64(1.0))


def large(x: Any) -> Any:
    a = np.ones(100_000)
    y = np.sum(x[0] * a)
    a *= 2
    y = y + np.sum(x[1] * a)
    a[7] = 5
    return y


def in_a_loop(x: Any) -> Any:
    def step(carry: Any, _: Any) -> Any:
        w = np.zeros(3)
        w[1] = 2.0
        r = carry * w
        w[1] = 7.0
        return carry + r * w, None

    return np.sum(tg.scan(step, x, None, length=2)[0])


class Doubled(tg.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        w = np.full(3, 2.0)
        r = g * w
        w[:] = 1e9
        return r


@pytest.mark.parametrize(
    ("f", "gradient"),
    [
        (overwritten, [6, 6, 6]), (overwritten_after_the_last_use, [0, -4, 24]), (one_hot, [2, -16, 54]),
        (view_of_a_table, [4, 4, 4]), (large, [1e5, 2e5, 0]), (in_a_loop, [1, 225, 1]),
        (lambda x: np.sum(Doubled.apply(x)), [2, 2, 2]),
    ],
)  # fmt: skip
def test_each_use_has_the_numbers_of_its_moment(f: Callable[[Any], Any], gradient: list[float]):
    compiled = tg.value_and_grad(f)
    for _ in range(2):
        value, found = compiled(X)
        np.testing.assert_allclose(value, f(X))
        np.testing.assert_allclose(found, gradient)
    with tg.eager():
        np.testing.assert_allclose(compiled(X)[1], gradient)


def test_an_array_from_outside_must_not_be_overwritten():
    def function(x: Any) -> Any:
        y = np.sum(x * BUFFER)
        BUFFER[:] = BUFFER + 1
        return y

    class Layer:
        def __init__(self) -> None:
            self.table = np.ones((2, 3))

        def __call__(self, x: Any) -> Any:
            y = np.sum(x * self.table[0])
            self.table += 1
            return y

    for f in (function, Layer()):
        with pytest.raises(UnsupportedError, match="from outside, of shape"):
            tg.grad(f)(X)


def test_a_large_array_overwritten_unseen():
    def function(x: Any) -> Any:
        a = np.ones(100_000)
        y = np.sum(x[0] * a)
        a[7] = 2.0
        return y + np.sum(x[1] * a)

    with pytest.raises(UnsupportedError, match="overwritten in a traced function"):
        tg.grad(function)(X)
