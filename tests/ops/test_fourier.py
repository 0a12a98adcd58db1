"""NumPy's Fourier transforms: sizes, axes and norms as NumPy has them, values and derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.ops.functions import assert_same, check_function
from tests.ops.samples import values
from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.tensor import Tensor

X = values((3, 5))
C = X + 1j * values((3, 5), seed=1)

CASES: list[tuple[Any, ...]] = [
    (np.fft.fft, C), (np.fft.fft, X, 4, 0), (np.fft.fft, C, 7), (np.fft.ifft, X, 3, 1, "ortho"),
    (np.fft.fft2, C), (np.fft.ifft2, X, (4, 4)), (np.fft.fftn, C, (2, -1), (1, 0)), (np.fft.ifftn, X),
    (np.fft.rfft, X), (np.fft.rfft, X, 8, 0, "forward"), (np.fft.rfft, X, 3), (np.fft.irfft, C), (np.fft.irfft, C, 5),
    (np.fft.irfft, C, 12, 0), (np.fft.rfft2, X), (np.fft.rfftn, X, (4, 3), (0, 1)), (np.fft.irfft2, C),
    (np.fft.irfftn, C, (3, 7), (0, 1), "ortho"), (np.fft.hfft, C), (np.fft.hfft, C, 7, 1, "ortho"),
    (np.fft.ihfft, X), (np.fft.ihfft, X, 4, 0),
    (np.fft.fftshift, X), (np.fft.ifftshift, C, 1), (np.fft.fftshift, X, (0,)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0].__name__ + repr(c[2:]) + str(c[1].dtype))
def test_against_numpy(case: tuple[Any, ...]):
    check_function(case[0], case[1:])


def test_single_precision_and_out():
    for function in (np.fft.fft, np.fft.rfft, np.fft.irfft):
        x = X.astype(np.float32)
        assert_same(function(Tensor._wrap(x)), function(x))
    out = Tensor._wrap(np.zeros((3, 5), complex))
    assert np.fft.fft(Tensor._wrap(X), out=out) is out
    assert_same(out, np.fft.fft(X))


def test_compiled_for_every_size():
    """One program for all lengths; a circular convolution, its gradient and a product with its Hessian."""

    def loss(x: Any, kernel: Any) -> Any:
        mixed = np.fft.irfft(np.fft.rfft(x) * np.fft.rfft(kernel, x.shape[0]), x.shape[0])
        return np.sum(np.abs(np.fft.fft(mixed)) ** 2) + np.sum(mixed**3)

    def with_hessian_product(x: Any, kernel: Any) -> Any:
        gradient = tg.grad(loss, argnums=(0, 1))
        return gradient(x, kernel), tg.jvp(lambda z: gradient(z, kernel)[0], (x,), (np.cos(x),))[1]

    compiled = tg.jit(with_hessian_product)
    for n in (5, 6, 7, 8):
        x, kernel = values((n,)), values((3,), seed=1)
        with tg.eager():
            expected = with_hessian_product(x, kernel)
        (found, found_kernel), product = compiled(x, kernel)
        np.testing.assert_allclose(found, expected[0][0], rtol=1e-12)
        np.testing.assert_allclose(found_kernel, expected[0][1], rtol=1e-12)
        np.testing.assert_allclose(product, expected[1], rtol=1e-11, atol=1e-12)
        tg.gradcheck(lambda z: loss(z, kernel), x)


def test_rows_of_a_batch():
    rows = tg.vmap(lambda x: np.fft.rfft(x, axis=0).imag + np.fft.fft(x)[:2].real)(values((3, 2, 2)))
    x = values((3, 2, 2))
    np.testing.assert_allclose(rows, np.fft.rfft(x, axis=1).imag + np.fft.fft(x)[:, :2].real, rtol=1e-12, atol=1e-14)


def test_bad_arguments():
    x = Tensor._wrap(X)
    with pytest.raises(DTypeError, match="real values"):
        np.fft.rfft(Tensor._wrap(C))
    with pytest.raises(ArgumentError, match="norm must be"):
        np.fft.fft(x, norm="unit")
    with pytest.raises(ShapeError, match="at least one point"):
        np.fft.fft(x, 0)
    with pytest.raises(ArgumentError, match="do not go with the axes"):
        np.fft.fftn(x, (2, 3), (0,))
    with pytest.raises(ShapeError, match="out of bounds"):
        np.fft.fft(x, axis=2)
