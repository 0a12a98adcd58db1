"""What backward will read, checked before it runs: how a recording finds out about in-place modification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracegrad.autograd.node import OperationNode, modified
from tracegrad.tensor import Tensor


def check_saved(results: Sequence[Any]) -> None:
    """Raise AutogradError where backward from these Tensors would read a value that was modified after it was saved."""
    stack = [r.grad_fn for r in results if isinstance(r, Tensor) and r.requires_grad]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if node is None:
            continue
        if isinstance(node, OperationNode) and node.saved is not None:
            kept = (*node.saved, *(node.saved_outputs or ()))
            for value, version in zip(kept, node.versions, strict=False):
                if isinstance(value, Tensor) and value._version != version:
                    raise modified(node, value, version)
        for edge in node._edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
