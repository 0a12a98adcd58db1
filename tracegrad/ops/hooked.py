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
        return (Refused.apply(g, shape=g.shape),)


class Refused(Operation):
    """The derivative of what a hook did, which nobody knows: an error for whoever asks for its number."""

    name = "refused"
    saves = ("",)
    pure = False

    @staticmethod
    def forward(g: np.ndarray, *, shape: Any) -> np.ndarray:
        raise AutogradError(
            "a second derivative through a gradient that a hook inside a compiled function had seen: what the hook did "
            "is not recorded",
            fix="remove the hook, or take second derivatives eagerly",
        )

    @staticmethod
    def infer(g: Type, *, shape: Any) -> Type:
        return g.with_shape(shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (Refused.apply(g, shape=ctx.types[0].shape),)


class Passage(Operation):
    """Several values themselves, whose cotangents are seen together by `seen`. Inlining removes it."""

    name = "passage"

    @classmethod
    def saved_for(cls, needs: tuple[bool, ...]) -> str:
        return ""

    @staticmethod
    def forward(*values: np.ndarray, seen: Any) -> tuple[np.ndarray, ...]:
        return tuple(map(np.array, values))

    @staticmethod
    def infer(*types: Type, seen: Any) -> tuple[Type, ...]:
        return tuple(Type(t.dtype, t.shape) for t in types)

    @staticmethod
    def backward_symbolic(
        node: Node, inputs: Any, outputs: Any, needs: tuple[bool, ...], cotangents: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        present = tuple(i for i, g in enumerate(cotangents) if g is not None)
        types = tuple(Type(v.type.dtype, v.type.shape) for v in node.inputs)
        wanted = tuple(i for i, needed in enumerate(needs) if needed)
        given = tuple(cotangents[i] for i in present)
        seen = Seen(node.attrs["seen"])
        call = PassageCall.apply(*given, seen=seen, present=present, types=types, wanted=wanted)
        found = dict(zip(wanted, call, strict=True))
        return tuple(found.get(i) for i in range(len(inputs)))

    @staticmethod
    def forward_symbolic(node: Node, inputs: Any, outputs: Any, tangents: Any) -> Any:
        return tangents


class Seen:
    """Whoever sees several cotangents together, as an attribute of nodes."""

    def __init__(self, function: Any):
        self.function = function

    def __repr__(self) -> str:
        return "<hooks>"


class PassageCall(Operation):
    """What hooks make of several cotangents: those at the positions `wanted`, from those that are `present`."""

    name = "passage_call"
    saves = ("",)
    pure = False

    @staticmethod
    def forward(
        *cotangents: np.ndarray, seen: Seen, present: tuple[int, ...], types: tuple[Type, ...], wanted: tuple[int, ...]
    ) -> tuple[np.ndarray, ...]:
        given: list[Tensor | None] = [None] * len(types)
        for position, g in zip(present, cotangents, strict=True):
            given[position] = Tensor._wrap(np.array(g))
        with setting(trace=None, grad_enabled=False, function_body=False):
            found = seen.function(tuple(given))
        return tuple(
            np.zeros(types[i].shape, types[i].dtype) if found[i] is None else np.array(found[i]._value())
            for i in wanted
        )

    @staticmethod
    def infer(
        *cotangents: Type, seen: Seen, present: tuple[int, ...], types: tuple[Type, ...], wanted: tuple[int, ...]
    ) -> tuple[Type, ...]:
        return tuple(types[i] for i in wanted)

    @staticmethod
    def backward(ctx: Any, *g: Any) -> tuple[Any, ...]:
        return tuple(Refused.apply(g[0], shape=t.shape) for t in ctx.types)


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
