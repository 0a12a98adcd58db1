"""The interpreter: symbols are bound from arguments, weak values are Python numbers, wrong arguments are refused."""

import numpy as np
import pytest

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.interpret import interpret
from tracegrad.ir.text import parse_graph

SYMBOLIC = parse_graph(
    """
    graph f(%x: f64[n,2*n+1], %y: f32[m]) -> (%b, %s) {
      %b: f32[n,m] = broadcast_to(%y) {shape=(n, m)}
      %s: f64[n,n+1] = slice(%x) {start=(0, n), size=(n, n+1), step=(1, 1)}
    }
    """
)


def test_symbols_are_bound_from_the_arguments():
    x, y = np.arange(21.0).reshape(3, 7), np.arange(4, dtype=np.float32)
    b, s = interpret(SYMBOLIC, [x, y])
    np.testing.assert_array_equal(b, np.broadcast_to(y, (3, 4)))
    np.testing.assert_array_equal(s, x[:, 3:])


@pytest.mark.parametrize(
    "args, error, message",
    [
        ([np.ones((3, 7))], ArgumentError, "takes 2 values, not 1"),
        ([np.ones((3, 7)), np.ones(4)], ArgumentError, "dtype float64"),
        ([np.ones((3, 8)), np.ones(4, np.float32)], ShapeError, r"shape \(3, 8\) where n = 3"),
        ([np.ones(3), np.ones(4, np.float32)], ShapeError, r"shape \(3,\)"),
    ],
)
def test_wrong_arguments_are_refused(args, error, message):
    with pytest.raises(error, match=message):
        interpret(SYMBOLIC, args)


def test_sizes_may_come_from_outside():
    graph = parse_graph("graph body(%u: f64[2*n]) -> (%u) {\n}")
    (out,) = interpret(graph, [np.ones(6)], {"n": 3})
    assert out.shape == (6,)
    with pytest.raises(ShapeError):
        interpret(graph, [np.ones(5)], {"n": 3})


def test_weak_values_leave_the_dtype_of_their_partner_alone():
    graph = parse_graph(
        """
        graph f(%x: f32[2], %k: f64*[]) -> (%y, %kk) {
          %kk: f64*[] = multiply(%k, %k)
          %y: f32[2] = multiply(%x, %kk)
        }
        """
    )
    y, kk = interpret(graph, [np.array([1, 2], np.float32), 0.1])
    assert y.dtype == np.float32
    assert type(kk) is float and kk == 0.1 * 0.1


def test_results_are_arrays_even_where_numpy_returns_scalars():
    graph = parse_graph("graph f(%x: f64[]) -> (%y) {\n  %y: f64[] = multiply(%x, %x)\n}")
    (y,) = interpret(graph, [np.float64(3)])
    assert isinstance(y, np.ndarray) and y.shape == () and y == 9


def test_values_die_after_their_last_use():
    # 300 arrays of 8 MB would not fit in a few hundred MB if they were all kept.
    import tracemalloc

    from tracegrad.ir.graph import Graph, Node, Var
    from tracegrad.ir.types import Type
    from tracegrad.ops.arithmetic import Add

    x = Var(Type(np.dtype(float), (100_000,)))
    nodes, value = [], x
    for _ in range(300):
        out = Var(value.type)
        nodes.append(Node(Add, (value, x), (out,)))
        value = out
    tracemalloc.start()
    interpret(Graph((x,), tuple(nodes), (value,)), [np.ones(100_000)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 800_000
