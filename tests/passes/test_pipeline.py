"""The wrapper of passes: what it times, verifies, dumps and leaves out; and what no pass may touch."""

import numpy as np
import pytest

from tracegrad.errors import VerificationError
from tracegrad.function import Function
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.text import parse_graph
from tracegrad.ir.types import Type
from tracegrad.passes.cse import cse
from tracegrad.passes.dce import dce
from tracegrad.passes.fold import fold
from tracegrad.passes.pipeline import PIPELINE, optimize
from tracegrad.passes.simplify import simplify

TEXT = """
graph f(%x: f64[3]) -> (%d) {
  %one: f64*[] = constant() {value=f64[]<1.0>, weak=True}
  %a: f64[3] = multiply(%x, %one)
  %b: f64[3] = multiply(%x, %x)
  %c: f64[3] = multiply(%a, %x)
  %d: f64[3] = add(%b, %c)
}
"""


def test_passes_work_together():
    """a is x, so c is b: simplify has to come before cse sees it, and simplify again before b is square(x) once."""
    graph = optimize(parse_graph(TEXT))
    assert [node.name for node in graph.nodes] == ["square", "add"]
    assert graph.nodes[1].inputs[0] is graph.nodes[1].inputs[1]


def test_timings_are_summed_by_name():
    timings = {}
    optimize(parse_graph(TEXT), timings=timings)
    assert set(timings) == {function.__name__ for function in PIPELINE}
    assert all(seconds >= 0 for seconds in timings.values())


def test_a_pass_that_breaks_a_graph_is_named(monkeypatch):
    def breaks(graph):
        return Graph(graph.inputs, graph.nodes[1:], graph.outputs, graph.name)

    monkeypatch.setenv("TRACEGRAD_VERIFY", "1")
    with pytest.raises(VerificationError, match="in the graph after breaks") as caught:
        optimize(parse_graph(TEXT), [dce, breaks])
    assert "^ reads %one: f64*[], which is not defined before it" in caught.value.message
    monkeypatch.setenv("TRACEGRAD_VERIFY", "0")
    optimize(parse_graph(TEXT), [dce, breaks])


def test_a_wrong_trace_is_found_before_the_first_pass(monkeypatch):
    monkeypatch.setenv("TRACEGRAD_VERIFY", "1")
    with pytest.raises(VerificationError, match="a fault in the graph:"):
        optimize(parse_graph(TEXT.replace("%d: f64[3]", "%d: f64[4]")), [])


def test_dumps(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TRACEGRAD_DUMP", str(tmp_path / "dump"))
    graph = optimize(parse_graph(TEXT.replace("graph f", "graph 'a<b>'")), [dce, simplify, cse, simplify, dce])
    files = sorted((tmp_path / "dump").iterdir())
    assert files[0].name == "a_b_.00.traced.txt"
    assert files[-1].name == "a_b_.05.dce.txt"
    assert "a_b_.01.dce.txt" not in [file.name for file in files]  # it changed nothing
    assert files[-1].read_text() == str(graph)
    monkeypatch.setenv("TRACEGRAD_DUMP", "-")
    optimize(parse_graph(TEXT), [simplify])
    assert "# f.01.simplify\ngraph f(" in capsys.readouterr().err


def test_a_pass_is_not_repeated_on_its_own_result():
    seen = []

    def counted(graph):
        seen.append(graph)
        return graph

    optimize(parse_graph(TEXT), [counted, counted, dce, counted])
    assert len(seen) == 1


class Impure(Function):
    """Not an operation and without a body: a call into Python."""


def test_calls_into_python_stay_as_often_as_they_are():
    x, a, b, c = (Var(Type(np.dtype(float)), name) for name in ("x", "a", "b", "c"))
    nodes = (Node(Impure, (x,), (a,)), Node(Impure, (x,), (b,)), Node(Impure, (x,), (c,)))
    graph = Graph((x,), nodes, (a, b))
    for function in (dce, cse, fold, simplify):
        assert function(graph).nodes == nodes


def test_a_function_with_a_body_is_as_pure_as_its_body():
    x, a, u, v = (Var(Type(np.dtype(float)), name) for name in ("x", "a", "u", "v"))

    class Traced(Function):
        pass

    def graph(op):
        body = Graph((u,), (Node(op, (u,), (v,)),), (v,), "body")
        return Graph((x,), (Node(Traced, (x,), (a,), bodies=(body,)),), (x,))

    from tracegrad.ops.arithmetic import Neg

    assert not dce(graph(Neg)).nodes
    assert len(dce(graph(Impure)).nodes) == 1


def test_folding_leaves_what_raises_to_run_time():
    graph = parse_graph(
        """
        graph f() -> (%y) {
          %x: f64[2] = constant() {value=f64[2]<1.0, 2.0>, weak=False}
          %i: i64[1] = constant() {value=i64[1]<5>, weak=False}
          %y: f64[1] = gather(%x, %i)
        }
        """
    )
    assert fold(graph) is graph


def test_folding_is_silent():
    import warnings

    graph = parse_graph(
        """
        graph f() -> (%y) {
          %x: f64[2] = constant() {value=f64[2]<0.0, -1.0>, weak=False}
          %y: f64[2] = log(%x)
        }
        """
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folded = fold(graph)
    np.testing.assert_array_equal(folded.nodes[-1].attrs["value"], [-np.inf, np.nan])
