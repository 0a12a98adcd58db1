"""The autograd contract line by line, in eager code and inside compiled functions: same values, same errors.

What can only be seen from outside a function (a Tensor's repr, assigned gradients) is tested beside its module.
"""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.autograd.function import once_differentiable


@pytest.fixture(params=["eager", "compiled"])
def prepare(request):
    """Turns a function into what is called: itself, or compiled."""
    return tg.jit if request.param == "compiled" else lambda function: function


def leaf(values, dtype=float):
    return tg.tensor(np.asarray(values, dtype), requires_grad=True)


def numbers(tensor):
    return None if tensor is None else tensor.detach().numpy().tolist()


def function(forward, backward=None, **members):
    """A Function class named F1 with these static methods."""
    methods = {"forward": staticmethod(forward)}
    if backward is not None:
        methods["backward"] = staticmethod(backward)
    return type("F1", (tg.Function,), {**methods, **{k: staticmethod(v) for k, v in members.items()}})


def double(ctx, x, *rest):
    return x * 2


# ---- version counter -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", ["add_", "setitem", "view", "no_grad"])
@pytest.mark.parametrize("saved", ["input", "output"])
def test_what_backward_reads_must_not_be_modified(prepare, saved, write):
    def broken(x):
        y = x * 1
        z = y * y if saved == "input" else y.exp()
        target = y if saved == "input" else z
        if write == "add_":
            target.add_(1)
        elif write == "setitem":
            target[0] = 5.0
        elif write == "view":
            target[:1].mul_(2)
        else:
            with tg.no_grad():
                target.add_(1)
        return z.sum()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        prepare(broken)(leaf([1.0, 2.0])).backward()


def test_what_backward_does_not_read_may_be(prepare):
    def fine(x):
        y = x * 1
        z = y + 1
        y.add_(1)
        return (z * 2).sum()

    x = leaf([1.0, 2.0])
    prepare(fine)(x).backward()
    assert numbers(x.grad) == [2.0, 2.0]


def test_modified_before_it_is_read(prepare):
    def fine(x):
        y = x + 2
        y[0] = 100.0
        return (y * y).mean()

    x = leaf([1.0, 3.0])
    prepare(fine)(x).backward()
    assert numbers(x.grad) == [0.0, 5.0]


def test_views_and_detached_share_the_counter(prepare):
    def versions(x):
        y = x * 1
        view, cut = y[:1], y.detach()
        y.add_(1)
        view.add_(1)
        return [y._version, view._version, cut._version]

    assert prepare(versions)(leaf([1.0, 2.0])) == [2, 2, 2]


def test_arguments_and_results_are_checked_by_what_was_saved_of_them(prepare):
    x = leaf([1.0, 2.0])
    y = x * 1
    z = prepare(lambda y: y * y)(y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    y = x * 1
    z = prepare(lambda y: y + 1)(y)
    y.add_(1)
    z.sum().backward()
    assert numbers(x.grad) == [1.0, 1.0]
    z = prepare(np.exp)(x)
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


# ---- modifying leaves and views --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda x: x.add_(1), "a leaf Variable that requires grad"),
        (lambda x: x.__setitem__(0, 1.0), "a leaf Variable that requires grad"),
        (lambda x: x[:1].mul_(2), "a view of a leaf Variable that requires grad"),
        (lambda x: (x * 1).unbind()[0].mul_(2), "multiple views"),
    ],
    ids=["leaf", "item", "view of a leaf", "one of several views"],
)
def test_misuse_of_in_place(prepare, write, message):
    def broken(x):
        write(x)
        return x.sum()

    with pytest.raises(RuntimeError, match=message):
        prepare(broken)(leaf([1.0, 2.0]))


def test_a_tensor_becomes_part_of_the_graph_by_an_operand_that_is(prepare):
    def product(x, y):
        z = x * 1
        z.mul_(y)
        return z.sum()

    y = leaf([3.0, 4.0])
    prepare(product)(tg.tensor([1.0, 2.0]), y).backward()
    assert numbers(y.grad) == [1.0, 2.0]


# ---- backward and grad -----------------------------------------------------------------------------------------------


def test_a_second_backward(prepare):
    x = leaf([1.0, 2.0])
    loss = prepare(lambda x: (x * x).sum())(x)
    loss.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()
    loss = prepare(lambda x: (x * x).sum())(x)
    loss.backward(retain_graph=True)
    loss.backward()
    nothing_saved = prepare(lambda x: (x + 1).sum())(x)
    nothing_saved.backward()
    nothing_saved.backward()
    assert numbers(x.grad) == [2 * 3 + 2.0, 4 * 3 + 2.0]


def test_gradients_are_added_to_the_same_object(prepare):
    x = leaf([1.0, 2.0])
    f = prepare(lambda x: (x * 3).sum())
    f(x).backward()
    first = x.grad
    f(x).backward()
    assert x.grad is first
    assert numbers(first) == [6.0, 6.0]


def test_what_grad_and_backward_refuse(prepare):
    x, y = leaf([1.0, 2.0]), leaf([1.0])
    f = prepare(lambda x, y: x * 2)
    with pytest.raises(RuntimeError, match="can be implicitly created only for scalar outputs"):
        f(x, y).backward()
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        prepare(lambda x: x * 2)(tg.tensor([1.0])).backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        f(x, y).backward(tg.tensor([1.0]))
    with pytest.raises(RuntimeError, match="appears to not have been used"):
        tg.autograd.grad(f(x, y).sum(), [x, y])
    assert tg.autograd.grad(f(x, y).sum(), [x, y], allow_unused=True)[1] is None
    assert numbers(tg.autograd.grad(f(x, y).sum(), [x, y], materialize_grads=True)[1]) == [0.0]
    with pytest.raises(RuntimeError, match="cannot be empty"):
        f(x, y).sum().backward(inputs=[])


def test_gradients_of_many_seeds_at_once(prepare):
    x = leaf([1.0, 2.0])
    out = prepare(lambda x: x * x)(x)
    (rows,) = tg.autograd.grad(out, x, tg.tensor(np.eye(2)), is_grads_batched=True)
    assert numbers(rows) == [[2.0, 0.0], [0.0, 4.0]]


def test_operands_get_gradients_of_their_own_shape_and_dtype(prepare):
    a, b, c = leaf(np.ones((2, 2))), leaf(np.ones((2, 1))), leaf(3.0, np.float32)
    prepare(lambda a, b, c: (a * b + c).sum())(a, b, c).backward()
    assert [(t.grad.shape, t.grad.dtype) for t in (a, b, c)] == [((2, 2), "f8"), ((2, 1), "f8"), ((), "f4")]
    assert [numbers(t.grad.sum()) for t in (a, b, c)] == [4.0, 4.0, 4.0]


# ---- what backward of a Function returns -----------------------------------------------------------------------------


def test_trailing_nones_are_dropped(prepare):
    x = leaf([1.0])
    prepare(function(double, lambda ctx, g: (g, None, None)).apply)(x).backward()
    assert numbers(x.grad) == [1.0]


@pytest.mark.parametrize(
    ("backward", "arguments", "error", "message"),
    [
        (lambda ctx, g: (g, g), (), RuntimeError, r"incorrect number of gradients \(expected 1, got 2\)"),
        (lambda ctx, g: g, (3,), RuntimeError, r"incorrect number of gradients \(expected 2, got 1\)"),
        (lambda ctx, g: [g], (), TypeError, r"expected Variable or None \(got list\)"),
        (lambda ctx, g: (g, g), (3,), RuntimeError, "gradient different than None at position 2"),
        (lambda ctx, g: 1.5, (), TypeError, r"expected Variable or None \(got float\)"),
        (lambda ctx, g: g[:2], (), RuntimeError, "got .2. but expected shape compatible with .3."),
        (lambda ctx, g: g[:1], (), RuntimeError, "got .1. but expected shape compatible with .3."),
    ],
    ids=["too many", "too few", "a list", "for no tensor", "a number", "a shape", "a shape that would broadcast"],
)
def test_what_backward_may_not_return(prepare, backward, arguments, error, message):
    f = function(double, backward)
    with pytest.raises(error, match=message):
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


# ---- hooks -----------------------------------------------------------------------------------------------------------


def test_order_and_values_of_hooks(prepare):
    def run(x):
        y = x * 2
        y.register_hook(lambda g: order.append(("y", numbers(g))) or g * 10)
        z = y * 3
        z.register_hook(lambda g: order.append(("z first", numbers(g))))
        z.register_hook(lambda g: order.append(("z second", numbers(g))))
        return z.sum()

    order = []
    x = leaf([1.0])
    x.register_hook(lambda g: order.append(("x", numbers(g))))
    x.register_post_accumulate_grad_hook(lambda t: order.append(("x post", numbers(t.grad))))
    f = prepare(run)
    expected = [("z first", [1.0]), ("z second", [1.0]), ("y", [3.0]), ("x", [60.0]), ("x post", [60.0])]
    for _ in range(2):
        order.clear()
        x.grad = None
        f(x).backward()
        assert order == expected


def test_hooks_see_each_call_and_not_calls_without_backward(prepare):
    def run(x):
        y = x * x
        y.register_hook(lambda g: seen.append(numbers(g)))
        return (y * y).sum()

    seen = []
    f = prepare(run)
    f(leaf([1.0]))
    assert seen == []
    for value in (1.0, 2.0):
        f(leaf([value])).backward()
    assert seen == [[2.0], [8.0]]


def test_a_removed_hook_does_not_run(prepare):
    def run(x):
        y = x * 2
        with y.register_hook(lambda g: g * 10):
            pass
        handle = y.register_hook(lambda g: g * 100)
        handle.remove()
        handle.remove()
        return y.sum()

    x = leaf([1.0])
    prepare(run)(x).backward()
    assert numbers(x.grad) == [2.0]


@pytest.mark.parametrize(
    ("hook", "error", "message"),
    [
        (lambda g: 1.0, TypeError, "expected Variable, but hook returned 'float'"),
        (lambda g: g[:1], RuntimeError, "has changed the size of value"),
    ],
)
def test_what_a_hook_may_not_return(prepare, hook, error, message):
    def run(x):
        y = x * 2
        y.register_hook(hook)
        return y.sum()

    with pytest.raises(error, match=message):
        prepare(run)(leaf([1.0, 2.0])).backward()


def test_where_hooks_cannot_go(prepare):
    def on_a_constant(x):
        (x.detach() * 2).register_hook(lambda g: g)
        return x.sum()

    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        prepare(on_a_constant)(leaf([1.0]))


def test_hooks_under_tg_grad():
    def loss(x):
        y = x * 2
        y.register_hook(lambda g: seen.append(numbers(g)) or g * 3)
        return np.sum(y * y)

    seen = []
    x = np.array([1.0, 2.0])
    for _ in range(2):
        np.testing.assert_allclose(tg.grad(loss)(x), 3 * 8 * x)
    with tg.eager():
        np.testing.assert_allclose(tg.grad(loss)(x), 3 * 8 * x)
    assert seen == [[4.0, 8.0]] * 3


def test_a_hook_inside_on_a_tensor_from_outside_is_refused():
    w = leaf([1.0])

    @tg.jit
    def run(x):
        x.register_hook(lambda g: g * 2)
        return x.sum()

    with pytest.raises(TypeError, match="register it outside"):
        run(w)


def test_second_derivatives_through_a_hook_of_a_compiled_function_are_refused():
    def run(x):
        y = x * x
        y.register_hook(lambda g: g * 2)
        return (y * y).sum()

    x = leaf([3.0])
    with pytest.raises(RuntimeError, match="second derivative through a gradient that a hook"):
        (first,) = tg.autograd.grad(tg.jit(run)(x), x, create_graph=True)
        tg.autograd.grad(first.sum(), x)


# ---- numbers out of the graph ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("leave", [lambda x: x.numpy(), np.asarray], ids=["numpy", "asarray"])
def test_numbers_with_a_gradient_cannot_leave(prepare, leave):
    with pytest.raises(RuntimeError):
        prepare(lambda x: x * leave(x).sum())(leaf([1.0, 2.0]))


def test_retained_gradients_of_values_inside_do_not_get_out_silently():
    kept = []

    @tg.jit
    def run(x):
        y = x * 2
        y.retain_grad()
        kept.append(y)
        return y.sum()

    run(leaf([1.0])).backward()
    with pytest.raises(TypeError, match="after that function had returned"):
        assert kept[0].grad
