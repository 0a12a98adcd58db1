"""Partial results of associative operations: against NumPy, eagerly and compiled, with derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import ArgumentError, DTypeError, ShapeError

RNG = np.random.default_rng(0)


def recurrence(a: Any, b: Any) -> Any:
    """x ↦ a[0] x + a[1], followed by the same of b."""
    return {"slope": b["slope"] * a["slope"], "shift": b["slope"] * a["shift"] + b["shift"]}


@pytest.mark.parametrize("size", [0, 1, 2, 5, 8])
def test_against_numpy(size: int):
    x = RNG.standard_normal((size, 3))
    lines = {"slope": RNG.standard_normal(size), "shift": RNG.standard_normal(size)}
    matrices = RNG.standard_normal((2, size, 2, 2))

    def function(x: Any, lines: Any, matrices: Any) -> Any:
        return (
            tg.associative_scan(np.add, x),
            tg.associative_scan(np.maximum, x, reverse=True),
            tg.associative_scan(recurrence, lines),
            tg.associative_scan(lambda a, b: a @ b, matrices, axis=1, reverse=True),
        )

    state, states = 0.0, []
    for a, b in zip(lines["slope"], lines["shift"], strict=True):
        state = a * state + b
        states.append(state)
    chain = np.array(matrices)
    for k in range(size - 2, -1, -1):
        chain[:, k] = chain[:, k + 1] @ chain[:, k]
    for run in (function, tg.jit(function)) if size in (0, 5) else (function,):
        sums, maxima, affine, products = run(x, lines, matrices)
        np.testing.assert_allclose(sums, np.cumsum(x, 0), rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(maxima, np.maximum.accumulate(x[::-1], 0)[::-1])
        np.testing.assert_allclose(affine["shift"], states, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(products, chain, rtol=1e-11, atol=1e-13)


def test_derivatives():
    def function(slope: Any, shift: Any) -> Any:
        found = tg.associative_scan(recurrence, {"slope": slope, "shift": shift})
        return np.sum(found["shift"] ** 2) + found["slope"][-1]

    args = RNG.standard_normal(6), RNG.standard_normal(6)
    value, gradients = tg.value_and_grad(function, argnums=(0, 1))(*args)
    with tg.eager():
        expected, by_tape = tg.value_and_grad(function, argnums=(0, 1))(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradients, by_tape, rtol=1e-11)
    # the second derivative with respect to the shifts, in which the sum of squares is quadratic: 2 LᵀL
    slope = args[0]
    linear = np.array([[np.prod(slope[j + 1 : i + 1]) if i >= j else 0.0 for j in range(6)] for i in range(6)])
    np.testing.assert_allclose(tg.hessian(function, argnums=1)(*args), 2 * linear.T @ linear, rtol=1e-10, atol=1e-12)


def test_what_is_wrong():
    x = np.ones(4)
    for run in (lambda f: f, tg.jit):
        with pytest.raises(ShapeError, match="different sizes along axis 0: 4, 3"):
            run(lambda x: tg.associative_scan(np.add, (x, x[1:])))(x)
        with pytest.raises(ShapeError, match="single number"):
            run(lambda x: tg.associative_scan(np.add, x[0]))(x)
        with pytest.raises(DTypeError, match="associative_scan changes its dtype from float64 to bool"):
            run(lambda x: tg.associative_scan(lambda a, b: a < b, x))(x)
        with pytest.raises(ArgumentError, match="structure"):
            run(lambda x: tg.associative_scan(lambda a, b: (a, b), x))(x)
