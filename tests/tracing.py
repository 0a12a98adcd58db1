"""Graphs of test functions: the trace of a function for given arguments, and its adjoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.ir.graph import Graph
from tracegrad.ir.types import Type
from tracegrad.passes.adjoint import adjoint
from tracegrad.state import setting
from tracegrad.tensor import Tensor
from tracegrad.trace.columns import Columns
from tracegrad.trace.tracer import Trace


def trace(function: Callable[..., Any], args: Sequence[Any]) -> tuple[Graph, list[Any]]:
    """The graph of `function` for arguments like these (arrays and Python numbers, which are weak), and its inputs.

    The inputs are the arguments and then the arrays that the function took from elsewhere.
    """
    graph, inputs, _ = trace_and_columns(function, args)
    return graph, inputs


def trace_and_columns(function: Callable[..., Any], args: Sequence[Any]) -> tuple[Graph, list[Any], Columns]:
    """The same, and what the recording noted of its nodes."""
    recording = Trace(getattr(function, "__name__", "function"))
    recording.columns = Columns()
    inputs = [recording.add_input(_type(a), f"x{i}", a) for i, a in enumerate(args)]
    with setting(trace=recording, numbers=True):  # of arrays
        results = function(*inputs)
        outputs = tuple(recording.lift(r) for r in (results if isinstance(results, tuple) else (results,)))
    graph, captured = recording.finish(outputs)
    arrays = [c._value() if isinstance(c, Tensor) else c for c in captured]
    assert recording.columns is not None
    return graph, [*args, *arrays], recording.columns


def _type(arg: Any) -> Type:
    array = np.asarray(arg)
    return Type(array.dtype.newbyteorder("="), array.shape, not isinstance(arg, np.ndarray | np.generic))


def value_and_gradients(graph: Graph, wrt: Sequence[int]) -> Graph:
    """The graph that returns the float scalar `graph` does and its gradients; its last input is the seed, 1."""
    return adjoint(graph, wrt, [0])[0]
