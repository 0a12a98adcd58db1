"""Loops and branches for all rows of a batch at once.

scan:    a scan of the batched body. A carry that has rows after a step has them from the start.
while:   the same as long as the condition is one for all rows. Where it has rows, the loop runs until no row goes on;
         rows that are done keep their carry.
cond:    the batched branches, if the index is one for all rows. Where it has rows, every branch that some row takes is
         computed for all of them, and each row picks its own. Rows that do not take a branch give it the operands of
         one that does, so that nothing undefined is computed for them, whose NaN would spoil the gradient.
sized:   the batched body; where the count has rows, the largest count, and steps that are not a row's own change
         nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.ir import lowering
from tracegrad.ir.dims import DimLike, symbol, symbols
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.types import Type
from tracegrad.ops.cotangent import zeros
from tracegrad.ops.loops import Cond, Region, Scan, Sized, While
from tracegrad.ops.loops.scan import output_types
from tracegrad.ops.loops.while_loop import COUNT
from tracegrad.ops.operands import positions
from tracegrad.ops.select import Where
from tracegrad.ops.shape import BroadcastTo, Reshape, Transpose
from tracegrad.passes.adjoint import constants_met
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace, splice

Values = Sequence[Any]  # Tensors
Flags = Sequence[bool]
Rule = Callable[[Node, tuple[Tensor, ...], tuple[bool, ...], DimLike], "Sequence[Tensor] | None"]


def rule_of(node: Node) -> Rule:
    """How the node is batched: from its operands, which of them have rows, and the number of rows, to its outputs."""
    return _RULES[node.op]


# ---- what the rules share -----------------------------------------------------------------------------------------


def _emit(
    op: Any, inputs: Values, types: Sequence[Type], attrs: Mapping[str, Any], bodies: tuple[Graph, ...]
) -> Values:
    trace = state.trace
    assert trace is not None
    return trace.emit(op, tuple(x._var for x in inputs), tuple(types), attrs, bodies, trace.location)


def _graph(name: str, types: Sequence[Type], function: Callable[[list[Any]], Sequence[Any]]) -> Graph:
    """The graph that a function of Tensors of these types records."""
    trace = Trace(name)
    inputs = [trace.add_input(t) for t in types]
    with setting(trace=trace, grad_enabled=True):
        outputs = tuple(trace.lift(x) for x in function(inputs))
    return Graph(tuple(trace.inputs), (*constants_met(trace), *trace.nodes), outputs, name)


def _run(graph: Graph, inputs: Values) -> list[Any]:
    """The graph's nodes in the active trace: its outputs."""
    trace = state.trace
    assert trace is not None
    return [Tensor._traced(trace, v) for v in splice(trace, graph, tuple(x._var for x in inputs))]


def _batched(graph: Graph, size: DimLike, flags: Flags) -> tuple[Graph, tuple[bool, ...]]:
    from tracegrad.passes.batching import batch

    return batch(graph, size, flags)


def _for_all(graph: Graph, has_rows: Flags, wanted: Flags, size: DimLike) -> Graph:
    """The graph with the outputs repeated that have no rows and should."""
    nodes, outputs = list(graph.nodes), []
    for var, found, needed in zip(graph.outputs, has_rows, wanted, strict=True):
        if needed and not found:
            repeated = Var(Type(var.type.dtype, (size, *var.type.shape)))
            nodes.append(Node(BroadcastTo, (var,), (repeated,), {"shape": repeated.type.shape}))
            var = repeated
        outputs.append(var)
    return Graph(graph.inputs, tuple(nodes), tuple(outputs), graph.name)


def _rows(x: Tensor, flag: bool, size: DimLike) -> Tensor:
    return x if flag else BroadcastTo.apply(x, shape=(size, *x.shape))


def _every(xs: Values, flags: Flags, size: DimLike) -> list[Tensor]:
    return [_rows(x, flag, size) for x, flag in zip(xs, flags, strict=True)]


def _some(xs: Values, flags: Flags, wanted: Flags, size: DimLike) -> list[Tensor]:
    """The first of the values, with rows where `wanted` says so."""
    return [_rows(x, flag, size) if needed else x for x, flag, needed in zip(xs, flags, wanted, strict=False)]


def _pick(mask: Tensor, x: Tensor, y: Any) -> Any:
    """Per row the one or the other."""
    shape = (*mask.shape, *(1,) * (x.ndim - mask.ndim))
    return Where.apply(Reshape.apply(mask, shape=shape), x, y)


def _settled(body: Graph, size: DimLike, flags: list[bool], n_carry: int) -> tuple[Graph, tuple[bool, ...]]:
    """The batched body when `flags` of its carry, which this completes, are those of the carry after a step too."""
    while True:
        graph, has_rows = _batched(body, size, flags)
        late = [k for k in range(n_carry) if has_rows[k] and not flags[k]]
        if not late:
            return graph, has_rows
        for k in late:
            flags[k] = True


# ---- scan ---------------------------------------------------------------------------------------------------------


def _scan(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike) -> Sequence[Tensor]:
    found = list(flags)
    n_carry, end = node.attrs["n_carry"], node.attrs["n_carry"] + node.attrs["n_xs"]
    body, has_rows = _settled(node.bodies[0], size, found, n_carry)
    wanted = (*found[:n_carry], *has_rows[n_carry:])
    body = _for_all(body, has_rows, wanted, size)
    carry = _some(tensors, flags, found[:n_carry], size)
    xs = zip(tensors[n_carry:end], flags[n_carry:end], strict=True)
    given = [*carry, *(_swapped(x) if flag else x for x, flag in xs), *tensors[end:]]
    results = _emit(Scan, given, output_types(body, n_carry, node.attrs["length"]), node.attrs, (body,))
    ys = zip(results[n_carry:], wanted[n_carry:], strict=True)
    finals = _every(results[:n_carry], found[:n_carry], size)
    return [*finals, *(_swapped(y) if flag else _rows(y, flag, size) for y, flag in ys)]


def _swapped(x: Tensor) -> Tensor:
    """Rows of steps as steps of rows, and back."""
    return Transpose.apply(x, axes=(1, 0, *range(2, x.ndim)))  # type: ignore[no-any-return]


# ---- while --------------------------------------------------------------------------------------------------------


def _while(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike) -> Sequence[Tensor]:
    condition, body = node.bodies
    n_carry, end = node.attrs["n_carry"], node.attrs["n_carry"] + node.attrs["n_condition"]
    found = [*flags[:n_carry], *flags[end:]]
    graph, has_rows = _settled(body, size, found, n_carry)
    asked, (per_row,) = _batched(condition, size, [*found[:n_carry], *flags[n_carry:end]])
    if per_row:
        return _while_any(node, tensors, flags, size)
    graph = _for_all(graph, has_rows, found[:n_carry], size)
    carry = _some(tensors, flags, found[:n_carry], size)
    types = [*(v.type for v in graph.outputs), COUNT]
    results = _emit(While, [*carry, *tensors[n_carry:]], types, node.attrs, (asked, graph))
    return [*_every(results[:-1], found[:n_carry], size), _rows(results[-1], False, size)]


def _while_any(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike) -> Sequence[Tensor]:
    """The loop that runs while some row goes on. Its carry: all carries, which rows go on, how many steps each took."""
    condition, body = node.bodies
    n_carry, end = node.attrs["n_carry"], node.attrs["n_carry"] + node.attrs["n_condition"]
    every = [True] * n_carry
    asks, (per_row,) = _batched(condition, size, [*every, *flags[n_carry:end]])
    asks = _for_all(asks, [per_row], [True], size)
    step, has_rows = _batched(body, size, [*every, *flags[end:]])
    step = _for_all(step, has_rows, every, size)
    carry = _every(tensors[:n_carry], flags[:n_carry], size)
    asked, rest = list(tensors[n_carry:end]), list(tensors[end:])
    going = _run(asks, [*carry, *asked])[0]
    counts = zeros(Type(COUNT.dtype, (size,)))

    def advance(values: list[Any]) -> list[Any]:
        before, (active, count), others = values[:n_carry], values[n_carry : n_carry + 2], values[n_carry + 2 :]
        moved = _run(step, [*before, *others[len(asked) :]])
        after = [_pick(active, new, old) for new, old in zip(moved, before, strict=True)]
        still = _run(asks, [*after, *others[: len(asked)]])[0]
        return [*after, np.logical_and(active, still), count + np.where(active, 1, 0)]

    start = [*carry, going, counts]
    given = [*asked, *rest]
    whole = _graph(body.name, [x.type for x in (*start, *given)], advance)
    goes_on = _graph(condition.name, [x.type for x in start], lambda values: [np.any(values[n_carry])])
    attrs = {"n_carry": len(start), "n_condition": 0}
    results = _emit(While, [*start, *given], [*(x.type for x in start), COUNT], attrs, (goes_on, whole))
    return [*results[:n_carry], results[n_carry + 1]]


# ---- cond ---------------------------------------------------------------------------------------------------------


def _cond(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike) -> Sequence[Tensor]:
    index: Any = tensors[0]
    operands, per_operand = tensors[1:], flags[1:]
    made = [_batched(body, size, per_operand) for body in node.bodies]
    wanted = [flags[0] or any(column) for column in zip(*(has_rows for _, has_rows in made), strict=True)]
    bodies = [_for_all(graph, has_rows, wanted, size) for graph, has_rows in made]
    if not flags[0]:
        types = [v.type for v in bodies[0].outputs]
        return _every(_emit(Cond, tensors, types, node.attrs, tuple(bodies)), wanted, size)
    last = len(bodies) - 1
    number = np.clip(index, 0, last)
    results: list[Any] = []
    for k, body in enumerate(bodies):
        chosen = number == k
        outputs = _where_taken(body, chosen, operands, per_operand)
        results = outputs if not k else [_pick(chosen, new, old) for new, old in zip(outputs, results, strict=True)]
    return results


def _where_taken(body: Graph, chosen: Any, operands: Values, flags: Flags) -> list[Tensor]:
    """A batched branch, with meaning for the rows that take it; zeros where there is none."""
    first = np.argmax(chosen)

    def taken(values: list[Any]) -> Sequence[Any]:
        mask, row, *rest = values
        safe = [_pick(mask, x, x[row]) if flag else x for x, flag in zip(rest, flags, strict=True)]
        return _run(body, safe)

    def nothing(values: list[Any]) -> Sequence[Any]:
        return [zeros(v.type) for v in body.outputs]

    given = [chosen, first, *operands]
    types = [x.type for x in given]
    outputs = [v.type for v in body.outputs]
    branches = _graph(body.name, types, nothing), _graph(body.name, types, taken)
    return list(_emit(Cond, [np.any(chosen).astype(np.int64), *given], outputs, {}, branches))


# ---- sized --------------------------------------------------------------------------------------------------------


def _sized(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike) -> Sequence[Tensor] | None:
    count: Any = tensors[0]
    given = tensors[1:]
    (body,) = node.bodies
    name = node.attrs["symbol"]
    if not flags[0]:
        graph, has_rows = _batched(body, size, flags[1:])
        results = _emit(Sized, tensors, [v.type for v in graph.outputs], node.attrs, (graph,))
        return _every(results, has_rows, size)
    if not all(_follows_length(n, name) for n in body.nodes):
        return None
    masked = _masked(body, name)
    graph, has_rows = _batched(masked, size, [True, *flags[1:]])
    longest = np.max(count)
    types = [v.type for v in graph.outputs]
    return _every(_emit(Sized, [longest, count, *given], types, node.attrs, (graph,)), has_rows, size)


def _has(name: str, values: Sequence[Var]) -> bool:
    return any(name in symbols(d) for v in values for d in v.type.shape)


def _follows_length(node: Node, name: str) -> bool:
    """Whether zeros in a row's surplus steps do no harm: what is there is only moved, scaled or summed."""
    if node.op is Scan and node.attrs["length"] == symbol(name):
        return True
    if not _has(name, (*node.inputs, *node.outputs)):
        return not issubclass(node.op, Region) or not any(_has(name, b.inputs) for b in node.bodies)
    lower = node.op.lower
    return (
        not node.inputs
        or node.name in ("sum", "reshape", "broadcast_to", "transpose")
        or isinstance(lower, lowering.Elementwise)
    )


def _masked(body: Graph, name: str) -> Graph:
    """The body with one more input, its row's own number of steps: loops take no further ones, whose ys are zeros."""
    trace = Trace(body.name)
    count = trace.add_input(COUNT, "count")
    env: dict[Var, Var] = {}
    for v in body.inputs:
        env[v] = trace.add_input(v.type, v.name)._var
    with setting(trace=trace, grad_enabled=True):
        for node in body.nodes:
            inputs = [Tensor._traced(trace, env[v]) for v in node.inputs]
            if node.op is Scan and node.attrs["length"] == symbol(name):
                outputs = _masked_scan(node, inputs, count)
            else:
                types = [v.type for v in node.outputs]
                outputs = _emit(node.op, inputs, types, node.attrs, node.bodies)
            env.update((v, out._var) for v, out in zip(node.outputs, outputs, strict=True))
    nodes = (*constants_met(trace), *trace.nodes)
    return Graph(tuple(trace.inputs), nodes, tuple(env[v] for v in body.outputs), body.name)


def _masked_scan(node: Node, inputs: list[Tensor], count: Tensor) -> Values:
    n_carry, end = node.attrs["n_carry"], node.attrs["n_carry"] + node.attrs["n_xs"]
    inside = node.bodies[0]

    def step(values: list[Any]) -> list[Any]:
        steps, position, own = values[end + 1 :], values[end], values[:end]
        limit, *rest = steps
        results = _run(inside, [*own, *rest])
        active = position < limit
        kept = [Where.apply(active, new, old) for new, old in zip(results, own[:n_carry], strict=False)]
        return [*kept, *(Where.apply(active, y, np.zeros((), y.dtype)) for y in results[n_carry:])]

    steps = positions(node.attrs["length"])
    given = [*inputs[:end], steps, count, *inputs[end:]]
    types = [*(v.type for v in inside.inputs[:end]), COUNT, COUNT, *(v.type for v in inside.inputs[end:])]
    body = _graph(inside.name, types, step)
    attrs = {**node.attrs, "n_xs": node.attrs["n_xs"] + 1}
    return _emit(Scan, given, output_types(body, n_carry, node.attrs["length"]), attrs, (body,))


_RULES: dict[Any, Rule] = {Scan: _scan, While: _while, Cond: _cond, Sized: _sized}
