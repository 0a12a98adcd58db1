"""vmap against a loop over the rows."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg
from tests.transforms.modes import MODES, run

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 3))
W = RNG.normal(size=(4, 3))


def example(x):
    return np.tanh(W @ x), np.sum(x * x), np.sort(x), np.cumsum(x)[::-1], np.outer(x, x), x[np.array([0, 2])]


@MODES
def test_rows_one_by_one(eager):
    found = run(eager, lambda: tg.vmap(example)(X))
    for result, expected in zip(found, zip(*map(example, X), strict=True), strict=True):
        np.testing.assert_allclose(result, np.stack(expected))


@MODES
def test_axes_of_arguments_and_results(eager):
    def function(x, w, shift):
        return x["a"] @ w + shift, np.sum(x["a"])

    x, w = {"a": RNG.normal(size=(3, 5))}, RNG.normal(size=(3, 2))
    vectorised = tg.vmap(function, in_axes=({"a": 1}, None, 0), out_axes=(1, 0))
    found = run(eager, lambda: vectorised(x, w, np.arange(5.0)))
    np.testing.assert_allclose(found[0], (x["a"].T @ w + np.arange(5.0)[:, None]).T)
    np.testing.assert_allclose(found[1], x["a"].sum(0))
    np.testing.assert_allclose(run(eager, lambda: tg.vmap(lambda v: v * 2, in_axes=-1, out_axes=-1)(X)), 2 * X)


@MODES
def test_results_that_are_the_same_for_all_rows(eager):
    found = run(eager, lambda: tg.vmap(lambda x: (x, 3.0, np.ones(2)), out_axes=(0, 0, None))(X))
    np.testing.assert_allclose(found[1], np.full(5, 3.0))
    np.testing.assert_allclose(found[2], np.ones(2))


@MODES
def test_keyword_arguments_are_mapped_over_axis_0(eager):
    found = run(eager, lambda: tg.vmap(lambda x, k: x.sum() + k)(X, k=np.arange(5.0)))
    np.testing.assert_allclose(found, X.sum(1) + np.arange(5.0))


@MODES
def test_nested(eager):
    found = run(eager, lambda: tg.vmap(tg.vmap(lambda a, b: a * b, in_axes=(None, 0)), in_axes=(0, None))(X[0], X[1]))
    np.testing.assert_allclose(found, np.outer(X[0], X[1]))


def loss(w, x):
    return np.sum(np.tanh(w @ x) ** 2)


def loss_gradient(w, x):
    h = np.tanh(w @ x)
    return np.outer(2 * h * (1 - h * h), x)


@MODES
def test_gradients_per_example(eager):
    found = run(eager, lambda: tg.vmap(tg.grad(loss), in_axes=(None, 0))(W, X))
    np.testing.assert_allclose(found, np.stack([loss_gradient(W, x) for x in X]))


def test_gradient_of_a_vectorised_function():
    total = tg.grad(lambda w: np.sum(tg.vmap(loss, in_axes=(None, 0))(w, X)))
    np.testing.assert_allclose(total(W), sum(loss_gradient(W, x) for x in X))
    jitted = tg.jit(lambda w: tg.vmap(loss, in_axes=(None, 0))(w, X))
    np.testing.assert_allclose(jitted(W), [loss(W, x) for x in X])


def test_tangents_of_a_vectorised_function():
    _, tangent = tg.jvp(tg.vmap(lambda x: np.prod(x)), (X,), (np.ones_like(X),))
    others = np.stack([np.prod(np.delete(X, i, 1), 1) for i in range(3)], 1)
    np.testing.assert_allclose(tangent, others.sum(1))


@MODES
def test_tensors(eager):
    x = tg.tensor(X, requires_grad=True)
    out = run(eager, lambda: tg.vmap(lambda row: np.sum(row**3))(x))
    assert isinstance(out, tg.Tensor)
    out.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * X**2)


def test_an_operation_without_a_rule_runs_row_by_row_and_has_derivatives():
    bins = np.array([-1.0, 0.0, 1.0])

    def function(x):
        return np.sum(np.where(np.digitize(x, bins) > 1, x**2, x))

    text = tg.vmap(function).show("optimized", X)
    assert "map_rows" in text
    np.testing.assert_allclose(tg.vmap(function)(X), [function(x) for x in X])
    gradient = tg.grad(lambda x: np.sum(tg.vmap(function)(x)))(X)
    np.testing.assert_allclose(gradient, np.where(np.digitize(X, bins) > 1, 2 * X, 1.0))


def test_no_loop_over_rows_for_common_operations():
    text = tg.vmap(example).show("optimized", X)
    assert "map_rows" not in text


def test_loops_inside():
    def power(x):
        return tg.fori_loop(0, 3, lambda i, c: c * x, np.ones_like(x))

    np.testing.assert_allclose(tg.vmap(power)(X), X**3)


def test_misuse():
    with pytest.raises(ValueError, match="different numbers of rows"):
        tg.vmap(lambda x, y: x)(X, X[:2])
    with pytest.raises(TypeError, match="maps no argument"):
        tg.vmap(lambda x: x, in_axes=None)(X)
    with pytest.raises(TypeError, match="in_axes has 2 entries"):
        tg.vmap(lambda x: x, in_axes=(0, 0))(X)
    with pytest.raises(TypeError, match="maps axis 0 of a float"):
        tg.vmap(lambda x, y: x, in_axes=0)(X, 2.0)
    with pytest.raises(TypeError, match="maps axis 3"):
        tg.vmap(lambda x: x, in_axes=3)(X)
    with pytest.raises(TypeError, match="out_axes is None"):
        tg.vmap(lambda x: x, out_axes=None)(X)
    with pytest.raises(TypeError, match="symbolic"):
        tg.vmap(lambda x: x if x[0] > 0 else -x)(X)
    with pytest.raises(TypeError, match="in place"):
        tg.vmap(write_first)(X.copy())
    with pytest.raises(TypeError, match="random numbers"):
        tg.vmap(lambda x: x + tg.rand(3))(X)


def write_first(x):
    x[0] = 1.0
    return x


def masked_writes(a, v):
    a = np.sin(a)
    a[a > 0.3] = v[0]
    a[1:3, a[0] > 0] = v[:2, None]
    a[a[:, 0] > 0, ::2] = v[None, :3]
    np.add.at(a, a[:, 1] < 0, v[3])
    return a * a


def test_writes_where_a_mask_is_true():
    rng = np.random.default_rng(5)
    a, v = rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 4))
    rows = np.stack([masked_writes(*row) for row in zip(a, v, strict=True)])
    np.testing.assert_allclose(tg.jit(tg.vmap(masked_writes))(a, v), rows, rtol=1e-13)
    compiled = tg.jit(masked_writes)  # the numbers of elements differ, and nothing asks for them
    for row, wanted in zip(zip(a, v, strict=True), rows, strict=True):
        np.testing.assert_allclose(compiled(*row), wanted, rtol=1e-13)
    assert sum(map(len, compiled.entries.values())) == 1

    def loss(a, v):
        return np.sum(np.cos(masked_writes(a, v)))

    gradient = tg.grad(lambda a, v: np.sum(tg.vmap(loss)(a, v)), argnums=(0, 1))(a, v)
    assert tg.autograd.gradcheck(loss, (a[0], v[0])) and tg.autograd.gradgradcheck(loss, (a[0], v[0]))
    for n, row in enumerate(zip(a, v, strict=True)):
        with tg.eager():
            for found, wanted in zip(gradient, tg.grad(loss, argnums=(0, 1))(*row), strict=True):
                np.testing.assert_allclose(found[n], wanted, rtol=1e-12, atol=1e-14)


def test_lstsq_of_rows_says_which_are_deficient():
    a, b = np.random.default_rng(6).normal(size=(3, 6, 2)), np.random.default_rng(7).normal(size=(3, 6))
    a[1, :, 1] = 2 * a[1, :, 0]
    solution, sums, rank, _ = tg.jit(tg.vmap(np.linalg.lstsq))(a, b)
    for n in range(3):
        wanted = np.linalg.lstsq(a[n], b[n])
        np.testing.assert_allclose(solution[n], wanted[0], rtol=1e-10)
        np.testing.assert_allclose(sums[n], wanted[1] if wanted[1].size else [np.nan], rtol=1e-10)
    assert rank.tolist() == [2, 1, 2]
