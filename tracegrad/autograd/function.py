"""`tg.autograd.function`: Function and the decorator for a backward that cannot be differentiated again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tracegrad.autograd.node import BackwardNode, edge_of
from tracegrad.autograd.user_node import FunctionContext as FunctionCtx
from tracegrad.function import Function
from tracegrad.ops.once import Once, differentiated_twice
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class NotDifferentiable(BackwardNode):
    """Where a second derivative would go through a once-differentiable backward."""

    def __init__(self, name: str, inputs: tuple[Any, ...], out: Tensor):
        self._begin(tuple(map(edge_of, inputs)))
        self._function_name = name
        self._outs = ((out.shape, out.dtype),)

    def _run(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        raise differentiated_twice(self._function_name)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a `backward` not made of tracegrad operations: it runs unrecorded, and a second derivative raises."""

    @functools.wraps(backward)
    def run_once(ctx: Any, *grad_outputs: Any) -> Any:
        if state.trace is not None:
            return _changed(backward(ctx, *grad_outputs), lambda g: Once.apply(g, function=ctx.name()))
        recording = state.grad_enabled
        with setting(grad_enabled=False):
            grads = backward(ctx, *grad_outputs)
        sources = tuple(g for g in grad_outputs if isinstance(g, Tensor) and g.requires_grad)
        if not recording or not sources:
            return grads
        return _changed(grads, lambda g: _marked(g, ctx.name(), sources))

    return run_once


def _changed(grads: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The gradients with `change` applied to each Tensor among them."""
    several = isinstance(grads, tuple)
    changed = tuple(change(g) if isinstance(g, Tensor) else g for g in (grads if several else (grads,)))
    return changed if several else changed[0]


def _marked(g: Tensor, name: str, sources: tuple[Tensor, ...]) -> Tensor:
    out = g.detach()
    out._requires_grad, out._output_nr, out._grad_fn = True, 0, NotDifferentiable(name, sources, out)
    return out
