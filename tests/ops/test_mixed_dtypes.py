"""Operands of two dtypes: derivatives in the precision of the result, eager and compiled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import tracegrad as tg
from tracegrad.scipy import special
from tracegrad.tensor import Tensor


@pytest.fixture(params=["eager", "compiled"])
def mode(request: pytest.FixtureRequest):
    with tg.eager() if request.param == "eager" else contextlib.nullcontext(), np.errstate(all="ignore"):
        yield request.param


WIDE = np.array([1.3, 0.7, 2.1])
BINARY: list[Callable[[Any, Any], Any]] = [
    np.power, np.float_power, np.multiply, np.divide, np.hypot, np.arctan2, np.logaddexp, np.logaddexp2, np.remainder,
    np.fmod, np.copysign, np.maximum, np.fmin, np.vecdot, np.convolve,
    special.xlogy, special.xlog1py, special.rel_entr, special.kl_div, special.beta, special.betaln,
]  # fmt: skip
SPECIAL = ("xlogy", "xlog1py", "rel_entr", "kl_div", "beta", "betaln")


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int16, np.float16, np.float32])
@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_derivatives_are_as_precise_as_the_result(function: Callable[[Any, Any], Any], dtype: Any, mode: str):
    other = np.array([0.3, 1.7, 2.9] if np.dtype(dtype).kind == "f" else [1, 2, 3]).astype(dtype)
    for order in (lambda a, b: (a, b), lambda a, b: (b, a)):

        def loss(x: Any, y: Any) -> Any:
            return np.mean(function(*order(x, y)) ** 2)

        expected = tg.grad(loss)(WIDE, other.astype(float))
        np.testing.assert_allclose(tg.grad(loss)(WIDE, other), expected, rtol=1e-13)
        if mode == "eager":  # the compiled second derivative is that of the same rules
            second = tg.hessian(loss)
            np.testing.assert_allclose(second(WIDE, other), second(WIDE, other.astype(float)), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_compute_in_the_dtype_of_the_result(name: str, dtype: Any, mode: str):
    other = np.array([1, 2, 3], dtype)
    wanted = getattr(scipy.special, name)(WIDE, other)
    for found in (tg.jit(getattr(special, name))(WIDE, other), getattr(special, name)(Tensor._wrap(WIDE), other)):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)
        assert found.dtype == wanted.dtype


def test_exponents_of_small_integers(mode: str):
    base = np.arange(1, 5, dtype=np.uint8)
    expected = np.mean(base.astype(float) ** 2.2 * np.log(base.astype(float)))
    np.testing.assert_allclose(tg.grad(lambda p: np.mean(base**p))(2.2), expected, rtol=1e-14)


def test_complex_numbers_over_integers(mode: str):
    z = np.array([1 + 2j, 3 - 1j])
    found = tg.grad(lambda z, n: np.sum(np.abs(z / n) ** 2))(z, np.array([2, 3]))
    np.testing.assert_allclose(found, 2 * z / [4, 9], rtol=1e-14)
