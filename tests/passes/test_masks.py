"""Masks that select another number of elements in each call: one program where their order does not matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg


def statistics(x: Any, t: Any) -> Any:
    chosen = x[x > 0]
    return np.mean(np.log(chosen)) + chosen.std() + np.max(chosen) * len(chosen) + np.prod(x[x > 0])


def of_rows(x: Any, t: Any) -> Any:
    rows, weights = t[x > 0], x[x > 0]
    product = rows.T @ rows
    sums = np.sum((rows - weights[:, None]).sum(0) ** 2)
    return np.sum(product**2) + sums + np.sum(rows @ t[0] * weights) + rows.mean()


def of_tables(x: Any, t: Any) -> Any:
    return np.sum(np.sqrt(t[t > 0])) + np.sum(t.T[:, x > 0] ** 2) + np.sum(np.compress(x < 0, x) ** 3)


def smallest(x: Any, t: Any) -> Any:
    return np.sort(x[x > 0])[0]


def of_decision(x: Any, t: Any) -> Any:
    return np.sum(x[x > 0]) * (2 if len(x[x > 0]) > 4 else 3)


def returned(x: Any, t: Any) -> Any:
    return np.exp(x[x > 0])


def inputs() -> list[tuple[np.ndarray, np.ndarray]]:
    """Nine elements of which another number is positive each time, one and none in the end."""
    rng = np.random.default_rng(3)
    rows = [np.where(np.arange(9) < n, 1, -1) * rng.uniform(0.5, 2, 9) for n in (3, 5, 6, 4, 7, 2, 1, 0)]
    return [(rng.permutation(x), rng.normal(size=(9, 2))) for x in rows]


def programs(f: Any) -> int:
    return len({id(e.program) for entries in f.entries.values() for e in entries})


@pytest.mark.parametrize("function", [of_rows, pytest.param(statistics, marks=pytest.mark.slow), of_tables])
def test_one_program_for_all_counts(function: Callable[..., Any]) -> None:
    gradient = tg.value_and_grad(lambda x, t: np.sin(function(x, t)), argnums=(0, 1), allow_unused=True)
    for x, t in inputs()[:6]:
        value, grads = gradient(x, t)
        np.testing.assert_allclose(value, np.sin(function(x, t)), rtol=1e-9)
        with tg.eager():
            for found, wanted in zip(grads, gradient(x, t)[1], strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)
    assert programs(gradient) == 2
    assert function is of_tables or tg.autograd.gradgradcheck(lambda x, t: np.sin(function(x, t)), inputs()[1])


@pytest.mark.parametrize("function", [smallest, of_decision, returned])
def test_where_counts_decide(function: Callable[..., Any]) -> None:
    """A program for each count; one and none selected are programs of their own in any case."""
    compiled, summed = tg.jit(function), tg.jit(lambda x, t: np.sum(x[x > 0]))
    for x, t in inputs():
        np.testing.assert_allclose(summed(x, t), np.sum(x[x > 0]), rtol=1e-13)
        try:
            wanted = function(x, t)
        except IndexError:
            with pytest.raises(IndexError):
                compiled(x, t)
        else:
            np.testing.assert_allclose(compiled(x, t), wanted, rtol=1e-13)
    assert programs(summed) == 4 and programs(compiled) >= 6


def test_sizes_and_counts_together() -> None:
    f = tg.jit(lambda x: np.mean(x[x > 0] ** 2))
    rng = np.random.default_rng(4)
    for n in (8, 11, 20, 9, 35, 50):
        x = np.concatenate([[1.0, 2.0], rng.normal(size=n)])
        np.testing.assert_allclose(f(x), np.mean(x[x > 0] ** 2), rtol=1e-12)
    assert programs(f) == 2
