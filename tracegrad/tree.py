"""Pytrees: nested dicts, lists, tuples, namedtuples and dataclasses of arrays, through optree.

optree is imported by the first call of a compiled function, since it would be a fifth of `import tracegrad`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tracegrad.ir.dims import Dim

NAMESPACE = "tracegrad"
_dataclasses: set[type] = set()


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves in order, and the structure. Dataclass instances count as containers of their fields."""
    import optree

    leaves, spec = optree.tree_flatten(tree, namespace=NAMESPACE)
    if _register_dataclasses(leaves):
        return flatten(tree)
    return leaves, spec


def unflatten(spec: Any, leaves: list[Any]) -> Any:
    """The tree of that structure with these leaves."""
    import optree

    return optree.tree_unflatten(spec, leaves)


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with `function` applied to each leaf."""
    leaves, spec = flatten(tree)
    return unflatten(spec, [function(leaf) for leaf in leaves])


def _register_dataclasses(leaves: list[Any]) -> bool:
    """Make dataclass types met as leaves containers; whether there were new ones."""
    new = {
        type(leaf) for leaf in leaves if dataclasses.is_dataclass(leaf) and not isinstance(leaf, (type, Dim))
    } - _dataclasses
    for cls in new:
        _dataclasses.add(cls)
        names = tuple(f.name for f in dataclasses.fields(cls) if f.init)

        def children(instance: Any, names: tuple[str, ...] = names) -> tuple[tuple[Any, ...], None, tuple[str, ...]]:
            return tuple(getattr(instance, n) for n in names), None, names

        def rebuild(_: None, values: Any, cls: type = cls, names: tuple[str, ...] = names) -> Any:
            return cls(**dict(zip(names, values, strict=True)))

        import optree

        optree.register_pytree_node(cls, children, rebuild, namespace=NAMESPACE)
    return bool(new)
