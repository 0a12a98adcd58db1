"""User Functions, eagerly: PyTorch's contract for `forward`, `backward` and the ctx between them.

The ctx is the backward node itself, so that attributes set on it live exactly as long as the graph. No reference goes
from it to the Tensors that `apply` returns, hence no cycle keeps them alive.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from tracegrad.autograd.context import linked
from tracegrad.autograd.modes import modes
from tracegrad.autograd.node import (
    BackwardNode,
    Packed,
    as_tensor,
    detached,
    edge_of,
    freed,
    modified,
)
from tracegrad.errors import ArgumentError, AutogradError, BackwardNotImplementedError
from tracegrad.ir.types import Type
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor

_NO_OUTPUT = ((), np.dtype(float))  # in place of shape and dtype where an output is no Tensor


class FunctionContext:
    """What `ctx` offers inside forward and setup_context, eager and traced."""

    needs_input_grad: tuple[bool, ...] = ()

    def _begin_context(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self._to_save: tuple[Any, ...] = ()
        self._for_forward: tuple[Any, ...] = ()
        self._dirty: tuple[Any, ...] = ()
        self._non_differentiable: tuple[Any, ...] = ()
        self._materialize = True

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep these Tensors (or None) for backward, which finds them in `saved_tensors`. Raises ArgumentError."""
        for position, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, (Tensor, np.ndarray)):
                raise ArgumentError(
                    f"save_for_backward can only save variables, but argument {position} is of type "
                    f"{type(tensor).__name__}",
                    fix="set anything else as an attribute: ctx.name = value",
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep these Tensors (or None) for jvp, which finds them in `saved_tensors`. Raises ArgumentError."""
        for position, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, (Tensor, np.ndarray)):
                raise ArgumentError(
                    f"save_for_forward can only save variables, but argument {position} is of type "
                    f"{type(tensor).__name__}",
                    fix="set anything else as an attribute: ctx.name = value",
                )
        self._for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs forward has modified in place; each must be an output as well."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward receives zeros (the default) or None for outputs that got no gradient."""
        self._materialize = bool(value)


class UserNode(FunctionContext, BackwardNode):
    """The backward node of one application of a user's Function, and its ctx."""

    _function: ClassVar[Any]
    _in_jvp = False

    @contextlib.contextmanager
    def in_jvp(self) -> Iterator[None]:
        """Inside, `saved_tensors` are those of save_for_forward."""
        self._in_jvp = True
        try:
            yield
        finally:
            self._in_jvp, self._for_forward = False, ()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What save_for_backward was given. Raises AutogradError if it was freed, or modified in place since."""
        if self._in_jvp:
            return self._for_forward
        if self._saved is None:
            if self._released:
                raise freed()
            return self._to_save
        found = []
        for tensor, version, edge in self._saved:
            if type(tensor) is Packed:
                tensor = tensor.unpack()
            elif isinstance(tensor, Tensor) and tensor._version != version:
                raise modified(self, tensor, version)
            if edge is not None and state.grad_enabled:
                tensor = linked(tensor, (self, edge) if isinstance(edge, int) else edge)
            found.append(tensor)
        return tuple(found)

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        return self.saved_tensors

    def _prepare(self, arguments: tuple[Any, ...], record: bool) -> None:
        self._begin(tuple(map(edge_of, arguments)) if record else (None,) * len(arguments))
        self._saved: list[Any] | None = None
        self._released = False
        self._kept_outputs: dict[int, Tensor] = {}
        self._outs = ()
        self._tensor_inputs = tuple([isinstance(a, Tensor) for a in arguments])
        self._begin_context(tuple([isinstance(a, Tensor) and a.requires_grad for a in arguments]))

    def _save(self, arguments: tuple[Any, ...], raw: tuple[Any, ...]) -> None:
        """Take over what save_for_backward was given; outputs without their history, which would be a cycle."""
        self._saved = []
        pack_hooks = modes.saved_hooks if modes.special else ()
        for tensor in self._to_save:
            edge: Any = None
            if isinstance(tensor, Tensor):
                for position, out in enumerate(raw):
                    if out is tensor and out is not None:
                        edge, tensor = position, detached(tensor)
                        break
                else:
                    edge = next((e for a, e in zip(arguments, self._edges, strict=True) if a is tensor), None)
                if pack_hooks:
                    tensor = pack_hooks[-1].pack(tensor)
            version = tensor._version if isinstance(tensor, Tensor) else 0
            self._saved.append((tensor, version, edge))
        self._to_save = ()

    def _release(self) -> None:
        if self._saved:
            self._saved, self._released = None, True

    def _run(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        if self._materialize:
            cotangents = tuple(map(_materialized, cotangents, self._outs))
        relinked = self._kept_outputs if state.grad_enabled else {}
        for position, tensor in relinked.items():
            tensor._requires_grad, tensor._grad_fn, tensor._output_nr = True, self, position
        try:
            grads = backward_of(self._function)(self, *cotangents)
        finally:
            for tensor in relinked.values():
                tensor._requires_grad, tensor._grad_fn, tensor._output_nr = False, None, 0
        return checked_gradients(self.name(), grads, self._tensor_inputs, self._edges)


def _materialized(g: Tensor | None, out: Any) -> Tensor | None:
    if g is not None or out is _NO_OUTPUT:
        return g
    from tracegrad.ops.cotangent import zeros

    return as_tensor(zeros(Type(out[1], out[0])))


def backward_of(function: Any) -> Any:
    """The backward (or vjp) of a Function class. Raises AutogradError if both are there, or neither."""
    from tracegrad.function import Function

    has_backward = function.backward is not Function.backward
    has_vjp = getattr(function, "vjp", None) not in (None, getattr(Function, "vjp", None))
    if has_backward and has_vjp:
        raise AutogradError(
            f"{function.__name__} has both 'backward' and 'vjp'; a Function must have only one of them",
            fix="remove one: they mean the same",
        )
    if has_vjp:
        return function.vjp
    if not has_backward:
        raise BackwardNotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            f"backward mode AD: {function.__name__} has neither",
            fix="write a static method backward(ctx, *grad_outputs)",
        )
    return function.backward


def checked_gradients(name: str, grads: Any, tensor_inputs: tuple[bool, ...], edges: Any) -> tuple[Any, ...]:
    """What backward returned, one value per input. Raises AutogradError (wrong count) or ArgumentError (wrong type)."""
    values = list(grads) if isinstance(grads, tuple) else [grads]
    expected = len(tensor_inputs)
    while len(values) > expected and values[-1] is None:
        values.pop()
    if len(values) != expected:
        raise AutogradError(
            f"function {name} returned an incorrect number of gradients (expected {expected}, got {len(values)})",
            fix="return one gradient, or None, per argument of forward (without ctx)",
        )
    for position, (g, is_tensor) in enumerate(zip(values, tensor_inputs, strict=True)):
        if g is None:
            continue
        if not is_tensor:
            raise AutogradError(
                f"function {name} returned a gradient different than None at position {position + 1}, "
                "but the corresponding forward input was not a Variable",
                fix="return None there",
            )
        if not isinstance(g, Tensor):
            if not isinstance(g, (np.ndarray, np.generic)):
                raise ArgumentError(
                    f"expected Variable or None (got {type(g).__name__}): what {name} returned at position "
                    f"{position + 1} is no Tensor",
                    fix="return a Tensor, an ndarray or None",
                )
            values[position] = Tensor._wrap(np.asarray(g))
    return tuple([g if e is not None else None for g, e in zip(values, edges, strict=True)])


@functools.lru_cache(maxsize=1024)
def _signature(function: Any, with_ctx: bool) -> inspect.Signature | None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    parameters = list(signature.parameters.values())
    return signature.replace(parameters=parameters[1:] if with_ctx else parameters)


def bound_arguments(
    cls: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Keyword arguments in their positions of forward's signature; keyword-only ones stay, and cannot be Tensors."""
    if not kwargs:
        return args, {}
    signature = _signature(cls.forward, not overrides_setup(cls))
    if signature is None:
        return args, dict(kwargs)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"{cls.__name__}.forward: {error}") from error
    bound.apply_defaults()
    for name, value in bound.kwargs.items():
        if isinstance(value, Tensor) and value.requires_grad:
            raise ArgumentError(
                f"the keyword-only argument {name!r} of {cls.__name__}.forward is a Tensor that requires grad, "
                "for which backward could return no gradient",
                fix="make it a positional parameter of forward",
            )
    return bound.args, bound.kwargs


def overrides_setup(cls: Any) -> bool:
    """Whether the Function has a setup_context, so that its forward takes no ctx."""
    from tracegrad.function import Function

    return cls.setup_context is not Function.setup_context


def node_class_of(cls: Any) -> type[UserNode]:
    """The class `<Name>Backward` of the Function's nodes."""
    found = cls.__dict__.get("_node_class")
    if found is None:
        found = cls._node_class = type(f"{cls.__name__}Backward", (UserNode,), {"_function": cls})
    return found


def run_forward(cls: Any, ctx: Any, arguments: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """forward with its ctx, or forward and then setup_context."""
    if not overrides_setup(cls):
        return cls.forward(ctx, *arguments, **kwargs)
    result = cls.forward(*arguments, **kwargs)
    cls.setup_context(ctx, arguments, result)
    return result


def eager_apply(cls: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run a user's Function now. Arrays without any Tensor: forward sees Tensors over them and arrays come back."""
    arguments, rest = bound_arguments(cls, args, kwargs)
    arrays_only = not any(isinstance(a, Tensor) for a in arguments)
    if arrays_only:
        arguments = tuple(
            Tensor._wrap(a) if isinstance(a, np.ndarray) and a.dtype.kind in "biufc" else a for a in arguments
        )
        arrays_only = any(isinstance(a, Tensor) for a in arguments)
    if state.in_vmap:
        from tracegrad.ops.function_rules import check_vmap_rule

        check_vmap_rule(cls)
    if state.dual is not None:
        from tracegrad.autograd.forward_ad import carries, push_function

        if carries(arguments):
            return push_function(cls, arguments, lambda *args: _applied(cls, args, rest))
    result, node = _applied(cls, arguments, rest)
    node._for_forward = ()
    if not arrays_only:
        return result
    outputs = tuple(o._array if isinstance(o, Tensor) else o for o in (result if type(result) is tuple else (result,)))
    return outputs if type(result) is tuple else outputs[0]


def _applied(cls: Any, arguments: tuple[Any, ...], rest: Mapping[str, Any]) -> tuple[Any, UserNode]:
    """What forward returned, with its history, and the ctx."""
    record = state.grad_enabled and any(isinstance(a, Tensor) and a.requires_grad for a in arguments)
    node_class = node_class_of(cls)
    node = node_class.__new__(node_class)
    node._prepare(arguments, record)
    with setting(grad_enabled=False, dual=None, in_vmap=False):
        result = run_forward(cls, node, arguments, rest)
    several = isinstance(result, tuple)
    raw = tuple(map(_as_output, result)) if several else (_as_output(result, alone=True),)
    outputs = _wrap_outputs(node, arguments, raw, record)
    if record:
        node._save(arguments, raw)
    else:
        node._saved, node._to_save = [], ()
    return (outputs if several else outputs[0]), node


def _as_output(value: Any, alone: bool = False) -> Any:
    """Arrays and NumPy numbers become Tensors, and so does a Python number where it is the only output."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (np.ndarray, np.generic)) or (alone and isinstance(value, (float, complex))):
        return Tensor._wrap(np.asarray(value))
    return value


def _wrap_outputs(node: UserNode, arguments: tuple[Any, ...], raw: tuple[Any, ...], record: bool) -> tuple[Any, ...]:
    """The outputs with their history; views, dirty inputs and inputs returned as they are by the contract."""
    inputs = {id(a) for a in arguments if isinstance(a, Tensor)}
    dirty = {id(t) for t in node._dirty}
    _check_dirty(node, inputs, raw, record)
    plain = {id(t) for t in node._non_differentiable}
    kept = _attribute_ids(node)
    node._outs = tuple([(o.shape, o.dtype) if isinstance(o, Tensor) else _NO_OUTPUT for o in raw])
    outputs: list[Any] = []
    for position, out in enumerate(raw):
        if not isinstance(out, Tensor):
            outputs.append(out)
            continue
        differentiable = record and id(out) not in plain and out.dtype.kind in "fc"
        if id(out) in dirty:
            if differentiable:
                from tracegrad.autograd.inplace import rebase_history

                rebase_history(out, node, position)
        elif id(out) in inputs:
            if overrides_setup(node._function) and any(t is out for t in node._to_save):
                raise saved_as_is()
            out = _history(_view_of(out), node, position) if differentiable else _view_of(out)
        elif differentiable:
            if id(out) in kept or out._grad_fn is not None or out._requires_grad or any(out is o for o in outputs):
                if id(out) in kept:
                    node._kept_outputs[position] = out
                out = detached(out)
            out = _history(out, node, position)
        outputs.append(out)
    return tuple(outputs)


def saved_as_is() -> AutogradError:
    return AutogradError(
        "an input that has been returned as-is as output is being saved for backward, which is not supported together "
        "with setup_context",
        fix="return a copy of the input instead: x.clone()",
    )


def _history(out: Tensor, node: UserNode, position: int) -> Tensor:
    meta = out._meta
    if meta is not None and meta.base is not None:
        meta.view_reason = "custom"
    out._requires_grad, out._grad_fn, out._output_nr = True, node, position
    return out


def _view_of(tensor: Tensor) -> Tensor:
    """The same memory as a view that must not be modified in place."""
    out = detached(tensor)
    meta = out._ensure_meta()
    origin = tensor._ensure_meta()
    meta.base = tensor if origin.base is None else origin.base
    meta.view_version, meta.view_reason = meta.version[0], "custom"
    return out


def _attribute_ids(node: UserNode) -> set[int]:
    """Identities of the Tensors among ctx's attributes, also one level inside lists, tuples and dicts."""
    found: set[int] = set()
    for name, value in node.__dict__.items():
        if isinstance(value, Tensor):
            found.add(id(value))
        elif not name.startswith("_") and isinstance(value, (list, tuple, dict)):
            values = value.values() if isinstance(value, dict) else value
            found.update(id(v) for v in values if isinstance(v, Tensor))
    return found


def _check_dirty(node: UserNode, inputs: set[int], raw: tuple[Any, ...], record: bool) -> None:
    for tensor in node._dirty:
        if id(tensor) not in inputs:
            warnings.warn(
                "ctx.mark_dirty() received a tensor that was not an input. Only inputs that forward has modified in "
                "place should be passed to it",
                UserWarning,
                stacklevel=4,
            )
        if not any(o is tensor for o in raw):
            raise AutogradError(
                "Some elements marked as dirty during the forward method were not returned as output: inputs that are "
                "modified in place must all be outputs of the Function",
                fix="return the modified input",
            )
        if record and tensor._grad_fn is None and tensor._requires_grad:
            raise AutogradError(
                f"a leaf Variable that requires grad has been used in an in-place operation, by {node.name()[:-8]}",
                fix="apply the Function to a copy: x.clone()",
            )
        tensor._ensure_meta().version[0] += 1
