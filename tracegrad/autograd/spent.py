"""Leaves that eager transforms make for themselves: once a transform is done, nobody asks for their gradients.

They stay in the histories of what was computed from them, where an outer transform must not take them for leaves of the
user, whose gradients would be wanted later.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from tracegrad.tensor import Tensor

_spent: dict[int, weakref.ref[Tensor]] = {}


def spend(leaves: Iterable[Any]) -> None:
    """Note that the transform that made these leaves is done."""
    for leaf in leaves:
        key = id(leaf)
        _spent[key] = weakref.ref(leaf, lambda _, key=key: _spent.pop(key, None))  # type: ignore[misc]


def is_spent(leaf: Any) -> bool:
    """Whether a transform made this leaf and is done."""
    return id(leaf) in _spent


def reaches_others(value: Tensor, wanted: Iterable[Tensor]) -> bool:
    """Whether the history of `value` reaches leaves besides `wanted` that somebody may differentiate by."""
    inner = {id(w) for w in wanted if w.is_leaf}
    stack, seen = [value.grad_fn], set()
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        variable = getattr(node, "variable", None)
        if variable is not None and id(variable) not in inner and not is_spent(variable):
            return True
        stack.extend(successor for successor, _ in node.next_functions)
    return False
