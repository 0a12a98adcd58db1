"""The forest of loop nests while statements are being placed into it.

A body holds items: statements without loops of their own, loops, and library calls. Their order stays open until all
are placed: each item knows the set of items that must come before it (as bits of an integer, transitively), so that
"may this statement join that loop?" asks only whether one of its other producers needs the loop to have ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Var
from tracegrad.schedule.statements import CallStatement, Statement


@dataclass(eq=False, slots=True)
class Leaf:
    """A statement in one iteration of the surrounding loops."""

    statement: Statement
    number: int = -1
    before: int = 0


@dataclass(eq=False, slots=True)
class LoopNode:
    """A loop. `axes` are the (value, axis) pairs it walks along, `spaces` the extents of what runs in it (itself and
    inner loops), `size` the number of statements in it; `closed` loops take no further statements."""

    extent: DimLike
    small: bool
    body: Body
    depth: int
    axes: set[tuple[Var, int]] = field(default_factory=set)
    spaces: set[tuple[str, ...]] = field(default_factory=set)
    size: int = 0
    closed: bool = False
    number: int = -1
    before: int = 0


@dataclass(eq=False, slots=True)
class CallItem:
    statement: CallStatement
    number: int = -1
    before: int = 0


Item: TypeAlias = Leaf | LoopNode | CallItem


@dataclass(eq=False, slots=True)
class Body:
    """`items` in the order of their making; `loops` those of them that are loops, by extent."""

    items: list[Item] = field(default_factory=list)
    loops: dict[DimLike, list[LoopNode]] = field(default_factory=dict)

    def add(self, item: Item, needs: int) -> None:
        """A new item that comes after the items in `needs`."""
        item.number = len(self.items)
        item.before = needs
        self.items.append(item)
        if isinstance(item, LoopNode):
            self.loops.setdefault(item.extent, []).append(item)

    def require(self, item: Item, needs: int) -> None:
        """Put `item`, and so all that comes after it, behind the items in `needs`."""
        if needs & ~item.before == 0:
            return
        item.before |= needs
        bit = 1 << item.number
        for other in self.items:
            if other.before & bit:
                other.before |= item.before

    def ordered(self) -> list[Item]:
        """The items in an order that respects all needs and otherwise that of their making."""
        done = 0
        found: list[Item] = []
        for item in self.items:
            if done >> item.number & 1:
                continue
            waiting = item.before & ~done
            while waiting:  # of two items that depend on each other, the one with fewer needs comes first
                first = min(_members(waiting), key=lambda number: self.items[number].before.bit_count())
                found.append(self.items[first])
                done |= 1 << first
                waiting &= ~(1 << first)
            found.append(item)
            done |= 1 << item.number
        return found


def _members(bits: int) -> list[int]:
    numbers = []
    while bits:
        low = bits & -bits
        numbers.append(low.bit_length() - 1)
        bits ^= low
    return numbers


def needs_of(item: Item) -> int:
    """The item and all that must come before it."""
    return item.before | 1 << item.number


@dataclass(eq=False, slots=True)
class Place:
    """Where a statement runs: its loops, outermost first, the loop of each of its variables, and its item at each
    level (`items[d]` stands in the body inside `path[:d]`). Complete after `path[complete:]` have ended."""

    path: tuple[LoopNode, ...]
    binding: dict[str, LoopNode]
    items: tuple[Item, ...]
    complete: int
