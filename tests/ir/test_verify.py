"""The verifier: good graphs pass; each invariant has a graph that breaks it, marked under its line."""

import numpy as np
import pytest

from tracegrad.errors import VerificationError
from tracegrad.function import Function
from tracegrad.ir.dims import symbol
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.text import parse_graph
from tracegrad.ir.types import Type
from tracegrad.ir.verify import faults, verify
from tracegrad.ops.arithmetic import Add, Mul
from tracegrad.ops.constant import Constant

F64 = np.dtype(np.float64)
VECTOR = Type(F64, (3,))


def messages(graph):
    return [message for _, message in faults(graph)]


def test_a_good_graph_passes():
    verify(parse_graph("graph f(%x: f64[n], %y: f64*[]) -> (%z) {\n  %z: f64[n] = multiply(%x, %y)\n}"))


def test_all_faults_stand_under_their_lines():
    graph = parse_graph(
        """
        graph f(%x: f64[3], %y: f32[2]) -> (%c) {
          %a: f32[3] = multiply(%x, %x)
          %b: f64[3] = add(%x, %y)
          %c: f64[3] = subtract(%x, %x)
        }
        """
    )
    with pytest.raises(VerificationError) as caught:
        verify(graph, "simplify")
    lines = [line.strip() for line in caught.value.message.splitlines()]
    assert lines[0] == "2 faults in the graph after simplify:"
    assert lines[2] == "%a: f32[3] = multiply(%x, %x)"
    assert lines[3] == "^ %a: f32[3] should have the type f64[3]"
    assert lines[4] == "%b: f64[3] = add(%x, %y)"
    assert lines[5].startswith("^ add does not take these inputs and attributes: operands could not be broadcast")
    assert lines[6] == "%c: f64[3] = subtract(%x, %x)"


def test_definitions_come_once_and_before_uses():
    x, y, z = (Var(VECTOR, n) for n in "xyz")
    assert messages(Graph((x, x), (), (x,))) == ["the input %x: f64[3] stands twice"]
    twice = Graph((x,), (Node(Add, (x, x), (y,)), Node(Mul, (x, x), (y,))), (y,))
    assert messages(twice) == ["defines %y: f64[3] a second time"]
    late = Graph((x,), (Node(Add, (y, x), (z,)), Node(Mul, (x, x), (y,))), (z,))
    assert messages(late) == ["reads %y: f64[3], which is not defined before it"]
    assert messages(Graph((x,), (), (z,))) == ["returns %z: f64[3], which is not defined"]


@pytest.mark.parametrize(
    "type, message",
    [
        (Type(F64, (-1,)), "has the dimension -1"),
        (Type(F64, (np.int64(3),)), "has the dimension"),
        (Type(F64, (2,), True), "is weak but not 0-d"),
        (Type(np.dtype("M8[s]"), ()), "is not a dtype of the IR"),
    ],
)
def test_types(type, message):
    x = Var(type, "x")
    (found,) = messages(Graph((x,), (), (x,)))
    assert message in found


def test_symbols_come_from_inputs():
    x, y = Var(Type(F64), "x"), Var(Type(F64, (symbol("n"),)), "y")
    from tracegrad.ops.shape import BroadcastTo

    graph = Graph((x,), (Node(BroadcastTo, (x,), (y,), {"shape": (symbol("n"),)}),), (y,))
    assert messages(graph) == ["%y: f64[n] has the symbol n, which no input has"]


def test_attributes_are_static_hashable_values():
    x, y = Var(VECTOR, "x"), Var(VECTOR, "y")

    class Opaque(Function):
        pass

    for value, problem in [([1], "not hashable"), ((1, {}), "not hashable"), (x, "values are inputs, not attributes")]:
        found = messages(Graph((x,), (Node(Opaque, (x,), (y,), {"key": value}),), (y,)))
        assert len(found) == 1 and "the attribute key holds" in found[0] and problem in found[0]
    good = {"value": np.ones(3), "weak": False}
    assert not faults(Graph((), (Node(Constant, (), (y,), good),), (y,)))


def test_operations():
    x, y = Var(VECTOR, "x"), Var(VECTOR, "y")
    assert messages(Graph((x,), (Node("add", (x,), (y,)),), (y,))) == ["'add' is not a Function"]
    assert "does not take" in messages(Graph((x,), (Node(Add, (x,), (y,), {"axis": 3}),), (y,)))[0]
    two = Graph((x,), (Node(Add, (x, x), (y, Var(VECTOR))),), (y,))
    assert messages(two) == ["add has 1 outputs, not 2"]


def test_bodies_are_closed_and_fit_their_node():
    x, y, u, v = (Var(VECTOR, n) for n in "xyuv")

    class Traced(Function):
        pass

    leaking = Graph((u,), (Node(Add, (u, x), (v,)),), (v,), "body")
    found = faults(Graph((x,), (Node(Traced, (x,), (y,), bodies=(leaking,)),), (y,)))
    assert [m for _, m in found] == ["reads %x: f64[3], which is not defined before it"]
    assert found[0][0] is leaking.nodes[0]
    scalar = Var(Type(F64), "s")
    misfit = Graph((scalar,), (), (scalar,), "body")
    assert messages(Graph((x,), (Node(Traced, (x,), (y,), bodies=(misfit,)),), (y,))) == [
        "the body's inputs have the types (f64[])",
        "the body's outputs have the types (f64[])",
    ]


def test_bodies_may_use_the_symbols_around_them():
    u = Var(Type(F64, (symbol("n"),)), "u")
    x, y = Var(u.type, "x"), Var(u.type, "y")

    class Traced(Function):
        pass

    assert not faults(Graph((x,), (Node(Traced, (x,), (y,), bodies=(Graph((u,), (), (u,)),)),), (y,)))
