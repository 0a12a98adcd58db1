"""The forest of loop nests while statements are being placed into it.

A body is an ordered list of items: blocks of statements without loops of their own, loops, and library calls. Items
carry an order key, so that "after that producer" is one comparison and an item can be put between two others.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Var
from tracegrad.schedule.statements import CallStatement, Statement


@dataclass(eq=False, slots=True)
class Block:
    """Statements of one iteration of the surrounding loops, in order."""

    statements: list[Statement] = field(default_factory=list)
    key: float = 0.0


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
    key: float = 0.0


@dataclass(eq=False, slots=True)
class CallItem:
    statement: CallStatement
    key: float = 0.0


Item: TypeAlias = Block | LoopNode | CallItem


@dataclass(eq=False, slots=True)
class Body:
    items: list[Item] = field(default_factory=list)

    def position(self, item: Item) -> int:
        """Where `item` stands in `items`."""
        return bisect.bisect_left(self.items, item.key, key=_key)

    def following(self, item: Item | None) -> Iterator[Item]:
        """`item` and all after it; everything for None."""
        start = 0 if item is None else self.position(item)
        for position in range(start, len(self.items)):
            yield self.items[position]

    def insert(self, position: int, item: Item) -> None:
        before = self.items[position - 1].key if position else None
        after = self.items[position].key if position < len(self.items) else None
        if before is None:
            item.key = 0.0 if after is None else after - 1.0
        elif after is None:
            item.key = before + 1.0
        else:
            item.key = (before + after) / 2
        self.items.insert(position, item)
        if item.key in (before, after):
            for number, each in enumerate(self.items):
                each.key = float(number)

    def block_after(self, item: Item | None) -> Block:
        """The block in which a statement runs as soon as `item` is complete (None: at once)."""
        if isinstance(item, Block):
            return item
        position = 0 if item is None else self.position(item) + 1
        if position < len(self.items):
            found = self.items[position]
            if isinstance(found, Block):
                return found
        block = Block()
        self.insert(position, block)
        return block

    def place_after(self, item: Item | None, new: LoopNode | CallItem) -> None:
        """Put a loop or call behind `item` and the block that follows it."""
        position = 0 if item is None else self.position(item) + 1
        if position < len(self.items) and isinstance(self.items[position], Block):
            position += 1
        self.insert(position, new)


def _key(item: Item) -> float:
    return item.key


@dataclass(eq=False, slots=True)
class Place:
    """Where a statement runs: its loops, outermost first, the loop of each of its variables, and its item at each
    level (`items[d]` stands in the body inside `path[:d]`). Complete after `path[complete:]` have ended."""

    path: tuple[LoopNode, ...]
    binding: dict[str, LoopNode]
    items: tuple[Item, ...]
    complete: int
