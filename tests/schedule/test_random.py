"""Random graphs: the scheduled program is well-formed and computes what NumPy computes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedule.graphs import assert_same, scheduled
from tests.schedule.random_graphs import RandomGraph
from tracegrad.ir.interpret import interpret


@pytest.mark.parametrize("first", range(0, 400, 20))
def test_random_graphs(first: int) -> None:
    for seed in range(first, first + 20):
        graph, args = RandomGraph(seed, 4 + seed % 17).graph()
        with np.errstate(all="ignore"):
            expected = interpret(graph, args)
        try:
            assert_same(scheduled(graph), args, expected)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}\n{graph}") from error
