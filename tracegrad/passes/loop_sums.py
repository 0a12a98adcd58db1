"""Sums that a scan makes step by step and that are cheaper made after it.

The adjoint of a loop adds, in each step, to the gradient of every value that is the same in all steps: a whole matrix
of weights is read and written to add one outer product. A sum commutes with what is linear:

views:      Σ transpose(a) = transpose(Σ a); so for reshape, negative, broadcast_to, and unslice, whose zeros are put
            around the total once.
products:   Σₜ Aₜᵀ Bₜ = Aᵀ B for the matrices of all rows of all steps, so the loop only keeps the factors, and most of
            them it has: they are its xs.
scatters:   Σₜ scatter(gₜ, iₜ) = scatter(g, i) at the positions of all steps.

So the loop carries less, and in a loop over an array that is read at the loop's index a step no longer costs as much as
the array is long. The order of additions changes as in any other matrix product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from tracegrad.ir.dims import DimLike, product
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.types import Type
from tracegrad.ops.arithmetic import Add
from tracegrad.ops.cotangent import zeros
from tracegrad.ops.gather import ScatterAdd
from tracegrad.ops.linalg import MatMul
from tracegrad.ops.loops import Scan
from tracegrad.ops.loops.scan import body_parts, parts, stacked
from tracegrad.ops.shape import Reshape, Transpose
from tracegrad.passes.adjoint import constants_met
from tracegrad.passes.bodies import in_bodies
from tracegrad.records import record
from tracegrad.state import setting
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace

SMALL = 64  # elements of a sum that stays as it is: it lives in registers
LARGE = 512  # elements of a product that is worth keeping its factors for
MOST = 16  # parts of one sum
_LINEAR = frozenset({"negative", "transpose", "reshape", "unslice", "broadcast_to"})

Chain = tuple[Node, ...]  # what is done to a part's total, the last operation first


def loop_sums(graph: Graph) -> Graph:
    """The graph with such sums after their loops, inner loops first; itself where there are none."""
    graph = in_bodies(graph, loop_sums)
    plans = {node: plan for node in graph.nodes if node.op is Scan and (plan := _plan(node)) is not None}
    if not plans:
        return graph
    trace = Trace(graph.name)
    trace.inputs.extend(graph.inputs)
    image: dict[Var, Var] = {}
    with setting(trace=trace, grad_enabled=True):
        for node in graph.nodes:
            inputs = tuple(image.get(v, v) for v in node.inputs)
            if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
                replaced = Node(node.op, inputs, node.outputs, node.attrs, node.bodies, node.location)
            else:
                replaced = node
            if node in plans:
                trace.location = node.location
                image.update(plans[node].emit(trace, replaced))
                trace.location = None
            else:
                trace._record(replaced)
    nodes = (*constants_met(trace), *trace.nodes)
    return graph.with_nodes(nodes, tuple(image.get(v, v) for v in graph.outputs))


@record(frozen=False)
class _Part:
    """One summand of each step: `chain` of a value, or of a product or scatter of `factors` that the loop keeps."""

    chain: Chain
    kind: str
    factors: tuple[Var, ...]
    node: Node | None = None


@record(frozen=False)
class _Plan:
    """A scan's sums, by position among the carries, and the parts they are made of."""

    body: Graph
    sums: dict[int, list[_Part]] = field(default_factory=dict)

    def emit(self, trace: Trace, node: Node) -> dict[Var, Var]:
        """Record the loop without these sums, and the sums after it: what stands for its outputs."""
        old, inside = parts(node), body_parts(node)
        kept = [k for k in range(len(old.carry)) if k not in self.sums]
        values = [part for found in self.sums.values() for part in found if part.kind == "value"]
        starts = [zeros(_strong(part.factors[0]))._var for part in values]
        totals = [Var(_strong(part.factors[0]), "sum") for part in values]
        added = [_added(total, part.factors) for total, part in zip(totals, values, strict=True)]
        made = {inside.final[k] for k in self.sums}
        rest = (n for n in node.bodies[0].nodes if not any(v in made for v in n.outputs))
        stacks = self._stacks(old.xs, inside.xs, inside.ys)
        new = [v for v, position in stacks.items() if isinstance(position, int) and position >= len(inside.ys)]
        body = Graph(
            (*(inside.carry[k] for k in kept), *totals, *inside.xs, *inside.invariants),
            (*rest, *(n for nodes in added for n in nodes)),
            (*(inside.final[k] for k in kept), *(nodes[-1].output for nodes in added), *inside.ys, *new),
            node.bodies[0].name,
        )
        outputs = tuple(
            Var(t)
            for t in (
                *(old.final[k].type for k in kept),
                *(total.type for total in totals),
                *(v.type for v in old.ys),
                *(stacked(_strong(v), node.attrs["length"]) for v in new),
            )
        )
        n_carry = len(kept) + len(values)
        loop = Node(
            Scan,
            (*(old.carry[k] for k in kept), *starts, *old.xs, *old.invariants),
            outputs, {**node.attrs, "n_carry": n_carry}, (body,), node.location,
        )  # fmt: skip
        trace._record(loop)
        image = {old.final[k]: out for k, out in zip(kept, outputs, strict=False)}
        image.update(zip(old.ys, outputs[n_carry:], strict=False))
        total_of = {id(part): out for part, out in zip(values, outputs[len(kept) :], strict=False)}
        ys = outputs[n_carry:]
        stack_of = {v: ys[p] if isinstance(p, int) else p for v, p in stacks.items()}
        for k, found in self.sums.items():
            result = Tensor._traced(trace, old.carry[k])
            for part in found:
                result = Add.apply(result, _through(part.chain, _total(trace, part, total_of, stack_of)))
            image[old.final[k]] = result._var
        return image

    def _stacks(self, outer: Sequence[Var], xs: Sequence[Var], ys: Sequence[Var]) -> dict[Var, Any]:
        """Per factor the array of it in all steps: an input of the loop, or a position among its ys, old and new."""
        found: dict[Var, Any] = {}
        known: dict[Var, Any] = {v: k for k, v in enumerate(ys)} | dict(zip(xs, outer, strict=True))
        for part in (p for ps in self.sums.values() for p in ps if p.kind != "value"):
            for v in part.factors:
                if v not in found:
                    fresh = len(ys) + sum(isinstance(p, int) and p >= len(ys) for p in found.values())
                    found[v] = known.get(v, fresh)
        return found


def _strong(v: Var) -> Type:
    return v.type.with_shape(v.type.shape)


def _added(total: Var, values: Sequence[Var]) -> list[Node]:
    """Nodes that add values to a total, the last of them to the rest."""
    nodes: list[Node] = []
    for v in values[1:]:
        nodes.append(Node(Add, (nodes[-1].output if nodes else values[0], v), (Var(total.type),)))
    return [*nodes, Node(Add, (total, nodes[-1].output if nodes else values[0]), (Var(total.type),))]


def _total(trace: Trace, part: _Part, totals: Mapping[int, Var], stacks: Mapping[Var, Var]) -> Tensor:
    """The sum over all steps of what the chain is applied to."""
    if part.kind == "value":
        return Tensor._traced(trace, totals[id(part)])
    factors = [Tensor._traced(trace, stacks[v]) for v in part.factors]
    if part.kind == "scatter":
        assert part.node is not None
        return ScatterAdd.apply(*factors, shape=part.node.attrs["shape"])  # type: ignore[no-any-return]
    left, right = (_as_rows(x) for x in factors)
    return MatMul.apply(Transpose.apply(left, axes=(1, 0)), right)  # type: ignore[no-any-return]


def _as_rows(x: Tensor) -> Tensor:
    """The rows of all steps, one below the other."""
    if x.ndim == 2:
        return x
    steps, rows, columns = x.shape
    return Reshape.apply(x, shape=(product((steps, rows)), columns))  # type: ignore[no-any-return]


def _through(chain: Chain, x: Tensor) -> Tensor:
    for node in reversed(chain):
        x = node.op.apply(x, **node.attrs)
    return x


# ---- finding them -------------------------------------------------------------------------------------------------


class _Finder:
    """The parts of the sums of one scan."""

    def __init__(self, node: Node):
        self.node, self.body = node, node.bodies[0]
        self.definitions, self.uses = self.body.definitions(), self.body.use_counts()
        inside = body_parts(node)
        self.present = {*inside.xs, *inside.ys}
        self.fixed = set(inside.invariants)
        # what the loop may keep beyond what it has now, in elements per step
        self.budget: DimLike = 2 * sum((v.type.size for v in self.present), start=0)

    def sum_of(self, k: int) -> list[_Part] | None:
        """The parts of carry `k`, if it is nothing but a sum that is better made after the loop."""
        carry, out = self.body.inputs[k], self.body.outputs[k]
        maker = self.definitions.get(out)
        if maker is None or maker.name != "add" or self.uses.get(carry, 0) != 1 or self.uses[out] != 1:
            return None
        if carry not in maker.inputs or carry.type != out.type or out.type.dtype.kind not in "fc":
            return None
        term = maker.inputs[1] if maker.inputs[0] is carry else maker.inputs[0]
        size = out.type.size
        if term is carry or term.type != out.type or (isinstance(size, int) and size <= SMALL):
            return None
        before = self.budget
        found = self._parts(term, ())
        if not _smaller(found, size) or len(found) > MOST:
            self.budget = before
            return None
        return _merged(found)

    def _parts(self, var: Var, chain: Chain) -> list[_Part]:
        node = self.definitions.get(var)
        value = [_Part(chain, "value", (var,))]
        if node is None or self.uses[var] > 1 or not node.inputs or node.inputs[0].type.weak:
            return value
        if node.name == "add" and all(v.type == var.type for v in node.inputs):
            return [part for v in node.inputs for part in self._parts(v, chain)]
        if node.name in _LINEAR and node.attrs.get("fill", 0) == 0 and node.inputs[0].type.dtype == var.type.dtype:
            return self._parts(node.inputs[0], (*chain, node))
        if node.name == "scatter_add" and self._keeps(node.inputs, var):
            return [_Part(chain, "scatter", node.inputs, node)]
        factors = self._factors(node, var)
        if factors is not None and self._keeps(factors, var):
            return [_Part(chain, "product", factors)]
        return value

    def _factors(self, node: Node, var: Var) -> tuple[Var, Var] | None:
        """The Aₜ, Bₜ of a product Aₜᵀ Bₜ, each of two dimensions or, where it is one row, of one."""
        size = var.type.size
        if isinstance(size, int) and size < LARGE:
            return None
        a, b = node.inputs[:2] if len(node.inputs) == 2 else (var, var)
        if node.name == "matmul" and a.type.ndim == b.type.ndim == 2 and a.type.dtype == b.type.dtype:
            left = self.definitions.get(a)
            return (left.inputs[0], b) if left is not None and left.name == "transpose" else None
        if node.name == "multiply" and var.type.ndim == 2 and a.type.dtype == b.type.dtype:
            return self._outer(a, b, var) or self._outer(b, a, var)
        return None

    def _outer(self, column: Var, row: Var, var: Var) -> tuple[Var, Var] | None:
        n, m = var.type.shape
        if column.type.shape != (n, 1) or row.type.shape not in ((m,), (1, m)):
            return None
        pair = [self._flat(column), self._flat(row)]
        return (pair[0], pair[1]) if pair[0] is not None and pair[1] is not None else None

    def _flat(self, v: Var) -> Var | None:
        """The vector that is reshaped to a row or column."""
        if v.type.ndim == 1:
            return v
        node = self.definitions.get(v)
        return node.inputs[0] if node is not None and node.name == "reshape" and node.inputs[0].type.ndim == 1 else None

    def _keeps(self, factors: Sequence[Var], out: Var) -> bool:
        """Whether to keep these factors of each step is cheaper than to add up what they make."""
        if any(v in self.fixed for v in factors):
            return False
        size = sum((v.type.size for v in factors if v not in self.present), start=0)
        whole, budget = out.type.size, self.budget
        if isinstance(size, int) and (not isinstance(whole, int) or 2 * whole >= size):
            if not isinstance(budget, int) or size <= budget:
                self.budget = budget - size
                self.present.update(factors)
                return True
            return False
        return size == 0


def _plan(node: Node) -> _Plan | None:
    finder = _Finder(node)
    sums = {k: found for k in range(node.attrs["n_carry"]) if (found := finder.sum_of(k)) is not None}
    return _Plan(node.bodies[0], sums) if sums else None


def _smaller(found: Sequence[_Part], size: DimLike) -> bool:
    """Whether the loop would add up less than now."""
    if not isinstance(size, int):
        return any(part.kind != "value" for part in found)
    rest = [part.factors[0].type.size for part in found if part.kind == "value"]
    total = sum(rest, start=0)
    return isinstance(total, int) and 2 * total <= size


def _key(chain: Chain) -> tuple[Any, ...]:
    return tuple((node.name, *sorted(node.attrs.items())) for node in chain)


def _merged(found: Sequence[_Part]) -> list[_Part]:
    """Parts with the same chain share one sum: their values are `factors` of one part."""
    merged: dict[Any, _Part] = {}
    for number, part in enumerate(found):
        key = (_key(part.chain), part.factors[0].type) if part.kind == "value" else number
        former = merged.get(key)
        if former is None:
            merged[key] = part
        else:
            former.factors = (*former.factors, *part.factors)
    return list(merged.values())
