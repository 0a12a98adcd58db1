"""Transforms inside transforms, operation by operation: the outer one differentiates what the inner ones capture."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg

X = np.array([0.3, 0.7, -0.2])
P = np.array([0.5, 1.0, 2.0])
V = np.array([1.0, -1.0, 0.5])


def inner(p):
    return lambda x: np.sum(x**2 * p)


VALUE, SLOPE = 2 * np.sum(X**2 * P) * X**2, 8 * X**2 * P  # of (Σ x² p)² and of Σ (2 x p)², with respect to p
CASES = {
    "grad": (lambda p: np.sum(tg.grad(inner(p))(X) ** 2), SLOPE),
    "value_and_grad": (lambda p: tg.value_and_grad(inner(p))(X)[0] ** 2, VALUE),
    "vjp's value": (lambda p: tg.vjp(inner(p), X)[0] ** 2, VALUE),
    "vjp": (lambda p: np.sum(tg.vjp(inner(p), X)[1](1.0)[0] ** 2), SLOPE),
    "vjp's aux": (lambda p: np.sum(tg.vjp(lambda x: (inner(p)(x), 2 * x * p), X, has_aux=True)[2] ** 2), SLOPE),
    "a cotangent": (lambda p: np.sum(tg.vjp(lambda x: x**2, X)[1](p)[0] ** 2), SLOPE),
    "jvp's value": (lambda p: tg.jvp(inner(p), (X,), (V,))[0] ** 2, VALUE),
    "jvp": (lambda p: tg.jvp(inner(p), (X,), (X,))[1] ** 2, 4 * VALUE),
    "jit": (lambda p: tg.jit(inner(p))(X) ** 2, VALUE),
    "jacrev": (lambda p: np.sum(tg.jacrev(lambda x: x**2 * p)(X) ** 2), SLOPE),
    "jacfwd": (lambda p: np.sum(tg.jacfwd(lambda x: x**2 * p)(X) ** 2), SLOPE),
    "hessian": (lambda p: np.sum(tg.hessian(inner(p))(X) ** 2), 8 * P),
    "vmap": (lambda p: np.sum(tg.vmap(tg.grad(inner(p)))(X[None]) ** 2), SLOPE),
}


@pytest.mark.parametrize("name", CASES)
def test_captured_values_keep_their_derivatives(name):
    function, expected = CASES[name]
    with tg.eager():
        for f, more in ((function, 0.0), (lambda p: function(p) + np.sum(p**3), 3 * P**2)):
            value, gradient = tg.value_and_grad(f)(P)
            tangent = tg.jvp(f, (P,), (V,))[1]
            np.testing.assert_allclose(gradient, expected + more)
            np.testing.assert_allclose(tangent, (expected + more) @ V)
            # Arrays went in: no Tensor comes out, since no history leads to a leaf of the user.
            assert not any(isinstance(leaf, tg.Tensor) for leaf in (value, gradient, tangent))
