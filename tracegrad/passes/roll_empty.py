"""Where a loop of a varying length had no iteration: between the same two neighbours stands one of length 0.

It hands on what it is given, so it may stand anywhere. What it is given is what the next loop is given, seen from where
it stands; and what reads the results of the next loop reads in its place the results of this one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracegrad.ir.graph import Node, Var
from tracegrad.passes.roll_listing import Listing
from tracegrad.passes.roll_trips import Trips
from tracegrad.records import record

Given = list[Var | None]


@record
class Empty:
    """A loop without iterations before node `position`, the same as loop number `like` otherwise."""

    position: int
    like: int
    inputs: Given
    outputs: list[Var]


class Around:
    """The nodes as seen from loops, each of which counts as one: `empty` are those that are missing among them.

    `inputs` and `outputs` are those of the loops, in order: `inputs` are changed where they are results of empty ones.
    `changed` are the nodes that read such results.
    """

    def __init__(self, listed: Listing, trips: Trips, inputs: list[Given], outputs: list[list[Var]]):
        self.listed, self.inputs, self.outputs = listed, inputs, outputs
        self.first, stop = trips.start[trips.head], trips.stop
        self.loop_at = dict(zip(self.first.tolist(), range(len(self.first)), strict=True))
        count = len(listed.nodes)
        self.behind = np.append(listed.keys.astype(np.int64), -1)[stop]  # per loop the key of the node behind it
        inside = np.zeros(count + 1, np.int64)
        np.add.at(inside, self.first, 1)
        np.add.at(inside, stop, -1)
        inside = np.cumsum(inside)[:count]
        missing = _missing(listed, self.first, stop, inside)
        weight = 1 - inside
        weight[self.first] = 1
        self.place = np.cumsum(weight) - 1 + np.searchsorted(missing, np.arange(count), "right")
        self.node_at = {int(self.place[k]): k for k in np.flatnonzero(weight).tolist()}
        self.empty: list[Empty] = []
        self.empty_at: dict[int, Empty] = {}
        self.changed: dict[int, Node] = {}
        self._origin: dict[Var | None, Var | None] = {}  # of results of empty loops: what they are
        for position in missing.tolist():
            self._insert(position)

    def _insert(self, position: int) -> None:
        like, other = self._two_like(position)
        here = int(self.place[position]) - 1
        inputs: Given = []
        for a, b in zip(self.inputs[like], self.inputs[other], strict=True):
            found = a if a is None else self._seen_from(here, a, b, int(self.place[self.first[like]]))
            if a is not None and found is None:
                return
            inputs.append(found)
        empty = Empty(position, like, inputs, [Var(v.type) for v in self.outputs[like]])
        self.empty.append(empty)
        self.empty_at[here] = empty
        for var, given in zip(empty.outputs, inputs, strict=False):
            self._origin[var] = self._origin.get(given, given)
        self._read_by_others(empty, here, int(self.place[self.first[like]]))

    def _two_like(self, position: int) -> tuple[int, int]:
        """Two loops before the same kind of node, the next ones if there are any."""
        same = np.flatnonzero(self.behind == self.listed.keys[position])
        later = int(np.searchsorted(self.first[same], position))
        chosen = same[min(later, len(same) - 2) :]
        return int(chosen[0]), int(chosen[1])

    def _seen_from(self, here: int, var: Var, other: Var | None, there: int) -> Var | None:
        """What `var`, seen from place `there`, is from place `here`; itself if it is the same for other loops."""
        made = self._maker(var)
        if made < 0 or (var is other and made < here):
            return var
        distance = there - made
        if here < distance:
            return None
        number = next((k for k, v in enumerate(self._results(made)) if v is var), None)
        found = self._results(here - distance)
        if number is None or number >= len(found) or found[number].type != var.type:
            return None
        return found[number]

    def _maker(self, var: Var) -> int:
        """The place of what computes a value; -1 for what comes from outside and for constants."""
        number = self.listed.numbers(var)
        if number < self.listed.first[0]:
            return next((p for p, e in self.empty_at.items() if var in e.outputs), -1) if number < 0 else -1
        return int(self.place[int(np.searchsorted(self.listed.first, number, "right")) - 1])

    def _results(self, place: int) -> Sequence[Var]:
        if place in self.empty_at:
            return self.empty_at[place].outputs
        if place not in self.node_at:
            return ()
        node = self.node_at[place]
        return self.outputs[self.loop_at[node]] if node in self.loop_at else self.listed.nodes[node].outputs

    def _read_by_others(self, empty: Empty, here: int, there: int) -> None:
        """Let nodes behind the empty loop read its results, as those behind the other one read its results."""
        results = {v: k for k, v in enumerate(self.outputs[empty.like])}
        for distance in range(1, len(self.listed.nodes)):
            mine, its = (self.node_at.get(place + distance) for place in (here, there))
            if mine is None or its is None or (mine in self.loop_at) is not (its in self.loop_at):
                return
            is_loop = mine in self.loop_at
            if not is_loop and self.listed.keys[mine] != self.listed.keys[its]:
                return
            wanted, read = self._reads(its), self._reads(mine)
            replaced = [
                self._instead(v, results.get(w), empty) if w is not None else v
                for v, w in zip(read, wanted, strict=True)
            ]
            if is_loop:
                self.inputs[self.loop_at[mine]][:] = replaced
                return
            if any(a is not b for a, b in zip(read, replaced, strict=True)):
                node = self.listed.nodes[mine]
                self.changed[mine] = Node(
                    node.op, tuple(replaced), node.outputs, node.attrs, node.bodies, node.location  # type: ignore[arg-type]
                )  # fmt: skip

    def _reads(self, node: int) -> Sequence[Var | None]:
        if node in self.loop_at:
            return self.inputs[self.loop_at[node]]
        return self.changed.get(node, self.listed.nodes[node]).inputs

    def _instead(self, var: Var | None, number: int | None, empty: Empty) -> Var | None:
        """What is read in the place of `var` where the other reads result `number`."""
        if number is None or var is None or empty.inputs[number] is None:
            return var
        same = self._origin.get(var, var) is self._origin.get(empty.inputs[number], empty.inputs[number])
        return empty.outputs[number] if same and var.type == empty.outputs[number].type else var


def _missing(listed: Listing, first: np.ndarray, stop: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """The nodes before which a loop is missing: they and the one before are neighbours of other loops."""
    keys = listed.keys.astype(np.int64)
    within = (first > 0) & (stop < len(keys))
    scale = int(keys.max()) + 1
    pairs, counts = np.unique(keys[first[within] - 1] * scale + keys[stop[within]], return_counts=True)
    there = np.isin(keys[:-1] * scale + keys[1:], pairs[counts > 1]) & (inside[:-1] == 0) & (inside[1:] == 0)
    return np.flatnonzero(there) + 1
