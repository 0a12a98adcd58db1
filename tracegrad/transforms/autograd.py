"""A graph as one operation of eager autograd: what lets `.backward()` go through a compiled function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.autograd.node import BackwardNode, edge_of
from tracegrad.errors import AutogradError, ShapeError, TracegradError
from tracegrad.ir.dims import Dim, symbol
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.interpret import bind, run_node
from tracegrad.ir.sizes import LEAST, Sizes
from tracegrad.ir.symbols import dims_of, symbols_given, symbols_used, with_sizes
from tracegrad.ir.types import Type
from tracegrad.ops.constant import Constant
from tracegrad.ops.creation import dimension
from tracegrad.ops.shape import BroadcastTo
from tracegrad.passes.adjoint import active_values, adjoint_and_arrivals
from tracegrad.passes.purity import is_pure
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor
from tracegrad.transforms.program import Program


class GraphFunction:
    """A graph that can be applied to Tensors with a gradient.

    The forward program returns the residuals of the backward program beside the results, so nothing is computed
    twice. Where the backward itself is to be differentiated, it runs as a GraphFunction of inputs and cotangents.
    """

    def __init__(self, graph: Graph):
        self.graph = graph
        self.plain: Program | None = None
        self.symbolic = any(isinstance(d, Dim) for v in graph.inputs for d in v.type.shape)
        self._derived: dict[tuple[int, ...], list[tuple[_Derivative, Sizes]]] = {}

    def programs(self) -> list[Program]:
        """What has been compiled so far."""
        found = [] if self.plain is None else [self.plain]
        for derivative, _ in (pair for kept in self._derived.values() for pair in kept):
            found += [derivative.forward, derivative.backward]
        return found

    def prepare(self, inputs: Sequence[Any]) -> None:
        """Compile what a call with these inputs needs first."""
        wrt = tuple(i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad)
        if wrt and state.grad_enabled:
            self._derivative(wrt, inputs).forward.stage("executable")
        else:
            self._plain().stage("executable")

    def _plain(self) -> Program:
        if self.plain is None:
            self.plain = Program(self.graph)
        return self.plain

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Results as Tensors, linked to the inputs that require a gradient."""
        wrt = tuple(i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad)
        if not wrt or not state.grad_enabled:
            return tuple(Tensor._wrap(np.asarray(r)) for r in self._plain()(*inputs))
        return self._derivative(wrt, inputs).apply(inputs)

    def _derivative(self, wrt: tuple[int, ...], inputs: Sequence[Any]) -> _Derivative:
        """The derivative for these inputs: with the sizes symbolic that they are in the graph, where that is possible.

        What it takes for granted about them is tested in later calls.
        """
        kept = self._derived.setdefault(wrt, [])
        values = bind(self.graph, [_array(x) for x in inputs]) if self.symbolic else {}
        for derivative, sizes in kept:
            if sizes.serve(values):
                return derivative
        sizes = Sizes(values, dimension)
        try:
            with sizes.known():
                derivative = _Derivative(self.graph, wrt)
            if not all(sizes.require(dim, LEAST) for dim in dims_of([derivative.joint])):
                raise ShapeError("an axis is too short to be symbolic")
        except (TracegradError, TypeError):
            if not values:
                raise
            sizes = Sizes(values, dimension)
            sizes.consumed.update(values)
            derivative = _Derivative(with_sizes(self.graph, values), wrt)
        kept.append((derivative, sizes))
        return derivative


class _Derivative:
    """Forward and backward program of a graph for one set of differentiated inputs."""

    def __init__(self, graph: Graph, wrt: tuple[int, ...]):
        self.graph, self.wrt = graph, wrt
        self.seeds = tuple(i for i, v in enumerate(graph.outputs) if v.type.inexact)
        active = active_values(graph.nodes, {graph.inputs[i] for i in wrt})
        self.linked = tuple(i for i in self.seeds if graph.outputs[i] in active)
        self.joint, self.depends = adjoint_and_arrivals(graph, wrt, self.seeds)
        self.n_inputs, self.n_outputs = len(graph.inputs), len(graph.outputs)
        forward, backward, self.residuals = split(graph, self.joint)
        self.forward, self.backward = Program(forward), Program(backward)
        saved = set(self.residuals)
        self.saved_inputs = tuple(i for i, v in enumerate(graph.inputs) if v in saved)
        self.saved_outputs = tuple(i for i, v in enumerate(graph.outputs) if v in saved)
        self.differentiable: GraphFunction | None = None

    def apply(self, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
        results = self.forward(*inputs)
        outputs = tuple(Tensor._wrap(r) for r in results[: self.n_outputs])
        node = GraphBackward(self, inputs, results[self.n_outputs :], outputs)
        for position in self.linked:
            out = outputs[position]
            out._requires_grad, out._grad_fn, out._output_nr = True, node, position
        return outputs

    def differentiable_backward(self, inputs: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        if self.differentiable is None:
            joint = self.joint
            if any(n.name == "call" for n in self.graph.all_nodes()):  # users' backwards may ask for the grad mode
                joint, _ = adjoint_and_arrivals(self.graph, self.wrt, self.seeds, create_graph=True)
            self.differentiable = GraphFunction(joint.with_nodes(joint.nodes, joint.outputs[self.n_outputs :]))
        return self.differentiable([*inputs, *cotangents])


class GraphBackward(BackwardNode):
    """The backward node of a compiled function."""

    __slots__ = ("derivative", "inputs", "outputs_saved", "released", "residuals", "versions")

    def __init__(
        self, derivative: _Derivative, inputs: Sequence[Any], residuals: Sequence[Any], outputs: Sequence[Tensor]
    ):
        self._begin(tuple(map(edge_of, inputs)))
        self._outs = tuple((o.shape, o.dtype) for o in outputs)
        self.derivative, self.inputs, self.residuals = derivative, tuple(inputs), tuple(residuals)
        self.versions = tuple(x._version if isinstance(x, Tensor) else 0 for x in inputs)
        counters = [outputs[i]._ensure_meta().version for i in derivative.saved_outputs]
        self.outputs_saved = tuple((counter, counter[0]) for counter in counters)
        self.released = False

    def _run(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        if self.released:
            raise AutogradError(
                "cannot go backward through the graph a second time: what was saved for it has been freed",
                fix="pass retain_graph=True to the first backward() or autograd.grad()",
            )
        self._check_versions()
        derivative, seeds = self.derivative, self._seeds(cotangents)
        if state.grad_enabled:
            grads = derivative.differentiable_backward(self.inputs, seeds)
        else:
            grads = tuple(Tensor._wrap(r) for r in derivative.backward(*self.residuals, *seeds))
        result: list[Tensor | None] = [None] * len(self.inputs)
        for position, g, depends in zip(derivative.wrt, grads, derivative.depends, strict=True):
            if depends:
                result[position] = g
        return tuple(result)

    def _seeds(self, cotangents: tuple[Tensor | None, ...]) -> list[Tensor]:
        """The cotangents the backward program takes, zeros in place of missing ones."""
        given = ((position, cotangents[position]) for position in self.derivative.seeds)
        return [Tensor._wrap(np.zeros(*self._outs[position])) if g is None else g for position, g in given]

    def _origin_of_nan(self, cotangents: tuple[Tensor | None, ...]) -> str:
        joint = self.derivative.joint
        found = first_nan(joint, list(map(_array, (*self.inputs, *self._seeds(cotangents)))))
        if found is None:
            return f", in the compiled function {joint.name}"
        place = "" if found.location is None else f" at {found.location}"
        return f"; in the compiled function {joint.name} the first NaN comes from `{found.name}`{place}"

    def _check_versions(self) -> None:
        """Raise AutogradError where what backward reads was modified: what it saved, with create_graph all inputs."""
        read = range(len(self.inputs)) if state.grad_enabled else self.derivative.saved_inputs
        for i in read:
            x = self.inputs[i]
            if isinstance(x, Tensor) and x._version != self.versions[i]:
                raise _modified("an input", x._version, self.versions[i])
        for counter, version in self.outputs_saved:
            if counter[0] != version:
                raise _modified("a result", counter[0], version)

    def _release(self) -> None:
        if self.residuals:  # where nothing was saved, backward may run again
            self.released = True
            self.inputs = self.residuals = ()


def first_nan(graph: Graph, args: Sequence[Any]) -> Node | None:
    """The first node that computes a NaN, when the graph is interpreted. None also where it calls users' code, which
    is not run once more."""
    if not all(map(is_pure, graph.nodes)) or any(x is None for x in args):
        return None
    sizes, values = bind(graph, args), dict(zip(graph.inputs, args, strict=True))
    with np.errstate(all="ignore"), setting(trace=None):
        for node in graph.nodes:
            results = run_node(node, [values[v] for v in node.inputs], sizes)
            if any(v.type.inexact and np.isnan(r).any() for v, r in zip(node.outputs, results, strict=True)):
                return node
            values.update(zip(node.outputs, results, strict=True))
    return None


def _array(value: Any) -> Any:
    return value._array if isinstance(value, Tensor) else value


def _modified(what: str, found: int, expected: int) -> AutogradError:
    return AutogradError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"{what} of a compiled function is at version {found}; expected version {expected}",
        fix="modify a copy (`x = x.clone()`), or modify it after backward()",
    )


def split(primal: Graph, joint: Graph) -> tuple[Graph, Graph, tuple[Var, ...]]:
    """The joint graph of `adjoint` cut into forward (results and residuals) and backward (residuals and seeds)."""
    n_nodes, n_inputs, n_outputs = len(primal.nodes), len(primal.inputs), len(primal.outputs)
    adjoint_nodes, grads = joint.nodes[n_nodes:], joint.outputs[n_outputs:]
    seeds = joint.inputs[n_inputs:]
    needed = _live(adjoint_nodes, grads)
    adjoint_nodes = tuple(n for n in adjoint_nodes if not is_pure(n) or any(v in needed for v in n.outputs))
    constants = tuple(node for node in primal.nodes if not node.inputs and node.outputs[0] in needed)
    local = {v for node in constants for v in node.outputs} | set(seeds)
    local.update(v for node in adjoint_nodes for v in node.outputs)
    residuals = tuple(
        v
        for v in (*primal.inputs, *(o for node in primal.nodes for o in node.outputs))
        if v in needed and v not in local
    )
    backward = Graph((*residuals, *seeds), (*constants, *adjoint_nodes), grads, f"{primal.name}_backward")
    unknown = symbols_used(backward) - symbols_given(backward)
    if not unknown:
        forward = Graph(primal.inputs, primal.nodes, (*primal.outputs, *residuals), primal.name)
        return forward, backward, residuals
    carrier, nodes = _carrier(sorted(unknown))
    residuals = (*residuals, carrier)
    forward = Graph(primal.inputs, (*primal.nodes, *nodes), (*primal.outputs, *residuals), primal.name)
    return forward, Graph((*residuals, *seeds), backward.nodes, grads, backward.name), residuals


def _carrier(names: Sequence[str]) -> tuple[Var, tuple[Node, ...]]:
    """A residual without elements that has the symbols as sizes, for a backward that no other residual tells them."""
    zero = Var(Type(np.dtype(bool)))
    carrier = Var(Type(zero.type.dtype, (*map(symbol, names), 0)))
    constant = Node(Constant, (), (zero,), {"value": np.zeros((), bool), "weak": False})
    return carrier, (constant, Node(BroadcastTo, (zero,), (carrier,), {"shape": carrier.type.shape}))


def _live(nodes: Sequence[Any], outputs: Sequence[Var]) -> set[Var]:
    """The values the outputs need, through these nodes."""
    live = set(outputs)
    for node in reversed(nodes):
        if any(v in live for v in node.outputs) or not is_pure(node):
            live.update(node.inputs)
    return live
