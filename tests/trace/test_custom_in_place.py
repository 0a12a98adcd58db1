"""User Functions that modify their inputs, lifetimes, and backward() called inside traced functions."""

import gc
import weakref

import numpy as np
import pytest

import tracegrad as tg
from tests.trace.functions import A, Cube, HalfHostCube, HostCube


class Doubled(tg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


@pytest.mark.parametrize("run", [tg.jit, lambda f: f])
def test_dirty_inputs_are_modified(run):
    def f(x, w):
        y = x * w
        z = Doubled.apply(y)
        assert (z * 0).sum() == 0
        return (y * y).sum() + (z * 3).sum()

    x, w = tg.tensor([1.0, 2.0], requires_grad=True), tg.tensor([3.0, 4.0], requires_grad=True)
    out = run(f)(x, w)
    out.backward()
    assert out.item() == 4 * (9 + 64) + 6 * (3 + 8)
    assert x.grad.tolist() == [8 * 1 * 9 + 6 * 3, 8 * 2 * 16 + 6 * 4]


@pytest.mark.parametrize("run", [tg.jit, lambda f: f])
def test_a_dirty_leaf_is_refused(run):
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        run(Doubled.apply)(tg.tensor([1.0, 2.0], requires_grad=True))


def test_modifying_without_marking_is_refused():
    class Silent(Doubled):
        @staticmethod
        def forward(ctx, x):
            return x.mul_(2)

    with pytest.raises(RuntimeError, match="without saying so"):
        tg.jit(lambda x: Silent.apply(x * 1))(A)


def test_functions_of_arrays_alone_run_at_once():
    constant = np.array([4.0])
    f = tg.jit(lambda x: x * Cube.apply(constant))
    assert np.allclose(f(A), 64 * A)


def test_no_reference_to_the_arguments_outlives_a_call():
    f = tg.value_and_grad(lambda x: (Cube.apply(x) + HalfHostCube.apply(x)).sum())
    f(A)
    a = A.copy()
    reference = weakref.ref(a)
    f(a)
    del a
    gc.collect()
    assert reference() is None


# ---- backward() and autograd.grad inside traced functions ------------------------------------------------------------


def own_leaf(x):
    return x.detach().requires_grad_()


def test_backward_inside_a_traced_function():
    @tg.jit
    def f(x):
        leaf = own_leaf(x)
        (leaf * leaf * leaf).sum().backward()
        return leaf.grad

    f(A + 1)
    assert np.allclose(f(A), 3 * A**2)


@pytest.mark.parametrize("function", [Cube, HostCube, HalfHostCube])
def test_autograd_grad_through_functions_inside_a_traced_function(function):
    @tg.jit
    def f(x):
        leaf = own_leaf(x)
        return tg.autograd.grad((function.apply(leaf) * leaf).sum(), leaf)[0]

    f(A + 1)
    assert np.allclose(f(A), 4 * A**3)


def test_second_order_inside_a_traced_function_and_its_limit():
    def f(x, order):
        leaf = own_leaf(x)
        g = Cube.apply(leaf).sum()
        for i in range(order):
            (g,) = tg.autograd.grad(g.sum(), leaf, create_graph=i + 1 < order)
        return g

    assert np.allclose(tg.jit(lambda x: f(x, 2))(A), 6 * A)
    with pytest.raises(RuntimeError, match=r"a third derivative by autograd.grad"):
        tg.jit(lambda x: f(x, 3))(A)
