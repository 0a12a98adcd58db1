"""How built-in operations take all rows of a batch at once: one rule per kind.

A rule gets the node, its operands for all rows (`flags` says which have the rows on a new first axis) and the number of
rows; it returns the node's outputs, all with rows, or None where it has no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracegrad.function import registry
from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Node
from tracegrad.ir.lowering import Elementwise, Reduction
from tracegrad.ops.arithmetic import Mul
from tracegrad.ops.base import ElementwiseOperation
from tracegrad.ops.casting import astype
from tracegrad.ops.linalg import MatMul
from tracegrad.ops.reduction import Sum
from tracegrad.ops.shape import BroadcastTo, Reshape, Transpose
from tracegrad.state import state
from tracegrad.tensor import Tensor

Rule = Callable[[Node, tuple[Tensor, ...], tuple[bool, ...], DimLike], Sequence[Tensor] | None]


def _apply(node: Node, operands: Sequence[Any], **attrs: Any) -> Sequence[Tensor]:
    result = state.trace.apply(node.op, tuple(operands), attrs)  # type: ignore[union-attr]
    return result if isinstance(result, tuple) else (result,)


def _aligned(x: Tensor, flag: bool, ndim: int) -> Tensor:
    """The operand with `ndim` axes behind the rows, those that are missing put right after them."""
    if not flag or x.ndim - 1 == ndim:
        return x
    rows, *rest = x.shape
    return Reshape.apply(x, shape=(rows, *(1,) * (ndim - len(rest)), *rest))  # type: ignore[no-any-return]


def _with_rows(x: Tensor, flag: bool, size: DimLike) -> Tensor:
    """The operand repeated for each row where it has none."""
    return x if flag else BroadcastTo.apply(x, shape=(size, *x.shape))


def elementwise(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike) -> Sequence[Tensor]:
    out = node.outputs[0].type
    operands = []
    for x, flag, var in zip(tensors, flags, node.inputs, strict=True):
        if flag and var.type.weak and out.dtype.kind != "b":
            x = astype(x, out.dtype)  # rows of Python numbers, which leave the dtype to their partners
        operands.append(_aligned(x, flag, out.ndim))
    return _apply(node, operands, **node.attrs)


def python_number(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike) -> Sequence[Tensor]:
    return tensors


def along_axes(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike) -> Sequence[Tensor]:
    """Reductions, running results, sorting, joining: the axes move back by one."""
    attrs = dict(node.attrs)
    axis = attrs["axis"]
    attrs["axis"] = tuple(a + 1 for a in axis) if isinstance(axis, tuple) else axis + 1
    return _apply(node, [_with_rows(x, f, size) for x, f in zip(tensors, flags, strict=True)], **attrs)


def on_last_axes(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike) -> Sequence[Tensor]:
    """Operations on the last axes (matrices, windows, diagonals): further leading axes are all the same to them."""
    return _apply(node, [_with_rows(x, f, size) for x, f in zip(tensors, flags, strict=True)], **node.attrs)


def reshape(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike) -> Sequence[Tensor]:
    return _apply(node, tensors, shape=(size, *node.attrs["shape"]))


def broadcast_to(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike) -> Sequence[Tensor]:
    shape = node.attrs["shape"]
    return _apply(node, [_aligned(tensors[0], True, len(shape))], shape=(size, *shape))


def transpose(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike) -> Sequence[Tensor]:
    return _apply(node, tensors, axes=(0, *(a + 1 for a in node.attrs["axes"])))


_WHOLE = {"start": 0, "step": 1}


def slices(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike) -> Sequence[Tensor]:
    """slice, unslice and slice_update: all of the new first axis."""
    attrs = {
        name: (size if name in ("size", "shape") else _WHOLE[name], *value) if name != "fill" else value
        for name, value in node.attrs.items()
    }
    return _apply(node, [_with_rows(x, f, size) for x, f in zip(tensors, flags, strict=True)], **attrs)


def matmul(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike) -> Sequence[Tensor] | None:
    a, b = tensors
    ndims = tuple(v.type.ndim for v in node.inputs)
    if flags == (True, False) and ndims[0] <= 2 and ndims[1] == 2:
        return (MatMul.apply(a, b),)  # rows of vectors are a matrix
    out = node.outputs[0].type
    if ndims == (1, 1):
        if flags == (True, True) and out.dtype.kind != "b":
            return (Sum.apply(Mul.apply(a, b), axis=(1,), keepdims=False, dtype=out.dtype),)
        if flags != (True, True):
            return (MatMul.apply(a, b) if flags[0] else MatMul.apply(b, a),)
    if flags == (False, True) and ndims == (2, 1):
        return (MatMul.apply(b, Transpose.apply(a, axes=(1, 0))),)
    if ndims[0] == 1:
        a = Reshape.apply(a, shape=(*a.shape[:-1], 1, a.shape[-1]))
    if ndims[1] == 1:
        b = Reshape.apply(b, shape=(*b.shape, 1))
    ndim = max(2, *ndims)
    product = MatMul.apply(_aligned(a, flags[0], ndim), _aligned(b, flags[1], ndim))
    return (product if product.ndim == out.ndim + 1 else Reshape.apply(product, shape=(size, *out.shape)),)


def solve(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike) -> Sequence[Tensor]:
    ndim = max(v.type.ndim for v in node.inputs)
    return _apply(node, [_aligned(x, f, ndim) for x, f in zip(tensors, flags, strict=True)], **node.attrs)


def gather(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike) -> Sequence[Tensor] | None:
    x, *indices = tensors
    if not flags[0]:
        return _apply(node, [x, *(_with_rows(i, f, size) for i, f in zip(indices, flags[1:], strict=True))])
    return None if len(indices) > 8 else _apply(node, [x, *_row_indices(indices, flags[1:], size)])


def scatter_add(
    node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike
) -> Sequence[Tensor] | None:
    x, *indices = tensors
    if len(indices) > 8:
        return None
    rows = _row_indices(indices, flags[1:], size)
    return _apply(node, [_with_rows(x, flags[0], size), *rows], shape=(size, *node.attrs["shape"]))


def write(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike) -> Sequence[Tensor] | None:
    x, value, *indices = tensors
    if len(indices) > 7:
        return None
    x, value = _with_rows(x, flags[0], size), _with_rows(value, flags[1], size)
    rows = _row_indices(indices, flags[2:], size) if indices else []
    axes = (0, *(a + 1 for a in node.attrs["axes"])) if indices else ()
    attrs = {
        "axes": axes,
        "extents": (size, *node.attrs["extents"]) if indices else (),
        "start": (0, *node.attrs["start"]),
        "step": (1, *node.attrs["step"]),
    }
    return _apply(node, [x, value, *rows], **attrs, add=node.attrs["add"])


def last_writes(
    node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike
) -> Sequence[Tensor] | None:
    value, *indices = tensors
    if len(indices) > 8:
        return None
    rows = _row_indices(indices, flags[1:], size)
    return _apply(node, [_with_rows(value, flags[0], size), *rows], shape=(size, *node.attrs["shape"]))


def _row_indices(indices: Sequence[Tensor], flags: Sequence[bool], size: DimLike) -> list[Tensor]:
    """Index arrays for all rows, preceded by one that says which row it is."""
    from tracegrad.ops.operands import positions

    expanded = [_with_rows(i, f, size) for i, f in zip(indices, flags, strict=True)]
    shape = expanded[0].shape
    number = Reshape.apply(positions(size), shape=(size, *(1,) * (len(shape) - 1)))
    return [BroadcastTo.apply(number, shape=shape) if len(shape) > 1 else number, *expanded]


def _rule_of(name: str, operation: Any) -> Rule | None:
    if isinstance(operation.lower, Elementwise) or issubclass(operation, ElementwiseOperation) or name == "imag":
        return elementwise
    return along_axes if isinstance(operation.lower, Reduction) else None


RULES: dict[str, Rule] = {
    name: rule for name, operation in registry.items() if (rule := _rule_of(name, operation)) is not None
}
RULES |= dict.fromkeys(
    ("cumulative_sum", "cumulative_product", "cumulative_extreme", "linear_recurrence", "argsort", "concatenate",
     "fourier", "real_fourier", "inverse_real_fourier"),
    along_axes,
)  # fmt: skip
RULES |= dict.fromkeys(
    ("diagonal", "diagonal_place", "window_pick", "window_put", "inv", "det", "cofactors", "logabsdet", "det_sign",
     "cholesky", "expm", "eigh", "svd", "qr", "pinv", "phase_free", "factor_values"),
    on_last_axes,
)  # fmt: skip
RULES |= dict.fromkeys(("slice", "unslice", "slice_update"), slices)
RULES |= {
    "broadcast_to": broadcast_to,
    "gather": gather,
    "last_writes": last_writes,
    "matmul": matmul,
    "python_number": python_number,
    "weaken": python_number,
    "reshape": reshape,
    "scatter_add": scatter_add,
    "solve": solve,
    "solve_triangular": solve,
    "cholesky_adjoint": solve,
    "transpose": transpose,
    "write": write,
}
