"""Kernels on matrices: NumPy's values, NumPy's errors, derivatives, and no call into Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.scipy.linalg import solve_triangular


def everything(a: Any, s: Any, b: Any, stack: Any, right: Any) -> Any:
    half, n = np.linalg.cholesky(s), len(a)
    return (
        np.linalg.solve(a, b), np.linalg.solve(a, b[:, 0]), np.linalg.solve(stack, right), np.linalg.inv(stack),
        np.linalg.det(stack), *np.linalg.slogdet(a), half, solve_triangular(half, b, lower=True),
        solve_triangular(half.T, b), solve_triangular(a / max(n, 1), b, unit_diagonal=True),
    )  # fmt: skip


@pytest.mark.parametrize(("n", "dtype"), [(0, float), (3, np.float32), (9, float), (33, np.float32), (70, float)])
def test_values(n: int, dtype: Any):
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((n, n)), rng.standard_normal((n, 2))
    a[:, :1] *= 1e-3  # rows have to be exchanged
    args = a, a @ a.T + np.eye(n), b, rng.standard_normal((2, 1, n, n)) + np.eye(n), rng.standard_normal((3, n, 4))
    args = tuple(x.astype(dtype) for x in args)
    compiled = tg.jit(everything)
    tolerance = 1e-10 if dtype is float else 2e-3
    for found, expected in zip(compiled(*args), everything(*args), strict=True):
        assert found.dtype == expected.dtype and np.shape(found) == np.shape(expected)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    assert " host(" not in compiled.show("schedule")


@pytest.mark.parametrize("n", [3, 40])
def test_what_has_no_answer(n: int):
    ones = np.ones((n, n))
    for function, message in ((np.linalg.inv, "Singular"), (lambda a: np.linalg.solve(a, a), "Singular"),
                              (lambda a: np.linalg.cholesky(-a), "not positive definite")):  # fmt: skip
        with pytest.raises(np.linalg.LinAlgError, match=message):
            tg.jit(function)(ones)
    det, (sign, size) = tg.jit(lambda a: (np.linalg.det(a), np.linalg.slogdet(a)))(ones)
    assert det == 0 and sign == 0 and size == -np.inf
    # a loop that takes no step, and a branch not taken, solve nothing
    skipped = tg.jit(lambda a, k: tg.fori_loop(0, k, lambda i, c: np.linalg.solve(a, c), np.ones(n)))
    np.testing.assert_array_equal(skipped(ones, np.int64(0)), 1)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        skipped(ones, np.int64(2))


def test_derivatives_in_a_loop():
    """A Kalman filter's likelihood: solve, inv, det, slogdet and cholesky in each step."""
    rng = np.random.default_rng(1)
    data, noise = rng.standard_normal((12, 2)), np.array([[0.5, 0.1], [0.1, 0.4]])

    def likelihood(f: Any, q: Any) -> Any:
        def step(c: Any, y: Any) -> Any:
            mean, spread = f @ c[0], f @ c[1] @ f.T + q @ q.T
            s, rest = spread + noise, y - mean
            half = np.linalg.cholesky(s)
            gain = spread @ np.linalg.inv(s)
            loss = rest @ np.linalg.solve(s, rest) + np.linalg.slogdet(s)[1] + np.sum(np.log(np.diag(half)))
            return (mean + gain @ rest, spread - gain @ spread), loss + np.linalg.det(s)

        return np.sum(tg.scan(step, (np.zeros(2), np.eye(2)), data)[1])

    args = np.array([[0.9, 0.2], [-0.1, 0.8]]), np.array([[0.3, 0.0], [0.1, 0.2]])
    gradient = tg.value_and_grad(likelihood, argnums=(0, 1))
    value, found = gradient(*args)
    np.testing.assert_allclose(value, likelihood(*args), rtol=1e-12)
    for i in range(2):
        direction, h = rng.standard_normal((2, 2)), 1e-6
        ends = [likelihood(*(a + s * h * direction * (i == k) for k, a in enumerate(args))) for s in (1, -1)]
        np.testing.assert_allclose(np.sum(found[i] * direction), (ends[0] - ends[1]) / (2 * h), rtol=1e-7)
