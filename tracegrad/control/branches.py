"""Branches: `cond` and `switch`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad import tree
from tracegrad.control.carry import as_type, joined
from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.ir.graph import Graph, Var
from tracegrad.ir.types import Type
from tracegrad.ops.casting import astype
from tracegrad.ops.loops import Cond
from tracegrad.ops.loops.readings import with_readings
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor
from tracegrad.trace.loops import Recorded, Written, as_traced, carry_out, emit_region, record_body
from tracegrad.trace.tracer import Trace


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """`true_fun(*operands)` if `pred` holds, else `false_fun(*operands)`; only the one chosen is evaluated.

    pred is one number or bool; operands and results are arrays and numbers or trees of them. While tracing, a `pred`
    that depends on traced values is decided when the program runs; both functions must then give the same structure,
    shapes and dtypes (Python numbers are promoted). A gradient is that of the branch taken. As jax.lax.cond.
    """
    if isinstance(pred, Tensor) and pred.size != 1:
        raise ShapeError(
            f"cond decides on one value, not on an array of shape {tuple(pred.shape)}",
            fix="use np.where for a choice per element, or np.any(pred), np.all(pred)",
        )
    trace = state.trace
    if trace is None or not isinstance(pred, Tensor) or not pred.is_traced:
        return true_fun(*operands) if bool(pred) else false_fun(*operands)
    scalar = pred.reshape(()) if pred.ndim else pred  # type: ignore[attr-defined]
    return _traced(trace, astype(astype(scalar, bool), np.int64), (false_fun, true_fun), operands, "cond")


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """`branches[index](*operands)`, the index brought into range; otherwise as `cond`. As jax.lax.switch."""
    if not branches:
        raise ArgumentError("switch needs at least one branch", fix="pass a list of functions")
    trace = state.trace
    if trace is None or not isinstance(index, Tensor) or not index.is_traced:
        return branches[min(max(operator.index(index), 0), len(branches) - 1)](*operands)
    if index.dtype.kind not in "iu" or index.size != 1:
        raise ArgumentError(f"the index of switch is {index.type}, not one integer", fix="convert it with .astype(int)")
    scalar = index.reshape(()) if index.ndim else index  # type: ignore[attr-defined]
    return _traced(trace, astype(scalar, np.int64), tuple(branches), operands, "switch")


def one_branch(trace: Trace, function: Callable[..., Any], operands: tuple[Any, ...], what: str) -> Any:
    """`function(*operands)` as a branch that is always taken: its adjoint computes it once more."""
    return _traced(trace, np.int64(0), (function,), operands, what, kept=False)


def _traced(
    trace: Trace,
    index: Any,
    branches: Sequence[Callable[..., Any]],
    operands: tuple[Any, ...],
    what: str,
    kept: bool = True,
) -> Any:
    leaves, spec = tree.flatten(operands)
    given = [as_traced(trace, leaf, what) for leaf in leaves]
    types = [g.type for g in given]
    labels = [f"a{i}" for i in range(len(types))]
    recorded = [record_body(trace, b, types, spec, labels, _name(b, what), given) for b in branches]
    results = _agreed(recorded, what)
    finished = []
    for each in recorded:
        with setting(trace=each.trace):
            outputs = [as_type(Tensor._traced(each.trace, v), t) for v, t in zip(each.outputs, results, strict=True)]
            values = [each.trace.lift(o) for o in outputs]
        finished.append(each.finish(values))
    written = list({id(w.value): w for each in recorded for w in each.written}.values())
    shared, bodies = _with_all_captured(trace, finished, len(given), [w.value for w in written])
    bodies = tuple(
        _also_written(b, each, shared, len(given), written) for b, each in zip(bodies, recorded, strict=True)
    )
    if kept and trace.parent is not None:
        bodies = with_readings(bodies)
    types = [v.type for v in bodies[0].outputs]
    out = emit_region(trace, Cond, [astype(index, np.int64), *given, *shared], types, {}, bodies)
    carry_out(trace, written, out[len(results) : len(results) + len(written)], what)
    return tree.unflatten(recorded[0].spec, list(out[: len(results)]))


def _also_written(
    body: Graph, recorded: Recorded, shared: Sequence[Any], n_given: int, written: Sequence[Written]
) -> Graph:
    """The branch that also returns what some branch writes to, as this one leaves it."""
    own = {id(w.value): w.final for w in recorded.written}
    as_input = {id(v): body.inputs[n_given + k] for k, v in enumerate(shared)}
    extra = tuple(own.get(id(w.value)) or as_input[id(w.value)] for w in written)
    return Graph(body.inputs, body.nodes, (*body.outputs, *extra), body.name)


def _name(branch: Any, what: str) -> str:
    name = getattr(branch, "__name__", what)
    return name if name.isidentifier() else what


def _agreed(recorded: Sequence[Recorded], what: str) -> tuple[Type, ...]:
    """The types of the results. Raises ArgumentError, ShapeError or DTypeError where the branches differ."""
    first = recorded[0]
    types = [v.type for v in first.outputs]
    for other in recorded[1:]:
        if other.spec != first.spec:
            raise ArgumentError(
                f"the branches of {what} return different structures: {first.spec} and {other.spec}",
                fix="return the same tuples, lists and dicts from each branch",
            )
        for position, var in enumerate(other.outputs):
            a, b = types[position], var.type
            found = joined(a, b) or joined(b, a)
            if found is None and a.shape != b.shape:
                raise ShapeError(
                    f"the branches of {what} return arrays of different shapes, {a} and {b}",
                    fix="make them equal, for example with np.broadcast_to",
                )
            if found is None:
                raise DTypeError(
                    f"the branches of {what} return different dtypes, {a.dtype} and {b.dtype}",
                    fix="convert one of them with .astype",
                )
            types[position] = found
    return tuple(types)


def _with_all_captured(
    trace: Trace, finished: Sequence[tuple[Graph, list[Any]]], n_given: int, first: Sequence[Any]
) -> tuple[list[Any], tuple[Graph, ...]]:
    """Every branch with the captured values of all as inputs, and these values."""
    values: dict[Var, Any] = {trace.lift(value): value for value in first}
    for _, captured in finished:
        for value in captured:
            values.setdefault(trace.lift(value), value)
    bodies = []
    for graph, captured in finished:
        own = dict(zip(map(trace.lift, captured), graph.inputs[n_given:], strict=True))
        inputs = tuple(own.get(v) or Var(v.type, v.name) for v in values)
        bodies.append(Graph((*graph.inputs[:n_given], *inputs), graph.nodes, graph.outputs, graph.name))
    return list(values.values()), tuple(bodies)
