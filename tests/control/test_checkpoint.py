"""`tg.checkpoint`: the gradients are those without it, the memory is what was asked for."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.tracing import trace, value_and_gradients
from tracegrad.control.checkpoint import levels_for
from tracegrad.ir.dims import evaluate, product, symbol
from tracegrad.ir.interpret import interpret
from tracegrad.ir.sizes import Sizes
from tracegrad.ir.types import Type
from tracegrad.ops.creation import dimension
from tracegrad.passes.pipeline import optimize
from tracegrad.schedule import schedule
from tracegrad.schedule.loops import Call, LoopProgram, region_of
from tracegrad.schedule.rewrite import walk
from tracegrad.state import setting, state
from tracegrad.trace.tracer import Trace

SIZE, STEPS = 100, 300
X = np.random.default_rng(0).standard_normal(SIZE)
D = np.random.default_rng(1).standard_normal(SIZE)


def scanned(x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        c = np.sin(c) * v + 0.9 * c * np.sin(x)
        return c, c[0] * v

    c, ys = tg.scan(step, x * 0.5, np.linspace(0.1, 0.3, STEPS), reverse=True)
    return np.sum(c * c) + np.sum(ys * np.arange(float(STEPS)))


def counted(x: Any) -> Any:
    def step(i: Any, c: Any) -> Any:
        total, c = c
        return total + c[0] * i, np.cos(c) * 0.9 + 0.001 * i * x

    total, c = tg.fori_loop(3, 3 + STEPS, step, (0.0, x))
    return total + np.sum(c * c)


def gradient_by_backward(function: Callable[..., Any]) -> np.ndarray:
    x = tg.tensor(X, requires_grad=True)
    function(x).backward()
    return x.grad.numpy()


@pytest.mark.parametrize("function", [scanned, counted], ids=lambda f: f.__name__)
def test_loops(function: Callable[..., Any]):
    value, gradient = tg.value_and_grad(function)(X)
    limited = tg.checkpoint(function, steps=36)
    found = tg.value_and_grad(limited)(X)
    assert found[0] == value
    np.testing.assert_allclose(found[1], gradient, rtol=1e-13, atol=1e-13 * np.abs(gradient).max())
    np.testing.assert_allclose(gradient_by_backward(limited), gradient, rtol=1e-10, atol=1e-12)
    step = 1e-6
    plain = tg.jit(limited)
    difference = (plain(X + step * D) - plain(X - step * D)) / (2 * step)
    np.testing.assert_allclose(found[1] @ D, difference, rtol=1e-5)


def test_second_order():
    first = tg.grad(tg.checkpoint(counted, steps=36))
    second = tg.grad(lambda x: np.sum(first(x) * D))(X)
    step = 1e-6
    difference = (first(X + step * D) - first(X - step * D)) / (2 * step)
    np.testing.assert_allclose(second, difference, rtol=1e-4, atol=1e-6 * np.abs(difference).max())


def temporaries(program: LoopProgram) -> int:
    """The elements of all temporaries, those of the bodies of loops too."""
    total = sum(product(b.shape) for b in program.buffers if b.role == "temp" and not b.alias)
    for s in walk(program.body):
        region = region_of(s) if isinstance(s, Call) else None
        total += sum(map(temporaries, region.bodies)) if region is not None else 0
    return total


@pytest.mark.parametrize(("steps", "kept"), [(None, STEPS), (36, 36), (21, 21)])
def test_planned_memory(steps: int | None, kept: int):
    function = scanned if steps is None else tg.checkpoint(scanned, steps=steps)
    program = schedule(optimize(value_and_gradients(trace(function, (X,))[0], [0])))
    if steps is None:  # without a limit dear results are kept too
        assert temporaries(program) / SIZE > kept
    else:
        rest = 70  # temporaries of one step, and what each of the nested loops starts from
        assert kept < temporaries(program) / SIZE < kept + rest


def to_a_number(x: Any, n: Any) -> Any:
    def step(i: Any, c: Any) -> Any:
        return c[0] + c[1][0] * i, np.cos(c[1]) * 0.9 + 0.001 * i * x

    total, c = tg.fori_loop(3, n, step, (0, x))
    return total + np.sum(c * c)


def to_a_condition(x: Any, n: Any) -> Any:
    def step(c: Any) -> Any:
        i = c["steps"] + 1
        return {"steps": i, "sum": c["sum"] + c["x"][0] * i, "x": np.cos(c["x"]) * 0.9 + 0.001 * i * x}

    c = tg.while_loop(lambda c: c["steps"] < n, step, {"steps": 3, "sum": 0, "x": x})
    return c["sum"] + np.sum(c["x"] * c["x"])


@pytest.mark.parametrize("function", [to_a_number, to_a_condition], ids=lambda f: f.__name__)
def test_numbers_of_steps_known_at_run_time(function: Callable[..., Any]):
    x, limited = X[:4], tg.value_and_grad(tg.checkpoint(function, steps=6))
    for n in map(np.int64, (-1, 3, 4, 9, 10, 60)):
        value, gradient = limited(x, n)
        with tg.eager():
            expected = tg.value_and_grad(function)(x, n)
        np.testing.assert_allclose(value, expected[0], rtol=1e-14)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-12, atol=1e-14)


def test_a_symbolic_number_of_steps():
    def function(x: Any, v: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            return np.sin(c) * v + x, c[0]

        c, ys = tg.scan(step, x, v, reverse=True)
        return c[0] * ys[2]

    sizes, recording = Sizes({"n": 300}, dimension), Trace("f")
    with sizes.known(), setting(trace=recording), tg.checkpoint(steps=50):
        types = Type(np.dtype(float), (2,)), Type(np.dtype(float), (symbol("n"),))
        out = recording.lift(function(*(recording.add_input(t, "x") for t in types)))
        graph = value_and_gradients(recording.finish((out,))[0], [0])
    assert sizes.least == {"n": 102}  # two stretches, and two steps that are left over
    for n in (102, 151):
        args = X[:2], X[0] + np.arange(n) / n
        with tg.eager():
            expected = tg.value_and_grad(function)(*args)
        found = interpret(graph, [*args, np.ones(())])
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-13)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-12, atol=1e-14)
    buffers = [evaluate(product(b.shape), {"n": 50_000}) for b in schedule(optimize(graph)).buffers]
    assert max(buffers) == 50_000  # that of v and of y, and not twice as much, that of the carries


def test_levels():
    assert [levels_for(n, 32) for n in (10, 32, 33, 256, 257, 1000, 10**4)] == [1, 1, 2, 2, 3, 3, 6]
    assert levels_for(10**6, 2) == 13  # 13 levels of 3 keep 39, and 20 of 2 keep 40


def test_the_setting_belongs_to_the_program():
    function = tg.grad(scanned)
    expected = function(X)
    with tg.checkpoint(steps=36):
        found = function(X)
    assert state.steps is None
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13 * np.abs(expected).max())
    assert len({id(e) for entries in function.entries.values() for e in entries}) == 2
    np.testing.assert_array_equal(function(X), expected)


def test_functions():
    weights = np.linspace(0.5, 1.5, SIZE)

    @tg.checkpoint
    def layer(a: Any, b: dict[str, Any], power: int = 2) -> Any:
        inner = np.tanh(np.sin(a) * b["w"] * weights)
        return inner.sum() * a, inner**power

    def function(x: Any, w: Any) -> Any:
        first, second = layer(x, {"w": w}, power=3)
        return np.sum(first * first) + np.sum(second * w)

    def plain(x: Any, w: Any) -> Any:
        inner = np.tanh(np.sin(x) * w * weights)
        return np.sum((inner.sum() * x) ** 2) + np.sum(inner**3 * w)

    expected = tg.grad(plain, argnums=(0, 1))(X, D)
    for found, wanted in zip(tg.grad(function, argnums=(0, 1))(X, D), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)
    tensors = [tg.tensor(v, requires_grad=True) for v in (X, D)]
    first = tg.autograd.grad(function(*tensors), tensors, create_graph=True)
    for found, wanted in zip(first, expected, strict=True):
        np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-11, atol=1e-12)
    (second,) = tg.autograd.grad((first[0] * D).sum(), tensors[:1])
    hessian_product = tg.grad(lambda x: np.sum(tg.grad(plain)(x, D) * D))(X)
    np.testing.assert_allclose(second.numpy(), hessian_product, rtol=1e-9, atol=1e-9)


def test_what_a_function_saves_is_dropped():
    """Eagerly: of the inside of a checkpointed function nothing is alive until the backward pass."""
    alive: list[Any] = []

    def chain(x: Any) -> Any:
        for _ in range(3):
            x = np.sin(x)
            alive.append(weakref.ref(x))
        return x.sum()

    x = tg.tensor(X, requires_grad=True)
    result = tg.checkpoint(chain)(x)
    gc.collect()
    assert [r() for r in alive] == [None] * 3
    result.backward()
    inner = np.sin(X)
    expected = np.cos(X) * np.cos(inner) * np.cos(np.sin(inner))
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-14)


def test_bad_input():
    with pytest.raises(tg.errors.ArgumentError, match="steps=1"):
        tg.checkpoint(steps=1)
    with pytest.raises(tg.errors.ArgumentError, match="a function, or steps="):
        tg.checkpoint()
    with pytest.raises(tg.errors.ArgumentError, match="int, not a function"):
        tg.checkpoint(3)
    calls = iter(range(2))

    @tg.checkpoint
    def changing(x: Any) -> Any:
        return (np.sin(x) if next(calls) else np.sin(np.sin(x))).sum()

    x = tg.tensor(X, requires_grad=True)
    with pytest.raises(tg.errors.UnsupportedError, match="2 Tensors when it ran first and 1 when"):
        changing(x).backward()
