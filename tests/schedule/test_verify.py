"""The verifier finds each kind of fault, and names the line."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad.errors import VerificationError
from tracegrad.ir.index import Affine, Bound, Quotient, constant, variable
from tracegrad.schedule.loops import (
    Apply,
    Buffer,
    Call,
    Check,
    Declare,
    Fill,
    FromIndex,
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
    Where,
)
from tracegrad.schedule.verify import faults, verify

F = np.dtype(float)
I = np.dtype(np.int64)
i, j = variable("i"), variable("j")
x = Read("x", (i,), F)
BUFFERS = (
    Buffer("x", F, (10,), "input"),
    Buffer("n", I, (10,), "input"),
    Buffer("y", F, (10,), "output"),
    Buffer("t", F, (10,), "temp"),
    Buffer("row", F, (4,), "local"),
)
WRITE_Y = Loop("i", 10, (Store("y", (i,), Literal(0.0, F)),))


def program(*body: Stmt, buffers: tuple[Buffer, ...] = BUFFERS, complete: bool = True) -> LoopProgram:
    return LoopProgram("p", buffers, ("x", "n"), ("y",), (*body, WRITE_Y) if complete else body)


def loop(*body: Stmt, extent: int = 10, kind: str = "serial", reduced: tuple[str, ...] = ()) -> Loop:
    return Loop("i", extent, body, kind, reduced)


def within(bounds: tuple[Bound, ...], offset: int) -> Stmt:
    return loop(Let("a", Read("x", (i + offset,), F, bounds)))


FAULTY: dict[str, tuple[LoopProgram, str]] = {
    "unknown name": (program(loop(Let("a", Name("b", F)))), "b is not defined here"),
    "name of an inner body": (program(loop(Let("a", x)), Let("b", Name("a", F))), "a is not defined here"),
    "defined twice": (program(loop(Let("a", x), Let("a", x))), "a is defined a second time"),
    "let changed": (program(loop(Let("a", x), Update("a", "add", x))), "a is not a declared accumulator"),
    "another operation": (
        program(Declare("a", "add", F), loop(Update("a", "maximum", x))),
        "a accumulates add of float64, not maximum",
    ),
    "accumulator not filled": (program(loop(UpdateAt("t", (i,), "add", x))), "t is accumulated in before it is filled"),
    "shadowed variable": (program(loop(loop(Let("a", x)))), "a loop around this one has the variable i too"),
    "unknown variable": (program(loop(Let("a", Read("x", (j,), F)))), "j is not the variable of a loop around"),
    "too few indices": (program(loop(Let("a", Read("x", (), F)))), "x has 1 dimensions but 0 indices"),
    "below the range": (program(loop(Let("a", Read("x", (i - 1,), F)))), "reaches -1"),
    "above the range": (program(loop(Let("a", Read("x", (i + 1,), F)))), "which has 10 elements, reaches 10"),
    "bound too weak": (program(within((Bound(i * -1 + 9),), 1)), "reaches 10"),
    "quotient not whole": (
        program(loop(Let("a", Read("x", (Quotient(i, 2),), F)))),
        "is not known to be whole here",
    ),
    "wrong branch": (
        program(loop(Let("a", Where((Bound(i - 1),), x, Read("x", (i - 1,), F), F)))),
        "reaches -1",
    ),
    "read before written": (program(loop(Let("a", Read("t", (i,), F)))), "t is read before anything is written"),
    "input written": (program(loop(Store("x", (i,), x))), "x is input and cannot be written"),
    "output not written": (program(complete=False), "the output y is never written"),
    "local outside": (program(Store("row", (constant(0),), Literal(0.0, F))), "used outside all loops"),
    "no such buffer": (program(loop(Let("a", Read("z", (i,), F)))), "there is no buffer z"),
    "wrong dtype": (program(loop(Store("t", (i,), Read("n", (i,), I)))), "a value of dtype int64 goes to t"),
    "dtype of a branch": (
        program(loop(Let("a", Where((Bound(i - 1),), x, Read("n", (i,), I), F)))),
        "a branch has dtype int64",
    ),
    "parallel inside": (program(Loop("j", 3, (loop(Let("a", x), kind="parallel"),))), "stands inside another loop"),
    "not in reduced": (
        program(Declare("a", "add", F), loop(Update("a", "add", x), kind="parallel")),
        "the accumulator a of all iterations is not in `reduced`",
    ),
    "shared element": (
        program(loop(Store("t", (constant(0),), x), kind="parallel")),
        "elements of t that belong to others",
    ),
    "read of a neighbour": (
        program(
            Fill("t", "add"),
            loop(Store("t", (i,), x), Let("a", Read("t", (i - 1,), F, (Bound(i - 1),))), kind="parallel"),
        ),
        "elements of t that belong to others",
    ),
    "reduced and read": (
        program(
            Fill("t", "add"),
            loop(UpdateAt("t", (constant(0),), "add", Read("t", (i,), F)), kind="parallel", reduced=("t",)),
        ),
        "t is read while it is being reduced",
    ),
    "unrolled too far": (program(loop(Let("a", x), kind="unroll")), "a loop of extent 10 cannot be unrolled"),
    "no such kernel": (program(Call("fft", ("x",), ("t",))), "there is no kernel fft"),
    "kernel of two dtypes": (program(Call("cumulative", ("n",), ("t",))), "gets buffers of dtypes float64, int64"),
    "call on a row buffer": (program(Call("host", ("x",), ("row",))), "row is local"),
    "index not checked": (program(loop(Let("a", Read("x", (Value("k"),), F)))), "the index k has not been checked"),
    "check of a float": (program(loop(Check("k", x, 10, 0))), "the index to check is not an integer"),
    "alias of another size": (
        program(buffers=(*BUFFERS, Buffer("v", F, (3,), "temp", None, "t"))),
        "v has not as many elements as t",
    ),
    "constant without a value": (program(buffers=(*BUFFERS, Buffer("c", F, (3,), "constant"))), "has no value"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(FAULTY))
def test_fault(name: str) -> None:
    faulty, message = FAULTY[name]
    found = faults(faulty)
    assert any(message in text for _, text in found), found
    with pytest.raises(VerificationError):
        verify(faulty)


SOUND = {
    "bounds": within((Bound(i * -1 + 8),), 1),
    "both sides": within((Bound(i - 2), Bound(i * -1 + 11)), -2),
    "else branch": loop(Let("a", Where((Bound(i - 1),), Read("x", (i - 1,), F), x, F))),
    "whole quotient": loop(Let("a", Read("x", (Quotient(i, 2),), F, (Bound(i, "%", 2),)))),
    "equality": loop(Let("a", Read("x", (i + 5,), F, (Bound(i - 4, "=="),)))),
    "checked index": loop(Check("k", Read("n", (i,), I), 10, 0), Let("a", Read("x", (Value("k"),), F))),
    "row buffer": loop(Fill("row", "add"), Loop("j", 4, (UpdateAt("row", (j,), "add", x),)), kind="parallel"),
    "position": loop(Let("a", Apply("multiply", (x, FromIndex(Affine((("i", 1),)), F)), F)), kind="parallel"),
}


@pytest.mark.parametrize("name", list(SOUND))
def test_sound(name: str) -> None:
    verify(program(SOUND[name]))


def test_all_faults_stand_under_their_lines() -> None:
    faulty = program(loop(Let("a", Read("x", (i - 1,), F)), Let("b", Name("c", F))))
    with pytest.raises(VerificationError) as caught:
        verify(faulty)
    lines = caught.value.message.splitlines()
    assert lines[0] == "2 faults in the scheduled program:"
    assert [lines[k - 1].strip() for k, text in enumerate(lines) if "^" in text] == ["a = x[i - 1]", "b = c"]
