"""Linear maps, and tables of vectors indexed by integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError, UnsupportedError
from tracegrad.nn.functional.arguments import floats, indices
from tracegrad.ops.base import shape_text
from tracegrad.ops.creation import as_tensor
from tracegrad.ops.stop import stop_gradient
from tracegrad.state import setting


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """`input @ weight.T + bias`: input (…, in), weight (out, in) or (in,), bias (out,); the result is (…, out).

    Raises ShapeError where the sizes do not fit, DTypeError for integers.
    """
    x, weight = floats(input, "linear"), floats(weight, "linear")
    if x.ndim == 0 or weight.ndim not in (1, 2) or x.shape[-1] != weight.shape[-1]:
        wanted = f" of size {weight.shape[-1]}" if weight.ndim else ""
        raise ShapeError(
            f"linear: an input of shape {shape_text(x.shape)} does not fit a weight of shape "
            f"{shape_text(weight.shape)} (out, in)",
            fix=f"the last axis of the input must be{wanted}",
        )
    out = x @ weight.T
    return out if bias is None else out + bias


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """`out[…, k] = input1[…, i] weight[k, i, j] input2[…, j] + bias[k]`.

    input1 (…, in1), input2 (…, in2), weight (out, in1, in2), bias (out,); the result is (…, out).
    """
    x, y, weight = floats(input1, "bilinear"), floats(input2, "bilinear"), floats(weight, "bilinear")
    fits = weight.ndim == 3 and x.ndim == y.ndim > 0 and x.shape[:-1] == y.shape[:-1]
    if not fits or (x.shape[-1], y.shape[-1]) != tuple(weight.shape[1:]):
        raise ShapeError(
            f"bilinear: inputs of shapes {shape_text(x.shape)} and {shape_text(y.shape)} do not fit a weight of shape "
            f"{shape_text(weight.shape)} (out, in1, in2)",
            fix="give both inputs the same leading axes, and last axes of sizes in1 and in2",
        )
    out_size, size1, size2 = weight.shape
    mapped = (x.reshape((-1, size1)) @ weight.transpose(1, 0, 2).reshape((size1, out_size * size2))).reshape(
        (-1, out_size, size2)
    )
    out = (mapped @ y.reshape((-1, size2, 1))).reshape((*x.shape[:-1], out_size))
    return out if bias is None else out + bias


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """The rows of `weight` (count, size) at integer positions; the result is (*input.shape, size).

    The row `padding_idx` gets no gradient. Rows read whose norm exceeds `max_norm` are scaled down to it in place.
    Raises TracegradIndexError for positions outside 0 … count - 1.
    """
    if scale_grad_by_freq or sparse:
        raise UnsupportedError("embedding has neither scale_grad_by_freq nor sparse gradients", fix="leave them False")
    weight = as_tensor(weight)
    if weight.ndim != 2:
        raise ShapeError(f"embedding takes a weight of shape (count, size), not {shape_text(weight.shape)}")
    places = indices(input, weight.shape[0], "the indices of embedding")
    if max_norm is not None:
        _limit_rows(weight, places, max_norm, norm_type)
    rows = weight[places]
    if padding_idx is None:
        return rows
    row = _padding_row(padding_idx, weight.shape[0])
    return np.where((places == row)[..., None], stop_gradient(rows), rows)


def _padding_row(padding_idx: int, count: int) -> int:
    if not -count <= padding_idx < count:
        raise ArgumentError(f"padding_idx {padding_idx} is outside of an embedding with {count} rows")
    return padding_idx % count


def _limit_rows(weight: Any, places: Any, max_norm: float, norm_type: float) -> None:
    with setting(grad_enabled=False):
        norms = np.linalg.norm(weight.detach(), norm_type, axis=1)
        read = (places.reshape((-1, 1)) == np.arange(weight.shape[0])).any(axis=0)
        scale = np.where(read & (norms > max_norm), max_norm / (norms + 1e-7), 1.0)
        weight.mul_(scale[:, None])


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """int64 rows that are 1 at the given class and 0 elsewhere: (*tensor.shape, num_classes).

    Without `num_classes` it is the largest class + 1. Raises TracegradIndexError for a class outside.
    """
    classes = as_tensor(tensor)
    if num_classes == -1:
        if classes.size == 0:
            raise ArgumentError("one_hot cannot tell the number of classes of no values", fix="pass num_classes")
        num_classes = int(classes.max()) + 1
    if num_classes < 1:
        raise ArgumentError(f"one_hot: num_classes must be positive, got {num_classes}")
    numbers = as_tensor(np.arange(num_classes))
    chosen = numbers[indices(classes, num_classes, "the classes of one_hot")]  # reading refuses what is out of range
    return (chosen[..., None] == numbers).astype(np.int64)
