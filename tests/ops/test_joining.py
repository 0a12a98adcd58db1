"""Joining, cutting, repeating and padding against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.functions import assert_same, check_function
from tests.ops.samples import values
from tracegrad.errors import ArgumentError, ShapeError, TracegradIndexError, UnsupportedError
from tracegrad.tensor import Tensor

V, W, M, N, T = values((3,)), values((3,), seed=1), values((2, 3)), values((2, 3), seed=1), values((2, 3, 4))
Z, E0, F4 = np.array(1.5), values((0, 3)), values((2, 3), dtype=np.float32)

JOINS: list[tuple[Any, ...]] = [
    (np.concatenate, [V, W, V]), (np.concatenate, (M, N), 1), (np.concatenate, (M, N), -2),
    (np.concatenate, (M, T), None),
    (np.concatenate, [M, F4]), (np.concatenate, [M, np.arange(3)[None]]), (np.concatenate, [M, [[1, 2, 3]]]),
    (np.concatenate, T),
    (np.concatenate, [M, E0]), (np.concatenate, [M]), (np.stack, [V, W]), (np.stack, [V, W], 1),
    (np.stack, [Z, Z, 2.0]),
    (np.stack, (M, N), -1), (np.stack, T, 2), (np.vstack, [V, M, W]), (np.hstack, [V, W, Z]), (np.hstack, [M, N]),
    (np.dstack, [V, W]), (np.dstack, [M, N]), (np.column_stack, [V, W]), (np.column_stack, [V[:2], M]),
    (np.append, M, 3.0),
    (np.append, M, N, 0), (np.append, V, W), (np.block, [[M, M], [N, N]]), (np.block, [V, W]), (np.block, [[V], [W]]),
    (np.block, [[Z, 1.0]]),
    (np.meshgrid, V, values((2,))), (np.unstack, T), (np.split, V, 3), (np.split, T, [1, 3], 2),
    (np.split, M, 3, -1), (np.split, V, [0, 2, 7]), (np.array_split, values((7,)), 3), (np.array_split, V, 5),
    (np.array_split, M, [1, -1], 1), (np.vsplit, M, 2), (np.hsplit, M, 3), (np.hsplit, V, [1]), (np.dsplit, T, 2),
]  # fmt: skip
OTHERS: list[tuple[Any, ...]] = [
    *((np.repeat, T, r, axis) for r in (0, 1, 3) for axis in (None, 0, -1)), (np.repeat, M, [2, 0, 1], 1),
    (np.repeat, M, [3], 0),
    (np.repeat, M, np.array([1, 2]), 0), *((np.tile, M, r) for r in (0, 1, 2, (2, 1), (1, 2, 3), (2, 1, 1, 1))),
    (np.tile, Z, 3),
    *((np.roll, M, s, axis) for s in (0, 1, -1, 5, -7) for axis in (None, 0, 1)), (np.roll, M, (1, 2), (0, 1)),
    (np.roll, M, 1, (0, 0)),
    (np.roll, E0, 2, 0), (np.roll, M, (1, 2), 1), *((np.delete, T, o, axis) for axis in (None, 0, 2) for o in (
        0, -1, slice(0, 2), slice(None, None, -2), slice(5, 1), [0, 1], [-1], [],
        np.arange(24 if axis is None else (2, 3, 4)[axis]) > 0)),
    *((np.insert, T, o, 7.0, axis) for axis in (None, 0, 2) for o in (0, -1, [0, 1], [1, 1], slice(0, 2), [1])),
    (np.insert, M, 1, values((3,), seed=2), 0), (np.insert, M, 1, values((2,), seed=2), 1),
    (np.insert, M, [1], values((2, 1)), 1),
    (np.insert, M, [0, 2], values((2, 2)), 1),
]  # fmt: skip


@pytest.mark.parametrize("case", [*JOINS, *OTHERS], ids=lambda c: c[0].__name__ + repr(c[1:])[:60])
def test_against_numpy(case: tuple[Any, ...]):
    check_function(case[0], case[1:], order=1)


@pytest.mark.parametrize("kwargs", [{"indexing": "ij"}, {"sparse": True}, {"copy": False}], ids=str)
def test_meshgrid_options(kwargs: dict[str, Any]):
    check_function(np.meshgrid, (V, values((2,)), values((4,))), kwargs, order=1)


def test_concatenate_with_dtype():
    check_function(np.concatenate, ([M, F4],), {"dtype": np.float32}, order=0)
    with pytest.raises(ArgumentError, match="cannot cast"):
        np.concatenate([Tensor._wrap(M), M], dtype=np.int64)


WIDTHS = [
    0,
    1,
    (1, 2),
    ((1, 0), (0, 2)),
    [[2, 1]],
    ((4, 5), (7, 8)),
    {1: (1, 2)},
    {0: 2},
    np.array([[1, 2], [0, 3]]),
    (2,),
]
MODES: list[tuple[str, dict[str, Any]]] = [
    ("constant", {}), ("constant", {"constant_values": 3}), ("constant", {"constant_values": ((1, 2), (3, 4))}),
    ("constant", {"constant_values": (1, 2)}), ("edge", {}), ("reflect", {}), ("symmetric", {}), ("wrap", {}),
    ("linear_ramp", {}),
    ("linear_ramp", {"end_values": (5, -3)}), ("maximum", {}), ("minimum", {"stat_length": 1}), ("mean", {}),
    ("mean", {"stat_length": ((1, 2), (2, 1))}),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "kwargs"), MODES, ids=str)
@pytest.mark.parametrize("width", WIDTHS, ids=str)
def test_pad(width: Any, mode: str, kwargs: dict[str, Any]):
    check_function(np.pad, (M, width, mode), kwargs, order=1)


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
def test_pad_odd_reflection(mode: str):
    check_function(np.pad, (M, 1, mode), {"reflect_type": "odd"})
    with pytest.raises(UnsupportedError):
        np.pad(Tensor._wrap(M), 9, mode, reflect_type="odd")


def test_pad_values_may_be_tensors():
    check_function(lambda x, v: np.pad(x, 1, constant_values=v), (M, np.array(2.5)))


def test_pad_of_integers_keeps_their_dtype():
    assert_same(np.pad(Tensor._wrap(np.arange(3)), 2, constant_values=7), np.pad(np.arange(3), 2, constant_values=7))
    assert_same(np.pad(Tensor._wrap(np.arange(3)), 5, "reflect"), np.pad(np.arange(3), 5, "reflect"))


def test_results_are_copies_where_numpy_copies():
    x = Tensor._wrap(M.copy())
    for copy in (np.roll(x, 0), np.tile(x, 1), np.repeat(x, 1, 0), np.concatenate([x]), np.pad(x, 0)):
        assert not np.shares_memory(copy._array, x._array)


BAD: list[tuple[Any, ...]] = [
    (np.concatenate, [V, M]), (np.concatenate, [M, N[:, :2]]), (np.concatenate, [Z, Z]), (np.concatenate, [M, N], 2),
    (np.stack, [V, W[:2]]), (np.split, V, 2), (np.vsplit, V, 1), (np.dsplit, M, 1), (np.array_split, V, 0),
    (np.block, [[M], [V[:2]]]),
    (np.repeat, M, -1), (np.repeat, M, [1, 2, 3], 0), (np.pad, M, -1), (np.pad, M, ((1, 2), (3, 4), (5, 6))),
    (np.roll, M, (1, 2, 3), (0, 1)),
    (np.pad, E0, 1, "edge"),
]  # fmt: skip


def wrapped(x: Any) -> Any:
    return [wrapped(a) for a in x] if isinstance(x, list) else Tensor._wrap(x) if isinstance(x, np.ndarray) else x


@pytest.mark.parametrize("case", BAD, ids=lambda c: c[0].__name__ + repr(c[1:])[:60])
def test_bad_arguments(case: tuple[Any, ...]):
    function, x, *rest = case
    with pytest.raises((ValueError, TypeError)):
        function(x, *rest)
    with pytest.raises(ShapeError):
        function(wrapped(x), *rest)


def test_delete_out_of_range():
    with pytest.raises(TracegradIndexError, match="out of bounds"):
        np.delete(Tensor._wrap(V), 3)
