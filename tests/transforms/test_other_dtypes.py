"""jit and grad on dtypes that compiled code hands to Python: complex numbers and float16, constants among them."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import DTypeError

Z = np.array([[1 + 2j, -0.5j, 3.0], [0.25, -1 + 1j, 2j]])


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64, np.float16])
def test_moved_results_and_constants(dtype):
    x = Z.astype(dtype) if np.dtype(dtype).kind == "c" else Z.real.astype(dtype)

    def f(x):
        zeros = np.zeros_like(x)
        return x, x.T, x[1:, ::-1], x.T.reshape(-1), zeros, zeros[0, 0], zeros.T.reshape(-1), np.full_like(x, 2), x

    for found, expected in zip(tg.jit(f)(x), f(x), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_a_result_that_is_a_complex_number_of_python():
    assert tg.jit(lambda x: (x, x * 0 + 1j))(np.float64(2)) == (2, 1j)
    assert tg.jit(lambda z: z)(3j) == 3j


def test_gradients_that_are_constant():
    weights = np.arange(3.0)
    assert tg.grad(np.imag)(np.complex128(1 + 2j)) == 1j
    assert tg.grad(np.real)(1 + 2j) == 1
    np.testing.assert_array_equal(tg.grad(lambda z: np.sum(np.imag(z) * weights))(Z[0]), 1j * weights)
    np.testing.assert_array_equal(tg.grad(lambda z: np.sum(np.real(z[1:2])))(Z[0]), [0, 1, 0])
    np.testing.assert_array_equal(tg.grad(lambda x: np.sum(np.imag(x * 1j)))(weights), np.ones(3))


def test_a_gradient_that_is_zero_in_half_precision():
    gradients = tg.grad(lambda a, x: 2 * x, argnums=(0, 1), allow_unused=True)(
        np.ones((2, 2), np.float16), np.float16(3)
    )
    assert [g.dtype for g in gradients] == [np.float16, np.float16]
    np.testing.assert_array_equal(gradients[0], np.zeros((2, 2)))
    assert gradients[1] == 2


def test_compiled_programs_give_no_warnings_where_python_computes_either():
    f = tg.jit(lambda z: (1 / z, np.log(np.abs(z))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inverse, logarithm = f(np.array([0j, 2j]))
    assert np.isnan(inverse[0]) and inverse[1] == -0.5j
    np.testing.assert_allclose(logarithm, [-np.inf, np.log(2)], rtol=1e-15)


def test_captured_arrays_in_a_backward_inside_are_read_at_each_call():
    a, b = np.array([1.0, 2.0, 3.0]), np.array([3.0, 4.0, 5.0])

    @tg.jit
    def f(x):
        z = x.detach().requires_grad_(True)
        np.sum(np.divide(z, a) * b * z).backward()
        return z.grad

    x = np.array([1.0, -1.0, 2.0])
    np.testing.assert_allclose(f(x), 2 * x * b / a, rtol=1e-15)
    a[:] = 7
    b[0] = -1
    np.testing.assert_allclose(f(x), 2 * x * b / a, rtol=1e-15)


WIDE = np.ones(3, np.longdouble)
LONG: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "argument": (lambda a: a * 2, WIDE), "number": (lambda a: a * 2, np.longdouble(2)),
    "complex argument": (lambda a: abs(a * 2), WIDE * 1j), "captured array": (lambda a: a * WIDE, np.ones(3)),
    "constant": (lambda a: a * np.longdouble(2), np.ones(3)), "astype": (lambda a: a.astype(np.longdouble), np.ones(3)),
    "dtype of a sum": (lambda a: np.sum(a, dtype=np.longdouble), np.ones(3)),
    "dtype of a mean": (lambda a: np.mean(a, dtype=np.clongdouble), np.ones(3)),
    "dtype of a ufunc": (lambda a: np.add(a, 1, dtype=np.longdouble), np.ones(3)),
    "like it": (lambda a: a * np.ones_like(a, dtype=np.longdouble), np.ones(3)),
}  # fmt: skip


@pytest.mark.skipif(np.dtype(np.longdouble) == np.float64, reason="long doubles are doubles here")
@pytest.mark.parametrize("name", LONG)
def test_compiled_code_says_that_it_has_no_long_doubles(name: str):
    function, argument = LONG[name]
    kind = "complex256" if "complex" in name or "mean" in name else "float128"
    with pytest.raises(DTypeError, match=f"compiled code does not compute in {kind}") as caught:
        tg.jit(function)(argument)
    assert "under tg.eager()" in str(caught.value)
    assert caught.value.location is not None and caught.value.location.function == "<lambda>"
    assert caught.value.location.file == __file__
    with tg.eager():
        np.testing.assert_array_equal(tg.jit(function)(argument), function(argument))
