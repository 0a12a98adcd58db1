"""What is said about each nest."""

from __future__ import annotations

from tests.schedule.graphs import GraphBuilder
from tracegrad.ir.dims import symbol
from tracegrad.schedule import schedule_with_report


def test_bytes_flops_and_nodes_of_a_nest() -> None:
    f = GraphBuilder()
    x, y = f.input((100,)), f.input((100,))
    z = f("multiply", f("add", x, y), x)
    graph = f.graph(z, f.sum(z))
    _, (nest,) = schedule_with_report(graph)
    assert nest.kind == "parallel"
    assert {node.name for node in nest.nodes} == {"add", "multiply", "sum"}
    assert (nest.bytes_read, nest.bytes_written, nest.flops) == (2 * 800, 800, 300)


def test_row_buffers_do_not_count_as_memory() -> None:
    f = GraphBuilder()
    x = f.input((50, 60))
    e = f("exp", x)
    _, (nest,) = schedule_with_report(f.graph(f("divide", e, f.sum(e, 1, True))))
    assert (nest.bytes_read, nest.bytes_written) == (50 * 60 * 8, 50 * 60 * 8)


def test_figures_of_symbolic_sizes_are_polynomials() -> None:
    n, m = symbol("n"), symbol("m")
    f = GraphBuilder()
    x = f.input((n, m))
    _, (nest,) = schedule_with_report(f.graph(f("add", x, x)))
    assert (nest.bytes_read, nest.bytes_written, nest.flops) == (n * m * 8, n * m * 8, n * m)


def test_calls_are_nests() -> None:
    f = GraphBuilder()
    a, b = f.input((30, 40)), f.input((40, 50))
    _, reports = schedule_with_report(f.graph(f("exp", f("matmul", a, b))))
    assert [r.kind for r in reports] == ["matmul", "parallel"]
    assert reports[0].flops == 2 * 30 * 40 * 50
    assert reports[0].stored == reports[0].stored[:1]
