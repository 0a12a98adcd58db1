"""Functions traced with symbolic sizes, differentiated, optimised and compiled once: right for all sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ops.samples import values
from tests.ops.test_symbolic_sizes import FUNCTIONS as GENERIC
from tests.ops.test_symbolic_sizes import SHAPES, SIZES, arguments
from tracegrad.emit import compile_program
from tracegrad.ir.dims import symbol
from tracegrad.ir.interpret import interpret
from tracegrad.ir.types import Type
from tracegrad.passes.adjoint import adjoint
from tracegrad.passes.pipeline import optimize
from tracegrad.schedule import schedule
from tracegrad.state import setting
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **GENERIC,
    "elementwise": lambda x: np.exp(np.sin(x) * 2 - 0.5) / (1 + x**2),
    "broadcast": lambda M, N: M[:, :, None] * N + np.sqrt(M[:, :1, None] ** 2 + 1),
    "sums": lambda M: np.sum(M * M, 0) + np.mean(M, 0) * np.sum(M),
    "extremes": lambda M: np.max(M, 1) - np.min(M**3, 1) * np.max(M),
    "products": lambda x: np.prod(1 + x / 9) * x,
    "variance": lambda M: (M - np.mean(M, 1, keepdims=True)) / np.sqrt(np.var(M, 1, keepdims=True) + 0.1),
    "matrix and vector": lambda M, N: np.tanh(M @ N[:, 0]) @ M,
    "where": lambda x: np.where(x[1:] > x[:-1], x[1:] ** 2, x[:-1]),
}
LARGE = {"a": 9, "b": 24, "c": 37, "d": 21, "n": 90}  # loops in parallel, products by BLAS


def plain(x: Any) -> np.ndarray:
    return x._value() if isinstance(x, Tensor) else x


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_program_for_all_sizes(name: str) -> None:
    function = FUNCTIONS[name]
    names = arguments(function)
    trace = Trace("f")
    with setting(trace=trace):
        inputs = [trace.add_input(Type(np.dtype(float), tuple(map(symbol, SHAPES[n]))), n) for n in names]
        out = trace.lift(function(*inputs))
    graph, captured = trace.finish((out,))
    joint, _ = adjoint(graph, range(len(names)), (0,))
    program = compile_program(schedule(optimize(joint)))
    for sizes in (*SIZES, LARGE):
        arrays = [values(tuple(sizes[s] for s in SHAPES[n]), seed=i) for i, n in enumerate(names)]
        seed = values(np.shape(function(*arrays)), seed=9)
        given = [*arrays, *map(plain, captured), seed]
        expected = interpret(joint, given)
        for found, wanted in zip(program(*given), expected, strict=True):
            scale = np.max(np.abs(wanted), initial=1e-3)
            np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11 * scale)
