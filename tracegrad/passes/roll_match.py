"""Whether the iterations of a repetition differ only as those of a loop may, and what each operand is in the loop.

From one iteration to the next an operand may stay the same value, be what the same or an earlier iteration computed, or
be another value from before the loop; a slice may begin further on by the same distance. Where that ends, a loop ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from tracegrad.ir.graph import Graph, Location, Node, Var
from tracegrad.ir.identity import attr_key, attrs_key
from tracegrad.ir.types import Type
from tracegrad.ops.slicing import Slice, SliceUpdate
from tracegrad.passes.purity import is_pure
from tracegrad.passes.roll_listing import Listing
from tracegrad.records import record

MOST_DELAY = 16  # how many iterations back a value may be read
_ARITHMETIC = {"add", "subtract", "multiply", "divide"}
MOVING = (Slice, SliceUpdate)  # operations whose attribute `start` may change from step to step


class Obstacle(Exception):
    """Why a repetition is not rolled, in the user's terms."""

    def __init__(self, message: str, location: Location | None):
        super().__init__(message)
        self.message, self.location = message, location


@record
class Within:
    """An operand computed in the same iteration: output number `place` of the iteration."""

    place: int


@record
class Carried:
    """An operand computed `delay` iterations ago; in the first `delay` iterations it is `initial`, in order."""

    place: int
    delay: int
    initial: tuple[Var, ...]


@record
class Each:
    """An operand from before the loop: one value for every iteration; a single one for what never changes."""

    values: tuple[Var, ...]


Operand = Within | Carried | Each


@record
class Loop:
    """`count` iterations of `period` nodes from node `start` on: what the operands are, where slices move.

    operands: per operand of an iteration, in order. moving: per node of an iteration whose `start` attribute changes
    its values, an array of integers (count, dimensions). used: (count, outputs of an iteration), whether it is read
    after the loop.
    """

    listed: Listing
    start: int
    period: int
    count: int
    operands: tuple[Operand, ...]
    moving: Mapping[int, np.ndarray]
    used: np.ndarray

    @property
    def stop(self) -> int:
        return self.start + self.count * self.period

    @property
    def template(self) -> tuple[Node, ...]:
        """The nodes of the last iteration."""
        return tuple(self.listed.nodes[self.stop - self.period : self.stop])

    def place(self, var_number: int) -> int:
        return int(var_number - self.listed.first[self.start]) % self.width

    @property
    def width(self) -> int:
        """How many values an iteration computes."""
        return int(self.listed.first[self.start + self.period] - self.listed.first[self.start])

    def value(self, iteration: int, place: int) -> Var:
        """What an iteration computed."""
        return self.listed.value(int(self.listed.first[self.start]) + iteration * self.width + place)

    def values(self, iterations: np.ndarray, place: int) -> tuple[Var, ...]:
        """The same of several iterations."""
        return self.listed.values(self.listed.first[self.start] + iterations * self.width + place)


class Repetition:
    """`count` iterations of `period` nodes with equal keys, from node `start` on.

    Slices must move evenly, unless `any_positions` are allowed; `scattered` says whether some do not.
    """

    def __init__(self, listed: Listing, start: int, stop: int, period: int, any_positions: bool = False):
        self.any_positions, self.scattered = any_positions, False
        self.listed, self.start, self.period = listed, start, period
        self.count = (stop - start) // period
        self.stop = start + self.count * period
        begin = listed.begin[start], listed.begin[self.stop]
        self.reads = listed.reads[begin[0] : begin[1]].reshape(self.count, -1)
        self.width = int(listed.first[start + period] - listed.first[start])
        self.moving: dict[int, np.ndarray] = {}
        self.breaks = self._operand_breaks()
        self.reasons: dict[int, str] = {}  # per node of an iteration, why its attributes end a loop
        self._attribute_breaks()

    # ---- where a loop cannot go on ---------------------------------------------------------------------------------

    def _operand_breaks(self) -> np.ndarray:
        """Per iteration whether an operand changes there in another way than before."""
        step = np.diff(self.reads, axis=0)
        same, further = step == 0, step == self.width
        self.always = same.all(axis=0), further.all(axis=0)
        values = int(self.listed.first[0])  # constants stand last before what nodes compute
        constant = (self.reads >= values - len(self.listed.constants)) & (self.reads < values)
        same &= ~constant.all(axis=0)  # a number may come twice in a row
        change = (same[:-1] > same[1:]) | (further[:-1] > further[1:])
        return np.concatenate(([True, False], change.any(axis=1)))[: self.count]

    def _attribute_breaks(self) -> None:
        known = self.listed.attrs[self.start : self.stop].reshape(self.count, self.period)
        same = (known == known[0]).all(axis=0)
        for position in range(self.period):
            first = self.listed.nodes[self.start + position]
            if same[position] and not first.bodies:
                continue
            nodes = self.listed.nodes[self.start + position : self.stop : self.period]
            if first.bodies:
                self._note(position, [tuple(map(body_key, n.bodies)) for n in nodes], "body")
            columns = list(map(attrgetter("attrs"), nodes))
            if not first.attrs:
                if any(columns):
                    self._note(position, list(map(attrs_key, columns)), "arguments")
                continue
            names = tuple(first.attrs)
            if len(set(map(tuple, columns))) > 1:
                self._note(position, list(map(attrs_key, columns)), "arguments")
                continue
            for name in names:
                self._attribute(position, first, name, list(map(itemgetter(name), columns)))

    def _attribute(self, position: int, node: Node, name: str, values: list[Any]) -> None:
        if _same(values):
            return
        moves = name == "start" and node.op in MOVING and len(set(map(len, values))) == 1
        if moves and all(isinstance(a, int) for v in values for a in v):
            starts = np.array(values, np.int64).reshape(self.count, -1)
            self.moving[position] = starts
            step = np.diff(starts, axis=0)
            change = np.concatenate(([True, False], (step[1:] != step[:-1]).any(axis=1)))[: self.count]
            for k in np.flatnonzero(change[1:-1]) + 1:  # two in a row are one change of direction, at the first
                if change[k] and change[k + 1]:
                    change[k + 1] = False
            if change[1:].any():
                self.scattered = True
                if self.any_positions:
                    return
                self.reasons.setdefault(position, "the positions it reads or writes do not move evenly")
            self.breaks |= change
            return
        self._note(position, list(map(attr_key, values)), name)

    def _note(self, position: int, keys: Sequence[Hashable], what: str) -> None:
        change = np.array([False, *(a != b for a, b in itertools.pairwise(keys))])
        if change.any():
            self.breaks |= change
            self.reasons.setdefault(position, f"{what} of {self.listed.nodes[self.start + position].name} differ")

    def pieces(self) -> list[tuple[int, int]]:
        """(first, end) of the iterations that may be one loop."""
        borders = [*np.flatnonzero(self.breaks).tolist(), self.count]
        return list(itertools.pairwise(borders))

    def longer(self) -> int:
        """How many iterations together may be one iteration: as many as the most frequent piece has, 2 at least."""
        lengths = np.bincount([b - a for a, b in self.pieces()])
        return max(int(np.argmax(lengths)), 2)

    def obstacle(self) -> Obstacle:
        """Why there is no long piece: the place where the iterations differ most often."""
        for position, reason in self.reasons.items():
            return Obstacle(reason, self.listed.nodes[self.start + position].location)
        step = np.diff(self.reads, axis=0)
        kind = np.where(step == 0, 1, np.where(step == self.width, 2, 0))
        slot = int(np.argmax((kind[1:] != kind[:-1]).sum(axis=0)))
        return Obstacle(
            "an operand is now a value of an earlier iteration, now another one",
            self.listed.nodes[self.start + self._node_of(slot)].location,
        )

    def _node_of(self, slot: int) -> int:
        """The node of an iteration that an operand belongs to."""
        begin = self.listed.begin[self.start : self.start + self.period + 1] - self.listed.begin[self.start]
        return int(np.searchsorted(begin, slot, "right")) - 1

    # ---- what operands are -----------------------------------------------------------------------------------------

    def loop(self, first: int, end: int, least: int) -> Loop:
        """Iterations `first` to `end` as a loop; less of the first where they begin otherwise. Raises Obstacle."""
        for node in self.listed.nodes[self.start : self.start + self.period]:
            if not is_pure(node):
                raise Obstacle(f"{node.name} is a call into Python or acts on what is outside", node.location)
        obstacle = None
        while end - first >= least:
            operands: list[Operand] = []
            later = first
            for slot in range(self.reads.shape[1]):
                try:
                    found, begin = self._operand(slot, first, end)
                except Obstacle as error:
                    raise error from obstacle
                operands.append(found)
                later = max(later, begin)
            if later == first and self._settled(first, end):
                return self._finish(first, end, operands)
            first = max(later, first + 1)
        raise Obstacle("its first iterations differ from the others", self.listed.nodes[self.start].location)

    def _operand(self, slot: int, first: int, end: int) -> tuple[Operand, int]:
        """One operand of the iterations from `first` on, and the iteration from which it is that."""
        listed, width = self.listed, self.width
        origin = int(listed.first[self.start])
        begin = origin + first * width
        same, further = self.always
        last = int(self.reads[end - 1, slot])
        if same[slot] and last < begin:
            return Each((listed.value(last),)), first
        if further[slot] and last >= origin + (end - 1) * width:
            return Within(last - origin - (end - 1) * width), first
        read = self.reads[first:end, slot]
        count = end - first
        distance = begin + np.arange(count) * width - read  # from the first value of its iteration
        if distance[-1] <= 0:
            return Within(int(-distance[-1])), first + _last_other(distance)
        if read[-1] < begin:
            return self._from_before(read, begin, first, slot)
        delay = -(-int(distance[-1]) // width)
        if read[-1] == read[-2]:
            return Each((listed.value(read[-1]),)), first + int(count - delay)
        if delay > MOST_DELAY:
            raise self._obstacle(f"it reads a value of {delay} iterations ago", slot)
        regular = _last_other(distance)  # from here on the values are those of `delay` iterations before
        if regular > delay or (read[:regular] >= begin).any():
            return Carried(0, delay, ()), first + max(regular - delay, 1)
        place = delay * width - int(distance[-1])
        initial = listed.values(read[:delay])
        own = listed.value(begin + place).type
        fits = all(v.type == own or self._becomes(v, own, slot) for v in initial)
        return Carried(place, delay, initial), first if fits and (read[:delay] < begin).all() else first + 1

    def _becomes(self, initial: Var, wanted: Type, slot: int) -> bool:
        return becomes(self.listed, self.listed.nodes[self.start + self._node_of(slot)], initial, wanted)

    def _from_before(self, read: np.ndarray, begin: int, first: int, slot: int) -> tuple[Operand, int]:
        inside = np.flatnonzero(read >= begin)
        if len(inside):
            return Each(()), first + int(inside[-1]) + 1
        if (read == read[-1]).all():
            return Each((self.listed.value(read[-1]),)), first
        values = self.listed.values(read)
        types = [v.type for v in values]
        different = [t for t, kind in enumerate(types) if kind != types[-1]]
        return Each(values), first + (different[-1] + 1 if different else 0)

    def _obstacle(self, message: str, slot: int) -> Obstacle:
        return Obstacle(message, self.listed.nodes[self.start + self._node_of(slot)].location)

    def _settled(self, first: int, end: int) -> bool:
        """Whether the first of these iterations computes values of the types that the others compute."""
        begin, last = (int(self.listed.first[self.start]) + k * self.width for k in (first, end - 1))
        places = np.arange(self.width)
        pairs = zip(self.listed.values(begin + places), self.listed.values(last + places), strict=True)
        return all(v.type == w.type for v, w in pairs)

    def _finish(self, first: int, end: int, operands: Sequence[Operand]) -> Loop:
        listed = self.listed
        start, stop = self.start + first * self.period, self.start + end * self.period
        used = listed.last[listed.first[start] : listed.first[stop]] >= stop
        moving = {
            p: s[first:end] for p, s in self.moving.items() if (s[first:end] != s[first]).any()
        }  # fmt: skip
        shape = (end - first, self.width)
        return Loop(listed, start, self.period, end - first, tuple(operands), moving, used.reshape(shape))


def becomes(listed: Listing, reader: Node, initial: Var, wanted: Type) -> bool:
    """Whether a Python number that a carry begins with may as well be a value of the carry's dtype."""
    if not initial.type.weak or wanted.shape or wanted.weak or wanted.dtype.kind != "f":
        return False
    defined = listed.definition(initial)
    if defined is None or "value" not in defined.attrs or defined.attrs["value"].dtype.kind not in "if":
        return False
    return reader.op.name in _ARITHMETIC and reader.outputs[0].type.dtype == wanted.dtype


def _last_other(values: np.ndarray) -> int:
    """The position from which on all are equal to the last one."""
    other = np.flatnonzero(values != values[-1])
    return int(other[-1]) + 1 if len(other) else 0


def _same(values: list[Any]) -> bool:
    """Whether all are the same by type and bits; quickly so for integers, names and tuples of them."""
    kinds = set(map(type, values))
    if np.ndarray in kinds:
        return len(set(map(attr_key, values))) == 1
    if values.count(values[0]) != len(values):
        return False
    if kinds == {tuple}:
        kinds = set(map(type, itertools.chain.from_iterable(values)))
    return kinds <= {int} or kinds <= {str} or kinds <= {bool} or len(set(map(attr_key, values))) == 1


def body_key(graph: Graph) -> Hashable:
    """A key of a body: equal keys mean that they compute the same, whatever their values are called."""
    number: dict[Var, int] = {v: k for k, v in enumerate(graph.inputs)}
    rows: list[Hashable] = [tuple(v.type for v in graph.inputs)]
    for node in graph.nodes:
        read = tuple(number[v] for v in node.inputs)
        for v in node.outputs:
            number[v] = len(number)
        types = tuple(v.type for v in node.outputs)
        rows.append((node.op, read, types, attrs_key(node.attrs), tuple(map(body_key, node.bodies))))
    rows.append(tuple(number[v] for v in graph.outputs))
    return tuple(rows)
