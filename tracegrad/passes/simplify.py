"""Simplification: algebra as rows, one table per family in `rules/`.

A row changes neither dtypes nor shapes, keeps NaN and infinities where NumPy has them, and the bits of everything that
is not a sum; the few exceptions stand beside their rows. It may rely on derivatives having been taken already.
"""

from __future__ import annotations

from tracegrad.ir.graph import Graph
from tracegrad.passes.rewrite import Row, rewrite
from tracegrad.passes.rules import arithmetic, broadcast, reduction, select, shape, writes

ROWS: tuple[Row, ...] = (
    *arithmetic.TABLE,
    *select.TABLE,
    *shape.TABLE,
    *reduction.TABLE,
    *broadcast.TABLE,
    *writes.TABLE,
)


def simplify(graph: Graph) -> Graph:
    """The graph with every row applied wherever it fits; the graph itself where none does."""
    return rewrite(graph, ROWS)[0]
