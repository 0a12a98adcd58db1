"""Batched graphs against the graph run row by row: every operation, each operand with and without rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.ops.test_registry import OPERATIONS, over_samples, recorded
from tracegrad.ir.interpret import interpret
from tracegrad.ir.verify import verify
from tracegrad.passes.batching import batch
from tracegrad.tensor import Tensor

ROWS = 3


def graph_of(operation, sample):
    places = [i for i, a in enumerate(sample.args) if isinstance(a, np.ndarray)]
    arrays = [sample.args[p] for p in places]

    def function(*operands):
        args = [Tensor._wrap(a) if isinstance(a, np.ndarray) else a for a in sample.args]
        for place, value in zip(places, operands, strict=True):
            args[place] = value
        return operation.apply(*args, **sample.attrs)

    graph, captured = recorded(function, arrays, lambda output: True)
    return graph, arrays, captured


SORTED = ("digitize", "searchsorted")


def rows_like(array, number, operation):
    """Row `number` of a batch: the sample itself, then permutations of its elements, which stay in its domain."""
    if number == 0 or array.ndim == 0 or array.shape[-1] < 2 or operation.name in SORTED:
        return array
    return np.roll(array, number, axis=-1) if array.ndim == 1 else array


@pytest.mark.parametrize("operation", OPERATIONS)
def test_all_rows_at_once_are_the_rows_one_by_one(operation):
    def check(operation, sample):
        graph, arrays, captured = graph_of(operation, sample)
        for flags in itertools.product((True, False), repeat=len(arrays)):
            if not any(flags) or len(arrays) > 3:
                continue
            batched, has_rows = batch(graph, ROWS, [*flags, *(False for _ in captured)])
            verify(batched)
            stacks = [
                np.stack([rows_like(a, i, operation) for i in range(ROWS)]) if f else a
                for a, f in zip(arrays, flags, strict=True)
            ]
            found = interpret(batched, [*stacks, *captured])
            for i in range(ROWS):
                row = [s[i] if f else s for s, f in zip(stacks, flags, strict=True)]
                expected = interpret(graph, [*map(np.asarray, row), *captured])
                for whole, one, flag in zip(found, expected, has_rows, strict=True):
                    part, one = whole[i] if flag else whole, np.asarray(one)
                    assert part.dtype == one.dtype
                    loose = one.dtype.itemsize <= 4
                    np.testing.assert_allclose(part, one, rtol=1e-3 if loose else 1e-10, atol=1e-3 if loose else 1e-12)

    over_samples(check, operation)


def test_what_depends_on_no_row_is_computed_once():
    def function(x, w):
        grown = np.exp(w)
        return grown * x, grown

    graph, _ = recorded(function, [np.ones(2), np.ones(2)], lambda output: True)
    batched, has_rows = batch(graph, 5, (True, False))
    assert has_rows == (True, False)
    (exp,) = (node for node in batched.nodes if node.name == "exp")
    assert exp.output.type.shape == (2,)
