"""Reads with bounds, and loops that are split where bounds change: edges, stencils, concatenation, moving bounds."""

import numpy as np
import pytest

from tests.emit.programs import F8, I8, at_least, below, lit, loop, op, program, read
from tracegrad.emit import compile_program
from tracegrad.emit.splitting import split
from tracegrad.ir.dims import symbol
from tracegrad.ir.index import Bound, Quotient, variable
from tracegrad.schedule.loops import Fill, FromIndex, Let, Read, Store, UpdateAt, Value, Where

N, M = symbol("n"), symbol("m")
i, j = variable("i"), variable("j")


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def pad(extent, left, right):
    """y = pad(x, left, right) with 7s."""
    inside = (at_least("i", left), below("i", extent + left))
    return program(
        {"x": (F8, extent)},
        {"y": (F8, extent + left + right)},
        loop("i", extent + left + right, Store("y", (i,), read("x", i + (-left), when=inside, fill=7))),
        sizes={"n": (0, 0)} if not isinstance(extent, int) else None,
    )


@pytest.mark.parametrize("left, right", [(0, 0), (1, 0), (0, 3), (2, 2), (20, 30)])
def test_pad(left, right, rng):
    run = compile_program(pad(N, left, right))
    for size in (0, 1, 2, 40, 1000):
        x = rng.normal(size=size)
        np.testing.assert_array_equal(run(x)[0], np.pad(x, (left, right), constant_values=7))
        if size in (2, 40):
            np.testing.assert_array_equal(
                compile_program(pad(size, left, right))(x)[0], np.pad(x, (left, right), constant_values=7)
            )


def rosenbrock_gradient(extent):
    """The adjoint of x[1:] - x[:-1]**2, as a gather with two predicated reads."""
    d = lambda k: op("subtract", read("x", i + (k + 1)), op("square", read("x", i + k)))
    shifted = lambda k, *when: Where(when, d(k), lit(0), F8)
    first = op("multiply", op("multiply", lit(-2), read("x", "i")), shifted(0, below("i", extent - 1)))
    return program(
        {"x": (F8, extent)},
        {"g": (F8, extent)},
        loop("i", extent, Store("g", (i,), op("add", first, shifted(-1, at_least("i", 1))))),
        sizes={"n": (0, 0)} if not isinstance(extent, int) else None,
    )


@pytest.mark.parametrize("extent", [10, 100, N])
def test_stencil(extent, rng):
    run = compile_program(rosenbrock_gradient(extent))
    for size in (1, 2, 3, 10, 1000) if extent == N else (extent,):
        x = rng.normal(size=size)
        d = x[1:] - x[:-1] ** 2
        expected = np.zeros(size)
        expected[:-1] -= 2 * x[:-1] * d
        expected[1:] += d
        np.testing.assert_allclose(run(x)[0], expected, rtol=1e-12, atol=1e-13)


def test_concatenate_splits_where_pieces_meet(rng):
    inside = (below("i", N),)
    then = Where((below("i", N + M),), read("y", i + N * -1), read("z", i + (N + M) * -1), F8)
    p = program(
        {"x": (F8, N), "y": (F8, M), "z": (F8, N)},
        {"out": (F8, 2 * N + M)},
        loop("i", 2 * N + M, Store("out", (i,), Where(inside, read("x", "i"), then, F8))),
        sizes={"n": (0, 0), "m": (1, 0)},
    )
    assert [len(s.known) for s in split(p.body[0], {})] == [2, 2, 2]
    run = compile_program(p)
    for n, m in ((3, 5), (0, 4), (4, 0), (0, 0), (300, 1)):
        x, y, z = rng.normal(size=n), rng.normal(size=m), rng.normal(size=n)
        np.testing.assert_array_equal(run(x, y, z)[0], np.concatenate([x, y, z]))


@pytest.mark.parametrize("n, m, low", [(30, 40, 3), (N, M, 1), (N, M, 50)])
def test_moving_bounds(n, m, low, rng):
    """A full correlation along the last axis: the range of j in which all is inside moves with k."""
    k = variable("k")
    where = j + k * -1
    p = program(
        {"x": (F8, n, m), "w": (F8, low)},
        {"y": (F8, n, m + low)},
        Fill("y", "add"),
        loop(
            "i",
            n,
            loop(
                "k",
                low,
                loop(
                    "j",
                    m + low,
                    UpdateAt(
                        "y",
                        (i, j),
                        "add",
                        op("multiply", read("w", "k"), read("x", "i", where, when=(Bound(where), below(where, m)))),
                    ),
                ),
            ),
        ),
        sizes={"n": (0, 0), "m": (0, 1)} if n == N else None,
    )
    run = compile_program(p)
    for shape in ((30, 40),) if n == 30 else ((5, 9), (1, 1), (2, 200)):
        x, w = rng.normal(size=shape), rng.normal(size=low)
        expected = np.array([np.append(np.convolve(row, w), 0.0) for row in x])
        np.testing.assert_allclose(run(x, w)[0], expected, atol=1e-12)


def test_diagonal_and_strided_adjoint(rng):
    even = Bound(i, "%", 2)
    p = program(
        {"x": (F8, N)},
        {"d": (F8, N, N), "up": (F8, 2 * N)},
        loop("i", N, loop("j", N, Store("d", (i, j), Where((Bound(i - j, "=="),), read("x", "i"), lit(0), F8)))),
        loop("i", 2 * N, Store("up", (i,), Read("x", (Quotient(i, 2),), F8, (even,), 0))),
        sizes={"n": (0, 0)},
    )
    run = compile_program(p)
    for size in (1, 5, 50):
        x = rng.normal(size=size)
        d, up = run(x)
        np.testing.assert_array_equal(d, np.diag(x))
        np.testing.assert_array_equal(up[::2], x)
        assert not up[1::2].any()


def test_order_of_stores_at_computed_places_is_kept(rng):
    """Last write wins, also where the loop is split."""
    value = op("add", FromIndex(i, F8), read("x", i + (-3), when=(at_least("i", 3),), fill=0.5))
    p = program(
        {"x": (F8, N), "index": (I8, N)},
        {"y": (F8, 5)},
        Fill("y", "add"),
        loop("i", N, Let("k", read("index", "i", dtype=I8)), Store("y", (Value("k"),), value)),
        sizes={"n": (0, 0)},
    )
    run = compile_program(p)
    for size in (2, 40):
        x, index = rng.normal(size=size), rng.integers(0, 5, size)
        expected = np.zeros(5)
        for k in range(size):
            expected[index[k]] = k + (x[k - 3] if k >= 3 else 0.5)
        np.testing.assert_array_equal(run(x, index)[0], expected)


def test_reads_outside_their_bounds_never_touch_memory():
    """The operand has no element at all; only the fill is ever read."""
    p = program(
        {"x": (F8, N)},
        {"y": (F8, 100)},
        loop("i", 100, Store("y", (i,), read("x", i * 1000, when=(below(i * 1000, N),), fill=4))),
        sizes={"n": (0, 0)},
    )
    run = compile_program(p)
    np.testing.assert_array_equal(run(np.zeros(0))[0], np.full(100, 4.0))
    np.testing.assert_array_equal(run(np.ones(1001))[0], np.r_[1, 1, np.full(98, 4.0)])
