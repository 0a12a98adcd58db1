"""Dual numbers: tangents through eager operations, users' Functions, gradients and compiled functions."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.autograd import forward_ad as fwAD

X = np.array([0.5, -1.0, 2.0])
T = np.array([1.0, 3.0, -2.0])


def tangent_through(function, x=X, t=T):
    with fwAD.dual_level():
        return fwAD.unpack_dual(function(fwAD.make_dual(tg.tensor(x), tg.tensor(t)))).tangent


def test_tangents_follow_operations():
    np.testing.assert_allclose(tangent_through(lambda x: np.sin(x) * x), (np.cos(X) * X + np.sin(X)) * T)
    np.testing.assert_allclose(tangent_through(lambda x: x.exp().sum()), np.sum(np.exp(X) * T))
    np.testing.assert_allclose(tangent_through(lambda x: x[1:] @ x[:2]), T[1:] @ X[:2] + X[1:] @ T[:2])
    assert tangent_through(lambda x: x > 0) is None
    assert tangent_through(lambda x: x.detach() * 2) is None


def test_unpack_and_the_end_of_a_level():
    with fwAD.dual_level():
        dual = fwAD.make_dual(tg.tensor(X), tg.tensor(T))
        primal, tangent = fwAD.unpack_dual(dual)
        assert fwAD.unpack_dual(primal).tangent is None
        np.testing.assert_allclose(primal.numpy(), X)
        np.testing.assert_allclose(tangent.numpy(), T)
    assert fwAD.unpack_dual(dual).tangent is None


def test_a_dual_of_a_leaf_keeps_its_history():
    x = tg.tensor(X, requires_grad=True)
    with fwAD.dual_level():
        out = fwAD.make_dual(x, tg.tensor(T)) ** 3
        tangent = fwAD.unpack_dual(out).tangent
    out.sum().backward(retain_graph=True)
    np.testing.assert_allclose(x.grad.numpy(), 3 * X**2)
    x.grad = None
    tangent.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * X * T)


def test_forward_over_reverse():
    x = tg.tensor(X, requires_grad=True)
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, tg.tensor(T))
        (gradient,) = tg.autograd.grad((dual**3).exp().sum(), dual, create_graph=True)
        tangent = fwAD.unpack_dual(gradient).tangent
    second = np.exp(X**3) * (9 * X**4 + 6 * X)
    np.testing.assert_allclose(tangent.detach().numpy(), second * T)


def test_nested_levels_give_second_derivatives():
    with tg.eager():
        _, second = tg.jvp(lambda x: tg.jvp(lambda y: y**3, (x,), (np.ones(3),))[1], (X,), (T,))
    np.testing.assert_allclose(second, 6 * X * T)


def test_compiled_functions_and_gradients_run_by_operation():
    np.testing.assert_allclose(tangent_through(tg.jit(lambda x: x * x)), 2 * X * T)
    np.testing.assert_allclose(tangent_through(tg.grad(lambda x: np.sum(x**3))), 6 * X * T)


class Cube(tg.autograd.Function):
    calls: list[str] = []

    @staticmethod
    def forward(x, n):
        return x**n

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, n = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        ctx.n = n

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.n * x ** (ctx.n - 1), None

    @staticmethod
    def jvp(ctx, tangent, n):
        assert n is None
        Cube.calls.append("jvp")
        (x,) = ctx.saved_tensors
        return tangent * ctx.n * x ** (ctx.n - 1)


class WithoutJvp(tg.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y + h, g * x + h


class Host(tg.autograd.Function):
    """Leaves tracegrad in forward and in backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return tg.tensor(np.sin(x.numpy()))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return tg.tensor(g.numpy() * np.cos(x.numpy()))


class HostWithJvp(Host):
    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return tg.tensor(tangent.numpy() * np.cos(x.numpy()))


MODES = pytest.mark.parametrize("eager", [False, True], ids=["compiled", "eager"])


def pushed(eager, function, *primals):
    tangents = tuple(np.ones_like(p) * (i + 1) for i, p in enumerate(primals))
    if not eager:
        return tg.jvp(function, primals, tangents)
    with tg.eager():
        return tg.jvp(function, primals, tangents)


@MODES
def test_a_function_with_jvp(eager):
    Cube.calls.clear()
    value, tangent = pushed(eager, lambda x: Cube.apply(x, 3) * 2, X)
    np.testing.assert_allclose(value, 2 * X**3)
    np.testing.assert_allclose(tangent, 6 * X**2)
    assert Cube.calls == ["jvp"]


@MODES
def test_without_jvp_the_transpose_of_backward(eager):
    (value, _), (first, second) = pushed(eager, WithoutJvp.apply, X, T)
    np.testing.assert_allclose(value, X * T)
    np.testing.assert_allclose(first, T + 2 * X)
    np.testing.assert_allclose(second, np.full(3, 3.0))


@MODES
def test_python_code_in_forward_and_backward_needs_a_jvp(eager):
    with pytest.raises(NotImplementedError, match="You must implement the jvp function"):
        pushed(eager, Host.apply, X)
    value, tangent = pushed(eager, HostWithJvp.apply, X)
    np.testing.assert_allclose(value, np.sin(X))
    np.testing.assert_allclose(tangent, np.cos(X))


@MODES
def test_missing_tangents_arrive_as_zeros_or_none(eager):
    class Both(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, materialize):
            ctx.set_materialize_grads(materialize)
            return x + y

        @staticmethod
        def backward(ctx, g):
            return g, g, None

        @staticmethod
        def jvp(ctx, x, y, materialize):
            seen.append(None if y is None else y.shape)
            return x * 1

    for materialize in (True, False):
        seen = []
        pushed(eager, lambda x, m=materialize: Both.apply(x, tg.tensor(T), m), X)
        assert seen == [(3,) if materialize else None]


@MODES
@pytest.mark.parametrize(
    ("returned", "message"),
    [(lambda t: (t, t), "incorrect number of tangents"), (lambda t: t[:2], "invalid tangent")],
)
def test_what_jvp_returns_is_checked(eager, returned, message):
    class Wrong(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

        @staticmethod
        def jvp(ctx, t):
            return returned(t)

    with pytest.raises(RuntimeError, match=message):
        pushed(eager, Wrong.apply, X)


def test_gradient_of_a_function_with_jvp_goes_through_it_when_derived_forward_first():
    second = tg.grad(lambda x: np.sum(tg.jvp(lambda y: Cube.apply(y, 3), (x,), (np.ones(3),))[1]))
    np.testing.assert_allclose(second(X), 6 * X)
    hvp = tg.hvp(lambda x: np.sum(Cube.apply(x, 3)), (X,), (T,))
    np.testing.assert_allclose(hvp, 6 * X * T)


def test_misuse():
    with pytest.raises(RuntimeError, match="no level exists"):
        fwAD.make_dual(tg.tensor(X), tg.tensor(T))
    with fwAD.dual_level():
        with pytest.raises(ValueError, match="tangent is"):
            fwAD.make_dual(tg.tensor(X), tg.tensor(T[:2]))
        with pytest.raises(TypeError, match="has no tangent"):
            fwAD.make_dual(tg.tensor([1, 2]), tg.tensor([1, 2]))
    with pytest.raises(RuntimeError, match="innermost"):
        fwAD.exit_dual_level()


def test_tangents_die_with_the_level():
    gc.disable()
    try:
        with fwAD.dual_level():
            tangent = tg.tensor(T)
            dual = fwAD.make_dual(tg.tensor(X), tangent)
            out = dual * 2
            reference = weakref.ref(tangent)
            del tangent
            assert reference() is not None
        assert reference() is None
        np.testing.assert_allclose(out.numpy(), 2 * X)
    finally:
        gc.enable()
