"""Hooks of Tensors and nodes: where they are kept, in what order they run, and the handles that remove them."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from tracegrad.errors import ArgumentError, AutogradError

_keys = itertools.count()
Hook = Callable[..., Any]


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook away; as a context manager it does so at the end."""

    def __init__(self, table: dict[int, Hook], hook: Hook):
        self.id = next(_keys)
        self._table = weakref.ref(table) if isinstance(table, HookTable) else lambda: table
        table[self.id] = hook

    def remove(self) -> None:
        """Take the hook away; a second time does nothing."""
        table = self._table()
        if table is not None:
            table.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class HookTable(dict[int, Hook]):
    """Hooks in the order they were registered; weakly referable, so that handles keep nothing alive."""

    __slots__ = ("__weakref__",)


class NodeHooks:
    """The hooks of one node: per output those of its Tensor and the Tensor that retains its gradient; pre and post."""

    __slots__ = ("post", "pre", "retain", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[int, HookTable] = {}
        self.retain: dict[int, weakref.ref[Any]] = {}
        self.pre = HookTable()
        self.post = HookTable()

    def before(self, cotangents: list[Any]) -> list[Any]:
        """Run what comes before captures and the node: Tensor hooks in order, then retained gradients."""
        for position, table in self.tensor.items():
            if cotangents[position] is not None:
                cotangents[position] = run_tensor_hooks(table, cotangents[position])
        for position, reference in self.retain.items():
            tensor = reference()
            if tensor is not None and cotangents[position] is not None:
                meta = tensor._ensure_meta()
                g = cotangents[position]
                meta.grad = g.clone() if meta.grad is None else meta.grad + g
        return cotangents

    def run_pre(self, cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
        """Node prehooks: each may replace the tuple of cotangents."""
        for hook in list(self.pre.values()):
            result = hook(cotangents)
            if result is not None:
                cotangents = _replaced(cotangents, result, hook)
        return cotangents

    def run_post(self, grads: tuple[Any, ...], cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
        """Node posthooks: each sees the gradients of the inputs and of the outputs, and may replace the former."""
        for hook in list(self.post.values()):
            result = hook(grads, cotangents)
            if result is not None:
                grads = _replaced(grads, result, hook)
        return grads


def _replaced(former: tuple[Any, ...], result: Any, hook: Hook) -> tuple[Any, ...]:
    """What a hook of a node returned in place of the gradients it was given, one for each of them."""
    values = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    if len(values) != len(former):
        raise AutogradError(
            f"hook {_name(hook)!r} has returned an incorrect number of values "
            f"(got {len(values)}, but expected {len(former)})",
            fix="return a tuple with one gradient, or None, for each that the hook was given, or nothing",
        )
    return values


def run_tensor_hooks(table: HookTable, g: Any) -> Any:
    """`g` after the hooks of its Tensor; a result that is not None replaces it."""
    from tracegrad.tensor import Tensor

    for hook in list(table.values()):
        result = hook(g)
        if result is None:
            continue
        if not isinstance(result, Tensor):
            raise ArgumentError(
                f"expected Variable, but hook returned {type(result).__name__!r}: "
                f"the hook {_name(hook)!r} must return a Tensor or None",
                fix="return the new gradient as a Tensor, or nothing to leave it as it is",
            )
        if result.shape != g.shape:
            raise AutogradError(
                f"hook {_name(hook)!r} has changed the size of value: the gradient had shape {g.shape}, "
                f"the hook returned {result.shape}",
                fix="return a gradient of the same shape",
            )
        if result.dtype != g.dtype:
            raise AutogradError(
                f"hook {_name(hook)!r} has changed the type of value: the gradient was {g.dtype}, "
                f"the hook returned {result.dtype}",
                fix=f"return a gradient of dtype {g.dtype}",
            )
        g = result
    return g


def _name(hook: Hook) -> str:
    return getattr(hook, "__name__", type(hook).__name__)
