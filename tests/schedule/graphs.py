"""Small ways to get graphs: written out node by node, or traced from NumPy code, with gradients."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from typing import Any

import numpy as np

import tracegrad.ops
from tracegrad.function import operation
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.types import Type
from tracegrad.ops.constant import Constant
from tracegrad.schedule import LoopProgram, schedule
from tracegrad.schedule.evaluate import evaluate
from tracegrad.schedule.verify import verify

for _family in pkgutil.iter_modules(tracegrad.ops.__path__):  # importing an operation registers it
    importlib.import_module(f"tracegrad.ops.{_family.name}")


class GraphBuilder:
    """Nodes of built-in operations, one call each."""

    def __init__(self) -> None:
        self.inputs: list[Var] = []
        self.nodes: list[Node] = []

    def input(self, shape: Sequence[Any], dtype: Any = np.float64, name: str = "") -> Var:
        var = Var(Type(np.dtype(dtype), tuple(shape)), name or f"x{len(self.inputs)}")
        self.inputs.append(var)
        return var

    def constant(self, value: Any) -> Var:
        array = np.asarray(value)
        var = Var(Type(array.dtype, array.shape))
        self.nodes.append(Node(Constant, (), (var,), {"value": array, "weak": False}))
        return var

    def __call__(self, name: str, *inputs: Any, **attrs: Any) -> Var:
        op = operation(name)
        operands = tuple(i if isinstance(i, Var) else self.constant(i) for i in inputs)
        out = Var(op.infer(*(v.type for v in operands), **attrs))
        self.nodes.append(Node(op, operands, (out,), attrs))
        return out

    def sum(self, x: Var, axis: Any = None, keepdims: bool = False) -> Var:
        axes = tuple(range(x.type.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
        axes = tuple(sorted(a % x.type.ndim for a in axes))
        return self("sum", x, axis=axes, keepdims=keepdims, dtype=x.type.dtype)

    def graph(self, *outputs: Var, name: str = "graph") -> Graph:
        return Graph(tuple(self.inputs), tuple(self.nodes), outputs, name)


def scheduled(graph: Graph) -> LoopProgram:
    """The verified program of a graph."""
    program = schedule(graph)
    verify(program)
    return program


def assert_same(program: LoopProgram, args: Sequence[Any], expected: Sequence[Any], rtol: float = 1e-10) -> None:
    """The evaluated program gives what NumPy gave."""
    for got, want in zip(evaluate(program, args), expected, strict=True):
        assert got.dtype == np.asarray(want).dtype or not isinstance(want, np.ndarray)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)


__all__ = ["GraphBuilder", "assert_same", "scheduled"]
