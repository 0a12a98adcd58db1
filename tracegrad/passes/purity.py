"""Which nodes may be dropped, merged or computed in advance."""

from __future__ import annotations

import functools

from tracegrad.function import Operation
from tracegrad.ir.graph import Node


def is_pure(node: Node) -> bool:
    """Whether the node's results depend on its inputs alone and nobody can tell how often it ran.

    A Function says so itself with a class attribute `pure`. Without one, built-in operations are pure; a user's
    Function is if it has a body and everything in it is, so a call into Python never is.
    """
    if node.bodies:
        return getattr(node.op, "pure", True) and all(is_pure(inner) for body in node.bodies for inner in body.nodes)
    return _is_pure_operation(node.op)


@functools.cache
def _is_pure_operation(op: type) -> bool:
    return bool(getattr(op, "pure", issubclass(op, Operation)))
