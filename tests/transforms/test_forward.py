"""jvp and vjp: values and derivatives, pytrees, nesting, Tensors, misuse."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg
from tests.transforms.modes import MODES, run

X = np.array([0.3, -1.2, 2.0])
T = np.array([1.0, 0.5, -2.0])


def curve(x):
    return np.sin(x) * x


def curve_derivative(x):
    return np.cos(x) * x + np.sin(x)


def curve_second(x):
    return 2 * np.cos(x) - np.sin(x) * x


@MODES
def test_jvp(eager):
    value, tangent = run(eager, lambda: tg.jvp(curve, (X,), (T,)))
    np.testing.assert_allclose(value, curve(X))
    np.testing.assert_allclose(tangent, curve_derivative(X) * T)
    assert type(value) is type(tangent) is np.ndarray


@MODES
def test_jvp_of_pytrees(eager):
    def model(params, x):
        return {"y": params["w"] @ x, "n": np.sum(x * x)}

    w, dw = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
    value, tangent = run(eager, lambda: tg.jvp(model, ({"w": w}, X), ({"w": dw}, T)))
    np.testing.assert_allclose(value["y"], w @ X)
    np.testing.assert_allclose(tangent["y"], dw @ X + w @ T)
    np.testing.assert_allclose(tangent["n"], 2 * X @ T)


@MODES
def test_jvp_with_aux_and_values_that_do_not_depend(eager):
    def function(x):
        return (x * 2, np.argmax(x), 7.0), {"seen": x + 1}

    value, tangent, aux = run(eager, lambda: tg.jvp(function, (X,), (T,), has_aux=True))
    np.testing.assert_allclose(value[0], X * 2)
    np.testing.assert_allclose(tangent[0], T * 2)
    assert (int(value[1]), value[2]) == (2, 7.0)
    assert (tangent[1], tangent[2]) == (0, 0)
    np.testing.assert_allclose(aux["seen"], X + 1)


@MODES
def test_vjp(eager):
    value, pull = run(eager, lambda: tg.vjp(lambda x, y: (x * y, np.sum(x)), X, T))
    np.testing.assert_allclose(value[0], X * T)
    first, second = pull((np.ones(3), 2.0))
    np.testing.assert_allclose(first, T + 2.0)
    np.testing.assert_allclose(second, X)
    again, _ = pull((np.zeros(3), 1.0))
    np.testing.assert_allclose(again, np.ones(3))


@MODES
def test_vjp_with_aux_and_leaves_that_do_not_vary(eager):
    def function(params, n):
        return params["w"] * n, "note"

    value, pull, aux = run(eager, lambda: tg.vjp(function, {"w": X, "k": np.arange(2)}, 3, has_aux=True))
    np.testing.assert_allclose(value, 3 * X)
    assert aux == "note"
    gradient, none = pull(T)
    np.testing.assert_allclose(gradient["w"], 3 * T)
    assert gradient["k"] is None
    assert none is None


def test_programs_are_compiled_once_per_function():
    def function(x):
        calls.append(1)
        return x * x

    calls = []
    for _ in range(3):
        tg.jvp(function, (X,), (T,))
    assert len(calls) == 1
    for _ in range(3):
        tg.vjp(function, X)
    assert len(calls) == 2


def test_floats():
    value, tangent = tg.jvp(curve, (2.0,), (1.0,))
    np.testing.assert_allclose([value, tangent], [curve(2.0), curve_derivative(2.0)])
    assert tg.jvp(curve, (np.float32(2.0),), (np.float32(1.0),))[1].dtype == np.float32


def test_complex():
    z, dz = np.array([1.0 + 2.0j]), np.array([0.5 - 1.0j])
    _, tangent = tg.jvp(lambda z: (z * z, np.conj(z), np.abs(z)), (z,), (dz,))
    np.testing.assert_allclose(tangent[0], 2 * z * dz)
    np.testing.assert_allclose(tangent[1], np.conj(dz))
    np.testing.assert_allclose(tangent[2], np.real(np.conj(z) * dz) / np.abs(z))


def test_second_derivatives_by_every_nesting():
    ones = np.ones(3)

    def push(x):
        return tg.jvp(curve, (x,), (ones,))[1]

    def pull(x):
        return tg.vjp(curve, x)[1](ones)[0]

    for first in (push, pull):
        np.testing.assert_allclose(tg.jvp(first, (X,), (ones,))[1], curve_second(X))
        np.testing.assert_allclose(tg.vjp(first, X)[1](ones)[0], curve_second(X))
        np.testing.assert_allclose(tg.grad(lambda x, first=first: np.sum(first(x)))(X), curve_second(X))


def test_inside_a_compiled_function():
    @tg.jit
    def both(x, t):
        value, tangent = tg.jvp(curve, (x,), (t,))
        _, pull = tg.vjp(curve, x)
        return value, tangent, pull(t)[0]

    value, tangent, cotangent = both(X, T)
    np.testing.assert_allclose(value, curve(X))
    np.testing.assert_allclose(tangent, curve_derivative(X) * T)
    np.testing.assert_allclose(cotangent, curve_derivative(X) * T)


@pytest.mark.parametrize("derive", ["jvp", "vjp"])
def test_tensors_come_out_and_take_part_in_autograd(derive):
    x = tg.tensor(X, requires_grad=True)
    if derive == "jvp":
        _, out = tg.jvp(curve, (x,), (np.ones(3),))
    else:
        (out,) = tg.vjp(curve, x)[1](tg.tensor(np.ones(3)))
    np.testing.assert_allclose(out.detach().numpy(), curve_derivative(X))
    out.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), curve_second(X))


def test_captured_arrays_are_read_afresh():
    scale = np.array([2.0])
    function = lambda x: x * scale
    np.testing.assert_allclose(tg.jvp(function, (X,), (T,))[1], 2 * T)
    scale[0] = 5.0
    np.testing.assert_allclose(tg.jvp(function, (X,), (T,))[1], 5 * T)


def test_a_decision_is_guarded():
    function = lambda x: x * 2 if np.sum(x) > 0 else x * 3
    np.testing.assert_allclose(tg.jvp(function, (X,), (T,))[1], 2 * T)
    np.testing.assert_allclose(tg.jvp(function, (-X,), (T,))[1], 3 * T)


def test_misuse():
    with pytest.raises(TypeError, match="must be a tuple or list"):
        tg.jvp(curve, X, (T,))
    with pytest.raises(ValueError, match="shape"):
        tg.jvp(curve, (X,), (T[:2],))
    with pytest.raises(TypeError, match="int64"):
        tg.jvp(curve, (np.arange(3),), (T,))
    with pytest.raises(TypeError, match="complex"):
        tg.jvp(curve, (X,), (T * 1j,))
    with pytest.raises(TypeError, match="same structure"):
        tg.jvp(curve, ({"a": X},), ({"b": X},))
    with pytest.raises(TypeError, match="pair"):
        tg.jvp(curve, (X,), (T,), has_aux=True)
    _, pull = tg.vjp(curve, X)
    with pytest.raises(ValueError, match="Mismatch in shape"):
        pull(np.ones(2))
    with pytest.raises(TypeError, match="structure"):
        pull((T, T))
    with pytest.raises(TypeError, match="nothing to differentiate"):
        tg.vjp(curve, np.arange(3))
