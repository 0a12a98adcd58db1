"""Statements and loops: accumulators, sums, gathers and scatters, unrolling, local buffers."""

import numpy as np
import pytest

from tests.emit.programs import B1, F4, F8, I8, affine, lit, loop, name, op, program, read, softmax_rows
from tracegrad.emit import compile_program
from tracegrad.ir.dims import symbol
from tracegrad.ir.index import variable
from tracegrad.schedule.loops import (
    Buffer,
    Check,
    Declare,
    Fill,
    FromIndex,
    Let,
    Loop,
    Store,
    Update,
    UpdateAt,
    Value,
)

N, M = symbol("n"), symbol("m")
i, j = variable("i"), variable("j")


@pytest.fixture
def rng():
    return np.random.default_rng(3)


# ---- accumulators

REDUCERS = {"add": np.sum, "multiply": np.prod, "maximum": np.max, "minimum": np.min}


def reduction(combine, dtype, extent=N):
    return program(
        {"x": (dtype, extent)},
        {"r": (dtype,)},
        Declare("acc", combine, np.dtype(dtype)),
        loop("i", extent, Update("acc", combine, read("x", "i", dtype=np.dtype(dtype)))),
        Store("r", (), name("acc", np.dtype(dtype))),
        sizes={"n": (0, 0)} if extent == N else None,
    )


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "u1", "i4", "u8", "i8"])
def test_reductions(dtype, rng):
    for combine, reduce in REDUCERS.items():
        run = compile_program(reduction(combine, dtype))
        for size in (1, 5, 100, 1000):
            x = (rng.normal(size=size) * 3 + 1).astype(dtype)
            found = run(x)[0]
            assert found.dtype == np.dtype(dtype)
            with np.errstate(over="ignore"):
                np.testing.assert_allclose(
                    found,
                    reduce(x, dtype=dtype) if combine in ("add", "multiply") else reduce(x),
                    rtol=1e-4 if dtype == "f4" else 1e-11,
                )


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_extremes_of_nan_and_infinity(dtype, rng):
    for combine in ("maximum", "minimum"):
        run = compile_program(reduction(combine, dtype))
        for size in (1, 17, 300):
            x = rng.normal(size=size).astype(dtype)
            for position in {0, size // 2, size - 1}:
                y = x.copy()
                y[position] = np.nan
                assert np.isnan(run(y)[0])
                y[position] = np.inf if combine == "maximum" else -np.inf
                assert run(y)[0] == y[position]
        assert run(np.empty(0, dtype))[0] == (-np.inf if combine == "maximum" else np.inf)


def test_logical_reductions():
    for combine, reduce in (("logical_and", np.all), ("logical_or", np.any)):
        run = compile_program(reduction(combine, "?"))
        for x in (
            np.ones(100, bool),
            np.zeros(100, bool),
            np.arange(100) == 99,
            np.arange(100) != 99,
            np.zeros(0, bool),
        ):
            assert run(x)[0] == reduce(x)


# ---- sums


def exact_sum(x):
    import math

    return math.fsum(x.astype("f8").ravel())


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kind", ["ones/255", "normal", "lognormal", "cancelling"])
def test_sum_is_at_least_as_accurate_as_pairwise(dtype, kind, rng):
    run = compile_program(reduction("add", dtype))
    for size in (1000, 10**5, 10**6):
        x = {
            "ones/255": lambda: np.ones(size, np.uint8) / np.float32(255),
            "normal": lambda: rng.normal(size=size),
            "lognormal": lambda: rng.lognormal(sigma=3, size=size),
            "cancelling": lambda: np.concatenate([v := rng.normal(size=size // 2), -v[::-1]]),
        }[kind]().astype(dtype)
        exact, scale = exact_sum(x), float(np.abs(x.astype("f8")).sum()) * np.finfo(dtype).eps
        error, pairwise = abs(float(run(x)[0]) - exact), abs(float(x.sum()) - exact)
        rounding = abs(exact) * np.finfo(dtype).eps
        assert error <= max(pairwise, rounding, 0.02 * scale), (size, error, pairwise, rounding)


def test_sum_of_a_million_255ths():
    run = compile_program(reduction("add", "f4"))
    assert abs(float(run(np.ones(10**6, np.uint8) / np.float32(255))[0]) - 1e6 / 255) < 2.5e-4


@pytest.mark.parametrize("shape", [(1000, 1000), (10**5, 10), (10, 10**5), (3000, 333)])
def test_sum_over_nested_loops(shape):
    p = program(
        {"x": (F4, N, M)},
        {"r": (F4,)},
        Declare("acc", "add", F4),
        loop("i", N, loop("j", M, Update("acc", "add", read("x", "i", "j", dtype=F4)))),
        Store("r", (), name("acc", F4)),
        sizes={"n": (0, 0), "m": (0, 1)},
    )
    x = np.ones(shape, np.uint8) / np.float32(255)
    assert abs(float(compile_program(p)(x)[0]) - exact_sum(x)) <= exact_sum(x) * 4e-7
    fixed = program(
        {"x": (F4, *shape)},
        {"r": (F4,)},
        Declare("acc", "add", F4),
        loop("i", shape[0], loop("j", shape[1], Update("acc", "add", read("x", "i", "j", dtype=F4)))),
        Store("r", (), name("acc", F4)),
    )
    assert abs(float(compile_program(fixed)(x)[0]) - exact_sum(x)) <= exact_sum(x) * 4e-7


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_of_infinities_and_overflow(dtype):
    run = compile_program(reduction("add", dtype))
    x = np.zeros(5000, dtype)
    for values, expected in (
        ([np.inf], np.inf),
        ([-np.inf], -np.inf),
        ([np.inf, -np.inf], np.nan),
        ([np.nan], np.nan),
        ([np.nan, np.inf], np.nan),
    ):
        for spread in (1, 1000):
            y = x.copy()
            y[: spread * len(values) : spread] = values
            np.testing.assert_equal(float(run(y)[0]), expected)
    big = np.full(5000, np.finfo(dtype).max, dtype)
    assert run(big)[0] == np.inf and run(-big)[0] == -np.inf


def test_an_accumulator_can_be_read_while_it_runs(rng):
    """A running sum: the value after each element."""
    p = program(
        {"x": (F8, N)},
        {"y": (F8, N), "r": (F8,)},
        Declare("acc", "add", F8),
        loop("i", N, Update("acc", "add", read("x", "i")), Store("y", (i,), name("acc"))),
        Store("r", (), name("acc")),
        sizes={"n": (0, 0)},
    )
    x = rng.normal(size=3000)
    y, r = compile_program(p)(x)
    np.testing.assert_allclose(y, np.cumsum(x), atol=1e-12)
    np.testing.assert_allclose(r, x.sum(), atol=1e-12)


def test_softmax_rows(rng):
    run = compile_program(softmax_rows())
    for shape in ((3, 5), (20, 2000), (1, 1), (0, 4)):
        x = rng.normal(size=shape) * 4
        e = np.exp(x - x.max(1, keepdims=True)) if x.size else x
        np.testing.assert_allclose(run(x)[0], e / e.sum(1, keepdims=True) if x.size else x, rtol=1e-13)


# ---- array accumulators, gathers, scatters


def test_array_accumulator_on_the_stack(rng):
    p = program(
        {"x": (F8, N, 7)},
        {"g": (F8, 7), "top": (F8, 7)},
        Fill("g", "add"),
        Fill("top", "maximum"),
        loop(
            "i",
            N,
            loop(
                "j",
                7,
                UpdateAt("g", (j,), "add", read("x", "i", "j")),
                UpdateAt("top", (j,), "maximum", read("x", "i", "j")),
            ),
        ),
        sizes={"n": (0, 0)},
    )
    x = rng.normal(size=(100, 7))
    g, top = compile_program(p)(x)
    np.testing.assert_allclose(g, x.sum(0), atol=1e-13)
    np.testing.assert_array_equal(top, x.max(0))


@pytest.mark.parametrize("dtype", ["i4", "i8", "u1", "u8"])
def test_gather_and_scatter(dtype, rng):
    d = np.dtype(dtype)
    check = Check("k", read("index", "i", dtype=d), N, 0)
    p = program(
        {"x": (F8, N), "index": (d, M)},
        {"y": (F8, M), "back": (F8, N)},
        Fill("back", "add"),
        loop("i", M, check, Store("y", (i,), read("x", Value("k")))),
        loop(
            "i",
            M,
            Check("k2", read("index", "i", dtype=d), N, 0),
            UpdateAt("back", (Value("k2"),), "add", read("y", "i")),
        ),
        sizes={"n": (0, 0), "m": (1, 0)},
    )
    run = compile_program(p)
    x = rng.normal(size=50)
    index = rng.integers(0 if d.kind == "u" else -50, 50, 200).astype(d)
    y, back = run(x, index)
    expected = np.zeros(50)
    np.add.at(expected, index, x[index])
    np.testing.assert_array_equal(y, x[index])
    np.testing.assert_allclose(back, expected)
    for bad in (50, 200) if d.kind == "u" else (50, -51):
        index[[20, 30]] = bad, bad + 1
        with pytest.raises(IndexError, match=f"^index {bad} is out of bounds for axis 0 with size 50$") as caught:
            run(x, index)
        assert (caught.value.axis, caught.value.extent, caught.value.value) == (0, 50, bad)
        with pytest.raises(IndexError):
            x[index]
    with pytest.raises(IndexError, match="size 0"):
        run(np.zeros(0), np.zeros(3, d))


def test_an_unsigned_index_beyond_int64_is_out_of_range():
    d = np.dtype("u8")
    p = program(
        {"x": (F8, 3), "index": (d, 1)},
        {"y": (F8, 1)},
        loop("i", 1, Check("k", read("index", "i", dtype=d), 3, 0), Store("y", (i,), read("x", Value("k")))),
    )
    with pytest.raises(IndexError):
        compile_program(p)(np.zeros(3), np.array([2**64 - 1], d))


# ---- loops and buffers


def test_unrolled_loop_and_index_values(rng):
    p = program(
        {"x": (F8, N, 3)},
        {"y": (F8, N), "t": (I8, N)},
        loop(
            "i",
            N,
            Declare("acc", "add", F8),
            loop(
                "j", 3, Update("acc", "add", op("multiply", FromIndex(j + 1, F8), read("x", "i", "j"))), kind="unroll"
            ),
            Store("y", (i,), name("acc")),
            Store("t", (i,), FromIndex(i * 3 + N, I8)),
        ),
        sizes={"n": (0, 0)},
    )
    x = rng.normal(size=(25, 3))
    y, t = compile_program(p)(x)
    np.testing.assert_allclose(y, x @ [1, 2, 3])
    np.testing.assert_array_equal(t, np.arange(25) * 3 + 25)


def test_alias_is_the_same_memory(rng):
    p = program(
        {"x": (F8, N, 3)},
        {"y": (F8, 3 * N)},
        loop("i", 3 * N, Store("t2", (i,), op("multiply", lit(2), read("flat", "i")))),
        loop("i", N, loop("j", 3, Store("y3", (i, j), op("add", read("t", "i", "j"), read("x", "i", "j"))))),
        others=(
            Buffer("flat", F8, (3 * N,), "input", alias="x"),
            Buffer("t", F8, (N, 3), "temp"),
            Buffer("t2", F8, (3 * N,), "temp", alias="t"),
            Buffer("y3", F8, (N, 3), "output", alias="y"),
            Buffer("x2", F8, (3, N), "input", alias="x"),
        ),
        sizes={"n": (0, 0)},
        returns=("y", "y3", "x2"),
    )
    x = rng.normal(size=(40, 3))
    y, y3, x2 = compile_program(p)(x)
    np.testing.assert_allclose(y, 3 * x.ravel())
    np.testing.assert_allclose(y3, 3 * x)
    np.testing.assert_array_equal(x2, x.reshape(3, 40))
    assert not np.shares_memory(y, y3) and not np.shares_memory(x2, x)


def test_top_level_scalars(rng):
    p = program(
        {"a": (F8,), "b": (B1,)},
        {"y": (F8,), "z": (F8, 4)},
        Let("s", op("multiply", read("a"), lit(3))),
        Let("t", op("where", read("b", dtype=B1), name("s"), lit(-1))),
        Store("y", (), name("t")),
        loop("i", 4, Store("z", (i,), op("add", name("t"), FromIndex(affine("i"), F8)))),
    )
    run = compile_program(p)
    for b in (True, False):
        y, z = run(np.array(2.0), np.array(b))
        assert y == (6 if b else -1)
        np.testing.assert_array_equal(z, y + np.arange(4))


def test_check_outside_of_loops():
    p = program(
        {"x": (F8, 5), "k": (I8,)},
        {"y": (F8,)},
        Check("at", read("k", dtype=I8), 5, 0),
        Store("y", (), read("x", Value("at"))),
        loop("i", 5, Store("t", (i,), read("x", "i"))),
        others=(Buffer("t", F8, (5,), "temp"),),
    )
    run = compile_program(p)
    assert run(np.arange(5.0), np.array(-2))[0] == 3
    for _ in range(3):
        with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 5"):
            run(np.arange(5.0), np.array(7))


def test_empty_program():
    assert compile_program(program({}, {}))() == ()


def test_loop_statement_is_what_the_helper_says():
    assert isinstance(loop("i", 3), Loop)
