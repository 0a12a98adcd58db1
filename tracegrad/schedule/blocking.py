"""Rows in blocks: costly scalar work between the inner loops of a row loop becomes a loop that vectorises.

    for i in range(n):              for ib in range(n // B):
        for k: s += x[i, k] * w[k]      for ii in range(B): { for k: s += x[ib*B + ii, k] * w[k] }; row[ii] = s
        r = logaddexp(0, s)      →      for ii in range(B): r[ii] = logaddexp(0, row[ii])
        for k: g[k] += x[i, k] * r      for ii in range(B): { for k: g[k] += x[ib*B + ii, k] * r[ii] }

A block of rows is small enough to stay in the L1 cache, so the matrix is still read from memory once. Distributing the
loop over its parts is legal because the iterations of a parallel loop depend on each other through reductions only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tracegrad.ir.dims import DimLike, product
from tracegrad.ir.index import Affine, Bound, Index, variable
from tracegrad.schedule.lanes import LANES, rows_in_lanes, side_by_side
from tracegrad.schedule.loops import (
    Buffer,
    Call,
    Check,
    Declare,
    Let,
    Loop,
    LoopProgram,
    Name,
    Read,
    Stmt,
    Store,
    Update,
    UpdateAt,
    Value,
)
from tracegrad.schedule.maps import substitute, substitute_bound
from tracegrad.schedule.rewrite import Rewriter, buffers_of, expressions, walk
from tracegrad.schedule.scalars import fresh
from tracegrad.schedule.weights import expression_weight

HEAVY = 14  # scalar work per row from which on it is worth a loop of its own: one transcendental function
ROWS = 32  # rows of a block, where the block of the widest row array stays within
BYTES = 24_576  # half of an L1 data cache


def block_rows(program: LoopProgram) -> LoopProgram:
    """The program with its row loops cut into blocks where that lets scalar work vectorise."""
    taken = {b.name for b in program.buffers}
    for s in walk(program.body):
        if isinstance(s, (Let, Declare, Check)):
            taken.add(s.name)
        elif isinstance(s, Loop):
            taken.add(s.var)
    buffers = {b.name: b for b in program.buffers}
    body: list[Stmt] = []
    for s in program.body:
        body.extend(_Blocker(s, buffers, taken).run() if isinstance(s, Loop) else (s,))
    used = {name for s in walk(body) for name in buffers_of(s)}
    kept = tuple(b for b in buffers.values() if b.role != "local" or b.name in used)
    return replace(program, buffers=kept, body=tuple(body))


class _Blocker:
    """One outermost loop."""

    def __init__(self, loop: Loop, buffers: dict[str, Buffer], taken: set[str]):
        self.loop, self.buffers, self.taken = loop, buffers, taken

    def run(self) -> tuple[Stmt, ...]:
        loop = self.loop
        if loop.kind != "parallel":
            return (loop,)
        if side_by_side(loop, self.buffers):
            beside = rows_in_lanes(loop, self.buffers, self.taken)
            return self._with_rest(beside, beside.extent * LANES)
        segments = list(_segments(loop.body))
        if len(segments) < 2 or not any(heavy for heavy, _ in segments) or not self._separable(segments):
            return (loop,)
        most = min(ROWS, BYTES // self._row_bytes()) // LANES * LANES
        rows, extent = most, loop.extent
        if most == 0:
            return (loop,)
        if isinstance(extent, int):
            if extent < 4 * most:
                return (loop,)
            # A number of rows that fills vectors, and that divides the extent where one does.
            rows = next((r for r in range(most, 0, -LANES) if extent % r == 0), most)
        blocks = extent // rows
        return self._with_rest(self._blocked(segments, rows, blocks), blocks * rows)

    def _with_rest(self, blocked: Loop, done: DimLike) -> tuple[Stmt, ...]:
        """The loop over blocks, and one over the rows that fill none."""
        rest = self.loop.extent - done
        return (blocked,) if rest == 0 else (blocked, self._remainder(done, rest))

    def _separable(self, segments: list[tuple[bool, list[Stmt]]]) -> bool:
        """Whether only scalars pass between the segments."""
        homes: dict[str, int] = {}
        for number, (_, statements) in enumerate(segments):
            for s in walk(statements):
                if isinstance(s, (Check, Call)):
                    return False
                for name in buffers_of(s):
                    if self.buffers[name].role == "local" and homes.setdefault(name, number) != number:
                        return False
        return True

    def _row_bytes(self) -> int:
        """The bytes one iteration reads of the widest array it reads by rows."""
        widest = 8
        for s in walk(self.loop.body):
            for e in expressions(s):
                if isinstance(e, Read) and any(
                    isinstance(i, Affine) and self.loop.var in dict(i.terms) for i in e.index
                ):
                    shape = self.buffers[e.buffer].shape
                    row = [
                        d
                        for d, i in zip(shape, e.index)
                        if not isinstance(i, Value) and not _mentions(i, self.loop.var)
                    ]
                    elements = product(row)
                    if isinstance(elements, int):
                        widest = max(widest, elements * e.dtype.itemsize)
        return widest

    def _blocked(self, segments: list[tuple[bool, list[Stmt]]], rows: int, blocks: DimLike) -> Loop:
        outer, inner = fresh(f"{self.loop.var}b", self.taken), fresh(f"{self.loop.var}i", self.taken)
        place = Affine(((outer, rows),)) + variable(inner)
        crossing = self._crossing(segments, rows)
        parts: list[Stmt] = []
        defined: set[str] = set()
        for _, statements in segments:
            shifted = _Shift(self.loop.var, place).statements(statements)
            used = {e.name for s in walk(shifted) for e in expressions(s) if isinstance(e, Name)}
            used |= {i.name for s in walk(shifted) for i in _values(s)}
            here = {s.name: s for s in shifted if isinstance(s, (Let, Declare))}
            index = (variable(inner),)
            loads = [Let(n, Read(crossing[n].name, index, crossing[n].dtype)) for n in crossing if n in used & defined]
            saves = [Store(crossing[n].name, index, Name(n, crossing[n].dtype)) for n in crossing if n in here]
            defined |= set(here)
            # A name is defined once in a program: what is loaded again gets a name of this segment.
            again = {s.name: fresh(f"{s.name}_", self.taken) for s in loads}
            body = _Rename(again).statements((*loads, *shifted, *saves))
            parts.append(Loop(inner, rows, body))
        return Loop(outer, blocks, tuple(parts), "parallel", self.loop.reduced)

    def _crossing(self, segments: list[tuple[bool, list[Stmt]]], rows: int) -> dict[str, Buffer]:
        """A block buffer for each scalar that one segment defines and a later one reads."""
        home: dict[str, tuple[int, np.dtype]] = {}
        crossing: dict[str, Buffer] = {}
        for number, (_, statements) in enumerate(segments):
            for s in walk(statements):
                for e in expressions(s):
                    if isinstance(e, Name) and e.name in home and home[e.name][0] != number and e.name not in crossing:
                        name = fresh(f"{e.name}_rows", self.taken)
                        crossing[e.name] = self.buffers[name] = Buffer(name, home[e.name][1], (rows,), "local")
            for s in statements:
                if isinstance(s, (Let, Declare)):
                    home[s.name] = (number, s.value.dtype if isinstance(s, Let) else s.dtype)
        return crossing

    def _remainder(self, first: DimLike, count: DimLike) -> Loop:
        """The rows that fill no block, as they were."""
        var = fresh(self.loop.var, self.taken)
        shifted = _Shift(self.loop.var, variable(var) + first).statements(self.loop.body)
        names = {s.name: fresh(s.name, self.taken) for s in walk(shifted) if isinstance(s, (Let, Declare))}
        for name in {n for s in walk(shifted) for n in buffers_of(s) if self.buffers[n].role == "local"}:
            names[name] = fresh(name, self.taken)
            self.buffers[names[name]] = replace(self.buffers[name], name=names[name])
        return Loop(var, count, _Rename(names).statements(shifted), "parallel", self.loop.reduced)


def _segments(body: tuple[Stmt, ...]) -> Iterator[tuple[bool, list[Stmt]]]:
    """The body cut into (heavy, statements): runs of costly scalar statements, and everything between them."""
    runs: list[tuple[bool, list[Stmt]]] = []
    for s in body:
        scalar = isinstance(s, (Let, Update, Store, UpdateAt))
        if runs and runs[-1][0] is scalar:
            runs[-1][1].append(s)
        else:
            runs.append((scalar, [s]))
    merged: list[tuple[bool, list[Stmt]]] = []
    for scalar, statements in runs:
        heavy = scalar and sum(expression_weight(s.value) for s in statements if hasattr(s, "value")) >= HEAVY
        if merged and not heavy and not merged[-1][0]:
            merged[-1][1].extend(statements)
        else:
            merged.append((heavy, statements))
    yield from merged


def _mentions(index: Index, var: str) -> bool:
    affine = index if isinstance(index, Affine) else index.affine
    return var in dict(affine.terms)


def _values(s: Stmt) -> Iterator[Value]:
    """The computed indices of a statement."""
    for index in (getattr(s, "index", ()), *(e.index for e in expressions(s) if isinstance(e, Read))):
        if isinstance(index, tuple):
            yield from (i for i in index if isinstance(i, Value))


class _Shift(Rewriter):
    """Puts an index for a loop variable."""

    def __init__(self, var: str, place: Affine):
        self.values = {var: place}

    def affine(self, index: Index) -> Index:
        return substitute(index, self.values)

    def bounds(self, when: tuple[Bound, ...]) -> tuple[Bound, ...]:
        return tuple(substitute_bound(b, self.values) for b in when)


class _Rename(Rewriter):
    """New names for scalars and buffers."""

    def __init__(self, names: dict[str, str]):
        self.names = names

    def name(self, name: str) -> str:
        return self.names.get(name, name)

    buffer = name
