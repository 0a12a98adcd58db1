"""The forest of loop nests while statements are being placed into it.

A body holds items: statements without loops of their own, loops, and library calls. Their order stays open until all
are placed. Each item knows which items it needs, and as bits of an integer all loops and calls that must therefore end
before it, so that "may this statement join that loop?" only asks whether one of its other producers needs the loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TypeAlias

from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Var
from tracegrad.records import record
from tracegrad.schedule.statements import CallStatement, Statement


@record(frozen=False)
class Leaf:
    """A statement in one iteration of the surrounding loops."""

    statement: Statement
    number: int = -1
    before: int = 0
    needs: list[Item] = field(default_factory=list)


@record(frozen=False)
class LoopNode:
    """A loop. `axes` are the (value, axis) pairs it walks along, `spaces` the extents of what runs in it (itself and
    inner loops), `size` the number of statements in it; `closed` loops take no further statements, `serial` ones
    write to positions that may repeat."""

    extent: DimLike
    small: bool
    body: Body
    depth: int
    axes: set[tuple[Var, int]] = field(default_factory=set)
    spaces: set[tuple[str, ...]] = field(default_factory=set)
    size: int = 0
    closed: bool = False
    serial: bool = False
    number: int = -1
    before: int = 0
    needs: list[Item] = field(default_factory=list)


@record(frozen=False)
class CallItem:
    statement: CallStatement
    number: int = -1
    before: int = 0
    needs: list[Item] = field(default_factory=list)


Item: TypeAlias = Leaf | LoopNode | CallItem


@record(frozen=False)
class Body:
    """`items` in the order of their making; `loops` those of them that are loops, by extent; `numbered` how many of
    them are loops or calls, which have a number (their bit)."""

    items: list[Item] = field(default_factory=list)
    loops: dict[DimLike, list[LoopNode]] = field(default_factory=dict)
    numbered: int = 0

    def add(self, item: Item, needs: Iterable[Item]) -> None:
        """A new item that comes after those it needs."""
        item.needs.extend(needs)
        item.before = union(item.needs)
        self.items.append(item)
        if isinstance(item, LoopNode):
            self.loops.setdefault(item.extent, []).append(item)
        if not isinstance(item, Leaf):
            item.number = self.numbered
            self.numbered += 1

    def require(self, loop: LoopNode, needs: Iterable[Item]) -> None:
        """Put a loop, and so all that needs it, behind other items."""
        more = list(needs)
        loop.needs.extend(more)
        bits = union(more)
        if bits & ~loop.before:
            loop.before |= bits
            for other in self.items:
                if other.before >> loop.number & 1:
                    other.before |= loop.before

    def ordered(self) -> list[Item]:
        """The items, each after those it needs and otherwise in the order of their making."""
        found: dict[Item, None] = {}
        for item in self.items:
            pending = [item]
            while pending:
                current = pending[-1]
                missing = [n for n in current.needs if n not in found]
                if missing:
                    pending.extend(reversed(missing))
                else:
                    found[current] = None
                    pending.pop()
        return list(found)


def union(items: Iterable[Item]) -> int:
    """The loops and calls among the items, with all that must end before them."""
    bits = 0
    for item in items:
        bits |= item.before if item.number < 0 else item.before | 1 << item.number
    return bits


@record(frozen=False)
class Place:
    """Where a statement runs: its loops, outermost first, the loop of each of its variables, and its item at each
    level (`items[d]` stands in the body inside `path[:d]`). Complete after `path[complete:]` have ended."""

    path: tuple[LoopNode, ...]
    binding: dict[str, LoopNode]
    items: tuple[Item, ...]
    complete: int
