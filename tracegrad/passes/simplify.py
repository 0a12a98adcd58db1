"""Simplification: algebra as rows, one table per family in `rules/`.

A row changes neither dtypes nor shapes, keeps NaN and infinities where NumPy has them, and the bits of everything that
is not a sum; the few exceptions stand beside their rows. It may rely on derivatives having been taken already.
"""

from __future__ import annotations

from tracegrad.ir.graph import Graph
from tracegrad.passes.bodies import everywhere, in_bodies
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


VIEWS: tuple[Row, ...] = (*shape.TABLE, *writes.TABLE)
_WRITES = frozenset({"write", "slice_update"})


def write_through_views(graph: Graph) -> Graph:
    """The graph with the writes to views in loops' bodies as writes to the arrays behind, so that the adjoint has no
    views either. The rows used are moves of elements, whose derivatives are such moves too."""

    def inside(body: Graph) -> Graph:
        return rewrite(body, VIEWS)[0] if any(node.name in _WRITES for node in body.nodes) else body

    return in_bodies(graph, everywhere(inside))


def simplify(graph: Graph) -> Graph:
    """The graph with every row applied wherever it fits; the graph itself where none does."""
    return rewrite(graph, ROWS)[0]
