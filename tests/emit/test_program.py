"""Executables: calling them, what they refuse, sizes, aliasing outputs, constants, memory, threads."""

import gc
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

from tests.emit.programs import B1, F4, F8, I8, affine, lit, loop, name, op, program, read
from tracegrad.emit import compile_program
from tracegrad.ir.dims import floordiv, symbol
from tracegrad.ir.index import variable
from tracegrad.schedule.loops import Buffer, Declare, Let, Store, Update

N, M = symbol("n"), symbol("m")
RNG = np.random.default_rng(0)


def square_sum(extent=N, dtype=F8, kind="serial"):
    x = read("x", "i", dtype=dtype)
    return program(
        {"x": (dtype, extent)},
        {"s": (dtype,), "g": (dtype, extent)},
        Declare("acc", "add", dtype),
        loop(
            "i",
            extent,
            Update("acc", "add", op("multiply", x, x, dtype=dtype)),
            Store("g", (variable("i"),), op("multiply", lit(2, dtype), x, dtype=dtype)),
            kind=kind,
            reduced=("acc",) if kind == "parallel" else (),
        ),
        Store("s", (), name("acc", dtype)),
        sizes={"n": (0, 0)} if extent == N else None,
    )


@pytest.fixture(scope="module")
def executable():
    return compile_program(square_sum())


@pytest.mark.parametrize("size", [0, 1, 7, 10, 511, 512, 513, 1024, 10_001])
def test_symbolic_size(executable, size):
    x = RNG.normal(size=size)
    s, g = executable(x)
    assert type(s) is np.ndarray and s.shape == () and s.dtype == F8
    np.testing.assert_allclose(s, np.sum(x * x), rtol=1e-14)
    np.testing.assert_array_equal(g, 2 * x)


def test_outputs_are_new_every_time(executable):
    x = RNG.normal(size=5)
    first, second = executable(x)[1], executable(x)[1]
    assert first is not second and not np.shares_memory(first, second)
    assert first.flags.owndata and first.flags.writeable and first.flags.c_contiguous
    assert sys.getrefcount(first) == 2


@pytest.mark.parametrize(
    "argument, error, text",
    [
        (np.zeros(4, "f4"), TypeError, "dtype float64, not float32"),
        (np.zeros(4, ">f8"), TypeError, "dtype float64, not >f8"),
        (np.zeros((2, 2)), ValueError, "1 dimensions, not 2"),
        (np.zeros(8)[::2], ValueError, "C-contiguous"),
        (np.frombuffer(bytes(33), np.uint8)[1:].view(F8), ValueError, "aligned"),
        ([1.0, 2.0], TypeError, "must be an ndarray, not list"),
        (np.ma.zeros(4), TypeError, "must be an ndarray"),
        (None, TypeError, "must be an ndarray"),
    ],
)
def test_refuses(executable, argument, error, text):
    with pytest.raises(error, match=text):
        executable.call(argument)


def test_refuses_other_counts_and_shapes(executable):
    with pytest.raises(TypeError, match="takes 1 arrays, not 2"):
        executable.call(np.zeros(3), np.zeros(3))
    with pytest.raises(TypeError, match="takes 1 arrays, not 0"):
        executable.call()
    fixed = compile_program(square_sum(10))
    assert fixed(np.ones(10))[0] == 10
    with pytest.raises(ValueError, match=r"shape \(10,\), not \(11,\)"):
        fixed(np.ones(11))


def test_accepts_any_native_spelling_of_a_dtype(executable):
    x = np.arange(3.0)
    x.dtype = np.dtype("f8", metadata={"note": 1})
    np.testing.assert_array_equal(executable(x)[1], 2 * x)
    x.flags.writeable = False
    np.testing.assert_array_equal(executable(x)[1], 2 * x)
    twin = program({"x": (I8, 3)}, {"y": (I8, 3)}, loop("i", 3, Store("y", (variable("i"),), read("x", "i", dtype=I8))))
    run = compile_program(twin)
    for code in "lq":
        assert list(run(np.arange(3, dtype=code))[0]) == [0, 1, 2]


def test_equal_symbols_must_agree_and_dims_are_derived():
    both = program(
        {"x": (F8, N), "y": (F8, N, M + 1)},
        {"z": (F8, floordiv(N - 3, 2) + 5, 2 * M)},
        loop("i", floordiv(N - 3, 2) + 5, loop("j", 2 * M, Store("z", (variable("i"), variable("j")), lit(1.5)))),
        sizes={"n": (0, 0), "m": (1, 1)},
    )
    both = program(
        {"x": (F8, N), "y": (F8, N, M)},
        {"z": (F8, floordiv(N - 3, 2) + 5, 2 * M - 1)},
        loop("i", floordiv(N - 3, 2) + 5, loop("j", 2 * M - 1, Store("z", (variable("i"), variable("j")), lit(1.5)))),
        sizes={"n": (0, 0), "m": (1, 1)},
    )
    run = compile_program(both)
    for n, m in ((4, 3), (2, 1), (9, 2)):
        (z,) = run(np.zeros(n), np.zeros((n, m)))
        np.testing.assert_array_equal(z, np.full(((n - 3) // 2 + 5, 2 * m - 1), 1.5))
    with pytest.raises(ValueError, match=r"argument 1 \(y\) must have shape \(4, 3\), not \(5, 3\)"):
        run(np.zeros(4), np.zeros((5, 3)))


def test_outputs_that_repeat_or_are_inputs_are_copies():
    p = program(
        {"x": (F8, 3)},
        {"y": (F8, 3)},
        loop("i", 3, Store("y", (variable("i"),), op("negative", read("x", "i")))),
        returns=("y", "x", "y"),
    )
    x = np.arange(3.0)
    a, b, c = compile_program(p)(x)
    np.testing.assert_array_equal([a, b, c], [-x, x, -x])
    assert not any(np.shares_memory(u, v) for u, v in ((a, c), (b, x), (a, b)))


@pytest.mark.parametrize("size", [5, 64, 65, 1000])
def test_constants(size):
    value = RNG.normal(size=size)
    mask = value > 0
    p = program(
        {"x": (F8, size)},
        {"y": (F8, size)},
        loop(
            "i",
            size,
            Store(
                "y",
                (variable("i"),),
                op("where", read("m", "i", dtype=B1), op("add", read("x", "i"), read("c", "i")), lit(0)),
            ),
        ),
        others=(Buffer("c", F8, (size,), "constant", value), Buffer("m", B1, (size,), "constant", mask)),
    )
    run = compile_program(p)
    del p
    gc.collect()
    x = RNG.normal(size=size)
    np.testing.assert_array_equal(run(x)[0], np.where(mask, x + value, 0))


def two_stage(extent):
    """y = (2 x)[::-1] through a temporary, then z = 3 y through another."""
    i = variable("i")
    return program(
        {"x": (F8, extent)},
        {"z": (F8, extent)},
        loop("i", extent, Store("t", (i,), op("multiply", lit(2), read("x", "i")))),
        loop("i", extent, Store("u", (i,), op("add", lit(1), read("t", affine("i") * -1 + extent + (-1))))),
        loop("i", extent, Store("v", (i,), op("multiply", lit(3), read("u", "i")))),
        loop("i", extent, Store("z", (i,), op("add", read("v", "i"), read("u", "i")))),
        others=tuple(Buffer(n, F8, (extent,), "temp") for n in "tuv"),
        sizes={"n": (0, 0)} if extent == N else None,
    )


@pytest.mark.parametrize("extent", [100, N])
def test_temporaries(extent):
    run = compile_program(two_stage(extent))
    for size in (100,) if extent == 100 else (1, 100, 5000, 3, 100_000):
        x = RNG.normal(size=size)
        np.testing.assert_allclose(run(x)[0], 4 * (2 * x[::-1] + 1))


def test_concurrent_calls_have_their_own_workspace():
    run = compile_program(two_stage(N))
    inputs = [RNG.normal(size=20_000 + 100 * k) for k in range(8)]
    failures = []

    def work(x):
        for _ in range(50):
            if not np.allclose(run(x)[0], 4 * (2 * x[::-1] + 1)):
                failures.append(len(x))

    threads = [threading.Thread(target=work, args=(x,)) for x in inputs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_nothing_is_kept_alive():
    run = compile_program(two_stage(50))
    call, alive = run.call, weakref.ref(run)
    run(np.zeros(50))
    del run
    gc.collect()
    assert alive() is None
    np.testing.assert_array_equal(call(np.zeros(50))[0], np.full(50, 4.0))


def test_entry_from_njit():
    import numba

    run = compile_program(square_sum())
    entry = run.entry

    @numba.njit(nogil=True)
    def twice(x, s, g):
        total = 0.0
        for _ in range(2):
            entry(x, s, g)
            total += s[()]
        return total

    x = RNG.normal(size=1000)
    s, g = np.empty(()), np.empty(1000)
    np.testing.assert_allclose(twice(x, s, g), 2 * np.sum(x * x))
    np.testing.assert_array_equal(g, 2 * x)
    with pytest.raises(ValueError, match="not the shape"):
        twice(x, s, np.empty(999))


def test_bool_and_integers():
    i = variable("i")
    p = program(
        {"a": (B1, 9), "k": (np.int16, 9)},
        {"n": (B1, 9), "d": (np.int16, 9)},
        loop(
            "i",
            9,
            Store("n", (i,), op("logical_not", read("a", "i", dtype=B1), dtype=B1)),
            Let("two", op("add", read("k", "i", dtype=np.dtype("i2")), lit(2, np.dtype("i2")), dtype=np.dtype("i2"))),
            Store("d", (i,), name("two", np.dtype("i2"))),
        ),
    )
    a, k = RNG.random(9) > 0.5, np.arange(32760, 32769).astype(np.int16)
    n, d = compile_program(p)(a, k)
    np.testing.assert_array_equal(n, ~a)
    np.testing.assert_array_equal(d, k + np.int16(2))
    assert n.dtype == bool and d.dtype == np.int16


def test_float32_runs_in_float32():
    x = RNG.normal(size=100).astype(F4)
    s, g = compile_program(square_sum(dtype=F4))(x)
    assert s.dtype == g.dtype == F4
    np.testing.assert_array_equal(g, 2 * x)


def test_text_of_the_code(executable):
    assert "define" in executable.llvm() and "ret" in executable.asm()
    assert set(executable.stages) == {"runtime", "emit", "parse", "compile"}


def test_the_shared_functions_are_loaded_once():
    """By however many threads: code that programs point to must not be replaced."""
    script = """if True:
        import threading
        from tracegrad.emit import runtime
        found, start = [], threading.Barrier(4)
        def load():
            start.wait()
            found.append(runtime.load())
        threads = [threading.Thread(target=load) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        print(len(found), len({id(f) for f in found}))
    """
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "4 1\n"
