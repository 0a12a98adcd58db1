"""A loop that was found, as a scan: what is carried, what is read step by step, what stays, what comes out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tracegrad.ir.graph import NO_ATTRS, Graph, Location, Node, Var
from tracegrad.ir.identity import attrs_key
from tracegrad.ir.types import Type
from tracegrad.ops.cotangent import zeros
from tracegrad.ops.loops import Scan, Weaken
from tracegrad.ops.loops.scan import output_types, with_tape
from tracegrad.ops.shape import Reshape
from tracegrad.ops.slicing import Slice
from tracegrad.passes.adjoint import constants_met
from tracegrad.passes.roll_body import SEEN_THROUGH, Body, Elements, Variation
from tracegrad.passes.roll_match import Carried, Loop, Operand, Within
from tracegrad.state import setting

SMALL = 64  # elements of a view that is made once before a loop, not in every step
MOST_FINAL = 3  # values of so many last iterations are carried out of the loop; more of them are stacked


@dataclass(slots=True)
class _Chain:
    """A value carried on for some iterations: `inputs[k]` is what it was k + 1 iterations ago, at first `initial`."""

    place: int
    initial: dict[int, Var] = field(default_factory=dict)
    inputs: list[Var] = field(default_factory=list)

    def takes(self, wanted: dict[int, Var]) -> bool:
        return all(self.initial.get(k, v) is v for k, v in wanted.items())


class Builder(Body):
    """The scan of one loop, and the nodes before and after it. Raises Obstacle where there can be none.

    `outputs` are the values the scan is to return, where they are known already.
    """

    def __init__(
        self, loop: Loop, elements: Elements, name: str, variation: Variation | None = None,
        outputs: Sequence[Var] | None = None,
    ):  # fmt: skip
        super().__init__(loop, elements, name, variation)
        self.known_outputs = outputs
        self.chains: list[_Chain] = []
        self.values: list[Var] = []  # what one iteration has computed so far, in the body

    # ---- the loop --------------------------------------------------------------------------------------------------

    def build(self) -> tuple[list[Node], Elements]:
        """The nodes in place of those of the loop, and which values are elements of what it returns."""
        loop = self.loop
        used_last, used_all = self._uses()
        readers = [self._chain_of(o) if isinstance(o, Carried) else None for o in loop.operands]
        finals = {place: self._final_chain(place, depth) for place, depth in used_last.items()}
        slots = iter(range(len(readers)))
        for position, node in enumerate(loop.template):
            inputs = tuple(self._operand(k, readers[k]) for k in itertools.islice(slots, len(node.inputs)))
            self.body.location = node.location
            if self.variation:
                self.role = position
            self._step(position, node, inputs)
        carry = [v for chain in self.chains for v in chain.inputs]
        final = [v for c in self.chains for v in (self.values[c.place], *c.inputs[:-1])]
        ys = [self.values[place] for place in used_all]
        nodes = (*constants_met(self.body), *self.body.nodes)
        read = {v for n in nodes for v in n.inputs} | {*final, *ys}
        self.fixed = {outside: v for outside, v in self.fixed.items() if v in read}
        body_inputs = (*carry, *(v for v, _ in self.stacks), *self.fixed.values())
        body = Graph(body_inputs, nodes, (*final, *ys), self.body.name)
        return self._scan(body, used_all, finals)

    def _scan(self, body: Graph, used_all: list[int], finals: dict[int, _Chain]) -> tuple[list[Node], Elements]:
        loop = self.loop
        initial = [self._initial(c, k, v.type) for c in self.chains for k, v in enumerate(c.inputs)]
        n_carry, count = len(initial), loop.count
        body = with_tape(body, n_carry, count)
        outputs = list(map(Var, output_types(body, n_carry, count)))
        position = 0
        for chain in self.chains:
            for k in range(len(chain.inputs)):
                if finals.get(chain.place) is chain and loop.used[count - 1 - k, chain.place]:
                    outputs[position] = loop.value(count - 1 - k, chain.place)
                position += 1
        if self.known_outputs is not None:
            known = n_carry + len(used_all)  # the tape behind them is the new body's own
            outputs[:known] = self.known_outputs[:known]
        attrs = {"length": count, "reverse": False, "n_carry": n_carry, "n_xs": len(self.stacks), "unroll": 1}
        inputs = (*initial, *(v for _, v in self.stacks), *self.fixed)
        scan = self.scan = Node(Scan, inputs, tuple(outputs), attrs, (body,), self.location)
        elements: Elements = {}
        after: list[Node] = []
        for place, stack in zip(used_all, outputs[n_carry:], strict=False):
            steps = np.flatnonzero(loop.used[:, place])
            for step, var in zip(steps.tolist(), loop.values(steps, place), strict=True):
                elements[var] = stack, step
                after += element_nodes(stack, step, var, self.location)
        return [*constants_met(self.outer), *self.outer.nodes, scan, *after], elements

    def _uses(self) -> tuple[dict[int, int], list[int]]:
        """What is read after the loop: places of which only the last values are, and how many; the other places."""
        last: dict[int, int] = {}
        everything = []
        for place in np.flatnonzero(self.loop.used.any(axis=0)).tolist():
            depth = self.loop.count - int(np.flatnonzero(self.loop.used[:, place])[0])
            if depth <= MOST_FINAL:
                last[place] = depth
            else:
                everything.append(place)
        return last, everything

    # ---- carries ---------------------------------------------------------------------------------------------------

    def _chain_of(self, operand: Carried) -> _Chain:
        wanted = {operand.delay - 1 - i: v for i, v in enumerate(operand.initial)}
        chain = next((c for c in self.chains if c.place == operand.place and c.takes(wanted)), None)
        if chain is None:
            chain = _Chain(operand.place)
            self.chains.append(chain)
        chain.initial |= wanted
        self._lengthen(chain, operand.delay)
        return chain

    def _final_chain(self, place: int, depth: int) -> _Chain:
        chain = next((c for c in self.chains if c.place == place), None)
        if chain is None:
            chain = _Chain(place)
            self.chains.append(chain)
        self._lengthen(chain, depth)
        return chain

    def _lengthen(self, chain: _Chain, depth: int) -> None:
        type = self.loop.value(0, chain.place).type
        chain.inputs += [Var(type, f"c{chain.place}") for _ in range(depth - len(chain.inputs))]

    def _initial(self, chain: _Chain, delay: int, type: Type) -> Var:
        found = chain.initial.get(delay)
        if found is not None and found.type == type:
            return found
        if found is not None:
            number: np.ndarray = self.loop.listed.definition(found).attrs["value"]  # type: ignore[union-attr]
            return self._constant(self.outer, number.astype(type.dtype), False)
        with setting(trace=self.outer, grad_enabled=True):
            if type.weak:
                return self._constant(self.outer, np.zeros((), type.dtype), True)
            start: Var = self.outer.lift(zeros(type))
            return start

    # ---- operands --------------------------------------------------------------------------------------------------

    def _operand(self, slot: int, chain: _Chain | None) -> Var:
        operand: Operand = self.loop.operands[slot]
        if self.variation:
            self.role = "operand", slot
        if isinstance(operand, Within):
            return self.values[operand.place]
        if isinstance(operand, Carried):
            assert chain is not None
            return chain.inputs[operand.delay - 1]
        return self._each(operand.values)

    # ---- nodes -----------------------------------------------------------------------------------------------------

    def _step(self, position: int, node: Node, inputs: tuple[Var, ...]) -> None:
        starts = self.loop.moving.get(position)
        others = self.variation.axes.get(position, ()) if self.variation else ()
        if starts is None and self._hoisted(node, inputs, bool(others)):
            return
        if starts is None and others:
            starts = np.tile(np.array(node.attrs["start"]), (self.loop.count, 1))
        if starts is None:
            outputs = tuple(Var(v.type, v.name) for v in node.outputs)
            self.body._record(Node(node.op, inputs, outputs, node.attrs, node.bodies, node.location))
            self.values += outputs
        elif node.op is Slice:
            source = self.sources.get(inputs[0])
            if source is not None:
                self.values.append(self._moving_slice(source, starts, node.attrs["size"], node.attrs["step"]))
            else:
                self.values.append(self._read(inputs[0], starts, node.attrs["size"], node.attrs["step"]))
        else:
            self.values.append(self._write(inputs, starts, node))

    def _hoisted(self, node: Node, inputs: tuple[Var, ...], always: bool) -> bool:
        """Take a view of what never changes out of the loop, if it is small, or its place differs between loops."""
        if node.op not in SEEN_THROUGH or inputs[0] not in self.sources:
            return False
        type = node.outputs[0].type
        if not always and (not isinstance(type.size, int) or type.size > SMALL):
            return False
        source = self.sources[inputs[0]]
        key = self.role, node.op, source, attrs_key(node.attrs)
        if key not in self._made:
            out = Var(type)
            self.outer._record(Node(node.op, (source,), (out,), node.attrs, (), self.location))
            self._made[key] = self._invariant(out)
        self.values.append(self._made[key])
        return True


def element_nodes(stack: Var, step: int, var: Var, location: Location | None) -> list[Node]:
    """Nodes that take `var` out of a stack of which it is an element."""
    rest = stack.type.shape[1:]
    row = Var(Type(stack.type.dtype, (1, *rest)))
    attrs = {"start": (step, *(0,) * len(rest)), "size": (1, *rest), "step": (1,) * (1 + len(rest))}
    nodes = [Node(Slice, (stack,), (row,), attrs, (), location)]
    if not var.type.weak:
        return [*nodes, Node(Reshape, (row,), (var,), {"shape": rest}, (), location)]
    plain = Var(Type(var.type.dtype, rest))
    return [
        *nodes,
        Node(Reshape, (row,), (plain,), {"shape": rest}, (), location),
        Node(Weaken, (plain,), (var,), NO_ATTRS, (), location),
    ]
