"""Scattered sums, also into axes of extent 1, whose only element every iteration hits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedule.graphs import GraphBuilder, assert_same, scheduled


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("extent", [1, 3])
def test_a_scatter_that_is_read_further_on(count: int, extent: int) -> None:
    f = GraphBuilder()
    values, positions = f.input((count,), name="values"), f.input((count,), np.dtype(np.int64), name="positions")
    sums = f("scatter_add", values, positions, shape=(extent,))
    program = scheduled(f.graph(f("exp", sums), f.sum(sums)))
    rng = np.random.default_rng(count)
    given = rng.standard_normal(count), rng.integers(-extent, extent, count)
    expected = np.zeros(extent)
    np.add.at(expected, given[1], given[0])
    assert_same(program, given, [np.exp(expected), expected.sum()])
