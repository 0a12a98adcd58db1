"""The carry of a loop: its types before and after a step have to agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad import tree
from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.ir.types import Type
from tracegrad.ops.base import shape_text
from tracegrad.ops.casting import astype
from tracegrad.ops.clone import Clone
from tracegrad.ops.loops import Weaken
from tracegrad.tensor import Tensor

_NUMBERS = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
_RANKS = "biufc"


def type_of(leaf: Any) -> Type:
    """The type a leaf has as a value of a graph: Python numbers are weak."""
    if isinstance(leaf, Tensor):
        return leaf.type
    array = np.asarray(leaf)
    return Type(array.dtype.newbyteorder("="), array.shape, isinstance(leaf, bool | int | float | complex)
                and not isinstance(leaf, np.generic))  # fmt: skip


def joined(before: Type, after: Type) -> Type | None:
    """The type that serves both for the carry and for what a step makes of it; None if there is none.

    A Python number takes the dtype of what it becomes, as far as NumPy promotes numbers of its kind to it.
    """
    if before.shape != after.shape:
        return None
    if before == after:
        return before
    if before.weak and after.weak:
        return max(before, after, key=lambda t: _RANKS.index(t.dtype.kind))
    if before.weak or after.weak:
        strong, weak = (after, before) if before.weak else (before, after)
        dtype = np.result_type(strong.dtype, _NUMBERS[weak.dtype.kind](1))
        return Type(dtype, strong.shape) if before.weak or dtype == strong.dtype else None
    return None


def as_type(x: Any, type: Type) -> Any:
    """A leaf as a value of the carry's type, to which `joined` has found the way."""
    found = type_of(x)
    if found == type:
        return x
    if not type.weak:
        return astype(x, type.dtype)
    number = _NUMBERS[type.dtype.kind]
    return Weaken.apply(astype(x, type.dtype)) if isinstance(x, Tensor) else number(x)


def own_memory(value: Any) -> Any:
    """An eager carry that a body may modify in place without the caller's arrays changing."""

    def own(leaf: Any) -> Any:
        return Clone.apply(leaf) if isinstance(leaf, Tensor | np.ndarray) else leaf

    return tree.map_leaves(own, value)


def leaf_names(value: Any) -> list[str]:
    """Where each leaf of a tree stands, as text behind the word carry: `[0]`, `['x']`; nothing for a lone leaf."""
    import optree

    return ["".join(_entry(e) for e in path) for path in optree.tree_paths(value, namespace=tree.NAMESPACE)]


def _entry(entry: Any) -> str:
    return f"[{entry!r}]"


def check_structure(what: str, before: Any, after: Any) -> None:
    """Raises ArgumentError unless a step gives the carry back in the structure it had."""
    if before != after:
        raise ArgumentError(
            f"the carry of {what} changes its structure: it is {_structure(before)} at first, and "
            f"{_structure(after)} after a step",
            fix="return the carry from the body in the same tuples, lists and dicts as the initial one",
        )


def _structure(spec: Any) -> str:
    if spec.is_leaf():
        return "a single value"
    return str(spec).removeprefix("PyTreeSpec(").removesuffix(")").replace(", namespace='tracegrad'", "")


def join_types(what: str, names: Sequence[str], before: Sequence[Type], after: Sequence[Type]) -> tuple[Type, ...]:
    """The types of a carry. Raises ShapeError or DTypeError that names the leaf which changes."""
    found = []
    for name, a, b in zip(names, before, after, strict=True):
        type = joined(a, b)
        if type is None:
            raise _changes(what, name, a, b)
        found.append(type)
    return tuple(found)


def _changes(what: str, name: str, before: Type, after: Type) -> Exception:
    where = f"carry{name}"
    if before.shape != after.shape:
        shapes = f"from {shape_text(before.shape)} to {shape_text(after.shape)}"
        return ShapeError(
            f"{where} of {what} changes its shape {shapes} in a step",
            fix="start with an array of the shape that the body returns, for example np.zeros(...)",
        )
    return DTypeError(
        f"{where} of {what} changes its dtype from {before.dtype} to {after.dtype} in a step",
        fix=f"start with {after.dtype}, or convert what the body returns with .astype({str(before.dtype)!r})",
    )
