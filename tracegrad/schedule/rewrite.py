"""Walking and rebuilding the statements and expressions of a LoopProgram."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from tracegrad.ir.index import Bound, Index
from tracegrad.schedule.loops import (
    Apply,
    Call,
    Cast,
    Check,
    Declare,
    Expr,
    Fill,
    FromIndex,
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
    Where,
)


class Rewriter:
    """Rebuilds statements; a subclass changes what it names."""

    def name(self, name: str) -> str:
        """A scalar."""
        return name

    def buffer(self, name: str) -> str:
        return name

    def affine(self, index: Index) -> Index:
        """An index over loop variables."""
        return index

    def bounds(self, when: tuple[Bound, ...]) -> tuple[Bound, ...] | None:
        """Conditions; None if they never hold."""
        return when

    def index(self, index: Iterable[Index | Value]) -> tuple[Index | Value, ...]:
        return tuple(Value(self.name(i.name)) if isinstance(i, Value) else self.affine(i) for i in index)

    def statements(self, statements: Iterable[Stmt]) -> tuple[Stmt, ...]:
        return tuple(new for s in statements for new in self.statement(s))

    def statement(self, s: Stmt) -> tuple[Stmt, ...]:
        """What replaces one statement."""
        match s:
            case Let(name, value):
                return (Let(self.name(name), self.expr(value)),)
            case Store(buffer, index, value):
                return (Store(self.buffer(buffer), self.index(index), self.expr(value)),)
            case Declare(name, combine, dtype):
                return (Declare(self.name(name), combine, dtype),)
            case Update(name, combine, value):
                return (Update(self.name(name), combine, self.expr(value)),)
            case Fill(buffer, combine):
                return (Fill(self.buffer(buffer), combine),)
            case UpdateAt(buffer, index, combine, value):
                return (UpdateAt(self.buffer(buffer), self.index(index), combine, self.expr(value)),)
            case Check(name, index):
                return (replace(s, name=self.name(name), index=self.expr(index)),)
            case Loop(var, extent, body, kind, reduced):
                return (Loop(var, extent, self.statements(body), kind, tuple(map(self.name, reduced))),)
            case Call(kernel, inputs, outputs, attrs, location):
                names = tuple(map(self.buffer, inputs)), tuple(map(self.buffer, outputs))
                return (Call(kernel, *names, attrs, location),)
        raise TypeError(f"not a statement: {s!r}")

    def expr(self, expr: Expr) -> Expr:
        kind = type(expr)
        if kind is Literal:
            return expr
        if isinstance(expr, Name):
            return Name(self.name(expr.name), expr.dtype)
        if isinstance(expr, Read):
            return self.read(expr)
        if isinstance(expr, FromIndex):
            return FromIndex(self.affine(expr.index), expr.dtype)
        if isinstance(expr, Apply):
            return Apply(expr.op, tuple(self.expr(a) for a in expr.args), expr.dtype)
        if isinstance(expr, Cast):
            return Cast(self.expr(expr.arg), expr.dtype)
        assert isinstance(expr, Where)
        when = self.bounds(expr.when)
        if when is None:
            return self.expr(expr.outside)
        if not when:
            return self.expr(expr.inside)
        return Where(when, self.expr(expr.inside), self.expr(expr.outside), expr.dtype)

    def read(self, read: Read) -> Expr:
        when = self.bounds(read.when)
        if when is None:
            return Literal(read.fill, read.dtype)
        return Read(self.buffer(read.buffer), self.index(read.index), read.dtype, when, read.fill)


def walk(statements: Iterable[Stmt]) -> Iterator[Stmt]:
    """All statements, those in loops too."""
    for s in statements:
        yield s
        if isinstance(s, Loop):
            yield from walk(s.body)


def expressions(s: Stmt) -> Iterator[Expr]:
    """The expressions of one statement (not of those inside it), with all their parts."""
    if isinstance(s, (Let, Store, Update, UpdateAt)):
        yield from parts(s.value)
    elif isinstance(s, Check):
        yield from parts(s.index)


def parts(expr: Expr) -> Iterator[Expr]:
    """An expression and all expressions in it."""
    yield expr
    children: tuple[Any, ...] = ()
    if isinstance(expr, Apply):
        children = expr.args
    elif isinstance(expr, Cast):
        children = (expr.arg,)
    elif isinstance(expr, Where):
        children = (expr.inside, expr.outside)
    for child in children:
        yield from parts(child)


def buffers_of(s: Stmt) -> Iterator[str]:
    """The buffers that one statement (not those inside it) reads or writes."""
    if isinstance(s, (Store, UpdateAt, Fill)):
        yield s.buffer
    elif isinstance(s, Call):
        yield from (*s.inputs, *s.outputs)
    for e in expressions(s):
        if isinstance(e, Read):
            yield e.buffer
