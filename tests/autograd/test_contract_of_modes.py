"""The autograd contract of modes, node hooks and the engine's checks."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg
from tests.autograd.functions import function, leaf, numbers


def test_no_grad_decorates_functions_and_each_step_of_a_generator():
    @tg.no_grad
    def plain():
        return tg.is_grad_enabled()

    @tg.no_grad()
    def steps():
        received = yield tg.is_grad_enabled()
        try:
            yield received
        except KeyError:
            yield tg.is_grad_enabled()
        return "end"

    def all_of_them():
        return (yield from steps())

    assert plain() is False
    generator = all_of_them()
    assert next(generator) is False and tg.is_grad_enabled()
    assert generator.send(5) == 5
    assert generator.throw(KeyError()) is False and tg.is_grad_enabled()
    with pytest.raises(StopIteration) as end:
        next(generator)
    assert end.value.value == "end"


def test_inference_tensors_outside_inference_mode():
    x = leaf([1.0, 2.0])
    with tg.autograd.inference_mode():
        y = x.detach() * 2
        y.add_(1)
    assert numbers(x + y) == [4.0, 7.0]
    for misuse, message in (
        (lambda: x * y, "cannot be saved for backward"),
        (lambda: y.add_(1), "outside InferenceMode"),
        (lambda: y.requires_grad_(), "outside InferenceMode"),
    ):
        with pytest.raises(RuntimeError, match=message):
            misuse()
    copy = y.clone().requires_grad_()
    (copy * x).sum().backward()
    assert numbers(copy.grad) == [1.0, 2.0]


def test_a_pack_hook_must_not_modify_what_it_is_given():
    with tg.autograd.graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
        y = leaf([1.0]) * 1
        with pytest.raises(RuntimeError, match="modifying its input in place"):
            y * y


def test_hooks_of_nodes_return_as_many_values_as_they_are_given():
    y = leaf([1.0]) * 2
    y.grad_fn.register_prehook(lambda gradients: (1, 2, 3))
    with pytest.raises(RuntimeError, match="got 3, but expected 1"):
        y.sum().backward()


def test_order_at_a_leaf():
    order = []
    x = leaf([1.0])
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    node.register_prehook(lambda gradients: order.append("node before"))
    node.register_hook(lambda into, out: order.append("node after"))
    x.register_post_accumulate_grad_hook(lambda leaf: order.append("accumulated"))
    x.register_hook(lambda gradient: order.append("tensor"))
    y.sum().backward()
    assert order == ["tensor", "node before", "accumulated", "node after"]


def test_grad_needs_something_to_differentiate_for():
    x = leaf([1.0])
    with pytest.raises(RuntimeError, match="cannot be empty"):
        tg.autograd.grad(x.sum(), [])
    with pytest.raises(ValueError, match="allow_unused"):
        tg.autograd.grad(x.sum(), [x], materialize_grads=True, allow_unused=False)


def test_deleting_a_gradient():
    x = leaf([1.0])
    x.sum().backward()
    del x.grad
    assert x.grad is None


def test_a_node_runs_after_all_that_lead_to_it_where_some_have_several_outputs():
    f = function(lambda ctx, x: (x * 2, x * 3), lambda ctx, g, h: g * 2 + h * 3)
    runs = []
    x = leaf([1.0])
    y = x * 1
    y.grad_fn.register_hook(lambda into, out: runs.append(numbers(out[0])))
    _, b = f.apply(y)
    z = y + b
    z.sum().backward()
    assert (runs, numbers(x.grad)) == ([[4.0]], [4.0])


def test_inputs_of_backward_that_are_no_leaves_retain_their_gradient():
    x = leaf([1.0, 2.0])
    y = x * 2
    y.retain_grad()
    (y * 3).sum().backward(inputs=[y])
    assert (x.grad, numbers(y.grad)) == (None, [3.0, 3.0])


def test_what_grad_refuses_to_differentiate(prepare):
    plain, x = tg.tensor([1.0, 2.0]), leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="does not require grad"):
        prepare(lambda x, y: tg.autograd.grad((x * y).sum(), y))(x, plain)
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        prepare(lambda y: y.sum().backward())(plain)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        prepare(lambda x: (x * 2).backward(tg.ones(3)))(x)
    assert x.grad is None


def test_operands_of_other_shapes_and_dtypes_get_gradients_like_themselves(prepare):
    a, b, c = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf([[2.0], [3.0]], np.float32), leaf(5.0)
    prepare(lambda a, b, c: (a * b + c).sum())(a, b, c).backward()
    assert [numbers(x.grad) for x in (a, b, c)] == [[[2.0, 2.0], [3.0, 3.0]], [[3.0], [7.0]], 4.0]
    assert [(x.grad.shape, x.grad.dtype) for x in (a, b, c)] == [(x.shape, x.dtype) for x in (a, b, c)]


def test_backward_twice_where_nothing_was_saved(prepare):
    x = leaf([1.0, 2.0])

    def run(x):
        y = (x + 1).sum()
        y.backward()
        y.backward()

    prepare(run)(x)
    assert numbers(x.grad) == [2.0, 2.0]


def test_hooks_on_saved_tensors_can_be_refused():
    graph = tg.autograd.graph
    x = leaf([1.0, 2.0])
    with graph.disable_saved_tensors_hooks("outer"):
        with (
            graph.disable_saved_tensors_hooks("inner"),
            pytest.raises(RuntimeError, match="inner"),
            graph.save_on_cpu(),
        ):
            pass
        with pytest.raises(RuntimeError, match="outer"), graph.saved_tensors_hooks(tg.tensor, tg.tensor):
            pass
    with graph.save_on_cpu(pin_memory=True):
        (x * x).sum().backward()
        with pytest.raises(RuntimeError, match="none here"), graph.disable_saved_tensors_hooks("none here"):
            pass
    assert numbers(x.grad) == [2.0, 4.0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_what_backward_sees_of_the_grad_mode(prepare, create_graph):
    """Recording is on in it only with create_graph=True; what forward saved requires grad as it did there."""
    seen = []

    def forward(ctx, x):
        y = x * x
        ctx.save_for_backward(x, y)
        return y

    def backward(ctx, g):
        x, y = ctx.saved_tensors
        result = 2 * x * g
        with tg.no_grad():
            inside = tg.is_grad_enabled()
        seen.append((tg.is_grad_enabled(), inside, x.requires_grad, y.requires_grad, result.requires_grad))
        return result

    f = function(forward, backward)
    x = leaf([1.0, 2.0])
    (g,) = tg.autograd.grad(prepare(lambda x: f.apply(x).sum())(x), x, create_graph=create_graph)
    assert seen[-1] == (create_graph, False, True, True, create_graph)
    assert (numbers(g), g.requires_grad) == ([2.0, 4.0], create_graph)
    if create_graph:
        assert numbers(tg.autograd.grad(g.sum(), x)[0]) == [2.0, 2.0]


def test_what_no_grad_in_backward_cuts_off(prepare):
    """The second derivative sees the factor computed under no_grad as a constant: (2x)' of x·sg(2)·x."""

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with tg.no_grad():
            factor = x * 2 / x.detach()
        return g * factor * x

    f = function(lambda ctx, x: (ctx.save_for_backward(x), x * x)[1], backward)
    x = leaf([1.0, 3.0])
    (g,) = tg.autograd.grad(prepare(lambda x: f.apply(x).sum())(x), x, create_graph=True)
    assert numbers(g) == [2.0, 6.0]
    assert numbers(tg.autograd.grad(g.sum(), x)[0]) == [2.0, 2.0]


def test_is_grad_enabled_in_forward_and_loops(prepare):
    seen = []

    def step(total, a):
        seen.append(tg.is_grad_enabled())
        return total + a, a

    def run(x):
        with tg.no_grad():
            tg.scan(step, tg.zeros(()), x)
        return tg.scan(step, tg.zeros(()), x)[0]

    x = leaf([1.0, 2.0])
    prepare(run)(x).backward()
    assert (seen[0], seen[-1], numbers(x.grad)) == (False, True, [1.0, 1.0])


def test_backward_within_backward(prepare):
    """Of a part computed there again: with a leaf of its own, or of what was saved, which requires grad."""

    def engine(ctx, g):
        with tg.enable_grad():
            z = ctx.saved_tensors[0].detach().requires_grad_()
            y = (z * z * z).sum()
        y.backward(g)
        return z.grad

    def functional(ctx, g):
        (x,) = ctx.saved_tensors
        with tg.enable_grad():
            y = (x * x * x).sum()
        return tg.autograd.grad(y, x, g)[0]

    for backward in (engine, functional):
        f = function(lambda ctx, x: (ctx.save_for_backward(x), (x * x * x).sum())[1], backward)
        x = leaf([1.0, 2.0])
        prepare(lambda x, f=f: f.apply(x) * 2)(x).backward()
        assert numbers(x.grad) == [6.0, 24.0]


def test_what_anomaly_detection_and_the_checks_say(prepare):
    x = leaf([-1.0])
    run = prepare(lambda x: np.sqrt(x * x - x * x - 1.0).sum())
    with np.errstate(all="ignore"), tg.autograd.detect_anomaly():
        y = run(x)
        with (
            pytest.warns(UserWarning, match=r"Error detected in \w+. Traceback of forward call that caused the error"),
            pytest.raises(RuntimeError, match="returned nan values in its 0th output"),
        ):
            y.backward()
    with pytest.raises(RuntimeError, match="one of the differentiated Tensors does not require grad"):
        prepare(lambda x, y: tg.autograd.grad((x * y).sum(), [x, y]))(x, tg.tensor([1.0]))
    single = leaf([0.5], np.float32)
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision floating"):
        tg.autograd.gradcheck(prepare(lambda x: x * 2), (single,), eps=1e-2, atol=1e-2)
