"""Functions of neighbours, as finite differences are: loops of nearly the same range share a pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.schedule.graphs import assert_same, scheduled
from tests.schedule.patterns import value_and_grad_graph
from tracegrad.ir.interpret import interpret


def stencils(seed: int) -> tuple[Callable[[Any], Any], np.ndarray]:
    """A random function of differences and products of shifted slices and of their sums, and a point."""
    rng = np.random.default_rng(seed)
    shape = (9,) if seed % 3 else (5, 6)
    steps = [(rng.integers(8), rng.random(), rng.random(), rng.integers(1, 4)) for _ in range(rng.integers(2, 9))]

    def f(x: Any) -> Any:
        values, total = [x], 0.0
        for kind, first, second, shift in steps:
            y, z = (values[int(part * len(values))] for part in (first, second))
            axis = shift % len(shape)
            before = (slice(None),) * axis
            if y.shape[axis] <= shift:
                continue
            ahead, behind = y[(*before, slice(shift, None))], y[(*before, slice(None, -shift))]
            if kind < 4:
                values.append((ahead - behind, ahead * behind, np.sin(y), y - np.mean(y))[kind])
            else:
                total += (np.sum(y**2), np.sum(y), np.sum(y) * np.sum(z * z), np.max(y))[kind - 4]
        return total + np.sum(values[-1] * 1.5)

    return f, rng.standard_normal(shape)


@pytest.mark.parametrize("first", range(0, 60, 30))
def test_random_stencils(first: int) -> None:
    for seed in range(first, first + 30):
        f, x = stencils(seed)
        graph = value_and_grad_graph(f, 0, (x,))
        try:
            assert_same(scheduled(graph), (x,), interpret(graph, (x,)))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}\n{graph}") from error


def test_sums_of_differences_of_differences() -> None:
    """The sum of y runs over x's range, after which y is not stored; the sum of z² cannot then read it."""

    def f(x: Any) -> Any:
        y = x[1:] - x[:-1]
        z = y[1:] - y[:-1]
        return np.sum(z**2) + np.sum(y)

    x = np.arange(6.0) ** 3
    graph = value_and_grad_graph(f, 0, (x,))
    assert_same(scheduled(graph), (x,), interpret(graph, (x,)))
