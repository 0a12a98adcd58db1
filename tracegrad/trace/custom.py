"""User Functions while tracing: forward is traced into the body of a `call` node, or becomes a call into Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.autograd.custom import (
    _as_output,
    _check_dirty,
    bound_arguments,
    overrides_setup,
    run_forward,
    saved_as_is,
)
from tracegrad.autograd.node import BackwardNode, edge_of, modified
from tracegrad.autograd.user_node import FunctionContext
from tracegrad.errors import (
    ArgumentError,
    AutogradError,
    LeavesFunctionBody,
    user_location,
)
from tracegrad.function import Function
from tracegrad.ir.dims import Dim
from tracegrad.ir.graph import NO_ATTRS, Graph, Node, Var
from tracegrad.ops.call import Call, CallRecord, Ref, map_leaves, replaced
from tracegrad.ops.creation import dimension
from tracegrad.ops.hooked import Passage
from tracegrad.ops.host_call import HostCall, HostForward
from tracegrad.ops.loops import Region
from tracegrad.ops.operands import guarded_int
from tracegrad.ops.stop import StopGradient
from tracegrad.state import UNSTOPPED, setting, state
from tracegrad.tensor import Tensor
from tracegrad.trace.columns import Columns
from tracegrad.trace.examples import example, has_examples, note_results
from tracegrad.trace.leaf_gradients import backward_in_body
from tracegrad.trace.tracer import Trace

_INTERNAL = {
    "needs_input_grad", "_to_save", "_for_forward", "_dirty", "_non_differentiable", "_materialize", "_function_name",
}  # fmt: skip


class TracedContext(FunctionContext):
    """The ctx of a forward that is being traced."""

    def __init__(self, name: str, needs: tuple[bool, ...]):
        self._begin_context(needs)
        self._function_name = name

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self._to_save

    def name(self) -> str:
        return f"{self._function_name}Backward"


def traced_apply(cls: Any, trace: Trace, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Record one application of a user's Function; what it returns, with Tensors of `trace`."""
    arguments, rest = bound_arguments(cls, args, kwargs)
    if not any(isinstance(a, Tensor) for a in arguments):
        from tracegrad.autograd.custom import eager_apply

        with setting(trace=None):
            return eager_apply(cls, arguments, rest)
    for name, value in rest.items():
        if isinstance(value, Tensor):
            raise ArgumentError(
                f"the keyword-only argument {name!r} of {cls.__name__}.forward is a Tensor",
                fix="make it a positional parameter of forward",
            )
    try:
        return _call(cls, trace, arguments, rest)
    except LeavesFunctionBody:
        return _host_call(cls, trace, arguments, rest)


def _call(cls: Any, trace: Trace, arguments: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    body = Trace(cls.__name__, parent=trace)
    body.columns = Columns()
    inner = tuple(body.add_input(a.type, source=a) if isinstance(a, Tensor) else a for a in arguments)
    for a, tensor in zip(arguments, inner, strict=True):
        if isinstance(a, Tensor):
            body.memory.watch(a, a, tensor)
    body.activity_known = trace.activity_known
    needs = _needs(trace, arguments)
    for a, tensor, needed in zip(arguments, inner, needs, strict=True):
        if needed:
            tensor._requires_grad, tensor._grad_fn, tensor._output_nr = True, a._grad_fn, a._output_nr
    context = TracedContext(cls.__name__, needs)
    try:
        with setting(trace=body, grad_enabled=UNSTOPPED, function_body=True):
            result = run_forward(cls, context, inner, kwargs)
            values = tuple(map(_as_output, result)) if isinstance(result, tuple) else (_as_output(result, alone=True),)
            lifted = [body.lift(v) if isinstance(v, Tensor) else None for v in values]
            if body.memory.gradients.effects():
                raise backward_in_body()
    finally:
        body.memory.gradients.restore()
    dirty = _dirty_outputs(cls, body, context, inner, values)
    views = _returned_views(cls, context, arguments, inner, values)
    plain = {id(t) for t in context._non_differentiable}
    stopped = tuple(id(v) in plain for v in values if isinstance(v, Tensor))
    outputs = [v for v in lifted if v is not None]
    keeper = _Keeper(body, outputs)
    values = _with_refs(keeper, values, {id(t): a for t, a in zip(inner, arguments, strict=True)})
    saved = tuple(map(keeper.ref, context._to_save))
    for_forward = tuple(map(keeper.ref, context._for_forward)) if cls.jvp is not Function.jvp else ()
    attributes = {k: map_leaves(v, keeper.ref) for k, v in context.__dict__.items() if k not in _INTERNAL}
    n_guards = len(body.guards)
    returned = (*outputs, *keeper.residuals, *(v for v, _ in body.guards))
    graph, captured = body.finish_body(tuple(returned))
    trace.assumptions |= body.assumptions
    record = CallRecord(
        cls, _positions(isinstance(a, Tensor) for a in arguments), _positions(v is not None for v in lifted), saved,
        attributes, context._materialize, tuple(None if isinstance(a, Tensor) else a for a in arguments), kwargs,
        for_forward,
    )  # fmt: skip
    sources = [a for a in arguments if isinstance(a, Tensor)] + captured
    results = _emit(trace, Call, sources, tuple(v.type for v in returned), {"record": record}, (graph,))
    if n_guards:
        seen = zip(results[-n_guards:], body.guards, strict=True)
        trace.guards.extend((r._var, number) for r, (_, number) in seen)
    for position, source, count in dirty:
        trace.memory.become(source, results[position], cls.__name__, count)
    for position, source, replay in views:
        trace.memory.note_same(trace.memory.own(source), results[position], replay)
    modified = {position: source for position, source, _ in dirty}
    _keep_versions(trace, results, sources, modified, saved)
    returned = tuple(modified.get(i, r) for i, r in enumerate(results))
    return _as_returned(trace, result, values, (returned, sources), stopped, modified)


def _with_refs(keeper: _Keeper, values: tuple[Any, ...], arguments: Mapping[int, Any]) -> tuple[Any, ...]:
    """What forward returned, with Refs, or arguments, for the Tensors in lists, tuples and dicts, which are no outputs
    of the Function and have no gradient."""

    def ref(leaf: Tensor) -> Any:
        if leaf._array is not None or leaf._trace is not keeper.body:
            return leaf
        return arguments[id(leaf)] if id(leaf) in arguments else keeper.ref(leaf)

    return tuple([v if isinstance(v, Tensor) else replaced(v, Tensor, ref) for v in values])


def _needs(trace: Trace, arguments: tuple[Any, ...]) -> tuple[bool, ...]:
    """ctx.needs_input_grad: per argument whether its gradient may be wanted."""
    return tuple(isinstance(a, Tensor) and a.type.inexact and trace.needs_gradient(trace.lift(a)) for a in arguments)


def _dirty_outputs(
    cls: Any, body: Trace, context: TracedContext, inner: tuple[Any, ...], values: tuple[Any, ...]
) -> list[tuple[int, Tensor, int]]:
    """Per modified argument the position of the output that is its new value, the argument, and how often forward
    modified it."""
    _check_dirty(context, {id(t) for t in inner}, values, False)
    marked = {id(t) for t in context._dirty}
    outputs = {id(v): i for i, v in enumerate(v for v in values if isinstance(v, Tensor))}
    found = []
    for outside in body.memory.outside.values():
        if id(outside.standin) in marked:
            found.append((outputs[id(outside.standin)], outside.value, outside.standin._version))
        elif outside.standin._var is not outside.entry:
            raise AutogradError(
                f"{cls.__name__}.forward modifies a Tensor in place without saying so",
                fix="call ctx.mark_dirty(x) and return x, or modify a copy: x.clone()",
            )
    return found


def _returned_views(
    cls: Any, context: TracedContext, arguments: tuple[Any, ...], inner: tuple[Any, ...], values: tuple[Any, ...]
) -> list[tuple[int, Tensor, Any]]:
    """Outputs that are arguments which forward has not modified, or views of such: positions, arguments, and the
    operations that lead from there. Raises AutogradError."""
    sources = {id(t): a for a, t in zip(arguments, inner, strict=True) if isinstance(t, Tensor)}
    dirty = {id(t) for t in context._dirty}
    found: list[tuple[int, Tensor, Any]] = []
    for i, value in enumerate(v for v in values if isinstance(v, Tensor)):
        meta = value._meta
        base, replay = (value, ()) if meta is None or meta.base is None else (meta.base, meta.replay)
        if id(value) in dirty or id(base) in dirty or id(base) not in sources:
            continue
        if value is base and overrides_setup(cls) and any(value is t for t in context._to_save):
            raise saved_as_is()
        found.append((i, sources[id(base)], replay))
    return found


def _keep_versions(
    trace: Trace, results: tuple[Tensor, ...], sources: list[Any], modified: dict[int, Tensor], saved: tuple[Any, ...]
) -> None:
    """Note the versions of what backward will read, so that a later modification of it is an error."""
    node = next((r._grad_fn for r in results if isinstance(r._grad_fn, SymbolicNode)), None)
    if node is None:
        return
    kept = []
    for ref in saved:
        if isinstance(ref, Ref):
            value = modified.get(ref.position, results[ref.position]) if ref.output else sources[ref.position]
            if isinstance(value, Tensor):
                counter = trace.memory.own(value)._ensure_meta().version
                kept.append((counter, counter[0], value))
    node.kept = tuple(kept)


class _Keeper:
    """Refs for the Tensors that forward keeps for backward; those that are not there yet become further outputs."""

    def __init__(self, body: Trace, outputs: list[Var]):
        self.body, self.outputs, self.residuals = body, outputs, []
        self.found: dict[Var, Ref] = {v: Ref(True, i) for i, v in reversed(list(enumerate(outputs)))}
        self.found |= {v: Ref(False, i) for i, v in enumerate(body.inputs)}

    def ref(self, value: Any) -> Any:
        if not isinstance(value, Tensor) and not (isinstance(value, np.ndarray) and value.dtype.kind in "biufc"):
            return value
        var = self.body.lift(value)  # arrays too: they are read afresh in each call
        found = self.found.get(var)
        if found is None:
            found = self.found[var] = Ref(True, len(self.outputs) + len(self.residuals))
            self.residuals.append(var)
        return found


def _positions(present: Any) -> tuple[int | None, ...]:
    """Numbers for what is there, None for the rest."""
    found: list[int | None] = []
    count = 0
    for there in present:
        found.append(count if there else None)
        count += bool(there)
    return tuple(found)


def _emit(
    trace: Trace,
    op: Any,
    sources: list[Any],
    types: tuple[Any, ...],
    attrs: Mapping[str, Any],
    bodies: tuple[Graph, ...] = (),
) -> tuple[Tensor, ...]:
    """The node, and where the eager engine has to go through it, a backward node for it."""
    inputs = tuple(map(trace.lift, sources))
    results = trace.emit(op, inputs, types, attrs, bodies, trace.location or user_location())
    if state.grad_enabled and any(isinstance(s, Tensor) and s.requires_grad for s in sources):
        node = SymbolicNode(trace.nodes[-1], sources, results)
        for position, out in enumerate(results):
            if out.type.inexact:
                out._requires_grad, out._grad_fn, out._output_nr = True, node, position
    return results


def _as_returned(
    trace: Trace,
    result: Any,
    values: tuple[Any, ...],
    found: tuple[Sequence[Tensor], Sequence[Any]],
    stopped: tuple[bool, ...],
    modified: Mapping[int, Tensor] = NO_ATTRS,
) -> Any:
    """What forward returned, with the node's results in place of its Tensors; `modified` are arguments.

    `found` are the results and the inputs of the node.
    """
    results, sources = found
    tensors = []
    for position, (value, stop) in enumerate(zip(results, stopped, strict=False)):
        recorded = state.grad_enabled is not False and not stop
        modifies = position in modified or not value.type.inexact
        tensors.append(value if recorded or modifies else _stopped(trace, value))

    def contained(ref: Ref) -> Any:
        if not ref.output:
            return sources[ref.position]
        return tensors[ref.position] if ref.position < len(tensors) else _stopped(trace, results[ref.position])

    outputs = iter(tensors)
    returned = [next(outputs) if isinstance(v, Tensor) else replaced(v, Ref, contained) for v in values]
    return tuple(returned) if isinstance(result, tuple) else returned[0]


def _stopped(trace: Trace, value: Tensor) -> Tensor:
    return trace.emit(StopGradient, (trace.lift(value),), (value.type,), NO_ATTRS, (), None)[0]


def _host_call(cls: Any, trace: Trace, arguments: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run forward once, on the numbers of this run or examples of them, and record that it has to run in Python."""
    positions = [i for i, a in enumerate(arguments) if isinstance(a, Tensor)]
    static = tuple(None if isinstance(a, Tensor) else a for a in arguments)
    forward = HostForward(cls, static, dict(kwargs), tuple(positions), _needs(trace, arguments))
    sources = [arguments[i] for i in positions]
    inputs = [trace.lift(s) for s in sources]
    for dim in {d for v in inputs for d in v.type.shape if isinstance(d, Dim)}:
        guarded_int(dimension(dim))  # the sizes of the results are those of this run
    arrays = [example(trace, v) for v in inputs]
    result, values, arrays = forward.learn(arrays, guarded=not has_examples(trace))
    results = _emit(trace, HostCall, sources, forward.output_types, {"function": forward})
    note_results(trace, results, arrays)
    if forward.guarded:
        trace.guards.append((results[-2]._var, True))
    return _as_returned(trace, result, values, (results, sources), forward.plain)


class SymbolicNode(BackwardNode):
    """The backward node of a recorded Function, for `.backward()` called inside the trace.

    kept: of what the user's backward will read the version counter, the version that is expected, and the Tensor.
    """

    __slots__ = ("kept", "node", "results", "sources")

    def __init__(self, node: Node, sources: list[Any], results: tuple[Tensor, ...]):
        self._begin(tuple(map(edge_of, sources)))
        self.node, self.sources = node, sources
        self.kept: tuple[tuple[list[int], int, Tensor], ...] = ()
        self.results = tuple((r._trace, r._var) for r in results)
        self._outs = tuple((r.shape, r.dtype) for r in results)

    def check_saved(self) -> None:
        """Raise AutogradError if what backward will read has been modified in place since."""
        for counter, version, tensor in self.kept:
            if counter[0] != version:
                raise modified(self, tensor, version)

    def _run(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        self.check_saved()
        trace = state.trace
        if trace is None:
            raise ArgumentError(
                "backward() through a recorded Function after the traced function had returned",
                fix="call backward() inside that function, or on its result",
            )
        inputs = tuple(map(self._input, self.sources, self._edges))
        outputs = []
        for position, (home, var) in enumerate(self.results):
            out = Tensor._traced(home, var)
            if state.grad_enabled and var.type.inexact:
                out._requires_grad, out._grad_fn, out._output_nr = True, self, position
            outputs.append(out)
        grads = self.node.op.backward_symbolic(self.node, inputs, tuple(outputs), self.needs_input_grad, cotangents)
        if not state.grad_enabled:  # the gradients are plain numbers to whatever is differentiated around them
            return tuple(g if g is None else _stopped(trace, g) for g in grads)
        n_outputs = sum(p is not None for p in _layout(self.node))
        if any(g is not None for g in cotangents[n_outputs:]):
            grads = tuple(g if g is None else _end_of_the_road(g, self.sources) for g in grads)
        return grads

    def _input(self, source: Any, edge: Any) -> Tensor:
        trace = state.trace
        assert trace is not None
        out = Tensor._traced(trace, trace.lift(source))
        if edge is not None and state.grad_enabled:
            out._requires_grad, out._grad_fn, out._output_nr = True, *edge
        return out


def _layout(node: Node) -> tuple[int | None, ...]:
    if issubclass(node.op, Region):
        return tuple(range(len(node.outputs)))
    return node.attrs["record"].outputs if node.op is Call else node.attrs["function"].outputs


class ThirdOrder(BackwardNode):
    """A derivative that was taken through values forward had kept: its own derivative is not recorded here."""

    __slots__ = ()

    def __init__(self, sources: list[Any], g: Tensor):
        self._begin(tuple(map(edge_of, sources)))
        self._outs = ((g.shape, g.dtype),)

    def _run(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        raise AutogradError(
            "a third derivative by autograd.grad(create_graph=True) through a user's Function that keeps values it "
            "computed, inside a traced function",
            fix="nest tg.grad instead, which has no such limit",
        )


def _end_of_the_road(g: Tensor, sources: list[Any]) -> Tensor:
    out = Tensor._traced(g._trace, g._var)
    out._requires_grad, out._grad_fn, out._output_nr = True, ThirdOrder(sources, g), 0
    return out


def inline_calls(graph: Graph) -> Graph:
    """The graph with each `call` node replaced by the nodes of its body, nested ones too; itself if there are none."""
    if not any(node.bodies or node.op is Passage for node in graph.nodes):
        return graph
    nodes: list[Node] = []
    frames: list[tuple[Any, dict[Var, Var], Node | None, bool]] = [(iter(graph.nodes), {}, None, False)]
    while frames:
        remaining, env, call, copied = frames[-1]
        for node in remaining:
            inputs = tuple([env.get(v, v) for v in node.inputs])
            if node.op is Passage:
                env.update(zip(node.outputs, inputs))
                continue
            if node.op is Call or getattr(node.op, "inlined", False):
                frames.append((iter(node.bodies[0].nodes), dict(zip(node.bodies[0].inputs, inputs)), node, True))
                break
            outputs = node.outputs
            if copied:
                outputs = tuple([Var(o.type, o.name) for o in outputs])
                env.update(zip(node.outputs, outputs))
            bodies = tuple(map(inline_calls, node.bodies))
            nodes.append(Node(node.op, inputs, outputs, node.attrs, bodies, node.location))
        else:
            frames.pop()
            if call is not None:
                outer = frames[-1][1]
                results = [env.get(v, v) for v in call.bodies[0].outputs]
                outer.update(zip(call.outputs, results))
            else:
                return Graph(graph.inputs, tuple(nodes), tuple([env.get(v, v) for v in graph.outputs]), graph.name)
    raise AssertionError("unreachable")
