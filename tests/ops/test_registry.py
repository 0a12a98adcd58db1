"""Every registered operation on every sample: types, eager = traced, derivatives to second order, zero cotangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad.ops
from tests.ops.derivatives import check_derivatives, gradients
from tests.ops.samples import Sample, samples_of
from tracegrad.autograd.node import type_of
from tracegrad.function import Operation, registry
from tracegrad.ir.interpret import interpret
from tracegrad.passes.adjoint import adjoint
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace

assert tracegrad.ops  # importing it fills the registry

OPERATIONS = [pytest.param(operation, id=name) for name, operation in sorted(registry.items())]
DIFFERENTIABLE = [p for p in OPERATIONS if p.values[0].differentiable]


def as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def float_places(sample: Sample) -> list[int]:
    """The positions of operands that can have a gradient."""
    return [i for i, a in enumerate(sample.args) if isinstance(a, np.ndarray) and a.dtype.kind in "fc"]


def as_function(operation: type[Operation], sample: Sample, places: list[int]) -> Callable[..., Any]:
    """The operation as a function of the operands in `places`."""

    def function(*operands: Any) -> Any:
        args = [Tensor._wrap(a) if isinstance(a, np.ndarray) else a for a in sample.args]
        for place, value in zip(places, operands, strict=True):
            args[place] = value
        return operation.apply(*args, **sample.attrs)

    return function


def over_samples(check: Callable[..., None], operation: type[Operation], smooth: bool = False) -> None:
    """Run a check on each sample of an operation; a failure says on which."""
    for sample in samples_of(operation):
        if sample.smooth or not smooth:
            try:
                with np.errstate(all="ignore"):
                    check(operation, sample)
            except Exception as error:
                error.add_note(f"in the sample {sample}")
                raise


def recorded(function: Callable[..., Any], arrays: list[np.ndarray], keep: Callable[[Any], bool]) -> Any:
    """The graph of a function of arrays, with the outputs that `keep` chooses, and the numbers of its captures."""
    trace = Trace("sample")
    with setting(trace=trace):
        outputs = as_tuple(function(*(trace.add_input(type_of(a), "x", a) for a in arrays)))
        variables = tuple(trace.lift(o) for o in outputs if keep(o))
    graph, captured = trace.finish(variables)
    return graph, [c._value() if isinstance(c, Tensor) else c for c in captured]


# What stands for a user's Function, loop or branch in a graph, and has no meaning without one.
OF_USERS = (
    "tracegrad.ops.call", "tracegrad.ops.function_rules", "tracegrad.ops.hooked", "tracegrad.ops.host_call",
    "tracegrad.ops.loops.", "tracegrad.ops.mapped", "tracegrad.ops.once",
    "tracegrad.ops.unrecorded", "tracegrad.transforms.",
)  # fmt: skip


def test_every_operation_has_samples():
    built_in = (name for name, op in sorted(registry.items()) if not op.__module__.startswith(OF_USERS))
    assert [name for name in built_in if not samples_of(name)] == []


def check_types(operation: type[Operation], sample: Sample) -> None:
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in sample.args]
    results = as_tuple(operation.forward(*sample.args, **sample.attrs))
    inferred = as_tuple(operation.infer(*map(type_of, sample.args), **sample.attrs))
    for result, type in zip(map(np.asarray, results), inferred, strict=True):
        assert (result.dtype, result.shape) == (type.dtype, type.shape)
    for a, b in zip(sample.args, before, strict=True):
        np.testing.assert_array_equal(a, b)  # inputs stay as they were


@pytest.mark.parametrize("operation", OPERATIONS)
def test_infer_gives_the_type_of_forward(operation: type[Operation]):
    over_samples(check_types, operation)


def check_traced(operation: type[Operation], sample: Sample) -> None:
    expected = as_tuple(operation.forward(*sample.args, **sample.attrs))
    places = [i for i, a in enumerate(sample.args) if isinstance(a, np.ndarray)]
    arrays = [sample.args[i] for i in places]
    function = as_function(operation, sample, places)
    if not arrays:

        def function() -> Any:
            return state.trace.apply(operation, sample.args, sample.attrs)

    graph, captured = recorded(function, arrays, lambda o: True)
    assert not captured
    for found, wanted in zip(interpret(graph, arrays), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    eager = as_tuple(function(*map(Tensor._wrap, arrays))) if arrays else ()
    for found, wanted in zip(eager, expected, strict=bool(arrays)):
        np.testing.assert_array_equal(found._array, wanted)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_traced_and_eager_give_what_forward_gives(operation: type[Operation]):
    over_samples(check_traced, operation)


def check_differences(operation: type[Operation], sample: Sample) -> None:
    places = float_places(sample)
    arrays = [sample.args[i].astype(np.promote_types(sample.args[i].dtype, float)) for i in places]
    if arrays:
        check_derivatives(as_function(operation, sample, places), arrays)


@pytest.mark.parametrize("operation", DIFFERENTIABLE)
def test_derivatives_to_second_order(operation: type[Operation]):
    over_samples(check_differences, operation, smooth=True)


def check_zero_cotangent(operation: type[Operation], sample: Sample) -> None:
    places = float_places(sample)
    arrays = [sample.args[i] for i in places]
    function = as_function(operation, sample, places)
    outputs = [o for o in as_tuple(function(*map(Tensor._wrap, arrays))) if o.dtype.kind in "fc"] if places else []
    if outputs:
        zeros = [np.zeros(o.shape, o.dtype) for o in outputs]
        for g, a in zip(gradients(function, arrays, zeros), arrays, strict=True):
            assert (g.dtype, g.shape) == (a.dtype, a.shape)
            np.testing.assert_array_equal(g, np.zeros_like(g))


@pytest.mark.parametrize("operation", DIFFERENTIABLE)
def test_zero_cotangent_gives_zeros_of_the_type_of_the_input(operation: type[Operation]):
    over_samples(check_zero_cotangent, operation)


def check_adjoint(operation: type[Operation], sample: Sample) -> None:
    places = float_places(sample)
    arrays = [sample.args[i] for i in places]
    if not arrays:
        return
    function = as_function(operation, sample, places)
    graph, captured = recorded(function, arrays, lambda o: o.dtype.kind in "fc")
    if not graph.outputs:
        return
    pulled, _ = adjoint(graph, range(len(arrays)), range(len(graph.outputs)))
    seeds = [np.ones(v.type.shape, v.type.dtype) for v in graph.outputs]
    results = interpret(pulled, [*arrays, *captured, *seeds])[len(graph.outputs) :]
    for found, expected in zip(results, gradients(function, arrays), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-12 if found.dtype.itemsize >= 8 else 1e-3)


@pytest.mark.parametrize("operation", DIFFERENTIABLE)
def test_adjoint_graph_equals_eager_gradient(operation: type[Operation]):
    over_samples(check_adjoint, operation, smooth=True)
