"""Eigenvalues, singular values, QR, pseudo-inverses and least squares: values as NumPy's, derivatives to second order.

Derivatives are taken of what does not depend on arbitrary signs and phases, and along Hermitian directions where one
triangle is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.ops.derivatives import gradients
from tests.ops.functions import check_function
from tests.ops.samples import values
from tracegrad.errors import ArgumentError, AutogradError, ShapeError, UnsupportedError
from tracegrad.tensor import Tensor

A, TALL, WIDE, STACK = values((3, 3)), values((4, 3)), values((2, 3)), values((2, 3, 2))
C = A + 1j * values((3, 3), seed=1)
TALL_C = TALL + 1j * values((4, 3), seed=1)


def hermitian(x: Any) -> Any:
    return x + np.conj(np.swapaxes(x, -1, -2))


@pytest.mark.parametrize("x", [A, C, STACK @ np.swapaxes(STACK, -1, -2)], ids=["real", "complex", "stack"])
def test_eigenvalues_and_projections(x: np.ndarray):
    x = x + np.diag([0.0, 3.0, 7.0])  # keeps eigenvalues apart

    def parts(z: Any) -> Any:
        w, v = np.linalg.eigh(hermitian(z))
        first = v[..., :, :1]
        return w, first @ np.conj(np.swapaxes(first, -1, -2)), np.abs(v) ** 2

    check_function(parts, (x,))
    check_function(lambda z: np.linalg.eigvalsh(hermitian(z), "U"), (x,))


@pytest.mark.parametrize("x", [TALL, WIDE, A, STACK, C, TALL_C, TALL_C.T], ids=lambda x: f"{x.dtype}{x.shape}")
def test_singular_values_and_projections(x: np.ndarray):
    def parts(z: Any) -> Any:
        u, s, vh = np.linalg.svd(z, full_matrices=False)
        return s, u[..., :, :1] @ vh[..., :1, :], (u * np.sqrt(s)[..., None, :]) @ vh

    check_function(parts, (x,))


CASES: list[tuple[Any, ...]] = [
    *((np.linalg.qr, x) for x in (A, TALL, WIDE, STACK, TALL_C, TALL_C.T)), (np.linalg.qr, WIDE, "complete"),
    (np.linalg.qr, TALL, "r"), (np.linalg.svdvals, TALL), (np.linalg.svd, A, True, False),
    *((np.linalg.pinv, x) for x in (A, TALL, WIDE, STACK, TALL_C)), (np.linalg.pinv, TALL, 1e-9),
    *((np.linalg.cond, A, p) for p in (None, -2, 1)), *((np.linalg.norm, TALL, p) for p in (2, -2, "nuc")),
    (np.linalg.norm, STACK, "nuc", (1, 0)), (np.linalg.lstsq, TALL, values((4,))),
    (np.linalg.lstsq, TALL, values((4, 2))),
    (np.linalg.tensorsolve, values((2, 2, 4)), values((2, 2))), (np.linalg.tensorinv, values((2, 2, 4))),
    (np.linalg.matmul, A, TALL.T), (np.linalg.tensordot, A, A), (np.matvec, C, WIDE[0] * 1j), (np.vecmat, C[0], C),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0].__name__}-{c[1].dtype}-{c[1].shape}")
def test_against_numpy(case: tuple[Any, ...]):
    check_function(case[0], case[1:])


def test_rank():
    deficient = TALL[:, :1] * WIDE[:1]
    for x in (TALL, deficient, STACK, np.zeros((2, 2)), WIDE[0]):
        assert np.array_equal(np.linalg.matrix_rank(Tensor._wrap(x)), np.linalg.matrix_rank(x))
    _, sums, rank, _ = np.linalg.lstsq(Tensor._wrap(deficient), Tensor._wrap(TALL[:, 0]))
    assert sums.shape == (0,) and rank == 1


def test_second_derivatives_compiled():
    def curved(x: Any) -> Any:
        return tg.jvp(tg.grad(lambda z: np.sum(np.linalg.eigh(hermitian(z))[1] ** 4)), (x,), (np.cos(x),))[1]

    x = A + np.diag([0.0, 3.0, 7.0])
    with tg.eager():
        expected = curved(x)
    np.testing.assert_allclose(tg.jit(curved)(x), expected, rtol=1e-9)


def test_rows_of_a_batch():
    rows = values((2, 3, 3)) + np.diag([0.0, 3.0, 7.0])
    found = tg.vmap(lambda x: np.linalg.eigh(x + x.T)[0] + np.linalg.qr(x)[1] + np.linalg.svdvals(x))(rows)
    w = np.linalg.eigvalsh(rows + np.swapaxes(rows, 1, 2))
    expected = w[:, None] + np.linalg.qr(rows)[1] + np.linalg.svdvals(rows)[:, None]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_equal_values():
    """What depends on values alone has its gradient; what depends on arbitrary vectors shows that it has none."""
    np.testing.assert_array_equal(gradients(lambda x: np.sum(np.linalg.eigvalsh(x)), [np.eye(3)])[0], np.eye(3))
    (g,) = gradients(lambda x: np.sum(np.linalg.svdvals(x)[:2]), [np.ones((5, 5))])
    assert np.isfinite(g).all()
    for x, expected in ((2 * np.eye(3), np.eye(3)), (np.zeros((2, 3)), np.zeros((2, 3)))):
        (g,) = gradients(lambda z: np.linalg.norm(z, "nuc"), [x])
        np.testing.assert_allclose(g, expected, atol=1e-14)
    (g,) = gradients(lambda x: np.sum(A * np.linalg.eigh(x)[1]), [np.eye(3)])
    assert not np.isfinite(g).any()


def test_what_vectors_hide_where_values_are_equal():
    """u s vᴴ has a gradient where s is 0, though none flows back to u and v: not a wrong one, but NaN."""

    def product(z: Any) -> Any:
        u, s, vh = np.linalg.svd(z)
        return np.sum(A * ((u * s) @ vh))

    for x in (np.zeros((3, 3)), np.diag([1.0, 0, 0])):
        assert np.isnan(gradients(product, [x])[0]).any()


def test_rank_deficient_product_of_its_factors():
    x = values((6, 3)) @ values((3, 6), seed=1)
    weights = values((6, 6), seed=2)

    def product(z: Any) -> Any:
        u, s, vh = np.linalg.svd(z, full_matrices=False)
        return np.sum(weights * ((u * s) @ vh))

    np.testing.assert_allclose(gradients(product, [x])[0], weights, rtol=1e-8)


def test_phases_are_not_differentiated():
    for function in (lambda z: np.linalg.eigh(hermitian(z))[1], lambda z: np.linalg.svd(z)[0]):
        with pytest.raises(AutogradError, match="phases"):
            gradients(function, [C], [C])


def test_bad_arguments():
    x, wide = Tensor._wrap(A), Tensor._wrap(WIDE)
    with pytest.raises(ShapeError, match="square matrices"):
        np.linalg.eigh(wide)
    with pytest.raises(ArgumentError, match="UPLO"):
        np.linalg.eigh(x, "M")
    with pytest.raises(UnsupportedError, match="real or complex depends"):
        np.linalg.eigvals(x)
    with pytest.raises(UnsupportedError, match="full_matrices=False"):
        np.linalg.svd(wide)
    with pytest.raises(UnsupportedError, match="arbitrary"):
        np.linalg.qr(Tensor._wrap(TALL), "complete")
    with pytest.raises(UnsupportedError, match="cut-off"):
        np.linalg.pinv(wide, 0.1)
    with pytest.raises(ShapeError, match="needs matrices"):
        np.linalg.svdvals(Tensor._wrap(A[0]))
    with pytest.raises(ShapeError, match="lstsq of arrays"):
        np.linalg.lstsq(x, WIDE)
    with pytest.raises(np.linalg.LinAlgError):
        # a column of zeros: equal columns leave, by rounding, a factor that is not quite singular on some processors
        gradients(lambda z: np.linalg.qr(z)[0], [np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])])
