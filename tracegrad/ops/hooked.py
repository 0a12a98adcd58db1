"""Hooks that were registered while a function was recorded: the gradient goes through Python on its way back."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import AutogradError
from tracegrad.function import Operation
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.lowering import Elementwise
from tracegrad.ir.types import Type
from tracegrad.state import setting
from tracegrad.tensor import Tensor


class Hooks:
    """The hooks of one recorded value, as an attribute of nodes: those that are registered when the gradient comes."""

    def __init__(self, table: Any):
        self.table = table

    def __call__(self, g: np.ndarray) -> np.ndarray:
        from tracegrad.autograd.hooks import run_tensor_hooks

        with setting(trace=None, grad_enabled=False, function_body=False):
            return np.array(run_tensor_hooks(self.table, Tensor._wrap(np.array(g)))._value())

    def __repr__(self) -> str:
        return f"<{len(self.table)} hooks>"


class Hooked(Operation):
    """The value itself, whose cotangent the hooks see."""

    name = "hooked"
    lower = Elementwise("positive")
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, hooks: Hooks) -> np.ndarray:
        return np.array(x)

    @staticmethod
    def infer(x: Type, *, hooks: Hooks) -> Type:
        return Type(x.dtype, x.shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (HookCall.apply(g, hooks=ctx.attrs["hooks"]),)

    @staticmethod
    def forward_symbolic(node: Node, inputs: Any, outputs: Any, tangents: Any) -> Any:
        return tangents  # hooks are for cotangents


class HookCall(Operation):
    """What the hooks make of a cotangent."""

    name = "hook_call"
    saves = ("",)
    pure = False

    @staticmethod
    def forward(g: np.ndarray, *, hooks: Hooks) -> np.ndarray:
        return hooks(g)

    @staticmethod
    def infer(g: Type, *, hooks: Hooks) -> Type:
        return Type(g.dtype, g.shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        raise AutogradError(
            "a second derivative through a gradient that a hook inside a compiled function had seen: what the hook did "
            "is not recorded",
            fix="remove the hook, or take second derivatives eagerly",
        )


def with_hooks(graph: Graph, hooked: dict[Var, Any]) -> Graph:
    """The graph in which everybody reads the hooked values through a node that has the hooks."""
    if not hooked:
        return graph
    through: dict[Var, Var] = {}
    nodes: list[Node] = []

    def add(values: Any) -> None:
        for var in values:
            if hooked.get(var):
                out = Var(Type(var.type.dtype, var.type.shape), var.name)
                nodes.append(Node(Hooked, (var,), (out,), {"hooks": Hooks(hooked[var])}))
                through[var] = out

    add(graph.inputs)
    for node in graph.nodes:
        inputs = tuple(through.get(v, v) for v in node.inputs)
        nodes.append(Node(node.op, inputs, node.outputs, node.attrs, node.bodies, node.location))
        add(node.outputs)
    return Graph(graph.inputs, tuple(nodes), tuple(through.get(v, v) for v in graph.outputs), graph.name)
