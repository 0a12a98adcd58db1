"""Parallel loops: same bits for every number of threads, partial results, errors, forks, concurrent callers."""

import os
import subprocess
import sys
import textwrap
import threading

import numba
import numpy as np
import pytest

from tests.emit.programs import F4, F8, I8, at_least, below, lit, loop, name, op, program, read
from tracegrad.emit import compile_program, parallel, runtime
from tracegrad.emit.layout import POOL
from tracegrad.ir.dims import symbol
from tracegrad.ir.index import variable
from tracegrad.schedule.loops import Buffer, Check, Declare, Fill, Let, Store, Update, UpdateAt, Value

N, M = symbol("n"), symbol("m")
i, j = variable("i"), variable("j")


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def everything(extent=N, columns=5):
    """Sums, extremes, an array accumulator and stores in one parallel loop over rows."""
    x = read("x", "i", "j")
    return program(
        {"x": (F8, extent, columns)},
        {"y": (F8, extent, columns), "g": (F8, columns), "s": (F8,), "top": (F8,), "f": (F4,)},
        Fill("g", "add"),
        Declare("sum", "add", F8),
        Declare("max", "maximum", F8),
        Declare("low", "add", F4),
        loop(
            "i",
            extent,
            loop(
                "j",
                columns,
                Let("v", op("multiply", x, x)),
                Store("y", (i, j), op("sqrt", name("v"))),
                UpdateAt("g", (j,), "add", name("v")),
                Update("sum", "add", op("sin", name("v"))),
                Update("max", "maximum", x),
            ),
            Update("low", "add", lit(1 / 3, F4)),
            kind="parallel",
            reduced=("g", "sum", "max", "low"),
        ),
        Store("s", (), name("sum")),
        Store("top", (), name("max")),
        Store("f", (), name("low", F4)),
        sizes={"n": (0, 0)} if extent == N else None,
    )


def check_everything(found, x):
    y, g, s, top, f = found
    np.testing.assert_array_equal(y, np.abs(x))
    np.testing.assert_allclose(g, (x * x).sum(0), rtol=1e-12)
    np.testing.assert_allclose(s, np.sin(x * x).sum(), rtol=1e-12, atol=1e-9)
    assert top == x.max(initial=-np.inf)
    np.testing.assert_allclose(f, len(x) / 3, rtol=1e-6)


def with_threads(count, run, *arrays):
    before = numba.get_num_threads()
    numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
    try:
        return run(*arrays)
    finally:
        numba.set_num_threads(before)


def test_all_sizes(rng):
    run = compile_program(everything())
    for size in (0, 1, 2, 15, 1000, 33_333, 100_003):
        x = rng.normal(size=(size, 5))
        check_everything(run(x), x)
    fixed = compile_program(everything(100_003))
    check_everything(fixed(x), x)
    np.testing.assert_array_equal(run(x)[2], fixed(x)[2])


def test_small_loops_are_not_cut():
    assert "tg_parallel" not in compile_program(everything(100)).llvm()
    assert "tg_parallel" in compile_program(everything(100_000)).llvm()


SCRIPT = """
import sys
import numpy as np, numba
from tests.emit.test_parallel import everything
from tracegrad.emit import compile_program
numba.set_num_threads(int(sys.argv[1]))
x = np.random.default_rng(1).normal(size=(200_000, 5))
sys.stdout.write("".join(a.tobytes().hex()[-40:] for a in compile_program(everything())(x)))
"""


def test_same_bits_for_every_number_of_threads():
    results = set()
    for threads in ("1", "2", "8"):
        environment = {**os.environ, "NUMBA_NUM_THREADS": threads, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", SCRIPT, threads]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        results.add(done.stdout)
    assert len(results) == 1 and len(results.pop()) > 100


def test_thread_mask_is_respected(rng):
    run = compile_program(everything())
    x = rng.normal(size=(200_000, 5))
    one, all_ = with_threads(1, run, x), run(x)
    for a, b in zip(one, all_):
        np.testing.assert_array_equal(a, b)


def test_first_failing_check_in_order_wins(rng):
    p = program(
        {"x": (F8, 100), "index": (I8, N)},
        {"y": (F8, N)},
        loop(
            "i",
            N,
            Check("k", read("index", "i", dtype=I8), 100, 0),
            Store("y", (i,), op("exp", read("x", Value("k")))),
            kind="parallel",
        ),
        sizes={"n": (1, 0)},
    )
    run = compile_program(p)
    x, index = rng.normal(size=100), rng.integers(-100, 100, 500_000)
    np.testing.assert_allclose(run(x, index)[0], np.exp(x[index]))
    index[[100_000, 300_000, 450_000]] = 777, 888, 999
    for _ in range(5):
        with pytest.raises(IndexError, match="index 777 is out of bounds for axis 0 with size 100"):
            run(x, index)


def test_large_local_buffers_have_a_copy_per_chunk(rng):
    columns = 5000
    p = program(
        {"x": (F8, N, columns)},
        {"y": (F8, N, columns)},
        loop(
            "i",
            N,
            Declare("total", "add", F8),
            loop(
                "j",
                columns,
                Let("e", op("exp", read("x", "i", "j"))),
                Store("row", (j,), name("e")),
                Update("total", "add", name("e")),
            ),
            loop("j", columns, Store("y", (i, j), op("divide", read("row", "j"), name("total")))),
            kind="parallel",
        ),
        others=(Buffer("row", F8, (columns,), "local"),),
        sizes={"n": (0, 0)},
    )
    x = rng.normal(size=(200, columns))
    e = np.exp(x)
    np.testing.assert_allclose(compile_program(p)(x)[0], e / e.sum(1, keepdims=True), rtol=1e-13)


def test_chunks_of_a_loop_that_is_split_at_bounds(rng):
    inside = (at_least("i", 2), below("i", N - 3))
    e = op("sin", op("add", read("x", i + (-2), when=inside, fill=5), read("x", i + 3, when=inside)))
    p = program(
        {"x": (F8, N)},
        {"y": (F8, N), "s": (F8,)},
        Declare("sum", "add", F8),
        loop(
            "i",
            N,
            Let("v", e),
            Store("y", (i,), name("v")),
            Update("sum", "add", name("v")),
            kind="parallel",
            reduced=("sum",),
        ),
        Store("s", (), name("sum")),
        sizes={"n": (0, 0)},
    )
    run = compile_program(p)
    for size in (0, 1, 4, 5, 6, 7, 20, 40_000, 200_001):
        x = rng.normal(size=size)
        expected = np.full(size, 5.0)
        expected[2 : size - 3] = x[: max(size - 5, 0)] + x[5:]
        y, s = run(x)
        np.testing.assert_allclose(y, np.sin(expected), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(s, np.sin(expected).sum(), rtol=1e-11, atol=1e-9)


def test_concurrent_callers(rng):
    run = compile_program(everything())
    inputs = [rng.normal(size=(60_000 + 1000 * k, 5)) for k in range(6)]
    expected = [run(x) for x in inputs]
    problems = []

    def work(x, right):
        for _ in range(10):
            problems.extend(k for k, (a, b) in enumerate(zip(run(x), right)) if not np.array_equal(a, b))

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, expected)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not problems


def test_inside_a_parallel_numba_function(rng):
    run = compile_program(everything())
    entry = run.entry

    @numba.njit(parallel=True)
    def many(x, y, g, s, top, f):
        for k in numba.prange(len(x)):
            entry(x[k], y[k], g[k], s[k].reshape(()), top[k].reshape(()), f[k].reshape(()))

    x = rng.normal(size=(4, 50_000, 5))
    outputs = [
        np.empty(shape, d) for shape, d in ((x.shape, F8), ((4, 5), F8), ((4, 1), F8), ((4, 1), F8), ((4, 1), F4))
    ]
    many(x, *outputs)
    for k in range(4):
        for found, expected in zip((o[k].ravel() for o in outputs), run(x[k])):
            np.testing.assert_array_equal(found, expected.ravel())


FORK = """
import os, sys
import numpy as np
from tests.emit.test_parallel import check_everything, everything
from tracegrad.emit import compile_program
run = compile_program(everything())
x = np.random.default_rng(1).normal(size=(200_000, 5))
parent = run(x)
child = os.fork()
if child == 0:
    try:
        same = all(np.array_equal(a, b) for a, b in zip(run(x), parent))
        compile_program(everything(90_000))(x[:90_000])
        os._exit(0 if same else 3)
    except BaseException:
        os._exit(4)
assert os.waitpid(child, 0)[1] == 0
check_everything(run(x), x)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_forked_children_and_the_workqueue_layer(layer):
    environment = {**os.environ, "NUMBA_THREADING_LAYER": layer, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORK)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_pool_starts_with_the_first_parallel_run():
    script = """
        import numpy as np
        from tests.emit.test_parallel import everything
        from tracegrad.emit import compile_program, runtime
        from tracegrad.emit.layout import POOL
        run = compile_program(everything())
        run(np.zeros((10, 5)))
        assert runtime._pool_state[POOL.state] == 0
        run(np.zeros((100_000, 5)))
        assert runtime._pool_state[POOL.state] in (1, -1)
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_without_a_pool_loops_run_serially(rng, monkeypatch):
    run = compile_program(everything())
    x = rng.normal(size=(100_000, 5))
    expected = run(x)
    before = runtime._pool_state[POOL.state]
    runtime._pool_state[POOL.state] = -1
    try:
        for a, b in zip(run(x), expected):
            np.testing.assert_array_equal(a, b)
    finally:
        runtime._pool_state[POOL.state] = before


def test_grain_grows_with_partial_arrays():
    """A loop whose array accumulator is as large as its work is not worth cutting."""
    wide = everything(300, 20_000)
    assert not parallel.may_be_parallel(wide.body[4], {b.name: b for b in wide.buffers}) or parallel.MAX_CHUNKS < 300
    buffers = {b.name: b for b in everything(60_000).buffers}
    assert parallel.may_be_parallel(everything(60_000).body[4], buffers)
