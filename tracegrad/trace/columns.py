"""What a recording notes of its nodes as numbers, so that whoever looks for repetitions need not look at each node."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
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

    def kind(self, op: Any, location: Any, n_in: int, n_out: int, attrs: bool) -> int:
        """The number of nodes of an operation, line of the user, number of inputs and outputs, with `attrs` or not."""
        return self.kind_of.setdefault((op, id(location), n_in, n_out, attrs), len(self.kind_of))

    def note(self, node: Node) -> None:
        """Number the outputs of the next node."""
        op, inputs, outputs, attrs, _, location = node
        kind = self.kind(op, location, len(inputs), len(outputs), attrs is not NO_ATTRS)
        self.note_kind(kind, inputs, outputs, NO_ATTRS if op is Constant else attrs)

    def note_kind(self, kind: int, inputs: Sequence[Var], outputs: Sequence[Var], attrs: Any) -> None:
        """The same for a node that is no constant, of a known kind."""
        self.kinds.append(kind)
        read = self.reads.append
        for var in inputs:
            read(var.number)
        for var in outputs:
            var.number = self.count
            self.count += 1
        if attrs is not NO_ATTRS:
            self.attrs.append(id(attrs))

    def note_other(self, var: Var) -> None:
        """Number a value that comes from outside."""
        var.number = self.count
        self.others.append(self.count)
        self.count += 1
