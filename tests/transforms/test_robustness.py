"""Compiled functions in a long-lived process: memory, threads, forks, and arrays of every layout."""

import copy
import gc
import os
import pickle
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import pytest

import tracegrad as tg

LARGE = np.linspace(-2, 2, 400_000)  # more than one thread is worth its while


def loss(x):
    return np.sum(np.sin(x) * x) / np.sqrt(np.sum(x * x))


def loss_gradient(x):
    norm = np.sqrt(np.sum(x * x))
    return (np.cos(x) * x + np.sin(x)) / norm - np.sum(np.sin(x) * x) * x / norm**3


def resident() -> int:
    """Bytes of memory this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_function_that_is_dropped_takes_its_programs_with_it():
    programs = []
    x = np.arange(3.0)
    for number in range(5):
        f = tg.value_and_grad(lambda x: np.sum(x * number))
        f(x), f(x)
        (entry,) = (entry for group in f.entries.values() for entry in group)
        programs.append(weakref.ref(entry.program.executable))
    del f, entry
    gc.collect()
    assert [p() for p in programs] == [None] * 5


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_calls_hold_on_to_no_memory():
    x = np.linspace(0, 1, 20_000)
    f, g = tg.value_and_grad(loss), tg.jit(lambda x: {"sorted": np.sort(x), "sums": np.cumsum(x)})
    tensor = tg.tensor(x, requires_grad=True)
    h = tg.jit(loss)

    def calls(count):
        for _ in range(count):
            f(x), g(x)
            h(tensor).backward()
            tensor.grad = None

    calls(50)
    before = resident()
    calls(200)
    assert resident() - before < 30 * x.nbytes  # a leak of one array per call would be 200


def test_threads_share_programs_and_compile_their_own():
    shared = tg.value_and_grad(loss)
    barrier = threading.Barrier(4)

    def work(seed):
        own = tg.value_and_grad(lambda x: seed * loss(x))
        x = np.random.default_rng(seed).standard_normal(50_000 + seed % 2)
        barrier.wait()
        for _ in range(5):
            for f, factor in ((shared, 1), (own, seed)):
                value, gradient = f(x)
                np.testing.assert_allclose(value, factor * loss(x), rtol=1e-10)
                np.testing.assert_allclose(gradient, factor * loss_gradient(x), rtol=1e-9, atol=1e-12)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(1, 5)))


def test_the_number_of_threads_changes_no_bit():
    f = tg.value_and_grad(loss)
    threads = numba.get_num_threads()
    results = []
    try:
        for count in {1, min(2, threads), threads}:
            numba.set_num_threads(count)
            results.append(f(LARGE))
    finally:
        numba.set_num_threads(threads)
    for value, gradient in results[1:]:
        assert value == results[0][0]
        np.testing.assert_array_equal(gradient, results[0][1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_calls_and_compiles():
    f = tg.value_and_grad(loss)
    value, gradient = f(LARGE)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            again, same = f(LARGE)
            other = tg.jit(lambda x: np.exp(x) + 1)(LARGE)
            right = again == value and np.array_equal(same, gradient) and np.allclose(other, np.exp(LARGE) + 1)
            status = 0 if right else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert f(LARGE)[0] == value


def readonly(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def misaligned(x):
    raw = np.empty(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    raw[...] = x
    return raw


X = np.linspace(-1, 2, 24).reshape(4, 6)
LAYOUTS = {
    "read-only": readonly(X), "byte-swapped": X.astype(X.dtype.newbyteorder()), "misaligned": misaligned(X),
    "negative strides": X[::-1, ::-2], "transposed": X.T, "Fortran order": np.asfortranarray(X),
    "strides of zero": np.broadcast_to(X[0], (5, 6)), "no dimensions": np.array(0.7), "a NumPy number": X[1, 2],
    "no elements": X[:0], "no columns": X[:, :0], "a matrix of one": X[:1, :1],
    "overlapping windows": np.lib.stride_tricks.sliding_window_view(X[0], 3),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_of_every_layout(layout):
    """One program for the conforming array serves the others of its shape; each gives NumPy's result and gradient."""
    x = LAYOUTS[layout]
    f, g = tg.jit(lambda x: (np.exp(x), np.sum(x), x)), tg.grad(lambda x: np.sum(np.sin(x)))
    conforming = np.ascontiguousarray(x, X.dtype).reshape(x.shape)
    for given in (x, conforming, x):
        before = given.copy()
        exponentials, total, same = f(given)
        np.testing.assert_allclose(exponentials, np.exp(x), rtol=1e-15)
        np.testing.assert_allclose(total, np.sum(x), rtol=1e-14)
        np.testing.assert_array_equal(same, x)
        gradient = g(given)
        np.testing.assert_allclose(gradient, np.cos(x), rtol=1e-14)
        assert all(r.dtype == X.dtype and r.dtype.isnative for r in (exponentials, total, same, gradient))
        assert not np.shares_memory(same, x) and np.shape(gradient) == x.shape
        np.testing.assert_array_equal(given, before)


@tg.jit
def doubled(x):
    return 2 * x


def squared(x):
    return np.sum(x**2)


@tg.hessian
def curvature(x):
    return np.sum(x**3)


class Scaled:
    def __init__(self, weight):
        self.weight, self.total = weight, tg.jit(self.by_weight)

    def by_weight(self, x):
        return np.sum(self.weight * x)


def test_pickling_and_copying():
    assert pickle.loads(pickle.dumps(doubled)) is doubled is copy.deepcopy(doubled)
    gradient, x = tg.grad(squared), np.ones(2)
    assert gradient(x).tolist() == [2, 2] == pickle.loads(pickle.dumps(gradient))(x).tolist()
    assert pickle.loads(pickle.dumps(curvature)) is curvature
    other = pickle.loads(pickle.dumps(tg.jacfwd(squared, has_aux=False)))
    assert other(x).tolist() == [2, 2] and curvature(x).tolist() == [[6, 0], [0, 6]]
    one = Scaled(x)
    assert one.total(x) == 2
    for other in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        other.weight[:] = 5
        assert other.total(x) == 10 and one.total(x) == 2
