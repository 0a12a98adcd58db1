"""grad and value_and_grad as compiled functions: the adjoint of a recording with a real scalar result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad import tree
from tracegrad.errors import ArgumentError, NonScalarError
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.types import Type
from tracegrad.ops.constant import Constant
from tracegrad.passes.adjoint import adjoint
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace, splice
from tracegrad.transforms.autograd import GraphFunction
from tracegrad.transforms.compiled import CompiledFunction
from tracegrad.transforms.eager import eager_value_and_grad
from tracegrad.transforms.entry import Entry
from tracegrad.transforms.program import Program
from tracegrad.transforms.record import Output, Recording, definition_of, record
from tracegrad.transforms.signature import Call, differentiated_leaves, read_call


class GradientOutput:
    """How value and gradients are handed back: `argnums` an int or a tuple, the value and aux beside them or not."""

    def __init__(
        self, spec: Any, args: tuple[Any, ...], argnums: int | tuple[int, ...], has_aux: bool, with_value: bool
    ):
        self.has_aux, self.with_value = has_aux, with_value
        self.single = not isinstance(argnums, tuple)
        numbers = argnums if isinstance(argnums, tuple) else (argnums,)
        self.specs = [tree.flatten(args[n])[1] for n in numbers]

    def build(self, output: Output, values: Sequence[Any]) -> Any:
        n_grads = sum(spec.num_leaves for spec in self.specs)
        result = output.build(values)
        leaves = list(values[len(values) - n_grads :])
        grads = []
        for spec in self.specs:
            grads.append(tree.unflatten(spec, leaves[: spec.num_leaves]))
            del leaves[: spec.num_leaves]
        return self.pack(result, grads[0] if self.single else tuple(grads))

    def pack(self, result: Any, gradient: Any) -> Any:
        if self.with_value:
            return result, gradient
        return (gradient, result[1]) if self.has_aux else gradient


class GradientFunction(CompiledFunction):
    """value_and_grad or grad of a function with a real scalar result."""

    def __init__(
        self,
        function: Callable[..., Any],
        argnums: int | Sequence[int],
        has_aux: bool,
        with_value: bool,
        allow_unused: bool,
        dynamic: bool | None = None,
    ):
        super().__init__(function, dynamic)
        self.argnums = argnums if isinstance(argnums, int) else tuple(argnums)
        if not all(isinstance(n, (int, np.integer)) for n in self._numbers()):
            raise ArgumentError(
                f"argnums={argnums!r} does not say which positional arguments", fix="give an int or a tuple of ints"
            )
        self.has_aux, self.with_value, self.allow_unused = has_aux, with_value, allow_unused

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "value_and_grad" if self.with_value else "grad"

    def _numbers(self) -> tuple[int, ...]:
        return self.argnums if isinstance(self.argnums, tuple) else (self.argnums,)

    def _output(self, spec: Any, args: tuple[Any, ...]) -> GradientOutput:
        return GradientOutput(spec, args, self.argnums, self.has_aux, self.with_value)

    def _record(self, call: Call, args: tuple[Any, ...], parent: Trace | None) -> tuple[Recording, Graph]:
        wrt = differentiated_leaves(call.spec, args, self._numbers(), call.leaves)
        types = call.types()
        types |= {i: Type(types[i].dtype, types[i].shape) for i in wrt}
        recording = record(self.function, call.leaves, call.spec, types, parent=parent, differentiated=wrt)
        scalar = self._scalar(recording.output)
        seed_type = check_scalar_type(self.function, recording.graph.outputs[scalar].type)
        joint, depends = adjoint(recording.graph, recording.differentiated, (scalar,))
        if not any(depends) and not self.allow_unused:
            raise_unused(self.function)
        return recording, seeded(joint, seed_type)

    def _scalar(self, output: Output) -> int:
        """Which graph output is the value to differentiate. Raises NonScalarError."""
        children = output.spec.children() if self.has_aux else None
        if self.has_aux and (output.spec.type is not tuple or children is None or len(children) != 2):
            raise ArgumentError(
                "with has_aux=True the function must return a pair (value, aux)", location=definition_of(self.function)
            )
        first = children[0] if children is not None else output.spec
        if first.num_leaves != 1 or not first.is_leaf():
            raise NonScalarError(
                f"the function returns a {first.type.__name__ if first.type else 'None'}, not one real number; "
                "grad can be implicitly created only for scalar outputs",
                fix="return the loss alone, or return (loss, rest) and pass has_aux=True",
                location=definition_of(self.function),
            )
        position = output.leaves[0]
        if position is None:
            raise_unused(self.function, output.fixed[0])
        return position  # type: ignore[return-value]

    def _compile(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry:
        recording, joint = self._record(call, args, None)
        tensors = call.tensors or any(isinstance(c, Tensor) for c in recording.captured)
        linked = tensors and recording.effects.linked
        program = GraphFunction(joint) if linked else Program(recording.graph, joint)
        return Entry(call, recording, program, self._output(call.spec, args), self.function)

    def _eager(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return eager_value_and_grad(self, args, kwargs)

    def _inline(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Inside another trace: record apart, derive the adjoint, append both to the outer trace."""
        outer = state.trace
        assert outer is not None
        call = read_call(args, kwargs)
        recording, joint = self._record(call, args, outer)
        inputs = tuple(outer.lift(call.leaves[i]) for i in call.dynamic)
        inputs += tuple(outer.lift(c) for c in recording.captured)
        outputs = splice(outer, joint, tuple(fit_weak(outer, v, t) for v, t in zip(inputs, joint.inputs, strict=True)))
        n_guards = len(recording.guards)
        first = len(recording.graph.outputs) - n_guards
        outer.guards.extend(zip(outputs[first : first + n_guards], recording.guards, strict=True))
        values = [Tensor._traced(outer, v) for v in outputs]
        recording.effects.pass_on(outer, values, call.leaves)
        return self._output(call.spec, args).build(recording.output, values)


def fit_weak(trace: Trace, var: Var, wanted: Var) -> Var:
    """A Python number that is differentiated takes part as a float64 scalar, here as at the outermost level."""
    if not var.type.weak or wanted.type.weak:
        return var
    from tracegrad.ops.elementwise import astype

    with setting(trace=trace):
        return trace.lift(astype(Tensor._traced(trace, var), var.type.dtype))


def seeded(joint: Graph, seed: Type) -> Graph:
    """The joint graph with its last input, the seed of a scalar, fixed at 1."""
    node = Node(Constant, (), (joint.inputs[-1],), {"value": np.ones(seed.shape, seed.dtype), "weak": False})
    return Graph(joint.inputs[:-1], (node, *joint.nodes), joint.outputs, joint.name)


def check_scalar_type(function: Callable[..., Any], type: Type) -> Type:
    """`type` if it is that of one real floating-point number. Raises NonScalarError."""
    where = definition_of(function)
    if type.size != 1:
        raise NonScalarError(
            f"the function returns an array of shape {type.shape}; "
            "grad can be implicitly created only for scalar outputs",
            fix="reduce it, for example with np.sum or np.mean, or ask for the Jacobian",
            location=where,
        )
    if type.dtype.kind != "f":
        what = "a complex number" if type.dtype.kind == "c" else f"a value of dtype {type.dtype}"
        raise NonScalarError(
            f"the function returns {what}; a gradient needs one real floating-point number",
            fix="return a float; from a complex number for example np.abs(z)**2 or z.real",
            location=where,
        )
    return type


def raise_unused(function: Callable[..., Any], value: Any = None) -> None:
    """The result does not depend on what is differentiated: an error, never silent zeros."""
    what = "" if value is None else f" (it is {value!r}, fixed while the function ran)"
    raise NonScalarError(
        f"the result does not depend on any differentiated argument{what}, so its gradient would be silently zero; "
        "it does not require grad",
        fix="compute it from the arguments with NumPy functions, or pass allow_unused=True if zeros are right",
        location=definition_of(function),
    )
