"""vjp: the value of a function and a function that pulls cotangents back, as often as wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad import tree
from tracegrad.autograd.node import as_tensor
from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.ir.graph import Graph
from tracegrad.ir.types import Type
from tracegrad.passes.adjoint import adjoint
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace, splice
from tracegrad.transforms.autograd import GraphFunction, split
from tracegrad.transforms.forward import check_pair, strong
from tracegrad.transforms.program import Program, run_results
from tracegrad.transforms.record import Output, Recording, call_user, definition_of, record
from tracegrad.transforms.signature import Call
from tracegrad.transforms.transformed import TransformedFunction, of_function


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of `fun(*primals)` and its pullback: a function from a cotangent of the value to those of the primals.

    primals: arrays, floats or pytrees of them; leaves that are no floats (integers, strings) get None.
    has_aux: `fun` returns `(value, aux)`; the result is then `(value, pullback, aux)`.

    The cotangent has the structure, shapes and dtypes of the value; the pullback gives a tuple, one entry per primal,
    and may be called several times: what the forward program keeps for it is computed once. Raises ShapeError,
    DTypeError or ArgumentError for cotangents that do not fit.
    """
    if not callable(fun):
        raise ArgumentError(f"vjp needs a function, not a {type(fun).__name__}", fix="vjp(f, *primals)")
    transform = of_function(fun, ("vjp", has_aux), lambda: VjpFunction(fun, has_aux))
    return transform(*primals)  # type: ignore[no-any-return]


class Pullback:
    """What `vjp` returns beside the value: call it with a cotangent of the value."""

    def __init__(
        self, output: PullbackOutput, result: Output, spec: Any, residuals: Sequence[Any], seeds: dict[int, Type],
        tensors: bool,
    ):  # fmt: skip
        self._output, self._result, self._spec = output, result, spec
        self._residuals, self._seeds, self._tensors = residuals, seeds, tensors

    def __call__(self, cotangent: Any) -> tuple[Any, ...]:
        output = self._output
        given, spec = tree.flatten(cotangent)
        if spec != self._spec:
            raise wrong_structure(self._spec, spec)
        seeds = []
        for position, g in zip(self._result.leaves[: len(given)], given, strict=True):
            if position in self._seeds:
                seeds.append(fitted_cotangent(g, self._seeds[position]))
        found = iter(self._run([*self._residuals, *seeds]))
        leaves = [next(found) if i in output.wrt else None for i in range(output.primals.num_leaves)]
        return tuple(tree.unflatten(output.primals, leaves))

    def _run(self, inputs: list[Any]) -> Sequence[Any]:
        trace, output = state.trace, self._output
        if trace is not None:
            outputs = splice(trace, output.backward, tuple(map(trace.lift, inputs)))
            return [Tensor._traced(trace, v) for v in outputs]
        tensors = self._tensors or any(isinstance(x, Tensor) for x in inputs)
        if tensors:
            return output.linked(inputs)
        return run_results(output.plain(*inputs))

    def __repr__(self) -> str:
        return f"<pullback of {self._output.backward.name.removesuffix('_backward')}>"


def wrong_structure(expected: Any, found: Any) -> ArgumentError:
    return ArgumentError(
        f"the cotangent must have the structure of the value, {expected}; it has {found}",
        fix="give one array per array of the value",
    )


def nothing_varies() -> DTypeError:
    return DTypeError(
        "there is nothing to differentiate: no primal holds floating point numbers", fix="pass floats (x.astype(float))"
    )


def fitted_cotangent(g: Any, wanted: Type) -> Any:
    """The cotangent of a value of that type, cast to its dtype. Raises ShapeError or DTypeError."""
    value = g if isinstance(g, Tensor) else np.asarray(g)
    if value.shape != wanted.shape:
        raise ShapeError(
            f"Mismatch in shape: a cotangent has shape {value.shape}, the value it belongs to {wanted.shape}",
            fix="pass a cotangent of exactly the value's shape",
        )
    if value.dtype == wanted.dtype:
        return value
    if not np.can_cast(value.dtype, wanted.dtype, "same_kind"):
        raise DTypeError(f"a cotangent of dtype {value.dtype} for a value of dtype {wanted.dtype}")
    return value.astype(wanted.dtype)


class PullbackOutput:
    """Puts together the value and its Pullback; holds the backward program, compiled when first called."""

    def __init__(
        self, recording: Recording, backward: Graph, primals: Any, wrt: Sequence[int], has_aux: bool, tensors: bool
    ):
        graph = recording.graph
        self.n_results, self.primals, self.wrt = len(graph.outputs), primals, frozenset(wrt)
        self.seeds = seeds_of(recording, has_aux)
        self.backward, self.has_aux, self.tensors = backward, has_aux, tensors
        self.plain, self.linked = Program(backward), GraphFunction(backward)

    def build(self, output: Output, values: Sequence[Any]) -> Any:
        result, aux = output.build(values), ()
        spec = output.spec
        if self.has_aux:
            (result, *aux), spec = result, output.spec.children()[0]  # type: ignore[assignment]
        residuals = values[self.n_results :]
        seeds = {i: Type(values[i].dtype, values[i].shape) for i in self.seeds}
        return (result, Pullback(self, output, spec, residuals, seeds, self.tensors), *aux)


def seeds_of(recording: Recording, has_aux: bool) -> list[int]:
    """The graph outputs that a cotangent comes in for: the inexact leaves of the value, without those of aux."""
    output = recording.output
    count = output.spec.children()[0].num_leaves if has_aux else len(output.leaves)
    positions = [p for p in output.leaves[:count] if p is not None]
    return [p for p in positions if recording.graph.outputs[p].type.inexact]


class VjpFunction(TransformedFunction):
    """`*primals` to the value and its Pullback."""

    def __init__(self, function: Callable[..., Any], has_aux: bool):
        super().__init__(function)
        self.has_aux = has_aux

    kind = "vjp"

    def _transform(
        self, call: Call, args: tuple[Any, ...], parent: Trace | None
    ) -> tuple[Recording, Graph, PullbackOutput]:
        types = call.types()
        wrt = [i for i in call.dynamic if types[i].inexact]
        if not wrt:
            raise nothing_varies()
        types |= {i: strong(types[i]) for i in wrt}
        recording = record(self.function, call.leaves, call.spec, types, parent=parent, differentiated=wrt)
        if self.has_aux:
            check_pair(recording.output, definition_of(self.function))
        joint, _ = adjoint(recording.graph, recording.differentiated, seeds_of(recording, self.has_aux))
        forward, backward, _ = split(recording.graph, joint)
        _, primals = tree.flatten(args)
        return recording, forward, PullbackOutput(recording, backward, primals, wrt, self.has_aux, call.tensors)

    def _eager(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return eager_vjp(self.function, args, self.has_aux)


def eager_vjp(function: Callable[..., Any], args: tuple[Any, ...], has_aux: bool) -> tuple[Any, ...]:
    """The same operation by operation: the pullback goes through the recorded graph, which it keeps."""
    from tracegrad.autograd.api import grad
    from tracegrad.autograd.forward_ad import same_value, without_history
    from tracegrad.autograd.spent import reaches_others, spend
    from tracegrad.transforms.eager import as_eager, plain_code, plain_unless_linked

    leaves, primals = tree.flatten(args)
    tensors = any(isinstance(leaf, Tensor) for leaf in leaves)
    variables: dict[int, Tensor] = {}
    for i, leaf in enumerate(leaves):
        wrapped = as_eager(np.float64(leaf) if type(leaf) is float else leaf)
        if isinstance(wrapped, Tensor) and wrapped.dtype.kind in "fc":
            leaves[i] = variables[i] = same_value(wrapped)
            variables[i]._requires_grad = True
    if not variables:
        raise nothing_varies()

    outer = state.grad_enabled

    def shown(leaf: Any) -> Any:
        return leaf if tensors else plain_unless_linked(leaf if outer else without_history(leaf))

    with setting(grad_enabled=True, differentiating=True, **plain_code(tensors)):
        result = call_user(function, tree.unflatten(primals, leaves), {})
    value, *aux = result if has_aux else (result,)
    outputs, spec = tree.flatten(value)
    spend(v for v in variables.values() if v.is_leaf)
    reached = outer and any(isinstance(r, Tensor) and reaches_others(r, ()) for r in outputs)
    linked = tensors or state.dual is not None or reached

    def pull(cotangent: Any) -> tuple[Any, ...]:
        given, given_spec = tree.flatten(cotangent)
        if given_spec != spec:
            raise wrong_structure(spec, given_spec)
        pairs = [
            (out, as_tensor(fitted_cotangent(g, out.type)))
            for out, g in zip(outputs, given, strict=True)
            if isinstance(out, Tensor) and out.dtype.kind in "fc"
        ]
        pairs = [(out, g) for out, g in pairs if out.requires_grad]
        found: Any = [None] * len(variables)
        if pairs:
            roots, seeds = zip(*pairs, strict=True)
            further = linked or (state.grad_enabled and any(g.requires_grad for g in seeds))
            found = grad(roots, list(variables.values()), seeds, True, further, allow_unused=True)
        by_leaf = dict(zip(variables, found, strict=True))
        grads = [
            shown(as_tensor(np.zeros(v.shape, v.dtype)) if by_leaf[i] is None else by_leaf[i])
            if v is not None
            else None
            for i, v in ((i, variables.get(i)) for i in range(primals.num_leaves))
        ]
        return tuple(tree.unflatten(primals, grads))

    return (tree.map_leaves(shown, value), pull, *(tree.map_leaves(shown, a) for a in aux))
