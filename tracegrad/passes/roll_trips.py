"""The iterations of all loops of one kind in a graph."""

from __future__ import annotations

import numpy as np

from tracegrad.passes.roll_listing import Listing
from tracegrad.passes.roll_match import Loop
from tracegrad.records import record


@record
class Trips:
    """All iterations of loops with the same operations, one after the other: the node each begins at, the loop it
    belongs to, its number there. `head` are the first ones, `counts` the lengths of the loops."""

    period: int
    start: np.ndarray
    loop: np.ndarray
    number: np.ndarray
    head: np.ndarray
    counts: np.ndarray

    @property
    def stop(self) -> np.ndarray:
        """Per loop the node behind it."""
        found: np.ndarray = self.start[self.head] + self.counts * self.period
        return found


def trips_like(listed: Listing, loop: Loop) -> Trips:
    """All iterations with the keys of this loop's."""
    pattern = listed.keys[loop.start : loop.start + loop.period]
    last = len(listed.keys) - loop.period + 1
    same = np.ones(last, bool)
    for offset, key in enumerate(pattern):
        same &= listed.keys[offset : offset + last] == key
    starts, end = [], 0
    for position in np.flatnonzero(same).tolist():
        if position >= end:
            starts.append(position)
            end = position + loop.period
    start = np.array(starts)
    head = np.flatnonzero(np.diff(start, prepend=-1 - loop.period) != loop.period)
    counts = np.diff(np.append(head, len(start)))
    number = np.arange(len(start)) - np.repeat(head, counts)
    return Trips(loop.period, start, np.repeat(np.arange(len(head)), counts), number, head, counts)
