"""`tg.autograd.function`: Function and the decorator for a backward that cannot be differentiated again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tracegrad.autograd.custom import FunctionContext as FunctionCtx
from tracegrad.autograd.node import BackwardNode, edge_of
from tracegrad.errors import AutogradError
from tracegrad.function import Function
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class NotDifferentiable(BackwardNode):
    """Where a second derivative would go through a once-differentiable backward."""

    def __init__(self, name: str, inputs: tuple[Any, ...], out: Tensor):
        self._begin()
        self._function_name = name
        self._edges = tuple(map(edge_of, inputs))
        self._outs = ((out.shape, out.dtype),)

    def _run(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        raise AutogradError(
            "trying to differentiate twice a function that was marked with @once_differentiable: "
            f"{self._function_name}",
            fix="write that backward in tracegrad operations and remove the decorator",
        )


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a `backward` not made of tracegrad operations: it runs unrecorded, and a second derivative raises."""

    @functools.wraps(backward)
    def run_once(ctx: Any, *grad_outputs: Any) -> Any:
        recording = state.grad_enabled
        with setting(grad_enabled=False):
            grads = backward(ctx, *grad_outputs)
        sources = tuple(g for g in grad_outputs if isinstance(g, Tensor) and g.requires_grad)
        if not recording or not sources:
            return grads
        several = isinstance(grads, tuple)
        marked = []
        for g in grads if several else (grads,):
            if isinstance(g, Tensor):
                out = g.detach()
                out._requires_grad, out._output_nr = True, 0
                out._grad_fn = NotDifferentiable(getattr(ctx, "name", lambda: "")(), sources, out)
                g = out
            marked.append(g)
        return tuple(marked) if several else marked[0]

    return run_once
