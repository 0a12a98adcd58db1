"""Recording the bodies of loops and branches: a child trace with symbolic values, whose captures become inputs.

A body is recorded once. The values it is given have a type and no number, so a Python decision on one is an error; a
decision on a value from outside the loop is the same in every step and becomes a guard of the trace around.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracegrad import tree
from tracegrad.errors import ArgumentError, UnsupportedError, user_location
from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import NO_ATTRS, Graph, Node, Var
from tracegrad.ir.types import Type
from tracegrad.ops.stop import StopGradient
from tracegrad.state import UNSTOPPED, setting, state
from tracegrad.tensor import Tensor
from tracegrad.trace.columns import Columns
from tracegrad.trace.custom import SymbolicNode
from tracegrad.trace.examples import note_examples
from tracegrad.trace.tracer import Trace


@dataclass(frozen=True, slots=True)
class Written:
    """A Tensor from outside that the body modifies in place, `count` times: what it is on entry and at the end."""

    value: Tensor
    entry: Var
    final: Var
    count: int = 1


@dataclass(frozen=True, slots=True)
class Recorded:
    """A body under way: its trace, its result as a tree, the values its leaves are (of `trace`), what it writes to."""

    trace: Trace
    spec: Any
    outputs: tuple[Var, ...]
    written: tuple[Written, ...]

    def abandon(self) -> None:
        """Record nothing of it: values of this trace that the function has kept somewhere are no values any more."""
        self.trace.finished = True

    def finish(self, outputs: Sequence[Var]) -> tuple[Graph, list[Any]]:
        """The graph with these outputs, and what it captured: the values of its last inputs."""
        return self.trace.finish_body(tuple(outputs))


def record_body(
    parent: Trace, function: Callable[..., Any], types: Sequence[Type], spec: Any, names: Sequence[str], name: str,
    examples: Sequence[Any] = (),
) -> Recorded:  # fmt: skip
    """Call `function(*args)`, the arguments a tree `spec` with symbolic leaves of these types.

    `examples` are values from outside that the leaves have in the first step, as far as they are known.
    Raises ArgumentError where the result has leaves that are no numbers, and what the function raises.
    """
    body = Trace(name, parent)
    body.columns = Columns()
    leaves: list[Any] = [body.add_input(t, n) for t, n in zip(types, names, strict=True)]
    note_examples(body, body.inputs, examples)
    lists = [(each, len(each)) for each in _lists_of(function)]
    with setting(trace=body, grad_enabled=state.grad_enabled or UNSTOPPED, function_body=False):
        result = function(*tree.unflatten(spec, leaves))
        found, result_spec = tree.flatten(result)
        outputs = tuple(lift_leaf(body, leaf, name) for leaf in found)
        written = _written(body, name)
    _check_lists(body, lists, name)
    _lift_guards(parent, body)
    parent.assumptions |= body.assumptions
    parent.memory.frozen += [(parent.memory.name(leaf), numbers) for leaf, numbers in body.memory.frozen]
    return Recorded(body, result_spec, outputs, written)


def _lists_of(function: Any, depth: int = 4) -> list[list[Any]]:
    """The lists from outside that a function and those it encloses have at hand."""
    code = getattr(function, "__code__", None)
    if code is None or not depth:
        return []
    found: list[list[Any]] = []
    names = [function.__globals__.get(name) for name in code.co_names]
    for value in (*names, *(_content(cell) for cell in function.__closure__ or ())):
        if type(value) is list:
            found.append(value)
        elif value is not function:
            found += _lists_of(value, depth - 1)
    return found


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return None


def _check_lists(body: Trace, lists: Sequence[tuple[list[Any], int]], name: str) -> None:
    """Raises ArgumentError where the body has put a value of its step into a list from outside."""
    for each, before in lists:
        if any(isinstance(v, Tensor) and v._array is None and v._trace is body for v in each[before:]):
            raise ArgumentError(
                f"the body of {name} appends to a list from outside, but it is recorded once, for all steps: the list "
                "would hold one value that is none of any step",
                fix="return the value as y, which tg.scan stacks for all steps, or write it into an array: a[i] = …",
            )


def _written(body: Trace, name: str) -> tuple[Written, ...]:
    """What the body modifies in place. Raises UnsupportedError for gradients, and for memory that it has twice."""
    memory = body.memory
    if memory.gradients.effects():
        raise UnsupportedError(
            f"the body of {name} accumulates into the .grad of a Tensor from outside",
            fix="use tg.grad inside the body, or call backward() after the loop",
        )
    found = []
    for outside in memory.outside.values():
        final = body.lift(outside.standin)
        if final is outside.entry:
            continue
        base = _base(outside.value)
        if any(o is not outside and _base(o.value) is base for o in memory.outside.values()):
            raise UnsupportedError(
                f"the body of {name} modifies a Tensor in place and uses another view of the same memory",
                fix="use one of them in the body, and make views of it there",
            )
        found.append(Written(outside.value, outside.entry, final, max(outside.standin._version, 1)))
    return tuple(found)


def _base(value: Any) -> Any:
    meta = value._meta if isinstance(value, Tensor) else None
    return value if meta is None or meta.base is None else meta.base


def without_writes(recorded: Recorded, what: str) -> Recorded:
    """The body, if it modifies nothing from outside. Raises UnsupportedError."""
    if recorded.written:
        raise UnsupportedError(
            f"{what} modifies a Tensor from outside in place", fix="modify it in the body of the loop"
        )
    return recorded


def carrying_writes(
    graph: Graph, captured: Sequence[Any], written: Sequence[Written], n_carry: int, n_others: int
) -> tuple[Graph, list[Any], list[Any]]:
    """The body of a loop in which what it writes to are the last carries; their values, and the other captured ones.

    The graph has the inputs carry, others, captured; it becomes carry, written, others, captured.
    """
    entries = [w.entry for w in written]
    first = n_carry + n_others
    kept = [(v, c) for v, c in zip(graph.inputs[first:], captured, strict=True) if v not in entries]
    inputs = (*graph.inputs[:n_carry], *entries, *graph.inputs[n_carry:first], *(v for v, _ in kept))
    outputs = (*graph.outputs[:n_carry], *(w.final for w in written), *graph.outputs[n_carry:])
    body = Graph(inputs, graph.nodes, outputs, graph.name)
    return body, [w.value for w in written], [c for _, c in kept]


def carry_out(
    trace: Trace, written: Sequence[Written], results: Sequence[Tensor], what: str, steps: DimLike = 1
) -> None:
    """Let what a loop or branch has written to be what it has become. Versions count the modifications of all steps,
    or of one step where their number is no number here."""
    for each, result in zip(written, results, strict=True):
        trace.memory.become(each.value, result, what, each.count * (steps if type(steps) is int else 1))


def lift_leaf(trace: Trace, leaf: Any, what: str) -> Var:
    """The value of `trace` for one leaf. Raises ArgumentError for what is neither a Tensor, an array nor a number."""
    numeric = hasattr(leaf, "__array__") or isinstance(leaf, (Tensor, bool, int, float, complex))
    if not numeric:
        raise ArgumentError(
            f"{what} works with arrays and numbers, also in tuples, lists and dicts; this leaf is a "
            f"{type(leaf).__name__}: {leaf!r}",
            fix="keep what is no number out of the carry and the arguments, for example in a closure",
        )
    return trace.lift(leaf)


def as_traced(trace: Trace, leaf: Any, what: str) -> Tensor:
    """One leaf as a Tensor; see `lift_leaf`."""
    return leaf if isinstance(leaf, Tensor) else Tensor._traced(trace, lift_leaf(trace, leaf, what))


def _lift_guards(parent: Trace, body: Trace) -> None:
    """Decisions of the body, which can only depend on values from outside, as guards of the trace around it."""
    env: dict[Var, Var] = {}
    for var, number in body.guards:
        for node in _ancestors(body, var):
            outputs = tuple(Var(o.type, o.name) for o in node.outputs)
            inputs = tuple(_outer(parent, body, v, env) for v in node.inputs)
            env.update(zip(node.outputs, outputs, strict=True))
            parent._record(Node(node.op, inputs, outputs, node.attrs, node.bodies, node.location))
        parent.guards.append((_outer(parent, body, var, env), number))


def _ancestors(body: Trace, var: Var) -> list[Node]:
    """The nodes that compute `var`, in order."""
    wanted = {var}
    found = []
    for node in reversed(body.nodes):
        if any(out in wanted for out in node.outputs):
            found.append(node)
            wanted.update(node.inputs)
    return found[::-1]


def _outer(parent: Trace, body: Trace, var: Var, env: dict[Var, Var]) -> Var:
    if var not in env:
        env[var] = parent.lift(body.captured[var])
    return env[var]


def emit_region(
    trace: Trace, op: Any, sources: Sequence[Any], types: Sequence[Type], attrs: Mapping[str, Any],
    bodies: tuple[Graph, ...],
) -> tuple[Tensor, ...]:  # fmt: skip
    """Record the node of a loop or branch, and where the eager engine has to go through it, a backward node."""
    inputs = tuple(map(trace.lift, sources))
    results = trace.emit(op, inputs, tuple(types), attrs, bodies, trace.location or user_location())
    if state.grad_enabled is False:
        return tuple(
            trace.emit(StopGradient, (r._var,), (r._var.type,), NO_ATTRS, (), None)[0] if r._var.type.inexact else r
            for r in results
        )
    if state.grad_enabled and any(isinstance(s, Tensor) and s.requires_grad for s in sources):
        node = SymbolicNode(trace.nodes[-1], list(sources), results)
        for position, out in enumerate(results):
            if out.type.inexact:
                out._requires_grad, out._grad_fn, out._output_nr = True, node, position
    return results


def depth(trace: Trace) -> int:
    """How many traces `trace` lies in."""
    count = 0
    while trace.parent is not None:
        trace, count = trace.parent, count + 1
    return count
