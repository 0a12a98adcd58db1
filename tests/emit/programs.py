"""Shorthand for writing loop programs by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.ir.dims import DimLike, symbol
from tracegrad.ir.index import Affine, Bound, constant, variable
from tracegrad.schedule.loops import (
    Apply,
    Buffer,
    Declare,
    Expr,
    Let,
    Literal,
    Loop,
    LoopProgram,
    Name,
    Read,
    Stmt,
    Store,
    Update,
    Value,
)  # fmt: skip

F8, F4, I8, B1 = np.dtype("f8"), np.dtype("f4"), np.dtype("i8"), np.dtype("?")


def affine(index: str | int | Affine) -> Affine:
    return index if isinstance(index, Affine) else variable(index) if isinstance(index, str) else constant(index)


def indices(*index: str | int | Affine | Value) -> tuple[Affine | Value, ...]:
    return tuple(i if isinstance(i, Value) else affine(i) for i in index)


def read(buffer: str, *index: Any, dtype: np.dtype = F8, when: tuple[Bound, ...] = (), fill: Any = 0) -> Read:
    return Read(buffer, indices(*index), dtype, when, fill)


def at_least(low: Affine | str, value: DimLike = 0) -> Bound:
    """`low >= value`."""
    return Bound(affine(low) - value)


def below(high: Affine | str, value: DimLike) -> Bound:
    """`high < value`."""
    return Bound(affine(high) * -1 + value + (-1))


def op(name: str, *args: Expr, dtype: np.dtype = F8) -> Apply:
    return Apply(name, args, dtype)


def lit(value: Any, dtype: np.dtype = F8) -> Literal:
    return Literal(value, dtype)


def name(text: str, dtype: np.dtype = F8) -> Name:
    return Name(text, dtype)


def loop(var: str, extent: DimLike, *body: Stmt, kind: str = "serial", reduced: tuple[str, ...] = ()) -> Loop:
    return Loop(var, extent, body, kind, reduced)


def program(
    inputs: dict[str, tuple],
    outputs: dict[str, tuple],
    *body: Stmt,
    others: tuple[Buffer, ...] = (),
    sizes: dict[str, tuple[int, int]] | None = None,
    returns: tuple[str, ...] | None = None,
    title: str = "program",
) -> LoopProgram:
    """Buffers are given as name: (dtype, *dims)."""
    buffers = [Buffer(n, np.dtype(d), tuple(s), "input") for n, (d, *s) in inputs.items()]
    buffers += [Buffer(n, np.dtype(d), tuple(s), "output") for n, (d, *s) in outputs.items()]
    names = tuple(outputs) if returns is None else returns
    return LoopProgram(title, (*buffers, *others), tuple(inputs), names, body, sizes or {})


def softmax_rows() -> LoopProgram:
    """The softmax of each row: a maximum, a sum of exponentials in a row buffer, and quotients."""
    n, m, i, j = symbol("n"), symbol("m"), variable("i"), variable("j")
    return program(
        {"x": (F8, n, m)},
        {"y": (F8, n, m)},
        loop(
            "i",
            n,
            Declare("top", "maximum", F8),
            loop("j", m, Update("top", "maximum", read("x", "i", "j"))),
            Declare("total", "add", F8),
            loop(
                "j",
                m,
                Let("e", op("exp", op("subtract", read("x", "i", "j"), name("top")))),
                Store("row", (j,), name("e")),
                Update("total", "add", name("e")),
            ),
            loop("j", m, Store("y", (i, j), op("divide", read("row", "j"), name("total")))),
        ),
        others=(Buffer("row", F8, (m,), "local"),),
        sizes={"n": (0, 0), "m": (0, 1)},
    )
