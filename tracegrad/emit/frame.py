"""One LLVM function under construction, and scalar expressions in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import TypeAlias

import llvmlite.ir as ir
import numpy as np

from tracegrad.emit.captures import Captures, captures
from tracegrad.emit.casts import cast
from tracegrad.emit.layout import ERROR
from tracegrad.emit.llvm import I8, I64, alloca, choose, constant, element, i64, memory_type, store_word
from tracegrad.emit.reductions import Accumulator, SumPlan, plan_sums
from tracegrad.emit.scalars import apply
from tracegrad.emit.sizes import Sizes
from tracegrad.ir.index import Affine, Bound, Index
from tracegrad.records import record
from tracegrad.schedule.loops import (
    Apply,
    Buffer,
    Call,
    Cast,
    Check,
    Expr,
    FromIndex,
    Literal,
    LoopProgram,
    Name,
    Read,
    Stmt,
    Value,
    Where,
)

Make: TypeAlias = Callable[[], ir.Value]


@record(frozen=False)
class Unit:
    """What the functions of one program share."""

    program: LoopProgram
    module: ir.Module
    stem: str
    sums: SumPlan
    symbols: dict[str, int]
    buffers: dict[str, Buffer] = field(init=False)
    checks: list[Check] = field(default_factory=list)
    calls: list[HostSite] = field(default_factory=list)
    constants: list[np.ndarray] = field(default_factory=list)  # those the context has to hold
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    inside: bool = False  # of a loop or branch
    _captures: dict[int, Captures] = field(default_factory=dict)
    _bodies: dict[int, Unit] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.buffers = {b.name: b for b in self.program.buffers}

    def captures(self, statement: Stmt) -> Captures:
        """What a statement uses of its surroundings, found once."""
        if id(statement) not in self._captures:
            self._captures[id(statement)] = captures((statement,))
        return self._captures[id(statement)]

    def root(self, name: str) -> str:
        """The buffer whose memory `name` is: itself, if it is no alias."""
        return self.buffers[name].alias or name

    def body(self, program: LoopProgram, symbols: dict[str, int] | None = None) -> Unit:
        """The unit of a loop's or branch's body: its own buffers in the same module."""
        found = self._bodies.get(id(program))
        if found is None:
            found = self._bodies[id(program)] = Unit(
                program, self.module, self.stem, plan_sums(program.body), symbols or self.symbols, self.checks,
                self.calls, self.constants, self.numbers, True,
            )  # fmt: skip
        return found

    def function(self, kind: str, result: ir.Type, args: list[ir.Type]) -> ir.Function:
        """A new function of this program's module, visible in it alone."""
        name = f"{self.stem}_{kind}{next(self.numbers)}"
        made = ir.Function(self.module, ir.FunctionType(result, args), name)
        made.linkage = "internal"
        return made


@record
class HostSite:
    """One call into Python: the buffers it is given and gives, and where the symbols of their sizes stand."""

    call: Call
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    symbols: Mapping[str, int]


class Frame:
    """The names that are known at the builder's position. Scalars are (value, dtype)."""

    def __init__(self, unit: Unit, builder: ir.IRBuilder, context: ir.Value, error: ir.Value, table: ir.Value):
        self.unit, self.builder = unit, builder
        self.context, self.error, self.table = context, error, table
        self.sizes = Sizes(builder, table, unit.symbols)
        self.pointers: dict[str, ir.Value] = {}  # of buffers that own their memory
        self.partials: dict[tuple[int, str], ir.Value] = {}
        self.scalars: dict[str, tuple[ir.Value, np.dtype]] = {}
        self.accumulators: dict[str, Accumulator] = {}
        self.variables: dict[str, ir.Value] = {}
        self.known: dict[Bound, bool] = {}
        self.splitting = True

    # ---- scopes

    @contextmanager
    def scope(self, known: Mapping[Bound, bool] | None = None) -> Iterator[None]:
        """Names defined inside end with the with-block."""
        saved = self.scalars, self.accumulators, self.variables, self.known, self.splitting
        self.scalars, self.accumulators, self.variables = dict(saved[0]), dict(saved[1]), dict(saved[2])
        if known:
            self.known = {**self.known, **known}
        yield
        self.scalars, self.accumulators, self.variables, self.known, self.splitting = saved

    def stop(self, status: ir.Value) -> None:
        """Leave the function with `status`. The block is finished."""
        self.builder.ret(status)

    def stop_unless(self, condition: ir.Value, status: int, check: ir.Value, value: ir.Value, extent: ir.Value) -> None:
        """Leave with an error record where `condition` does not hold."""
        with self.builder.if_then(self.builder.not_(condition), likely=False):
            for word, position in ((check, ERROR.check), (value, ERROR.value), (extent, ERROR.extent)):
                store_word(self.builder, word, self.error, position)
            self.stop(i64(status))

    # ---- indices and bounds

    def pointer(self, name: str) -> ir.Value:
        """Where a buffer starts."""
        return self.pointers[self.unit.root(name)]

    def affine(self, affine: Affine) -> ir.Value:
        b = self.builder
        total = self.sizes.value(affine.offset)
        for name, coefficient in affine.terms:
            term = self.variables[name]
            if coefficient != 1:
                term = b.mul(term, self.sizes.value(coefficient), flags=("nsw",))
            zero = isinstance(total, ir.Constant) and total.constant == 0
            total = term if zero else b.add(total, term, flags=("nsw",))
        return total

    def index(self, index: Index | Value) -> ir.Value:
        if isinstance(index, Affine):
            return self.affine(index)
        if isinstance(index, Value):
            value, dtype = self.scalar(index.name)
            return cast(self.builder, value, dtype, np.dtype("i8"))
        return self.builder.sdiv(self.affine(index.affine), i64(index.divisor))

    def address(self, name: str, index: Sequence[Index | Value]) -> ir.Value:
        """Where element `index` of a buffer lies."""
        b = self.builder
        buffer = self.unit.buffers[name]
        offset: ir.Value = i64(0)
        for position, dim in zip(index, buffer.shape):
            if not isinstance(offset, ir.Constant) or offset.constant != 0:
                offset = b.mul(offset, self.sizes.value(dim), flags=("nsw",))
                offset = b.add(offset, self.index(position), flags=("nsw",))
            else:
                offset = self.index(position)
        return element(b, self.pointer(name), offset, memory_type(buffer.dtype))

    def load(self, name: str, index: Sequence[Index | Value]) -> ir.Value:
        dtype = self.unit.buffers[name].dtype
        value = self.builder.load(self.address(name, index), typ=memory_type(dtype))
        return self.builder.icmp_unsigned("!=", value, ir.Constant(I8, 0)) if dtype.kind == "b" else value

    def store(self, value: ir.Value, name: str, index: Sequence[Index | Value]) -> None:
        if self.unit.buffers[name].dtype.kind == "b":
            value = self.builder.zext(value, I8)
        self.builder.store(value, self.address(name, index))

    def holds(self, bounds: Iterable[Bound]) -> ir.Value | bool:
        """Whether every bound holds: True or False where that is known here, else a condition."""
        condition: ir.Value | None = None
        for bound in bounds:
            known = self.known.get(bound)
            if known is False:
                return False
            if known is None:
                test = self._bound(bound)
                condition = test if condition is None else self.builder.and_(condition, test)
        if condition is None:
            return True
        return condition

    def _bound(self, bound: Bound) -> ir.Value:
        value = self.affine(bound.affine)
        if bound.relation == "%":
            value = self.builder.srem(value, i64(bound.modulus))
        return self.builder.icmp_signed(">=" if bound.relation == ">=" else "==", value, i64(0))

    # ---- expressions

    def scalar(self, name: str) -> tuple[ir.Value, np.dtype]:
        """A scalar's value, or an accumulator's present one, and its dtype."""
        if name in self.accumulators:
            accumulator = self.accumulators[name]
            return accumulator.value(), accumulator.dtype
        return self.scalars[name]

    def expression(self, e: Expr) -> ir.Value:
        if isinstance(e, Literal):
            return constant(e.dtype, e.value)
        if isinstance(e, Name):
            return self.scalar(e.name)[0]
        if isinstance(e, Read):
            return self._guarded(e.when, lambda: self.load(e.buffer, e.index), lambda: constant(e.dtype, e.fill))
        if isinstance(e, FromIndex):
            return cast(self.builder, self.index(e.index), np.dtype("i8"), e.dtype)
        if isinstance(e, Cast):
            return cast(self.builder, self.expression(e.arg), e.arg.dtype, e.dtype)
        if isinstance(e, Where):
            return self._guarded(e.when, lambda: self.expression(e.inside), lambda: self.expression(e.outside))
        assert isinstance(e, Apply)
        operand = e.args[-1].dtype if e.op == "where" else e.args[0].dtype
        return apply(self.builder, e.op, [self.expression(a) for a in e.args], operand, e.dtype)

    def _guarded(self, when: Sequence[Bound], inside: Make, outside: Make) -> ir.Value:
        condition = self.holds(when)
        if condition is True:
            return inside()
        if condition is False:
            return outside()
        return choose(self.builder, condition, inside, outside)


class ExitFrame(Frame):
    """The frame of a function that has to clean up: it leaves through the block `exit`, with `status`."""

    def __init__(self, unit: Unit, builder: ir.IRBuilder, *args: ir.Value):
        super().__init__(unit, builder, *args)
        self.status = alloca(builder, I64)
        self.exit = builder.function.append_basic_block("exit")

    def stop(self, status: ir.Value) -> None:
        self.builder.store(status, self.status)
        self.builder.branch(self.exit)
