"""Nothing outlives the user's references: graphs, hooks, Functions, views, duals, compiled calls; memory stays flat."""

from __future__ import annotations

import gc
import os
import sys
import weakref

import numpy as np
import pytest

import tracegrad as tg
from tests.autograd.functions import leaf
from tracegrad.autograd import forward_ad

PAGE = os.sysconf("SC_PAGE_SIZE")


class Square(tg.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)
        ctx.save_for_forward(inputs[0])
        ctx.output = output

    @staticmethod
    def backward(ctx, g):
        return g * 2 * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, t):
        return t * 2 * ctx.saved_tensors[0]


class Same(tg.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, g):
        return g * 1.0


def through_a_graph(x):
    y = x.exp() * x
    return y, y.sum()


def through_hooks(x):
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    y.grad_fn.register_prehook(lambda g: None)
    y.grad_fn.register_hook(lambda gi, go: None)
    return y, y.sum()


def through_a_function(x):
    y = Square.apply(x)
    return y, y.sum()


def through_views(x):
    y = x * 1
    view = y[:1]
    view.mul_(2)
    y.add_(1)
    return view, (y * y).sum()


compiled = tg.jit(lambda x: np.exp(x) * x)


def through_a_compiled_function(x):
    y = compiled(x)
    return y, y.sum()


def with_hook(x):
    y = x * x
    y.register_hook(lambda g: g * 2)
    return y


compiled_with_hook = tg.jit(with_hook)


def through_a_compiled_hook(x):
    y = compiled_with_hook(x)
    return y, y.sum()


def through_duals(x):
    with forward_ad.dual_level():
        y = Square.apply(forward_ad.make_dual(x, tg.tensor(np.ones(x.shape)))).exp()
        tangent = forward_ad.unpack_dual(y).tangent
    return tangent, tangent.sum()


def through_second_order(x):
    (g,) = tg.autograd.grad((x.exp() * x).sum(), x, create_graph=True)
    return g, g.sum()


STEPS = [
    through_a_graph,
    through_hooks,
    through_a_function,
    through_views,
    through_a_compiled_function,
    through_a_compiled_hook,
    through_duals,
    through_second_order,
]
EACH = pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)


@EACH
@pytest.mark.parametrize("retain", [False, True], ids=["freed", "retained"])
def test_values_and_nodes_die_with_the_users_references(step, retain):
    x = leaf([1.0, 2.0])
    step(x)[1].backward()  # compiles
    gc.collect()
    gc.disable()
    try:
        y, loss = step(x)
        references = [weakref.ref(y), weakref.ref(y.grad_fn), weakref.ref(loss), weakref.ref(loss.grad_fn)]
        loss.backward(retain_graph=retain)
        del y, loss
        assert [r() for r in references] == [None] * 4
    finally:
        gc.enable()


@EACH
def test_hundreds_of_steps_keep_memory_flat(step):
    def run(times):
        for _ in range(times):
            x.grad = None
            step(x)[1].backward()

    x = leaf([1.0, 2.0])
    gc.collect()
    gc.disable()
    try:
        growths = []
        while len(growths) < 12 and (not growths or growths[-1] >= 100):
            before = sys.getallocatedblocks()
            run(400)
            growths.append(sys.getallocatedblocks() - before)
        # Python's and NumPy's free lists fill up first, to a bound; what leaks leaks in every round.
        assert growths[-1] < 100
    finally:
        gc.enable()


def resident():
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads Linux's /proc")
@EACH
def test_large_arrays_are_given_back(step):
    large = leaf(np.ones(100_000))
    for _ in range(3):
        step(large)[1].backward()
    before = resident()
    for _ in range(40):
        large.grad = None
        step(large)[1].backward()
    assert resident() - before < 30 * large._array.nbytes


def test_transformations_die_with_the_function():
    def make():
        def function(x):
            return np.sum(x**3)

        x = np.ones(2)
        tg.jvp(function, (x,), (x,))
        tg.vjp(function, x)[1](1.0)
        tg.hvp(function, (x,), (x,))
        tg.vmap(function)(np.ones((3, 2)))
        return weakref.ref(function)

    reference = make()
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("kind", ["binary", "function", "in place"])
def test_chains_of_100_000_operations(kind):
    x = leaf([1.0])
    y = x * 1.0
    reference = weakref.ref(y.grad_fn)
    for _ in range(100_000 if kind == "binary" else 10_000):
        if kind == "binary":
            y = y * 1.0
        elif kind == "function":
            y = Same.apply(y)
        else:
            y.mul_(1.0)
    y.sum().backward()
    assert x.grad.tolist() == [1.0]
    gc.disable()
    try:
        del y
        assert reference() is None
    finally:
        gc.enable()
