"""`tg.map` on several threads: the same bits for every number of them, and everything that can happen in a step."""

from __future__ import annotations

import _thread
import signal
import threading
from typing import Any

import numba
import numpy as np
import pytest

import tracegrad as tg
from tracegrad.emit import independent


def rows(w: Any, table: Any, xs: Any, picks: Any) -> Any:
    """Steps with a branch, an inner loop, a read at a computed place, and sums for three captured values."""

    def one(x: Any) -> Any:
        row, pick = x
        total = tg.fori_loop(0, 4, lambda i, c: np.tanh(c + row[i]) * table[pick], np.sum(row * w))
        return tg.cond(row[0] > 0, lambda: total * w[1], lambda: total + table[0])

    return np.sum(tg.map(one, (xs, picks)) ** 2)


def arguments(n: int = 1500) -> tuple[Any, ...]:
    rng = np.random.default_rng(3)
    return rng.standard_normal(16), rng.standard_normal(90), rng.standard_normal((n, 16)), rng.integers(-90, 90, n)


def with_threads(count: int, function: Any, *args: Any) -> Any:
    before = numba.get_num_threads()
    numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
    try:
        return function(*args)
    finally:
        numba.set_num_threads(before)


def test_the_same_bits_for_any_number_of_threads():
    gradient = tg.value_and_grad(rows, argnums=(0, 1, 2))
    args = arguments()
    (value, found), *others = (with_threads(k, gradient, *args) for k in (1, 2, 8))
    for other, gradients in others:
        assert other == value
        for a, b in zip(gradients, found, strict=True):
            np.testing.assert_array_equal(a, b)
    assert "1500 steps, independent of each other;" in str(tg.explain(gradient))
    w, table, xs, picks = args
    total = np.sum(xs * w, axis=1)
    for i in range(4):
        total = np.tanh(total + xs[:, i]) * table[picks]
    y = np.where(xs[:, 0] > 0, total * w[1], total + table[0])
    np.testing.assert_allclose(value, np.sum(y * y), rtol=1e-12)
    by_steps = [np.zeros_like(a) for a in args[:3]]
    with tg.eager():  # step by step, by the tape
        for k in (0, 700, 1498):
            part = tg.grad(rows, argnums=(0, 1, 2))(w, table, xs[k : k + 2], picks[k : k + 2])
            by_steps[2][k : k + 2] = part[2]
    for k in (0, 700, 1498):
        np.testing.assert_allclose(found[2][k : k + 2], by_steps[2][k : k + 2], rtol=1e-10, atol=1e-13)


def test_sums_of_chunks(monkeypatch: pytest.MonkeyPatch):
    """Chunks of a few steps, large sums, counts in a carry, second order; more chunks than fit the steps evenly."""
    monkeypatch.setattr(independent, "GRAIN", 100)

    def function(a: Any, n: int) -> Any:
        return np.sum(tg.map(lambda i: np.sin(a[i] * a[i + 1] + i) * np.sum(a * a), np.arange(2, n)))

    a, n = np.linspace(0.1, 2.0, 130), 40
    both = tg.value_and_grad(lambda a: function(a, n))
    i = np.arange(2, n)
    angle, square = a[i] * a[i + 1] + i, np.sum(a * a)
    expected = 2 * a * np.sum(np.sin(angle))
    np.add.at(expected, i, np.cos(angle) * square * a[i + 1])
    np.add.at(expected, i + 1, np.cos(angle) * square * a[i])
    value, found = both(a)
    np.testing.assert_allclose(value, np.sum(np.sin(angle)) * square, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
    direction, step = np.cos(a), 1e-6
    product = tg.jvp(lambda a: tg.grad(lambda a: function(a, n))(a), (a,), (direction,))[1]
    differences = (both(a + step * direction)[1] - both(a - step * direction)[1]) / (2 * step)
    np.testing.assert_allclose(product, differences, rtol=1e-6, atol=1e-5)


def test_errors_and_python_in_steps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(independent, "GRAIN", 100)
    x = np.arange(300.0)
    function = tg.jit(lambda x, i: tg.map(lambda k: np.sqrt(x[k]) + k, i))
    np.testing.assert_allclose(function(x, np.arange(300)), np.sqrt(x) + np.arange(300), rtol=1e-14)
    positions = np.arange(300)
    positions[[41, 207]] = 1041, 1207
    with pytest.raises(IndexError, match="index 1041"):  # of the first chunk that has one
        function(x, positions)
    sorted_rows = tg.jit(lambda x: tg.map(lambda r: np.sort(r)[::-1] + np.linalg.eigvalsh(np.outer(r, r))[0] * 0, x))
    rows = np.random.default_rng(0).standard_normal((64, 5))
    np.testing.assert_allclose(sorted_rows(rows), np.sort(rows, 1)[:, ::-1], rtol=1e-14)


def test_a_step_that_does_not_end_can_be_interrupted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(independent, "GRAIN", 100)

    def count(n: Any) -> Any:
        return tg.while_loop(lambda c: c < n, lambda c: c + 1, 0)

    function = tg.jit(lambda ns: tg.map(count, ns))
    np.testing.assert_array_equal(function(np.arange(64)), np.arange(64))
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            function(np.full(64, 10**12))
    finally:
        timer.join()
        signal.signal(signal.SIGINT, former)
    np.testing.assert_array_equal(function(np.arange(64)), np.arange(64))
