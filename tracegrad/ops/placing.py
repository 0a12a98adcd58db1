"""NumPy's functions that write into their first argument, copies, and positions that follow from a shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.autograd.node import type_of
from tracegrad.errors import DTypeError, ShapeError, UnsupportedError
from tracegrad.ir.dims import product
from tracegrad.numpy_protocols import implements
from tracegrad.ops.base import shape_text
from tracegrad.ops.clone import Clone
from tracegrad.ops.operands import as_shape, operand, positions, smaller
from tracegrad.ops.repeating import tile
from tracegrad.ops.select import where
from tracegrad.ops.shape import ravel, reshape
from tracegrad.ops.slicing import slice_axis
from tracegrad.tensor import Tensor


@implements(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    """The same elements in memory of their own, with their history."""
    return Clone.apply(operand(a))


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Writes `src`, which broadcasts, into the Tensor `dst`, where the mask holds. Raises DTypeError as NumPy."""
    _check_cast("np.copyto", src, dst, casting)
    _write(dst, src, where, casting)


@implements(np.putmask)
def putmask(a: Any, mask: Any, values: Any) -> None:
    """Writes into the Tensor `a`, where the mask holds, the values at the same places; fewer values repeat."""
    if isinstance(values, (Tensor, np.ndarray)) and not type_of(values).weak:
        _check_cast("np.putmask", values, a, "safe")
    v = operand(values)
    _write(a, v if v.ndim == 0 or v.shape == a.shape else resize(v, a.shape), mask, "unsafe")


def _check_cast(what: str, values: Any, target: Any, casting: str) -> None:
    """Raise DTypeError unless NumPy casts the values to the target's dtype: Python numbers have none of their own."""
    type = type_of(values)
    source: Any = np.zeros((), type.dtype)
    if type.weak:
        source = source.item() if isinstance(values, Tensor) else values
    try:
        np.copyto(np.empty((), target.dtype), source, casting)  # type: ignore[arg-type]
    except TypeError as error:
        raise DTypeError(
            f"{what} of {type.dtype} into an array of {target.dtype}, with casting={casting!r}",
            fix=f"convert the values with .astype({str(target.dtype)!r})",
        ) from error


def _write(target: Any, values: Any, mask: Any, casting: str) -> None:
    if not isinstance(target, Tensor):
        np.copyto(target, values.numpy() if isinstance(values, Tensor) else values, casting, np.asarray(mask))  # type: ignore[arg-type]
        return
    target[...] = values if mask is True else where(mask, values, target)


@implements(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Writes `val` into the main diagonal of the Tensor `a`, of two dimensions, or more of equal sizes."""
    if a.ndim < 2 or (a.ndim > 2 and len(set(a.shape)) > 1):
        raise ShapeError(f"fill_diagonal of an array of shape {shape_text(a.shape)}", fix="all sizes must be equal")
    size = smaller(a.shape[0], a.shape[1])
    if wrap and a.ndim == 2 and size != a.shape[0]:
        raise UnsupportedError("fill_diagonal with wrap in a tall matrix", fix="write the blocks one by one")
    v = operand(val)
    place = positions(size)
    a[(place,) * a.ndim] = v if v.ndim == 0 or v.shape == (size,) else resize(v, (size,))


@implements(np.resize)
def resize(a: Any, new_shape: Any) -> Any:
    """The elements in a new shape, again from the first where there are too few of them."""
    shape = as_shape(new_shape)
    flat, wanted = ravel(a), product(shape)
    if flat.shape[0] == 0:
        raise ShapeError("resize of an array without elements")
    repeats = (wanted + flat.shape[0] - 1) // flat.shape[0]
    return reshape(slice_axis(tile(flat, repeats), 0, 0, wanted), shape)


@implements(np.tril_indices_from)
def tril_indices_from(arr: Any, k: int = 0) -> Any:
    """The positions of the lower triangle."""
    return np.tril_indices(arr.shape[-2], k, arr.shape[-1])


@implements(np.triu_indices_from)
def triu_indices_from(arr: Any, k: int = 0) -> Any:
    """The positions of the upper triangle."""
    return np.triu_indices(arr.shape[-2], k, arr.shape[-1])


@implements(np.diag_indices_from)
def diag_indices_from(arr: Any) -> Any:
    """The positions of the main diagonal."""
    return np.diag_indices(arr.shape[0], arr.ndim)
