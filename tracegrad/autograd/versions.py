"""What backward will read, checked before it runs: how a recording finds out about in-place modification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracegrad.autograd.operation_node import OperationNode
from tracegrad.tensor import Tensor


def check_saved(results: Sequence[Any]) -> None:
    """Raise AutogradError where backward from these Tensors would read a value that was modified after it was saved."""
    stack = [r.grad_fn for r in results if isinstance(r, Tensor) and r.requires_grad]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if node is None:
            continue
        if not isinstance(node, OperationNode) or node.saved is not None:
            node.check_saved()
        for edge in node._edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
