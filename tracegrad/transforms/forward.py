"""jvp: forward-mode derivatives along given tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad import tree
from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.ir.graph import Graph
from tracegrad.ir.types import Type
from tracegrad.passes.tangent import push_forward
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace
from tracegrad.transforms.record import Output, Recording, definition_of, record
from tracegrad.transforms.signature import Call, leaf_type
from tracegrad.transforms.transformed import TransformedFunction, of_function


def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """The value of `fun(*primals)` and its derivative along `tangents`, in one forward pass.

    primals, tangents: tuples (or lists) of arrays, floats or pytrees of them, of equal structure, shapes and dtypes.
    has_aux: `fun` returns `(value, aux)`.

    Gives `(primals_out, tangents_out)`, or `(primals_out, tangents_out, aux)`; tangents_out has the structure of the
    value, with zeros where it does not depend on the primals (and for integers). The first call with arguments of a
    new kind compiles; programs are kept on `fun`, so pass the same function object again. Works inside compiled
    functions, and may be differentiated. Raises ArgumentError, ShapeError or DTypeError for tangents that do not fit.
    """
    for name, values in (("primals", primals), ("tangents", tangents)):
        if not isinstance(values, (tuple, list)):
            raise ArgumentError(
                f"{name} must be a tuple or list of the function's arguments, not a {type(values).__name__}",
                fix=f"write ({name[:-1]},) for a single one",
            )
    if not callable(fun):
        raise ArgumentError(f"jvp needs a function, not a {type(fun).__name__}")
    transform = of_function(fun, ("jvp", has_aux), lambda: JvpFunction(fun, has_aux))
    fitted = fitted_tangents(tuple(primals), tuple(tangents))
    return transform(tuple(primals), fitted)  # type: ignore[no-any-return]


def fitted_tangents(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tangents with exactly the primals' dtypes. Raises where structure or shapes differ."""
    leaves, spec = tree.flatten(primals)
    given, given_spec = tree.flatten(tangents)
    if spec != given_spec:
        raise ArgumentError(
            f"primals and tangents must have the same structure, got {spec} and {given_spec}",
            fix="give one tangent for each array among the primals",
        )
    return tree.unflatten(spec, list(map(_fitted, leaves, given)))  # type: ignore[no-any-return]


def _fitted(primal: Any, tangent: Any) -> Any:
    if isinstance(primal, (bool, int)) or not _is_numeric(primal):
        what = f"dtype {primal.dtype}" if hasattr(primal, "dtype") else f"type {type(primal).__name__}"
        raise DTypeError(
            f"a primal of {what} has no tangents: only floating point and complex values vary",
            fix="make it a float, or close over it: tg.jvp(lambda x: f(x, n), (x,), (t,))",
        )
    wanted = leaf_type(primal)
    value = tangent if isinstance(tangent, Tensor) else np.asarray(tangent)
    if value.shape != wanted.shape:
        raise ShapeError(
            f"a primal of shape {wanted.shape} got a tangent of shape {value.shape}", fix="give them the same shape"
        )
    if value.dtype == wanted.dtype:
        return value
    if not np.can_cast(value.dtype, wanted.dtype, "same_kind"):
        raise DTypeError(f"a primal of dtype {wanted.dtype} got a tangent of dtype {value.dtype}")
    return value.astype(wanted.dtype)


def _is_numeric(leaf: Any) -> bool:
    if isinstance(leaf, (float, complex)):
        return True
    return isinstance(leaf, (np.ndarray, np.generic, Tensor)) and leaf.dtype.kind in "fc"


class TangentOutput:
    """Puts together (value, tangents), or (value, tangents, aux)."""

    def __init__(self, recording: Recording, has_aux: bool, where: Any):
        self.has_aux = has_aux
        n_results = len(recording.graph.outputs)
        inexact = [i for i, v in enumerate(recording.graph.outputs) if v.type.inexact]
        self.position = {i: n_results + k for k, i in enumerate(inexact)}
        if has_aux:
            check_pair(recording.output, where)

    def build(self, output: Output, values: Sequence[Any]) -> Any:
        result = output.build(values)
        tangents = [self._tangent(p, f, values) for p, f in zip(output.leaves, output.fixed, strict=True)]
        pushed = tree.unflatten(output.spec, tangents)
        return (result[0], pushed[0], result[1]) if self.has_aux else (result, pushed)

    def _tangent(self, position: int | None, fixed: Any, values: Sequence[Any]) -> Any:
        if position is None:
            return np.zeros(np.shape(fixed) if isinstance(fixed, np.ndarray) else ())
        found = self.position.get(position)
        return np.zeros(values[position].shape) if found is None else values[found]


def check_pair(output: Output, where: Any) -> None:
    """Raise ArgumentError unless the function returned a pair (value, aux)."""
    if output.spec.type is not tuple or len(output.spec.children()) != 2:
        raise ArgumentError("with has_aux=True the function must return a pair (value, aux)", location=where)


class JvpFunction(TransformedFunction):
    """`(primals, tangents)` to value and tangents of the value."""

    def __init__(self, function: Callable[..., Any], has_aux: bool):
        super().__init__(function)
        self.has_aux = has_aux

    kind = "jvp"

    def _transform(
        self, call: Call, args: tuple[Any, ...], parent: Trace | None
    ) -> tuple[Recording, Graph, TangentOutput]:
        count = len(call.leaves) // 2
        leaves, spec = tree.flatten((tuple(args[0]), {}))
        types = {i: strong(t) for i, t in call.types().items() if i < count}
        recording = record(self.function, leaves, spec, types, parent=parent, differentiated=range(count))
        pushed, _ = push_forward(recording.graph, range(count))
        n_inputs = len(recording.graph.inputs)
        inputs = (*pushed.inputs[:count], *pushed.inputs[n_inputs:], *pushed.inputs[count:n_inputs])
        graph = Graph(inputs, pushed.nodes, pushed.outputs, pushed.name)
        return recording, graph, TangentOutput(recording, self.has_aux, definition_of(self.function))

    def _eager(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from tracegrad.autograd.forward_ad import eager_jvp

        return eager_jvp(self.function, args[0], args[1], self.has_aux)


def strong(type: Type) -> Type:
    """A Python number as the float64 (or complex128) scalar it is."""
    return Type(type.dtype, type.shape)
