"""In-place modification: versions, what is allowed, and gradients through it."""

import numpy as np
import pytest

import tracegrad as tg


def leaf(values):
    return tg.tensor(np.asarray(values, float), requires_grad=True)


def numbers(t):
    return t.detach().numpy()


STALE = "modified by an inplace operation"


# ---- the version counter ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_saved_output_is_counted_although_its_tensor_is_gone(create_graph):
    x = leaf([1.0, 2.0])
    y = np.exp(x)
    z, alias = (y + 1).sum(), y.detach()
    del y
    (g,) = tg.autograd.grad(z, x, retain_graph=True, create_graph=create_graph)
    np.testing.assert_array_equal(numbers(g), np.exp([1.0, 2.0]))
    alias.add_(1)
    with pytest.raises(RuntimeError, match=STALE):
        z.backward()
    if create_graph:
        with pytest.raises(RuntimeError, match=STALE):
            g.sum().backward()


def test_the_check_is_made_at_backward_and_names_version_and_node():
    x = leaf([1.0, 2.0])
    y = x.exp()
    z = (y * y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match=rf"(?s){STALE}.*MulBackward0.*is at version 1; expected version 0"):
        z.backward()


def test_saved_output():
    x = leaf([1.0, 2.0])
    y = x.exp()
    y += 1
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


def test_an_input_that_was_not_saved_may_be_modified():
    x = leaf([1.0, 2.0])
    y = x * 2
    z = y + 1
    y.mul_(10)
    z.sum().backward()
    assert numbers(x.grad).tolist() == [2.0, 2.0]


def test_modifying_before_use_is_fine():
    x = leaf([1.0, 3.0])
    y = x + 2
    y[0] = 100
    assert y._version == 1
    (y * y).mean().backward()
    assert numbers(x.grad).tolist() == [0.0, 5.0]


def test_views_and_detached_share_the_counter_and_data_has_its_own():
    x = tg.tensor([1.0, 2.0, 3.0])
    view, detached, data = x[1:], x.detach(), x.data
    view.zero_()
    assert x._version == view._version == detached._version == 1
    data.add_(1)
    assert x._version == 1 and data._version == 1
    detached.add_(1)
    assert x._version == 2


def test_in_place_under_no_grad_counts_and_numpy_writes_do_not():
    x = leaf([1.0, 2.0])
    with tg.no_grad():
        x.add_(1)
    assert x._version == 1
    x.detach().numpy()[0] = 5
    assert x._version == 1 and numbers(x)[0] == 5.0


def test_setitem_counts():
    x = tg.tensor([1.0, 2.0])
    x[1] = 3
    assert x._version == 1 and numbers(x).tolist() == [1.0, 3.0]


def test_a_view_saved_by_an_operation_notices_a_write_to_its_base():
    x = leaf([1.0, 2.0])
    base = x * 1
    z = (base[:1] * base[1:]).sum()
    base.zero_()
    with pytest.raises(RuntimeError, match=STALE):
        z.backward()


def test_exchanged_data_is_noticed():
    w = leaf([2.0])
    y = (w * w).sum()
    w.data = tg.tensor([5.0])
    with pytest.raises(RuntimeError, match=STALE):
        y.backward()


def test_with_saved_tensor_hooks_there_is_no_version_check():
    x = leaf([2.0])
    y = x * 1
    with tg.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        z = (y * y).sum()
    y.zero_()
    z.backward()
    assert numbers(x.grad).tolist() == [4.0]


# ---- leaves and views ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1),
        lambda x: x.zero_(),
        lambda x: x.__setitem__(0, 1.0),
        lambda x: x.__iadd__(1),
        lambda x: x.copy_(tg.tensor([1.0, 2.0])),
    ],
)
def test_a_leaf_that_requires_grad_may_not_be_modified(write):
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        write(leaf([1.0, 2.0]))


def test_nor_a_view_of_one():
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        leaf([1.0, 2.0])[0].add_(1)


def test_under_no_grad_a_leaf_may_be_modified():
    x = leaf([1.0, 2.0])
    with tg.no_grad():
        x -= 0.5
        x[0] = 7
    assert numbers(x).tolist() == [7.0, 1.5] and x.is_leaf and x.requires_grad


def test_one_of_several_views():
    x = leaf([1.0, 2.0])
    first, _ = (x * 1).unbind()
    with pytest.raises(RuntimeError, match="returns multiple views"):
        first.add_(1)


def test_a_view_made_under_no_grad():
    x = leaf([1.0, 2.0]) * 1
    with tg.no_grad():
        view = x[0]
    with pytest.raises(RuntimeError, match="a view was created in no_grad mode and is being modified inplace"):
        view.add_(1)


def test_a_tensor_without_gradient_becomes_a_non_leaf_by_an_operand_that_has_one():
    w, x = leaf([3.0]), tg.tensor([2.0])
    x.mul_(w)
    assert x.requires_grad and not x.is_leaf
    (x * 5).sum().backward()
    assert numbers(w.grad).tolist() == [10.0]


def test_broadcast_memory_is_read_only():
    with pytest.raises(RuntimeError, match="single memory location"):
        tg.tensor([1.0]).expand(3).add_(1)


def test_shape_and_dtype_must_stay():
    with pytest.raises(ValueError, match="doesn't match the broadcast shape"):
        tg.tensor([1.0, 2.0]).add_(tg.tensor(np.ones((2, 2))))
    with pytest.raises(TypeError, match="can't be cast"):
        tg.tensor([1, 2]).add_(0.5)


# ---- gradients -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write, meaning",
    [
        (lambda y, c: y.add_(c), lambda y, c: y + c),
        (lambda y, c: y.add_(c, alpha=3), lambda y, c: y + 3 * c),
        (lambda y, c: y.sub_(c), lambda y, c: y - c),
        (lambda y, c: y.mul_(c), lambda y, c: y * c),
        (lambda y, c: y.div_(c), lambda y, c: y / c),
        (lambda y, c: y.pow_(2), lambda y, c: y**2),
        (lambda y, c: y.mul_(y), lambda y, c: y * y),
        (lambda y, c: y.exp_(), lambda y, c: np.exp(y)),
        (lambda y, c: y.sqrt_(), lambda y, c: np.sqrt(y)),
        (lambda y, c: y.clamp_(1.5, 2.5), lambda y, c: np.clip(y, 1.5, 2.5)),
        (lambda y, c: y.lerp_(c, 0.25), lambda y, c: y + 0.25 * (c - y)),
        (lambda y, c: y.addcmul_(c, c, value=2), lambda y, c: y + 2 * c * c),
        (lambda y, c: y.zero_() + c, lambda y, c: 0 * y + c),
        (lambda y, c: y.copy_(c), lambda y, c: 0 * y + c),
        (lambda y, c: y.masked_fill_(np.array([True, False, True]), 4.0), lambda y, c: y * np.array([0, 1, 0])),
        (lambda y, c: y.__setitem__(slice(0, 2), c[1:]), None),
    ],
)
def test_in_place_methods_have_the_gradient_of_what_they_mean(write, meaning):
    if meaning is None:
        meaning = lambda y, c: np.concatenate([c[1:] + 0 * y[:2], y[2:]])
    results = []
    for in_place in (True, False):
        x, c = leaf([1.0, 2.0, 3.0]), leaf([2.0, 0.5, 1.5])
        y = x * 1
        if in_place:
            out = write(y, c)
            out = y if out is None else out
        else:
            out = meaning(y, c)
        weights = tg.tensor([1.0, 10.0, 100.0])
        (out * weights).sum().backward()
        results.append([numbers(t.grad) if t.grad is not None else np.zeros(3) for t in (x, c)])
    assert np.allclose(results[0], results[1])


def test_augmented_assignment_keeps_the_object():
    x = leaf([1.0, 2.0])
    y = x * 2
    same = y
    y += 1
    y *= 3
    assert y is same and numbers(y).tolist() == [9.0, 15.0]
    y.sum().backward()
    assert numbers(x.grad).tolist() == [6.0, 6.0]


def test_setitem_gives_gradients_to_target_and_value():
    x, v = leaf([1.0, 2.0, 3.0]), leaf([10.0])
    y = x * 2
    y[1:2] = v
    assert y.grad_fn.name() == "CopySlices"
    (y * tg.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert numbers(x.grad).tolist() == [2.0, 0.0, 200.0] and numbers(v.grad).tolist() == [10.0]


def test_setitem_broadcasts_its_value():
    x, v = leaf(np.zeros((2, 3))), leaf(5.0)
    y = x * 1
    y[0] = v
    y.sum().backward()
    assert float(v.grad) == 3.0 and numbers(x.grad).tolist() == [[0.0] * 3, [1.0] * 3]


def test_setitem_with_repeated_indices_the_last_write_wins_and_alone_has_the_gradient():
    x, v = leaf(np.zeros(3)), leaf([1.0, 2.0, 3.0])
    y = x * 1
    y[np.array([0, 0, 2])] = v
    assert numbers(y).tolist() == [2.0, 0.0, 3.0]
    (y * tg.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert numbers(v.grad).tolist() == [0.0, 1.0, 100.0] and numbers(x.grad).tolist() == [0.0, 10.0, 0.0]


def test_setitem_with_a_mask():
    x, v = leaf([1.0, 2.0, 3.0]), leaf([7.0, 8.0])
    y = x * 1
    y[y > 1.5] = v
    y.sum().backward()
    assert numbers(y).tolist() == [1.0, 7.0, 8.0]
    assert numbers(x.grad).tolist() == [1.0, 0.0, 0.0] and numbers(v.grad).tolist() == [1.0, 1.0]


def test_a_write_to_a_view_reaches_the_base_and_its_history():
    x, c = leaf([1.0, 2.0, 3.0]), leaf([5.0])
    base = x * 2
    view = base[1:]
    view.mul_(c)
    assert numbers(base).tolist() == [2.0, 20.0, 30.0] and base.grad_fn.name() == "CopySlices"
    (base * tg.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert numbers(x.grad).tolist() == [2.0, 100.0, 1000.0] and numbers(c.grad).tolist() == [10 * 4.0 + 100 * 6.0]


def test_a_write_to_the_base_reaches_the_history_of_its_views():
    x, c = leaf([1.0, 2.0, 3.0]), leaf([5.0])
    base = x * 2
    view = base.reshape(3, 1)[1:]
    base.mul_(c)
    view.sum().backward()
    assert numbers(view).tolist() == [[20.0], [30.0]]
    assert numbers(x.grad).tolist() == [0.0, 10.0, 10.0] and numbers(c.grad).tolist() == [10.0]


def test_a_view_of_a_tensor_without_gradient_gets_one_from_its_base():
    c, base = leaf([5.0]), tg.tensor([1.0, 2.0])
    view = base[1:]
    base.mul_(c)
    assert view.requires_grad
    view.sum().backward()
    assert numbers(c.grad).tolist() == [2.0]


def test_writes_through_a_transposed_view_can_be_differentiated_twice():
    x, c = leaf(np.arange(1.0, 7.0).reshape(2, 3)), leaf([2.0, 3.0])

    def function(x, c):
        y = x * x
        y.transpose()[1:].mul_(c)
        return (y * y).sum()

    assert tg.gradcheck(function, (x, c)) and tg.gradgradcheck(function, (x, c))


def test_retained_gradient_follows_the_new_value():
    x = leaf([1.0, 2.0])
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    (y * 5).sum().backward()
    assert numbers(y.grad).tolist() == [5.0, 5.0] and numbers(x.grad).tolist() == [30.0, 30.0]


def test_random_fills_use_the_seed():
    tg.manual_seed(0)
    a = tg.empty(3).uniform_(-1, 1)
    tg.manual_seed(0)
    b = tg.empty(3).uniform_(-1, 1)
    assert numbers(a).tolist() == numbers(b).tolist() and np.all(np.abs(numbers(a)) <= 1)
    n = tg.zeros(20_000).normal_(3, 2)
    assert abs(numbers(n).mean() - 3) < 0.1 and abs(numbers(n).std() - 2) < 0.1


def test_out_argument_of_ufuncs_writes_into_a_tensor():
    x, out = leaf([1.0, 2.0]), tg.zeros(2)
    np.multiply(x, 3, out=out)
    out.sum().backward()
    assert numbers(out).tolist() == [3.0, 6.0] and numbers(x.grad).tolist() == [3.0, 3.0]


def test_augmented_assignment_in_a_traced_function():
    @tg.jit
    def f(x):
        y = x * 2
        y += 1
        return y

    assert f(np.ones(2)).tolist() == [3.0, 3.0]


def test_grad_through_views_of_what_was_modified():
    """A view is derived anew when it is looked at, yet before what reads it, or the order of numbers is no order."""

    def loss(x):
        a = x * x
        view = a[::-1]
        view[0] = 2.0
        part = view[1:3]
        part *= x[3]
        return (a * a).sum()

    numbers = np.array([0.3, 0.7, 1.1, 1.3, 0.9])
    x = tg.tensor(numbers, requires_grad=True)
    result = loss(x)
    pending = [result.grad_fn]
    while pending:
        node = pending.pop()
        following = [edge[0] for edge in node._edges if edge is not None]
        assert all(node._sequence > later._sequence for later in following)
        pending += following
    (found,) = tg.autograd.grad(result, x)
    squares = numbers**2
    expected = 2 * squares * 2 * numbers
    expected[2:4] *= numbers[3] ** 2
    expected[3] += 2 * numbers[3] * np.sum(squares[2:4] ** 2)
    expected[4] = 0.0
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13)
