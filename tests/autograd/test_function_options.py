"""User Functions, eager: dirty inputs, setup_context, once_differentiable, second order, and what they keep alive."""

import gc
import warnings
import weakref

import numpy as np
import pytest

import tracegrad as tg
from tests.autograd.functions import as_array as numbers
from tests.autograd.functions import function, leaf, saving
from tracegrad.autograd.function import once_differentiable

# ---- dirty inputs ----------------------------------------------------------------------------------------------------


def test_mark_dirty():
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    x = leaf([2.0])
    y = x * 1
    out = function(forward, lambda ctx, g: g * 3).apply(y)
    assert out is y and y.grad_fn.name() == "F1Backward" and y._version >= 1
    (y * 2).sum().backward()
    assert numbers(x.grad).tolist() == [6.0]


def test_mark_dirty_misuse():
    f = function(lambda ctx, x: (ctx.mark_dirty(x), x * 1)[1], lambda ctx, g: g)
    with pytest.raises(RuntimeError, match="Some elements marked as dirty during the forward method were not returned"):
        f.apply(leaf([1.0]) * 1)
    f = function(lambda ctx, x: (ctx.mark_dirty(x), x)[1], lambda ctx, g: g)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        f.apply(leaf([1.0]))

    def marks_another(ctx, x):
        y = x * 2
        ctx.mark_dirty(y)
        return y

    with pytest.warns(UserWarning, match=r"ctx.mark_dirty\(\) received a tensor that was not an input"):
        function(marks_another, lambda ctx, g: g).apply(leaf([1.0]))


# ---- setup_context, once_differentiable, second order ----------------------------------------------------------------


def test_setup_context():
    def setup(ctx, inputs, output):
        x, n = inputs
        ctx.n = n
        ctx.save_for_backward(x, output)

    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * ctx.n * y / x, None

    x = leaf([2.0])
    f = function(lambda x, n: x**n, backward, setup_context=setup)
    f.apply(x, 3).sum().backward()
    assert numbers(x.grad).tolist() == [12.0]


def test_setup_context_may_not_save_an_input_returned_as_it_is():
    f = function(lambda x: x, lambda ctx, g: g, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output))
    with pytest.raises(RuntimeError, match="an input that has been returned as-is as output is being saved"):
        f.apply(leaf([1.0]))


def test_once_differentiable():
    recording = []

    @once_differentiable
    def backward(ctx, g):
        recording.append(tg.is_grad_enabled())
        return g * 2 * ctx.saved_tensors[0]

    f = function(saving, backward)
    x = leaf([3.0])
    f.apply(x).sum().backward()
    assert recording == [False] and numbers(x.grad).tolist() == [6.0]
    g_out = leaf([1.0])
    (g,) = tg.autograd.grad(f.apply(x), x, g_out, create_graph=True)
    with pytest.raises(RuntimeError, match="trying to differentiate twice a function that was marked with @once"):
        g.sum().backward()
    (g,) = tg.autograd.grad(f.apply(x), x, tg.tensor([1.0]), create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        g.sum().backward()


@pytest.mark.parametrize("keep", ["saved output", "attribute", "list"])
def test_second_order_through_what_forward_kept(keep):
    def forward(ctx, x):
        y = np.exp(x)
        if keep == "saved output":
            ctx.save_for_backward(y)
        elif keep == "attribute":
            ctx.y = y
        else:
            ctx.y = [y]
        return y

    def backward(ctx, g):
        y = ctx.saved_tensors[0] if keep == "saved output" else ctx.y if keep == "attribute" else ctx.y[0]
        return g * y

    x = leaf([0.5, 1.0])
    f = function(forward, backward)
    assert tg.gradcheck(f.apply, x) and tg.gradgradcheck(f.apply, x)


# ---- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", ["nothing", "input", "output", "attribute", "output attribute", "list of outputs"])
def test_nothing_outlives_the_references_of_the_user(keep):
    def forward(ctx, x):
        y = x * 2
        if keep == "input":
            ctx.save_for_backward(x)
        elif keep == "output":
            ctx.save_for_backward(y)
        elif keep == "attribute":
            ctx.x = x
        elif keep == "output attribute":
            ctx.y = y
        elif keep == "list of outputs":
            ctx.y = [y]
        return y

    f = function(forward, lambda ctx, g: g * 2)
    gc.collect()
    gc.disable()
    try:
        x = leaf([1.0])
        y = f.apply(x)
        references = [weakref.ref(y), weakref.ref(y.grad_fn)]
        y.sum().backward(retain_graph=True)
        del y
        assert [r() for r in references] == [None, None]
    finally:
        gc.enable()


def test_a_thousand_steps_keep_memory_flat():
    x = leaf(np.ones(10))
    f = function(saving, lambda ctx, g: 2 * g * ctx.saved_tensors[0])
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            f.apply(x).sum().backward()
        before = len(gc.get_objects())
        for _ in range(1000):
            f.apply(x).sum().backward()
        assert len(gc.get_objects()) - before < 50
    finally:
        gc.enable()


def test_several_outputs():
    x = leaf([3.0])
    q, r = function(lambda ctx, x: (x * 2, x * 5), lambda ctx, a, b: a * 2 + b * 5).apply(x)
    (q + 10 * r).sum().backward()
    assert numbers(x.grad).tolist() == [52.0]


def test_warnings_do_not_come_out_of_ordinary_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(saving, lambda ctx, g: 2 * g * ctx.saved_tensors[0]).apply(leaf([1.0])).sum().backward()
