"""PyTorch's methods that pick, put and rearrange elements, and its fused sums of products. Attached on import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tracegrad.autograd.inplace import apply_inplace
from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ops import index_writes, taking
from tracegrad.ops.base import normalize_axis
from tracegrad.ops.diagonal import diag
from tracegrad.ops.shape import moveaxis
from tracegrad.tensor import Tensor


class TopK(NamedTuple):
    """What `topk` returns."""

    values: Tensor
    indices: Tensor


def softmax(self: Tensor, dim: int | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`, without overflow."""
    from tracegrad.scipy import special

    return special.softmax(self, axis=dim)


def log_softmax(self: Tensor, dim: int | None = None) -> Tensor:
    """log(softmax(x)) along `dim`, without its underflow."""
    from tracegrad.scipy import special

    return special.log_softmax(self, axis=dim)


def narrow(self: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`length` elements of an axis from `start` on. Raises ArgumentError outside of it."""
    axis = normalize_axis(dim, self.ndim)
    if start < 0:
        start += self.shape[axis]
    if not 0 <= start <= self.shape[axis] - length or length < 0:
        raise ArgumentError(f"narrow: {length} elements from {start} on lie outside an axis of {self.shape[axis]}")
    return self[(*(slice(None),) * axis, slice(start, start + length))]


def index_select(self: Tensor, dim: int, index: Any) -> Tensor:
    """The elements of an axis at the places of a vector of integers."""
    if np.ndim(index) > 1:
        raise ShapeError("index_select needs a vector of indices", fix="use x[index] for more dimensions")
    return taking.take(self, index, axis=normalize_axis(dim, self.ndim))


def _smaller(self: Tensor, dim: int, index: Any, what: str) -> tuple[Any, ...]:
    """Index arrays for gather and scatter, whose index may be smaller than the Tensor along the other axes."""
    axis = normalize_axis(dim, self.ndim)
    index = index if isinstance(index, Tensor) else np.asarray(index)
    if index.ndim != self.ndim:
        raise ShapeError(f"{what}: the index has {index.ndim} dimensions, the Tensor {self.ndim}")
    if any(i > d for k, (i, d) in enumerate(zip(index.shape, self.shape, strict=True)) if k != axis):
        raise ShapeError(f"{what}: the index of shape {index.shape} is larger than the Tensor of shape {self.shape}")
    grid = np.ix_(*(np.arange(n) for n in index.shape))
    return tuple(index if k == axis else g for k, g in enumerate(grid))


def gather(self: Tensor, dim: int, index: Any) -> Tensor:
    """`out[i, j, k] = x[i, index[i, j, k], k]` for dim 1, and so on."""
    return self[_smaller(self, dim, index, "gather")]


def _source(src: Any, places: tuple[Any, ...]) -> Any:
    """The part of `src` that a scatter reads: as much as there are indices."""
    shape = np.broadcast_shapes(*(p.shape for p in places))
    return src if np.ndim(src) == 0 else src[tuple(slice(n) for n in shape)]


def scatter(self: Tensor, dim: int, index: Any, src: Any) -> Tensor:
    """A copy with `x[i, index[i, j, k], k] = src[i, j, k]` for dim 1, and so on; the last of several counts."""
    places = _smaller(self, dim, index, "scatter")
    return index_writes.index_update(self, places, _source(src, places))


def scatter_add(self: Tensor, dim: int, index: Any, src: Any) -> Tensor:
    """As scatter, but what is written is added, all of several writes to one element."""
    places = _smaller(self, dim, index, "scatter_add")
    return index_writes.index_add(self, places, _source(src, places))


def index_add(self: Tensor, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor:
    """A copy with `alpha * source` added to the places of an axis that a vector of integers names."""
    axis = normalize_axis(dim, self.ndim)
    return index_writes.index_add(self, (*(slice(None),) * axis, index), source * alpha)


def index_copy(self: Tensor, dim: int, index: Any, source: Any) -> Tensor:
    """A copy with `source` in the places of an axis that a vector of integers names."""
    axis = normalize_axis(dim, self.ndim)
    return index_writes.index_update(self, (*(slice(None),) * axis, index), source)


def index_fill(self: Tensor, dim: int, index: Any, value: Any) -> Tensor:
    """A copy with a number in the places of an axis that a vector of integers names."""
    return index_copy(self, dim, index, value)


def masked_scatter(self: Tensor, mask: Any, source: Any) -> Tensor:
    """A copy with the first elements of `source`, in their order, where the mask is True."""
    wide = np.broadcast_to(mask, self.shape)
    return index_writes.index_update(self, wide, source.reshape(-1)[: int(wide.sum())])


def topk(self: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> TopK:
    """The k largest (or smallest) elements along an axis, in order, and their places."""
    axis = normalize_axis(dim, self.ndim)
    if not 0 <= k <= self.shape[axis]:
        raise ArgumentError(f"topk: k = {k} is out of range for an axis of {self.shape[axis]}")
    order = np.argsort(-self if largest else self, axis=axis, kind="stable")
    places = moveaxis(moveaxis(order, axis, 0)[:k], 0, axis)
    return TopK(taking.take_along_axis(self, places, axis), places)


def addmm(self: Tensor, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * (mat1 @ mat2)."""
    return _scaled(self, beta) + _scaled(mat1 @ mat2, alpha)


def addcmul(self: Tensor, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """x + value * tensor1 * tensor2."""
    return self + _scaled(tensor1 * tensor2, value)


def addcdiv(self: Tensor, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """x + value * tensor1 / tensor2."""
    return self + _scaled(tensor1 / tensor2, value)


def lerp(self: Tensor, end: Any, weight: Any) -> Tensor:
    """x + weight * (end - x)."""
    return self + weight * (end - self)


def _scaled(x: Any, factor: Any) -> Any:
    return x if type(factor) is int and factor == 1 else x * factor


def triu(self: Tensor, diagonal: int = 0) -> Tensor:
    """Zero below a diagonal."""
    return np.triu(self, diagonal)


def tril(self: Tensor, diagonal: int = 0) -> Tensor:
    """Zero above a diagonal."""
    return np.tril(self, diagonal)


def diag_(self: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix with a vector on its diagonal."""
    return diag(self, diagonal)


def _in_place(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        def written(x: Tensor) -> Any:
            return function(x, *args, **kwargs)

        return apply_inplace(self, written, name)

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"{function.__name__}, in place."
    return method


def attach() -> None:
    """Put the names on Tensor."""
    for function in (
        softmax, log_softmax, narrow, index_select, gather, scatter, scatter_add, index_add, index_copy, index_fill,
        masked_scatter, topk, addmm, addcmul, addcdiv, lerp, triu, tril,
    ):  # fmt: skip
        setattr(Tensor, function.__name__, function)
    Tensor.diag = diag_
    for function in (scatter, scatter_add, index_add, index_copy, index_fill, masked_scatter, triu, tril, addmm):
        name = f"{function.__name__}_"
        setattr(Tensor, name, _in_place(function, name))


attach()
