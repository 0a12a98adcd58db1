"""Forward mode against the adjoint: ⟨c, J t⟩ = ⟨Jᵀ c, t⟩ for every operation, and no work left over."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.samples import samples_of
from tests.ops.test_registry import (
    DIFFERENTIABLE,
    as_function,
    float_places,
    over_samples,
    recorded,
)
from tracegrad.function import operation as operation_named
from tracegrad.ir.interpret import interpret
from tracegrad.ir.verify import verify
from tracegrad.passes.adjoint import adjoint
from tracegrad.passes.dce import dce
from tracegrad.passes.pipeline import optimize
from tracegrad.passes.tangent import push_forward


def is_inexact(output):
    return output.dtype.kind in "fc"


def graph_of(operation, sample):
    places = float_places(sample)
    arrays = [sample.args[p] for p in places]
    graph, captured = recorded(as_function(operation, sample, places), arrays, is_inexact)
    return graph, arrays, captured


def drawn(rng, like):
    values = rng.normal(size=like.shape) + (1j * rng.normal(size=like.shape) if like.dtype.kind == "c" else 0)
    return np.asarray(values, like.dtype)


def scalar_product(a, b):
    """Re⟨a, b⟩ summed over a list of arrays."""
    return sum(float(np.real(np.vdot(x, y))) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("operation", DIFFERENTIABLE)
def test_tangents_are_the_transpose_of_cotangents(operation):
    def check(operation, sample):
        graph, arrays, captured = graph_of(operation, sample)
        if not arrays or not graph.outputs:
            return
        rng = np.random.default_rng(0)
        wrt, seeds = range(len(arrays)), range(len(graph.outputs))
        pushed, _ = push_forward(graph, wrt)
        verify(pushed)
        inputs = [*arrays, *captured]
        tangents = [drawn(rng, a) for a in arrays]
        results = interpret(pushed, [*inputs, *tangents])
        found = results[len(graph.outputs) :]
        joint, _ = adjoint(graph, wrt, seeds)
        cotangents = [drawn(rng, np.asarray(y)) for y in results[: len(graph.outputs)]]
        pulled = interpret(joint, [*inputs, *cotangents])[len(graph.outputs) :]
        left, right = scalar_product(cotangents, found), scalar_product(pulled, tangents)
        half = any(a.dtype.itemsize <= 4 for a in [*arrays, *map(np.asarray, found)])
        np.testing.assert_allclose(left, right, rtol=1e-3 if half else 1e-9, atol=1e-3 if half else 1e-9)
        after = interpret(optimize(pushed), [*inputs, *tangents])
        for a, b in zip(results, after, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3 if half else 1e-9, atol=1e-3 if half else 1e-9)

    over_samples(check, operation, smooth=True)


@pytest.mark.parametrize(
    ("name", "more"),
    [("multiply", 3), ("sin", 2), ("exp", 1), ("add", 3), ("matmul", 5), ("sum", 1), ("transpose", 1), ("reshape", 1)],
)
def test_of_the_first_pullback_only_what_the_second_reads_stays(name, more):
    """One product per operand and a sum, the cosine and a product, …: what a rule by hand would compute."""
    operation = operation_named(name)
    sample = samples_of(operation)[0]
    graph, arrays, _ = graph_of(operation, sample)
    pushed = optimize(dce(push_forward(graph, range(len(arrays)))[0]))
    assert len(pushed.nodes) - len(optimize(graph).nodes) <= more


def test_an_output_that_does_not_depend_has_a_tangent_of_zeros():
    graph, _ = recorded(lambda x, y: (x * 2, y * 3), [np.ones(2), np.ones(3)], is_inexact)
    pushed, depends = push_forward(graph, (0,))
    assert depends == (True, False)
    *_, first, second = interpret(pushed, [np.ones(2), np.ones(3), np.full(2, 5.0)])
    assert first.tolist() == [10.0, 10.0]
    assert second.tolist() == [0.0, 0.0, 0.0]


def test_one_input_twice_among_wrt_adds_its_tangents():
    graph, _ = recorded(lambda x: x * x, [np.array([3.0])], is_inexact)
    pushed, _ = push_forward(graph, (0, 0))
    assert interpret(pushed, [np.array([3.0]), np.array([1.0]), np.array([10.0])])[-1].tolist() == [66.0]
