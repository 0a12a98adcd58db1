"""What compiled loops do beyond giving the right numbers: NaN that must not appear, memory, interruption, symbols."""

from __future__ import annotations

import _thread
import signal
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.tracing import trace, value_and_gradients
from tracegrad.errors import ArgumentError
from tracegrad.ir.dims import symbol
from tracegrad.ir.graph import Graph, Var
from tracegrad.ir.interpret import interpret
from tracegrad.ir.types import Type
from tracegrad.passes.pipeline import optimize
from tracegrad.schedule import schedule
from tracegrad.schedule.loops import Call, region_of


def roots(c: Any, xs: Any) -> Any:
    """Square roots whose derivative at 0 is infinite, and is not asked for there."""
    return tg.scan(lambda c, x: (np.where(x > 0, np.sqrt(x * c), c), None), c, xs)[0]


def test_a_nan_makes_the_loop_run_with_real_zero_products():
    graph, _ = trace(roots, (np.array(4.0), np.array([1.0, 0.0, 9.0])))
    program = schedule(optimize(value_and_gradients(graph, [0, 1])))
    regions = [r for s in program.body if isinstance(s, Call) and (r := region_of(s)) is not None]
    assert any(r.plain is not None for r in regions)
    gradient = tg.grad(roots, argnums=(0, 1))
    for xs in ([1.0, 2.0, 9.0], [1.0, 0.0, 9.0], [0.0, 0.0, 0.0]):
        c, slope, slopes = 4.0, 1.0, np.zeros(3)
        for t, x in enumerate(xs):
            if x > 0:
                root = np.sqrt(x * c)
                slope, slopes = slope * x / (2 * root), slopes * x / (2 * root)
                slopes[t] = c / (2 * root)
                c = root
        found = gradient(4.0, np.array(xs))
        np.testing.assert_allclose(found[0], slope, rtol=1e-14)
        np.testing.assert_allclose(found[1], slopes, rtol=1e-14)


def test_real_zero_products_where_a_nan_could_get_lost():
    """A gradient, computed in the loop, is carried to the next step and compared there."""

    def descent(x: Any) -> Any:
        slope = tg.grad(lambda x: np.where(x > 1, np.sqrt(x - 1), x * 2.0))

        def step(c: Any, _: Any) -> Any:
            x, g = c
            return (np.where(g > 1.5, x - 0.25, x + 0.125), slope(x)), None

        return tg.scan(step, (x, 0.0 * x), None, length=9)[0][0]

    assert tg.jit(descent)(0.75) == descent(0.75)
    assert tg.jit(descent)(1.0) == descent(1.0)


def test_a_nan_that_belongs_there_stays():
    assert np.isnan(tg.grad(lambda x: tg.scan(lambda c, v: (c * v, None), x, np.array([1.0, np.nan]))[0])(2.0))


def large(w: Any, h: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = np.tanh(w @ h) * x + h
        return h, np.sum(h * h)

    last, ys = tg.scan(step, h, np.linspace(0.1, 1, 6))
    return last.sum() + np.sum(ys)


def test_large_carries_alternate_between_buffers():
    rng = np.random.default_rng(0)
    w, h = rng.standard_normal((150, 150)) * 0.05, rng.standard_normal((150, 40))
    value, gradients = tg.value_and_grad(large, argnums=(0, 1))(w, h)
    with tg.eager():
        expected, by_tape = tg.value_and_grad(large, argnums=(0, 1))(w, h)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for found, wanted in zip(gradients, by_tape, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


def test_many_steps_take_no_memory():
    function = tg.jit(lambda x: tg.fori_loop(0, 300_000, lambda i, c: np.cos(c + i * 1e-9), x))
    function(0.5)
    tracemalloc.start()
    function(0.25)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000


def test_symbolic_lengths():
    n = symbol("n")
    with_rows = {}
    for rows in (3, 5):
        graph, _ = trace(
            lambda x: tg.scan(lambda c, v: (np.sin(c * v), c), np.ones(2), x)[0].sum(), (np.ones((rows, 2)),)
        )
        with_rows[rows] = value_and_gradients(graph, [0])
    graph = _generalised(with_rows[3], 3, n)
    from tracegrad.emit import compile_program

    program = compile_program(schedule(optimize(graph)))
    for rows in (3, 5, 2):
        x = np.random.default_rng(rows).standard_normal((rows, 2))
        reference = with_rows.get(rows)
        expected = interpret(graph, [x, np.array(1.0)])
        for found, wanted in zip(program(x, np.array(1.0)), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)
        if reference is not None:
            for found, wanted in zip(expected, interpret(reference, [x, np.array(1.0)]), strict=True):
                np.testing.assert_array_equal(found, wanted)


def _generalised(graph: Graph, size: int, n: Any) -> Graph:
    """The graph with a symbol for every dimension `size`, and for the attributes that hold it."""

    def dims(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(dims, value))
        return n if type(value) is int and value == size else value

    env: dict[Var, Var] = {}

    def var(v: Var) -> Var:
        if v not in env:
            env[v] = Var(Type(v.type.dtype, dims(v.type.shape), v.type.weak), v.name)
        return env[v]

    def nodes(g: Graph) -> tuple[Any, ...]:
        made = []
        for node in g.nodes:
            kept = {k: v if k in ("n_carry", "n_xs", "unroll") else dims(v) for k, v in node.attrs.items()}
            bodies = tuple(Graph(tuple(map(var, b.inputs)), nodes(b), tuple(map(var, b.outputs)), b.name)
                           for b in node.bodies)  # fmt: skip
            made.append(type(node)(node.op, tuple(map(var, node.inputs)), tuple(map(var, node.outputs)), kept, bodies))
        return tuple(made)

    return Graph(tuple(map(var, graph.inputs)), nodes(graph), tuple(map(var, graph.outputs)), graph.name)


@pytest.mark.parametrize("counted", [False, True])
def test_a_long_loop_can_be_interrupted(counted: bool):
    if counted:
        function = tg.jit(lambda n: tg.fori_loop(0, n, lambda i, c: np.maximum(c, i * (1 + 0 * np.sin(c))), 0.0) + 1)
    else:
        function = tg.jit(lambda n: tg.while_loop(lambda c: c < n, lambda c: c + 1, 0))
    assert function(np.int64(5)) == 5  # compiled
    former = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            function(np.int64(10**10))
    finally:
        timer.join()
        signal.signal(signal.SIGINT, former)
    assert function(np.int64(7)) == 7  # usable afterwards


def test_unroll():
    """The hint writes steps out, in the loop and in its adjoint, with a loop for those that are left over."""
    xs = np.random.default_rng(0).standard_normal(103)
    compiled = {}
    for unroll in (1, 4):

        def function(x: Any, unroll: int = unroll) -> Any:
            last, ys = tg.scan(lambda c, t: (c / (1 + c * c) + t * 0.3, c * t), x, xs, unroll=unroll)
            return last + ys.sum()

        compiled[unroll] = tg.value_and_grad(function)
    np.testing.assert_allclose(compiled[4](0.3), compiled[1](0.3), rtol=1e-13)
    once, often = (compiled[u].show("asm").count("div") for u in (1, 4))
    assert often >= 4 * once
    text = str(tg.explain(compiled[4]))
    assert "scan: 103 steps, 4 at once; carries 8 B in registers" in text and "last first, 4 at once" in text
    for unroll in (0, "all"):
        with pytest.raises(ArgumentError, match="steps at once"):
            tg.scan(lambda c, t: (c, t), 0.0, xs, unroll=unroll)
