"""The contract of Functions line by line, in eager code and inside compiled functions: same values, same errors."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg
from tests.autograd.functions import double, function, leaf, numbers
from tracegrad.autograd.function import once_differentiable
from tracegrad.errors import UnsupportedError

# ---- what backward of a Function returns -----------------------------------------------------------------------------


def test_trailing_nones_are_dropped(prepare):
    x = leaf([1.0])
    prepare(function(double, lambda ctx, g: (g, None, None)).apply)(x).backward()
    assert numbers(x.grad) == [1.0]


@pytest.mark.parametrize(
    ("backward", "arguments", "message"),
    [
        (lambda ctx, g: (g, g), (), r"incorrect number of gradients \(expected 1, got 2\)"),
        (lambda ctx, g: g, (3,), r"incorrect number of gradients \(expected 2, got 1\)"),
        (lambda ctx, g: [g], (), r"expected Variable or None \(got list\)"),
        (lambda ctx, g: (g, g), (3,), "gradient different than None at position 2"),
        (lambda ctx, g: 1.5, (), r"expected Variable or None \(got float\)"),
        (lambda ctx, g: g[:2], (), "got .2. but expected shape compatible with .3."),
        (lambda ctx, g: g[:1], (), "got .1. but expected shape compatible with .3."),
        (lambda ctx, g: g * 1j, (), "complex gradient at index 0 for an input that is real"),
    ],
    ids=["too many", "too few", "a list", "for no tensor", "a number", "a shape", "it would broadcast", "complex"],
)
def test_what_backward_may_not_return(prepare, backward, arguments, message):
    f = function(double, backward)
    with pytest.raises(RuntimeError, match=message):
        prepare(lambda x: f.apply(x, *arguments).sum())(leaf([1.0, 2.0, 3.0])).backward()


def test_a_larger_gradient_is_summed_and_cast(prepare):
    x = leaf([1.0, 2.0, 3.0], np.float32)
    f = function(double, lambda ctx, g: np.ones((4, 3)) * g)
    prepare(lambda x: f.apply(x).sum())(x).backward()
    assert numbers(x.grad) == [4.0, 4.0, 4.0]
    assert x.grad.dtype == np.float32


def test_none_everywhere_leaves_grad_alone(prepare):
    x = leaf([1.0])
    prepare(function(double, lambda ctx, g: None).apply)(x).backward()
    assert x.grad is None


def test_a_gradient_nobody_needs_is_ignored(prepare):
    x, y = leaf([1.0]), tg.tensor([2.0])
    f = function(lambda ctx, x, y: x * y, lambda ctx, g: (g * 7, g * 9))
    prepare(lambda x, y: f.apply(x, y).sum())(x, y).backward()
    assert (numbers(x.grad), y.grad) == ([7.0], None)


# ---- the contract of Functions ---------------------------------------------------------------------------------------


def test_needs_input_grad_is_the_same_in_both_methods(prepare):
    def forward(ctx, x, n, y):
        seen.append(ctx.needs_input_grad)
        return x * n + y

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g, None, None

    seen = []
    f = function(forward, backward)
    prepare(lambda x, y: f.apply(x, 3, y).sum())(leaf([1.0]), tg.tensor([1.0])).backward()
    assert set(seen) == {(True, False, False)}


def test_forward_runs_with_grad_mode_off_and_arguments_as_they_are(prepare):
    """PyTorch's: inputs say that they require grad, what forward computes from them does not."""

    def forward(ctx, x, y):
        out = x * y
        seen.append((tg.is_grad_enabled(), x.requires_grad, x.is_leaf, y.requires_grad, out.requires_grad))
        with tg.enable_grad():
            seen.append(tg.is_grad_enabled())
            (slope,) = tg.autograd.grad((x * x).sum(), x)
        ctx.save_for_backward(x, y)
        return out + slope

    def backward(ctx, g):
        return g * ctx.saved_tensors[1], None

    seen = []
    x = leaf([2.0])
    out = prepare(lambda x, y: function(forward, backward).apply(x * 1, y).sum())(x, tg.tensor([5.0]))
    out.backward()
    assert seen == [(False, True, False, False, False), True]
    assert (float(out), numbers(x.grad)) == (14.0, [5.0])


def test_backward_within_forward_is_never_lost():
    """It adds to the leaf's .grad eagerly; compiled code says that it does not."""

    def forward(ctx, x):
        with tg.enable_grad():
            (x * x).sum().backward(retain_graph=True)
        return x * 2

    f = function(forward, lambda ctx, g: g * 2)
    x = leaf([3.0])
    f.apply(x * 1)
    assert numbers(x.grad) == [6.0]
    for argument in (lambda x: x, lambda x: x * 1):
        with pytest.raises(UnsupportedError, match="inside forward of a Function"):
            tg.jit(lambda x, argument=argument: f.apply(argument(x)))(x)
    assert numbers(x.grad) == [6.0]


def test_an_output_that_was_saved_requires_grad():
    def forward(ctx, x):
        out = x * x
        ctx.save_for_backward(out)
        return out

    def backward(ctx, g):
        seen.append(ctx.saved_tensors[0].requires_grad)
        return ctx.saved_tensors[0]

    seen = []
    x = leaf([3.0])
    function(forward, backward).apply(x).backward()
    assert (seen, numbers(x.grad), x.grad.requires_grad) == ([True], [9.0], False)


def test_keyword_arguments_and_the_same_tensor_twice(prepare):
    x = leaf([2.0])
    f = function(lambda ctx, x, y, n=1: x * y * n, lambda ctx, g: (g * 2, g * 5, None))
    prepare(lambda x: f.apply(x, x, n=3).sum())(x).backward()
    assert numbers(x.grad) == [7.0]


def test_what_save_for_backward_takes(prepare):
    def saves_none(ctx, x):
        ctx.save_for_backward(x, None)
        return x * 1

    def backward(ctx, g):
        x, none = ctx.saved_tensors
        assert none is None
        return g * x

    x = leaf([3.0])
    prepare(function(saves_none, backward).apply)(x).backward()
    assert numbers(x.grad) == [3.0]
    with pytest.raises(TypeError, match="can only save variables, but argument 0 is of type int"):
        prepare(function(lambda ctx, x: ctx.save_for_backward(3)).apply)(x)


@pytest.mark.parametrize("materialize", [True, False])
def test_missing_gradients(prepare, materialize):
    def forward(ctx, x):
        ctx.set_materialize_grads(materialize)
        return x * 1, x * 2, (x > 0).astype(np.int64), "text"

    def backward(ctx, *grads):
        seen.append([None if g is None else g.shape for g in grads])
        return grads[0]

    seen = []
    f = function(forward, backward)
    prepare(lambda x: f.apply(x)[0].sum())(leaf([1.0])).backward()
    shape = (1,) if materialize else None
    assert seen[-1] == [(1,), shape, shape, None]


def test_outputs_that_are_no_tensors_or_integers(prepare):
    f = function(lambda ctx, x: (x * 2, np.argmax(x), "text"), lambda ctx, g, h, t: g * 2)
    x = leaf([1.0, 5.0])
    value, position, text = prepare(lambda x: f.apply(x))(x)
    assert (int(position), position.requires_grad, text) == (1, False, "text")
    value.sum().backward()
    assert numbers(x.grad) == [2.0, 2.0]


def test_tensors_in_lists_are_no_outputs(prepare):
    """They pass through without gradients, but for those that are outputs or inputs themselves."""

    def forward(ctx, x):
        y = x * 2
        return y, [x * 3, {"x": x, "y": y}, 5]

    f = function(forward, lambda ctx, g, h: g * 2 if h is None else None)
    run = prepare(lambda x: f.apply(x))
    for x in (leaf([1.0, 4.0]), leaf([2.0, 5.0])):
        y, (tripled, both, number) = run(x)
        assert (numbers(tripled), tripled.requires_grad, number) == (numbers(x * 3), False, 5)
        assert (both["x"] is x, numbers(both["y"]), both["y"].requires_grad) == (True, numbers(x * 2), True)
        y.sum().backward()
        assert numbers(x.grad) == [2.0, 2.0]
    alone = function(lambda ctx, x: [x * 2], lambda ctx, g: g)
    (value,) = prepare(alone.apply)(leaf([1.0]))
    assert (numbers(value), value.requires_grad) == ([2.0], False)


def test_what_forward_returns_beside_tensors_is_that_of_the_call(prepare):
    """Also where forward runs in Python, so that it may be another value in each call."""

    def forward(ctx, x):
        values = x.numpy()
        return tg.tensor(values * 2), float(values.sum()), [tg.tensor(values), "text"]

    f = function(forward, lambda ctx, g, h, i: g * 2)
    run = prepare(lambda x: f.apply(x))
    for x in (tg.tensor([1.0, 4.0]), tg.tensor([2.0, 5.0]), tg.tensor([2.0, np.nan])):
        _, total, (copy, text) = run(x)
        np.testing.assert_array_equal(total, np.sum(x.numpy()))
        assert text == "text" and not copy.requires_grad
        np.testing.assert_array_equal(copy.numpy(), x.numpy())

    copied = function(lambda ctx, x: (x * 2, [tg.tensor(x.numpy())]), lambda ctx, g, h: g * 2)

    def steps(x):
        return tg.scan(lambda total, a: (total + copied.apply(a * total + a)[1][0], a), tg.zeros(1), x)[0]

    assert numbers(prepare(steps)(tg.tensor([[1.0], [1.0], [1.0]]))) == [7.0]  # t + (t + 1), from 0


def test_python_values_that_differ_from_step_to_step_are_refused():
    f = function(lambda ctx, x: (tg.tensor(x.numpy()), float(x.numpy()[0])), lambda ctx, g, h: g)
    with pytest.raises(UnsupportedError, match="differs from step to step"):
        tg.jit(lambda x: tg.scan(lambda total, a: (total + f.apply(a)[0], f.apply(a)[1]), tg.zeros(1), x))(
            tg.tensor([[1.0], [2.0]])
        )
    new = function(lambda ctx, x: (tg.tensor(x.numpy()), object()), lambda ctx, g, h: g)
    with pytest.raises(UnsupportedError, match="new object each time"):
        tg.jit(new.apply)(tg.tensor([1.0]))


def test_mark_non_differentiable(prepare):
    def forward(ctx, x):
        kept, plain = x * 2, x * 3
        ctx.mark_non_differentiable(plain)
        return kept, plain

    f = function(forward, lambda ctx, g, h: g * 2)
    x = leaf([1.0])
    prepare(lambda x: (lambda kept, plain: (kept * plain).sum())(*f.apply(x)))(x).backward()
    assert numbers(x.grad) == [6.0]


def test_an_input_returned_as_it_is(prepare):
    f = function(lambda ctx, x: x, lambda ctx, g: g * 5)
    x = leaf([1.0])
    prepare(lambda x: f.apply(x * 1) * 2)(x).backward()
    assert numbers(x.grad) == [10.0]
    with pytest.raises(RuntimeError, match="modified inplace"):
        prepare(lambda x: f.apply(x * 1).mul_(2))(x)


def test_mark_dirty(prepare):
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    f = function(forward, lambda ctx, g: g * 3)
    x = leaf([2.0])

    def run(x):
        y = x * 1
        f.apply(y)
        return (y * 10).sum()

    out = prepare(run)(x)
    out.backward()
    assert (numbers(out), numbers(x.grad)) == (60.0, [30.0])


def test_mark_dirty_of_what_is_not_returned_or_no_input(prepare):
    def not_returned(ctx, x):
        ctx.mark_dirty(x)
        return x * 2

    with pytest.raises(RuntimeError, match="not returned as output"):
        prepare(lambda x: function(not_returned, lambda ctx, g: g).apply(x * 1))(leaf([1.0]))

    def no_input(ctx, x):
        y = x * 2
        ctx.mark_dirty(y)
        return y

    with pytest.warns(UserWarning, match="received a tensor that was not an input"):
        prepare(lambda x: function(no_input, lambda ctx, g: g).apply(x * 1))(leaf([1.0]))


def test_setup_context(prepare):
    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    def backward(ctx, g):
        x, out = ctx.saved_tensors
        return g * (x + out)

    x = leaf([3.0])
    prepare(function(lambda x: x * x, backward, setup_context=setup).apply)(x).backward()
    assert numbers(x.grad) == [12.0]


def test_setup_context_may_not_save_an_input_returned_as_it_is(prepare):
    f = function(lambda x: x, lambda ctx, g: g, setup_context=lambda ctx, i, o: ctx.save_for_backward(i[0]))
    with pytest.raises(RuntimeError, match="input that has been returned as-is as output is being saved"):
        prepare(lambda x: f.apply(x * 1))(leaf([1.0]))


def test_missing_backward_and_both_names(prepare):
    with pytest.raises(NotImplementedError, match="must implement either the backward or vjp"):
        prepare(function(double).apply)(leaf([1.0])).backward()
    both = function(double, lambda ctx, g: g, vjp=lambda ctx, g: g)
    with pytest.raises(RuntimeError, match="both 'backward' and 'vjp'"):
        prepare(both.apply)(leaf([1.0])).backward()


def test_once_differentiable(prepare):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @once_differentiable
    def backward(ctx, g):
        return g * 2 * ctx.saved_tensors[0]

    f = function(forward, backward)
    x = leaf([3.0])
    out = prepare(lambda x: f.apply(x).sum())(x)
    (gradient,) = tg.autograd.grad(out, x, retain_graph=True)
    assert numbers(gradient) == [6.0]
    seed = leaf(1.0)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        tg.autograd.grad(tg.autograd.grad(out, x, seed, create_graph=True)[0].sum(), seed)
