"""Sizes that are symbols: one program for all sizes, 0 and 1 included."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedule.graphs import GraphBuilder, assert_same, scheduled
from tracegrad.ir.dims import symbol
from tracegrad.schedule.loops import Loop
from tracegrad.schedule.rewrite import walk

n, m = symbol("n"), symbol("m")


def test_neighbours_and_their_adjoint_share_one_loop() -> None:
    f = GraphBuilder()
    x = f.input((n,), name="x")
    after = f("slice", x, start=(1,), size=(n - 1,), step=(1,))
    before = f("slice", x, start=(0,), size=(n - 1,), step=(1,))
    d = f("subtract", after, before)
    two_d = f("add", d, d)
    left = f("unslice", f("negative", two_d), shape=(n,), start=(0,), step=(1,), fill=0)
    right = f("unslice", two_d, shape=(n,), start=(1,), step=(1,), fill=0)
    program = scheduled(f.graph(f.sum(f("square", d)), f("add", left, right)))
    assert sum(isinstance(s, Loop) for s in program.body) == 1
    for size in (1, 2, 3, 9):
        x_value = np.random.default_rng(size).standard_normal(size)
        d_value = np.diff(x_value)
        gradient = np.zeros(size)
        gradient[1:] += 2 * d_value
        gradient[:-1] -= 2 * d_value
        assert_same(program, [x_value], [np.sum(d_value**2), gradient])


def test_rows_and_columns() -> None:
    f = GraphBuilder()
    x = f.input((n, m), name="x")
    e = f("exp", f("subtract", x, f("max", x, axis=(1,), keepdims=True)))
    p = f("divide", e, f.sum(e, 1, True))
    program = scheduled(f.graph(p, f.sum(p, 0)))
    assert sum(isinstance(s, Loop) for s in program.body) == 1
    for shape in ((1, 1), (3, 4), (5, 1), (0, 3)):
        x_value = np.random.default_rng(0).standard_normal(shape)
        e_value = np.exp(x_value - x_value.max(1, keepdims=True))
        p_value = e_value / e_value.sum(1, keepdims=True)
        assert_same(program, [x_value], [p_value, p_value.sum(0)])


def test_matrix_vector_and_its_adjoint() -> None:
    f = GraphBuilder()
    a, v = f.input((n, m), name="a"), f.input((m,), name="v")
    r = f("tanh", f("matmul", a, v))
    program = scheduled(f.graph(f("matmul", f("transpose", a, axes=(1, 0)), r)))
    blocks, rest = n // 32, n - 32 * (n // 32)  # rows in blocks, and those that fill none
    extents = [s.extent for s in walk(program.body) if isinstance(s, Loop)]
    assert extents == [blocks, 32, m, 32, 32, m, rest, m, m]
    for shape in ((1, 1), (4, 6), (0, 2), (3, 0), (64, 2), (75, 3)):
        rng = np.random.default_rng(1)
        a_value, v_value = rng.standard_normal(shape), rng.standard_normal(shape[1])
        assert_same(program, [a_value, v_value], [a_value.T @ np.tanh(a_value @ v_value)])


def test_concatenation_and_reshape() -> None:
    f = GraphBuilder()
    x, y = f.input((n,), name="x"), f.input((m, 3), name="y")
    flat = f("reshape", y, shape=(m * 3,))
    joined = f("concatenate", x, flat, axis=0)
    program = scheduled(f.graph(f("square", joined), f.sum(joined)))
    for sizes in ((1, 1), (4, 2), (0, 2), (2, 0)):
        rng = np.random.default_rng(2)
        values = rng.standard_normal(sizes[0]), rng.standard_normal((sizes[1], 3))
        expected = np.concatenate([values[0], values[1].ravel()])
        assert_same(program, values, [expected**2, expected.sum()])


def test_extents_are_equal_only_if_provably_so() -> None:
    f = GraphBuilder()
    x, y = f.input((n,), name="x"), f.input((m,), name="y")
    program = scheduled(f.graph(f("exp", x), f("exp", y)))
    assert [s.extent for s in program.body if isinstance(s, Loop)] in ([n, m], [m, n])


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_arrays_without_elements(shape: tuple[int, ...]) -> None:
    f = GraphBuilder()
    x = f.input(shape, name="x")
    y = f("exp", x)
    program = scheduled(f.graph(y, f.sum(y), f.sum(x, 0), f("reshape", y, shape=(0,))))
    value = np.zeros(shape)
    assert_same(program, [value], [value, np.array(0.0), value.sum(0), np.zeros(0)])
