"""Writes into arrays that a loop carries: right in value and derivatives, and each costs what it writes.

What a step costs is read off the scheduled program of the value and the gradient: no loop, fill or tape in a step is as
long as the array, and the array is updated in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.tracing import trace, value_and_gradients
from tracegrad.ir.dims import product
from tracegrad.passes.pipeline import optimize
from tracegrad.passes.simplify import write_through_views
from tracegrad.schedule import schedule
from tracegrad.schedule.loops import Call, Fill, Loop, LoopProgram, in_place, region_of
from tracegrad.schedule.rewrite import walk
from tracegrad.schedule.verify import verify

N = 80
X = np.random.default_rng(0).uniform(0.2, 1.0, N)
D = np.random.default_rng(1).standard_normal(N)


def prefix(x: Any) -> Any:
    def step(i: Any, a: Any) -> Any:
        a[i + 1] = np.sin(a[i].copy()) + x[i] * x[i]
        return a

    return np.sum(tg.fori_loop(0, x.shape[0] - 1, step, np.zeros_like(x)) ** 2)


def increments(x: Any) -> Any:
    def step(i: Any, a: Any) -> Any:
        a[i] += x[i] * a[i - 1].copy()
        return a

    return np.sum(tg.fori_loop(1, x.shape[0], step, x * 1.0) ** 2)


def under_cond(x: Any) -> Any:
    def step(i: Any, a: Any) -> Any:
        def write(a: Any) -> Any:
            a[i] = a[i - 1].copy() * x[i]
            return a

        return tg.cond(x[i] > 0.5, write, lambda a: a, a)

    return np.sum(tg.fori_loop(1, x.shape[0], step, x * 2.0) ** 2)


def until(x: Any) -> Any:
    def step(c: Any) -> Any:
        i, a = c
        a[i] = a[i - 1].copy() * np.cos(x[i]) + x[i]
        return i + 1, a

    return np.sum(tg.while_loop(lambda c: c[0] < x.shape[0], step, (1, x * 1.0))[1] ** 2)


def in_scan(x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        a, k = c
        a[k] = v * v
        return (a, k + 1), a[k - 1].copy() * v

    (a, _), ys = tg.scan(step, (np.zeros_like(x), 0), x)
    return np.sum(a * ys)


def time_warping(x: Any) -> Any:
    """The table of dynamic time warping: two nested loops."""
    x, y = x[:9], x[9:18] * 0.7
    table = np.full((10, 10), 1e3) + 0.0 * x[0]
    table[0, 0] = 0.0

    def row(i: Any, d: Any) -> Any:
        def element(j: Any, d: Any) -> Any:
            up, left, both = d[i, j + 1].copy(), d[i + 1, j].copy(), d[i, j].copy()
            d[i + 1, j + 1] = (x[i] - y[j]) ** 2 + np.minimum(np.minimum(up, left), both)
            return d

        return tg.fori_loop(0, 9, element, d)

    return tg.fori_loop(0, 9, row, table)[9, 9]


def columns(x: Any) -> Any:
    """Rows, columns, views of views."""
    n = x.shape[0]

    def step(i: Any, t: Any) -> Any:
        t[:, i] = np.sin(x[i]) * np.arange(4.0) + t[:, i - 1].copy()
        row = t[1]
        row[i] = row[i].copy() * x[i]
        t[i % 4, 1:3] = t[i % 4, 1:3].copy() + x[2:4]
        return t

    t = tg.fori_loop(1, n, step, np.zeros((4, n)) * x[0])
    return np.sum(t * t * x)


def several(x: Any) -> Any:
    """Several index arrays: rows of a table at computed columns, some of them twice, of which the last write counts."""
    columns = np.array([7, 2, -3, 2])

    def step(i: Any, a: Any) -> Any:
        a[i, columns + 0 * i] = a[i - 1, 3:7].copy() * x[:4]
        a[i, [0, 9]] += x[i]
        a[columns[1:], i + 1] = x[5] * np.cos(a[i, 1:4].copy())
        np.add.at(a, ((i - columns) // 2, columns), x[i])
        return a

    return np.sum(tg.fori_loop(1, 7, step, np.reshape(x * 1.0, (8, 10))) ** 2)


def straight(x: Any) -> Any:
    """No loop: single elements, slices, views of views, np.add.at, out=."""
    a = np.zeros_like(x)
    for k in range(1, 5):
        a[k] = np.sin(x[k]) * a[k - 1].copy() + x[k]
    a[2:4] += x[:2]
    view = a[1:9][::2]
    view[0] = x[0]
    view[1:3] *= x[3]
    np.add.at(a, np.arange(N) * 7 % 5, x * x)
    np.multiply(a.copy(), x, out=a)
    return np.sum(a * a)


def transposed(x: Any) -> Any:
    """Through transposes and new axes, each write between reads of what stands there."""

    def step(i: Any, a: Any) -> Any:
        columns = a.T
        columns[3, i] = x[i] * a[i - 1, 3].copy()
        columns[1:3, i] = x[1:3] * x[i]
        np.transpose(np.reshape(a, (4, 2, 10)), (2, 0, 1))[5, i % 4, 1] = np.sin(x[i])
        a[i, None, 6:8] = x[3:5] * a[i - 1, 6:8].copy()
        return a

    return np.sum(tg.fori_loop(1, 8, step, np.reshape(x * 1.0, (8, 10))) ** 2 * np.reshape(x, (8, 10)))


def reshaped(x: Any) -> Any:
    """Through other shapes and slices, one position twice and one from the end."""

    def step(i: Any, a: Any) -> Any:
        a.reshape(-1)[7 * i] = x[i + 1] * a.ravel()[7 * i - 1].copy()
        a.ravel()[-i] *= x[2]
        a[..., None][i, 4, 0] += x[i]
        a[:, 8:][i - 1, 1] = np.cos(x[6]) * a[i, 9].copy()
        a[1::2, ::-1][2, 3] += x[i] * x[7]
        return a

    return np.sum(tg.fori_loop(1, 8, step, np.reshape(x * 1.0, (8, 10))) ** 2 * np.reshape(x, (8, 10)))


def sliced(x: Any) -> Any:
    """At computed positions of slices, which are others in the array: forwards, backwards, one out of two, of both."""

    def step(i: Any, a: Any) -> Any:
        a[1:][i, 0] = x[i] * a[i, 1].copy()
        a[1:].T[1, i] = x[i + 1]
        a[::-1][i, 3] += x[i]
        a.T[1:, 1:][5][i % 3] = np.sin(x[i])
        np.add.at(a[1:, 2:], (i - 1, [1, 1, 3]), x[i])
        a[::2][i // 2, 3:5] = x[:2]
        return a

    return np.sum(tg.fori_loop(1, 7, step, np.reshape(x * 1.0, (8, 10))) ** 2 * np.reshape(x, (8, 10)))


def views_of_views(x: Any) -> Any:
    """What is written through one view is read through the others."""

    def step(i: Any, a: Any) -> Any:
        view = a[1:]
        view[i - 1, :3] = view[i, :3].copy() * x[i]
        part = view[1:, 1:]
        part[i - 2, 1] -= x[i] ** 2
        view[0, i] += part[i // 2, 0].copy()
        a[1:][1:][-i, 4] *= a[2:][i - 1, 5].copy()
        return a

    return np.sum(tg.fori_loop(1, 7, step, np.reshape(x * 1.0, (8, 10))) ** 2 * np.reshape(x, (8, 10)))


# a step touches a few elements
FLAT = [prefix, increments, under_cond, until, in_scan, several, transposed, reshaped, sliced, views_of_views]
PROGRAMS = [*FLAT, time_warping, columns, straight]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_derivatives(function: Callable[..., Any]):
    both = tg.value_and_grad(function)
    value, gradient = both(X)
    x = tg.tensor(X, requires_grad=True)
    eager = function(x)
    eager.backward()
    np.testing.assert_allclose(value, eager.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(gradient, x.grad.numpy(), rtol=1e-10, atol=1e-12)
    step = 1e-6
    difference = (both(X + step * D)[0] - both(X - step * D)[0]) / (2 * step)
    np.testing.assert_allclose(gradient @ D, difference, rtol=1e-5)


SECOND = [
    increments,
    under_cond,
    views_of_views,
    *(pytest.param(f, marks=pytest.mark.slow) for f in (transposed, reshaped, sliced)),
]


@pytest.mark.parametrize("function", SECOND, ids=lambda f: f.__name__)
def test_second_order(function: Callable[..., Any]):
    first = tg.grad(function)
    second = tg.grad(lambda x: np.sum(first(x) * D))(X)
    step = 1e-6
    difference = (first(X + step * D) - first(X - step * D)) / (2 * step)
    np.testing.assert_allclose(second, difference, rtol=1e-4, atol=1e-6 * np.abs(difference).max())


def bodies(program: LoopProgram, inside: bool = False) -> Iterator[LoopProgram]:
    """The programs of the steps of all loops."""
    for s in walk(program.body):
        if isinstance(s, Call) and (region := region_of(s)) is not None:
            for body in region.bodies:
                if inside or s.kernel in ("scan", "while"):
                    yield body
                yield from bodies(body, inside or s.kernel in ("scan", "while"))


def steps(loop: Loop) -> Any:
    """How often the innermost statement of a nest is run."""
    return loop.extent * max([steps(s) for s in loop.body if isinstance(s, Loop)], default=1)


@pytest.mark.parametrize("function", FLAT, ids=lambda f: f.__name__)
def test_a_step_costs_what_it_writes(function: Callable[..., Any]):
    graph = write_through_views(trace(function, (X,))[0])
    program = schedule(optimize(value_and_gradients(graph, [0])))
    verify(program)
    found = list(bodies(program))
    assert len(found) >= 2
    for body in found:
        for s in walk(body.body):
            assert not (isinstance(s, Loop) and steps(s) >= N)
            assert not (isinstance(s, Fill) and product(body.buffer(s.buffer).shape) == N)
        large = [k for k, name in enumerate(body.outputs) if product(body.buffer(name).shape) == N]
        assert all(any(in_place(body, i, k) for i in range(len(body.inputs))) for k in large)


def test_two_versions_of_one_array():
    """Both the old and the new value are wanted: one of them is a copy; reads of the old one come first."""

    def function(x: Any) -> Any:
        def step(c: Any, i: Any) -> Any:
            old, total = c
            new = old.copy()
            new[i] = old[i] * 2.0 + old[i - 1]
            return (new, total + np.sum(old * x) - new[i]), old[i] + new[i - 1]

        (a, total), ys = tg.scan(step, (x * 1.0, 0.0), np.arange(70))
        return np.sum(a * x) + total + np.sum(ys * ys)

    value, gradient = tg.value_and_grad(function)(X)
    with tg.eager():
        expected = tg.value_and_grad(function)(X)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-10)


def test_out_of_range():
    def step(i: Any, a: Any) -> Any:
        a[i * 9] = 1.0
        return a

    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 80"):
        tg.jit(lambda x: tg.fori_loop(0, 10, step, x * 1.0))(X)

    def in_view(i: Any, a: Any) -> Any:
        a[1:40:2][i] = 1.0
        return a

    filled = tg.jit(lambda x: tg.fori_loop(-20, 20, in_view, x * 1.0))(X)
    np.testing.assert_array_equal(filled[1:40:2], 1.0)
    np.testing.assert_array_equal(np.delete(filled, np.s_[1:40:2]), np.delete(X, np.s_[1:40:2]))
    with pytest.raises(IndexError, match="index 20 is out of bounds for axis 0 with size 20"):
        tg.jit(lambda x: tg.fori_loop(0, 21, in_view, x * 1.0))(X)
    with pytest.raises(IndexError, match="index -21 is out of bounds for axis 0 with size 20"):
        tg.jit(lambda x: tg.fori_loop(-21, 0, in_view, x * 1.0))(X)
    np.testing.assert_array_equal(X, np.random.default_rng(0).uniform(0.2, 1.0, N))


def test_loops_that_people_write():
    """A table of Fibonacci numbers, the sieve of Eratosthenes, and a binomial tree element by element."""

    def fibonacci(first: Any) -> Any:
        table = np.zeros(40) + 0 * first
        table[0] = first
        table[1] = 1.0
        for i in range(2, 40):
            table[i] = table[i - 1] + table[i - 2]
        return table

    numbers, slope = tg.jvp(fibonacci, (0.0,), (1.0,))
    expected = [0, 1]
    while len(expected) < 40:
        expected.append(expected[-1] + expected[-2])
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_array_equal(slope, [1, 0, *expected[1:39]])

    def sieve(n: int) -> Any:
        def cross_out(i: Any, prime: Any) -> Any:
            def multiples(j: Any, prime: Any) -> Any:
                prime[j * i] = False
                return prime

            return tg.cond(prime[i], lambda p: tg.fori_loop(i, (n - 1) // i + 1, multiples, p), lambda p: p, prime)

        prime = np.ones(n, bool)
        prime[:2] = False
        return tg.fori_loop(2, int(n**0.5) + 1, cross_out, prime)

    primes = [k for k in range(2, 200) if all(k % d for d in range(2, k))]
    np.testing.assert_array_equal(np.flatnonzero(tg.jit(lambda: sieve(200))()), primes)

    steps, strike, up, chance, discount = 40, 100.0, 1.03, 0.52, 0.999

    def put(spot: Any) -> Any:
        """The price of an American put; level by level, node by node, over the values of the level before."""
        v = np.maximum(strike - spot * up ** (2.0 * np.arange(steps + 1) - steps), 0.0)

        def level(k: Any, v: Any) -> Any:
            depth = steps - 1 - k

            def node(j: Any, v: Any) -> Any:
                held = discount * (chance * v[j + 1] + (1 - chance) * v[j].copy())
                v[j] = np.maximum(held, strike - spot * up ** (2.0 * j - depth))
                return v

            return tg.fori_loop(0, depth + 1, node, v)

        return tg.fori_loop(0, steps, level, v)[0]

    def by_numpy(spot: float) -> float:
        v = np.maximum(strike - spot * up ** (2.0 * np.arange(steps + 1) - steps), 0.0)
        for depth in range(steps - 1, -1, -1):
            exercised = strike - spot * up ** (2.0 * np.arange(depth + 1) - depth)
            v = np.maximum(discount * (chance * v[1:] + (1 - chance) * v[:-1]), exercised)
        return float(v[0])

    price, delta = tg.value_and_grad(put)(97.0)
    np.testing.assert_allclose(price, by_numpy(97.0), rtol=1e-13)
    np.testing.assert_allclose(delta, (by_numpy(97 + 1e-5) - by_numpy(97 - 1e-5)) / 2e-5, rtol=1e-7)


def test_rows_at_computed_places_are_views():
    def function(a: Any, i: Any) -> Any:
        row = a[i]
        a[i, 0] = 5.0
        row[1] = row[0] * 2
        return row.sum()

    def table(x: Any) -> Any:
        def step(i: Any, a: Any) -> Any:
            a[i][0] = x[i] * x[i]
            row = a[i - 1]
            row[1:3] += x[i] * row[0]
            return a

        return np.sum(tg.fori_loop(1, 6, step, np.zeros((6, 3)) * x[0]) ** 2)

    x, a = X[:6], np.zeros((6, 3))
    a[1:, 0] = x[1:] ** 2
    a[1:5, 1:] = (x[2:] * x[1:5] ** 2)[:, None]
    value, gradient = tg.value_and_grad(table)(x)
    np.testing.assert_allclose(value, np.sum(a**2), rtol=1e-13)
    expected = 4 * x**3 + np.r_[0, 0, 4 * x[2:] * x[1:5] ** 4] + np.r_[0, 8 * x[2:] ** 2 * x[1:5] ** 3, 0]
    expected[0] = 0
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)

    for index in (2, np.int64(2)):
        a, expected = np.ones((4, 3)), np.ones((4, 3))
        assert tg.jit(function)(a, index) == function(expected, index) == 16
        np.testing.assert_array_equal(a, expected)


@pytest.mark.parametrize("copied", [
    lambda a: a.flatten(), lambda a: a.reshape(-1, copy=True), lambda a: np.reshape(a, (4,), copy=True),
    lambda a: a.flatten("F"), lambda a: a.reshape(4, 1, copy=True)[:, 0], lambda a: np.ravel(a).flatten(),
])  # fmt: skip
@pytest.mark.parametrize("shape", [(2, 2), (4,)])
def test_copies_are_not_written_through(copied, shape):
    def function(a):
        b = a * 1.0
        c = copied(b)
        c[1] = 9.0
        return np.sum(b) + 2 * np.sum(c)

    a = np.arange(1.0, 5.0).reshape(shape)
    expected = np.full(shape, 3.0)
    expected.reshape(-1)[2 if copied(np.arange(4.0).reshape(shape))[1] == 2 else 1] = 1
    for run in (tg.value_and_grad(function), tg.value_and_grad(tg.jit(function))):
        value, gradient = run(a)
        assert value == function(a)
        np.testing.assert_array_equal(gradient, expected)
    with tg.eager():
        np.testing.assert_array_equal(tg.grad(function)(a), expected)

    def overwrite(a):
        copied(a)[0] = 9.0
        return a + 0

    before = a.copy()
    np.testing.assert_array_equal(tg.jit(overwrite)(a), before)
    np.testing.assert_array_equal(a, before)
