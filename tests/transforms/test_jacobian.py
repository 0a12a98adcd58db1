"""Jacobians and Hessians against formulas worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg

RNG = np.random.default_rng(0)
X = RNG.normal(size=4)
W = RNG.normal(size=(3, 4))
BOTH = pytest.mark.parametrize("jacobian", [tg.jacrev, tg.jacfwd], ids=["reverse", "forward"])


def layer(x, w):
    return np.tanh(w @ x)


def layer_by_x(x, w):
    return (1 - np.tanh(w @ x) ** 2)[:, None] * w


def layer_by_w(x, w):
    jacobian = np.zeros((3, 3, 4))
    for i in range(3):
        jacobian[i, i] = (1 - np.tanh(w @ x) ** 2)[i] * x
    return jacobian


@BOTH
def test_of_a_layer(jacobian):
    np.testing.assert_allclose(jacobian(layer)(X, W), layer_by_x(X, W))
    np.testing.assert_allclose(jacobian(layer, argnums=1)(X, W), layer_by_w(X, W))
    by_x, by_w = jacobian(layer, argnums=(0, 1))(X, W)
    np.testing.assert_allclose(by_x, layer_by_x(X, W))
    np.testing.assert_allclose(by_w, layer_by_w(X, W), atol=1e-15)


@BOTH
def test_containers_of_the_value_outside_those_of_the_argument_inside(jacobian):
    def function(p):
        return {"double": p["x"] * 2, "dot": np.sum(p["x"] * p["y"])}

    x, y = np.arange(3.0), np.ones(3)
    found = jacobian(function)({"x": x, "y": y})
    np.testing.assert_allclose(found["double"]["x"], 2 * np.eye(3))
    np.testing.assert_allclose(found["double"]["y"], np.zeros((3, 3)))
    np.testing.assert_allclose(found["dot"]["x"], y)
    np.testing.assert_allclose(found["dot"]["y"], x)


@BOTH
def test_aux_scalars_and_options_as_a_decorator(jacobian):
    derivative, aux = jacobian(lambda x: (x**2, x + 1), has_aux=True)(X)
    np.testing.assert_allclose(derivative, np.diag(2 * X))
    np.testing.assert_allclose(aux, X + 1)
    np.testing.assert_allclose(jacobian(np.sin)(2.0), np.cos(2.0))

    @jacobian(argnums=1)
    def function(x, y):
        return x * y

    np.testing.assert_allclose(function(X, X), np.diag(X))


@BOTH
def test_only_one_program_and_no_rows_in_the_primal(jacobian):
    text = jacobian(lambda x: np.exp(W @ x)).show("optimized", X)
    (exp,) = (line for line in text.splitlines() if "= exp(" in line)
    assert "f64[3]" in exp


def quartic(x):
    return np.sum(x**4) + x[0] * x[1] ** 2


def quartic_hessian(x):
    matrix = np.diag(12 * x**2)
    matrix[0, 1] = matrix[1, 0] = 2 * x[1]
    matrix[1, 1] += 2 * x[0]
    return matrix


def test_hessian():
    np.testing.assert_allclose(tg.hessian(quartic)(X), quartic_hessian(X))
    np.testing.assert_allclose(tg.jit(lambda x: tg.hessian(quartic)(x) @ x)(X), quartic_hessian(X) @ X)
    (xx, xy), (yx, yy) = tg.hessian(lambda x, y: np.sum(x**2 * y), argnums=(0, 1))(X, X + 1)
    np.testing.assert_allclose(xx, np.diag(2 * (X + 1)))
    np.testing.assert_allclose(xy, np.diag(2 * X))
    np.testing.assert_allclose(yx, np.diag(2 * X))
    np.testing.assert_allclose(yy, np.zeros((4, 4)))


def test_hvp():
    v = RNG.normal(size=4)
    np.testing.assert_allclose(tg.hvp(quartic, (X,), (v,)), quartic_hessian(X) @ v)
    by_x, by_y = tg.hvp(lambda x, y: np.sum(x**2 * y), (X, X + 1), (v, np.zeros(4)))
    np.testing.assert_allclose(by_x, 2 * (X + 1) * v)
    np.testing.assert_allclose(by_y, 2 * X * v)
    product, aux = tg.hvp(lambda x: (quartic(x), x), (X,), (v,), has_aux=True)
    np.testing.assert_allclose(product, quartic_hessian(X) @ v)
    np.testing.assert_allclose(aux, X)


def test_derivatives_of_jacobians():
    np.testing.assert_allclose(tg.grad(lambda x: np.sum(tg.jacrev(quartic)(x)))(X), quartic_hessian(X).sum(0))
    x = tg.tensor(X, requires_grad=True)
    tg.jacfwd(quartic)(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), quartic_hessian(X).sum(0))


def test_complex():
    z = np.array([1.0 + 1.0j, 0.5 - 2.0j])
    np.testing.assert_allclose(tg.jacfwd(lambda z: z * z)(z), np.diag(2 * z))
    with pytest.raises(TypeError, match="jacfwd"):
        tg.jacrev(lambda z: z * z)(z)


def test_misuse():
    with pytest.raises(TypeError, match="int64"):
        tg.jacrev(lambda x: x * 2)(np.arange(3))
    with pytest.raises(TypeError, match="argnums"):
        tg.jacfwd(lambda x: x * 2, argnums=2)(X)
    with pytest.raises(TypeError, match="int64"):
        tg.jacfwd(lambda x: np.argsort(x))(X)
