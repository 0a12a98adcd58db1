"""What compiled functions do to the outside, where one object is met twice or the outside changes between calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def leaf(*values: float) -> Any:
    return tg.tensor(list(map(float, values)), requires_grad=True)


def numbers(*values: Any) -> list[Any]:
    return [v if v is None else np.array(v.detach() if isinstance(v, tg.Tensor) else v).tolist() for v in values]


def one_argument_twice(wrap: Wrap) -> list[Any]:
    def f(x, y):
        x.add_(1)
        return x + y

    run, t, u, a = wrap(f), tg.tensor([1.0, 2.0]), tg.tensor([3.0, 4.0]), np.array([1.0, 2.0])

    def g(x, y):
        x += 1
        return y * 2

    seen = [run(t, u), run(t, t), run(u, t), run(u, u), wrap(g)(a, a)]
    return numbers(*seen, t, u, a)


def a_leaf_twice(wrap: Wrap) -> list[Any]:
    def f(x, y):
        (x * y * y).sum().backward()

    run, t, u, v = wrap(f), leaf(1, 2), leaf(3, 4), leaf(5, 6)
    for x, y in ((t, t), (u, v), (t, t), (u, v), (u, t)):
        run(x, y)
    return numbers(t.grad, u.grad, v.grad)


def passed_and_captured(wrap: Wrap) -> list[Any]:
    t = tg.tensor([1.0, 2.0])

    def f(x):
        t.add_(1)
        return x * 2

    def g(x):
        x.add_(1)
        return t * 2

    seen = []
    for function in (f, g):
        run = wrap(function)
        for x in (t, tg.tensor([5.0, 5.0]), t, tg.tensor([7.0, 7.0])):
            seen += numbers(run(x), x, t)
    return seen


def a_leaf_passed_and_captured(wrap: Wrap) -> list[Any]:
    t = leaf(1, 2)

    def f(x):
        (t * x).sum().backward()
        return t.grad * 1

    run, seen = wrap(f), []
    for x in (leaf(5, 5), t, t, leaf(6, 6)):
        seen += numbers(run(x), t.grad, x.grad)
    return seen


def leaves_that_share_their_grad(wrap: Wrap) -> list[Any]:
    a, b = leaf(1, 2), leaf(3, 4)

    def f():
        (a * 2 + b * 3).sum().backward()

    run = wrap(f)
    run()
    a.grad = b.grad = tg.tensor([10.0, 20.0])
    run()
    run()
    assert a.grad is b.grad
    a.grad = tg.tensor([0.0, 0.0])
    run()
    return [*numbers(a.grad, b.grad), b.grad._version]


def a_grad_that_is_captured(wrap: Wrap) -> list[Any]:
    a, g = leaf(1, 2), tg.tensor([1.0, 1.0])

    def f():
        (a * 2).sum().backward()
        g.mul_(3)
        return a.grad + g

    run, seen = wrap(f), []
    for grad in (None, g, tg.tensor([5.0, 5.0]), g):
        a.grad = grad
        seen += numbers(run(), a.grad, g)
    return seen


def hooks_come_and_go(wrap: Wrap) -> list[Any]:
    a, b = leaf(1, 2), leaf(3, 4)

    def f(x):
        (a * a * x).sum().backward()

    run, seen = wrap(f), []
    run(b)
    for owner in (a, b):
        with owner.register_hook(lambda g: g * 10):
            run(b)
            seen += numbers(a.grad, b.grad)
        run(b)
        seen += numbers(a.grad, b.grad)
    handle = a.register_post_accumulate_grad_hook(lambda q: q.grad.mul_(2) and None)
    with tg.no_grad():
        handle.remove()
    run(b)
    return seen + numbers(a.grad, b.grad)


def hooks_on_what_autograd_grad_asks_for(wrap: Wrap) -> list[Any]:
    p, seen = leaf(1, 2), []
    for run in (wrap(lambda q: tg.autograd.grad((q * q).sum(), [q])[0] * 1),
                wrap(lambda q: tg.autograd.grad((p * q).sum(), [p])[0] * 1)):  # fmt: skip
        seen += numbers(run(p))
        with p.register_hook(lambda g: g * 10):
            seen += numbers(run(p))
        seen += numbers(run(p))
    return seen


def no_grad_around_the_call(wrap: Wrap) -> list[Any]:
    p = leaf(1, 2)

    def step(x):
        p.add_(x)

    def backward(x):
        (p * x).sum().backward()

    seen = []
    for function in (step, backward):
        run = wrap(function)
        for _ in range(2):
            with tg.no_grad():
                seen.append(_error_of(run, 2.0))
            seen += [_error_of(run, 2.0), *numbers(p, p.grad), p._version]
    return seen


def views_of_leaves(wrap: Wrap) -> list[Any]:
    p, q = leaf(1, 2, 3), leaf(4, 5, 6) * 2

    def f(v):
        v.add_(1)

    run = wrap(f)
    return [_error_of(run, q[1:]), _error_of(run, p[1:]), _error_of(wrap(f), p[1:]), *numbers(p, q), p._version]


def assigned_gradients(wrap: Wrap) -> list[Any]:
    p, q, r, g = leaf(1, 2), leaf(3, 4), leaf(5, 6), tg.tensor([5.0, 5.0])

    def f(x, y):
        p.grad, q.grad = g, x * 2
        r.grad = q.grad
        (p * 3 + q).sum().backward()
        y.grad = x

    run, seen = wrap(f), []
    for _ in range(2):
        x, y = tg.tensor([1.0, 1.0]), leaf(1, 2)
        run(x, y)
        seen += [p.grad is g, q.grad is r.grad, y.grad is x, *numbers(g, q.grad, x)]
    return seen


def history_beside_backward(wrap: Wrap) -> list[Any]:
    p = leaf(1, 2)

    def f(x):
        (p * 3).sum().backward()
        x.mul_(p)
        return p.grad * 1, (p * p).sum()

    run, seen = wrap(f), []
    for _ in range(2):
        x = tg.tensor([3.0, 4.0])
        gradient, loss = run(x)
        seen += [gradient.requires_grad, loss.requires_grad, p.grad.requires_grad, x.requires_grad]
        (loss + x.sum()).backward()
        seen += numbers(gradient, x, p.grad)
    return seen


def _error_of(run: Callable[..., Any], *args: Any) -> str | None:
    try:
        run(*args)
    except tg.errors.TracegradError as error:
        return type(error).__name__
    return None


@pytest.mark.parametrize(
    "program",
    [
        one_argument_twice, a_leaf_twice, passed_and_captured, a_leaf_passed_and_captured, leaves_that_share_their_grad,
        a_grad_that_is_captured, hooks_come_and_go, no_grad_around_the_call, views_of_leaves, assigned_gradients,
        history_beside_backward, hooks_on_what_autograd_grad_asks_for,
    ],
)  # fmt: skip
def test_compiled_is_as_eager(program):
    assert program(tg.jit) == program(lambda function: function)


def test_eager_is_as_worked_out_by_hand():
    for wrap in (tg.jit, lambda function: function):
        assert a_leaf_twice(wrap) == [[6 + 6, 24 + 16], [2 * 25 + 1, 2 * 36 + 4], [60.0, 96.0]]
        assert one_argument_twice(wrap)[:2] == [[5.0, 7.0], [6.0, 8.0]]
        assert passed_and_captured(wrap)[:6] == [
            [4.0, 6.0],
            [2.0, 3.0],
            [2.0, 3.0],
            [10.0, 10.0],
            [5.0, 5.0],
            [3.0, 4.0],
        ]


def test_memory_shared_by_distinct_objects_is_refused():
    t, a = tg.tensor([1.0, 2.0]), np.array([1.0, 2.0])

    def captured_array(x):
        x += 1
        return x * a

    def two(x, y):
        x += 1
        return x * y

    with pytest.raises(TypeError, match="shares memory"):
        tg.jit(captured_array)(a)
    with pytest.raises(TypeError, match="shares memory"):
        tg.jit(two)(t, t.detach())
    for function, first in ((captured_array, (np.zeros(2),)), (two, (tg.tensor([0.0]), tg.tensor([0.0])))):
        run = tg.jit(function)
        run(*first)
        with pytest.raises(TypeError, match="shares memory"):
            run(*((a,) if len(first) == 1 else (t, t.detach())))
    with pytest.raises(TypeError, match="shares memory"):
        tg.grad(lambda x, y: two(y, x).sum())(a, a)
    assert a.tolist() == [1.0, 2.0] and t._array.tolist() == [1.0, 2.0]


def test_gradients_through_a_loop_are_plain_numbers_afterwards():
    w = tg.tensor([0.5, 2.0], requires_grad=True)

    def step(x):
        w.grad = None
        tg.scan(lambda c, _: (c * w, None), x, None, length=2)[0].sum().backward()
        with tg.no_grad():
            w.grad.mul_(2.0)
        return (w.grad * x).sum()

    x = np.array([1.0, 3.0])
    expected = 4 * w.detach().numpy() * x  # of w² x by w, doubled
    for enter in (contextlib.nullcontext, tg.eager):
        with enter():
            tg.jit(step)(x)
            np.testing.assert_allclose(w.grad.numpy(), expected)
            np.testing.assert_allclose(np.asarray(tg.grad(step)(x)), expected)
