"""What the functions of this package ask of their arguments, and how they say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, DTypeError, ShapeError, TracegradIndexError
from tracegrad.ops.base import shape_text
from tracegrad.ops.creation import as_tensor
from tracegrad.state import state


def floats(x: Any, what: str) -> Any:
    """`x` as a Tensor of floats (or complex numbers). Raises DTypeError for integers and bools."""
    x = as_tensor(x)
    if x.dtype.kind not in "fc":
        raise DTypeError(f"{what} takes floats, not {x.dtype}", fix="convert the input with .astype(float)")
    return x


def with_ndim(x: Any, allowed: Sequence[int], what: str, layout: str) -> Any:
    """`x` itself if it has one of these numbers of dimensions. Raises ShapeError."""
    if x.ndim not in allowed:
        wanted = " or ".join(map(str, allowed))
        raise ShapeError(
            f"{what} takes an input of {wanted} dimensions, {layout}, not one of shape {shape_text(x.shape)}",
            fix="add or join axes with reshape",
        )
    return x


def sizes(value: Any, n: int, what: str, least: int = 1) -> tuple[int, ...]:
    """One integer for all of n axes, or one for each. Raises ArgumentError below `least`."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,) * n
    if len(given) == 1:
        given = given * n
    whole = all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in given)
    if len(given) != n or not whole or any(v < least for v in given):
        raise ArgumentError(f"{what} must be an integer of at least {least}, or a tuple of {n} of them, not {value!r}")
    return tuple(int(v) for v in given)


def indices(values: Any, size: int, what: str) -> Any:
    """Integer positions from 0 to `size` - 1 as a Tensor; unlike NumPy's, negative ones do not count from the end.

    Raises DTypeError for other dtypes, TracegradIndexError for a position outside (from a compiled program, when it
    runs).
    """
    values = as_tensor(values)
    if values.dtype.kind not in "iu":
        raise DTypeError(f"{what} must be integers, not {values.dtype}", fix="convert them with .astype(int)")
    if state.trace is not None:
        return np.where(values < 0, size, values)  # a position that whatever reads it refuses
    numbers = values._value()
    outside = (numbers < 0) | (numbers >= size)
    if outside.any():
        raise TracegradIndexError(
            f"{what}: {numbers[outside].flat[0]} is out of range", fix=f"keep them from 0 to {size - 1}"
        )
    return values


def reduced(loss: Any, reduction: str) -> Any:
    """A loss per element as its mean, its sum, or as it is ('none')."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ArgumentError(f"reduction must be 'mean', 'sum' or 'none', not {reduction!r}")


def same_shape(x: Any, target: Any, what: str) -> None:
    """Raises ShapeError where two operands differ in shape: broadcasting here is nearly always a mistake."""
    if x.shape != target.shape:
        raise ShapeError(
            f"{what}: the input has shape {shape_text(x.shape)}, the target {shape_text(target.shape)}",
            fix="give both the same shape with reshape or broadcast_to",
        )
