"""User Functions, eagerly: PyTorch's contract for what `apply` does with `forward` and its results."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from tracegrad.autograd.node import detached
from tracegrad.autograd.user_node import NO_OUTPUT, UserNode
from tracegrad.errors import ArgumentError, AutogradError
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor


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
    node._outs = tuple([(o.shape, o.dtype) if isinstance(o, Tensor) else NO_OUTPUT for o in raw])
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
        meta = tensor._ensure_meta()
        if record and meta.base is not None:
            from tracegrad.autograd.inplace import _check_history

            _check_history(tensor)
        meta.version[0] += 1
