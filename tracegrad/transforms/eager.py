"""Decorated functions run operation by operation: under `with tg.eager():`, and past the bound on programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad import tree
from tracegrad.autograd.forward_ad import carries, without_history
from tracegrad.autograd.spent import reaches_others, spend
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor
from tracegrad.transforms.record import Output, call_user
from tracegrad.transforms.signature import Call, differentiated_leaves, read_call

if TYPE_CHECKING:
    from tracegrad.transforms.gradient import GradientFunction


def run_undecorated(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `function` on Tensors over the arguments' own arrays; arrays come back if there were some and no Tensor."""
    call = read_call(args, kwargs)
    tensors = call.tensors or not call.dynamic
    wrapped, wrapped_kwargs = tree.unflatten(call.spec, [as_eager(leaf) for leaf in call.leaves])
    with setting(**plain_code(tensors)):
        result = call_user(function, wrapped, wrapped_kwargs)
    return result if tensors else tree.map_leaves(plain_unless_linked, result)


def plain_code(tensors: bool) -> dict[str, Any]:
    """What is set while a function runs: whether its Tensors are arrays to it, because it was given arrays or is called
    by such a function. Then 0-d values are immutable and kept values may be overwritten (autograd/overwritten.py)."""
    plain = state.numbers or not tensors
    keepers = {} if plain and state.keepers is None else state.keepers
    return {"numbers": plain, "keepers": keepers if plain else None}


def as_eager(leaf: Any) -> Any:
    """An eager Tensor over an array argument; everything else as it is."""
    return Tensor._wrap(np.asarray(leaf)) if isinstance(leaf, (np.ndarray, np.generic)) else leaf


def to_plain(leaf: Any) -> Any:
    """The array (or scalar) of a Tensor; everything else as it is."""
    if not isinstance(leaf, Tensor):
        return leaf
    return leaf._array if leaf.ndim else leaf._array[()]  # type: ignore[index]


def plain_unless_linked(leaf: Any) -> Any:
    """Plain, but for a Tensor that a captured one gave a history or a tangent."""
    if not isinstance(leaf, Tensor) or (leaf.requires_grad and reaches_others(leaf, ())):
        return leaf
    leaf = without_history(leaf)
    return leaf if state.dual is not None and carries((leaf,)) else to_plain(leaf)


def eager_value_and_grad(transform: GradientFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `transform` returns, by eager forward and backward."""
    from tracegrad.autograd import grad as autograd_grad
    from tracegrad.transforms.gradient import check_scalar_type, raise_unused

    call = read_call(args, kwargs)
    wrt = differentiated_leaves(call.spec, args, transform._numbers(), call.leaves)
    leaves = [as_eager(leaf) for leaf in call.leaves]
    for position in wrt:
        leaves[position] = _independent(call, position)
    wrapped, wrapped_kwargs = tree.unflatten(call.spec, leaves)
    outer_grad_enabled = state.grad_enabled
    with setting(grad_enabled=True, differentiating=True, **plain_code(call.tensors)):
        result = call_user(transform.function, wrapped, wrapped_kwargs)
    flat, spec = tree.flatten(result)
    output = Output(spec, tuple(range(len(flat))), (None,) * len(flat))
    value = flat[transform._scalar(output)]
    if not isinstance(value, Tensor):
        raise_unused(transform.function, value)
    check_scalar_type(transform.function, value.type)
    if not value.requires_grad and not transform.allow_unused:
        raise_unused(transform.function)
    wanted = [leaves[position] for position in wrt]
    outer_graph = outer_grad_enabled and reaches_others(value, wanted)
    if value.requires_grad:
        grads = autograd_grad(value, wanted, create_graph=outer_graph or state.dual is not None,
            allow_unused=True, materialize_grads=True,
        )  # fmt: skip
    else:
        grads = tuple(Tensor._wrap(np.zeros(w.shape, w.dtype)) for w in wanted)
    spend(w for w in wanted if w.is_leaf)
    if state.dual is not None and not outer_graph:
        flat, grads = list(map(without_history, flat)), tuple(map(without_history, grads))
    elif not call.tensors and not outer_graph:
        flat, grads = [to_plain(leaf) for leaf in flat], tuple(map(to_plain, grads))
    elif not outer_graph:
        flat = [leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in flat]
    return transform._output(call.spec, args).build(output, [*flat, *grads])


def _independent(call: Call, position: int) -> Tensor:
    """A Tensor to differentiate with respect to: apart from other arguments, yet linked to an outer graph."""
    leaf = call.leaves[position]
    linked = isinstance(leaf, Tensor) and leaf.requires_grad and state.grad_enabled
    if linked:
        from tracegrad.ops.arithmetic import Positive

        return Positive.apply(leaf)
    fresh = Tensor._wrap(leaf._array if isinstance(leaf, Tensor) else np.asarray(leaf))  # type: ignore[arg-type]
    if state.dual is not None and isinstance(leaf, Tensor):
        from tracegrad.autograd.forward_ad import copy_tangents

        copy_tangents(leaf, fresh)
    fresh.requires_grad = True
    return fresh
