"""What a recording notes of its nodes as numbers, so that whoever looks for repetitions need not look at each node."""

from __future__ import annotations

from array import array
from typing import Any

from tracegrad.ir.graph import NO_ATTRS, Node, Var
from tracegrad.ops.constant import Constant


class Columns:
    """The nodes of a trace as integers. Values are numbered in the order in which they appear: `Var.number`.

    kinds: per node a number, the same for nodes of one operation, line of the user, number of inputs and outputs, and
        having attributes or not. `kind_of` has the numbers.
    reads: the numbers of the values read, in order. attrs: per node that has attributes, but constants, their id.
    others: the values that no node computes.
    """

    __slots__ = ("attrs", "count", "kind_of", "kinds", "others", "reads")

    def __init__(self) -> None:
        self.kinds, self.reads, self.attrs = array("q"), array("q"), array("q")
        self.kind_of: dict[tuple[Any, int, int, int, bool], int] = {}
        self.others: list[int] = []
        self.count = 0

    def note(self, node: Node) -> None:
        """Number the outputs of the next node."""
        op, inputs, outputs, attrs, _, location = node
        key = op, id(location), len(inputs), len(outputs), attrs is not NO_ATTRS
        kind = self.kind_of.get(key)
        if kind is None:
            kind = self.kind_of[key] = len(self.kind_of)
        self.kinds.append(kind)
        read = self.reads.append
        for var in inputs:
            read(var.number)
        for var in outputs:
            var.number = self.count
            self.count += 1
        if attrs is not NO_ATTRS and op is not Constant:
            self.attrs.append(id(attrs))

    def note_other(self, var: Var) -> None:
        """Number a value that comes from outside."""
        var.number = self.count
        self.others.append(self.count)
        self.count += 1
