"""Function: the one record per operation, and `apply`, the one place where eager, traced and symbolic runs part.

A built-in operation is an `Operation`: its `forward` works on ndarrays, its `infer` gives the types of its results, its
`lower` says what it means as a loop, its `backward` is written in operations again. A user's `Function` is the same
class with PyTorch's contract: `forward(ctx, *args)` and `backward(ctx, *grads)` on Tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tracegrad.autograd.modes import modes
from tracegrad.autograd.operation_node import OperationNode
from tracegrad.autograd.straight import straight_apply
from tracegrad.autograd.views import mark_inference, note_view
from tracegrad.errors import ArgumentError, AutogradError, BackwardNotImplementedError
from tracegrad.ir.lowering import Lowering
from tracegrad.ir.types import Type
from tracegrad.state import state
from tracegrad.tensor import Tensor, plain_array

if TYPE_CHECKING:
    from tracegrad.trace.tracer import Trace

registry: dict[str, type[Operation]] = {}


class Function:
    """Subclass it and write `forward(ctx, *args)` and `backward(ctx, *grad_outputs)`; call `apply`.

    `forward` receives the arguments as given, Tensors without gradient recording; `ctx.save_for_backward` keeps
    Tensors, attributes of ctx keep anything. `backward` returns one gradient, or None, per argument of `forward`.
    """

    name: ClassVar[str] = "function"
    differentiable: ClassVar[bool] = True
    generate_vmap_rule: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    @staticmethod
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        raise BackwardNotImplementedError("a Function needs a static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise BackwardNotImplementedError(
            "this Function has no backward, so nothing can be differentiated through it",
            fix="write a static method backward(ctx, *grad_outputs)",
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Override it to keep `forward(*args)` free of ctx: it runs after forward and saves what backward needs."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """Override it for vmap: forward for all rows, which stand at axis `in_dims[i]` of argument i (None: no rows).

        Returns (outputs, out_dims). `generate_vmap_rule = True` in the class derives it from forward and backward.
        """
        raise BackwardNotImplementedError("this Function has no vmap")

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Override it for forward mode: tangents of the arguments (None for what is no Tensor) to those of the outputs.

        `ctx.save_for_forward` keeps Tensors for it. Without it forward mode differentiates backward once more.
        """
        raise BackwardNotImplementedError("this Function has no jvp")

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name for `backward`; a Function has one of the two."""
        raise BackwardNotImplementedError("this Function has no vjp")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise AutogradError(
            "Legacy autograd function with non-static forward method is deprecated: a Function is not called as an "
            "instance",
            fix=f"make forward and backward static methods and call {type(self).__name__}.apply(...)",
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run the Function: recorded as a node while tracing, else at once."""
        trace = state.trace
        if trace is not None:
            return cls.traced_apply(trace, args, kwargs)
        from tracegrad.autograd.custom import eager_apply

        return eager_apply(cls, args, kwargs)

    @classmethod
    def traced_apply(cls, trace: Trace, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Record the Function as a node whose body is the trace of its forward (or a call into Python)."""
        from tracegrad.trace.custom import traced_apply

        return traced_apply(cls, trace, args, kwargs)


class Operation(Function):
    """A built-in operation.

    name:    its name in the textual IR.
    forward: static, ndarrays (or Python numbers where weak) and static attrs to an ndarray or a tuple of them.
    infer:   static, input Types and attrs to the output Type (or a tuple): NumPy's rules without values.
    lower:   the loop meaning (ir/lowering.py); None means that compiled programs call back into `forward`.
    saves:   per input, what its gradient reads: digits are input positions, "y" the output. `backward` finds these
             in `ctx.inputs` and `ctx.output`; what is not saved is None there.
    backward: static, `backward(ctx, *cotangents)` to one cotangent (or None) per input, written in operations. The
             caller sums over broadcast dimensions and casts to the input's dtype.
    put:     of an operation whose result is a view: static, `put(operand, view, **attrs)` is the operand with the
             elements that the view sees replaced by those of `view`.
    """

    name: ClassVar[str] = ""
    lower: ClassVar[Lowering | None] = None
    saves: ClassVar[tuple[str, ...]] = ()
    put: ClassVar[Any] = None
    node_class: ClassVar[type[OperationNode]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        named = bool(cls.__dict__.get("name"))  # a base class of a family has no name and is no operation
        super().__init_subclass__(**kwargs)
        members = {"__slots__": (), "function": cls, "plans": {}}
        cls.node_class = type(f"{cls.__name__}Backward0", (OperationNode,), members)
        if "forward" in cls.__dict__ or named:
            cls.apply = staticmethod(straight_apply(cls, recorded_or_general(cls)))
        if named:
            registry[cls.name] = cls

    @staticmethod
    def infer(*types: Type, **attrs: Any) -> Type | tuple[Type, ...]:
        raise NotImplementedError

    @classmethod
    def saved_for(cls, needs: tuple[bool, ...]) -> str:
        """What `backward` reads when the inputs marked in `needs` need a gradient."""
        return "".join(saved for saved, needed in zip(cls.saves, needs, strict=False) if needed)

    @classmethod
    def general_apply(cls, *args: Any, **attrs: Any) -> Any:
        """What `apply` does: Tensors (or arrays and numbers) in; a Tensor out if any argument is one, else an ndarray.

        Of the two this is the road that knows traces and all modes; `autograd/straight.py` has the frequent one.
        """
        trace = state.trace
        if trace is not None:
            return cls.traced_apply(trace, args, attrs)
        arrays = [a._array if isinstance(a, Tensor) else a for a in args]
        if any(a is None for a in arrays):
            raise outlived()
        result = cls.forward(*arrays, **attrs)
        if not any(isinstance(a, Tensor) for a in args):
            return result
        return cls.finish(args, arrays, attrs, result, cls.differentiable and state.grad_enabled)

    @classmethod
    def finish(
        cls, args: tuple[Any, ...], arrays: Sequence[Any], attrs: Mapping[str, Any], result: Any, record: bool
    ) -> Any:
        """Make Tensors of what `forward` computed, with their node where it is to be recorded."""
        if type(result) is tuple:
            outputs = tuple([Tensor._wrap(np.asarray(r)) for r in result])
        else:
            outputs = (Tensor._wrap(result if type(result) is np.ndarray else plain_array(result)),)
        if record and any(isinstance(a, Tensor) and a.requires_grad for a in args):
            link(cls, args, attrs, outputs)
        several = len(outputs) > 1
        for position, out in enumerate(outputs):
            array = out._array
            if array.base is not None or id(array) in map(id, arrays):
                note_view(cls, args, attrs, out, position if several else None)
        if modes.special:
            if state.dual is not None:
                from tracegrad.autograd.forward_ad import push

                push(cls, args, attrs, outputs)
            if state.inference:
                mark_inference(outputs)
        return outputs if type(result) is tuple else outputs[0]

    @classmethod
    def traced_apply(cls, trace: Trace, args: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
        for arg in args:
            if isinstance(arg, Tensor):
                return trace.apply(cls, args, attrs)
        return cls.forward(*args, **attrs)


def recorded_or_general(cls: type[Operation]) -> Any:
    """What takes operands of which one is a Tensor: recorded in a trace, else what `Operation.general_apply` does."""
    general = cls.general_apply
    if cls.traced_apply.__func__ is not Operation.traced_apply.__func__:  # type: ignore[attr-defined]
        return general

    def apply(*args: Any, **attrs: Any) -> Any:
        trace = state.trace
        return general(*args, **attrs) if trace is None else trace.apply(cls, args, attrs)

    return apply


def outlived() -> ArgumentError:
    return ArgumentError(
        "a Tensor of a traced function was used after that function had returned",
        fix="return it from the function instead of keeping it in a global, a list or an attribute",
    )


def link(op: type[Operation], args: tuple[Any, ...], attrs: Mapping[str, Any], outputs: tuple[Tensor, ...]) -> None:
    """Give the outputs that can have a gradient a backward node of `op`."""
    node = op.node_class.link(args, attrs, outputs)
    for position, (out, (_, dtype)) in enumerate(zip(outputs, node._outs, strict=True)):
        if dtype.kind in "fc":
            out._requires_grad, out._grad_fn, out._output_nr = True, node, position


def operation(name: str) -> type[Operation]:
    """The built-in operation of that IR name. Raises KeyError."""
    return registry[name]
