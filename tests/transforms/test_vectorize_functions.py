"""Users' Functions under vmap: their own rule, the generated one, and what is asked of them."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg
from tests.transforms.modes import MODES, run

X = np.arange(1.0, 13.0).reshape(4, 3)


class Generated(tg.autograd.Function):
    """x * n + y; its backward is ten times the derivative, so that one sees whether it is used."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, y, n):
        return x * n + y, np.exp(y)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, _, n = inputs
        ctx.save_for_backward(output[1])
        ctx.n = n

    @staticmethod
    def backward(ctx, g, h):
        (grown,) = ctx.saved_tensors
        return 10 * g * ctx.n, 10 * np.sum(g) + 10 * h * grown, None


class Own(tg.autograd.Function):
    """Sorting along an axis by NumPy; under vmap along the next axis."""

    seen: list[tuple] = []

    @staticmethod
    def forward(x, axis):
        return np.sort(x, axis=axis)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.axis = inputs
        ctx.save_for_backward(np.argsort(x, axis=ctx.axis))

    @staticmethod
    def backward(ctx, g):
        (order,) = ctx.saved_tensors
        return np.take_along_axis(g, np.argsort(order, axis=ctx.axis), ctx.axis), None

    @staticmethod
    def vmap(info, in_dims, x, axis):
        Own.seen.append((info.batch_size, in_dims))
        return Own.apply(np.moveaxis(x, in_dims[0], 0), axis + 1), 0


@MODES
def test_the_generated_rule(eager):
    def function(x):
        return Generated.apply(x, np.float64(2.0) * x[0], 3)

    first, second = run(eager, lambda: tg.vmap(function)(X))
    np.testing.assert_allclose(first, 3 * X + 2 * X[:, :1])
    np.testing.assert_allclose(second, np.exp(2 * X[:, 0]))


def test_its_derivative_is_the_functions_own_backward_in_every_order_of_transformations():
    y = np.float64(0.5)

    def loss(x, y):
        a, b = Generated.apply(x, y, 3)
        return np.sum(a) + b

    dx, dy = np.full(3, 30.0), 10 * 3 + 10 * np.exp(0.5)
    per_row = tg.vmap(tg.grad(loss, argnums=(0, 1)), in_axes=(0, None))(X, y)
    np.testing.assert_allclose(per_row[0], np.stack([dx] * 4))
    np.testing.assert_allclose(per_row[1], np.full(4, dy))
    total = tg.grad(lambda x, y: np.sum(tg.vmap(loss, in_axes=(0, None))(x, y)), argnums=(0, 1))(X, y)
    np.testing.assert_allclose(total[0], np.stack([dx] * 4))
    np.testing.assert_allclose(total[1], 4 * dy)
    _, tangent = tg.jvp(lambda x: tg.vmap(loss, in_axes=(0, None))(x, y), (X,), (np.ones_like(X),))
    np.testing.assert_allclose(tangent, np.full(4, 90.0))


def test_its_own_rule():
    Own.seen.clear()
    shuffled = X[:, [2, 0, 1]] * np.array([1.0, -1.0, 1.0, -1.0])[:, None]
    np.testing.assert_allclose(tg.vmap(lambda x: Own.apply(x, 0))(shuffled), np.sort(shuffled, 1))
    assert Own.seen == [(4, (0, None))]
    weights = np.array([1.0, 2.0, 3.0])
    gradient = tg.grad(lambda x: np.sum(tg.vmap(lambda row: Own.apply(row, 0) @ weights)(x)))(shuffled)
    np.testing.assert_allclose(gradient, weights[np.argsort(np.argsort(shuffled, 1), 1)])


def function_with(**members):
    """A Function with setup_context and these members besides."""
    base = {
        "forward": staticmethod(lambda x: x * 2),
        "setup_context": staticmethod(lambda ctx, inputs, output: None),
        "backward": staticmethod(lambda ctx, g: g * 2),
    }
    return type("Doubled", (tg.autograd.Function,), base | members)


@MODES
def test_a_function_without_a_rule(eager):
    with pytest.raises(RuntimeError, match=r"To use autograd\.Function with vmap, you must either override the vmap"):
        run(eager, lambda: tg.vmap(function_with().apply)(X))


@MODES
def test_a_function_with_both_rules(eager):
    both = function_with(vmap=staticmethod(lambda info, dims, x: (x, 0)), generate_vmap_rule=True)
    with pytest.raises(RuntimeError, match="both generate_vmap_rule=True and a vmap staticmethod"):
        run(eager, lambda: tg.vmap(both.apply)(X))


@MODES
def test_a_function_without_setup_context(eager):
    class Old(tg.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match="it must override the setup_context staticmethod"):
        run(eager, lambda: tg.vmap(Old.apply)(X))


@pytest.mark.parametrize("returned", [lambda x: x, lambda x: ((x, x), (0, 0))])
def test_what_vmap_returns_is_checked(returned):
    wrong = function_with(vmap=staticmethod(lambda info, dims, x: returned(x)))
    with pytest.raises(RuntimeError, match=r"vmap (must return a pair|returned 2 outputs)"):
        tg.vmap(wrong.apply)(X)


def test_results_that_are_the_same_for_all_rows_and_rows_elsewhere():
    constant = function_with(vmap=staticmethod(lambda info, dims, x: (np.full(3, 7.0), None)))
    np.testing.assert_allclose(tg.vmap(constant.apply)(X), np.full((4, 3), 7.0))
    last = function_with(vmap=staticmethod(lambda info, dims, x: (np.transpose(x) * 2, 1)))
    np.testing.assert_allclose(tg.vmap(last.apply)(X), X * 2)
