"""`while_loop`: as many steps as a condition on the carry says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad import tree
from tracegrad.control.carry import as_type, check_structure, join_types, leaf_names, own_memory, type_of
from tracegrad.control.counted import ATTEMPTS
from tracegrad.errors import ArgumentError
from tracegrad.ir.graph import Graph, Var
from tracegrad.ir.types import Type
from tracegrad.ops.casting import astype
from tracegrad.ops.loops import While
from tracegrad.ops.loops.while_loop import COUNT
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor
from tracegrad.trace.loops import (
    Recorded,
    Written,
    as_traced,
    carry_out,
    carrying_writes,
    emit_region,
    record_body,
    without_writes,
)
from tracegrad.trace.tracer import Trace

WHAT = "while_loop"


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """`val = body_fun(val)` while `cond_fun(val)` holds; the last val.

    init_val is an array or number or a tree of them, which keeps its structure, shapes and dtypes (a Python number
    takes the dtype it becomes); `cond_fun` gives one bool. Gradients go through it: the steps are counted, and taken
    once more with what each needs kept. Raises ShapeError, DTypeError or ArgumentError that names the leaf that
    changes. The signature is that of jax.lax.while_loop.
    """
    trace = state.trace
    if trace is None:
        return _eager(cond_fun, body_fun, init_val)
    if state.steps is not None:
        return _limited(cond_fun, body_fun, init_val, state.steps)
    leaves, spec = tree.flatten(init_val)
    given = [as_traced(trace, leaf, WHAT) for leaf in leaves]
    recorded, types = _record(trace, body_fun, given, spec, leaf_names(init_val))
    with setting(trace=recorded.trace):
        outputs = [as_type(Tensor._traced(recorded.trace, v), t) for v, t in zip(recorded.outputs, types, strict=True)]
        finals = [recorded.trace.lift(o) for o in outputs]
    n_carry, written = len(types), recorded.written
    body, values, captured = carrying_writes(*recorded.finish(finals), written, n_carry, 0)
    types = (*types, *(w.entry.type for w in written))
    condition, asked = _condition(trace, cond_fun, types, spec, written, given)
    attrs = {"n_carry": len(types), "n_condition": len(asked)}
    sources = [*(as_type(g, t) for g, t in zip(given, types, strict=False)), *values, *asked, *captured]
    results = emit_region(trace, While, sources, (*types, COUNT), attrs, (condition, body))
    carry_out(trace, written, results[n_carry:-1], WHAT)
    return tree.unflatten(spec, list(results[:n_carry]))


def _limited(cond_fun: Any, body_fun: Any, init_val: Any, steps: int) -> Any:
    """Stretches of at most `steps` steps, computed again for the gradient: n steps keep n / steps + steps carries."""

    def goes_on(counted: Any) -> Any:
        return np.logical_and(counted[0] < steps, cond_fun(counted[1]))

    def step(counted: Any) -> Any:
        with setting(steps=steps):  # for the loops in the body
            return counted[0] + 1, body_fun(counted[1])

    with setting(steps=None):
        return while_loop(cond_fun, lambda val: while_loop(goes_on, step, (0, val))[1], init_val)


def _eager(cond_fun: Any, body_fun: Any, val: Any) -> Any:
    names = leaf_names(val)
    val = own_memory(val)
    former = tree.flatten(val)
    while _holds(cond_fun(val)):
        val = body_fun(val)
        current = tree.flatten(val)
        check_structure(WHAT, former[1], current[1])
        join_types(WHAT, names, list(map(type_of, former[0])), list(map(type_of, current[0])))
        former = current
    return val


def _holds(answer: Any) -> bool:
    """Whether the loop goes on. Raises ArgumentError."""
    if np.size(answer) != 1:
        raise _no_bool(type_of(answer) if hasattr(answer, "shape") else type(answer).__name__)
    return bool(answer)


def _no_bool(given: Any) -> ArgumentError:
    return ArgumentError(
        f"the condition of {WHAT} gives ({given}), not one bool",
        fix="return one comparison, or reduce it with np.all or np.any",
    )


def _record(
    trace: Trace, body_fun: Any, given: list[Tensor], spec: Any, names: list[str]
) -> tuple[Recorded, tuple[Type, ...]]:
    """The body, recorded with types of the carry that it keeps."""
    types = tuple(g.type for g in given)
    labels = [f"c{i}" for i in range(len(types))]
    arguments = tree.flatten((tree.unflatten(spec, [0] * len(types)),))[1]
    for _ in range(ATTEMPTS):
        recorded = record_body(trace, body_fun, types, arguments, labels, WHAT, given)
        check_structure(WHAT, spec, recorded.spec)
        wanted = join_types(WHAT, names, types, [v.type for v in recorded.outputs])
        if wanted == types:
            return recorded, types
        recorded.abandon()
        types = wanted
    raise ArgumentError(
        f"the dtypes of the carry of {WHAT} do not settle", fix="start with NumPy scalars or arrays, np.float64(0.0)"
    )


def _condition(
    trace: Trace, cond_fun: Any, types: tuple[Type, ...], spec: Any, written: Sequence[Written], given: Sequence[Any]
) -> tuple[Graph, list[Any]]:
    """The condition's graph, whose inputs are all carries, and what else it captured."""
    n_carry = len(types) - len(written)
    labels = [f"c{i}" for i in range(n_carry)]
    arguments = tree.flatten((tree.unflatten(spec, [0] * n_carry),))[1]
    recorded = record_body(trace, cond_fun, types[:n_carry], arguments, labels, f"{WHAT} condition", given)
    without_writes(recorded, f"the condition of {WHAT}")
    if len(recorded.outputs) != 1 or not recorded.spec.is_leaf() or recorded.outputs[0].type.size != 1:
        raise _no_bool(", ".join(str(v.type) for v in recorded.outputs))
    (var,) = recorded.outputs
    graph, captured = recorded.finish((_as_bool(recorded.trace, var),))
    own = {id(c): v for v, c in zip(graph.inputs[n_carry:], captured, strict=True)}
    carried = [own.get(id(w.value)) or Var(w.entry.type, w.entry.name) for w in written]
    asked = [(v, c) for v, c in zip(graph.inputs[n_carry:], captured, strict=True) if v not in carried]
    inputs = (*graph.inputs[:n_carry], *carried, *(v for v, _ in asked))
    return Graph(inputs, graph.nodes, graph.outputs, graph.name), [c for _, c in asked]


def _as_bool(trace: Trace, var: Var) -> Var:
    with setting(trace=trace):
        x = Tensor._traced(trace, var)
        if x.ndim:
            x = x.reshape(())  # type: ignore[attr-defined]
        return trace.lift(astype(x, bool))
