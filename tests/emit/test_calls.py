"""Library calls: matrix products, running sums, functions in Python."""

import threading
import traceback

import numpy as np
import pytest

from tests.emit.programs import F4, F8, I8, lit, loop, op, program, read
from tracegrad.emit import compile_program
from tracegrad.errors import TracegradError
from tracegrad.ir.dims import symbol
from tracegrad.ir.index import variable
from tracegrad.ops.cumulative import LinearRecurrence
from tracegrad.schedule.evaluate import evaluate
from tracegrad.schedule.loops import Buffer, Call, Store

N, M, K = symbol("n"), symbol("m"), symbol("k")
i = variable("i")


@pytest.fixture
def rng():
    return np.random.default_rng(5)


# ---- matmul


def product(a, b, out, dtype=F8, sizes=None, **attrs):
    return program(
        {"a": (dtype, *a), "b": (dtype, *b)},
        {"c": (dtype, *out)},
        Call("matmul", ("a", "b"), ("c",), attrs),
        sizes=sizes,
    )


def check(executable, a, b, dtype, a_transposed=False, b_transposed=False):
    x = np.swapaxes(a, -1, -2) if a_transposed else a
    y = np.swapaxes(b, -1, -2) if b_transposed else b
    found, expected = executable(a, b)[0], np.matmul(x, y)
    assert found.shape == expected.shape and found.dtype == dtype
    scale = np.matmul(np.abs(x), np.abs(y)).max(initial=1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=4 * np.finfo(dtype).eps * scale)


SHAPES = [((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((1, 1), (1, 1)), ((30, 40), (40, 50))]
SHAPES += [((100,), (100,)), ((100,), (100, 50)), ((70, 100), (100,)), ((1, 100), (100, 60)), ((60, 100), (100, 1))]
SHAPES += [((0, 4), (4, 5)), ((3, 0), (0, 5)), ((0,), (0,)), ((6, 3, 4), (4, 5)), ((2, 3, 4, 5), (2, 3, 5, 6))]
SHAPES += [((6, 1, 20, 30), (4, 30, 20)), ((1, 20, 30), (5, 30, 20)), ((30,), (3, 30, 20)), ((3, 20, 30), (30,))]


@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("a, b", SHAPES, ids=str)
def test_matmul(a, b, dtype, rng):
    x, y = rng.normal(size=a).astype(dtype), rng.normal(size=b).astype(dtype)
    check(compile_program(product(a, b, np.matmul(x, y).shape, dtype)), x, y, dtype)


@pytest.mark.parametrize("size", [(3, 4, 5), (30, 40, 50), (1, 70, 80), (80, 70, 1)])
@pytest.mark.parametrize("transposed", [(True, False), (False, True), (True, True)])
def test_transposed_operands(size, transposed, rng):
    m, k, n = size
    a, b = (k, m) if transposed[0] else (m, k), (n, k) if transposed[1] else (k, n)
    flags = dict(zip(("a_transposed", "b_transposed"), transposed))
    for batch in ((), (3,)):
        x, y = rng.normal(size=(*batch, *a)), rng.normal(size=(*batch, *b))
        check(compile_program(product(x.shape, y.shape, (*batch, m, n), **flags)), x, y, F8, **flags)


def test_symbolic_matmul(rng):
    run = compile_program(product((N, K), (K, M), (N, M), sizes={"n": (0, 0), "k": (0, 1), "m": (1, 1)}))
    for n, k, m in ((3, 4, 5), (1, 100, 1), (200, 1, 3), (0, 3, 2), (2, 0, 2), (100, 90, 80)):
        check(run, rng.normal(size=(n, k)), rng.normal(size=(k, m)), F8)
    batched = compile_program(
        product((N, 1, K, 3), (M, 3, K), (N, M, K, K), sizes={"n": (0, 0), "k": (0, 2), "m": (1, 0)})
    )
    check(batched, rng.normal(size=(2, 1, 5, 3)), rng.normal(size=(4, 3, 5)), F8)


def test_matrix_times_vector_ignores_what_was_in_memory(rng):
    """The result's memory holds NaN before: 0 * NaN must not come through."""
    t = Buffer("t", F8, (100,), "temp")
    p = program(
        {"a": (F8, 100, 100), "b": (F8, 100)},
        {"y": (F8, 100), "c": (F8, 100)},
        loop("i", 100, Store("t", (i,), lit(np.nan))),
        loop("i", 100, Store("y", (i,), read("t", "i"))),
        Call("matmul", ("a", "b"), ("t",), {}),
        loop("i", 100, Store("c", (i,), read("t", "i"))),
        others=(t,),
    )
    a, b = rng.normal(size=(100, 100)), rng.normal(size=100)
    np.testing.assert_allclose(compile_program(p)(a, b)[1], a @ b)


def test_too_large_for_blas():
    run = compile_program(product((N, K), (K, M), (N, M), sizes={"n": (0, 0), "k": (0, 1), "m": (1, 1)}))
    with pytest.raises(OverflowError, match="4294967296 rows or columns is too large for BLAS"):
        run(np.empty((2**32, 0)), np.empty((0, 0)))


# ---- cumulative


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
@pytest.mark.parametrize("shape, axis", [((7,), 0), ((5, 6), 0), ((5, 6), 1), ((3, 4, 5), 1), ((0, 3), 0), ((4, 0), 1)])
def test_cumulative(dtype, shape, axis, rng):
    x = (rng.normal(size=shape) * 4).astype(dtype)
    for combine, function in (
        ("add", np.add),
        ("multiply", np.multiply),
        ("maximum", np.maximum),
        ("minimum", np.minimum),
    ):
        for reverse in (False, True):
            call = Call("cumulative", ("x",), ("y",), {"combine": combine, "axis": axis, "reverse": reverse})
            p = program({"x": (dtype, *shape)}, {"y": (dtype, *shape)}, call)
            view = np.flip(x, axis) if reverse else x
            expected = function.accumulate(view, axis=axis, dtype=dtype)
            expected = np.flip(expected, axis) if reverse else expected
            np.testing.assert_allclose(compile_program(p)(x)[0], expected, rtol=1e-5 if dtype == "f4" else 1e-12)


def test_symbolic_cumulative_propagates_nan(rng):
    call = Call("cumulative", ("x",), ("y",), {"combine": "maximum", "axis": 0})
    run = compile_program(program({"x": (F8, N, M)}, {"y": (F8, N, M)}, call, sizes={"n": (0, 0), "m": (0, 1)}))
    x = rng.normal(size=(50, 3))
    x[20, 1] = np.nan
    np.testing.assert_array_equal(run(x)[0], np.maximum.accumulate(x))


# ---- recurrence


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
@pytest.mark.parametrize("shape, axis", [((7,), 0), ((5, 6), 0), ((5, 6), 1), ((3, 4, 5), 1), ((0, 3), 0), ((4, 0), 1)])
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrence_has_the_bits_of_the_interpreter(dtype, shape, axis, reverse, rng):
    a, b = ((rng.normal(size=shape) * 4).astype(dtype) for _ in range(2))
    b[rng.random(shape) < 0.2] = 0
    call = Call("recurrence", ("a", "b"), ("y",), {"axis": axis, "reverse": reverse})
    p = program({"a": (dtype, *shape), "b": (dtype, *shape)}, {"y": (dtype, *shape)}, call)
    expected = LinearRecurrence.forward(a, b, axis=axis, reverse=reverse)
    np.testing.assert_array_equal(compile_program(p)(a, b)[0], expected)
    np.testing.assert_array_equal(evaluate(p, (a, b))[0], expected)


def test_recurrence_of_one_buffer_with_itself(rng):
    x = rng.normal(size=9)
    call = Call("recurrence", ("x", "x"), ("y",), {"axis": 0, "reverse": False})
    run = compile_program(program({"x": (F8, 9)}, {"y": (F8, 9)}, call))
    np.testing.assert_array_equal(run(x)[0], LinearRecurrence.forward(x, x, axis=0, reverse=False))


def test_recurrence_stops_at_zeros_and_hands_nan_on():
    a, b = np.array([0.0, np.inf, 2.0, np.nan, 2.0]), np.array([0.0, 0.0, 1.0, 0.0, 1.0])
    call = Call("recurrence", ("a", "b"), ("y",), {"axis": 0, "reverse": False})
    run = compile_program(program({"a": (F8, N), "b": (F8, N)}, {"y": (F8, N)}, call, sizes={"n": (0, 0)}))
    np.testing.assert_array_equal(run(a, b)[0], [0, 0, 1, np.nan, np.nan])


# ---- host calls


def host(function, extent=N):
    """y = function(2 x) + 1."""
    return program(
        {"x": (F8, extent)},
        {"y": (F8, extent)},
        loop("i", extent, Store("t", (i,), op("multiply", lit(2), read("x", "i")))),
        Call("host", ("t",), ("u",), {"function": function}),
        loop("i", extent, Store("y", (i,), op("add", lit(1), read("u", "i")))),
        others=(Buffer("t", F8, (extent,), "temp"), Buffer("u", F8, (extent,), "temp")),
        sizes={"n": (0, 0)} if extent == N else None,
    )


def test_host_call(rng):
    run = compile_program(host(lambda t: np.sort(t)))
    for size in (0, 1, 50, 3):
        x = rng.normal(size=size)
        np.testing.assert_array_equal(run(x)[0], np.sort(2 * x) + 1)


def test_host_call_with_several_results(rng):
    def both(a, k):
        return a[::-1], np.flatnonzero(a > k)[:1].astype(I8).reshape(())

    p = program(
        {"x": (F8, 10), "k": (F8,)},
        {"y": (F8, 10), "first": (I8,)},
        Call("host", ("x", "k"), ("y", "first"), {"function": both}),
    )
    x = np.arange(10.0)
    y, first = compile_program(p)(x, np.array(3.5))
    np.testing.assert_array_equal(y, x[::-1])
    assert first == 4


def test_a_host_function_may_keep_and_change_what_it_gets(rng):
    kept = []

    def greedy(t):
        kept.append(t)
        t += 1
        return t

    run = compile_program(host(greedy))
    x = rng.normal(size=1000)
    np.testing.assert_allclose(run(x)[0], 2 * x + 2)
    np.testing.assert_allclose(run(x + 1)[0], 2 * x + 4)
    np.testing.assert_allclose(kept[0], 2 * x + 1)


def test_exceptions_come_out_with_their_traceback():
    def fails(t):
        raise KeyError("inside")

    run = compile_program(host(fails))
    for _ in range(3):
        with pytest.raises(KeyError, match="inside") as caught:
            run(np.zeros(5))
        assert "fails" in [f.name for f in traceback.extract_tb(caught.value.__traceback__)]
    with pytest.raises(KeyError, match="inside"):
        run.entry(np.zeros(5), np.zeros(5))

    def interrupted(t):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_program(host(interrupted))(np.zeros(2))


@pytest.mark.parametrize(
    "result, text",
    [
        (lambda t: t[:-1], r"result 0 is float64\[4\] where float64\[5\] was traced"),
        (lambda t: t.astype("f4"), r"result 0 is float32\[5\] where float64"),
        (lambda t: (t, t), "returned 2 arrays where 1 are needed"),
        (lambda t: None, r"result 0 is object\[\]"),
    ],
)
def test_wrong_results_of_host_functions(result, text):
    with pytest.raises(TracegradError, match=text):
        compile_program(host(result))(np.zeros(5))


def test_host_calls_from_many_threads(rng):
    def fails_for_some(t):
        if t[0] < 0:
            raise ValueError(str(t[0]))
        return -t

    run = compile_program(host(fails_for_some))
    problems = []

    def work(number):
        x = np.full(100, float(number))
        for _ in range(100):
            try:
                found = run(x)[0]
                if number < 0 or not np.array_equal(found, 1 - 2 * x):
                    problems.append(number)
            except ValueError as error:
                if number >= 0 or str(error) != str(2.0 * number):
                    problems.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(-4, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not problems
