"""The functions of the benchmarks, traced, differentiated, optimised and scheduled at small sizes, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedule.graphs import assert_same, scheduled
from tests.schedule.patterns import patterns, value_and_grad_graph
from tracegrad.ir.interpret import interpret

PATTERNS = patterns()


@pytest.mark.parametrize("name", list(PATTERNS))
def test_value_and_gradient(name: str) -> None:
    function, argnums, args = PATTERNS[name]
    graph = value_and_grad_graph(function, argnums, args)
    program = scheduled(graph)
    rtol = 1e-9 if args[0].dtype == np.float64 else 2e-4
    expected = interpret(graph, args)
    assert_same(program, args, expected, rtol)
    np.testing.assert_allclose(expected[0], function(*args), rtol=rtol)
