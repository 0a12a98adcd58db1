"""Every registered operation on every sample, compiled: values as `forward` gives them, first derivatives as the
interpreter does. All samples of an operation are one program, with an output for each result."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.ops.samples import Sample, samples_of
from tests.ops.test_registry import OF_USERS, as_tuple
from tracegrad.autograd.node import type_of
from tracegrad.emit.llvm import has_scalars
from tracegrad.function import Operation, registry
from tracegrad.ir.graph import Graph
from tracegrad.ir.lowering import Elementwise
from tracegrad.passes.adjoint import adjoint
from tracegrad.schedule.loops import MATRICES
from tracegrad.state import setting
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace
from tracegrad.transforms.program import Program

OPERATIONS = [
    pytest.param(op, id=name) for name, op in sorted(registry.items()) if not op.__module__.startswith(OF_USERS)
]

# Functions that compiled programs compute with polynomials of their own: (ulp in float64, ulp in float32).
APPROXIMATE = {
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cbrt", "cos", "cosh", "erf", "erfc",
    "exp", "exp2", "expit", "expm1", "hypot", "log", "log10", "log1p", "log2", "logaddexp", "ndtri", "power", "sin",
    "sinh", "tan", "tanh",
}  # fmt: skip
ULPS = 4  # both NumPy and the emitter round to within two
# Operations whose choice between two equal zeros NumPy does not promise (it depends on the machine), and we do not.
EITHER_ZERO = {"maximum", "minimum", "fmax", "fmin", "max", "min", "clip", "zero_multiply", "cumulative_extreme"}
# Operations that add or multiply in another order.
ACCUMULATING = {"sum", "prod", "matmul", "cumulative_sum", "cumulative_product", "scatter_add", *MATRICES}


def packed(operation: type[Operation], samples: list[Sample]) -> tuple[Graph, list[Any]]:
    """One graph that applies the operation to every sample's operands, which are its inputs."""
    trace = Trace(operation.name)
    arrays: list[Any] = []
    results: list[Tensor] = []
    with setting(trace=trace):
        for sample in samples:
            operands = []
            for arg in sample.args:
                if isinstance(arg, np.ndarray):
                    operands.append(trace.add_input(type_of(arg), f"x{len(arrays)}", arg))
                    arrays.append(arg)
                else:
                    operands.append(arg)
            results.extend(as_tuple(trace.apply(operation, tuple(operands), sample.attrs)))
    graph, captured = trace.finish(tuple(trace.lift(r) for r in results))
    assert not captured
    return graph, arrays


def assert_close(found: np.ndarray, expected: np.ndarray, ulps: float, what: str, scale: float = 0.0) -> None:
    """Same type; same bits but for the kind of NaN if `ulps` is 0, else at most so many ulps (of `scale`) apart."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), what
    if expected.dtype.kind == "c":
        for part in ("real", "imag"):
            assert_close(getattr(found, part), getattr(expected, part), ulps, f"{part} part of {what}", scale)
    elif expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected, what)
    elif ulps:
        eps = np.finfo(expected.dtype).eps
        tiny = np.finfo(expected.dtype).smallest_subnormal
        np.testing.assert_allclose(found, expected, ulps * eps, ulps * (tiny + eps * scale), err_msg=what)
    else:
        np.testing.assert_array_equal(found, expected, what)
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]), f"signs in {what}")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_values_and_first_derivatives(operation: type[Operation]) -> None:
    samples = samples_of(operation)
    graph, arguments = packed(operation, samples)
    n_values = len(graph.outputs)
    if operation.differentiable:
        graph, cotangents = with_adjoint(graph)
        arguments += cotangents
    program = Program(graph)
    with np.errstate(all="ignore"):
        found = program(*arguments)
        check_values(operation, samples, found[:n_values])
        if operation.differentiable:
            for position, wanted in enumerate(program.interpret(*arguments)[n_values:]):
                assert_close(found[n_values + position], wanted, 2048, f"gradient {position} of {graph}", 1.0)


def with_adjoint(graph: Graph) -> tuple[Graph, list[np.ndarray]]:
    """The graph with gradients in all inputs that can have one, and cotangents for its results."""
    wrt = [i for i, v in enumerate(graph.inputs) if v.type.inexact]
    seeds = [i for i, v in enumerate(graph.outputs) if v.type.inexact]
    generator = np.random.default_rng(0)
    types = [graph.outputs[i].type for i in seeds]
    joint, _ = adjoint(graph, wrt, seeds)
    return joint, [np.asarray(generator.uniform(-2, 2, t.shape)).astype(t.dtype) for t in types]


def check_values(operation: type[Operation], samples: list[Sample], found: Sequence[np.ndarray]) -> None:
    results = iter(found)
    for sample in samples:
        for expected in map(np.asarray, as_tuple(operation.forward(*sample.args, **sample.attrs))):
            accumulating = operation.name in ACCUMULATING
            ulps = 16 if accumulating else ULPS if operation.name in APPROXIMATE else 0
            if not has_scalars(expected.dtype):
                ulps = 0  # computed by NumPy here, too
            result = next(results)
            if operation.name in EITHER_ZERO:
                result, expected = result + 0, expected + 0  # makes -0.0 0.0
            assert_close(result, expected, ulps, f"{operation.name} of {sample}", float(accumulating))
    assert next(results, None) is None


NUMBERS = [np.dtype(c) for c in "?bBhHiIqQfd"]
MIXED = ["?q", "bB", "qQ", "hf", "qf", "Qd", "Bd", "fd", "?f", "iQ"]  # dtypes of two operands


@pytest.mark.slow
@pytest.mark.parametrize("operation", [p for p in OPERATIONS if isinstance(p.values[0].lower, Elementwise)])
def test_elementwise_operations_in_every_dtype(operation: type[Operation]) -> None:
    """All real dtypes that NumPy takes, at the ends of their range, at zeros, infinities and NaN."""
    if operation.name == "cast":  # has attributes, and the samples go through all of them
        return
    samples = []
    for dtypes in [d * n for d in ([t] for t in NUMBERS) for n in (1, 2, 3)] + [list(map(np.dtype, m)) for m in MIXED]:
        operands = tuple(_extremes(d, seed) for seed, d in enumerate(dtypes))
        if operation.name in ("where", "replaced"):
            operands = (operands[0].astype(bool), *operands[1:])
        if len(operands) == _arity(operation) and _accepts(operation, operands):
            samples.append(Sample(operands))
    graph, arrays = packed(operation, samples)
    with np.errstate(all="ignore"):
        check_values(operation, samples, Program(graph)(*arrays))


def _extremes(dtype: np.dtype, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    if dtype.kind == "b":
        return generator.integers(0, 2, 24).astype(bool)
    if dtype.kind == "f":
        special = generator.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0], 12)
        return np.concatenate([generator.uniform(-3, 3, 12), special]).astype(dtype)
    ends = np.iinfo(dtype)
    pool = [0, 1, 2, 3, 5, 7, ends.max, ends.min, *([-1, -2, -7] if dtype.kind == "i" else [])]
    return generator.choice(np.array(pool, dtype), 24)


def _arity(operation: type[Operation]) -> int:
    ufunc = getattr(operation, "ufunc", None)
    return ufunc.nin if ufunc is not None else len(inspect.signature(operation.forward).parameters)


def _accepts(operation: type[Operation], operands: tuple[np.ndarray, ...]) -> bool:
    """Whether the operation and NumPy take these dtypes."""
    try:
        with np.errstate(all="ignore"):
            operation.infer(*map(type_of, operands))
            operation.forward(*operands)
    except (TypeError, ValueError):
        return False
    return True
