"""Inner loops of different lengths, such as those of a triangle: each becomes a node that is given its length.

`for i in range(n): for j in range(i): …` leaves inner loops that are equal but for how often they run. Each becomes a
`sized` around a scan; what else differs from one to the next are numbers that it is given too. These nodes are equal,
so the loop around them is found as any other. Where a loop had no iteration at all, one of length 0 is put
(`roll_empty`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.ir.dims import symbol
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.identity import attrs_key
from tracegrad.ir.types import Type
from tracegrad.ops.arithmetic import Add, Mul
from tracegrad.ops.constant import Constant
from tracegrad.ops.creation import Iota
from tracegrad.ops.gather import Gather
from tracegrad.ops.loops import Scan, Sized, Weaken
from tracegrad.ops.loops.readings import zeros_in
from tracegrad.ops.loops.scan import output_types, with_tape
from tracegrad.ops.slicing import Slice
from tracegrad.passes.adjoint import constants_met
from tracegrad.passes.purity import is_pure
from tracegrad.passes.roll_body import LARGEST_COPY, Body, Elements
from tracegrad.passes.roll_empty import Around
from tracegrad.passes.roll_listing import Listing
from tracegrad.passes.roll_match import MOVING, Carried, Each, Loop, Obstacle, Operand, Within, becomes, body_key
from tracegrad.passes.roll_trips import trips_like
from tracegrad.records import record
from tracegrad.state import setting
from tracegrad.tensor import Tensor

SYMBOL = "trips"
FEWEST_LOOPS = 4  # inner loops of different lengths, for which a loop around them is looked for
_COUNT = Type(np.dtype(np.int64), ())
Segments = list[tuple[int, int, list[Node]]]


@record
class _Chain:
    """A value carried from one iteration to the next: per loop what it begins with (None: what nobody reads)."""

    place: int
    initial: tuple[Var, ...] | None
    inside: Var


class Uneven(Body):
    """The nodes in place of loops like `longest`. Raises Obstacle where they differ in more than they may."""

    def __init__(self, listed: Listing, longest: Loop, elements: Elements, name: str):
        self.listed, self.trips = listed, trips_like(listed, longest)
        if len(self.trips.head) < FEWEST_LOOPS:
            raise Obstacle("too few loops of different lengths", longest.template[0].location)
        trips, width = self.trips, longest.width
        self.origin = listed.first[trips.start]
        slots = int(listed.begin[longest.start + longest.period] - listed.begin[longest.start])
        self.reads = listed.reads[listed.begin[trips.start][:, None] + np.arange(slots)]
        self.template = longest.template
        self.width = width
        self.node_of = np.repeat(np.arange(longest.period), [len(n.inputs) for n in self.template])
        operands = tuple(self._role(slot) for slot in range(slots))
        super().__init__(
            Loop(listed, longest.start, longest.period, longest.count, operands, {}, longest.used), elements, name, None
        )
        self.operands = operands
        self.chains: list[_Chain] = []
        self.given: dict[tuple[Var, ...], Var] = {}  # per loop a value from outside: in the body
        self.numbers: list[tuple[Var, np.ndarray]] = []  # in the body; per loop a number that is made for it
        self.tables: list[Node] = []
        self.counter = Var(_COUNT, "t")
        self._known: dict[Any, Any] = {}
        self.types = tuple(v.type for n in self.template for v in n.outputs)
        self.used = self._results()
        self._record()

    # ---- what operands are -----------------------------------------------------------------------------------------

    def _role(self, slot: int) -> Operand:
        read, later = self.reads[:, slot], self.trips.number > 0
        distance = read - self.origin
        own = self.origin[self.trips.head][self.trips.loop]
        if (distance >= 0).all() and (distance == distance[0]).all():
            return Within(int(distance[0]))
        before = read < own
        if before.all():
            return Each(())
        back = distance[later] + self.width
        if before[~later].all() and (back == back[0]).all() and 0 <= back[0] < self.width:
            return Carried(int(back[0]), 1, ())
        raise self._obstacle("an operand is now a value of the iteration before, now another one", slot)

    def _obstacle(self, message: str, slot: int) -> Obstacle:
        return Obstacle(message, self.template[self.node_of[slot]].location)

    def _results(self) -> list[int]:
        """The places whose last values are read after the loops. Raises Obstacle where others are."""
        numbers = self.origin[:, None] + np.arange(self.width)
        read = self.listed.last[numbers] >= self.trips.stop[self.trips.loop][:, None]
        final = self.trips.number == (self.trips.counts - 1)[self.trips.loop]
        if read[~final].any():
            raise Obstacle("loops in it have different lengths and keep values of their iterations", self.location)
        return np.flatnonzero(read.any(axis=0)).tolist()

    # ---- the body --------------------------------------------------------------------------------------------------

    def _record(self) -> None:
        self._check_types()
        values: list[Var] = []
        slot = 0
        for position, node in enumerate(self.template):
            if not is_pure(node):
                raise Obstacle(f"{node.name} is a call into Python or acts on what is outside", node.location)
            inputs = tuple(self._operand(k, values) for k in range(slot, slot + len(node.inputs)))
            slot += len(node.inputs)
            self.body.location = node.location
            starts = self._starts(position, node)
            if starts is None:
                outputs = tuple(Var(v.type, v.name) for v in node.outputs)
                self.body._record(Node(node.op, inputs, outputs, node.attrs, node.bodies, node.location))
                values += outputs
            elif node.op is Slice:
                values.append(self._read(inputs[0], starts, node.attrs["size"], node.attrs["step"]))
            else:
                values.append(self._write(inputs, starts, node))
        for place in self.used:
            if all(c.place != place for c in self.chains):
                self.chains.append(_Chain(place, None, Var(self.types[place], f"c{place}")))
        self.values = values
        self.symbol = f"{SYMBOL}{_height(self.template)}"
        self.sized_body = self._sized_body()

    def _check_types(self) -> None:
        """Raises Obstacle where an iteration computes values of other types. Those after it follow from the first."""
        for k in self.trips.head.tolist():
            nodes = self.listed.nodes[self.trips.start[k] : self.trips.start[k] + self.trips.period]
            if tuple(v.type for n in nodes for v in n.outputs) != self.types:
                raise Obstacle("its first iterations differ from the others", self.location)

    def _operand(self, slot: int, values: Sequence[Var]) -> Var:
        operand = self.operands[slot]
        if isinstance(operand, Within):
            return values[operand.place]
        if isinstance(operand, Carried):
            return self._carried(operand.place, slot)
        return self._outside_value(slot)

    def _carried(self, place: int, slot: int) -> Var:
        initial = self.listed.values(self.reads[self.trips.head, slot])
        wanted = self.types[place]
        reader = self.template[self.node_of[slot]]
        for var in set(initial):
            if var.type != wanted and not becomes(self.listed, reader, var, wanted):
                raise self._obstacle("its first iterations differ from the others", slot)
        for chain in self.chains:
            if chain.place == place and chain.initial == initial:
                return chain.inside
        self.chains.append(_Chain(place, initial, Var(wanted, f"c{place}")))
        return self.chains[-1].inside

    def _outside_value(self, slot: int) -> Var:
        read, later = self.reads[:, slot], self.trips.number > 0
        if (read[1:][later[1:]] != read[:-1][later[1:]]).any():
            return self._constants(slot)
        values = self.listed.values(read[self.trips.head])
        defined = self.listed.definition(values[0])
        if defined is not None and defined.op is Constant and len(set(values)) == 1:
            if values[0] not in self._known:
                self._known[values[0]] = self._constant(self.body, defined.attrs["value"], defined.attrs["weak"])
            found: Var = self._known[values[0]]
            return found
        if len({v.type for v in set(values)}) > 1:
            raise self._obstacle("an operand has now this type, now another one", slot)
        return self.given.setdefault(values, Var(values[0].type, values[0].name))

    def _constants(self, slot: int) -> Var:
        """In the body, constants that differ from iteration to iteration."""
        nodes = list(map(self.listed.definition, self.listed.values(self.reads[:, slot])))
        if not all(n is not None and n.op is Constant for n in nodes):
            raise self._obstacle("loops in it have different lengths and read another value in each iteration", slot)
        types = {n.outputs[0].type for n in nodes}  # type: ignore[union-attr]
        if len(types) > 1:
            raise self._obstacle("an operand has now this type, now another one", slot)
        (type,) = types
        value = self._number(np.stack([n.attrs["value"] for n in nodes]))  # type: ignore[union-attr]
        if not type.weak:
            return value._var
        with setting(trace=self.body, grad_enabled=True):
            return self.body.lift(Weaken.apply(value))

    # ---- numbers ---------------------------------------------------------------------------------------------------

    def _positions(self, starts: np.ndarray, axis: int) -> Tensor:
        return self._number(starts[:, axis].astype(np.int64))

    def _number(self, numbers: np.ndarray) -> Tensor:
        """In the body, the number of the iteration: it counts, else it is looked up."""
        key = numbers.dtype, numbers.shape, numbers.tobytes()
        if key not in self._known:
            step = np.diff(numbers, axis=0)[self.trips.number[1:] > 0]
            counts = numbers.dtype == np.int64 and numbers.ndim == 1 and (step == step[0]).all()
            with setting(trace=self.body, grad_enabled=True):
                self._known[key] = self._counted(numbers, int(step[0])) if counts else self._looked_up(numbers)
        found: Tensor = self._known[key]
        return found

    def _counted(self, numbers: np.ndarray, step: int) -> Tensor:
        first = numbers[self.trips.head]
        start: Any = int(first[0]) if (first == first[0]).all() else self._of_loop(first)
        if step == 0:
            return start if isinstance(start, Tensor) else Tensor._traced(self.body, self.body.lift(np.int64(start)))
        counted: Tensor = Mul.apply(Tensor._traced(self.body, self.counter), step)
        return Add.apply(counted, start)  # type: ignore[no-any-return]

    def _of_loop(self, numbers: np.ndarray) -> Tensor:
        inside = Var(_COUNT)
        self.numbers.append((inside, numbers))
        return Tensor._traced(self.body, inside)

    def _looked_up(self, numbers: np.ndarray) -> Tensor:
        if numbers.size > LARGEST_COPY:
            raise Obstacle("it reads other constants in each iteration, too many to keep", self.location)
        table = Var(Type(numbers.dtype, numbers.shape))
        self.tables.append(Node(Constant, (), (table,), {"value": numbers, "weak": False}, (), None))
        inside = self.given.setdefault((table,) * len(self.trips.head), Var(table.type))
        place = self._number(np.arange(len(numbers)))
        return Gather.apply(Tensor._traced(self.body, inside), place)  # type: ignore[no-any-return]

    # ---- what differs in attributes ---------------------------------------------------------------------------------

    def _starts(self, position: int, node: Node) -> np.ndarray | None:
        """Where the slices of all iterations begin, if not all at the same place. Raises Obstacle."""
        places = self.trips.start + position
        if node.bodies:
            bodies = {id(body): body for k in places.tolist() for body in self.listed.nodes[k].bodies}
            if len(set(map(body_key, bodies.values()))) != len(node.bodies):
                raise Obstacle(f"body of {node.name} differ", node.location)
        _, first, which = np.unique(self.listed.attrs[places], return_index=True, return_inverse=True)
        attrs = [self.listed.nodes[k].attrs for k in places[first].tolist()]
        if len(set(map(attrs_key, attrs))) == 1:
            return None
        others = {attrs_key({k: v for k, v in a.items() if k != "start"}) for a in attrs}
        whole = all(isinstance(s, int) for a in attrs for s in a.get("start", (None,)))
        if node.op not in MOVING or len(others) > 1 or not whole:
            raise Obstacle(f"arguments of {node.name} differ in loops of different lengths", node.location)
        return np.array([a["start"] for a in attrs], np.int64)[which]

    # ---- the node --------------------------------------------------------------------------------------------------

    def _sized_body(self) -> Graph:
        """The loop, whose length is the symbol: from initial carries, numbers and values from outside to the last
        carries."""
        nodes = (*constants_met(self.body), *self.body.nodes)
        read = {v for n in nodes for v in n.inputs}
        self.given = {k: v for k, v in self.given.items() if v in read}
        length, n_carry = symbol(self.symbol), len(self.chains)
        xs = [self.counter] if self.counter in read else []
        fixed = [*(v for v, _ in self.numbers), *self.given.values()]
        carry = [c.inside for c in self.chains]
        final = [self.values[c.place] for c in self.chains]
        body = with_tape(Graph((*carry, *xs, *fixed), nodes, tuple(final), self.body.name), n_carry, length)
        inputs = [Var(v.type, v.name) for v in (*carry, *fixed)]
        steps = [Var(Type(_COUNT.dtype, (length,))) for _ in xs]
        counting = {"shape": (length,), "axis": 0, "start": 0, "step": 1, "dtype": _COUNT.dtype}
        made = [Node(Iota, (), (v,), counting, (), self.location) for v in steps]
        outputs = tuple(map(Var, output_types(body, n_carry, length)))
        attrs = {"length": length, "reverse": False, "n_carry": n_carry, "n_xs": len(xs), "unroll": 1}
        scan = Node(
            Scan, (*inputs[:n_carry], *steps, *inputs[n_carry:]), outputs, attrs, (body,), self.location
        )  # fmt: skip
        return Graph(tuple(inputs), (*made, scan), outputs[:n_carry], f"{self.name}_inner")

    def segments(self) -> Segments:
        """(start, stop, nodes) of what is replaced, and the nodes in its place."""
        trips = self.trips
        first = trips.start[trips.head].tolist()
        inputs = [[*self._initials(k), *(g[k] for g in self.given)] for k in range(len(first))]
        outputs = [self._outputs(k) for k in range(len(first))]
        around = Around(self.listed, trips, inputs, outputs)
        whole = list(zip(first, trips.stop.tolist(), strict=True))
        made = [(a, b, self._sized(k, inputs[k], outputs[k])) for k, (a, b) in enumerate(whole)]
        empty = [(e.position, e.position, self._sized(e.like, e.inputs, e.outputs, 0)) for e in around.empty]
        changed = [(k, k + 1, [node]) for k, node in around.changed.items()]
        made[0][2][:0] = self.tables
        return [*made, *empty, *changed]

    def note(self) -> str:
        """What tg.explain says."""
        trips = self.trips
        return (
            f"rolled: {self.location}, {len(trips.head)} loops of different lengths, {len(trips.start)} iterations of "
            f"{trips.period} operations together"
        )

    def _initials(self, number: int) -> list[Var | None]:
        return [None if c.initial is None else c.initial[number] for c in self.chains]

    def _outputs(self, number: int) -> list[Var]:
        last = self.origin[self.trips.head[number] + self.trips.counts[number] - 1]
        found: list[Var] = []
        for chain in self.chains:
            var = self.listed.value(int(last) + chain.place)
            found.append(Var(var.type) if var in found else var)
        return found

    def _sized(self, number: int, inputs: Sequence[Var | None], outputs: Sequence[Var], count: int = -1) -> list[Node]:
        """The node of a loop; with `count` 0 one of no iterations."""
        nodes: list[Node] = []
        length = int(self.trips.counts[number]) if count < 0 else count
        counted = [_number_node(length, nodes), *(None for _ in self.chains)]
        numbers = [_number_node(int(n[number]), nodes) for _, n in self.numbers]
        for k, (chain, var) in enumerate(zip(self.chains, inputs, strict=False)):
            fits = var is not None and var.type == chain.inside.type
            counted[1 + k] = var if fits else self._start(var, chain, nodes)
        given = inputs[len(self.chains) :]
        node = Node(
            Sized, (*counted, *numbers, *given), tuple(outputs), {"symbol": self.symbol},  # type: ignore[arg-type]
            (self.sized_body,), self.location,
        )  # fmt: skip
        return [*nodes, node]

    def _start(self, var: Var | None, chain: _Chain, nodes: list[Node]) -> Var:
        """A Python number as a value of the carry's dtype; for what nobody reads zeros."""
        type = chain.inside.type
        if var is not None:
            value = self.listed.definition(var).attrs["value"].astype(type.dtype)  # type: ignore[union-attr]
            start = Var(type)
            nodes.append(Node(Constant, (), (start,), {"value": value, "weak": False}, (), None))
            return start
        return zeros_in(nodes, type)


def _number_node(value: int, nodes: list[Node]) -> Var:
    var = Var(_COUNT)
    nodes.append(Node(Constant, (), (var,), {"value": np.array(value, np.int64), "weak": False}, (), None))
    return var


def _height(nodes: Sequence[Node]) -> int:
    """How deep such loops are nested in these nodes."""
    return max((_height(b.nodes) + (n.op is Sized) for n in nodes for b in n.bodies), default=0)
