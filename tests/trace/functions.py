"""User Functions that the tests of their recording share, and the graphs of functions that call them."""

import numpy as np

import tracegrad as tg
from tracegrad.ir.interpret import interpret
from tracegrad.ir.types import Type
from tracegrad.ir.verify import verify
from tracegrad.ops.call import Call
from tracegrad.passes.adjoint import adjoint
from tracegrad.state import setting
from tracegrad.trace.custom import inline_calls
from tracegrad.trace.tracer import Trace

A = np.array([1.0, 2.0, 3.0])


class Cube(tg.Function):
    """Keeps an input, a residual and attributes that hold values."""

    @staticmethod
    def forward(ctx, x, c=1.0):
        square = x * x
        ctx.save_for_backward(x, square, None)
        ctx.c, ctx.kept = c, {"square": [square]}
        return square * x * c

    @staticmethod
    def backward(ctx, g):
        _, square, _ = ctx.saved_tensors
        return g * ctx.c * (square + 2 * ctx.kept["square"][0]), None


class HostCube(tg.Function):
    """Leaves tracegrad on both ways; what backward needs is an attribute of ctx."""

    calls = 0

    @staticmethod
    def forward(ctx, x, c=1.0):
        HostCube.calls += 1
        a = x.numpy()
        ctx.slope = 3 * c * a**2
        return tg.tensor(c * a**3)

    @staticmethod
    def backward(ctx, g):
        return g.numpy() * ctx.slope, None


class HalfHostCube(Cube):
    """Only backward leaves."""

    @staticmethod
    def backward(ctx, g):
        _, square, _ = ctx.saved_tensors
        return tg.tensor(np.asarray(g) * 3 * np.asarray(square) * ctx.c), None


def traced(function, *arrays):
    """The graph of `function` and what it captured."""
    trace = Trace("f")
    inputs = [trace.add_input(Type(a.dtype, a.shape), "x", a) for a in arrays]
    with setting(trace=trace):
        out = (trace.lift(function(*inputs)),)
    graph, captured = trace.finish(out)
    verify(graph)
    return graph, captured


def gradient(graph, captured, *arrays):
    """The gradient of a scalar graph by the interpreter, with calls and without."""
    derived, _ = adjoint(graph, [0], [0])
    verify(derived)
    flat = inline_calls(derived)
    verify(flat)
    assert not any(node.op is Call for node in flat.nodes)
    args = [*arrays, *captured, np.array(1.0)]
    nested, inlined = interpret(derived, args)[1], interpret(flat, args)[1]
    assert np.array_equal(nested, inlined)
    return nested
