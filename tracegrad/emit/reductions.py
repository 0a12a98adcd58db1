"""Accumulators: identities, how two values combine, and sums that are as accurate as pairwise ones.

A sum is built in blocks of a few hundred elements, in which LLVM may order the additions as it likes (so that they
run in vector registers); block sums are then added without loss that matters: float32 blocks into a float64, float64
blocks by two-sum (Knuth, TAOCP vol. 2, 4.2.2), which carries the rounding error along. `plan_sums` decides where
blocks end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

import llvmlite.ir as ir
import numpy as np

from tracegrad.emit.llvm import F64, I1, SUM, alloca, constant, intrinsic, load_word, store_word, value_type
from tracegrad.records import record
from tracegrad.schedule.loops import Check, Declare, Loop, Stmt, Update

BLOCK = 512  # in vector registers, of 16 to 64 partial sums each
SCALAR_BLOCK = 64  # where there is only one


def identity(combine: str, dtype: np.dtype) -> ir.Constant:
    """The value that leaves the other operand of `combine` as it is."""
    if combine in ("add", "logical_or"):
        return constant(dtype, 0)
    if combine in ("multiply", "logical_and"):
        return constant(dtype, 1)
    if combine not in ("maximum", "minimum"):
        raise ValueError(f"no accumulator for {combine!r}")
    if dtype.kind == "f":
        return constant(dtype, -np.inf if combine == "maximum" else np.inf)
    if dtype.kind == "b":
        return constant(dtype, combine == "minimum")
    limits = np.iinfo(dtype)
    return constant(dtype, limits.min if combine == "maximum" else limits.max)


def combine_values(builder: ir.IRBuilder, combine: str, dtype: np.dtype, a: ir.Value, b: ir.Value) -> ir.Value:
    """One step of a reduction. NaN wins in float maxima and minima."""
    if dtype.kind == "b":
        return builder.or_(a, b) if combine in ("add", "maximum", "logical_or") else builder.and_(a, b)
    if dtype.kind == "f":
        if combine == "add":
            return builder.fadd(a, b, flags=SUM)
        if combine == "multiply":
            return builder.fmul(a, b, flags=SUM)
        return intrinsic(builder, f"llvm.{combine}", a, b)
    if combine in ("add", "multiply"):
        return builder.add(a, b) if combine == "add" else builder.mul(a, b)
    kind = "s" if dtype.kind == "i" else "u"
    return intrinsic(builder, f"llvm.{kind}{combine[:3]}", a, b)


class Accumulator:
    """A scalar accumulator in registers. Its *state* is what crosses function boundaries: two 8-byte words.

    Float maxima and minima remember apart whether a NaN came, which leaves them one instruction per vector; what they
    hold besides is then poison, which `value` never lets through.
    """

    def __init__(self, builder: ir.IRBuilder, combine: str, dtype: np.dtype, compensated: bool):
        self.builder, self.combine, self.dtype, self.compensated = builder, combine, dtype, compensated
        self.type = value_type(dtype)
        self._current = alloca(builder, self.type)
        self._total = alloca(builder, F64) if compensated else None
        self._error = alloca(builder, F64) if compensated and dtype.itemsize == 8 else None
        extreme = combine in ("maximum", "minimum") and dtype.kind == "f"
        self._nan = alloca(builder, I1) if extreme else None

    def start(self) -> None:
        """Set to the identity."""
        self.builder.store(identity(self.combine, self.dtype), self._current)
        for slot in (self._total, self._error):
            if slot is not None:
                self.builder.store(ir.Constant(F64, 0.0), slot)
        if self._nan is not None:
            self.builder.store(ir.Constant(I1, 0), self._nan)

    def update(self, value: ir.Value) -> None:
        b = self.builder
        before = b.load(self._current, typ=self.type)
        if self._nan is None:
            b.store(combine_values(b, self.combine, self.dtype, before, value), self._current)
            return
        b.store(b.or_(b.load(self._nan, typ=I1), b.fcmp_unordered("uno", value, value)), self._nan)
        kind = ir.FunctionType(self.type, [self.type, self.type])
        function = b.module.declare_intrinsic(f"llvm.{self.combine[:3]}num", [self.type], kind)
        b.store(b.call(function, [before, value], fastmath=("nnan", "nsz")), self._current)

    def flush(self) -> None:
        """End a block: move its sum to the total."""
        if self._total is None:
            return
        block = self.builder.load(self._current, typ=self.type)
        self.builder.store(ir.Constant(self.type, 0.0), self._current)
        self._add(block if self.type == F64 else self.builder.fpext(block, F64))

    def _add(self, value: ir.Value) -> None:
        b = self.builder
        total = b.load(self._total, typ=F64)
        new = b.fadd(total, value)
        b.store(new, self._total)
        if self._error is not None:
            back = b.fsub(new, total)
            lost = b.fadd(b.fsub(total, b.fsub(new, back)), b.fsub(value, back))
            b.store(b.fadd(b.load(self._error, typ=F64), lost), self._error)

    def value(self) -> ir.Value:
        """The present value."""
        b = self.builder
        current = b.load(self._current, typ=self.type)
        if self._nan is not None:
            return b.select(b.load(self._nan, typ=I1), ir.Constant(self.type, math.nan), current)
        if self._total is None:
            return current
        total = b.load(self._total, typ=F64)
        if self._error is None:
            return b.fptrunc(b.fadd(total, b.fpext(current, F64)), self.type)
        rest = b.fadd(current, b.load(self._error, typ=F64))
        whole = b.fadd(total, rest)
        # once the total is infinite its rounding error is NaN and means nothing; NaN in `current` must come through
        finite = b.fcmp_ordered("==", b.fsub(total, total), ir.Constant(F64, 0.0))
        return b.select(finite, whole, b.fadd(total, current))

    def store_start(self, b: ir.IRBuilder, state: ir.Value) -> None:
        """The state of an accumulator that has just started, without one."""
        if self._total is None:
            b.store(identity(self.combine, self.dtype), state)
            return
        for word in (0, 1):
            store_word(b, ir.Constant(F64, 0.0), state, word)

    def store_state(self, state: ir.Value) -> None:
        self.flush()
        b = self.builder
        if self._total is None:
            b.store(self.value(), state)
            return
        store_word(b, b.load(self._total, typ=F64), state, 0)
        store_word(b, b.load(self._error, typ=F64) if self._error is not None else ir.Constant(F64, 0.0), state, 1)

    def load_state(self, state: ir.Value) -> None:
        b = self.builder
        if self._nan is not None:
            self.start()
            self.update(b.load(state, typ=self.type))
            return
        if self._total is None:
            b.store(b.load(state, typ=self.type), self._current)
            return
        b.store(ir.Constant(self.type, 0.0), self._current)
        b.store(load_word(b, state, 0, F64), self._total)
        if self._error is not None:
            b.store(load_word(b, state, 1, F64), self._error)

    def merge_state(self, state: ir.Value) -> None:
        """Combine with another accumulator's state. No block may be open: `flush` first."""
        b = self.builder
        if self._total is None:
            self.update(b.load(state, typ=self.type))
            return
        self._add(load_word(b, state, 0, F64))
        if self._error is not None:
            error = b.load(self._error, typ=F64)
            b.store(b.fadd(error, load_word(b, state, 1, F64)), self._error)


@record(frozen=False)
class SumPlan:
    """Where sums are cut into blocks: by Loop, the length of a strip and the accumulators that end a block after it,
    and those (`open`) that begin and end with it, whose last block stays open: a short sum is only that.

    Keys are the identities of statements, which live as long as the program they belong to.
    """

    strips: dict[int, int] = field(default_factory=dict)
    flushes: dict[int, list[str]] = field(default_factory=dict)
    open: dict[int, list[str]] = field(default_factory=dict)
    compensated: set[int] = field(default_factory=set)


def plan_sums(body: Sequence[Stmt]) -> SumPlan:
    """For each float sum: the innermost loop around its Update in which more than BLOCK elements come together.

    Sums of at most BLOCK elements need nothing.
    """
    plan = SumPlan()
    _plan(body, [], {}, plan)
    return plan


def _plan(body: Sequence[Stmt], loops: list[Loop], scope: dict[str, tuple[int, int]], plan: SumPlan) -> None:
    scope = dict(scope)
    for statement in body:
        if isinstance(statement, Declare) and statement.combine == "add" and statement.dtype.kind == "f":
            scope[statement.name] = (id(statement), len(loops))
        elif isinstance(statement, Update) and statement.name in scope:
            declaration, depth = scope[statement.name]
            _plan_update(statement.name, declaration, loops[depth:], plan)
        elif isinstance(statement, Loop):
            _plan(statement.body, [*loops, statement], scope, plan)


def _plan_update(name: str, declaration: int, loops: list[Loop], plan: SumPlan) -> None:
    inside = 1
    for loop in reversed(loops):
        if isinstance(loop.extent, int) and (loop.kind == "unroll" or inside * loop.extent <= BLOCK):
            inside *= loop.extent
            continue
        vectorised = inside == 1 and not any(isinstance(s, Check) for s in loop.body)
        strip = max(1, (BLOCK if vectorised else SCALAR_BLOCK) // max(inside, 1))
        plan.strips[id(loop)] = min(strip, plan.strips.get(id(loop), strip))
        flushed = plan.flushes.setdefault(id(loop), [])
        if name not in flushed:
            flushed.append(name)
            if len(loops) == 1:
                plan.open.setdefault(id(loop), []).append(name)
        plan.compensated.add(declaration)
        return


__all__ = ["BLOCK", "Accumulator", "SumPlan", "combine_values", "identity", "plan_sums"]
