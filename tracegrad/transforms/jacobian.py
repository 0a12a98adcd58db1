"""Jacobians, Hessians and Hessian-vector products, from jvp, vjp and vmap."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad import tree
from tracegrad.errors import ArgumentError, DTypeError
from tracegrad.ir.dims import product
from tracegrad.ops.casting import astype
from tracegrad.ops.comparison import equal
from tracegrad.ops.creation import dimension
from tracegrad.ops.operands import positions
from tracegrad.ops.shape import expand_dims, reshape
from tracegrad.transforms.compiled import CompiledFunction
from tracegrad.transforms.forward import JvpFunction, fitted_tangents, jvp
from tracegrad.transforms.gradient import GradientFunction
from tracegrad.transforms.pullback import VjpFunction
from tracegrad.transforms.signature import FIRST_IS_SELF, is_data, leaf_type
from tracegrad.transforms.transformed import of_function
from tracegrad.transforms.vectorize import BatchedFunction

Argnums = int | Sequence[int]


class JacobianFunction(CompiledFunction):
    """What jacrev, jacfwd and hessian return; pickled by its name, or by the call that made it."""

    def __init__(
        self, make: Callable[..., Any], fun: Callable[..., Any], argnums: Argnums, has_aux: bool,
        function: Callable[..., Any],
    ):  # fmt: skip
        super().__init__(function)
        self.made = make, (fun, argnums, has_aux)
        for name in ("__module__", "__qualname__"):
            if hasattr(fun, name):
                setattr(self, name, getattr(fun, name))

    def __reduce_ex__(self, protocol: Any) -> Any:
        by_name = super().__reduce_ex__(protocol)
        return by_name if isinstance(by_name, str) else self.made


def jacrev(fun: Callable[..., Any] | None = None, argnums: Argnums = 0, has_aux: bool = False) -> Any:
    """A compiled function that gives the Jacobian of `fun`, one row per element of the value (reverse mode).

    argnums: the positional argument, or the tuple of them, to differentiate; each may be a pytree of float arrays.
    has_aux: `fun` returns `(value, aux)`; the result is then `(jacobian, aux)`.

    For a value of shape s and an argument of shape t the Jacobian has shape s + t. Containers nest: those of the value
    outside, a tuple for several argnums and those of the argument inside. The derivative of a complex value with
    respect to anything but complex arguments needs `jacfwd`. Raises DTypeError for integer arguments.
    """
    if fun is None:
        return functools.partial(jacrev, argnums=argnums, has_aux=has_aux)
    return JacobianFunction(jacrev, fun, argnums, has_aux, _named(_reverse(fun, argnums, has_aux), fun, "jacrev"))


def jacfwd(fun: Callable[..., Any] | None = None, argnums: Argnums = 0, has_aux: bool = False) -> Any:
    """The same as `jacrev` by forward mode, one column per element of the arguments: better for few of them."""
    if fun is None:
        return functools.partial(jacfwd, argnums=argnums, has_aux=has_aux)
    return JacobianFunction(jacfwd, fun, argnums, has_aux, _named(_forward(fun, argnums, has_aux), fun, "jacfwd"))


jacobian = jacrev


def hessian(fun: Callable[..., Any] | None = None, argnums: Argnums = 0, has_aux: bool = False) -> Any:
    """A compiled function that gives the matrix of second derivatives: `jacfwd(jacrev(fun))`."""
    if fun is None:
        return functools.partial(hessian, argnums=argnums, has_aux=has_aux)
    outer = _forward(_reverse(fun, argnums, has_aux), argnums, has_aux)
    return JacobianFunction(hessian, fun, argnums, has_aux, _named(outer, fun, "hessian"))


def hvp(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """The Hessian of a scalar function times `tangents`, without the matrix: forward mode over the gradient.

    primals, tangents: as for `jvp`. Gives what has the structure of `primals[0]` if that is the only one, else a tuple;
    with has_aux the pair of it and aux.
    """
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    gradient = of_function(
        fun, ("hvp", argnums, has_aux), lambda: GradientFunction(fun, argnums, has_aux, False, False)
    )
    result = jvp(gradient, primals, tangents, has_aux)
    return result[1:] if has_aux else result[1]


def _named(function: Callable[..., Any], fun: Callable[..., Any], kind: str) -> Callable[..., Any]:
    function.__name__ = f"{kind}_{getattr(fun, '__name__', 'function')}"
    function.__doc__ = fun.__doc__
    function.__wrapped__ = fun  # type: ignore[attr-defined]
    return function


def _chosen(argnums: Argnums, args: tuple[Any, ...]) -> tuple[int, ...]:
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise ArgumentError(
                f"argnums asks for positional argument {number}, but the call has {len(args)}",
                fix="pass that argument by position, or change argnums",
            )
    return tuple(n % len(args) for n in numbers)


def _partial(fun: Callable[..., Any], numbers: tuple[int, ...], args: tuple[Any, ...], kwargs: Any) -> Any:
    """`fun` as a function of the chosen arguments alone."""

    def chosen(*values: Any) -> Any:
        replaced = list(args)
        for number, value in zip(numbers, values, strict=True):
            replaced[number] = value
        return fun(*replaced, **kwargs)

    return _named(chosen, fun, "partial")


def _leaves_of(value: Any, what: str) -> tuple[list[Any], Any]:
    """The leaves, as arrays or Tensors, and the structure. Raises DTypeError for what is not a float."""
    leaves, spec = tree.flatten(value)
    for leaf in leaves:
        if isinstance(leaf, (float, complex)) or (hasattr(leaf, "dtype") and leaf.dtype.kind in "fc"):
            continue
        found = f"dtype {leaf.dtype}" if hasattr(leaf, "dtype") else f"type {type(leaf).__name__}"
        fix = "convert it to float" if what != "an argument" or is_data(leaf) else FIRST_IS_SELF
        raise DTypeError(f"a Jacobian of {what} of {found} makes no sense", fix=fix)
    return leaves, spec


def _basis(leaves: Sequence[Any]) -> list[Any]:
    """Per leaf one row for each element of all leaves: the unit vectors of the flattened leaves."""
    types = [leaf_type(leaf) for leaf in leaves]
    sizes: list[Any] = [t.size for t in types]
    total, start, basis = sum(sizes), 0, []
    for size, t in zip(sizes, types, strict=True):
        if not isinstance(total, int):
            ones = equal(expand_dims(positions(total), 1), positions(size) + dimension(start))
            basis.append(reshape(astype(ones, t.dtype), (total, *t.shape)))
            start += size
            continue
        rows = np.zeros((total, size), t.dtype)
        rows[start : start + size] = np.eye(size, dtype=t.dtype)
        basis.append(rows.reshape((total, *t.shape)))  # type: ignore[arg-type]
        start += size
    return basis


def _split(rows: Any, leaves: Sequence[Any], axis: int) -> list[Any]:
    """Rows of the basis along `axis`, parted and shaped as the leaves they belong to."""
    parts, start = [], 0
    for leaf in leaves:
        shape = leaf_type(leaf).shape
        size: Any = product(shape)
        index = (slice(None),) * axis + (slice(start, start + size),)
        part = rows[index]
        parts.append(part.reshape((*part.shape[:axis], *shape, *part.shape[axis + 1 :])))
        start += size
    return parts


def _reverse(fun: Callable[..., Any], argnums: Argnums, has_aux: bool) -> Callable[..., Any]:
    def jacobian_by_rows(*args: Any, **kwargs: Any) -> Any:
        numbers = _chosen(argnums, args)
        values = tuple(args[n] for n in numbers)
        _leaves_of(values, "an argument")
        out, pull, *aux = VjpFunction(_partial(fun, numbers, args, kwargs), has_aux)(*values)
        leaves, spec = _leaves_of(out, "a value")
        if any(leaf_type(leaf).dtype.kind == "c" for leaf in leaves):
            raise DTypeError("jacrev gives derivatives of real values; this one is complex", fix="use jacfwd")

        def pulled(*seeds: Any) -> Any:
            return pull(tree.unflatten(spec, list(seeds)))

        rows = BatchedFunction(pulled, 0, 0)(*_basis(leaves))
        flat, inner = tree.flatten(rows if isinstance(argnums, Sequence) else rows[0])
        columns = [_split(g, leaves, 0) for g in flat]
        by_value = [tree.unflatten(inner, [c[i] for c in columns]) for i in range(len(leaves))]
        result = tree.unflatten(spec, by_value)
        return (result, *aux) if has_aux else result

    return jacobian_by_rows


def _forward(fun: Callable[..., Any], argnums: Argnums, has_aux: bool) -> Callable[..., Any]:
    def jacobian_by_columns(*args: Any, **kwargs: Any) -> Any:
        numbers = _chosen(argnums, args)
        values = tuple(args[n] for n in numbers)
        leaves, spec = _leaves_of(values, "an argument")
        push = JvpFunction(_partial(fun, numbers, args, kwargs), has_aux)

        def pushed(*seeds: Any) -> Any:
            return push(values, fitted_tangents(values, tree.unflatten(spec, list(seeds))))

        out_axes = (None, -1, None) if has_aux else (None, -1)
        value, tangents, *aux = BatchedFunction(pushed, 0, out_axes)(*_basis(leaves))
        _leaves_of(value, "a value")
        flat, outer = tree.flatten(tangents)
        by_value = []
        for g in flat:
            parts = tree.unflatten(spec, _split(g, leaves, np.ndim(g) - 1))
            by_value.append(parts if isinstance(argnums, Sequence) else parts[0])
        result = tree.unflatten(outer, by_value)
        return (result, *aux) if has_aux else result

    return jacobian_by_columns
