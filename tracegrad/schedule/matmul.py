"""Matrix products: which become loop nests that fuse, and which stay calls of BLAS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.ir import lowering
from tracegrad.ir.dims import DimLike, product
from tracegrad.ir.graph import Node, Var
from tracegrad.records import record
from tracegrad.schedule.lanes import SHORT
from tracegrad.schedule.statements import SMALL

_OF_USERS = ("host_call", "host_backward")  # nodes that run the user's own code
TINY = 512  # products of constant sizes up to this many multiplications per matrix become nests


@record
class Space:
    """Loops of a product: batch…, m, n, k (absent ones have extent 1), and per array the loop of each of its axes."""

    extents: tuple[DimLike, ...]
    maps: tuple[tuple[int | None, ...], tuple[int | None, ...], tuple[int | None, ...]]


def space_of(a: Sequence[DimLike], b: Sequence[DimLike]) -> Space:
    """The loops of `np.matmul` on these shapes; maps are those of the result, a and b."""
    batch = _broadcast(a[:-2], b[:-2])
    rank = len(batch)
    m, n, k = rank, rank + 1, rank + 2
    rows = a[-2] if len(a) > 1 else 1
    columns = b[-1] if len(b) > 1 else 1
    out = (*range(rank), *((m,) if len(a) > 1 else ()), *((n,) if len(b) > 1 else ()))
    left = (*_batch_axes(a[:-2], rank), *((m, k) if len(a) > 1 else (k,)))
    right = (*_batch_axes(b[:-2], rank), *((k, n) if len(b) > 1 else (k,)))
    return Space((*batch, rows, columns, a[-1]), (out, left, right))


def _broadcast(a: Sequence[DimLike], b: Sequence[DimLike]) -> tuple[DimLike, ...]:
    rank = max(len(a), len(b))
    padded = [(*(1,) * (rank - len(s)), *s) for s in (a, b)]
    return tuple(q if p == 1 else p for p, q in zip(*padded, strict=True))


def _batch_axes(batch: Sequence[DimLike], rank: int) -> tuple[int | None, ...]:
    return tuple(None if d == 1 else rank - len(batch) + axis for axis, d in enumerate(batch))


def as_nest(node: Node) -> bool:
    """Whether a product is cheap or thin enough to fuse with its neighbours, or has a dtype that BLAS lacks."""
    a, b = (v.type.shape for v in node.inputs)
    if len(a) == 1 or len(b) == 1 or node.output.type.dtype not in (np.float32, np.float64):
        return True
    sizes = (a[-2], b[-1], a[-1])
    if any(d == 1 for d in sizes):
        return True
    small = [isinstance(d, int) and d <= SMALL for d in sizes]
    work = product(sizes)
    return sum(small) >= 2 or (isinstance(work, int) and work <= TINY)


def is_narrow(node: Node) -> bool:
    """Whether a node is a batch of products with two narrow sizes each, which BLAS does no better than loops that fill
    their vectors with other rows (see `lanes`)."""
    lower = node.op.lower
    if not isinstance(lower, lowering.Library) or lower.kernel != "matmul" or as_nest(node):
        return False
    a, b = (v.type.shape for v in node.inputs)
    narrow = [isinstance(d, int) and d < SHORT for d in (a[-2], b[-1], a[-1])]
    return sum(narrow) >= 2 and product(node.output.type.shape[:-2]) != 1


def fold_transposes(node: Node, source_of: Callable[[Var], Var | None]) -> tuple[tuple[Var, ...], dict[str, Any]]:
    """The operands of a BLAS call, with transposes taken into its attributes instead of copied."""
    inputs: list[Var] = []
    attrs: dict[str, Any] = dict(node.attrs)
    for var, key in zip(node.inputs, ("a_transposed", "b_transposed"), strict=True):
        source = source_of(var)
        inputs.append(var if source is None else source)
        attrs[key] = source is not None
    return tuple(inputs), attrs


@record
class HostFunction:
    """Runs a node's NumPy `forward` on ndarrays; gives a tuple of ndarrays of the node's output types.

    Compiled programs give no floating point warnings, so those of built-in operations are off here too.
    """

    node: Node

    def __call__(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return self.run(arrays, {})

    def run(self, arrays: Sequence[np.ndarray], sizes: Mapping[str, int]) -> tuple[np.ndarray, ...]:
        """In a call of these sizes, which attributes may name."""
        from tracegrad.ir.interpret import run_node

        inputs = [a.item() if v.type.weak else a for a, v in zip(arrays, self.node.inputs, strict=True)]
        with np.errstate() if self.node.name in _OF_USERS else np.errstate(all="ignore"):
            results = run_node(self.node, inputs, sizes)
        return tuple(np.asarray(r, v.type.dtype, order="C") for r, v in zip(results, self.node.outputs, strict=True))
