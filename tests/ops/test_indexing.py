"""Indexing against NumPy: random index expressions read, written and added to; then the functions built on it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.ops.derivatives import check_derivatives, gradients
from tests.ops.functions import assert_same, check_function, plain, traced_values
from tests.ops.samples import values
from tracegrad.errors import ShapeError, TracegradIndexError
from tracegrad.ir.types import Type
from tracegrad.ops.index_writes import index_add, index_update
from tracegrad.ops.indexing import getitem
from tracegrad.ops.taking import update_along_axis
from tracegrad.state import setting
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace

V, M, T = values((5,)), values((3, 4)), values((2, 3, 4))


def random_index(choose: random.Random, shape: tuple[int, ...]) -> Any:
    """An index of an array of this shape that holds everything NumPy knows, sometimes out of range."""
    rng = np.random.default_rng(choose.randrange(2**32))
    common = choose.choice([(2,), (3, 2), (1,), ()])
    items: list[Any] = []
    axis, ellipsis = 0, False
    while axis < len(shape) and choose.random() < 0.93:
        kind, size = choose.random(), shape[axis]
        if kind < 0.1:
            items.append(None)
        elif kind < 0.18 and not ellipsis:
            items.append(Ellipsis)
            axis, ellipsis = axis + choose.randint(0, len(shape) - axis), True
        elif kind < 0.32:
            items.append(choose.choice([np.int32, int])(choose.randrange(-size, size + (choose.random() < 0.05))))
            axis += 1
        elif kind < 0.65:
            bounds = [None, *range(-size - 1, size + 2)]
            items.append(
                slice(choose.choice(bounds), choose.choice(bounds), choose.choice([None, 1, 2, 3, -1, -2, -3]))
            )
            axis += 1
        elif kind < 0.82:
            places = rng.integers(-size, size + (choose.random() < 0.03), choose.choice([common, common[-1:], (1,)]))
            items.append(places.tolist() if choose.random() < 0.3 and places.ndim else places)
            axis += 1
        elif kind < 0.9:
            items.append(rng.random(size) < 0.5)
            axis += 1
        elif kind < 0.95 and axis + 1 < len(shape):
            items.append(rng.random(shape[axis : axis + 2]) < 0.4)
            axis += 2
        elif kind < 0.97:
            items.append(choose.random() < 0.7)
    return tuple(items) if len(items) != 1 or choose.random() < 0.5 else items[0]


@pytest.mark.parametrize("seed", range(24))
def test_random_index_expressions(seed: int):
    choose = random.Random(seed)
    for _ in range(40):
        shape = tuple(choose.choice([1, 2, 3, 4]) for _ in range(choose.randint(0, 4)))
        x, index = values(shape, seed=seed), random_index(choose, shape)
        try:
            expected = x[index]
        except IndexError:
            with pytest.raises(TracegradIndexError):
                getitem(Tensor._wrap(x), index)
            continue
        check_written(x, index, values(np.shape(expected), seed=seed + 1))
        assert_same(getitem(Tensor._wrap(x), index), expected)
        assert_same(traced_values(lambda t, index=index: getitem(t, index), [x]), expected)


def check_written(x: np.ndarray, index: Any, value: np.ndarray) -> None:
    expected = x.copy()
    expected[index] = value
    assert_same(index_update(Tensor._wrap(x), index, Tensor._wrap(value)), expected)
    assert_same(traced_values(lambda a, b: index_update(a, index, b), [x, value]), expected)
    expected = x.copy()
    np.add.at(expected, index, value)
    assert_same(index_add(Tensor._wrap(x), index, Tensor._wrap(value)), expected)


@pytest.mark.parametrize("seed", range(16))
def test_derivatives_of_random_index_expressions(seed: int):
    choose = random.Random(1000 + seed)
    for _ in range(4):
        shape = tuple(choose.choice([2, 3]) for _ in range(choose.randint(1, 3)))
        x, index = values(shape, seed=seed), random_index(choose, shape)
        try:
            taken = x[index]
        except IndexError:
            continue
        v = values(np.shape(taken), seed=seed + 1)
        check_derivatives(lambda t, index=index: getitem(t, index) * getitem(t, index), [x])
        check_derivatives(lambda t, u, index=index: index_update(t, index, u * u) * t, [x, v])
        check_derivatives(lambda t, u, index=index: index_add(t, index, u * u) * t, [x, v])


def test_repeated_positions_add_up():
    (g,) = gradients(lambda x: x[[0, 0]], [np.array([0.1])], [np.array([0.2, 0.3])])
    np.testing.assert_allclose(g, [0.5])


def test_the_last_write_alone_gets_the_gradient():
    x, v = np.zeros(3), np.arange(5.0)
    weights = [np.array([10.0, 20.0, 30.0])]
    gx, gv = gradients(lambda a, b: index_update(a, [0, 0, 0, 0, 0], b), [x, v], weights)
    np.testing.assert_array_equal(gx, [0, 20, 30])
    np.testing.assert_array_equal(gv, [0, 0, 0, 0, 10])


def test_written_values_are_broadcast_and_cast():
    x = np.arange(6).reshape(2, 3)
    assert_same(index_update(Tensor._wrap(x), (slice(None), [0, 2]), 7.9), np.array([[7, 1, 7], [7, 4, 7]]))
    assert_same(index_update(Tensor._wrap(x), 0, np.array([[8, 9, 10]])), np.array([[8, 9, 10], [3, 4, 5]]))
    assert_same(index_update(Tensor._wrap(V), [1, 2], -0.0), np.where(np.isin(range(5), [1, 2]), -0.0, V))


@pytest.mark.parametrize(
    "index", [5, -6, [0, 5], (0, 0), 1.5, [0.5], "a", (..., ...), np.ones(4, bool), np.ones((5, 1), bool)], ids=str
)
def test_bad_indices(index: Any):
    with pytest.raises(IndexError):
        V[index]
    with pytest.raises(TracegradIndexError):
        Tensor._wrap(V)[index]


def test_index_arrays_that_do_not_broadcast():
    with pytest.raises(TracegradIndexError, match="broadcast"):
        Tensor._wrap(M)[[0, 1], [0, 1, 2]]


# ---- inside a trace -----------------------------------------------------------------------------------------------


def test_index_that_is_traced_is_an_input():
    trace = Trace("f")
    with setting(trace=trace):
        x = trace.add_input(Type(V.dtype, V.shape), "x", V)
        i = trace.add_input(Type(np.dtype(int), (2,)), "i", np.array([1, 1]))
        trace.lift(x[i])
    assert not trace.guards
    assert any(node.name == "gather" for node in trace.nodes)


def test_traced_mask_guards_its_count():
    trace = Trace("f")
    with setting(trace=trace):
        x = trace.add_input(Type(V.dtype, V.shape), "x", V)
        taken = x[x > 0]
    assert [number for _, number in trace.guards] == [int((V > 0).sum())]
    assert_same(plain(taken), V[V > 0])


def test_symbolic_mask_is_an_error_that_names_where():
    from tracegrad.errors import ArgumentError

    trace = Trace("f")
    with setting(trace=trace):
        x = trace.add_input(Type(np.dtype(float), (3,)))
        with pytest.raises(ArgumentError, match=r"how many elements a mask selects[^$]*np.where\(mask"):
            x[x > 0]


def test_captured_index_array_stays_an_input():
    places = np.array([[0], [1]])
    trace = Trace("f")
    with setting(trace=trace):
        x = trace.add_input(Type(M.dtype, M.shape), "x", M)
        out = trace.lift(x[places, [0, 1]])
    _, captured = trace.finish((out,))
    assert any(c is places for c in captured)


def test_slices_of_symbolic_axes():
    from tracegrad.ir.dims import symbol

    n = symbol("n")
    trace = Trace("f")
    with setting(trace=trace):
        x = trace.add_input(Type(np.dtype(float), (n, 3)))
        shapes = [
            x[1:].shape,
            x[:-2].shape,
            x[::2].shape,
            x[::-1].shape,
            x[-1].shape,
            x[n - 1, 0].shape,
            x[1 : n - 1].shape,
        ]
    assert shapes == [(n - 1, 3), (n - 2, 3), ((n + 1) // 2, 3), (n, 3), (3,), (), (n - 2, 3)]
    assert trace.assumptions >= {n - 1, n - 2}


# ---- functions ----------------------------------------------------------------------------------------------------

SORTED = np.argsort(M, 1)
CASES: list[tuple[Any, ...]] = [
    (np.take, V, [0, 2, 2]), (np.take, V, 3), (np.take, M, [[0, 5], [11, -1]]), (np.take, M, [1, 0, 1], 0),
    (np.take, M, -1, 1),
    (np.take, T, np.array([[0, 1]]), 2), (np.take, V, []), (np.take_along_axis, M, SORTED, 1),
    (np.take_along_axis, M, np.array([[0], [2], [1]]), 1), (np.take_along_axis, M, np.array([[0, 2, 1, 1]]), 0),
    (np.take_along_axis, M, np.array([3, 3]), None),
    (np.compress, [True, False, True], M, 0), (np.compress, np.array([0, 1, 1, 0]), M, 1), (np.compress, [0, 1], M),
    (np.extract, M > 0, M), (np.choose, np.array([0, 1, 1, 0, 1]), [V, -V]),
    (np.choose, np.array([[0], [1]]), [V, np.array(2.0)]),
    (np.choose, [1, 0], (V[:2], values((3, 2)))), (np.select, [V > 1, V > 0], [V, V * 2]),
    (np.select, [V > 1, V > 0], [V, V * 2], -1.0),
    (np.select, [M > 0], [V[:4].astype(np.float32)], 1.0),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0].__name__ + repr(c[2:])[:50])
def test_functions_against_numpy(case: tuple[Any, ...]):
    check_function(case[0], case[1:])


@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_modes_for_positions_out_of_range(mode: str):
    check_function(np.take, (M, np.array([[-5, 4], [9, 2]]), 1), {"mode": mode})
    check_function(np.choose, (np.array([-1, 5, 1, 0, 2]), [V, -V]), {"mode": mode})


@pytest.mark.parametrize(
    "x", [V, M, np.array([[0, 3], [0, 1]]), np.zeros(3), np.array(2.0)], ids=lambda x: str(x.shape)
)
def test_positions_of_what_is_not_zero(x: np.ndarray):
    x = np.where(x > 0.3, x, 0)
    if x.ndim:
        assert_same(np.nonzero(Tensor._wrap(x)), np.nonzero(x))
        assert_same(np.argwhere(Tensor._wrap(x)), np.argwhere(x))
    assert_same(np.flatnonzero(Tensor._wrap(x)), np.flatnonzero(x))


@pytest.mark.parametrize("axis", [0, 1, None])
def test_update_along_axis(axis: Any):
    places = np.array([[0, 2, 1, 1]]) if axis == 0 else np.array([[1], [0], [3]]) if axis == 1 else np.array([3, 7])
    v = values(places.shape, seed=3)
    expected = M.copy()
    np.put_along_axis(expected, places, v, axis)
    assert_same(update_along_axis(Tensor._wrap(M), places, Tensor._wrap(v), axis), expected)
    check_derivatives(lambda x, u: update_along_axis(x, places, u * u, axis) * x, [M, v])


def test_functions_refuse_what_numpy_refuses():
    with pytest.raises(TracegradIndexError):
        np.take(Tensor._wrap(V), 7)
    with pytest.raises(ShapeError):
        np.take_along_axis(Tensor._wrap(M), np.array([0]), 1)
    with pytest.raises(ShapeError):
        np.compress([[True]], Tensor._wrap(V))
    with pytest.raises(ShapeError):
        np.select([], [Tensor._wrap(V)])
