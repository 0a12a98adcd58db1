"""Plain Python loops: what rolling makes of them computes the same bits, has the same derivatives, and is a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.random_loops import random_loop
from tests.tracing import trace, trace_and_columns
from tracegrad.ir.dims import symbol
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.interpret import interpret
from tracegrad.ir.types import Type
from tracegrad.ir.verify import verify
from tracegrad.ops.loops import Scan
from tracegrad.passes.adjoint import adjoint
from tracegrad.passes.roll import roll
from tracegrad.passes.roll_listing import listing
from tracegrad.trace.columns import Columns

RNG = np.random.default_rng(0)
TRIPS = symbol("trips0")  # how often a loop runs whose length is given to it


def uniform(*shape: int) -> np.ndarray:
    return RNG.uniform(0.1, 0.9, shape)


# ---- loops that are rolled: (function, arguments, (iterations of each scan that must be there)) ----------------------


def products(x: Any) -> Any:
    s = 0.0
    for i in range(1, 40):
        s += x[i] * x[i - 1]
    return s


def backwards(x: Any) -> Any:
    s = x[0]
    for i in range(47, 0, -2):
        s = s * 0.5 + x[i] * 2
    return s


def fibonacci(x: Any) -> Any:
    a, b = x[0], x[1]
    for _ in range(40):
        a, b = b, a * 0.5 + b * 0.25
    return a + 2 * b


def appended(x: Any) -> Any:
    ys = [x[0]]
    for i in range(1, 40):
        ys.append(np.sin(ys[-1]) * x[i] + i * 0.5)
    return np.stack(ys), np.stack(ys[:3:-2]), ys[7]


def appended_rows(x: Any) -> Any:
    ys = []
    for _ in range(30):
        x = x * 0.9 + np.roll(x, 1)
        ys.append(x)
    return np.concatenate(ys), np.stack(ys, axis=1), np.concatenate([y[None, :, None] for y in ys], axis=2)


def interleaved(x: Any) -> Any:
    ys = [np.sin(x[i] * (1 + i * i % 7)) + (np.cos(x[i]) if i % 3 else x[i]) for i in range(40)]
    return np.stack(ys), np.stack([x[7 * i % 40] for i in range(40)])


def three_back(x: Any) -> Any:
    h = [x[0], x[1], x[2]]
    for i in range(30):
        h.append(h[-1] * 0.5 + h[-3] * 0.3 * x[i])
    return h[-1] + h[-2] * 2


def odd_ends(x: Any) -> Any:
    for i in range(30):
        s = x[0] * 3 if i == 0 else s + np.sin(s) * x[i]  # noqa: F821
        if i == 29:
            s = s * 7
    return s


def runge_kutta(p: Any) -> Any:
    x, y, h = 1.0, 0.5, 0.01

    def f(x: Any, y: Any) -> Any:
        return p[0] * x - p[1] * x * y, p[2] * x * y - p[3] * y

    for _ in range(20):
        k = f(x, y)
        m = f(x + h / 2 * k[0], y + h / 2 * k[1])
        n = f(x + h / 2 * m[0], y + h / 2 * m[1])
        o = f(x + h * n[0], y + h * n[1])
        x, y = (v + h / 6 * (k[i] + 2 * m[i] + 2 * n[i] + o[i]) for i, v in enumerate((x, y)))
    return x + y


def last_loss(x: Any) -> Any:
    s = x[0]
    for i in range(30):
        s = s * 0.9 + x[i]
        loss = np.exp(s) * 2
    return loss + s


def two_states(x: Any, p: Any, q: Any) -> Any:
    def step(y: Any, c: Any) -> Any:
        return np.sin(y * c)

    a, b = x[0], x[1]
    for _ in range(30):
        a = step(a, p)
        b = step(b, q)
    return a + b


def numbers(x: Any) -> Any:
    for i in range(1, 30):
        x = x * i + x / (i * i) - np.sin(x * (-1) ** i) * [0.3, -0.0, 7.5][i % 3]
    return x


def float32(x: Any) -> Any:
    s = 0.0
    for i in range(30):
        s = s + x[i] * 0.1
    return s


def layers(weights: Any, x: Any) -> Any:
    for w in weights:
        x = np.tanh(w @ x)
    return x


def diagonals(x: Any) -> Any:
    s = 0.0
    for i in range(30):
        s = s + np.sin(x[i, i]) * x[29 - i, i] + np.sum(x[i : i + 2, 3:1:-1])
    return s


def recurrence(x: Any) -> Any:
    a = tg.zeros(30)
    a[0] = x[0]
    for i in range(1, 30):
        a[i] = a[i - 1] * 0.5 + x[i]
    return a


def windows_written(x: Any) -> Any:
    y = x * 1.0
    for i in range(2, 30):
        y[i : i + 2] = y[i - 2 : i] * 0.5 + y[i - 1] * x[i]
    return y


def rows_of_list(x: Any) -> Any:
    ys = [np.sin(x[i]) * x[i + 1] for i in range(30)]
    total = 0.0
    for y in ys:
        total = total * 0.9 + y * y * 2.0
    return total


def nested(x: Any) -> Any:
    s = 0.0
    for i in range(8):
        for j in range(12):
            s = s + np.sin(x[i, j]) * x[7 - i, j] * i
        s = s * 0.5
    return s


def table(x: Any, y: Any) -> Any:
    """Dynamic time warping: every element of a table from its three neighbours."""
    n = len(x)
    cost = tg.zeros((n + 1, n + 1)) + 10.0
    cost[0, 0] = 0.0
    for i in range(n):
        for j in range(n):
            least = np.minimum(np.minimum(cost[i, j + 1], cost[i + 1, j]), cost[i, j])
            cost[i + 1, j + 1] = abs(x[i] - y[j]) * (i + 1) + least
    return cost[n, n]


def triangle(a: Any) -> Any:
    """A triangular system; the innermost loop of the first row has no iteration."""
    x = tg.zeros(20)
    for i in range(20):
        s = a[i, 0]
        for j in range(i):
            s = s - a[i, j] * x[j] * (j % 3)
        x[i] = s / a[i, i]
    return x


def cholesky(a: Any) -> Any:
    """Three loops, of which the inner ones are as long as the outer ones have come."""
    low = tg.zeros((19, 19))
    for i in range(19):
        for j in range(i + 1):
            s = a[i, j] + 19 * (i == j)
            for k in range(j):
                s = s - low[i, k] * low[j, k]
            low[i, j] = np.sqrt(s) if i == j else s / low[j, j]
    return low


def tree(v: Any) -> Any:
    """A binomial tree with early exercise, in place."""
    v = v * 1.0
    for step in range(20, 0, -1):
        kept = v[0] * 0.1 * step
        for i in range(step):
            v[i] = np.maximum(0.6 * v[i] + 0.3 * v[i + 1], kept)
    return v[0]


def last_view(x: Any) -> Any:
    """A part of an array that no iteration changes, read after the loop."""
    a = x[:, None] * x
    for i in range(24):
        s = np.sin(x[i])
        v = a[0]
    return s + np.sum(v)


def last_views_of_two(x: Any) -> Any:
    b = x * 1.0
    for i in range(24):
        for _ in range(24):
            s = x[-i - 1]
            b[-1] += 0.1 * x[1]
    return s + np.sum(b * b)


def growing_appends(x: Any) -> Any:
    kept = [x[0]]
    for i in range(16):
        for _ in range(i + 1):
            kept.append(x[i - 1] * 0.5 + np.sin(x[-1]))
    return np.sum(np.stack(kept))


def appends_now_and_then(x: Any) -> Any:
    b, kept = tg.zeros(24), []
    for i in range(1, 24):
        for j in range(23):
            if i % 2 == 0:
                kept.append(np.sin(x[j + 1]))
            b[(j + i) % 24] = x[0] * j
    return np.sum(np.stack(kept) ** 2) + b[3]


def appends_of_two_kinds(x: Any) -> Any:
    kept = []
    for i in range(20):
        for j in range(20):
            kept.append(x[i] * 2 if j < i else np.sin(x[j]))
    return np.sum(np.stack(kept) ** 2)


def scattered(x: Any) -> Any:
    s = 0.0
    for i in (3, 1, 4, 15, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4, 3):
        s = s + np.sin(x[i]) * s
    return s


def until(x: Any) -> Any:
    n = 0
    while x > 1e-3:
        x = x * 0.8 + 0.0001
        n += 1
    return x * n


class SquareSine(tg.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: float) -> Any:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return np.sin(x * x) * factor

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, None]:
        (x,) = ctx.saved_tensors
        return g * 2 * x * np.cos(x * x) * ctx.factor, None


def sine(x: Any) -> Any:
    return SquareSine.apply(x, 0.5) if isinstance(x, tg.Tensor) else np.sin(x * x) * 0.5


def user_functions(x: Any) -> Any:
    s = x[0]
    for i in range(1, 30):
        s = sine(s) + x[i]
    return s


ROLLED: list[tuple[Callable[..., Any], list[Any], set[int]]] = [
    (products, [uniform(40)], {39}),
    (backwards, [uniform(50)], {24}),
    (fibonacci, [uniform(2)], {40}),
    (appended, [uniform(50)], {39}),
    (appended_rows, [uniform(4)], {30}),
    (interleaved, [uniform(40)], {13}),
    (three_back, [uniform(40)], {30}),
    (runge_kutta, [uniform(4)], {20}),
    (odd_ends, [uniform(40)], {29}),
    (last_loss, [uniform(40)], {30}),
    (two_states, [uniform(2), np.float64(0.3), np.float64(0.7)], {30}),
    (numbers, [np.float64(0.1)], {29}),
    (float32, [uniform(40).astype(np.float32)], {30}),
    (layers, [uniform(40, 3, 3), uniform(3)], {40}),
    (diagonals, [uniform(31, 31)], {30}),
    (recurrence, [uniform(30)], {29}),
    (windows_written, [uniform(40)], {28}),
    (rows_of_list, [uniform(31)], {30}),
    (nested, [uniform(8, 12)], {8, 12}),
    (table, [uniform(8), uniform(8)], {8}),
    (scattered, [uniform(16)], {24}),
    (until, [np.float64(300.0)], set()),
    (user_functions, [uniform(30)], {29}),
]


def derivatives(graph: Graph, times: int) -> Graph:
    """The graph of the derivatives of all results along fixed cotangents, `times` times over; the cotangents are the
    last inputs."""
    for _ in range(times):
        seeds = [k for k, v in enumerate(graph.outputs) if v.type.inexact]
        graph = adjoint(graph, [0], seeds)[0]
        graph = graph.with_nodes(graph.nodes, graph.outputs[-1:])
    return graph


def close(found: Any, expected: Any, single: bool) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-4 if single else 1e-9, atol=1e-5 if single else 1e-12)


def check_listing(graph: Graph, columns: Columns) -> None:
    """What a recording notes of its nodes is what one sees who looks at them."""
    noted, seen = listing(graph, columns), listing(graph)
    assert noted.attrs[noted.attrs == 0].size > 0  # seen by looking, no attributes have a number too
    assert list(noted.nodes) == list(seen.nodes)
    assert (noted.constants, noted.fixed) == (seen.constants, seen.fixed)
    for name in ("first", "reads", "begin", "last"):
        np.testing.assert_array_equal(getattr(noted, name), getattr(seen, name), name)
    pairs = set(zip(noted.keys.tolist(), seen.keys.tolist(), strict=True))
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
    by_number: dict[int, Node] = {}
    for node, number in zip(noted.nodes, noted.attrs.tolist(), strict=True):
        assert by_number.setdefault(number, node).attrs == node.attrs
    for node in (*graph.nodes, *seen.constants):
        assert noted.definition(node.outputs[0]) is node
    assert noted.definition(Var(Type(np.dtype(float)))) is None


def check(function: Callable[..., Any], args: Sequence[Any]) -> list[int]:
    """Rolled = written out = NumPy, to the bit; first and second derivatives agree. The lengths of the scans."""
    graph, inputs, columns = trace_and_columns(function, args)
    check_listing(graph, columns)
    rolled = roll(graph, columns).graph
    verify(rolled)
    expected = function(*args)
    for found, same, value in zip(
        interpret(rolled, inputs), interpret(graph, inputs),
        expected if isinstance(expected, tuple) else (expected,), strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(np.asarray(found), np.asarray(same))
        np.testing.assert_array_equal(np.asarray(found), np.asarray(value))
        assert np.asarray(found).dtype == np.asarray(same).dtype
    for times in (1, 2):
        written_out, loops = derivatives(graph, times), derivatives(rolled, times)
        verify(loops)
        types = [v.type for v in loops.inputs[len(inputs) :]]
        seeds = [np.cos(np.arange(np.prod(t.shape, dtype=int)) + 1.0).reshape(t.shape).astype(t.dtype) for t in types]
        for a, b in zip(interpret(loops, [*inputs, *seeds]), interpret(written_out, [*inputs, *seeds]), strict=True):
            close(a, b, types[0].dtype == np.float32)
    return [n.attrs["length"] for n in rolled.all_nodes() if n.op is Scan]


@pytest.mark.parametrize(
    "function", [last_view, last_views_of_two, growing_appends, appends_now_and_then, appends_of_two_kinds]
)
def test_what_is_read_after_loops_in_loops(function):
    """Whatever is rolled of them."""
    x, way, h = uniform(24), np.cos(np.arange(24.0)), 1e-6
    graph, inputs, columns = trace_and_columns(function, [x])
    rolled = roll(graph, columns).graph
    verify(rolled)
    np.testing.assert_allclose(interpret(rolled, inputs)[0], np.asarray(function(x)), rtol=1e-13)
    gradient = interpret(derivatives(rolled, 1), [*inputs, np.ones(())])[0]
    difference = (float(function(x + h * way)) - float(function(x - h * way))) / (2 * h)
    np.testing.assert_allclose(gradient @ way, difference, rtol=1e-6)


@pytest.mark.parametrize(("function", "args", "lengths"), ROLLED, ids=[f.__name__ for f, _, _ in ROLLED])
def test_rolled_loops_compute_the_same(function, args, lengths):
    assert lengths <= set(check(function, args))


# ---- inner loops of different lengths ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "x", "lengths", "twice"),
    [
        (triangle, uniform(20, 20) + 3 * np.eye(20), {20, TRIPS}, False),
        pytest.param(triangle, uniform(20, 20) + 3 * np.eye(20), {20, TRIPS}, True, marks=pytest.mark.slow),
        pytest.param(cholesky, uniform(19, 19), {18, TRIPS, symbol("trips1")}, False, marks=pytest.mark.slow),
        pytest.param(tree, uniform(21), {20, TRIPS}, True, marks=pytest.mark.slow),
    ],
)
def test_loops_around_loops_of_different_lengths(function, x, lengths, twice):
    graph, inputs, columns = trace_and_columns(function, [x])
    rolled = roll(graph, columns).graph
    verify(rolled)
    assert lengths == {n.attrs["length"] for n in rolled.all_nodes() if n.op is Scan}
    np.testing.assert_array_equal(interpret(rolled, inputs)[0], np.asarray(function(x)))
    way, step = RNG.uniform(-1, 1, x.shape), 1e-5
    there, back = x + step * way, x - step * way
    first = derivatives(rolled, 1)
    seed = np.cos(np.arange(rolled.outputs[0].type.size)).reshape(rolled.outputs[0].type.shape)
    difference = np.sum(seed * (np.asarray(function(there)) - np.asarray(function(back)))) / (2 * step)
    np.testing.assert_allclose(np.sum(way * interpret(first, [x, seed])[0]), difference, rtol=1e-7)
    if not twice:
        return
    of_gradient = (interpret(first, [there, seed])[0] - interpret(first, [back, seed])[0]) / (2 * step)
    second = interpret(derivatives(rolled, 2), [x, seed, way])[0]
    np.testing.assert_allclose(second, of_gradient, rtol=1e-5, atol=1e-6)


# ---- loops in bodies of loops, branches and Functions ----------------------------------------------------------------


def row(s: Any, x: Any) -> Any:
    for i in range(16):
        s = s * 0.5 + np.sin(x[i]) * s
    return s


class Row(tg.Function):
    @staticmethod
    def forward(ctx: Any, s: Any, x: Any) -> Any:
        y = row(s, x)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        x, y = ctx.saved_tensors
        parts, factor = [], 1.0
        for i in range(16):
            factor = factor * (0.5 + np.sin(x[i]))
            parts.append(g * y * np.cos(x[i]) / (0.5 + np.sin(x[i])))
        return g * factor, np.stack(parts)


def plain(x: Any) -> Any:
    s = x[0, 0]
    for k in range(2):
        s = row(s, x[k])
    return s


def in_scan(x: Any) -> Any:
    return tg.scan(lambda s, r: (row(s, r), None), x[0, 0], x)[0]


def in_while(x: Any) -> Any:
    return tg.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, row(c[1], x[c[0]])), (0, x[0, 0]))[1]


def in_cond(x: Any) -> Any:
    s = row(x[0, 0], x[0])
    return tg.cond(s < 100, lambda s: row(s, x[1]), lambda s: s * 2, s)


def in_function(x: Any) -> Any:
    s = x[0, 0]
    for k in range(2):
        s = Row.apply(s, x[k])
    return s


@pytest.mark.parametrize("function", [in_scan, in_while, in_cond, in_function])
def test_loops_in_bodies_are_rolled(function):
    x = uniform(2, 16)
    (written_out, inputs), (graph, _) = trace(plain, [x]), trace(function, [x])
    graph = roll(graph).graph
    for times in (0, 1, 2):
        expected, loops = derivatives(written_out, times), derivatives(graph, times)
        assert len(list(loops.all_nodes())) < 100 * 3**times
        seeds = [
            np.cos(np.arange(np.prod(v.type.shape, dtype=int)) + 1.0).reshape(v.type.shape) for v in loops.inputs[1:]
        ]
        (found,), (wanted,) = (interpret(g, [*inputs, *seeds])[-1:] for g in (loops, expected))
        close(found, wanted, False)


# ---- loops that are not ---------------------------------------------------------------------------------------------


def shrinking(x: Any) -> Any:
    for _ in range(30):
        x = np.sin(x[:-1]) * x[1:]
    return x


def varied(x: Any) -> Any:
    s = 0.0
    for i in range(60):
        s = s + x[i] * x[i] if x[i] > 0.5 else s - np.sin(x[i])
    return s


def few(x: Any) -> Any:
    for _ in range(4):
        x = np.sin(x) * 0.5 + x * x
    return x


@pytest.mark.parametrize(
    ("function", "args", "reason"),
    [
        (shrinking, [uniform(40)], "size of slice differ"),
        (varied, [uniform(60)], "Python decides on values"),
        (few, [uniform(3)], ""),
    ],
)
def test_loops_that_stay_written_out_say_why(function, args, reason):
    graph, _ = trace(function, args)
    result = roll(graph)
    assert result.graph is graph
    assert any(reason in note for note in result.notes) or not reason


# ---- random loops --------------------------------------------------------------------------------------------------


def check_random(seed: int, uneven: bool = False) -> None:
    function, args, source = random_loop(seed, uneven)
    graph, inputs, columns = trace_and_columns(function, args)
    check_listing(graph, columns)
    rolled = roll(graph, columns).graph
    verify(rolled)
    (found,), (same,) = interpret(rolled, inputs), interpret(graph, inputs)
    np.testing.assert_array_equal(found, same, err_msg=source)
    loops, written_out = derivatives(rolled, 1), derivatives(graph, 1)
    (found,), (same,) = interpret(loops, [*inputs, np.float64(1)]), interpret(written_out, [*inputs, np.float64(1)])
    np.testing.assert_allclose(found, same, rtol=1e-9, atol=1e-12, err_msg=source)


def test_random_loops():
    for seed in range(8):
        check_random(seed)


def test_random_loops_around_loops_of_different_lengths():
    for seed in (2, 7):
        check_random(seed, uneven=True)


@pytest.mark.slow
def test_many_random_loops():
    for seed in range(8, 400):
        check_random(seed)
    for seed in range(200):
        check_random(seed, uneven=True)


# ---- compiled -------------------------------------------------------------------------------------------------------


def slope(p: Any, y: Any) -> Any:
    return np.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]])


def runge_kutta(p: Any, y: Any, h: float) -> Any:
    a = slope(p, y)
    b = slope(p, y + h / 2 * a)
    c = slope(p, y + h / 2 * b)
    d = slope(p, y + h * c)
    return y + h / 6 * (a + 2 * b + 2 * c + d)


def test_a_compiled_loop_equals_the_scan_and_the_eager_one():
    p, y0, steps = np.array([1.1, 0.4, 0.1, 0.4]), np.array([10.0, 10.0]), 10

    def plain(p: Any, y: Any) -> Any:
        for _ in range(steps):
            y = runge_kutta(p, y, 0.1)
        return y[1]

    def scanned(p: Any, y: Any) -> Any:
        return tg.scan(lambda y, _: (runge_kutta(p, y, 0.1), None), y, None, length=steps)[0][1]

    loop, scan = (tg.value_and_grad(f, argnums=(0, 1)) for f in (plain, scanned))
    value, gradients = loop(p, y0)
    with tg.eager():
        expected, by_tape = tg.value_and_grad(plain, argnums=(0, 1))(p, y0)
    for found, other, wanted in zip(
        (value, *gradients), (scan(p, y0)[0], *scan(p, y0)[1]), (expected, *by_tape), strict=True
    ):  # fmt: skip
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
        np.testing.assert_allclose(found, other, rtol=1e-12)
    assert f"rolled: {__file__}" in str(tg.explain(loop))
    assert f"{steps} iterations of 137 operations" in str(tg.explain(loop))
    assert "scan(" in loop.show("trace")


def test_guards_of_a_loop_are_checked_in_every_call():
    halved = tg.jit(until)
    for x in (300.0, 290.0, 5.0, 300.0):
        assert halved(np.float64(x)) == pytest.approx(until(x), rel=1e-14)
    assert halved.last.recording.guards[0].size > 30  # one comparison of arrays for the whole loop
