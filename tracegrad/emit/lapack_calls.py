"""Calls of BLAS and LAPACK, whose routines take addresses."""

from __future__ import annotations

import llvmlite.ir as ir

from tracegrad.emit.llvm import F64, I8, I32, POINTER, VOID, alloca, declare


def call_routine(b: ir.IRBuilder, kind: ir.Type, name: str, *args: ir.Value) -> None:
    """A routine of BLAS or LAPACK for this type of numbers. All arguments are addresses."""
    b.call(declare(b.module, f"tg_{'d' if kind == F64 else 's'}{name}", VOID, [POINTER] * len(args)), args)


def number(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Where an integer lies for a routine to read."""
    slot = alloca(b, I32)
    b.store(b.trunc(value, I32), slot)
    return slot


def letter(b: ir.IRBuilder, value: str) -> ir.Value:
    """The same for a character."""
    slot = alloca(b, I8)
    b.store(ir.Constant(I8, ord(value)), slot)
    return slot
