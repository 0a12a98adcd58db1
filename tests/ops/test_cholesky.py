"""The adjoint of the Cholesky factor by blocks: against its definition with whole matrices, and differences."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import tracegrad as tg
from tests.ops.functions import check_function
from tracegrad.ops import cholesky
from tracegrad.ops.cholesky import CholeskyAdjoint

RNG = np.random.default_rng(0)


def factor_and_gradient(n: int, batch: tuple[int, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    x = RNG.standard_normal((*batch, n, n))
    return np.linalg.cholesky(x @ np.swapaxes(x, -1, -2) + n * np.eye(n)), RNG.standard_normal((*batch, n, n))


def by_definition(factor: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The symmetric part of l⁻ᵀ Φ(lᵀ g) l⁻¹."""
    inverse, turned = np.linalg.inv(factor), np.swapaxes(factor, -1, -2)
    inner = np.tril(turned @ np.tril(g)) * (1 - 0.5 * np.eye(g.shape[-1]))
    half = np.swapaxes(inverse, -1, -2) @ inner @ inverse
    return (half + np.swapaxes(half, -1, -2)) / 2


@pytest.mark.parametrize("n", [0, 1, 2, 7, 24, 25, 32, 33, 64, 65, 100, 163])
def test_definition(n: int):
    factor, g = factor_and_gradient(n)
    with np.errstate(all="raise"):
        expected = by_definition(factor, g)
    np.testing.assert_allclose(CholeskyAdjoint.forward(factor, g), expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(tg.jit(CholeskyAdjoint.apply)(factor, g), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("block", [1, 5, 8, 16])
def test_blocks_of_numpy(block: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cholesky, "BLOCK", block)
    factor, g = factor_and_gradient(16, (3,))
    np.testing.assert_allclose(CholeskyAdjoint.forward(factor, g), by_definition(factor, g), rtol=1e-11, atol=1e-13)
    found = CholeskyAdjoint.forward(factor[0], g)
    np.testing.assert_allclose(found, by_definition(factor[0], g), rtol=1e-11, atol=1e-13)


def test_batches_sizes_and_dtypes():
    compiled = tg.jit(CholeskyAdjoint.apply)
    for n, batch in ((3, ()), (40, ()), (57, ()), (3, (2, 2)), (40, (3,)), (29, (2,))):
        factor, g = factor_and_gradient(n, batch)
        expected = by_definition(factor, g)
        np.testing.assert_allclose(compiled(factor, g), expected, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(compiled(factor, g.astype(np.float32)), expected, rtol=1e-4, atol=1e-4)
        found = compiled(factor.astype(np.float32), g.astype(np.float32))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    factor, g = factor_and_gradient(30, (4,))
    found = tg.vmap(CholeskyAdjoint.apply, in_axes=(None, 0))(factor[0], g)
    np.testing.assert_allclose(found, by_definition(factor[0], g), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("n", [3, 26])
def test_upper_triangles_are_not_read(n: int):
    factor, g = factor_and_gradient(n)
    expected = by_definition(factor, g)
    poisoned = [np.where(np.tri(n, dtype=bool), x, np.nan) for x in (factor, g)]
    np.testing.assert_allclose(tg.jit(CholeskyAdjoint.apply)(*poisoned), expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(CholeskyAdjoint.forward(*poisoned), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("n", [4, 27, 70])
def test_both_derivatives_of_a_likelihood(n: int):
    y, x = RNG.standard_normal(n), np.sort(RNG.uniform(0, 3, n))

    def likelihood(p):
        k = np.exp(-((x[:, None] - x[None, :]) ** 2) * np.exp(p[0])) * np.exp(p[1]) + np.exp(p[2]) * np.eye(n)
        half = np.linalg.cholesky(k)
        z = tg.scipy.linalg.solve_triangular(half, y, lower=True)
        return 0.5 * z @ z + np.sum(np.log(np.diag(half))) + np.sum(half[:, 0] ** 3)

    p, h = np.array([0.3, 0.1, -1.0]), 1e-5
    gradient, hessian = tg.grad(likelihood), tg.hessian(likelihood)
    steps = h * np.eye(3)
    differences = [(likelihood(p + s) - likelihood(p - s)) / (2 * h) for s in steps]
    np.testing.assert_allclose(gradient(p), differences, rtol=1e-7)
    differences = [(gradient(p + s) - gradient(p - s)) / (2 * h) for s in steps]
    np.testing.assert_allclose(hessian(p), differences, rtol=1e-6, atol=1e-6)
    with tg.eager():
        np.testing.assert_allclose(tg.hessian(likelihood)(p), hessian(p), rtol=1e-9)
    assert " host(" not in gradient.show("schedule")


def test_derivatives_of_the_adjoint():
    factor, g = factor_and_gradient(5)
    check_function(lambda l, g: CholeskyAdjoint.apply(np.tril(l), g), (factor, g))


def test_bits_do_not_depend_on_threads():
    factor, g = factor_and_gradient(520)
    compiled = tg.jit(CholeskyAdjoint.apply)
    together = compiled(factor, g)
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        np.testing.assert_array_equal(compiled(factor, g), together)
    finally:
        numba.set_num_threads(threads)
    np.testing.assert_allclose(together, by_definition(factor, g), rtol=1e-9, atol=1e-11)
