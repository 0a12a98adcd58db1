"""tracegrad.scipy.linalg against scipy.linalg: values, derivatives, compiled programs, bad arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import tracegrad as tg
from tests.ops.derivatives import gradients
from tests.ops.functions import check_function
from tests.ops.samples import values
from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.scipy import linalg
from tracegrad.tensor import Tensor

A = values((3, 3)) + 3 * np.eye(3)
C = A + 1j * values((3, 3), seed=1)
STACK = values((2, 2, 2)) + 3 * np.eye(2)
VECTOR, COLUMNS = values((3,), seed=2), values((3, 2), seed=3)


@pytest.mark.parametrize("trans", ["N", "T", 2])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("b", [VECTOR, COLUMNS, COLUMNS * 1j], ids=["vector", "columns", "complex"])
def test_triangular_systems(trans: Any, lower: bool, b: np.ndarray):
    for a in (A, C):
        for unit in (False, True):
            options = {"trans": trans, "lower": lower, "unit_diagonal": unit}
            check_function(linalg.solve_triangular, (a, b), options, expected=scipy.linalg.solve_triangular)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("x", [A, C], ids=["real", "complex"])
def test_cholesky_factors(x: np.ndarray, lower: bool):
    def of_product(module: Any) -> Any:
        def function(z: Any, b: Any) -> Any:
            a = z @ np.conj(z.T) + np.eye(3)
            return module.cholesky(a, lower=lower), module.cho_solve(module.cho_factor(a, lower), b)

        return function

    check_function(of_product(linalg), (x, COLUMNS), expected=of_product(scipy.linalg))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", [None, "gen", "pos", "sym", "lower triangular", "upper triangular"])
def test_systems_by_kind(kind: str | None, transposed: bool):
    def using(module: Any) -> Any:
        def function(z: Any, b: Any) -> Any:
            a = z @ z.T + np.eye(3) if kind in ("pos", "sym") else z
            return module.solve(a, b, assume_a=kind, transposed=transposed)

        return function

    check_function(using(linalg), (A, VECTOR), expected=using(scipy.linalg))


@pytest.mark.parametrize("a", [A, 20 * A, C, A.astype(np.float32), np.diag([1.0, 1.0], 1)], ids=range(5))
def test_exponentials(a: np.ndarray):
    check_function(linalg.expm, (a,), order=2 if abs(a).max() < 20 else 0, expected=scipy.linalg.expm)


def test_exponential_of_a_rotation():
    """exp(t J) turns by the angle t, and so do its derivatives."""
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    t, weights = 0.7, values((2, 2))
    (g,) = gradients(lambda s: linalg.expm(s * turn), [np.array(t)], [weights])
    derivative = np.array([[-np.sin(t), -np.cos(t)], [np.cos(t), -np.sin(t)]])
    np.testing.assert_allclose(g, np.sum(weights * derivative), rtol=1e-13)


def test_matrices_of_a_pattern():
    check_function(linalg.toeplitz, (VECTOR, COLUMNS[:, 0]), expected=scipy.linalg.toeplitz)
    check_function(linalg.toeplitz, (VECTOR * 1j,), expected=scipy.linalg.toeplitz)
    check_function(linalg.toeplitz, (VECTOR, values((5,))), expected=scipy.linalg.toeplitz)
    check_function(linalg.block_diag, (A, VECTOR, COLUMNS), expected=scipy.linalg.block_diag)


def test_the_others_are_those_of_numpy():
    for name in ("inv", "det", "norm"):
        check_function(getattr(linalg, name), (A,), expected=getattr(scipy.linalg, name))
    check_function(linalg.solve, (STACK, values((2, 2, 1))), expected=np.linalg.solve)


def test_factorisations():
    wide, tall = values((2, 3)), values((3, 2))
    for x, options in ((A, {}), (tall, {"full_matrices": False})):
        check_function(
            lambda z, o=options: _known(linalg.svd(z, **o)),
            (x,),
            expected=lambda z, o=options: _known(scipy.linalg.svd(z, **o)),
        )
    check_function(linalg.svdvals, (wide,), expected=scipy.linalg.svdvals)
    check_function(linalg.pinv, (wide,), expected=scipy.linalg.pinv)
    check_function(linalg.qr, (tall,), {"mode": "economic"}, expected=scipy.linalg.qr)
    check_function(linalg.qr, (A,), expected=scipy.linalg.qr)
    for options in ({}, {"lower": False}):
        check_function(
            lambda z, o=options: _known(linalg.eigh(z + z.T, **o)), (A,),
            expected=lambda z, o=options: _known(scipy.linalg.eigh(z + z.T, **o)),
        )  # fmt: skip
        check_function(
            lambda z, o=options: linalg.eigvalsh(z + z.T, **o), (A,),
            expected=lambda z, o=options: scipy.linalg.eigvalsh(z + z.T, **o),
        )  # fmt: skip


def _known(parts: Any) -> list[Any]:
    """Vectors have arbitrary signs: their squares."""
    return [p**2 if p.ndim == 2 else p for p in parts]


def test_batches_of_systems():
    rng = np.random.default_rng(0)
    stack, rhs = rng.standard_normal((2, 3, 3)) + 3 * np.eye(3), rng.standard_normal((2, 3))

    def loss(a: Any, b: Any) -> Any:
        return np.sum(linalg.solve_triangular(a, b, lower=True) ** 2) + np.sum(linalg.expm(a / 4))

    gradients = tg.vmap(tg.grad(loss, argnums=(0, 1)))(stack, rhs)
    for i in range(2):
        for found, expected in zip(gradients, tg.grad(loss, argnums=(0, 1))(stack[i], rhs[i]), strict=True):
            np.testing.assert_allclose(found[i], expected, rtol=1e-12)
    shared = tg.vmap(lambda b: linalg.solve_triangular(stack[0], b, trans="T"))(rhs)
    np.testing.assert_allclose(shared, np.stack([scipy.linalg.solve_triangular(stack[0], b, trans="T") for b in rhs]))


def test_a_log_likelihood_compiles():
    """The density of a Gaussian vector: its gradient in the mean is K⁻¹ (y - m), in K it is ½ (K⁻¹ r rᵀ K⁻¹ - K⁻¹)."""

    def log_density(mean: Any, k: Any, y: Any) -> Any:
        factor = linalg.cholesky(k, lower=True)
        r = linalg.solve_triangular(factor, y - mean, lower=True)
        return -0.5 * r @ r - np.sum(np.log(np.diag(factor)))

    k, y, mean = A @ A.T, VECTOR, np.zeros(3)
    solved = np.linalg.solve(k, y)
    for _ in range(2):
        value, (g_mean, g_k) = tg.value_and_grad(log_density, argnums=(0, 1))(mean, k, y)
    np.testing.assert_allclose(value, -0.5 * y @ solved - 0.5 * np.log(np.linalg.det(k)), rtol=1e-13)
    np.testing.assert_allclose(g_mean, solved, rtol=1e-12)
    np.testing.assert_allclose(g_k, 0.5 * (np.outer(solved, solved) - np.linalg.inv(k)), rtol=1e-10, atol=1e-15)


def test_bad_arguments():
    a = Tensor._wrap(A)
    with pytest.raises(ShapeError, match="square matrices"):
        linalg.solve_triangular(a[:2], VECTOR)
    with pytest.raises(ShapeError, match="shape"):
        linalg.solve_triangular(a, values((2, 2)))
    with pytest.raises(ShapeError, match="vector or matrices"):
        linalg.solve_triangular(a, 1.0)
    with pytest.raises(ArgumentError, match="trans='X'"):
        linalg.solve_triangular(a, VECTOR, trans="X")
    with pytest.raises(ShapeError, match="takes vectors"):
        linalg.toeplitz(a)
    with pytest.raises(ShapeError, match="takes matrices"):
        linalg.block_diag(Tensor._wrap(STACK))
    with pytest.raises(np.linalg.LinAlgError):
        linalg.solve_triangular(a * 0, VECTOR)
    with pytest.raises(np.linalg.LinAlgError):
        tg.jit(linalg.solve_triangular)(A * 0, VECTOR)
