"""Rows in blocks: what is cut, what is left alone, and that the numbers stay (against NumPy)."""

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.schedule.verify import verify


def rows(w, X, y):
    z = X @ w
    p = np.exp(-z * z)
    return np.sum(p * y) + np.sum(np.sin(z) * (X @ np.tanh(w))), (p, z)


def program_of(n, m):
    rng = np.random.default_rng(n + m)
    w, X, y = rng.standard_normal(m) / m, rng.standard_normal((n, m)), rng.standard_normal(n)
    f = tg.jit(rows)
    value, (p, z) = f(w, X, y)
    expected, (ep, ez) = rows(w, X, y)
    assert np.isclose(value, expected) and np.allclose(p, ep) and np.allclose(z, ez)
    schedule = next(iter(f.entries.values()))[0].program.stage("schedule")
    verify(schedule)
    return schedule


def is_blocked(schedule):
    return any(b.name.endswith("_rows") for b in schedule.buffers)


@pytest.mark.parametrize("n, m", [(128, 9), (1000, 40), (1003, 40)])
def test_costly_rows_are_blocked(n, m):
    assert is_blocked(program_of(n, m))


@pytest.mark.parametrize("n, m", [(10, 40), (1000, 500)])
def test_few_rows_and_wide_rows_are_not(n, m):
    assert not is_blocked(program_of(n, m))


def test_cheap_rows_are_not():
    f = tg.jit(lambda X, w: np.sum((X @ w) ** 2))
    f(np.ones((1000, 40)), np.ones(40))
    assert not is_blocked(next(iter(f.entries.values()))[0].program.stage("schedule"))
