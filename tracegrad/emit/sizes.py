"""Dimensions as i64 values: integers are constants, symbols are read from the table of sizes, the rest is computed."""

from __future__ import annotations

from contextlib import nullcontext

import llvmlite.ir as ir

from tracegrad.emit.llvm import i64, load_word
from tracegrad.ir.dims import Dim, DimLike
from tracegrad.ir.dims import floordiv as floordiv_dims

_FLAGS = ("nsw",)  # a product of sizes that overflows belongs to no array that fits in memory


class Sizes:
    """The sizes one LLVM function works with. Values are computed once, in its entry block."""

    def __init__(self, builder: ir.IRBuilder, table: ir.Value, symbols: dict[str, int], in_entry_block: bool = True):
        self._builder, self._table, self._symbols = builder, table, symbols
        self._where = builder.goto_entry_block if in_entry_block else nullcontext
        self._known: dict[DimLike, ir.Value] = {}

    def value(self, dim: DimLike) -> ir.Value:
        if isinstance(dim, int):
            return i64(dim)
        if dim not in self._known:
            with self._where():
                self._here(dim)
        return self._known[dim]

    def _here(self, dim: DimLike) -> ir.Value:
        """The value of `dim`, computed at the builder's position in the entry block."""
        if isinstance(dim, int):
            return i64(dim)
        if dim not in self._known:
            self._known[dim] = self._compute(dim)
        return self._known[dim]

    def _compute(self, dim: Dim) -> ir.Value:
        b = self._builder
        total: ir.Value | None = None
        for monomial, coefficient in dim.terms:
            product: ir.Value | None = None
            for atom in monomial:
                factor = self._symbol(atom) if isinstance(atom, str) else self._quotient(*atom)
                product = factor if product is None else b.mul(product, factor, flags=_FLAGS)
            if product is None:
                product = i64(coefficient)
            elif coefficient != 1:
                product = b.mul(product, i64(coefficient), flags=_FLAGS)
            total = product if total is None else b.add(total, product, flags=_FLAGS)
        return i64(0) if total is None else total

    def _symbol(self, name: str) -> ir.Value:
        key = Dim((((name,), 1),))
        if key not in self._known:
            self._known[key] = load_word(self._builder, self._table, self._symbols[name])
        return self._known[key]

    def _quotient(self, a: DimLike, b: DimLike) -> ir.Value:
        key = floordiv_dims(a, b)
        if key not in self._known:
            self._known[key] = floordiv(self._builder, self._here(a), self._here(b))
        return self._known[key]


def floordiv(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """a // b rounded down; 0 for b = 0, which no size that is used has."""
    zero = i64(0)
    divisor = builder.select(builder.icmp_signed("==", b, zero), i64(1), b)
    quotient = builder.sdiv(a, divisor)
    rest = builder.sub(a, builder.mul(quotient, divisor))
    below = builder.icmp_signed("<", builder.xor(rest, divisor), zero)
    inexact = builder.icmp_signed("!=", rest, zero)
    return builder.select(builder.and_(below, inexact), builder.sub(quotient, i64(1)), quotient)
