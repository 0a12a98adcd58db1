"""Innermost loops of typical nests run in vector registers."""

import re

import numpy as np
import pytest
from llvmlite import binding

from tests.emit.programs import B1, F4, F8, I8, at_least, below, lit, loop, name, op, program, read, softmax_rows
from tracegrad.emit import compile_program
from tracegrad.ir.dims import symbol
from tracegrad.ir.index import variable
from tracegrad.schedule.loops import Declare, Store, Update

pytestmark = pytest.mark.skipif(
    not binding.get_process_triple().startswith("x86_64") or not binding.get_host_cpu_features().get("avx2"),
    reason="reads x86 assembly",
)
N, M = symbol("n"), symbol("m")
i, j = variable("i"), variable("j")


def inner_loops(assembly):
    """The instructions of each loop without another inside: from a label to the last jump back to it."""
    lines = [line.strip() for line in assembly.splitlines()]
    labels = {m[1]: k for k, line in enumerate(lines) if (m := re.match(r"(\.?\w+):", line))}
    spans = []
    for k, line in enumerate(lines):
        m = re.match(r"j\w+\s+(\.?\w+)$", line)
        if m and labels.get(m[1], k) < k:
            spans.append((labels[m[1]], k))
    return [lines[a:b] for a, b in spans if not any(a <= c and d <= b and (a, b) != (c, d) for c, d in spans)]


def packed(lines, suffix):
    """How many instructions work on whole vector registers."""
    return sum(bool(re.match(rf"v\w+{suffix}\s", line) and re.search(r"%[yz]mm", line)) for line in lines)


def vectorised(p, suffix="pd", least=2):
    """Whether some innermost loop does its arithmetic in packed instructions, and the number of loops that do."""
    loops = inner_loops(compile_program(p).asm())
    good = [lines for lines in loops if packed(lines, suffix) >= least]
    return len(good)


def elementwise(e, dtype=F8, **inputs):
    inputs = inputs or {"x": (dtype, N)}
    return program(inputs, {"y": (dtype, N)}, loop("i", N, Store("y", (i,), e)), sizes={"n": (0, 0)})


@pytest.mark.parametrize("dtype, suffix", [(F8, "pd"), (F4, "ps")])
def test_axpy_and_sum_of_squares(dtype, suffix):
    x, y = read("x", "i", dtype=dtype), read("z", "i", dtype=dtype)
    axpy = op("add", op("multiply", lit(3, dtype), x, dtype=dtype), y, dtype=dtype)
    assert vectorised(elementwise(axpy, dtype, x=(dtype, N), z=(dtype, N)), suffix, least=1)
    total = program(
        {"x": (dtype, N)},
        {"s": (dtype,)},
        Declare("acc", "add", dtype),
        loop("i", N, Update("acc", "add", op("multiply", x, x, dtype=dtype))),
        Store("s", (), name("acc", dtype)),
        sizes={"n": (0, 0)},
    )
    text = compile_program(total).asm()
    best = max(inner_loops(text), key=lambda lines: packed(lines, suffix))
    sums = {re.search(r"%([yz]mm\d+)$", line)[1] for line in best if re.match(rf"vf?n?m?add\w*{suffix}", line)}
    assert len(sums) >= 4, "several independent accumulators"


@pytest.mark.parametrize("function", ["exp", "log", "tanh", "sin", "sqrt", "erf"])
@pytest.mark.parametrize("dtype, suffix", [(F8, "pd"), (F4, "ps")])
def test_mathematical_functions(function, dtype, suffix):
    assert vectorised(elementwise(op(function, read("x", "i", dtype=dtype), dtype=dtype), dtype), suffix, least=1)


@pytest.mark.parametrize("combine", ["maximum", "minimum"])
@pytest.mark.parametrize("dtype, suffix", [(F8, "pd"), (F4, "ps")])
def test_extremes(combine, dtype, suffix):
    p = program(
        {"x": (dtype, N)},
        {"s": (dtype,)},
        Declare("acc", combine, dtype),
        loop("i", N, Update("acc", combine, read("x", "i", dtype=dtype))),
        Store("s", (), name("acc", dtype)),
        sizes={"n": (0, 0)},
    )
    assert vectorised(p, suffix, least=1)


def test_all_three_loops_of_softmax():
    assert vectorised(softmax_rows(), least=1) >= 3


@pytest.mark.parametrize("extent", [1000, N])
def test_stencil_interior(extent):
    inside = (at_least("i", 1), below("i", extent - 1))
    left, right = read("x", i + (-1), when=inside), read("x", i + 1, when=inside)
    p = program(
        {"x": (F8, extent)},
        {"y": (F8, extent)},
        loop("i", extent, Store("y", (i,), op("subtract", right, op("multiply", left, left)))),
        sizes={"n": (0, 0)} if extent == N else None,
    )
    assert vectorised(p, least=1)


def test_where_and_bool():
    e = op("where", op("less", read("x", "i"), lit(0), dtype=B1), op("multiply", lit(2), read("x", "i")), lit(1))
    assert vectorised(elementwise(e), least=1)
    logic = op("logical_and", read("x", "i", dtype=B1), read("z", "i", dtype=B1), dtype=B1)
    text = compile_program(elementwise(logic, B1, x=(B1, N), z=(B1, N))).asm()
    assert any(re.search(r"%[yz]mm", line) for lines in inner_loops(text) for line in lines)


def test_integers():
    e = op("add", op("multiply", read("x", "i", dtype=I8), lit(3, I8), dtype=I8), lit(1, I8), dtype=I8)
    text = compile_program(elementwise(e, I8)).asm()
    assert any(re.match(r"vp(add|sll|mull)q.*%[yz]mm", line) for lines in inner_loops(text) for line in lines)


def test_long_chains_run_beside_each_other():
    """Where LLVM alone would take one vector at a time; and the elements that remain are right."""
    x = read("x", "i", dtype=F8)
    p = elementwise(
        op("divide", op("exp", x, dtype=F8), op("add", lit(1.0, F8), op("exp", x, dtype=F8), dtype=F8), dtype=F8)
    )
    compiled = compile_program(p)
    divisions = [sum(line.startswith("vdivpd") for line in lines) for lines in inner_loops(compiled.asm())]
    assert max(divisions) == 4
    for n in (1, 31, 33, 300, 333):
        values = np.linspace(-5, 5, n)
        np.testing.assert_allclose(compiled(values)[0], 1 / (1 + np.exp(-values)), rtol=1e-15)


def test_inner_loops_are_found():
    text = "a:\nb:\nadd\njne b\nmul\njne a\nret\nc:\nsub\njmp c\n"
    assert [lines[1] for lines in inner_loops(text)] == ["add", "sub"]
