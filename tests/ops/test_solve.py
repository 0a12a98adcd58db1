"""Linear systems, inverses, determinants and the Cholesky factor against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.derivatives import gradients
from tests.ops.functions import check_function
from tests.ops.samples import values
from tracegrad.errors import ShapeError, UnsupportedError
from tracegrad.tensor import Tensor

A = values((3, 3)) + 3 * np.eye(3)
STACK = values((2, 2, 2)) + 3 * np.eye(2)
C = A + 1j * values((3, 3), seed=1)

CASES: list[tuple[Any, ...]] = [
    (np.linalg.solve, A, values((3,))), (np.linalg.solve, A, values((3, 2))), (np.linalg.solve, STACK, values((2,))),
    (np.linalg.solve, STACK, values((2, 2, 1))), (np.linalg.solve, C, values((3,))), (np.linalg.inv, A),
    (np.linalg.inv, STACK),
    (np.linalg.inv, C), (np.linalg.det, A), (np.linalg.det, STACK), (np.linalg.det, C), (np.linalg.slogdet, A),
    (np.linalg.slogdet, -STACK),
    (np.linalg.inv, A.astype(np.float32)), (np.linalg.det, values((0, 0))),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0].__name__}-{c[1].dtype}-{c[1].shape}")
def test_against_numpy(case: tuple[Any, ...]):
    check_function(case[0], case[1:])


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("x", [A, STACK, C], ids=["real", "stack", "complex"])
def test_cholesky_of_a_product(x: np.ndarray, upper: bool):
    def factor(z: Any) -> Any:
        return np.linalg.cholesky(z @ np.conj(np.swapaxes(z, -1, -2)), upper=upper)

    check_function(factor, (x,))


def test_gradient_of_cholesky_is_symmetric():
    (g,) = gradients(np.linalg.cholesky, [A @ A.T], [values((3, 3), seed=4)])
    np.testing.assert_allclose(g, g.T, rtol=1e-13)


def test_determinant_of_singular_matrices():
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    (g,) = gradients(np.linalg.det, [singular])
    np.testing.assert_allclose(g, [[4, -2], [-2, 1]], atol=1e-14)
    (g,) = gradients(np.linalg.det, [np.zeros((3, 3))])
    np.testing.assert_array_equal(g, np.zeros((3, 3)))


def test_bad_arguments():
    for function in (np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.cholesky):
        with pytest.raises(ShapeError, match="square matrices"):
            function(Tensor._wrap(values((2, 3))))
    with pytest.raises(UnsupportedError, match="complex"):
        np.linalg.slogdet(Tensor._wrap(C))
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.inv(Tensor._wrap(np.zeros((2, 2))))
