"""What a nest uses of its surroundings: the arguments of the function it becomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracegrad.records import record
from tracegrad.schedule.loops import (
    Apply,
    Call,
    Cast,
    Check,
    Declare,
    Expr,
    Fill,
    Let,
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


@record
class Captures:
    """Names in order of appearance: buffers touched, outer scalars read, outer accumulators updated."""

    buffers: tuple[str, ...]
    scalars: tuple[str, ...]
    updated: tuple[str, ...]


def captures(body: Sequence[Stmt]) -> Captures:
    """What the statements of `body` use and do not define."""
    buffers: dict[str, None] = {}
    used: dict[str, None] = {}
    updated: dict[str, None] = {}
    defined: set[str] = set()
    for statement in walk(body):
        if isinstance(statement, (Let, Declare, Check)):
            defined.add(statement.name)
        if isinstance(statement, (Store, UpdateAt, Fill)):
            buffers[statement.buffer] = None
        if isinstance(statement, (Store, UpdateAt)):
            used.update((i.name, None) for i in statement.index if isinstance(i, Value))
        if isinstance(statement, Call):
            buffers.update(dict.fromkeys((*statement.inputs, *statement.outputs)))
        if isinstance(statement, Update):
            updated[statement.name] = None
        for expression in expressions(statement):
            if isinstance(expression, Read):
                buffers[expression.buffer] = None
                used.update((i.name, None) for i in expression.index if isinstance(i, Value))
            elif isinstance(expression, Name):
                used[expression.name] = None
    outer = tuple(n for n in updated if n not in defined)
    return Captures(tuple(buffers), tuple(n for n in used if n not in defined and n not in outer), outer)


def walk(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """Every statement, those of loops after the loop itself."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from walk(statement.body)


def expressions(statement: Stmt) -> Iterator[Expr]:
    """Every expression of one statement, and of those their parts."""
    if isinstance(statement, (Let, Store, Update, UpdateAt)):
        yield from parts(statement.value)
    elif isinstance(statement, Check):
        yield from parts(statement.index)


def parts(e: Expr) -> Iterator[Expr]:
    """An expression and everything inside it."""
    pending = [e]
    while pending:
        e = pending.pop()
        yield e
        if isinstance(e, Apply):
            pending += reversed(e.args)
        elif isinstance(e, Cast):
            pending.append(e.arg)
        elif isinstance(e, Where):
            pending += (e.outside, e.inside)
