"""Registers instead of small arrays and accumulators, once loops have been written out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from tracegrad.ir.index import Affine, Index, constant
from tracegrad.schedule.identity import identity
from tracegrad.schedule.loops import (
    Apply,
    Buffer,
    Call,
    Declare,
    Expr,
    Fill,
    Let,
    Literal,
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
from tracegrad.schedule.rewrite import Rewriter, buffers_of, expressions, walk


def fresh(wish: str, taken: set[str]) -> str:
    """A name like `wish` that is not taken; takes it."""
    name, number = wish, 1
    while name in taken:
        number += 1
        name = f"{wish}_{number}"
    taken.add(name)
    return name


def scalarise(program: LoopProgram, taken: set[str]) -> LoopProgram:
    """Registers for the elements of small private arrays whose indices are all numbers."""
    kept = _indexed_by_variables(program)
    aliased = {b.alias for b in program.buffers if b.alias}
    found = {
        b.name: b
        for b in program.buffers
        if b.role in ("local", "temp") and not b.alias and b.name not in aliased and b.name not in kept
        and all(isinstance(d, int) for d in b.shape)
    }  # fmt: skip
    if not found:
        return program
    body = _Scalars(found, taken).statements(program.body)
    used = {b for s in walk(body) for b in buffers_of(s)} | aliased
    buffers = tuple(b for b in program.buffers if b.name not in found or b.name in used)
    return replace(program, buffers=buffers, body=body)


def _indexed_by_variables(program: LoopProgram) -> set[str]:
    """Buffers that stay arrays: read or written at a varying index, by a call, or both stored to and accumulated in."""
    kept: set[str] = set()
    stored: Counter[tuple[str, object]] = Counter()
    accumulated: set[str] = set()
    for s in walk(program.body):
        if isinstance(s, Call):
            kept.update(buffers_of(s))
        elif isinstance(s, (Store, UpdateAt)):
            if not _fixed(s.index):
                kept.add(s.buffer)
            if isinstance(s, Store):
                stored[s.buffer, s.index] += 1
            else:
                accumulated.add(s.buffer)
        elif isinstance(s, Fill):
            accumulated.add(s.buffer)
        kept.update(e.buffer for e in expressions(s) if isinstance(e, Read) and (e.when or not _fixed(e.index)))
    kept.update(b for (b, _), count in stored.items() if count > 1 or b in accumulated)
    return kept


def _fixed(index: Iterable[Index | Value]) -> bool:
    return all(isinstance(i, Affine) and not i.terms and isinstance(i.offset, int) for i in index)


class _Scalars(Rewriter):
    def __init__(self, found: dict[str, Buffer], taken: set[str]):
        self.found = found
        self.taken = taken
        self.names: dict[tuple[str, tuple[int, ...]], str] = {}

    def element(self, buffer: str, index: Iterable[Index | Value]) -> str:
        position = tuple(i.offset for i in index if isinstance(i, Affine) and isinstance(i.offset, int))
        key = buffer, position
        if key not in self.names:
            self.names[key] = fresh("_".join((buffer, *map(str, position))), self.taken)
        return self.names[key]

    def all_elements(self, buffer: Buffer) -> list[str]:
        positions: list[tuple[int, ...]] = [()]
        for extent in buffer.shape:
            assert isinstance(extent, int)
            positions = [(*p, k) for p in positions for k in range(extent)]
        return [self.element(buffer.name, tuple(map(constant, p))) for p in positions]

    def statement(self, s: Stmt) -> tuple[Stmt, ...]:
        if isinstance(s, Store) and s.buffer in self.found:
            return (Let(self.element(s.buffer, s.index), self.expr(s.value)),)
        if isinstance(s, UpdateAt) and s.buffer in self.found:
            return (Update(self.element(s.buffer, s.index), s.combine, self.expr(s.value)),)
        if isinstance(s, Fill) and s.buffer in self.found:
            buffer = self.found[s.buffer]
            return tuple(Declare(n, s.combine, buffer.dtype) for n in self.all_elements(buffer))
        if isinstance(s, Loop):
            reduced = tuple(
                n for r in s.reduced for n in (self.all_elements(self.found[r]) if r in self.found else (r,))
            )
            return (Loop(s.var, s.extent, self.statements(s.body), s.kind, reduced),)
        return super().statement(s)

    def read(self, read: Read) -> Expr:
        if read.buffer in self.found:
            return Name(self.element(read.buffer, read.index), read.dtype)
        return super().read(read)


def straighten(program: LoopProgram, taken: set[str]) -> LoopProgram:
    """The program with accumulators that no loop updates as chains of Lets."""
    direct: set[str] = set()
    elsewhere: set[str] = set()
    _sort_updates(program.body, direct, elsewhere)
    straight = direct - elsewhere
    if not straight:
        return program
    return replace(program, body=_Straight(straight, taken).statements(program.body))


def _sort_updates(body: Iterable[Stmt], direct: set[str], elsewhere: set[str]) -> None:
    declared = set()
    for s in body:
        if isinstance(s, Declare):
            declared.add(s.name)
            direct.add(s.name)
        elif isinstance(s, Update) and s.name not in declared:
            elsewhere.add(s.name)
        elif isinstance(s, Loop):
            elsewhere.update(s.reduced)
            _sort_updates(s.body, direct, elsewhere)


class _Straight(Rewriter):
    def __init__(self, straight: set[str], taken: set[str]):
        self.straight = straight
        self.taken = taken
        self.present: dict[str, Expr] = {}
        self.started: set[str] = set()

    def statement(self, s: Stmt) -> tuple[Stmt, ...]:
        if isinstance(s, Declare) and s.name in self.straight:
            self.present[s.name] = Literal(identity(s.combine, s.dtype), s.dtype)
            return ()
        if isinstance(s, Update) and s.name in self.straight:
            value = self.expr(s.value)
            if s.name in self.started:
                value = Apply(s.combine, (self.present[s.name], value), s.value.dtype)
            self.started.add(s.name)
            name = fresh(s.name, self.taken)
            self.present[s.name] = Name(name, s.value.dtype)
            return (Let(name, value),)
        return super().statement(s)

    def expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Name) and expr.name in self.present:
            return self.present[expr.name]
        return super().expr(expr)
