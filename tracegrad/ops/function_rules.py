"""Users' Functions in forward mode and under vmap: their own `jvp` and `vmap`, or what follows from the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tracegrad.autograd.custom import overrides_setup, run_forward
from tracegrad.autograd.forward_ad import checked_tangents, overrides_jvp
from tracegrad.errors import AutogradError, LeavesFunctionBody
from tracegrad.function import Operation
from tracegrad.ir.graph import Graph, Node
from tracegrad.ir.types import Type
from tracegrad.ops.call import CallRecord, RebuiltContext, Ref, _roll_back, _settle_captured, as_tensor_or_traced
from tracegrad.ops.cotangent import zeros
from tracegrad.ops.mapped import batched_call, map_rows
from tracegrad.records import record
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor


class VmapInfo(NamedTuple):
    """What a Function's vmap is told: the number of rows, and how random numbers differ among them."""

    batch_size: int
    randomness: str


# ---- forward mode ----------------------------------------------------------------------------------------------------


def tangents_of_call(
    record: CallRecord,
    node: Node,
    inputs: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
    tangents: Sequence[Tensor | None],
) -> list[Tensor | None] | None:
    """Tangents of the outputs by the Function's jvp; None where it has none, so that backward is transposed."""
    if not overrides_jvp(record.function):
        return None
    trace = state.trace
    assert trace is not None
    start, known = len(trace.nodes), set(trace.captured)
    given = _given(record, inputs, tangents)
    found: list[Tensor | None] | None = None
    if node.bodies:
        try:
            found = _traced_jvp(record, inputs, outputs, given)
            if not _settle_captured(trace, start, known):
                found = None
        except LeavesFunctionBody:
            found = None
    if found is None:
        _roll_back(trace, start, known)
        found = _host_jvp(record, inputs, outputs, given)
    return found + _tangents_of_residuals(node, inputs, tangents, len(found))


def _given(record: CallRecord, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
    """One tangent per argument of forward; zeros for Tensors without one, if they are asked for."""
    given: list[Tensor | None] = []
    for position in record.arguments:
        tangent = None if position is None else tangents[position]
        if position is not None and tangent is None and record.materialize and inputs[position].type.inexact:
            tangent = as_tensor_or_traced(zeros(inputs[position].type))
        given.append(tangent)
    return given


def _traced_jvp(
    record: CallRecord, inputs: Sequence[Tensor], outputs: Sequence[Tensor], given: Sequence[Tensor | None]
) -> list[Tensor | None]:
    def find(ref: Ref) -> Tensor:
        return outputs[ref.position] if ref.output else inputs[ref.position]

    context = RebuiltContext(record, find, tuple(t is not None for t in given), record.for_forward)
    results = tuple(None if p is None else outputs[p] for p in record.outputs)
    with setting(function_body=True):
        found = record.function.jvp(context, *given)
    checked = checked_tangents(record.function, found, results)
    return [t for t, p in zip(checked, record.outputs, strict=True) if p is not None]


@record(eq=False)
class HostTangents:
    """Runs a user's jvp in Python, after forward once more, whose ctx it needs."""

    record: CallRecord
    n_inputs: int
    given: tuple[bool, ...]
    types: tuple[Type, ...]

    def __call__(self, *arrays: Any) -> tuple[np.ndarray, ...]:
        from tracegrad.ops.host_call import HostContext

        record = self.record
        tensors = [Tensor._wrap(np.array(a)) for a in arrays]
        inputs, rest = tensors[: self.n_inputs], iter(tensors[self.n_inputs :])
        arguments = [s if p is None else inputs[p] for s, p in zip(record.static, record.arguments, strict=True)]
        context = HostContext(tuple(p is not None for p in record.arguments))
        with setting(trace=None, grad_enabled=False, function_body=False):
            result = run_forward(record.function, context, tuple(arguments), record.kwargs)
            context._to_save = context._for_forward
            found = record.function.jvp(context, *(next(rest) if there else None for there in self.given))
        checked = checked_tangents(record.function, found, result)
        tangents = [t for t, p in zip(checked, record.outputs, strict=True) if p is not None]
        return tuple(
            np.zeros(t.shape, t.dtype) if found is None else np.array(found._array)  # type: ignore[arg-type]
            for found, t in zip(tangents, self.types, strict=True)
        )

    def __repr__(self) -> str:
        return f"<{self.record.function.__name__}.jvp>"


class HostJvp(Operation):
    """A user's jvp run in Python."""

    name = "host_jvp"
    pure = False

    @staticmethod
    def infer(*types: Type, function: HostTangents) -> tuple[Type, ...]:
        return function.types

    @staticmethod
    def forward(*arrays: np.ndarray, function: HostTangents) -> tuple[np.ndarray, ...]:
        return function(*arrays)

    @staticmethod
    def backward_symbolic(node: Node, *rest: Any) -> tuple[Any, ...]:
        from tracegrad.ops.host_call import twice

        raise twice(node.attrs["function"].record.function)


def _host_jvp(
    record: CallRecord, inputs: Sequence[Tensor], outputs: Sequence[Tensor], given: Sequence[Tensor | None]
) -> list[Tensor | None]:
    trace = state.trace
    assert trace is not None
    count = sum(p is not None for p in record.arguments)
    types = tuple(outputs[p].type for p in record.outputs if p is not None)
    function = HostTangents(record, count, tuple(t is not None for t in given), types)
    values = [trace.lift(x) for x in (*inputs[:count], *(t for t in given if t is not None))]
    results = trace.emit(HostJvp, tuple(values), types, {"function": function}, (), trace.location)
    return [r if r.type.inexact else None for r in results]


def _tangents_of_residuals(
    node: Node, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None], first: int
) -> list[Tensor | None]:
    """Tangents of the values forward keeps for backward: those of the body, for a derivative of the derivative."""
    rest = node.outputs[first:]
    if not node.bodies or not any(v.type.inexact for v in rest):
        return [None] * len(rest)
    from tracegrad.passes.tangent import push_forward
    from tracegrad.trace.tracer import splice

    trace = state.trace
    assert trace is not None
    body = node.bodies[0]
    wrt = [i for i, t in enumerate(tangents) if t is not None]
    pushed, _ = push_forward(Graph(body.inputs, body.nodes, body.outputs[first:], body.name), wrt)
    values = [x._var for x in inputs] + [tangents[i]._var for i in wrt]  # type: ignore[union-attr]
    found = iter(splice(trace, pushed, tuple(values))[len(rest) :])
    return [Tensor._traced(trace, next(found)) if v.type.inexact else None for v in rest]


# ---- vmap ------------------------------------------------------------------------------------------------------------


def check_vmap_rule(cls: Any) -> None:
    """Raise AutogradError unless the Function says what it does under vmap."""
    if not overrides_setup(cls):
        raise AutogradError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
            f"override the setup_context staticmethod: {cls.__name__} under vmap does not",
            fix="write forward(*args) without ctx, and setup_context(ctx, inputs, output)",
        )
    own = overrides_vmap(cls)
    if own and cls.generate_vmap_rule:
        raise AutogradError(
            f"{cls.__name__} has both generate_vmap_rule=True and a vmap staticmethod",
            fix="remove one of them",
        )
    if not own and not cls.generate_vmap_rule:
        raise AutogradError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            f"generate_vmap_rule=True: {cls.__name__} does neither",
            fix="generate_vmap_rule = True in the class, if forward and backward are made of tracegrad operations",
        )


def overrides_vmap(cls: Any) -> bool:
    from tracegrad.function import Function

    return cls.vmap is not Function.vmap


def batched_function(
    record: CallRecord, node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: Any
) -> Sequence[Tensor]:
    """The node's outputs for all rows: by the Function's vmap, or by the generated rule."""
    from tracegrad.passes.batching import single

    cls = record.function
    check_vmap_rule(cls)
    if overrides_vmap(cls):
        return _by_vmap(record, node, tensors, flags, size)
    return (batched_call if node.bodies else map_rows)(single(node), tensors, flags, size)


def _by_vmap(
    record: CallRecord, node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: Any
) -> list[Tensor]:
    from tracegrad.ops.shape import broadcast_to, moveaxis

    cls = record.function
    arguments, in_dims = [], []
    for static, position in zip(record.static, record.arguments, strict=True):
        arguments.append(static if position is None else tensors[position])
        in_dims.append(0 if position is not None and flags[position] else None)
    result = cls.vmap(VmapInfo(size, "error"), tuple(in_dims), *arguments, **record.kwargs)
    if not isinstance(result, tuple) or len(result) != 2:
        raise AutogradError(
            f"{cls.__name__}.vmap must return a pair (outputs, out_dims), not a {type(result).__name__}"
        )
    values, dims = result
    if len(record.outputs) == 1 and not isinstance(values, tuple):
        values, dims = (values,), (dims,)
    if not isinstance(dims, tuple):
        dims = (dims,) * len(record.outputs)
    if len(values) != len(record.outputs) or len(dims) != len(record.outputs):
        raise AutogradError(
            f"{cls.__name__}.vmap returned {len(values)} outputs; forward returns {len(record.outputs)}"
        )
    rows: list[Tensor] = []
    for value, dim, position in zip(values, dims, record.outputs, strict=True):
        if position is not None:
            value = as_tensor_or_traced(value)
            rows.append(broadcast_to(value, (size, *value.shape)) if dim is None else moveaxis(value, dim, 0))
    return rows + _rows_of_rest(node, tensors, flags, size, len(rows))


def _rows_of_rest(
    node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: Any, first: int
) -> list[Tensor]:
    """The values forward keeps for its own backward: nobody reads them, since vmap's results have their own history."""
    rest = [v.type for v in node.outputs[first:]]
    return [as_tensor_or_traced(zeros(Type(t.dtype, (size, *t.shape)))) for t in rest]


__all__ = ["VmapInfo", "batched_function", "check_vmap_rule", "overrides_vmap", "tangents_of_call"]
