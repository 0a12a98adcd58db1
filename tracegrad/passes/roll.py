"""Rolling: a plain Python loop leaves its iterations one after the other in a trace; here they become a scan.

A repetition is a stretch of nodes whose operations and lines in the user's code come again at a constant distance
(`roll_listing`). It is a loop if its iterations differ only as those of a loop may (`roll_match`): operands may be what
an earlier iteration computed (a carry), or another value from before for each iteration (xs, of constants and evenly
moving slices too); what is read afterwards is a last carry, or an element of a stack (ys). Inner loops are rolled
first; then they are nodes of the outer ones. Iterations that differ, first and last ones, stay written out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tracegrad.ir.graph import Graph, Location, Node
from tracegrad.ops.constant import Constant
from tracegrad.ops.joining import Concatenate
from tracegrad.ops.loops import Scan, Sized
from tracegrad.passes.roll_body import Elements, Variation, location_of
from tracegrad.passes.roll_build import Builder
from tracegrad.passes.roll_join import FEWEST, UNREAD, VIEWS, evenly, join, part_of, without_unread
from tracegrad.passes.roll_listing import Listing, best_start, listing, periods, runs
from tracegrad.passes.roll_match import MOVING, Carried, Each, Loop, Obstacle, Repetition
from tracegrad.passes.roll_uneven import FEWEST_LOOPS, SYMBOL, Uneven
from tracegrad.records import record
from tracegrad.trace.columns import Columns

LEAST_COUNT = 8  # iterations; fewer stay written out
LEAST_NODES = 96  # nodes in all iterations together
LARGE_CARRY = 4096  # elements: loops over such arrays are written out while they are short, so that iterations fuse
LARGE_NODES = 400
ROUNDS = 12  # how often repetitions of what was found are looked for: loops around loops, and loops beside them
_UNEVEN = (
    "its iterations do not have the same operations, as where Python decides on values, or where loops in them have "
    "different lengths"
)


@record
class Rolled:
    """`graph`, in which loops are loops; `notes` say which were rolled and which were not, and why.

    `elements`: values of the graph that are elements of a stack, with the stack and their number in it.
    """

    graph: Graph
    notes: tuple[str, ...]
    elements: Elements


def roll(graph: Graph, columns: Columns | None = None) -> Rolled:
    """The graph with its repetitions rolled up into loops; it computes the same values.

    `columns` are what was noted of its nodes while they were recorded.
    """
    rolled = _rolled(graph, columns, set())
    uneven = Counter(n.location for n in rolled.graph.nodes if n.op is Sized and n.attrs["symbol"].startswith(SYMBOL))
    left = {location for location, count in uneven.items() if count >= LEAST_COUNT}
    return _rolled(graph, columns, left) if left else rolled


def _rolled(graph: Graph, columns: Columns | None, even: set[Location | None]) -> Rolled:
    """The same; loops at the lines `even` are not given their lengths, as the loop around them will be none anyway."""
    elements: Elements = {}
    notes: list[str] = []
    failed: dict[Any, str] = {}
    even = set(even)
    for depth in range(ROUNDS):
        if len(graph.nodes) < (2 * LEAST_COUNT if depth else LEAST_NODES):
            break
        listed = listing(graph, None if depth else columns)
        found = _Search(listed, elements, graph.name)
        found.run()
        failed = found.failed
        instead, more = found.replaced(even)
        if not instead:
            break
        notes += more
        graph = _replaced(graph, listed, instead)
        _forget_inner(elements, graph)
        graph = join(graph, elements)
    if any(n.op is Concatenate and len(n.inputs) >= FEWEST for n in graph.nodes):
        graph = join(graph, elements)
    return Rolled(graph, (*dict.fromkeys(notes), *(failed.values() or _left(graph))), elements)


def _forget_inner(elements: Elements, graph: Graph) -> None:
    """Without the elements of stacks that are in the body of a loop by now."""
    known = {*graph.inputs, *(v for n in graph.nodes for v in n.outputs)}
    for value in [v for v, (stack, _) in elements.items() if stack not in known]:
        del elements[value]


def _left(graph: Graph) -> Iterator[str]:
    """A note on the line whose repetitions take the most of the nodes that are left."""
    counts: dict[Location, Counter[Any]] = defaultdict(Counter)
    for node in graph.nodes:
        if node.op not in UNREAD and node.location is not None:
            counts[node.location][node.op] += 1
    often = {where: min(of.values()) for where, of in counts.items() if min(of.values()) >= LEAST_COUNT}
    if sum(counts[where].total() for where in often) < LEAST_NODES // 2:
        return
    where = max(often, key=lambda w: counts[w].total())
    if counts[where].keys() == {Scan}:
        yield f"not rolled: the loop around {where}: {often[where]} loops of different lengths, or otherwise different"
    else:
        yield f"not rolled: {where}, {often[where]} repetitions: {_UNEVEN}"


class _Search:
    """One round: loops that lie apart from each other, innermost ones first."""

    def __init__(self, listed: Listing, elements: Elements, name: str):
        self.listed, self.elements, self.name = listed, elements, name
        self.free = np.ones(len(listed.nodes), bool)
        self.loops: list[tuple[int, int, list[Node]]] = []
        self._groups: dict[bytes, list[tuple[Loop, Builder, int]]] = {}
        self.notes: list[str] = []
        self.failed: dict[Any, str] = {}
        self._spans: list[tuple[int, int, Any]] = []
        self._short: list[tuple[int, int, int]] = []  # of stretches of different lengths the longest, and its period

    def run(self) -> None:
        keys = self.listed.keys
        if not len(keys):
            return
        for period in periods(keys, LEAST_COUNT):
            found = list(runs(keys, self.free, period, LEAST_COUNT))
            for start, stop in found:
                self._repetition(start, stop, period)
            if _differ([(stop - start) // period for start, stop in found]):
                start, stop = max(found, key=lambda each: each[1] - each[0])
                self._short.append((start, stop, period))
        for group in self._groups.values():
            if not _is_uneven(group):
                self._align(group)
        for start, stop, key in self._spans:
            if not self.free[start:stop].all():
                self.failed.pop(key, None)

    def _repetition(self, start: int, stop: int, period: int) -> None:
        """Roll what can be of a stretch with this period, else with a multiple of it, else by tables of positions."""
        if all(node.op in VIEWS for node in self.listed.nodes[start : start + period]):
            return
        start = best_start(self.listed, start, stop, period)
        size = weight(self.listed.nodes[start : start + period])
        if not _pays((stop - start) // period, size):
            return
        repeated = Repetition(self.listed, start, stop, period)
        positions = Repetition(self.listed, start, stop, period, any_positions=True) if repeated.scattered else None
        lengths = {b - a for a, b in repeated.pieces() if _pays(b - a, size)}
        if positions is not None and len(lengths) >= FEWEST_LOOPS and self._roll_pieces(positions, size):
            return  # as a triangle with nothing between its rows
        if self._roll_pieces(repeated, size):
            return
        for factor in dict.fromkeys((repeated.longer(), 2, 3)):
            if (stop - start) // (factor * period) >= LEAST_COUNT:
                first = best_start(self.listed, start, stop, factor * period)
                if self._roll_pieces(Repetition(self.listed, first, stop, factor * period), factor * size):
                    return
        if positions is not None:
            self._roll_pieces(positions, size)

    def _roll_pieces(self, repeated: Repetition, size: int) -> bool:
        rolled = False
        pieces = [p for p in repeated.pieces() if _pays(p[1] - p[0], size)]
        if not pieces:
            self._fail(repeated, repeated.obstacle())
        for first, end in pieces:
            try:
                rolled = self._roll(repeated, first, end, size) or rolled
            except Obstacle as obstacle:
                self._fail(repeated, obstacle)
        return rolled

    def _roll(self, repeated: Repetition, first: int, end: int, size: int) -> bool:
        """Roll these iterations, if that pays. Raises Obstacle."""
        loop = repeated.loop(first, end, LEAST_COUNT)
        if not _pays(loop.count, size):
            return False
        _check_size(loop)
        builder = Builder(loop, self.elements, self.name)
        nodes, elements = builder.build()
        self.elements |= elements
        self.free[loop.start : loop.stop] = False
        signature = self.listed.keys[loop.start : loop.start + loop.period].tobytes()
        self._groups.setdefault(signature, []).append((loop, builder, len(self.loops)))
        self.loops.append((loop.start, loop.stop, nodes))
        self.notes.append(f"rolled: {builder.location}, {loop.count} iterations of {loop.period} operations")
        return True

    def _align(self, group: list[tuple[Loop, Builder, int]]) -> None:
        """Make the bodies of inner loops equal, so that the loop around them can be rolled too."""
        variation = _variation([loop for loop, _, _ in group]) if len(group) >= LEAST_COUNT else None
        if variation is None:
            return
        for loop, former, number in group:
            builder = Builder(loop, self.elements, self.name, variation, former.scan.outputs)
            try:
                nodes, elements = builder.build()
            except Obstacle:
                continue
            self.elements |= elements
            self.loops[number] = (loop.start, loop.stop, nodes)

    def replaced(self, even: set[Location | None]) -> tuple[Sequence[tuple[int, int, list[Node]]], list[str]]:
        """The nodes in place of those of the loops, and what to say of it. Loops of different lengths come last, one
        kind at a time, when there are no others. At the lines `even` they are as others are."""
        uneven = {n for g in self._groups.values() if _is_uneven(g) and g[0][1].location not in even for _, _, n in g}
        others = [k for k in range(len(self.loops)) if k not in uneven]
        if others:
            return [self.loops[k] for k in others], [self.notes[k] for k in others]
        for longest in self._longest():
            location = location_of(longest)
            if location in even:
                continue
            try:
                found = Uneven(self.listed, longest, self.elements, self.name)
                return found.segments(), [found.note()]
            except Obstacle as obstacle:
                even.add(location)
                self.failed[location] = f"not rolled: the loop around {location}: {obstacle.message}"
        return [self.loops[k] for k in uneven], [self.notes[k] for k in uneven]

    def _longest(self) -> Iterator[Loop]:
        """Of loops of different lengths the longest one, also of such as are too short to be loops by themselves."""
        for group in self._groups.values():
            if _is_uneven(group):
                yield max((loop for loop, _, _ in group), key=lambda loop: loop.count)
        for start, stop, period in [] if self.loops else self._short:
            if all(node.op in VIEWS for node in self.listed.nodes[start : start + period]):
                continue
            start = best_start(self.listed, start, stop, period)
            repeated = Repetition(self.listed, start, stop, period)
            try:
                yield repeated.loop(*max(repeated.pieces(), key=lambda p: p[1] - p[0]), LEAST_COUNT)
            except Obstacle:
                continue

    def _fail(self, repeated: Repetition, obstacle: Obstacle) -> None:
        first = self.listed.nodes[repeated.start]
        where: Location | None = obstacle.location or first.location
        key = where
        self.failed.setdefault(
            key,
            f"not rolled: {where}, {repeated.count} repetitions of {repeated.period} operations: {obstacle.message}",
        )
        self._spans.append((repeated.start, repeated.stop, key))


def _is_uneven(group: Sequence[tuple[Loop, Builder, int]]) -> bool:
    """Whether these are inner loops of different lengths."""
    return _differ([loop.count for loop, _, _ in group])


def _differ(lengths: Sequence[int]) -> bool:
    """Whether no length is that of most of the loops: else the first or last ones are odd ends."""
    return len(lengths) >= 3 and 2 * Counter(lengths).most_common(1)[0][1] <= len(lengths)


def _variation(loops: Sequence[Loop]) -> Variation | None:
    """In what loops with the same operations differ; None if in nothing."""
    axes: dict[int, tuple[int, ...]] = {}
    for position, node in enumerate(loops[0].template):
        if node.op in MOVING:
            starts = [loop.listed.nodes[loop.start + position].attrs["start"] for loop in loops]
            if all(isinstance(a, int) for start in starts for a in start):
                differ = tuple(k for k, places in enumerate(zip(*starts, strict=True)) if len(set(places)) > 1)
                axes |= {position: differ} if differ else {}
    slots = set()
    for slot in range(len(loops[0].operands)):
        operands = [loop.operands[slot] for loop in loops]
        if all(isinstance(o, Each) for o in operands):
            values = [o.values for o in operands]  # type: ignore[union-attr]
            nodes = [loop.listed.definition(v[0]) for loop, v in zip(loops, values, strict=True)]
            if all(n is not None and n.op is Constant for n in nodes) and len(set(values)) > 1:
                slots.add(slot)
    return Variation(axes, frozenset(slots)) if axes or slots else None


def weight(nodes: Sequence[Node]) -> int:
    """How many operations the nodes are when all loops are written out."""
    inside = (_steps(n) * weight(n.bodies[0].nodes) for n in nodes if n.op in (Scan, Sized))
    return len(nodes) + sum(inside)


def _steps(node: Node) -> int:
    length = node.attrs.get("length", 1)
    return length if isinstance(length, int) else LEAST_COUNT


def _pays(count: int, size: int) -> bool:
    return count >= LEAST_COUNT and count * size >= LEAST_NODES


def _check_size(loop: Loop) -> None:
    """Raises Obstacle for a short loop over large arrays."""
    if loop.count * loop.period > LARGE_NODES:
        return
    for operand in loop.operands:
        if isinstance(operand, Carried):
            var = loop.value(0, operand.place)
            if not isinstance(var.type.size, int) or var.type.size > LARGE_CARRY:
                raise Obstacle("short loops over large arrays are written out, so that their iterations fuse", None)


def _replaced(graph: Graph, listed: Listing, loops: Sequence[tuple[int, int, list[Node]]]) -> Graph:
    nodes: list[Node] = list(listed.constants)
    position = 0
    for start, stop, instead in sorted(loops, key=lambda loop: loop[:2]):
        nodes += listed.nodes[position:start]
        nodes += instead
        position = stop
    return graph.with_nodes((*nodes, *listed.nodes[position:]))


def with_guards_joined(rolled: Rolled, guards: tuple[Any, ...]) -> tuple[Graph, tuple[Any, ...]]:
    """The graph and its guarded numbers, those of its last outputs, where the guards of one loop are one array."""
    graph = rolled.graph
    first = len(graph.outputs) - len(guards)
    outputs, numbers = list(graph.outputs[:first]), []
    nodes = list(graph.nodes)
    position = first
    while position < len(graph.outputs):
        count, stride = evenly(graph.outputs, position, {}, rolled.elements)
        count = max(count, 1)
        var, expected = graph.outputs[position], guards[position - first]
        if count > 1:
            stack, step = rolled.elements[var]
            var = part_of(stack, step, count, stride, nodes, None)
            expected = np.array(guards[position - first : position - first + count])
        outputs.append(var)
        numbers.append(expected)
        position += count
    if len(numbers) == len(guards):
        return graph, guards
    return without_unread(graph.with_nodes(tuple(nodes), tuple(outputs))), tuple(numbers)
