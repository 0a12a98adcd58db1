"""What a call of a compiled function does to the outside: Tensors it captured, gradients, numbers it looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad import nn


def test_captured_tensors_are_written_in_each_call():
    state, view = tg.zeros(3), tg.zeros(2)

    @tg.jit
    def step(x):
        state.add_(x)
        state[0] = state.sum()
        view.copy_(state[1:])
        return state * 2

    expected = np.zeros(3)
    for i in range(3):
        x = np.arange(3.0) + i
        expected += x
        expected[0] = expected.sum()
        np.testing.assert_allclose(step(x), expected * 2)
        np.testing.assert_allclose(state._array, expected)
        np.testing.assert_allclose(view._array, expected[1:])
    assert state._version == 6
    assert len(step.recompiles) == 1


def training_step(mode: str, calls: int) -> list[Any]:
    """Momentum descent on a small network with a running mean; what is left after some steps."""
    generator = np.random.default_rng(0)
    weights = [nn.Parameter(tg.tensor(generator.normal(size=s))) for s in ((4, 8), (8, 1))]
    momenta = [tg.zeros(w.shape) for w in weights]
    mean, count = tg.zeros(8), tg.zeros(())
    seen = []
    weights[0].register_hook(lambda g: g * 2)

    def step(x, y):
        for w in weights:
            w.grad = None
        hidden = x @ weights[0]
        with tg.no_grad():
            mean.mul_(0.9).add_(hidden.mean(0), alpha=0.1)
            count.add_(1)
        loss = (((hidden - mean).tanh() @ weights[1] - y) ** 2).mean()
        loss.backward()
        with tg.no_grad():
            for w, m in zip(weights, momenta, strict=True):
                m.mul_(0.9).add_(w.grad, alpha=0.1)
                w.addcdiv_(m, 1 - 0.9**count, value=-0.1)
        return loss

    run = tg.jit(step) if mode == "compiled" else step
    for _ in range(calls):
        loss = run(tg.tensor(generator.normal(size=(16, 4))), tg.tensor(generator.normal(size=(16, 1))))
        seen.append(loss.item())
    if mode == "compiled":
        assert run.recompiles == ["first call"]
    tensors = [*weights, *momenta, mean, count, *(w.grad for w in weights)]
    return [*seen, *(t.detach()._array for t in tensors), *(t._version for t in (*weights, *momenta, mean, count))]


def test_a_whole_training_step_is_one_program():
    for eager, compiled in zip(training_step("eager", 5), training_step("compiled", 5), strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-12)


def test_gradients_accumulate_into_the_same_object():
    w = tg.tensor([1.0, 2.0], requires_grad=True)

    @tg.jit
    def accumulate(x):
        (w * x).sum().backward()

    accumulate(np.array([1.0, 2.0]))
    first = w.grad
    assert first._array.tolist() == [1.0, 2.0]
    accumulate(np.array([10.0, 20.0]))
    assert w.grad is first and first._array.tolist() == [11.0, 22.0]
    accumulate(np.array([10.0, 20.0]))
    assert w.grad._array.tolist() == [21.0, 42.0]
    assert len(accumulate.recompiles) == 2  # with .grad None, and with one to add to
    w.grad = None
    accumulate(np.array([1.0, 2.0]))
    assert w.grad._array.tolist() == [1.0, 2.0] and len(accumulate.recompiles) == 2


def test_arguments_that_require_grad_get_theirs():
    @tg.jit
    def f(x):
        y = (x * x).sum()
        y.backward()
        return x.grad * 2

    for value in ([1.0, 2.0], [3.0, 4.0]):
        x = tg.tensor(value, requires_grad=True)
        assert f(x)._array.tolist() == [4 * v for v in value]
        assert x.grad._array.tolist() == [2 * v for v in value]


def test_a_result_whose_history_was_freed_says_so():
    w = tg.tensor([1.0, 2.0], requires_grad=True)

    @tg.jit
    def step():
        loss = (w * w).sum()
        loss.backward()
        return loss

    loss = step()
    assert loss.requires_grad
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_a_result_keeps_its_history_beside_effects():
    w, seen = tg.tensor([1.0, 2.0], requires_grad=True), tg.zeros(2)

    @tg.jit
    def forward(x):
        seen.copy_(x)
        return (w * x).sum()

    forward(np.array([3.0, 4.0])).backward()
    assert w.grad._array.tolist() == [3.0, 4.0] and seen._array.tolist() == [3.0, 4.0]


def test_freezing_a_parameter_shows_in_the_next_call():
    w = tg.tensor([1.0, 2.0], requires_grad=True)
    f = tg.jit(lambda x: (w * x).sum())
    assert f(np.ones(2)).requires_grad
    w.requires_grad_(False)
    assert not getattr(f(np.ones(2)), "requires_grad", False)


def test_numbers_taken_out_of_a_tensor_are_guarded():
    u = tg.tensor([1.0, 2.0])

    class Scaled(tg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * u.numpy()[1]

        @staticmethod
        def backward(ctx, g):
            return g * u.numpy()[1]

    functions = [tg.jit(lambda x: x * u.numpy()[0]), tg.jit(lambda x: x * u.tolist()[0]), tg.jit(Scaled.apply)]
    assert [f(3.0) for f in functions] == [3.0, 3.0, 6.0]
    u.fill_(5.0)
    assert [f(3.0) for f in functions] == [15.0, 15.0, 15.0]

    class Only(Scaled):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    gradients = [tg.grad(Scaled.apply), tg.grad(Only.apply)]
    assert [f(3.0) for f in gradients] == [5.0, 5.0]
    u.fill_(7.0)
    assert [f(3.0) for f in gradients] == [7.0, 7.0]


def test_numbers_python_looks_at_are_guarded():
    t, limit = tg.tensor([1.0, 2.0]), tg.tensor(3.0)
    f = tg.jit(lambda x: x * float(limit) + np.asarray(t).sum())
    assert f(1.0) == 6.0
    limit.fill_(5.0)
    assert f(1.0) == 8.0
    t.fill_(0.0)
    assert f(1.0) == 5.0


def test_what_is_differentiated_is_apart_from_the_same_value_captured():
    x, t = np.array([1.0, 2.0]), tg.tensor([1.0, 2.0])

    def nested(x):
        return tg.grad(lambda y: np.sum(x * y))(x)

    for function in (nested, tg.jit(nested)):
        assert function(x).tolist() == [1.0, 2.0]
    assert tg.grad(lambda x: np.sum(nested(x)))(x).tolist() == [1.0, 1.0]
    assert tg.grad(lambda y: (t * y).sum())(t)._array.tolist() == [1.0, 2.0]


def test_detached_results_have_no_history():
    p = tg.tensor([1.0, 2.0], requires_grad=True)
    for run in (lambda f: f, tg.jit):
        detached, linked = run(lambda: ((p * 2).detach(), p * 3))()
        assert not detached.requires_grad and detached._array.tolist() == [2.0, 4.0]
        assert tg.autograd.grad(linked.sum(), [p])[0]._array.tolist() == [3.0, 3.0]
        assert not run(lambda: p.detach())().requires_grad


def test_a_function_without_arguments_returns_what_it_returns_eagerly():
    w, p, a = tg.tensor([1.0, 2.0]), tg.tensor([1.0, 2.0], requires_grad=True), np.array([3.0, 4.0])
    for run in (lambda f: f, tg.jit, eagerly):
        assert run(lambda: w.mul_(2))() is w and run(lambda: w)() is w and run(lambda: p)() is p
        doubled, total, plain = run(lambda: (w * 2, w.sum(), np.sum(a)))()
        assert isinstance(doubled, tg.Tensor) and isinstance(total, tg.Tensor) and isinstance(plain, np.float64)
    assert w.tolist() == [8.0, 16.0]
    for run in (tg.jit, eagerly):
        assert type(run(lambda x: w * x)(a)) is np.ndarray  # arrays went in


def eagerly(function):
    compiled = tg.jit(function)

    def run(*args):
        with tg.eager():
            return compiled(*args)

    return run
