"""LAPACK by symbol: symbolic sizes, transposed matrices, chunks, loops, NaN, derivatives of both orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.scipy.linalg import solve_triangular

WAYS = [
    {"lower": lower, "trans": trans, "unit_diagonal": lower != (trans == "T")}
    for lower in (True, False)
    for trans in "NT"
]


def systems(a: Any, b: Any) -> Any:
    t = a / 40
    return (
        *(solve_triangular(t, b, **way) for way in WAYS), *(solve_triangular(t, b[:, 0], **way) for way in WAYS[:2]),
        np.linalg.solve(a, b), np.linalg.solve(a.T, b), np.linalg.inv(a.T), np.linalg.det(a),
        np.linalg.cholesky(a @ a.T, upper=True),
    )  # fmt: skip


def test_sizes_that_change():
    compiled, rng = tg.jit(systems), np.random.default_rng(0)
    for n in (30, 41, 7):
        a, b = rng.standard_normal((n, n)) + 5 * np.eye(n), rng.standard_normal((n, 3))
        for found, expected in zip(compiled(a, b), systems(a, b), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert "n,n]" in compiled.show("schedule") and " host(" not in compiled.show("schedule")


def test_bits_do_not_depend_on_threads():
    rng, n = np.random.default_rng(1), 260
    a, b = rng.standard_normal((n, n)) + 20 * np.eye(n), rng.standard_normal((n, 200))
    compiled = tg.jit(lambda a, b: (np.linalg.solve(a, b), np.linalg.inv(a), np.linalg.cholesky(a @ a.T)))
    together = compiled(a, b)
    import numba

    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        alone = compiled(a, b)
    finally:
        numba.set_num_threads(threads)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(a @ together[0], b, atol=1e-10)


def test_steps_on_the_pool():
    rng, n = np.random.default_rng(2), 32
    stack = rng.standard_normal((60, n, n)) + 8 * np.eye(n)
    compiled = tg.jit(lambda m: tg.map(lambda a: np.linalg.inv(a) @ np.linalg.cholesky(a @ a.T), m))
    expected = np.linalg.inv(stack) @ np.linalg.cholesky(stack @ np.swapaxes(stack, 1, 2))
    np.testing.assert_allclose(compiled(stack), expected, atol=1e-12)
    stack[50] = 1
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        compiled(stack)


def test_nan():
    a = np.eye(30)
    a[20, 3] = np.nan
    compiled = tg.jit(lambda a: (np.linalg.inv(a), np.linalg.cholesky(a.T), np.linalg.slogdet(a)))
    inverse, half, (sign, size) = compiled(a)
    np.testing.assert_array_equal(np.isnan(inverse), np.isnan(np.linalg.inv(a)))
    np.testing.assert_array_equal(half, np.eye(30))  # the upper triangle is not read
    assert abs(sign) == 1 and np.isnan(size)
    np.testing.assert_array_equal(np.isnan(compiled(a.T)[1]), np.isnan(np.linalg.cholesky(a)))


@pytest.mark.slow
def test_derivatives_in_a_loop():
    rng, n = np.random.default_rng(3), 26
    a, b = rng.standard_normal((n, n)) / n, rng.standard_normal((n, 2))

    def loss(a: Any) -> Any:
        def step(c: Any, shift: Any) -> Any:
            s = a @ a.T + shift * np.eye(n)
            c = np.linalg.solve(s + a, c) + solve_triangular(np.linalg.cholesky(s), c, lower=True)
            return np.sin(c), np.linalg.slogdet(s)[1] + np.sum(np.linalg.inv(s) * a)

        c, terms = tg.scan(step, b, np.array([1.0, 2.0]))
        return np.sum(c * c) + np.sum(terms)

    u, v = rng.standard_normal((2, n, n))
    first = tg.grad(loss)
    second = tg.grad(lambda a: np.sum(first(a) * u))
    h = 1e-6
    difference = (loss(a + h * v) - loss(a - h * v)) / (2 * h)
    np.testing.assert_allclose(np.sum(first(a) * v), difference, rtol=1e-7)
    difference = np.sum((first(a + h * v) - first(a - h * v)) * u) / (2 * h)
    np.testing.assert_allclose(np.sum(second(a) * v), difference, rtol=1e-6)
    assert " host(" not in second.show("schedule")
