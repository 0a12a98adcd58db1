"""Functions traced once with symbolic sizes give, for any sizes, what NumPy gives; so do their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ops.derivatives import gradients
from tests.ops.functions import plain
from tests.ops.samples import values
from tracegrad.errors import UnsupportedError
from tracegrad.ir.dims import symbol
from tracegrad.ir.interpret import interpret
from tracegrad.ir.types import Type
from tracegrad.passes.adjoint import adjoint
from tracegrad.scipy import special
from tracegrad.state import setting
from tracegrad.trace.tracer import Trace

SHAPES = {"x": ("n",), "M": ("b", "c"), "N": ("c", "d"), "S": ("n", "n"), "T": ("a", "b", "c")}
SIZES = ({"a": 2, "b": 3, "c": 4, "d": 5, "n": 6}, {"a": 3, "b": 5, "c": 2, "d": 2, "n": 9})

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "slices": lambda x: x[1:-1] ** 2 + x[2:][::-1] * x[-1] + x[: x.shape[0] - 2],
    "every second": lambda x: x[::2] ** 2,
    "backwards by two": lambda x: x[::-2] ** 2,
    "gather": lambda x: x[[0, 2, 2, -1]] ** 3,
    "two index arrays": lambda M: M[[0, 1, 1], [1, 0, 0]] ** 2,
    "rows and columns": lambda T: T[:, [0, 1]][..., -1] ** 2,
    "new axes": lambda x: x[:, None] * x[None, ::-1],
    "concatenate": lambda x: np.concatenate([x**2, x[:3], 2 * x]) ** 2,
    "stack": lambda x: np.stack([x, x**2], 1) ** 2,
    "pad": lambda M: np.pad(M, ((1, 2), (0, 3))) ** 2 + 1,
    "reflect": lambda M: np.pad(M, 1, "reflect") ** 3,
    "roll": lambda M: np.roll(M, 1, 1) * np.roll(M, -1, 0),
    "tile": lambda M: np.tile(M, (2, 3)) ** 3,
    "repeat": lambda M: np.repeat(M, 2, 0) ** 3,
    "flip": lambda M: np.rot90(M) ** 2 + np.flip(M.T),
    "reshape": lambda M: np.reshape(M, (-1, 1)) * np.ravel(M, "F"),
    "kron": lambda M, N: np.kron(M, N) ** 2,
    "matmul": lambda M, N: (M @ N) ** 2,
    "stacked matmul": lambda T, N: (T @ N) @ np.swapaxes(T @ N, 1, 2),
    "einsum": lambda T, M, N: np.einsum("abc,bc,cd->ad", T, M, N) ** 2,
    "tensordot": lambda T, N: np.tensordot(T, N, 1) ** 2,
    "diagonals": lambda S: np.diag(S) ** 2 + np.trace(S) ** 2 + np.diag(S[0])[1],
    "triangles": lambda M: np.tril(M) ** 2 + np.triu(M, 1) ** 3,
    "softmax": lambda M: special.softmax(M, 1) ** 2,
    "logsumexp": lambda M: special.logsumexp(M, 0) ** 2,
    "cumsum": lambda M: np.cumsum(M, 1) ** 2 + np.cumsum(M, 0) ** 3,
    "cumprod": lambda M: np.cumprod(M, 1) ** 2,
    "running maximum": lambda M: np.maximum.accumulate(M, 1) ** 2,
    "differences": lambda M: np.diff(M, axis=1) ** 2,
    "trapezoid": lambda M: np.trapezoid(M**2, axis=0),
    "sort": lambda M: np.sort(M, 1) ** 2,
    "median": lambda M: np.median(M, 1) ** 2,
    "quantile": lambda M: np.quantile(M, [0.2, 0.7], 1) ** 2,
    "take along axis": lambda M: np.take_along_axis(M, np.argsort(M, 0), 0) ** 3,
    "norms": lambda M: np.linalg.norm(M) * np.linalg.norm(M, 3, axis=1),
    "solve": lambda S: np.linalg.solve(S @ S.T + np.diag(S[0] ** 2 + 3), S) ** 2,
}


def arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_trace_for_all_sizes(name: str):
    function = FUNCTIONS[name]
    names = arguments(function)
    trace = Trace("f")
    with setting(trace=trace):
        inputs = [trace.add_input(Type(np.dtype(float), tuple(map(symbol, SHAPES[n]))), n) for n in names]
        out = trace.lift(function(*inputs))
    graph, captured = trace.finish((out,))
    assert not trace.guards
    pulled, _ = adjoint(graph, range(len(names)), (0,))
    for sizes in SIZES:
        arrays = [values(tuple(sizes[s] for s in SHAPES[n]), seed=i) for i, n in enumerate(names)]
        expected = np.asarray(function(*arrays))
        found, *cotangents = interpret(pulled, [*arrays, *map(plain, captured), np.ones_like(expected)])
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
        for g, wanted in zip(cotangents, gradients(function, arrays), strict=True):
            np.testing.assert_allclose(g, wanted, rtol=1e-11, atol=1e-12)


def test_diagonal_of_a_matrix_of_unknown_proportions():
    trace = Trace("f")
    with setting(trace=trace):
        x = trace.add_input(Type(np.dtype(float), (symbol("n"), symbol("m"))))
        with pytest.raises(UnsupportedError, match="smaller"):
            np.diag(x)
