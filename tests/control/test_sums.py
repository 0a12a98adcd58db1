"""Gradients of what is the same in all steps: sums that are made after the loop, from factors that the loop keeps."""

from __future__ import annotations

from typing import Any

import numpy as np

import tracegrad as tg
from tracegrad.ops.loops import Scan

RNG = np.random.default_rng(0)


def carried(function: Any) -> list[list[int]]:
    """Per scan of the optimised program, the sizes of its carries."""
    (entry,) = next(iter(function.entries.values()))
    graph = entry.program.stage("optimized")
    scans = [n for n in graph.all_nodes() if n.op is Scan]
    return [[v.type.size for v in n.inputs[: n.attrs["n_carry"]]] for n in scans]


def check(function: Any, args: tuple[Any, ...], largest: int) -> None:
    """The gradients equal those of the eager tape, and no loop carries more than `largest` numbers in one value."""
    every = tuple(range(len(args)))
    compiled = tg.value_and_grad(function, argnums=every)
    value, gradients = compiled(*args)
    with tg.eager():
        expected, by_tape = tg.value_and_grad(function, argnums=every)(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for found, wanted in zip(gradients, by_tape, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    assert max(max(sizes, default=0) for sizes in carried(compiled)) <= largest


def test_weights_of_a_recurrent_cell():
    def function(W: Any, U: Any, b: Any, h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            gate = 1 / (1 + np.exp(-(x @ W[0] + h @ U[0] + b)))
            h = gate * np.tanh(x @ W[1] + (gate * h) @ U[1]) + (1 - gate) * h
            return h, h

        h, hs = tg.scan(step, h, xs)
        return np.mean(hs**2) + h.sum()

    shapes = (2, 22, 24), (2, 24, 24), (24,), (5, 24), (7, 5, 22)
    check(function, tuple(RNG.standard_normal(s) * 0.3 for s in shapes), 5 * 24)


def test_matrices_times_vectors():
    def function(A: Any, B: Any, h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            return np.tanh(A @ h + x @ B), np.sum(h)

        h, ys = tg.scan(step, h, xs, reverse=True)
        return h @ h + ys.sum()

    shapes = (30, 30), (25, 30), (30,), (6, 25)
    check(function, tuple(RNG.standard_normal(s) * 0.3 for s in shapes), 30)


def test_rows_read_at_computed_positions():
    positions = np.array([3, 0, 19, 3, -1, 7])

    def function(table: Any, data: Any, h: Any) -> Any:
        def step(h: Any, k: Any) -> Any:
            return np.sin(h * table[k] + table[:, 2][:6]), None

        h = tg.scan(step, h, positions)[0]
        return tg.fori_loop(0, 30, lambda i, h: h * data[i] + data[29 - i, 1], h).sum()

    check(function, (RNG.standard_normal((20, 6)), RNG.standard_normal((30, 6)), RNG.standard_normal(6)), 20)


def test_what_a_derivative_shares_with_the_step_is_kept_too():
    """The derivative of cos is a sine that the step has on its tape."""

    def rotate(x: Any) -> Any:
        return tg.fori_loop(0, 9, lambda i, c: c * np.cos(c) + np.sin(c), x)

    gradient = tg.grad(rotate)
    x, slope = 0.4, 1.0
    for _ in range(9):
        slope *= 2 * np.cos(x) - x * np.sin(x)
        x = x * np.cos(x) + np.sin(x)
    np.testing.assert_allclose(gradient(0.4), slope, rtol=1e-12)
    adjoint = gradient.show("schedule").split("_adjoint", 1)[1]
    assert "sin(" not in adjoint and "cos(" not in adjoint
