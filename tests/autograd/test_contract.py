"""The autograd contract line by line, in eager code and inside compiled functions: same values, same errors.

What can only be seen from outside a function (a Tensor's repr, assigned gradients) is tested beside its module.
"""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg
from tests.autograd.functions import leaf, numbers

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
