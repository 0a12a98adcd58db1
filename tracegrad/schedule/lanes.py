"""Rows side by side: where a row's own loops are too short for vectors, several rows are computed at once.

    for i in range(n):                 for ib in range(n // 8):
        for j in range(10):                for j in range(10):
            s = 0                              for ii in range(8): s[ii] = 0
            for k in range(10):                for k in range(10):
                s += a[j, k] * r[k]    →           for ii in range(8): s[ii] += a[j, k] * r[k, ii]
            y[j] = s                           for ii in range(8): y[j, ii] = s[ii]

Each `ii` loop is one vector operation after the other. What is private to a row gets a last axis for its lanes: arrays,
accumulators, and scalars that are read in another loop than the one that computes them. The iterations of a parallel
loop depend on each other through reductions only; these are summed over the lanes first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from tracegrad.ir.index import Affine, Bound, Index, variable
from tracegrad.schedule.identity import identity
from tracegrad.schedule.loops import (
    Buffer,
    Call,
    Check,
    Declare,
    Expr,
    Fill,
    Let,
    Literal,
    Loop,
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

LANES = 8
SHORT = 16  # loops of less iterations fill vectors badly
BYTES = 65_536  # of all that is private to the rows in the lanes
REUSE = 4  # reads per read along the rows, which gathers from as many places as there are lanes


def side_by_side(loop: Loop, buffers: Mapping[str, Buffer]) -> bool:
    """Whether the rows of a loop are to be computed so: nothing in it may stop the program or call a library, most of
    its work has to be in short loops inside others, and most of what it reads its own or the same for all rows."""
    inside = list(walk(loop.body))
    own = {n for s in inside for n in buffers_of(s) if buffers[n].role == "local"}
    extents = [s.extent for s in inside if isinstance(s, Loop)]
    if (
        loop.kind != "parallel"
        or (isinstance(loop.extent, int) and loop.extent < 4 * LANES)
        or any(isinstance(s, (Check, Call)) for s in inside)
        or not all(isinstance(d, int) for d in extents)
        or any(buffers[n].alias for n in own)
        or _bytes(buffers[n] for n in own) * LANES > BYTES
    ):
        return False
    work = _Work(loop.var, buffers)
    work.add(loop.body, times=1, short=False, depth=0)
    return work.short > work.long and work.others >= REUSE * work.gathered


class _Work:
    """Counts of operations in short inner loops and elsewhere, and of reads: those that differ from row to row gather
    from as many places as there are lanes."""

    def __init__(self, var: str, buffers: Mapping[str, Buffer]):
        self.var, self.buffers = var, buffers
        self.short = self.long = self.gathered = self.others = 0

    def add(self, body: Iterable[Stmt], times: int, short: bool, depth: int) -> None:
        for s in body:
            if isinstance(s, Loop):
                assert isinstance(s.extent, int)
                self.add(s.body, times * s.extent, depth > 0 and s.extent < SHORT, depth + 1)
                continue
            for e in expressions(s):
                if isinstance(e, Read):
                    self.access(e.buffer, e.index, times)
                if short:
                    self.short += times
                else:
                    self.long += times
            if isinstance(s, Store):
                self.access(s.buffer, s.index, times)

    def access(self, buffer: str, index: Iterable[Index | Value], times: int) -> None:
        if any(_mentions(i, self.var) for i in index):
            self.gathered += times
        else:
            self.others += times


def _bytes(buffers: Iterable[Buffer]) -> int:
    """Of buffers of constant sizes."""
    return sum(math.prod(d for d in b.shape if isinstance(d, int)) * b.dtype.itemsize for b in buffers)


def _mentions(index: Index | Value, var: str) -> bool:
    if isinstance(index, Value):
        return False
    affine = index if isinstance(index, Affine) else index.affine
    return var in dict(affine.terms)


def rows_in_lanes(loop: Loop, buffers: dict[str, Buffer], taken: set[str]) -> Loop:
    """The loop over blocks of rows, without the rows that fill none. Adds what it needs to `buffers`."""
    return _Lanes(loop, buffers, taken).run()


class _Lanes(Rewriter):
    """One outermost loop."""

    def __init__(self, loop: Loop, buffers: dict[str, Buffer], taken: set[str]):
        self.loop, self.buffers, self.taken = loop, buffers, taken
        self.outer, self.lane = fresh(f"{loop.var}b", taken), fresh(f"{loop.var}i", taken)
        self.place = {loop.var: Affine(((self.outer, LANES),)) + variable(self.lane)}
        self.at = variable(self.lane)
        self.own = {n for s in walk(loop.body) for n in buffers_of(s) if buffers[n].role == "local"}
        self.arrays = {n: fresh(f"{n}_lanes", taken) for n in sorted(self.own)}
        self.scalars: dict[str, Buffer] = {}
        for name, dtype in _crossing(loop.body).items():
            self.scalars[name] = Buffer(fresh(f"{name}_lanes", taken), dtype, (LANES,), "local")

    def run(self) -> Loop:
        loop = self.loop
        for name, array in self.arrays.items():
            old = self.buffers[name]
            self.buffers[array] = replace(old, name=array, shape=(*old.shape, LANES))
        self.buffers.update((b.name, b) for b in self.scalars.values())
        return Loop(self.outer, loop.extent // LANES, self.statements(loop.body), "parallel", loop.reduced)

    def statements(self, statements: Iterable[Stmt]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for apart, run in _runs(statements):
            if not apart:
                out.extend(self.lanes(run))
                continue
            for s in run:
                if isinstance(s, Loop):
                    out.append(replace(s, body=self.statements(s.body)))
                else:
                    assert isinstance(s, Fill)
                    out.append(Fill(self.arrays.get(s.buffer, s.buffer), s.combine))
        return tuple(out)

    def lanes(self, run: list[Stmt]) -> Iterator[Stmt]:
        """A run of scalar statements for all lanes; sums over the rows are added up in a register first."""
        before: list[Stmt] = []
        after: list[Stmt] = []
        body: list[Stmt] = []
        for s in run:
            if isinstance(s, UpdateAt) and s.buffer in self.loop.reduced:
                total = fresh("total", self.taken)
                before.append(Declare(total, s.combine, s.value.dtype))
                body.append(Update(total, s.combine, self.expr(s.value)))
                after.append(UpdateAt(s.buffer, self.index(s.index), s.combine, Name(total, s.value.dtype)))
            else:
                body.append(self.scalar(s))
        yield from (*before, Loop(self.lane, LANES, tuple(body)), *after)

    def scalar(self, s: Stmt) -> Stmt:
        """One statement for one lane."""
        match s:
            case Let(name, value) if name in self.scalars:
                return Store(self.scalars[name].name, (self.at,), self.expr(value))
            case Declare(name, combine, dtype):
                start = Literal(identity(combine, dtype), dtype)
                return Store(self.scalars[name].name, (self.at,), start)
            case Update(name, combine, value) if name in self.scalars:
                return UpdateAt(self.scalars[name].name, (self.at,), combine, self.expr(value))
            case Store(buffer, index, value):
                return Store(self.arrays.get(buffer, buffer), self.element(buffer, index), self.expr(value))
            case UpdateAt(buffer, index, combine, value):
                return UpdateAt(self.arrays.get(buffer, buffer), self.element(buffer, index), combine, self.expr(value))
        (same,) = self.statement(s)
        return same

    def element(self, buffer: str, index: Iterable[Index | Value]) -> tuple[Index | Value, ...]:
        return (*self.index(index), self.at) if buffer in self.own else self.index(index)

    def affine(self, index: Index) -> Index:
        return substitute(index, self.place)

    def bounds(self, when: tuple[Bound, ...]) -> tuple[Bound, ...]:
        return tuple(substitute_bound(b, self.place) for b in when)

    def expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Name) and expr.name in self.scalars:
            return Read(self.scalars[expr.name].name, (self.at,), expr.dtype)
        return super().expr(expr)

    def read(self, read: Read) -> Expr:
        return Read(
            self.arrays.get(read.buffer, read.buffer), self.element(read.buffer, read.index), read.dtype,
            self.bounds(read.when), read.fill,
        )  # fmt: skip


def _runs(statements: Iterable[Stmt]) -> Iterator[tuple[bool, list[Stmt]]]:
    """Runs of loops and fills, and of other statements; and which they are."""
    for apart, run in itertools.groupby(statements, lambda s: isinstance(s, (Loop, Fill))):
        yield apart, list(run)


def _crossing(body: Iterable[Stmt]) -> dict[str, np.dtype]:
    """The scalars that outlive their run, with their dtypes: accumulators, and what another run reads."""
    found: dict[str, np.dtype] = {}
    home: dict[str, int] = {}
    numbers = itertools.count()

    def visit(statements: Iterable[Stmt]) -> None:
        for _, run in _runs(statements):
            number = next(numbers)
            for s in run:
                for e in expressions(s):
                    if isinstance(e, Name) and e.name in home and home[e.name] != number:
                        found[e.name] = e.dtype
                if isinstance(s, Loop):
                    visit(s.body)
                elif isinstance(s, Declare):
                    found[s.name] = s.dtype
                elif isinstance(s, Let):
                    home[s.name] = number

    visit(body)
    return found
