"""The textual form: what is printed parses to an equal graph; what is wrong is refused with its line."""

import time

import numpy as np
import pytest

from tracegrad.ir.dims import parse as parse_dim
from tracegrad.ir.dims import symbol
from tracegrad.ir.graph import Graph, Location, Node, Var
from tracegrad.ir.identity import attr_equal, equal
from tracegrad.ir.literals import Scanner, format_value
from tracegrad.ir.text import parse_graph, print_graph
from tracegrad.ir.types import Type
from tracegrad.ops.arithmetic import Add, Mul

F64 = np.dtype(np.float64)

ROSEN = """\
graph rosen(%x: f64[10]) -> (%s) {
  %0: f64[9] = slice(%x) {start=(1,), size=(9,), step=(1,)}
  %1: f64[9] = slice(%x) {start=(0,), size=(9,), step=(1,)}
  %2: f64[9] = multiply(%1, %1)
  %d: f64[9] = subtract(%0, %2)
  %3: f64*[] = constant() {value=f64[]<100.0>, weak=True}
  %4: f64[9] = multiply(%3, %d)
  %s: f64[] = sum(%4) {axis=(0,), keepdims=False, dtype=f64}
}
"""


def read(text, environment=None):
    return Scanner(text, environment or {}).value()


def test_text_is_a_fixed_point():
    assert print_graph(parse_graph(ROSEN)) == ROSEN


def test_str_of_a_graph_is_its_text():
    assert str(parse_graph(ROSEN)) == ROSEN


VALUES = [
    None, True, False, 0, -3, 10**30, 0.0, -0.0, 1.0, -1e-300, 5e-324, float("inf"), float("-inf"), float("nan"), 0.1,
    1j, complex(-0.0, float("nan")), "", "it's", 'a "b" # \n\\', (), (1,), (1, (2.0, "x"), None), ...,
    slice(1, None, -2), np.dtype(np.float32), np.dtype(bool), symbol("n"), symbol("n") * 2 + 1, 3 - symbol("n"),
    symbol("n") * symbol("m"), parse_dim("floordiv(n+1, 2)*m"), Type(F64, (3, symbol("n"))), Type(F64, (), True),
    np.float32(0.1), np.int8(-4), np.bool_(True), np.complex64(1 - 2j), (symbol("n"), 1, 2.0),
    np.array(2.5), np.array([[1, 2], [3, 4]], np.int16), np.zeros((0, 3)), np.array([True, False]),
    np.array([0.1, np.nan, -np.inf, -0.0], np.float32), np.array([1e-8, 65504], np.float16), np.array([1 + 2j, -0j]),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_attribute_values_come_back_bit_for_bit(value):
    text = format_value(value, {})
    back = read(text)
    assert type(back) is type(value) or isinstance(value, np.dtype)
    assert attr_equal(back, value), text


@pytest.mark.parametrize(
    "dtype, bits", [(np.float64, 0xFFF8000000000001), (np.float32, 0x7FC00042), (np.float16, 0xFE00)]
)
def test_bits_of_a_nan_survive(dtype, bits):
    value = np.array([bits], f"u{np.dtype(dtype).itemsize}").view(dtype)
    assert attr_equal(read(format_value(value, {})), value)


def test_a_third_of_all_float16_come_back():
    for chunk in np.arange(2**16, dtype=np.uint16).view(np.float16).reshape(-1, 64)[::3]:
        assert attr_equal(read(format_value(chunk, {})), chunk)


def test_many_float32_come_back():
    bits = np.random.default_rng(0).integers(0, 2**32, 64 * 100, dtype=np.uint32)
    for chunk in bits.view(np.float32).reshape(-1, 64):
        assert attr_equal(read(format_value(chunk, {})), chunk)


def test_large_arrays_need_the_environment():
    value = np.arange(1000.0)
    environment = {}
    text = format_value(value, environment)
    assert text == "f64[1000]<@array>"
    assert read(text, environment) is value
    with pytest.raises(ValueError, match="give it in the environment"):
        read(text)


def test_objects_without_text_get_distinct_names():
    def helper():
        pass

    first, second = object(), object()
    environment = {}
    assert format_value((first, second, first, helper), environment) == "(@object, @object_1, @object, @helper)"
    assert environment == {"object": first, "object_1": second, "helper": helper}


@pytest.mark.parametrize("text", ["f64[2]<1.0>", "f64[n]<1.0>", "%x", "1 2 +", "'open", "f64<x>"])
def test_what_is_no_value_is_refused(text):
    with pytest.raises(ValueError):
        read("(" + text + ")")


def test_names_are_hints_made_unique():
    x, y, z, unnamed = (Var(Type(F64), name) for name in ("x", "x", "a.b", ""))
    graph = Graph((x, y), (Node(Add, (x, y), (z,)), Node(Mul, (z, z), (unnamed,))), (unnamed,), "<lambda>")
    assert print_graph(graph).splitlines() == [
        "graph '<lambda>'(%x: f64[], %x_1: f64[]) -> (%0) {",
        "  %a_b: f64[] = add(%x, %x_1)",
        "  %0: f64[] = multiply(%a_b, %a_b)",
        "}",
    ]
    assert equal(parse_graph(print_graph(graph)), graph)


def test_locations_are_comments():
    x, y = Var(Type(F64), "x"), Var(Type(F64), "y")
    graph = Graph((x,), (Node(Add, (x, x), (y,), location=Location("/home/me/model.py", 7, "f")),), (y,))
    assert "%y: f64[] = add(%x, %x)   # model.py:7" in print_graph(graph)
    assert "#" not in print_graph(graph, locations=False)
    assert equal(parse_graph(print_graph(graph)), graph)


def test_bodies_symbols_several_outputs_and_the_empty_graph():
    text = """\
graph outer(%x: f64[n,2*n+1], %k: i64*[]) -> (%x, %b, %x) {
  %a: f64[n,2*n+1], %b: i64[] = MyLoop(%x) {trips=n, name='loop'} with
    graph body(%u: f64[n,2*n+1]) -> (%v, %w) {
      %v: f64[n,2*n+1] = multiply(%u, %u)
      %w: i64[] = constant() {value=i64[]<3>, weak=False}
    }
    graph nothing() -> () {
    }
  %c: f64[n,2*n+1] = add(%a, %a)
}
"""

    class MyLoop:
        name = "MyLoop"

    graph = parse_graph(text, operations={"MyLoop": MyLoop})
    assert print_graph(graph) == text
    assert [len(b.nodes) for b in graph.nodes[0].bodies] == [2, 0]


def test_equal_sees_every_difference():
    graph = parse_graph(ROSEN)
    assert equal(graph, parse_graph(ROSEN.replace("%d", "%renamed").replace("rosen", "other")))
    for old, new in [
        ("<100.0>", "<101.0>"),
        ("weak=True", "weak=1"),
        ("start=(1,)", "start=(2,)"),
        ("multiply(%3, %d)", "multiply(%d, %3)"),
        ("subtract(%0, %2)", "add(%0, %2)"),
        ("(%x: f64[10])", "(%x: f64[11])"),
        ("-> (%s)", "-> (%s, %s)"),
        ("-> (%s)", "-> (%x)"),
        (", dtype=f64}", "}"),
    ]:
        assert not equal(graph, parse_graph(ROSEN.replace(old, new))), (old, new)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("multiply(%3, %d)", "multiply(%3, %q)", "%q is not defined before its use"),
        ("-> (%s)", "-> (%q)", "%q is not defined before its use"),
        ("%d: f64[9] =", "%0: f64[9] =", "%0 is defined twice"),
        ("subtract(", "substract(", "no operation is called substract"),
        ("%2: f64[9]", "%2: f65[9]", "expected a type"),
        ("keepdims=False", "keepdims", "expected '='"),
        ("}\n}", "}\n} }", "expected the end"),
        ("graph rosen", "rosen", "expected 'graph'"),
    ],
)
def test_errors_name_the_line(old, new, message):
    broken = ROSEN.replace(old, new)
    with pytest.raises(ValueError, match=r"line \d+: ") as caught:
        parse_graph(broken)
    assert message in str(caught.value)


def test_ten_thousand_nodes_take_well_under_a_second_each_way():
    x = Var(Type(F64, (3,)), "x")
    value, nodes = x, []
    for _ in range(10_000):
        out = Var(value.type)
        nodes.append(Node(Add, (value, x), (out,)))
        value = out
    graph = Graph((x,), tuple(nodes), (value,))
    started = time.process_time()
    text = print_graph(graph)
    printed = time.process_time()
    assert equal(parse_graph(text), graph)
    assert printed - started < 1
    assert time.process_time() - printed < 3
