"""From placed statements to a LoopProgram: expressions are written out, with registers, buffers and accumulators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tracegrad.ir.index import Index, variable
from tracegrad.records import record
from tracegrad.schedule.buffers import BufferTable
from tracegrad.schedule.contract import Contraction, Site, Storage, site_of, use_of
from tracegrad.schedule.fuse import Forest
from tracegrad.schedule.identity import identity
from tracegrad.schedule.loops import (
    Apply,
    Bound,
    Call,
    Cast,
    Check,
    Declare,
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
from tracegrad.schedule.maps import substitute, substitute_bound, variable_of
from tracegrad.schedule.statements import CallStatement, Ref, Statement
from tracegrad.schedule.tree import Body, CallItem, Leaf, LoopNode, Place


@record(frozen=False)
class _Level:
    """One body while it is written: its statements so far and the registers defined in it."""

    loop: LoopNode | None
    statements: list[Stmt] = field(default_factory=list)
    registers: dict[Any, Name | Literal] = field(default_factory=dict)


@record
class Nest:
    """A top-level loop or call of the program with the statements that run in it."""

    statement: Stmt
    members: tuple[Statement | CallStatement, ...]


class Assembler:
    """Writes the statements of a forest."""

    def __init__(self, forest: Forest, contraction: Contraction, table: BufferTable):
        self.forest = forest
        self.program = forest.program
        self.contraction = contraction
        self.table = table
        self.levels = [_Level(None)]
        self.members: list[Statement | CallStatement] = []
        self.nests: list[Nest] = []
        self.finished: dict[LoopNode, list[Statement]] = {}
        self.gathered: dict[Statement, tuple[str, ...]] = {}
        self.accumulators: dict[Statement, str] = {}
        for statement, place in forest.places.items():
            if statement in contraction.live and isinstance(statement, Statement) and place.complete < len(place.path):
                self.finished.setdefault(place.path[place.complete], []).append(statement)

    def run(self) -> tuple[Stmt, ...]:
        self.body(self.forest.top)
        return tuple(self.levels[0].statements)

    # ---- bodies and loops -----------------------------------------------------------------------------------------

    def body(self, body: Body) -> None:
        for item in body.ordered():
            if isinstance(item, Leaf):
                if item.statement in self.contraction.live:
                    self.members.append(item.statement)
                    self.statement(item.statement)
            elif isinstance(item, LoopNode):
                self.loop(item)
            else:
                self.call(item)

    def loop(self, loop: LoopNode) -> None:
        depth = len(self.levels) - 1
        if not depth:
            self.members = []
        ending = self.finished.get(loop, [])
        for statement in ending:
            self.start(statement)
        self.levels.append(_Level(loop))
        self.body(loop.body)
        inner = self.levels.pop()
        if inner.statements:
            kind = "serial" if depth or loop.serial else "parallel"
            reduced = tuple(self.accumulators[s] for s in ending) if kind == "parallel" else ()
            written = Loop(self.table.loop_variable(depth), loop.extent, tuple(inner.statements), kind, reduced)
            self.emit(written)
            if not depth:
                self.nests.append(Nest(written, tuple(dict.fromkeys(self.members))))
        for statement in ending:
            self.finish(statement)

    def emit(self, statement: Stmt) -> None:
        self.levels[-1].statements.append(statement)

    def call(self, item: CallItem) -> None:
        call = item.statement
        inputs = tuple(self.table.of(v) for v in call.inputs)
        outputs = tuple(self.table.of(v) for v in call.outputs)
        written = Call(call.kernel, inputs, outputs, call.attrs, call.node.location)
        self.emit(written)
        self.nests.append(Nest(written, (call,)))

    # ---- accumulators ---------------------------------------------------------------------------------------------

    def start(self, statement: Statement) -> None:
        """Set the accumulator of a reduction to the identity, before its outermost reduced loop."""
        place, storage = self.forest.places[statement], self.contraction.storage.get(statement)
        inner = inner_axes(statement, place)
        if not inner:
            name = self.table.scalar(statement.var)
            self.accumulators[statement] = name
            self.emit(Declare(name, statement.combine, statement.expr.dtype))
            return
        assert storage is not None
        if self.needs_own_accumulator(statement, place, storage, inner):
            shape = tuple(statement.var.type.shape[a] for a in inner)
            role = "local" if place.complete else "temp"
            name = self.table.accumulator(statement.var, shape, role)
            self.accumulators[statement] = name
            self.emit(Fill(name, statement.combine))
            return
        name = self.accumulators[statement] = self.table.of(statement.var)
        if self.only_inner(statement, storage, inner):
            self.emit(Fill(name, statement.combine))
        else:
            start = Literal(identity(statement.combine, statement.var.type.dtype), statement.var.type.dtype)
            self.emit(self.over_inner(statement, place, inner, name, start))

    def needs_own_accumulator(
        self, statement: Statement, place: Place, storage: Storage, inner: tuple[int, ...]
    ) -> bool:
        """Whether the few elements that one iteration accumulates are kept in registers of their own."""
        if storage.role == "local" and self.only_inner(statement, storage, inner):
            return False
        return not statement.scatter and all(self.axis_loop(statement, place, a).small for a in inner)

    def only_inner(self, statement: Statement, storage: Storage, inner: tuple[int, ...]) -> bool:
        """Whether the stored array is all that the reduced loops accumulate in; axes of extent 1 do not count."""
        return all(a in inner or variable_of(statement.target[a]) is None for a in storage.axes)

    def axis_loop(self, statement: Statement, place: Place, axis: int) -> LoopNode:
        name = variable_of(statement.target[axis])
        assert name is not None
        return place.binding[name]

    def over_inner(
        self, statement: Statement, place: Place, inner: tuple[int, ...], name: str, value: Literal | None
    ) -> Stmt:
        """Loops over the axes inside the reduced loop that store `value`, or the own accumulator's elements."""
        depth = len(self.levels) - 1
        loops = [
            (self.table.loop_variable(depth + k), self.axis_loop(statement, place, a)) for k, a in enumerate(inner)
        ]
        values: dict[str, Index] = {
            v: variable(self.table.loop_variable(place.path.index(loop))) for v, loop in place.binding.items()
        }
        for axis, (loop_name, _) in zip(inner, loops, strict=True):
            own = variable_of(statement.target[axis])
            assert own is not None
            values[own] = variable(loop_name)
        storage = self.contraction.storage[statement]
        index = tuple(self.index((statement.target[a],), values, ())[0] for a in storage.axes)
        element: Any = value
        if element is None:
            element = Read(
                self.accumulators[statement],
                tuple(variable(loop_name) for loop_name, _ in loops),
                statement.var.type.dtype,
            )
        written: Stmt = Store(name, index, element)
        for loop_name, loop in reversed(loops):
            written = Loop(loop_name, loop.extent, (written,), "serial")
        return written

    def finish(self, statement: Statement) -> None:
        """Make the result of a reduction known after its loop."""
        place, storage = self.forest.places[statement], self.contraction.storage.get(statement)
        name = self.accumulators[statement]
        inner = inner_axes(statement, place)
        if inner:
            if storage is not None and name != self.table.of(statement.var):
                self.emit(self.over_inner(statement, place, inner, self.table.of(statement.var), None))
            return
        register = Name(name, statement.expr.dtype)
        self.levels[-1].registers[statement, own_loops(statement, place)] = register
        if storage is not None:
            values = self.values(place.binding)
            index = self.index(tuple(statement.target[a] for a in storage.axes), values, ())
            self.emit(Store(self.table.of(statement.var), index, register))

    # ---- statements -----------------------------------------------------------------------------------------------

    def statement(self, statement: Statement) -> None:
        place = self.forest.places[statement]
        storage = self.contraction.storage.get(statement)
        site = Site(place.path, place.binding)
        if statement.scatter and not place.path:
            self.emit(Fill(self.table.of(statement.var), statement.combine))
        checked = self.checks(statement, site)
        value = self.expression(statement.expr, site, checked)
        values = self.values(place.binding)
        if statement.base is not None:
            self.update(statement, value, self.index(statement.target, values, checked))
            return
        if statement.combine:
            inner = inner_axes(statement, place)
            if not inner:
                self.emit(Update(self.accumulators[statement], statement.combine, value))
                return
            name = self.accumulators.get(statement, self.table.of(statement.var))
            axes = storage.axes if storage is not None and name == self.table.of(statement.var) else inner
            index = self.index(tuple(statement.target[a] for a in axes), values, checked)
            self.emit(UpdateAt(name, index, statement.combine, value))
            return
        register = self.register(statement, value, len(self.levels) - 1)
        self.levels[-1].registers[statement, own_loops(statement, place)] = register
        if storage is not None:
            index = self.index(tuple(statement.target[a] for a in storage.axes), values, checked)
            self.emit(Store(self.table.of(statement.var), index, register))

    def update(self, statement: Statement, value: Any, index: tuple[Index | Value, ...]) -> None:
        """Change an element of the former value's memory."""
        name = self.table.of(statement.var)
        if statement.combine:
            self.emit(UpdateAt(name, index, statement.combine, value))
        else:
            self.emit(Store(name, index, value))

    def register(self, statement: Statement, value: Any, level: int) -> Name | Literal:
        if isinstance(value, (Name, Literal)):
            return value
        name = self.table.scalar(statement.var)
        self.levels[level].statements.append(Let(name, value))
        return Name(name, value.dtype)

    def checks(self, statement: Statement, site: Site) -> tuple[str, ...]:
        """Check the gathered indices, each in the outermost body that has its loops."""
        names = []
        for lookup in statement.lookups:
            loops = [site.binding[v] for v in lookup.variables]
            level = self.levels[max((site.path.index(loop) + 1 for loop in loops), default=0)]
            index = self.expression(lookup.index, site, ())
            key = index, lookup.extent, lookup.axis, lookup.start, lookup.step
            if key not in level.registers:
                name = self.table.scalar(statement.var, "at")
                location = statement.nodes[-1].location if statement.nodes else None
                level.statements.append(Check(name, *key, location))
                level.registers[key] = Name(name, index.dtype)
            register = level.registers[key]
            assert isinstance(register, Name)
            names.append(register.name)
        return tuple(names)

    # ---- expressions ----------------------------------------------------------------------------------------------

    def values(self, binding: Any) -> dict[str, Index]:
        """The index that each variable of a statement is, in the loops now open."""
        depth = {level.loop: d - 1 for d, level in enumerate(self.levels)}
        return {v: variable(self.table.loop_variable(depth[loop])) for v, loop in binding.items() if loop in depth}

    def index(
        self, index: Sequence[Index | Value], values: dict[str, Index], checked: tuple[str, ...]
    ) -> tuple[Index | Value, ...]:
        return tuple(Value(checked[int(i.name[1:])]) if isinstance(i, Value) else substitute(i, values) for i in index)

    def expression(self, expr: Any, site: Site, checked: tuple[str, ...]) -> Any:
        return self._expression(expr, site, self.values(site.binding), checked)

    def _expression(self, expr: Any, site: Site, values: dict[str, Index], checked: tuple[str, ...]) -> Any:
        kind = type(expr)
        if kind is Ref:
            return self.element(expr, site, values, checked)
        if kind is Apply:
            return Apply(expr.op, tuple(self._expression(a, site, values, checked) for a in expr.args), expr.dtype)
        if kind is Cast:
            return Cast(self._expression(expr.arg, site, values, checked), expr.dtype)
        if kind is FromIndex:
            return FromIndex(substitute(expr.index, values), expr.dtype)
        if kind is Where:
            when = tuple(substitute_bound(b, values) for b in expr.when)
            inside = self._expression(expr.inside, site, values, checked)
            outside = self._expression(expr.outside, site, values, checked)
            return conditional(when, inside, outside, expr.dtype)
        return expr

    def element(self, ref: Ref, site: Site, values: dict[str, Index], checked: tuple[str, ...]) -> Any:
        """A value's element: its register, its buffer, or its expression once more."""
        root = self.program.root(ref.var)
        maker = self.forest.makers.get(root)
        if not isinstance(maker, Statement) or root is not ref.var:
            return Read(self.table.of(ref.var), self.index(ref.index, values, checked), ref.dtype)
        use = use_of(ref, site, self.program.extents)
        key = maker, use.loops
        for level in reversed(self.levels):
            if key in level.registers:
                return level.registers[key]
        storage = self.contraction.storage.get(maker)
        if storage is not None:
            index = self.index(tuple(ref.index[a] for a in storage.axes), values, checked)
            return Read(self.table.of(ref.var), index, ref.dtype)
        again = site_of(maker, use)
        depth = len(again.path)
        inner, self.levels = self.levels[depth + 1 :], self.levels[: depth + 1]
        self.members.append(maker)
        value = self.expression(maker.expr, again, ())
        register = self.register(maker, value, depth)
        self.levels[depth].registers[key] = register
        self.levels += inner
        return register


def conditional(when: tuple[Bound, ...], inside: Any, outside: Any, dtype: np.dtype) -> Any:
    """A predicated read where that is all there is to choose."""
    if isinstance(inside, Read) and isinstance(outside, Literal) and not inside.when:
        return Read(inside.buffer, inside.index, dtype, when, outside.value)
    return Where(when, inside, outside, dtype)


def own_loops(statement: Statement, place: Place) -> tuple[LoopNode | None, ...]:
    """Per axis of the value, the loop that walks it at its own place."""
    names = [variable_of(i) for i in statement.target]
    return tuple(None if n is None else place.binding[n] for n in names)


def inner_axes(statement: Statement, place: Place) -> tuple[int, ...]:
    """The axes of a reduction that its reduced loops enclose, or that are scattered to."""
    outer = place.path[: place.complete]
    return tuple(
        axis
        for axis, i in enumerate(statement.target)
        if isinstance(i, Value) or ((name := variable_of(i)) is not None and place.binding[name] not in outer)
    )
