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
from tracegrad.autograd.node import AccumulateGrad, BackwardNode, Edge, as_tensor, detached, materialized
from tracegrad.autograd.operation_node import OperationNode
from tracegrad.errors import ArgumentError, AutogradError
from tracegrad.ir.types import Type, known_type
from tracegrad.state import state
from tracegrad.tensor import Tensor

_accumulating = threading.RLock()
_NUMPYS_ACTIONS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}


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
        behind: dict[BackwardNode, list[BackwardNode]] = {}
        while stack:
            node = stack.pop()
            for edge in node._edges:
                if edge is None or edge[0]._sequence < earliest:
                    continue
                behind.setdefault(edge[0], []).append(node)
                if edge[0] not in seen:
                    seen.add(edge[0])
                    stack.append(edge[0])
        needed: set[BackwardNode] = set()
        stack = list(self.positions)
        while stack:
            for node in behind.get(stack.pop(), ()):
                if node not in needed:
                    needed.add(node)
                    stack.append(node)
        return needed

    def take(self, node: BackwardNode, cotangents: list[Any]) -> bool:
        """Keep what is asked for at this node; whether the node itself has to run."""
        for position, i in self.positions.get(node, ()):
            self.found[i] = cotangents[position] = _tensor_or_none(cotangents[position])
        return node in self.needed

    def leads(self, node: BackwardNode) -> bool:
        return node in self.needed or node in self.positions


def run_backward(
    roots: Sequence[Edge], seeds: Sequence[Tensor], keep: bool, create_graph: bool, wanted: Wanted | None = None
) -> None:
    """Pull the seeds back from the root edges to the leaves, or to what is wanted.

    `keep` keeps saved values for another run; with `create_graph` the backward pass itself is recorded.

    Where nothing is to be recorded, built-in operations exchange bare ndarrays, which saves making Tensors of them;
    hooks, user Functions and results see Tensors. NumPy's warnings are for computations the user wrote, so they are
    off here (the derivative of sqrt at 0 is inf, which is no accident), but in anomaly mode.
    """
    former = state.grad_enabled
    state.grad_enabled = create_graph
    run = _Run(keep, wanted, not create_graph and state.trace is None)
    try:
        with np.errstate() if modes.anomaly else _without_warnings():
            for (node, position), seed in zip(roots, seeds, strict=True):
                if wanted is None or wanted.leads(node):
                    run.add(node, position, None if seed is None else _converted(seed, run.bare))
            del seeds, seed
            run.drain()
            run.finish_leaves()
    finally:
        state.grad_enabled = former


def _without_warnings() -> np.errstate:
    """NumPy's floating point errors are passed over; where the user set them to raise, print or call, they still do."""
    actions = np.geterr()
    if actions == _NUMPYS_ACTIONS:
        return np.errstate(all="ignore")
    return np.errstate(**{kind: "ignore" for kind, action in actions.items() if action == "warn"})


class _Run:
    """One run of the engine. `pending` holds per node its cotangent, a list of them where it has several outputs."""

    __slots__ = ("bare", "heap", "keep", "leaves", "owned", "pending", "wanted")

    def __init__(self, keep: bool, wanted: Wanted | None, bare: bool):
        self.keep, self.wanted, self.bare = keep, wanted, bare
        self.pending: dict[BackwardNode, Any] = {}
        self.leaves: dict[BackwardNode, None] = {}
        self.heap: list[tuple[int, BackwardNode]] = []
        self.owned: set[int] = set()  # ids of pending sums that this run made, hence may add to in place

    def add(self, node: BackwardNode, position: int, g: Any) -> None:
        """One more contribution to a cotangent of `node`."""
        pending = self.pending
        several = len(node._outs) != 1
        if node not in pending:
            sequence = node._sequence
            if sequence >= 0:
                heappush(self.heap, (-sequence, node))
            else:
                self.leaves[node] = None
            pending[node] = [None] * len(node._outs) if several else g
            if several:
                pending[node][position] = g
            return
        slot = pending[node]
        if several:
            slot[position] = self._sum(slot[position], g)
        else:
            pending[node] = self._sum(slot, g)
        if node in self.leaves:
            self.leaves[node] = self.leaves.pop(node)

    def _sum(self, former: Any, g: Any) -> Any:
        """In place where the former sum is this run's own and nothing is recorded."""
        if g is None or former is None:
            return g if former is None else former
        if type(former) is np.ndarray:
            if id(former) in self.owned:
                return np.add(former, g, out=former)
            total = np.add(former, g)
            if type(total) is np.ndarray:
                self.owned.add(id(total))
            return total
        from tracegrad.ops.arithmetic import Add

        return Add.apply(former, g)

    def drain(self) -> None:
        """Run the nodes. A node to which a cotangent goes is next without a stop in the heap where it was recorded
        later than all that is pending: `ahead`, with its cotangent."""
        heap, wanted, keep, bare = self.heap, self.wanted, self.keep, self.bare
        watched: Any = () if wanted is None else wanted.positions
        straight = bare and not modes.anomaly
        ahead: BackwardNode | None = None
        cotangent: Any = None
        while ahead is not None or heap:
            if ahead is None:
                node, cotangent = self._next()
            else:
                node, ahead = ahead, None
            outs: Any = node._outs
            grads = None
            if straight and type(cotangent) is np.ndarray and node not in watched:
                grads = node.run_bare(cotangent, keep)
            if grads is None:
                outs = None  # what comes may have any shape
                grads = self._run(node, cotangent if type(cotangent) is list else [cotangent])
            cotangent = None
            edges = node._edges
            if len(grads) != len(edges):
                raise _wrong_count(node, len(edges), len(grads))
            for edge, g in zip(edges, grads):
                if edge is None or (wanted is not None and not wanted.leads(edge[0])):
                    continue
                successor, slot = edge
                into = successor._outs
                shape, dtype = into[slot]
                if type(g) is not np.ndarray:
                    g = _exchanged(node, edge, g, bare)
                if g is not None and (g.dtype is not dtype or (into is not outs and g.shape != shape)):
                    g = _fitted(node, edge, g, known_type(dtype, shape))
                sequence = successor._sequence
                if sequence < 0 or len(into) != 1:
                    self.add(successor, slot, g)
                    if ahead is not None and sequence > ahead._sequence:
                        self.add(ahead, 0, cotangent)
                        ahead = None
                    continue
                if ahead is not None:
                    self.add(ahead, 0, cotangent)
                    ahead = None
                if heap and sequence <= -heap[0][0]:
                    self.add(successor, slot, g)
                else:
                    ahead, cotangent = successor, g
            g = grads = None

    def _next(self) -> tuple[BackwardNode, Any]:
        """The node of the heap that was recorded last, and its cotangent."""
        node = heappop(self.heap)[1]
        cotangent = self.pending.pop(node)
        if self.owned:
            # From here on others may hold it: a backward that hands it on, perhaps to several inputs, or its id.
            self.owned.difference_update(map(id, cotangent if type(cotangent) is list else (cotangent,)))
        return node, cotangent

    def _run(self, node: BackwardNode, cotangents: list[Any]) -> tuple[Any, ...]:
        """What the node makes of its cotangents, with its hooks; None for each edge where it need not run."""
        if not self._before(node, cotangents):
            return (None,) * len(node._edges)
        grads = _run_node(node, tuple(cotangents), self.bare)
        if not self.keep:
            node._release()
        return grads

    def _before(self, node: BackwardNode, cotangents: list[Any]) -> bool:
        """Run the hooks of the Tensors, keep what is wanted; whether the node has to run."""
        if node._hooks is not None:
            cotangents[:] = map(_tensor_or_none, cotangents)
            node._hooks.before(cotangents)
        return self.wanted is None or self.wanted.take(node, cotangents)

    def finish_leaves(self) -> None:
        """Accumulate into the leaves."""
        while self.leaves:
            leaf = next(iter(self.leaves))
            del self.leaves[leaf]
            _finish_leaf(leaf, self.pending.pop(leaf), self.wanted)


def _tensor_or_none(g: Any) -> Tensor | None:
    return g if g is None or isinstance(g, Tensor) else Tensor._wrap(np.asarray(g))


def _converted(g: Any, bare: bool) -> Any:
    """What a backward returned, as the kind of value this run exchanges."""
    if isinstance(g, Tensor):
        return g._array if bare and g._array is not None else g
    return np.asarray(g) if bare else as_tensor(g)


def _exchanged(node: BackwardNode, edge: Edge, g: Any, bare: bool) -> Any:
    """What a backward returned for an edge, as the kind of value this run exchanges; zeros where an operation gives
    None."""
    if g is not None:
        return _converted(g, bare)
    if not isinstance(node, OperationNode):
        return None
    shape, dtype = edge[0]._outs[edge[1]]
    return np.zeros(shape, dtype) if bare else materialized(None, (shape, dtype))


def _wrong_count(node: BackwardNode, expected: int, found: int) -> AutogradError:
    return AutogradError(
        f"Function {node.name()} returned an invalid number of gradients - expected {expected}, but got {found}"
    )


def _run_node(node: BackwardNode, cotangents: tuple[Any, ...], bare: bool) -> tuple[Any, ...]:
    """The node with its hooks. Nodes that are not built-in operations, and hooks, get Tensors."""
    hooks = node._hooks
    if not bare or hooks is not None or not isinstance(node, OperationNode):
        cotangents = tuple(map(_tensor_or_none, cotangents))
    if hooks is not None and hooks.pre:
        cotangents = hooks.run_pre(cotangents)
    if modes.anomaly:
        grads = _run_watched(node, cotangents)
    else:
        grads = node._run(cotangents)
    if hooks is not None and hooks.post:
        grads = hooks.run_post(tuple(map(_tensor_or_none, grads)), cotangents)
    return grads


def _run_watched(node: BackwardNode, cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        grads = node._run(cotangents)
    except Exception:
        warn_of_forward(node)
        raise
    if modes.check_nan:
        for position, g in enumerate(grads):
            array = g._array if isinstance(g, Tensor) else g
            if array is not None and array.dtype.kind in "fc" and np.isnan(array).any():
                warn_of_forward(node)
                raise nan_found(node, position, node._origin_of_nan(cotangents))
    return grads


def _fitted(node: BackwardNode, edge: Edge, g: Any, target: Type) -> Any:
    from tracegrad.ops.cotangent import fit

    if g.shape != target.shape and not expandable(target.shape, g.shape):
        position = [e is edge for e in node._edges].index(True)
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


def _finish_leaf(node: BackwardNode, g: Any, wanted: Wanted | None) -> None:
    assert isinstance(node, AccumulateGrad)
    leaf = node.variable
    meta = leaf._meta
    if meta is not None and meta.hooks and g is not None:
        g = run_tensor_hooks(meta.hooks, _tensor_or_none(g))
    if wanted is not None:
        wanted.take(node, [g])
        return
    hooks = node._hooks
    if hooks is not None:
        (g,) = hooks.run_pre((_tensor_or_none(g),))
    if g is None or not leaf._requires_grad:  # it may have been switched off since the leaf was used
        return
    accumulate(leaf, g)
    if meta is not None and meta.post_hooks:
        for hook in list(meta.post_hooks.values()):
            hook(leaf)
    if hooks is not None and hooks.post:
        hooks.run_post((), (_tensor_or_none(g),))


def accumulate(leaf: Tensor, g: Any) -> None:
    """Add `g` to `leaf.grad`: the first gradient becomes it, later ones are added in place to the same object."""
    if state.trace is not None:
        state.trace.memory.gradients.accumulate(leaf, g)
        return
    with _accumulating:
        meta = leaf._ensure_meta()
        former = meta.grad
        array = g if type(g) is np.ndarray else None if not isinstance(g, Tensor) else g._array
        if former is not None:
            if state.grad_enabled or array is None or former._array is None:
                from tracegrad.ops.arithmetic import Add

                meta.grad = Add.apply(former, as_tensor(g))
            elif former._array.flags.writeable:
                np.add(former._array, array, out=former._array)
                former._ensure_meta().version[0] += 1
            else:
                meta.grad = Tensor._wrap(former._array + array)
        elif isinstance(g, Tensor):
            if state.grad_enabled and g.requires_grad:
                meta.grad = g.clone()
            else:
                meta.grad = detached(g) if array is None else Tensor._wrap(array.copy())
        elif array is None:
            meta.grad = Tensor._wrap(np.array(g))
        else:
            meta.grad = Tensor._wrap(array if _is_unshared(array) else array.copy())


def _is_unshared(array: np.ndarray) -> bool:
    """Whether nothing but the engine refers to a gradient, so that it need not be copied.

    References are those of this parameter, of the locals of `accumulate` (two) and of `_finish_leaf`, and of
    getrefcount's argument.
    """
    return array.base is None and array.flags.c_contiguous and array.flags.writeable and sys.getrefcount(array) <= 5


def checked_inputs(inputs: Any) -> tuple[Any, ...]:
    """One Tensor or several as a tuple. Raises ArgumentError for anything else."""
    values = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    for value in values:
        if not isinstance(value, Tensor):
            raise ArgumentError(f"expected Tensors, got a {type(value).__name__}")
    return values
