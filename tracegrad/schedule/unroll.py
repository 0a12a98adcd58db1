"""Small loops written out, and the small arrays that only they used turned into scalars.

Loops of constant extent ≤ 8 become copies of their body as long as there are not too many. A local array or
accumulator whose every index is then a number becomes one register per element.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tracegrad.ir.index import Affine, Bound, Index, constant
from tracegrad.schedule.loops import (
    Apply,
    Check,
    Declare,
    Expr,
    Let,
    Literal,
    Loop,
    LoopProgram,
    Stmt,
    Store,
    Update,
    UpdateAt,
)
from tracegrad.schedule.maps import simplify_bounds, substitute, substitute_bound
from tracegrad.schedule.rewrite import Rewriter, buffers_of, parts, walk
from tracegrad.schedule.scalars import fresh, scalarise, straighten
from tracegrad.schedule.statements import SMALL
from tracegrad.schedule.weights import weight_of

LANES = 4
HEAVY = 14  # a transcendental function
COPIES = 256  # statements that one unrolled loop may grow to


def unroll(program: LoopProgram, repeated: bool = False) -> LoopProgram:
    """The program with small loops written out. In one that runs again and again (`repeated`), those stay that fill a
    vector register, or that compute costly functions."""
    if not any(isinstance(s, Loop) and _is_small(s) for s in walk(program.body)):
        return program
    unroller = _Unroller(program, repeated)
    body = unroller.statements(program.body)
    written = replace(program, buffers=tuple(unroller.buffers.values()), body=body)
    return straighten(scalarise(written, unroller.taken), unroller.taken)


def _is_small(loop: Loop) -> bool:
    return isinstance(loop.extent, int) and loop.extent <= SMALL


def _vectorises(loop: Loop) -> bool:
    """Whether a loop is worth to be done in vector registers rather than element by element."""
    if loop.extent == SMALL:
        return True
    values = (s.value for s in loop.body if isinstance(s, (Let, Store, Update, UpdateAt)))
    return isinstance(loop.extent, int) and loop.extent >= LANES and any(map(_costly, values))


def _costly(expr: Expr) -> bool:
    return any(isinstance(e, Apply) and weight_of(e.op) >= HEAVY for e in parts(expr))


class _Unroller(Rewriter):
    def __init__(self, program: LoopProgram, repeated: bool):
        self.repeated = repeated
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
        if len(body) * s.extent > COPIES or (self.repeated and _vectorises(s)):
            return (replace(s, body=body),)
        used = Counter(b for inner in body for b in buffers_of(inner))
        private = [b for b, count in used.items() if self.buffers[b].role == "local" and count == self.accesses[b]]
        copies: list[Stmt] = []
        for k in range(s.extent):
            copies.extend(self.copy(s.var, k, body, private))
        self.accesses.update(b for inner in copies for b in buffers_of(inner))
        self.accesses.subtract(used)  # fewer than before, where a read turned out to be out of its bounds
        return tuple(copies)

    def copy(self, var: str, k: int, body: tuple[Stmt, ...], private: list[str]) -> tuple[Stmt, ...]:
        """The body for the k-th iteration, with names of its own."""
        names = {s.name: fresh(f"{s.name}_{k}", self.taken) for s in body if isinstance(s, (Let, Declare, Check))}
        buffers = {b: fresh(f"{b}_{k}", self.taken) for b in private}
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
