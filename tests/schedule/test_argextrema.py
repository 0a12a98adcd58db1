"""Positions of extrema: the first one counts, NaN wins, as in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedule.graphs import GraphBuilder, assert_same, scheduled

CASES = [
    np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 1.0], [np.nan, 5.0, np.nan], [5.0, np.nan, 9.0]]),
    np.array([[-np.inf, -np.inf, -np.inf], [np.inf, 1.0, np.inf], [0.0, -0.0, 0.0], [1.0, 2.0, 3.0]]),
    np.array([[1, 3, 3], [2, 2, 1], [0, 0, 0], [-1, -2, -3]]),
    np.array([[True, False, True], [False, True, True], [False, False, False], [True, True, True]]),
]


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("value", CASES, ids=["nan", "inf", "int", "bool"])
def test_position(name: str, axis: int, value: np.ndarray) -> None:
    f = GraphBuilder()
    x = f.input(value.shape, value.dtype)
    program = scheduled(f.graph(f(name, x, axis=(axis,), keepdims=False)))
    assert_same(program, [value], [getattr(np, name)(value, axis=axis)])


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_position_beside_more_elements(name: str) -> None:
    """Another statement runs over one element more, and reads the same ones: its loop is not that of the position."""
    f = GraphBuilder()
    x = f.input((33,), np.float64)
    part = f("slice", x, start=(31,), size=(32,), step=(-1,))
    position, total = (
        f(name, part, axis=(0,), keepdims=False),
        f("sum", part, axis=(0,), keepdims=False, dtype=part.type.dtype),
    )
    program = scheduled(f.graph(position, total, f("square", x)))
    value = np.random.default_rng(0).standard_normal(33)
    assert_same(program, [value], [getattr(np, name)(value[31::-1]), np.sum(value[:32]), value * value])
