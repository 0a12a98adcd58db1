"""Small loops written out, and the small arrays that only they used turned into scalars.

Loops of constant extent ≤ 8 become copies of their body as long as there are not too many. A local array or
accumulator whose every index is then a number becomes one register per element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from tracegrad.ir.index import Affine, Bound, Index, constant
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
    LoopProgram,
    Name,
    Read,
    Stmt,
    Store,
    Update,
    UpdateAt,
    Value,
)
from tracegrad.schedule.maps import simplify_bounds, substitute, substitute_bound
from tracegrad.schedule.rewrite import Rewriter, buffers_of, expressions, walk
from tracegrad.schedule.statements import SMALL

COPIES = 256  # statements that one unrolled loop may grow to


def unroll(program: LoopProgram) -> LoopProgram:
    """The program with small loops written out."""
    if not any(isinstance(s, Loop) and _is_small(s) for s in walk(program.body)):
        return program
    unroller = _Unroller(program)
    body = unroller.statements(program.body)
    return _scalarise(replace(program, buffers=tuple(unroller.buffers.values()), body=body), unroller.taken)


def _is_small(loop: Loop) -> bool:
    return isinstance(loop.extent, int) and loop.extent <= SMALL


def _fresh(wish: str, taken: set[str]) -> str:
    name, number = wish, 1
    while name in taken:
        number += 1
        name = f"{wish}_{number}"
    taken.add(name)
    return name


class _Unroller(Rewriter):
    def __init__(self, program: LoopProgram):
        self.buffers = {b.name: b for b in program.buffers}
        self.accesses = Counter(b for s in walk(program.body) for b in buffers_of(s))
        self.taken = set(self.buffers)
        for s in walk(program.body):
            if isinstance(s, (Let, Declare, Check)):
                self.taken.add(s.name)

    def statement(self, s: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(s, Loop):
            return (s,)
        body = self.statements(s.body)
        if not _is_small(s) or any(isinstance(inner, Loop) for inner in body):
            return (replace(s, body=body),)
        assert isinstance(s.extent, int)
        if len(body) * s.extent > COPIES:
            return (replace(s, body=body),)
        used = Counter(b for inner in body for b in buffers_of(inner))
        private = [
            b for b, count in used.items() if self.buffers[b].role == "local" and count == self.accesses[b]
        ]
        copies: list[Stmt] = []
        for k in range(s.extent):
            copies.extend(self.copy(s.var, k, body, private))
        self.accesses += Counter(b for inner in copies for b in buffers_of(inner)) - used
        return tuple(copies)

    def copy(self, var: str, k: int, body: tuple[Stmt, ...], private: list[str]) -> tuple[Stmt, ...]:
        """The body for the k-th iteration, with names of its own."""
        names = {
            s.name: _fresh(f"{s.name}_{k}", self.taken) for s in body if isinstance(s, (Let, Declare, Check))
        }
        buffers = {b: _fresh(f"{b}_{k}", self.taken) for b in private}
        for old, new in buffers.items():
            self.buffers[new] = replace(self.buffers[old], name=new)
        return _Copy(var, k, names, buffers).statements(body)


class _Copy(Rewriter):
    """Puts a number for a loop variable and renames what the iteration defines."""

    def __init__(self, var: str, k: int, names: dict[str, str], buffers: dict[str, str]):
        self.values = {var: constant(k)}
        self.names = names
        self.renamed = buffers

    def name(self, name: str) -> str:
        return self.names.get(name, name)

    def buffer(self, name: str) -> str:
        return self.renamed.get(name, name)

    def affine(self, index: Index) -> Index:
        return substitute(index, self.values)

    def bounds(self, when: tuple[Bound, ...]) -> tuple[Bound, ...] | None:
        return simplify_bounds([substitute_bound(b, self.values) for b in when], {})

    def expr(self, expr: Expr) -> Expr:
        new = super().expr(expr)
        offset = getattr(getattr(new, "index", None), "offset", None)
        if new is not expr and type(new).__name__ == "FromIndex" and isinstance(offset, int):
            index = getattr(new, "index", None)
            if isinstance(index, Affine) and not index.terms:
                return Literal(new.dtype.type(offset).item(), new.dtype)
        return new


def _scalarise(program: LoopProgram, taken: set[str]) -> LoopProgram:
    """Registers for the elements of small private arrays whose indices are all numbers."""
    kept = _indexed_by_variables(program)
    aliased = {b.alias for b in program.buffers if b.alias}
    found = {
        b.name: b
        for b in program.buffers
        if b.role in ("local", "temp") and not b.alias and b.name not in aliased and b.name not in kept
    }
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
            self.names[key] = _fresh("_".join((buffer, *map(str, position))), self.taken)
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
