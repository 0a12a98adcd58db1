"""The adjoints of loops and branches, as nodes of the same kinds, so that they can be differentiated again.

scan:   a scan in the other direction over the carry that each step was given (the tape): it computes the step once
        more, but for products of matrices and the like, whose results are on the tape too, and pulls the cotangents of
        carry and y back through it; cotangents of xs are its ys, those of invariants are summed in its carry (Griewank
        & Walther, Evaluating Derivatives, ch. 12: loops, checkpoint every step).
while:  its count of steps makes it a scan of that length, whose forward part and adjoint run in one `sized`.
cond:   a cond whose branches compute theirs once more and pull back through it; the other is not evaluated.
sized:  a sized of the adjoint of its body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tracegrad.ir.dims import DimLike, symbol
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.types import Type
from tracegrad.ops.arithmetic import Add
from tracegrad.ops.cotangent import zeros
from tracegrad.ops.loops import Cond, Scan, Sized, Weaken, While
from tracegrad.ops.loops.readings import readings
from tracegrad.ops.loops.scan import body_parts, is_dear, output_types, parts, stacked, with_tape
from tracegrad.passes.adjoint import active_values, adjoint, constants_met, values_reaching
from tracegrad.passes.cse import cse
from tracegrad.passes.dce import dce
from tracegrad.records import record
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace, splice

Values = tuple[Tensor, ...]
Cotangents = Sequence[Any]
Backward = Callable[[Node, Values, Values, tuple[bool, ...], Cotangents], tuple[Any, ...]]


def backward_of(node: Node) -> Backward:
    """The rule for a node: from its inputs, outputs, wanted inputs and cotangents to cotangents of the inputs."""
    return _RULES[node.op]


def _emit(op: Any, inputs: Sequence[Any], types: Sequence[Type], attrs: Any, bodies: tuple[Graph, ...]) -> Values:
    trace = state.trace
    assert trace is not None
    return trace.emit(op, tuple(map(trace.lift, inputs)), tuple(types), attrs, bodies, trace.location)


def pulled(graph: Graph, wrt: Sequence[int], seeds: Sequence[int]) -> Graph:
    """The graph from inputs and cotangents of the `seeds` outputs to cotangents of the `wrt` inputs."""
    joint = cse(adjoint(graph, wrt, seeds)[0])  # the derivative of cos is a sine that may be there, and kept
    return dce(joint.with_nodes(joint.nodes, joint.outputs[len(graph.outputs) :]))


def _seeds(outputs: Sequence[Var], cotangents: Cotangents) -> list[int]:
    """The outputs that a cotangent has arrived at."""
    return [k for k, (v, g) in enumerate(zip(outputs, cotangents, strict=True)) if g is not None and v.type.inexact]


# ---- scan ---------------------------------------------------------------------------------------------------------


@record
class _Activity:
    """Which parts of a scan carry derivatives: positions among carry, xs, invariants and ys."""

    carry: tuple[int, ...]
    xs: tuple[int, ...]
    invariants: tuple[int, ...]
    ys: tuple[int, ...]


def _activity(node: Node, needs: tuple[bool, ...], cotangents: Cotangents) -> _Activity:
    """A carry takes part if it depends on a wanted input, in any step, and a cotangent reaches it, from any step."""
    body, n_carry = node.bodies[0], node.attrs["n_carry"]
    wanted = {v for v, needed in zip(body.inputs, needs, strict=True) if needed and v.type.inexact}
    while True:
        active = active_values(body.nodes, wanted)
        more = {v for v, out in zip(body.inputs[:n_carry], body.outputs, strict=False) if out in active} - wanted
        if not more:
            break
        wanted |= more
    seeds = set(_seeds(node.outputs, cotangents))
    while True:
        reaching = values_reaching(body, sorted(seeds))
        back = {k for k, v in enumerate(body.inputs[:n_carry]) if v in reaching and v.type.inexact} - seeds
        if not back:
            break
        seeds |= back
    both = [k for k, v in enumerate(body.inputs) if v in wanted and v in reaching]
    n_xs, n_carries = node.attrs["n_xs"], node.attrs["n_carry"]
    own = {v for v, needed in zip(body.inputs, needs, strict=True) if needed}
    return _Activity(
        # what flows on from step to step, though no later step may read it
        tuple(k for k in range(n_carry) if body.inputs[k] in wanted and k in seeds),
        tuple(k - n_carries for k in both if n_carries <= k < n_carries + n_xs),
        tuple(k - n_carries - n_xs for k in both if k >= n_carries + n_xs and body.inputs[k] in own),
        tuple(k - n_carry for k in sorted(seeds) if k >= n_carry and body.outputs[k] in active),
    )


def _scan(node: Node, inputs: Values, outputs: Values, needs: tuple[bool, ...], cotangents: Cotangents) -> Any:
    body, n_carry, n_xs = node.bodies[0], node.attrs["n_carry"], node.attrs["n_xs"]
    length: DimLike = node.attrs["length"]
    found = _activity(node, needs, cotangents)
    first = n_carry + n_xs
    wrt = [*found.carry, *(n_carry + k for k in found.xs), *(first + k for k in found.invariants)]
    seeds = [*found.carry, *(n_carry + k for k in found.ys)]
    if not wrt or not seeds:
        return (None,) * len(inputs)
    step, kept = _with_results(pulled(body, wrt, seeds), node)
    reverse = _Reverse(step, body, n_carry, n_xs, found)
    graph = reverse.record()
    tapes: dict[int, Tensor] = dict(enumerate(inputs))
    tapes |= _tapes(node, inputs, outputs, [k for k in reverse.read if k < n_carry])
    tapes |= {k: outputs[n_carry + p] for k, p in enumerate(kept, len(step.inputs) - len(kept))}
    values = [tapes[k] for k in reverse.read]
    taped = [v for k, v in zip(reverse.read, values, strict=True) if reverse.stacked(k)]
    fixed = [v for k, v in zip(reverse.read, values, strict=True) if not reverse.stacked(k)]
    start = [_or_zeros(cotangents[k], node.outputs[k].type) for k in found.carry]
    sums = [zeros(_strong(body.inputs[first + k].type)) for k in found.invariants]
    arriving = [cotangents[n_carry + k] for k in found.ys]
    attrs = {
        "length": length, "reverse": not node.attrs["reverse"], "n_carry": len(start) + len(sums),
        "n_xs": len(taped) + len(arriving), "unroll": node.attrs["unroll"],
    }  # fmt: skip
    graph = with_tape(graph, attrs["n_carry"], length)
    types = output_types(graph, attrs["n_carry"], length)
    results = _emit(Scan, [*start, *sums, *taped, *arriving, *fixed], types, attrs, (graph,))
    grads: list[Any] = [None] * len(inputs)
    for position, k in enumerate(found.carry):
        grads[k] = results[position] if needs[k] else None
    for position, k in enumerate(found.invariants, len(start)):
        grads[first + k] = results[position]
    for position, k in enumerate(found.xs, attrs["n_carry"]):
        grads[n_carry + k] = results[position] if needs[n_carry + k] else None
    return tuple(grads)


def _with_results(step: Graph, node: Node) -> tuple[Graph, tuple[int, ...]]:
    """The step that takes from the loop's ys, as further inputs, what is dear to compute once more and what it reads of
    large carries, if that is all it needs of them; which ys."""
    body, makers, ys = node.bodies[0], step.definitions(), body_parts(node).ys
    read = readings(body, node.attrs["n_carry"])
    dear = {v: p for p, v in enumerate(ys) if v in makers and is_dear(makers[v])}
    both = dear | {v: p for p, v in enumerate(ys) if v in makers and v in read}
    graph, kept = _given(step, both)
    used = {v for n in graph.nodes for v in n.inputs} | set(graph.outputs)
    whole = {k for k, v in enumerate(body.inputs[: node.attrs["n_carry"]]) if v in used}
    if not any(v not in dear and read[v] & whole for v in both):
        return graph, kept
    return _given(step, {v: p for v, p in both.items() if v in dear or not read[v] & whole})


def _given(step: Graph, found: Mapping[Var, int]) -> tuple[Graph, tuple[int, ...]]:
    """The step that is given some of its values as further inputs, as far as it reads them; which ys these are."""
    given = {v: Var(v.type, v.name or "kept") for v in found}
    nodes = tuple(
        Node(n.op, tuple(given.get(v, v) for v in n.inputs), n.outputs, n.attrs, n.bodies, n.location)
        for n in step.nodes
        if not all(v in given for v in n.outputs)
    )
    outputs = tuple(given.get(v, v) for v in step.outputs)
    graph = dce(Graph(step.inputs, nodes, outputs, step.name))
    used = {v for n in graph.nodes for v in n.inputs} | set(outputs)
    read = [v for v in found if given[v] in used]
    inputs = (*step.inputs, *(given[v] for v in read))
    return Graph(inputs, graph.nodes, outputs, step.name), tuple(found[v] for v in read)


class _Reverse:
    """The body of the reversed scan. Its inputs: cotangents of the carry, sums for invariants; what the step reads of
    carry and xs, cotangents of ys; what it reads of invariants. `read` are the step's inputs it needs, in order."""

    def __init__(self, step: Graph, body: Graph, n_carry: int, n_xs: int, found: _Activity):
        self.step, self.body, self.n_carry, self.n_xs, self.found = step, body, n_carry, n_xs, found
        used = {v for node in step.nodes for v in node.inputs} | set(step.outputs)
        self.first_kept = len(body.inputs) + len(found.carry) + len(found.ys)
        given = [*range(len(body.inputs)), *range(self.first_kept, len(step.inputs))]
        self.read = [k for k in given if step.inputs[k] in used]

    def stacked(self, position: int) -> bool:
        """Whether the step's input has an element for each step: xs, carries that change, results that were kept."""
        if position < self.n_carry:
            return self.body.outputs[position] is not self.body.inputs[position]
        return position < self.n_carry + self.n_xs or position >= self.first_kept

    def record(self) -> Graph:
        step, found = self.step, self.found
        trace = Trace(f"{self.body.name}_adjoint")
        n_inputs, n_back = len(self.body.inputs), len(found.carry)
        first = self.n_carry + self.n_xs
        seeds = step.inputs[n_inputs : self.first_kept]
        back = [trace.add_input(v.type, "g") for v in seeds[:n_back]]
        sums = [trace.add_input(_strong(self.body.inputs[first + k].type), "sum") for k in found.invariants]
        env: dict[Var, Tensor] = {}
        for k in self.read:
            if self.stacked(k):
                env[step.inputs[k]] = trace.add_input(_strong(step.inputs[k].type), step.inputs[k].name)
        arriving = [trace.add_input(v.type, "gy") for v in seeds[n_back:]]
        for k in self.read:
            if not self.stacked(k):
                env[step.inputs[k]] = trace.add_input(step.inputs[k].type, step.inputs[k].name)
        env.update(zip(seeds, (*back, *arriving), strict=True))
        with setting(trace=trace, grad_enabled=True):
            for k in self.read:
                value = env[step.inputs[k]]
                if step.inputs[k].type.weak and not value.type.weak:
                    env[step.inputs[k]] = Weaken.apply(value)
            unused = {v: v for v in step.inputs}
            args = tuple(env[v]._var if v in env else unused[v] for v in step.inputs)
            results = [Tensor._traced(trace, v) for v in splice(trace, step, args)]
            n_xs = len(found.xs)
            grads, of_xs, rest = results[:n_back], results[n_back : n_back + n_xs], results[n_back + n_xs :]
            total = [Add.apply(a, b) for a, b in zip(sums, rest, strict=True)]
        outputs = tuple(t._var for t in (*grads, *total, *of_xs))
        graph = Graph(tuple(trace.inputs), (*constants_met(trace), *trace.nodes), outputs, trace.name)
        trace.finished = True
        return graph


def _tapes(node: Node, inputs: Values, outputs: Values, wanted: Sequence[int]) -> dict[int, Tensor]:
    """Per wanted carry what each step was given: a y of the scan, or the initial value where it never changes."""
    own = body_parts(node)
    found: dict[int, Tensor] = {}
    for k in wanted:
        if own.final[k] is own.carry[k]:
            found[k] = inputs[k]
            continue
        position = next((p for p, v in enumerate(own.ys) if v is own.carry[k]), None)
        if position is None:
            return _taped_again(node, inputs, wanted)
        found[k] = outputs[node.attrs["n_carry"] + position]
    return found


def _taped_again(node: Node, inputs: Values, wanted: Sequence[int]) -> dict[int, Tensor]:
    """The tapes of a scan that has lost them, by running it once more."""
    n_carry = node.attrs["n_carry"]
    body = with_tape(node.bodies[0], n_carry, node.attrs["length"])
    types = output_types(body, n_carry, node.attrs["length"])
    results = _emit(Scan, inputs, types, node.attrs, (body,))
    again = Node(Scan, node.inputs, tuple(r._var for r in results), node.attrs, (body,))
    return _tapes(again, inputs, results, wanted)


def _strong(type: Type) -> Type:
    return Type(type.dtype, type.shape)


def _or_zeros(g: Any, type: Type) -> Any:
    return zeros(_strong(type)) if g is None else g


# ---- the others ---------------------------------------------------------------------------------------------------


def _while(node: Node, inputs: Values, outputs: Values, needs: tuple[bool, ...], cotangents: Cotangents) -> Any:
    n_carry = node.attrs["n_carry"]
    end = n_carry + node.attrs["n_condition"]
    name = f"tape{height(node)}"
    loop = _as_scan(node, symbol(name))
    taken = [*range(n_carry), *range(end, len(inputs))]  # the loop's inputs among the node's
    wrt = [p for p, k in enumerate(taken) if needs[k] and inputs[k].type.inexact]
    seeds = _seeds(node.outputs[:n_carry], cotangents[:n_carry])
    if not wrt or not seeds:
        return (None,) * len(inputs)
    graph = pulled(loop, wrt, seeds)
    given = [outputs[-1], *(inputs[k] for k in taken), *(cotangents[k] for k in seeds)]
    results = _emit(Sized, given, [v.type for v in graph.outputs], {"symbol": name}, (graph,))
    grads: list[Any] = [None] * len(inputs)
    for position, g in zip(wrt, results, strict=True):
        grads[taken[position]] = g
    return tuple(grads)


def _as_scan(node: Node, length: DimLike) -> Graph:
    """A `while` as the scan of `length` steps that it turned out to be."""
    n_carry = node.attrs["n_carry"]
    body = with_tape(node.bodies[1], n_carry, length)
    attrs = {"length": length, "reverse": False, "n_carry": n_carry, "n_xs": 0, "unroll": 1}
    inputs = tuple(Var(v.type, v.name) for v in body.inputs)
    outputs = tuple(map(Var, output_types(body, n_carry, length)))
    loop = Node(Scan, inputs, outputs, attrs, (body,), node.location)
    return Graph(inputs, (loop,), outputs[:n_carry], node.name)


def height(node: Node) -> int:
    """How deep loops of a computed length are nested in a node, itself included: distinct along every nesting."""
    inside = max((height(n) for body in node.bodies for n in body.nodes), default=0)
    return inside + (node.op is While)


def _cond(node: Node, inputs: Values, outputs: Values, needs: tuple[bool, ...], cotangents: Cotangents) -> Any:
    wrt = [k for k, v in enumerate(node.inputs[1:]) if needs[k + 1] and v.type.inexact]
    seeds = _seeds(node.outputs, cotangents)
    if not wrt or not seeds:
        return (None,) * len(inputs)
    bodies, read = _given_readings(node, [pulled(body, wrt, seeds) for body in node.bodies])
    given = [*inputs, *(cotangents[k] for k in seeds), *(outputs[k] for k in read)]
    results = _emit(Cond, given, [v.type for v in bodies[0].outputs], {}, bodies)
    grads: list[Any] = [None] * len(inputs)
    for k, g in zip(wrt, results, strict=True):
        grads[k + 1] = g
    return tuple(grads)


def _given_readings(node: Node, adjoints: Sequence[Graph]) -> tuple[tuple[Graph, ...], list[int]]:
    """The adjoints of branches that are given what the branches have read of large arrays, where that is all they need
    of them; which outputs of the node that is."""
    found: list[tuple[Graph, dict[int, Var]]] = []
    for body, step in zip(node.bodies, adjoints, strict=True):
        read, makers = readings(body, len(body.inputs)), body.definitions()
        places = {v: k for k, v in enumerate(body.outputs) if v in read and v in makers}
        graph, kept = _given(step, places)
        inputs = graph.inputs[len(step.inputs) :]
        found.append((graph, dict(zip(kept, inputs, strict=True))))
    every = sorted({k for _, own in found for k in own})
    bodies = []
    for (graph, own), step in zip(found, adjoints, strict=True):
        more = (own.get(k) or Var(node.outputs[k].type) for k in every)
        bodies.append(Graph((*graph.inputs[: len(step.inputs)], *more), graph.nodes, graph.outputs, graph.name))
    return tuple(bodies), every


def _sized(node: Node, inputs: Values, outputs: Values, needs: tuple[bool, ...], cotangents: Cotangents) -> Any:
    wrt = [k for k, v in enumerate(node.inputs[1:]) if needs[k + 1] and v.type.inexact]
    seeds = _seeds(node.outputs, cotangents)
    if not wrt or not seeds:
        return (None,) * len(inputs)
    body = pulled(node.bodies[0], wrt, seeds)
    given = [*inputs, *(cotangents[k] for k in seeds)]
    results = _emit(Sized, given, [v.type for v in body.outputs], dict(node.attrs), (body,))
    grads: list[Any] = [None] * len(inputs)
    for k, g in zip(wrt, results, strict=True):
        grads[k + 1] = g
    return tuple(grads)


_RULES: dict[Any, Backward] = {Scan: _scan, While: _while, Cond: _cond, Sized: _sized}

__all__ = ["backward_of", "height", "parts", "pulled", "stacked"]
