"""What of a call decides which program runs: the structure of the arguments, and of each leaf its kind and type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad import tree
from tracegrad.errors import ArgumentError, DTypeError
from tracegrad.ir.types import Type
from tracegrad.state import state
from tracegrad.tensor import Tensor, check_array

_FLOAT = np.dtype(float)


@dataclass(slots=True)
class Call:
    """One call's arguments, flattened. `dynamic` are the positions of the leaves that are array inputs.

    `pattern` are their shapes with symbols, where the call is recorded for other sizes too; of `captured` arrays too,
    which come from outside and have another size than in former calls.
    """

    leaves: list[Any]
    spec: Any
    key: tuple[Any, ...]
    dynamic: list[int]
    tensors: bool
    pattern: tuple[tuple[Any, ...], ...] | None = None
    captured: tuple[Any, ...] = ()

    def types(self) -> dict[int, Type]:
        """The types to record the dynamic leaves with."""
        types = {i: leaf_type(self.leaves[i]) for i in self.dynamic}
        if self.pattern is not None:
            for position, shape in zip(self.dynamic, self.pattern, strict=False):
                types[position] = Type(types[position].dtype, shape, types[position].weak)
        return types

    def shapes(self, captured: tuple[Any, ...] | None = None) -> tuple[tuple[int, ...], ...]:
        """The shapes of the dynamic leaves, and of the captured arrays that count."""
        leaves = self.leaves
        shapes = [getattr(leaves[i], "shape", ()) for i in self.dynamic]
        return tuple(shapes + [c.shape for c in (self.captured if captured is None else captured)])

    def family(self) -> tuple[Any, ...]:
        """The key without the sizes."""
        parts = list(self.key)
        for position in self.dynamic:
            part = parts[position + 1]
            if isinstance(part, tuple):
                parts[position + 1] = tuple([len(p) if isinstance(p, tuple) else p for p in part])
        return tuple(parts)


def read_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """Flatten and classify the arguments of a call."""
    leaves, spec = tree.flatten((args, kwargs))
    keys: list[Any] = []
    dynamic: list[int] = []
    tensors = False
    for position, leaf in enumerate(leaves):
        kind = type(leaf)
        if kind is np.ndarray:
            keys.append((leaf.dtype.num, leaf.shape) if leaf.dtype.isnative else (leaf.dtype, leaf.shape))
            check_array(leaf)
        elif isinstance(leaf, Tensor):
            tensors = True
            keys.append((Tensor, leaf.dtype.num, leaf.shape, leaf.requires_grad))
        elif kind is float or kind is complex:
            keys.append(kind)
        elif isinstance(leaf, (np.ndarray, np.generic)):
            check_array(leaf if isinstance(leaf, np.ndarray) else np.asarray(leaf))
            keys.append((leaf.dtype.num, leaf.shape))
        else:
            keys.append(static_key(leaf))
            continue
        dynamic.append(position)
    if state.steps is not None:
        keys.append(("steps", state.steps))
    return Call(leaves, spec, (spec, *keys), dynamic, tensors)


def static_key(leaf: Any) -> Any:
    """A key for a leaf that is not an array: type and value, or the object itself where it cannot be hashed."""
    try:
        hash(leaf)
    except TypeError:
        return (type(leaf), id(leaf))
    return (type(leaf), leaf)


def leaf_type(leaf: Any) -> Type:
    """The Type of a dynamic leaf."""
    if isinstance(leaf, Tensor):
        return leaf.type
    if type(leaf) is float:
        return Type(_FLOAT, (), True)
    if type(leaf) is complex:
        return Type(np.dtype(complex), (), True)
    return Type(leaf.dtype.newbyteorder("="), leaf.shape)


def differentiated_leaves(spec: Any, args: tuple[Any, ...], argnums: tuple[int, ...], leaves: list[Any]) -> list[int]:
    """The positions of the leaves a gradient is wanted for, argument by argument. Raises ArgumentError, DTypeError."""
    counts = [len(tree.flatten(a)[0]) for a in args]
    starts = [sum(counts[:i]) for i in range(len(args))]
    positions: list[int] = []
    for argnum in argnums:
        if not -len(args) <= argnum < len(args):
            raise ArgumentError(
                f"argnums asks for the gradient of positional argument {argnum}, but the call has {len(args)}",
                fix="pass that argument by position, or change argnums",
            )
        index = argnum % len(args)
        for position in range(starts[index], starts[index] + counts[index]):
            _check_differentiable(leaves[position], index)
            positions.append(position)
    if not positions:
        raise ArgumentError("there is nothing to differentiate: the arguments of argnums hold no arrays")
    return positions


FIRST_IS_SELF = "if it is the self of a method, pass argnums=1 to the decorator; else pass arrays or floats"


def is_data(leaf: Any) -> bool:
    """Whether a leaf is an array, or of a type that comes with Python; others may be the `self` of a method."""
    return hasattr(leaf, "dtype") or type(leaf).__module__ == "builtins"


def _check_differentiable(leaf: Any, argnum: int) -> None:
    dtype = getattr(leaf, "dtype", None)
    number = isinstance(leaf, (int, float, complex))
    kind = np.dtype(dtype).kind if dtype is not None else np.asarray(leaf).dtype.kind if number else "O"
    if kind in "fc":
        return
    what = f"dtype {dtype}" if dtype is not None else f"type {type(leaf).__name__}"
    if kind in "biu":
        raise DTypeError(
            f"the gradient with respect to argument {argnum} makes no sense: it has {what}, and integers do not vary",
            fix="pass floats (x.astype(float)), or leave the argument out of argnums",
        )
    raise DTypeError(
        f"the gradient with respect to argument {argnum} makes no sense: it holds a value of {what}",
        fix="pass arrays or floats, or leave the argument out of argnums" if argnum or is_data(leaf) else FIRST_IS_SELF,
    )
