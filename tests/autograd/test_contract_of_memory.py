"""The autograd contract where memory is shared: views, Functions that modify, retained gradients; in both modes."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg
from tests.autograd.functions import function, leaf, numbers, saving


def passing_on(ctx, x):
    return x


def first_only(ctx, x):
    return x[:1]


def tripling(ctx, x):
    x.mul_(3)
    ctx.mark_dirty(x)
    return x


def exponential(ctx, x):
    x.exp_()
    ctx.mark_dirty(x)
    ctx.save_for_backward(x)
    return x


def times_saved(ctx, g):
    return g * ctx.saved_tensors[0]


Tripled = function(tripling, lambda ctx, g: g * 3)

# ---- views -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("widen", [lambda y: y[:1].expand(3), lambda y: np.broadcast_to(y[:1], (3,))])
def test_what_was_broadcast_sees_what_is_written_to_its_base_and_is_read_only(prepare, widen):
    def read(x):
        y = x * 1
        wide = widen(y)
        y.mul_(2)
        return (wide * x).sum()

    def write(x):
        wide = widen(x * 1)
        wide.mul_(2)
        return wide.sum()

    x = leaf([1.0, 2.0, 3.0])
    result = prepare(read)(x)
    result.backward()
    assert (float(result.detach()), numbers(x.grad)) == (12.0, [14.0, 2.0, 2.0])
    with pytest.raises(RuntimeError, match="single memory location"):
        prepare(write)(x)


def test_what_is_made_by_repeating_may_be_written(prepare):
    def fill(x):
        y = tg.full((2, 3), x[0])
        y[0] = x
        z = tg.zeros(3)
        z += x
        return (y * y).sum() + (z * z).sum()

    x = leaf([1.0, 2.0, 3.0])
    prepare(fill)(x).backward()
    assert numbers(x.grad) == [2 + 6 + 2.0, 4 + 4.0, 6 + 6.0]


def test_diagonals_are_views_to_write_to(prepare):
    def scaled(x):
        y = x[:, None] * x
        y.diagonal().mul_(2)
        return (y * y).sum()

    x = leaf([1.0, 2.0])
    prepare(scaled)(x).backward()  # 4 x⁴ + 2 x²y² + 4 y⁴
    assert numbers(x.grad) == [16 + 4 * 4.0, 16 * 8 + 4 * 2.0]


def test_retained_gradients_of_views_are_those_of_the_new_value(prepare):
    def by_the_base(x):
        y = x * 2
        view = y[:1]
        view.retain_grad()
        y.mul_(3)
        (y.sum() + view.sum()).backward()
        return view.grad

    def by_the_view(x):
        y = x * 2
        view = y[:1]
        view.retain_grad()
        view.mul_(3)
        (y.sum() + view.sum()).backward()
        return view.grad

    x = leaf([1.0, 2.0])
    assert numbers(prepare(by_the_base)(x)) == [1.0]
    assert numbers(prepare(by_the_view)(x)) == [1.0]
    assert numbers(x.grad) == [24.0, 8.0]


def test_a_view_of_a_computed_tensor_is_modified_by_a_compiled_function():
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1
    tg.jit(lambda view: view.mul_(3))(y[:2])
    (y * y).sum().backward()
    assert numbers(x.grad) == [18.0, 36.0, 6.0]


def test_detach_in_place_cuts_the_gradient(prepare):
    def product(x):
        y = x * 2
        y.detach_()
        return (y * x).sum()

    x = leaf([1.0, 2.0])
    prepare(product)(x).backward()
    assert numbers(x.grad) == [2.0, 4.0]


def test_detach_in_place_of_an_argument_of_a_compiled_function_is_refused():
    with pytest.raises(TypeError, match="detach_"):
        tg.jit(lambda x: x.detach_())(leaf([1.0]))


# ---- modified unseen -------------------------------------------------------------------------------------------------


def clamped_leaf(x):
    with tg.no_grad():
        x.clamp_(1.5, 2.5)
    return (x**3).sum()


def parts_of_a_value(x):
    y = x * 1
    with tg.no_grad():
        y[:2].mul_(x[1])
        y[1] = 7.0
    return (y**3).sum()


def through_detach(x):
    y = x * 1
    z = y + 1
    y.detach()[1:].mul_(10)
    return (y * z).sum()


@pytest.mark.parametrize(
    ("function", "value", "gradient"),
    [
        (clamped_leaf, 1.5**3 + 2.0**3 + 2.5**3, [3 * 1.5**2, 3 * 2.0**2, 3 * 2.5**2]),
        (parts_of_a_value, 2.0**3 + 7.0**3 + 3.0**3, [3 * 2.0**2, 3 * 7.0**2, 3 * 3.0**2]),
        (through_detach, 2.0 + 60.0 + 120.0, [3.0, 23.0, 34.0]),
    ],
)
def test_what_is_modified_under_no_grad_keeps_its_history(prepare, function, value, gradient):
    x = leaf([1.0, 2.0, 3.0])
    result = prepare(function)(x)
    assert float(result.detach()) == pytest.approx(value, rel=1e-14)
    result.backward()
    assert x.is_leaf
    np.testing.assert_allclose(numbers(x.grad), gradient, rtol=1e-14)


def test_derivatives_of_arrays_see_the_history_alone():
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(tg.grad(parts_of_a_value)(x), [12.0, 147.0, 27.0], rtol=1e-14)
    np.testing.assert_allclose(tg.jit(tg.grad(parts_of_a_value))(x), [12.0, 147.0, 27.0], rtol=1e-14)
    np.testing.assert_allclose(np.diag(tg.hessian(parts_of_a_value)(x)), [12.0, 42.0, 18.0], rtol=1e-14)
    value, tangent = tg.jvp(parts_of_a_value, (x,), (np.ones(3),))
    np.testing.assert_allclose((value, tangent), (378.0, 186.0), rtol=1e-14)


# ---- Functions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("forward", [passing_on, first_only], ids=["the input", "a view of it"])
def test_a_view_that_a_function_returned_must_not_be_modified(prepare, forward):
    f = function(forward, lambda ctx, g: g * 5)

    def modify(x):
        f.apply(x * 1).mul_(2)

    def modify_the_base(x):
        y = x * 1
        z = f.apply(y)
        y.mul_(2)
        return z.sum()

    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="a user's Function returned and is being modified inplace"):
        prepare(modify)(x)
    with pytest.raises(RuntimeError, match="has been modified inplace"):
        prepare(modify_the_base)(x)


def test_a_view_that_a_function_returned_is_not_modified_unseen():
    x = leaf([1.0, 2.0])
    y = function(passing_on, lambda ctx, g: g * 5).apply(x * 1)
    with tg.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="has been modified inplace"):
        y.sum().backward()


def test_a_modified_input_is_the_output_and_counts_each_modification(prepare):
    def run(x):
        y = x * 1
        z = Tripled.apply(y)
        seen.append((z is y, y._version))
        return (z * y).sum()

    seen = []
    x = leaf([1.0, 2.0])
    prepare(run)(x).backward()
    assert (numbers(x.grad), seen) == ([18.0, 36.0], [(True, 2)])


def test_a_function_may_not_modify_a_view_of_a_leaf(prepare):
    def broken(x):
        Tripled.apply(x[:1])

    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        prepare(broken)(leaf([1.0, 2.0]))


def test_what_a_functions_backward_reads_must_not_be_modified(prepare):
    square = function(saving, lambda ctx, g: g * 2 * ctx.saved_tensors[0])
    exp_ = function(exponential, times_saved)

    def input_modified(x):
        y = x * 1
        z = square.apply(y)
        y.add_(1)
        return z.sum()

    def output_modified(x):
        y = x * 1
        exp_.apply(y)
        y.add_(1)
        return y.sum()

    def operations_in_place(x):
        y = x * 1
        y.exp_()
        y.sin_()
        return y.sum()

    for broken in (input_modified, output_modified, operations_in_place):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            prepare(broken)(leaf([1.0, 2.0])).backward()


def test_modified_last_by_the_function_is_right(prepare):
    def run(x):
        y = x.sin()
        function(exponential, times_saved).apply(y)
        return y.sum()

    x = leaf([1.0, 2.0])
    prepare(run)(x).backward()
    np.testing.assert_allclose(numbers(x.grad), np.cos([1.0, 2.0]) * np.exp(np.sin([1.0, 2.0])), rtol=1e-14)


# ---- what is returned ------------------------------------------------------------------------------------------------


def test_tensors_from_outside_are_returned_themselves(prepare):
    def run(x, y, z):
        x.add_(1)
        z.mul_(p)
        (x * p).sum().backward()
        return x, {"y": y, "p": p}, y * 1, x.detach(), z, p.grad

    p = leaf([1.0, 2.0])
    f = prepare(run)
    for start in ([1.0, 2.0], [3.0, 4.0]):
        p.grad = None
        x, y, z = tg.tensor(start), tg.tensor(start), tg.tensor([1.0, 1.0])
        found = f(x, y, z)
        assert found[0] is x
        assert found[1]["y"] is y and found[1]["p"] is p
        assert all(a is not b for a in found[2:4] for b in (x, y))
        assert found[4] is z and found[5] is p.grad
        assert (numbers(x), numbers(z), numbers(p.grad)) == ([a + 1 for a in start], [1.0, 2.0], [a + 1 for a in start])
    p.grad = None
    z.sum().backward()
    assert numbers(p.grad) == [1.0, 1.0]


def test_one_tensor_passed_twice_is_returned_twice(prepare):
    f = prepare(lambda x, y: (x, y))
    x, y = tg.tensor([1.0]), tg.tensor([2.0])
    for first, second in ((x, y), (x, x), (y, x)):
        found = f(first, second)
        assert found[0] is first and found[1] is second


def test_versions_count_the_modifications_of_all_steps_of_a_loop(prepare):
    def run(w):
        def step(total, x):
            w.mul_(1)
            tg.fori_loop(0, 4, lambda i, v: (w.add_(x), v)[1], 0.0)
            return total + w[0], total

        tg.scan(step, 0.0, np.arange(3.0))
        return w._version

    w = tg.tensor([1.0, 2.0])
    assert (prepare(run)(w), w._version, numbers(w)) == (15, 15, [13.0, 14.0])


def test_what_was_done_before_an_exception_stays_done(prepare):
    p, q, a = leaf([1.0, 2.0]), leaf([1.0, 2.0]), np.zeros(2)
    q.grad = given = tg.tensor([5.0, 5.0])

    def run(x, a):
        x.add_(1)
        (p * x).sum().backward()
        (q * 3).sum().backward()
        with tg.no_grad():
            p.sub_(p.grad)
        a[0] = 7.0
        tg.rand(2)
        raise KeyError("stop")

    x, f = tg.tensor([1.0, 2.0]), prepare(run)
    tg.manual_seed(0)
    for times in (1, 2):
        with pytest.raises(KeyError):
            f(x, a)
        assert (x._version, tg.random.get_state().tolist()) == (times, [0, 2 * times])
    assert (numbers(x), numbers(p), a.tolist()) == ([3.0, 4.0], [-6.0, -8.0], [7.0, 0.0])
    assert (numbers(p.grad), numbers(q.grad), q.grad is given) == ([5.0, 7.0], [11.0, 11.0], True)


def test_views_whose_history_cannot_be_derived_again(prepare):
    """Of several views made together, and of one that a user's Function returned, once their memory was modified."""
    returned = function(lambda ctx, x: x, lambda ctx, g: g)

    def through_base(x):
        y = x * 1
        part = y.unbind()[0]
        y.mul_(2)
        return part * 2

    def through_view(x):
        y = returned.apply(x * 1)
        with tg.no_grad():
            y.add_(1)
        return y.sum()

    for misuse in (through_base, through_view):
        with pytest.raises(RuntimeError, match="modified inplace"):
            prepare(misuse)(leaf([1.0, 2.0]))
