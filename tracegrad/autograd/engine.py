"""The backward engine: runs nodes from the latest recorded to the earliest, with a heap and without recursion.

A node's `sequence` is larger than those of all nodes its cotangents go to, so popping the largest is a topological
order and no count of dependencies is needed. Leaves have negative numbers: they accumulate after everything else, in
the order in which their last contribution arrived.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from tracegrad.autograd.hooks import run_tensor_hooks
from tracegrad.autograd.modes import modes, nan_found, warn_of_forward
from tracegrad.autograd.node import AccumulateGrad, BackwardNode, Edge, OperationNode, as_tensor, detached, materialized
from tracegrad.errors import ArgumentError, AutogradError
from tracegrad.ir.types import Type
from tracegrad.state import state
from tracegrad.tensor import Tensor

_accumulating = threading.RLock()
Pending = dict[BackwardNode, list[Any]]


class Wanted:
    """Edges whose cotangents are asked for, the nodes on the way to them, and what arrived."""

    def __init__(self, roots: Sequence[BackwardNode], edges: Sequence[Edge]):
        self.positions: dict[BackwardNode, list[tuple[int, int]]] = {}
        for i, (node, position) in enumerate(edges):
            self.positions.setdefault(node, []).append((position, i))
        self.found: list[Tensor | None] = [None] * len(edges)
        # A node can lead only to nodes that were recorded before it, and leaves count as the first.
        self.needed = self._leading_there(roots, min((n._sequence for n in self.positions), default=0))

    def _leading_there(self, roots: Sequence[BackwardNode], earliest: int) -> set[BackwardNode]:
        seen = set(roots)
        stack = list(seen)
        while stack:
            for edge in stack.pop()._edges:
                if edge is not None and edge[0] not in seen and (edge[0]._sequence >= earliest):
                    seen.add(edge[0])
                    stack.append(edge[0])
        needed: set[BackwardNode] = set()
        for node in sorted(seen, key=_sequence_of):
            if any(e is not None and (e[0] in needed or e[0] in self.positions) for e in node._edges):
                needed.add(node)
        return needed

    def take(self, node: BackwardNode, cotangents: list[Any]) -> bool:
        """Keep what is asked for at this node; whether the node itself has to run."""
        for position, i in self.positions.get(node, ()):
            self.found[i] = cotangents[position]
        return node in self.needed

    def leads(self, node: BackwardNode) -> bool:
        return node in self.needed or node in self.positions


def _sequence_of(node: BackwardNode) -> int:
    return node._sequence


def run_backward(
    roots: Sequence[Edge], seeds: Sequence[Tensor], keep: bool, create_graph: bool, wanted: Wanted | None = None
) -> None:
    """Pull the seeds back from the root edges to the leaves, or to what is wanted.

    `keep` keeps saved values for another run; with `create_graph` the backward pass itself is recorded.
    """
    pending: Pending = {}
    leaves: dict[BackwardNode, None] = {}
    heap: list[tuple[int, BackwardNode]] = []
    former = state.grad_enabled
    state.grad_enabled = create_graph
    try:
        for (node, position), seed in zip(roots, seeds, strict=True):
            if wanted is None or wanted.leads(node):
                _add(pending, leaves, heap, node, position, seed, set())
        del seeds, seed
        _drain(pending, leaves, heap, keep, wanted)
        for leaf in leaves:
            _finish_leaf(leaf, pending.pop(leaf), wanted)
    finally:
        state.grad_enabled = former


def _drain(
    pending: Pending, leaves: dict[BackwardNode, None], heap: list[Any], keep: bool, wanted: Wanted | None
) -> None:
    owned: set[int] = set()  # ids of sums that this run made, hence may add to in place
    while heap:
        node = heappop(heap)[1]
        cotangents = pending.pop(node)
        if node._hooks is not None:
            cotangents = node._hooks.before(cotangents)
        if wanted is not None and not wanted.take(node, cotangents):
            continue
        grads = _run_node(node, tuple(cotangents))
        del cotangents
        if not keep:
            node._release()
        edges = node._edges
        if len(grads) != len(edges):
            raise AutogradError(
                f"Function {node.name()} returned an invalid number of gradients - "
                f"expected {len(edges)}, but got {len(grads)}"
            )
        for i, edge in enumerate(edges):
            if edge is None or (wanted is not None and not wanted.leads(edge[0])):
                continue
            g = grads[i]
            successor, position = edge
            shape, dtype = successor._outs[position]
            if g is not None:
                if not isinstance(g, Tensor):
                    g = as_tensor(g)
                array = g._array
                if array is None or array.shape != shape or array.dtype != dtype:
                    g = _fitted(node, i, g, Type(dtype, shape))
            elif isinstance(node, OperationNode):
                g = materialized(None, successor._outs[position])
            slot = pending.get(successor)
            if slot is None:
                pending[successor] = slot = [None] * len(successor._outs)
                sequence = successor._sequence
                if sequence >= 0:
                    heappush(heap, (-sequence, successor))
                else:
                    leaves[successor] = None
                slot[position] = g
            else:
                _sum_into(slot, position, g, owned)
                if successor in leaves:
                    leaves[successor] = leaves.pop(successor)
        del grads


def _add(
    pending: Pending, leaves: dict[BackwardNode, None], heap: list[Any], node: BackwardNode, position: int,
    g: Any, owned: set[int],
) -> None:
    slot = pending.get(node)
    if slot is None:
        pending[node] = slot = [None] * len(node._outs)
        if node._sequence >= 0:
            heappush(heap, (-node._sequence, node))
        else:
            leaves[node] = None
    _sum_into(slot, position, g, owned)


def _sum_into(slot: list[Any], position: int, g: Any, owned: set[int]) -> None:
    """Add a contribution; in place where the sum is this run's own and nothing is recorded."""
    former = slot[position]
    if g is None or former is None:
        slot[position] = g if former is None else former
        return
    if former._array is not None and id(former) in owned and not state.grad_enabled:
        if g._array is not None and state.trace is None:
            np.add(former._array, g._array, out=former._array)
            return
    from tracegrad.ops.arithmetic import Add

    slot[position] = total = Add.apply(former, g)
    if total._array is not None and total._array.ndim:
        owned.add(id(total))


def _run_node(node: BackwardNode, cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
    hooks = node._hooks
    if hooks is None and not modes.anomaly:
        return node._run(cotangents)
    if hooks is not None and hooks.pre:
        cotangents = hooks.run_pre(cotangents)
    if modes.anomaly:
        grads = _run_watched(node, cotangents)
    else:
        grads = node._run(cotangents)
    if hooks is not None and hooks.post:
        grads = hooks.run_post(grads, cotangents)
    return grads


def _run_watched(node: BackwardNode, cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        grads = node._run(cotangents)
    except Exception:
        warn_of_forward(node)
        raise
    if modes.check_nan:
        for position, g in enumerate(grads):
            if isinstance(g, Tensor) and g._array is not None and g.dtype.kind in "fc" and np.isnan(g._array).any():
                warn_of_forward(node)
                raise nan_found(node, position)
    return grads


def _fitted(node: BackwardNode, position: int, g: Tensor, target: Type) -> Tensor:
    from tracegrad.ops.cotangent import fit

    if g.shape != target.shape and not expandable(target.shape, g.shape):
        raise AutogradError(
            f"Function {node.name()} returned an invalid gradient at index {position} - "
            f"got {list(g.shape)} but expected shape compatible with {list(target.shape)}",
            fix="return a gradient of the input's shape (a larger one that broadcasting would give is summed)",
        )
    return fit(g, target)


def expandable(shape: Any, other: Any) -> bool:
    """Whether broadcasting takes an array of `shape` to `other`."""
    extra = len(other) - len(shape)
    return extra >= 0 and all(a == b or a == 1 for a, b in zip(shape, other[extra:], strict=True))


def _finish_leaf(node: BackwardNode, cotangents: list[Any], wanted: Wanted | None) -> None:
    assert isinstance(node, AccumulateGrad)
    leaf = node.variable
    meta = leaf._meta
    if meta is not None and meta.hooks and cotangents[0] is not None:
        cotangents[0] = run_tensor_hooks(meta.hooks, cotangents[0])
    if wanted is not None:
        wanted.take(node, cotangents)
        return
    hooks = node._hooks
    if hooks is not None and hooks.pre:
        cotangents = list(hooks.run_pre(tuple(cotangents)))
    g = cotangents.pop()
    if g is None:
        return
    accumulate(leaf, g)
    if hooks is not None and hooks.post:
        hooks.run_post((), (g,))
    if meta is not None and meta.post_hooks:
        for hook in list(meta.post_hooks.values()):
            hook(leaf)


# References to a gradient nobody else holds, inside `accumulate`: the caller's local, the parameter, the argument of
# getrefcount; for its array: the Tensor's slot, the local, the argument.
_TENSOR_REFERENCES, _ARRAY_REFERENCES = 4, 3


def accumulate(leaf: Tensor, g: Tensor) -> None:
    """Add `g` to `leaf.grad`: the first gradient becomes it, later ones are added in place to the same object."""
    with _accumulating:
        meta = leaf._ensure_meta()
        former = meta.grad
        if former is not None:
            if state.grad_enabled or g._array is None or former._array is None:
                from tracegrad.ops.arithmetic import Add

                meta.grad = Add.apply(former, g)
            else:
                if not former._array.flags.writeable:
                    meta.grad = former = Tensor._wrap(former._array.copy())
                np.add(former._array, g._array, out=former._array)
                former._ensure_meta().version[0] += 1
            return
        array = g._array
        if state.grad_enabled and g._requires_grad:
            meta.grad = g.clone()
        elif array is None:
            meta.grad = detached(g)
        elif _is_unshared(g, array, leaf._array):
            meta.grad = Tensor._wrap(array)
        else:
            meta.grad = Tensor._wrap(array.copy(order="K"))


def _is_unshared(g: Tensor, array: np.ndarray, like: np.ndarray | None) -> bool:
    return (
        array.base is None
        and array.flags.owndata
        and array.flags.writeable
        and like is not None
        and (array.strides == like.strides or array.flags.c_contiguous)
        and sys.getrefcount(g) <= _TENSOR_REFERENCES + 1
        and sys.getrefcount(array) <= _ARRAY_REFERENCES + 1
    )


def checked_inputs(inputs: Any) -> tuple[Any, ...]:
    """One Tensor or several as a tuple. Raises ArgumentError for anything else."""
    values = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    for value in values:
        if not isinstance(value, Tensor):
            raise ArgumentError(f"expected Tensors, got a {type(value).__name__}")
    return values
