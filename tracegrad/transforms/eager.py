"""Decorated functions run operation by operation: under `with tg.eager():`, and past the bound on programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad import tree
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor
from tracegrad.transforms.record import Output
from tracegrad.transforms.signature import Call, differentiated_leaves, read_call

if TYPE_CHECKING:
    from tracegrad.transforms.gradient import GradientFunction


def run_undecorated(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `function` on Tensors over the arguments' own arrays; arrays come back if no argument was a Tensor."""
    call = read_call(args, kwargs)
    wrapped, wrapped_kwargs = tree.unflatten(call.spec, [as_eager(leaf) for leaf in call.leaves])
    result = function(*wrapped, **wrapped_kwargs)
    return result if call.tensors else tree.map_leaves(to_plain, result)


def as_eager(leaf: Any) -> Any:
    """An eager Tensor over an array argument; everything else as it is."""
    return Tensor._wrap(np.asarray(leaf)) if isinstance(leaf, (np.ndarray, np.generic)) else leaf


def to_plain(leaf: Any) -> Any:
    """The array (or scalar) of a Tensor; everything else as it is."""
    if not isinstance(leaf, Tensor):
        return leaf
    return leaf._array if leaf.ndim else leaf._array[()]  # type: ignore[index]


def eager_value_and_grad(transform: GradientFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `transform` returns, by eager forward and backward."""
    from tracegrad.autograd import grad as autograd_grad
    from tracegrad.transforms.gradient import check_scalar_type, raise_unused

    call = read_call(args, kwargs)
    wrt = differentiated_leaves(call.spec, args, transform._numbers(), call.leaves)
    outer_graph = state.grad_enabled and any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in call.leaves)
    leaves = [as_eager(leaf) for leaf in call.leaves]
    for position in wrt:
        leaves[position] = _independent(call, position)
    wrapped, wrapped_kwargs = tree.unflatten(call.spec, leaves)
    with setting(grad_enabled=True):
        result = transform.function(*wrapped, **wrapped_kwargs)
    flat, spec = tree.flatten(result)
    output = Output(spec, tuple(range(len(flat))), (None,) * len(flat))
    value = flat[transform._scalar(output)]
    if not isinstance(value, Tensor):
        raise_unused(transform.function, value)
    check_scalar_type(transform.function, value.type)
    if not value.requires_grad and not transform.allow_unused:
        raise_unused(transform.function)
    wanted = [leaves[position] for position in wrt]
    if value.requires_grad:
        grads = autograd_grad(value, wanted, create_graph=outer_graph, allow_unused=True, materialize_grads=True)
    else:
        grads = tuple(Tensor._wrap(np.zeros(w.shape, w.dtype)) for w in wanted)
    if not call.tensors:
        flat, grads = [to_plain(leaf) for leaf in flat], tuple(map(to_plain, grads))
    elif not outer_graph:
        flat = [leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in flat]
    return transform._output(call.spec, args).build(output, [*flat, *grads])


def _independent(call: Call, position: int) -> Tensor:
    """A Tensor to differentiate with respect to: apart from other arguments, yet linked to an outer graph."""
    leaf = call.leaves[position]
    if isinstance(leaf, Tensor) and leaf.requires_grad and state.grad_enabled:
        from tracegrad.ops.arithmetic import Positive

        return Positive.apply(leaf)
    fresh = Tensor._wrap(leaf._array if isinstance(leaf, Tensor) else np.asarray(leaf))  # type: ignore[arg-type]
    fresh.requires_grad = True
    return fresh
