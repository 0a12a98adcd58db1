"""Graphs and the programs they are scheduled to, as text; small ones are run as well."""

from __future__ import annotations

import numpy as np
import pytest

from tests.golden_cases import GOLDEN, Case, cases, check
from tests.schedule.graphs import assert_same, scheduled
from tracegrad.ir.dims import symbols
from tracegrad.ir.graph import Graph
from tracegrad.ir.interpret import interpret
from tracegrad.ir.text import parse_graph
from tracegrad.schedule.loops import LoopProgram
from tracegrad.schedule.printer import print_program
from tracegrad.schedule.rewrite import walk

CASES = [case for path in sorted((GOLDEN / "schedule").glob("*.txt")) for case in cases(path)]
PATTERNS = {case.title.partition(":")[0]: case for case in CASES if case.path.stem == "patterns"}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_case(case: Case) -> None:
    graph = parse_graph(case.before)
    program = scheduled(graph)
    check(case, print_program(program))
    if case.path.stem == "cases" and not any(symbols(d) for v in graph.inputs for d in v.type.shape):
        args = random_inputs(graph)
        assert_same(program, args, interpret(graph, args))


def random_inputs(graph: Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    args = []
    for var in graph.inputs:
        if var.type.dtype.kind == "i":
            args.append(rng.integers(-20, 20, var.type.shape))
        else:
            args.append(rng.uniform(0.1, 1, var.type.shape).astype(var.type.dtype))
    return args


def program_of(name: str) -> LoopProgram:
    return scheduled(parse_graph(PATTERNS[name].before))


@pytest.mark.parametrize(
    ("name", "nests", "calls"),
    [
        ("rosenbrock", 1, 0),
        ("black_scholes", 1, 0),
        ("logistic", 1, 0),
        ("layer_norm_gelu", 1, 0),
        ("softmax_rows", 1, 0),
        ("lennard_jones", 2, 0),
        ("gaussian_mixture", 6, 0),
        ("mlp", 3, 5),
    ],
)
def test_number_of_nests(name: str, nests: int, calls: int) -> None:
    kinds = [type(s).__name__ for s in program_of(name).body]
    assert (kinds.count("Loop"), kinds.count("Call")) == (nests, calls)


@pytest.mark.parametrize(
    ("name", "elements"),
    [
        ("rosenbrock", 0),
        ("black_scholes", 0),
        ("logistic", 0),
        ("layer_norm_gelu", 0),
        ("softmax_rows", 0),
        ("lennard_jones", 2 * 300 * 3),
        ("gaussian_mixture", 1000 * 10),
    ],
)
def test_nothing_large_is_stored(name: str, elements: int) -> None:
    stored = sum(int(np.prod(b.shape)) for b in program_of(name).buffers if b.role == "temp" and not b.alias)
    assert stored <= elements


def test_a_matrix_is_read_once() -> None:
    program = program_of("logistic")
    (rows,) = [s for s in program.body if type(s).__name__ == "Loop"]
    # Blocks of rows: a block's products, its scalar work in one loop that vectorises, its part of the gradient.
    assert [s.var for s in walk((rows,)) if type(s).__name__ == "Loop"] == ["ib", "ii", "j", "ii", "ii", "j"]


@pytest.mark.parametrize("name", [name for name in PATTERNS if name != "gaussian_mixture"])  # it scatters
def test_outermost_loops_run_in_parallel(name: str) -> None:
    assert all(s.kind == "parallel" for s in program_of(name).body if type(s).__name__ == "Loop")
