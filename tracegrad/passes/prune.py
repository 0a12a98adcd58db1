"""Loops and branches without the parts that nobody reads: carries, ys and tapes, invariants, results of branches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ops.loops import Cond, Scan, Sized, While

Simplify = Callable[[Graph], Graph]


def pruned(node: Node, live: Collection[Var], dce: Simplify) -> Node:
    """The node with only the outputs in `live` and what they need; `dce` removes dead nodes of a body."""
    rule = _RULES.get(node.op)
    return node if rule is None else rule(node, live, dce)


def _scan(node: Node, live: Collection[Var], dce: Simplify) -> Node:
    body, n_carry = node.bodies[0], node.attrs["n_carry"]
    end = n_carry + node.attrs["n_xs"]
    ys = [k for k in range(n_carry, len(node.outputs)) if node.outputs[k] in live]
    carries = {k for k in range(n_carry) if node.outputs[k] in live}
    carries, used = _needed_carries(body, n_carry, carries, ys, dce)
    kept = [k for k, v in enumerate(body.inputs) if k in carries or (k >= n_carry and v in used)]
    outputs = [*sorted(carries), *ys]
    if len(kept) == len(body.inputs) and len(outputs) == len(body.outputs):
        return _with(node, node.inputs, node.outputs, node.attrs, (dce(body),))
    attrs = {**node.attrs, "n_carry": len(carries), "n_xs": sum(n_carry <= k < end for k in kept)}
    return _with(node, _pick(node.inputs, kept), _pick(node.outputs, outputs), attrs, (_cut(body, kept, outputs, dce),))


def _while(node: Node, live: Collection[Var], dce: Simplify) -> Node:
    condition, body = node.bodies
    n_carry, end = node.attrs["n_carry"], node.attrs["n_carry"] + node.attrs["n_condition"]
    asked = _reads(dce(condition))
    carries = {k for k in range(n_carry) if node.outputs[k] in live or condition.inputs[k] in asked}
    carries, used = _needed_carries(body, n_carry, carries, [], dce)
    kept = sorted(carries)
    asks = [k for k in range(n_carry, end) if condition.inputs[k] in asked]
    fixed = [k for k in range(n_carry, len(body.inputs)) if body.inputs[k] in used]
    inputs = (*_pick(node.inputs, [*kept, *asks]), *(node.inputs[end - n_carry + k] for k in fixed))
    bodies = _cut(condition, [*kept, *asks], [0], dce), _cut(body, [*kept, *fixed], kept, dce)
    attrs = {"n_carry": len(kept), "n_condition": len(asks)}
    return _with(node, inputs, (*_pick(node.outputs, kept), node.outputs[-1]), attrs, bodies)


def _cond(node: Node, live: Collection[Var], dce: Simplify) -> Node:
    outputs = [k for k, v in enumerate(node.outputs) if v in live]
    every = range(len(node.inputs) - 1)
    bodies = [_cut(body, every, outputs, dce) for body in node.bodies]
    reads = [_reads(body) for body in bodies]
    kept = [k for k in every if any(body.inputs[k] in r for body, r in zip(bodies, reads, strict=True))]
    bodies = [_cut(body, kept, range(len(outputs)), dce) for body in bodies]
    return _with(
        node, (node.inputs[0], *_pick(node.inputs[1:], kept)), _pick(node.outputs, outputs), node.attrs, tuple(bodies)
    )


def _sized(node: Node, live: Collection[Var], dce: Simplify) -> Node:
    return _cond(node, live, dce)


def _needed_carries(
    body: Graph, n_carry: int, carries: set[int], others: Sequence[int], dce: Simplify
) -> tuple[set[int], set[Var]]:
    """The carries that these carries and other outputs need from step to step, and all values that are read then."""
    while True:
        used = _reads(dce(body.with_nodes(body.nodes, _pick(body.outputs, [*sorted(carries), *others]))))
        more = {k for k in range(n_carry) if body.inputs[k] in used} - carries
        if not more:
            return carries, used
        carries = carries | more


def _reads(body: Graph) -> set[Var]:
    return {v for node in body.nodes for v in node.inputs} | set(body.outputs)


def _cut(body: Graph, inputs: Sequence[int], outputs: Sequence[int], dce: Simplify) -> Graph:
    """The body with some of its inputs and outputs."""
    if len(inputs) == len(body.inputs) and len(outputs) == len(body.outputs):
        return dce(body)
    return dce(Graph(_pick(body.inputs, inputs), body.nodes, _pick(body.outputs, outputs), body.name))


def _pick(values: Sequence[Var], positions: Sequence[int]) -> tuple[Var, ...]:
    return tuple(values[k] for k in positions)


def _with(node: Node, inputs: Sequence[Var], outputs: Sequence[Var], attrs: Any, bodies: tuple[Graph, ...]) -> Node:
    same = len(inputs) == len(node.inputs) and len(outputs) == len(node.outputs)
    if same and all(new is old for new, old in zip(bodies, node.bodies, strict=True)):
        return node
    return Node(node.op, tuple(inputs), tuple(outputs), attrs, bodies, node.location)


_RULES: dict[Any, Callable[[Node, Collection[Var], Simplify], Node]] = {
    Scan: _scan,
    While: _while,
    Cond: _cond,
    Sized: _sized,
}
