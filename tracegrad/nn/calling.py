"""Calling a module: pre-hooks, forward, forward hooks, and the backward hooks around it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tracegrad.autograd.node import BackwardNode, edge_of
from tracegrad.state import state
from tracegrad.tensor import Tensor

if TYPE_CHECKING:
    from tracegrad.nn.module import Module


def call_module(module: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What `module(*args, **kwargs)` does."""
    if "_parameters" not in module.__dict__:
        raise AttributeError(f"{type(module).__name__} was called before Module.__init__()")
    if not (module._forward_pre_hooks or module._forward_hooks or module._backward_hooks or module._backward_pre_hooks):
        return module.forward(*args, **kwargs)
    result, called = None, set()
    try:
        for key, hook in list(module._forward_pre_hooks.items()):
            args, kwargs = _run_pre_hook(module, key, hook, args, kwargs)
        watch = None
        if module._backward_hooks or module._backward_pre_hooks:
            watch = _BackwardWatch(module)
            args = watch.inputs(args)
        result = module.forward(*args, **kwargs)
        for key, hook in list(module._forward_hooks.items()):
            called.add(key)
            result = _run_hook(module, key, hook, args, kwargs, result)
        return result if watch is None else watch.outputs(result)
    except Exception:
        _run_always(module, called, args, kwargs, result)
        raise


def _run_hook(module: Module, key: int, hook: Any, args: Any, kwargs: Any, result: Any) -> Any:
    with_kwargs = module._hook_options.get(key, {}).get("with_kwargs")
    changed = hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)
    return result if changed is None else changed


def _run_always(module: Module, called: set[int], args: Any, kwargs: Any, result: Any) -> None:
    """After an exception: the hooks with `always_call` that have not been called; what they raise is a warning."""
    for key, hook in list(module._forward_hooks.items()):
        if key not in called and module._hook_options.get(key, {}).get("always_call"):
            try:
                result = _run_hook(module, key, hook, args, kwargs, result)
            except Exception as error:
                warnings.warn(f"a forward hook with always_call raised {error!r} after an exception", stacklevel=3)


def _run_pre_hook(module: Module, key: int, hook: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    if module._hook_options.get(key, {}).get("with_kwargs"):
        changed = hook(module, args, kwargs)
        return (args, kwargs) if changed is None else changed
    changed = hook(module, args)
    if changed is None:
        return args, kwargs
    return (changed if isinstance(changed, tuple) else (changed,)), kwargs


class _Passage(BackwardNode):
    """The identity on several Tensors at once, so that their cotangents are seen together."""

    def __init__(self, tensors: tuple[Tensor, ...], seen: Any):
        self._begin(tuple(map(edge_of, tensors)))
        self._outs = tuple((t.shape, t.dtype) for t in tensors)
        self._seen = seen

    def _run(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        return self._seen(cotangents)


class _BackwardWatch:
    """Puts a passage before and one after forward; the backward hooks run when cotangents pass."""

    def __init__(self, module: Module):
        self.module, self.grad_output = module, ()
        self.entered = False

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        args, self.entered = _through(args, self._at_inputs)
        return args

    def outputs(self, result: Any) -> Any:
        several = isinstance(result, tuple)
        passed, _ = _through(result if several else (result,), self._at_outputs)
        return passed if several else passed[0]

    def _at_outputs(self, cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in list(self.module._backward_pre_hooks.values()):
            changed = hook(self.module, cotangents)
            if changed is not None:
                cotangents = changed if isinstance(changed, tuple) else (changed,)
        self.grad_output = cotangents
        if not self.entered:  # no input needs a gradient: the hooks see None for them
            for hook in list(self.module._backward_hooks.values()):
                hook(self.module, (None,), cotangents)
        return cotangents

    def _at_inputs(self, cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in list(self.module._backward_hooks.values()):
            changed = hook(self.module, cotangents, self.grad_output)
            if changed is not None:
                cotangents = changed if isinstance(changed, tuple) else (changed,)
        return cotangents


def _through(values: tuple[Any, ...], seen: Any) -> tuple[tuple[Any, ...], bool]:
    """The values with those that require grad behind one passage; whether there were any."""
    tensors = tuple(v for v in values if isinstance(v, Tensor))
    if not state.grad_enabled:
        return values, False
    if state.trace is not None:
        tensors = tuple(map(state.trace.memory.own, tensors))
        differentiated = any(state.trace.depends_on_differentiated(t._var) for t in tensors)
    else:
        differentiated = any(t.requires_grad for t in tensors)
    if not differentiated:
        return values, False
    outputs = tuple(t.detach() for t in tensors) if state.trace is None else _recorded(tensors, seen)
    if any(t.requires_grad for t in tensors):
        node = _Passage(tensors, seen)
        for position, out in enumerate(outputs):
            if out.dtype.kind in "fc":
                out._requires_grad, out._grad_fn, out._output_nr = True, node, position
    remaining = iter(outputs)
    return tuple(next(remaining) if isinstance(v, Tensor) else v for v in values), True


def _recorded(tensors: tuple[Tensor, ...], seen: Any) -> tuple[Tensor, ...]:
    """The same values behind a node of the trace that the adjoint goes through."""
    from tracegrad.ops.hooked import Passage

    trace = state.trace
    assert trace is not None
    plain = [Tensor._traced(trace, trace.lift(t)) for t in tensors]  # linked by the caller
    outputs: tuple[Tensor, ...] = Passage.apply(*plain, seen=seen)
    return outputs
