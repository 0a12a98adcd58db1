"""Reductions over axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.function import Operation
from tracegrad.ir.lowering import Reduction
from tracegrad.ir.types import Type
from tracegrad.ops.base import normalize_axes
from tracegrad.ops.shape import broadcast_to, expand_dims


class ReductionOperation(Operation):
    """`axis` is a sorted tuple of non-negative ints, `keepdims` a bool."""

    @classmethod
    def reduced_type(cls, x: Type, axis: tuple[int, ...], keepdims: bool, dtype: np.dtype) -> Type:
        shape = tuple(1 if i in axis else d for i, d in enumerate(x.shape) if keepdims or i not in axis)
        return Type(dtype, shape)


def restore_axes(g: Any, shape: tuple[Any, ...], axis: tuple[int, ...], keepdims: bool) -> Any:
    """The cotangent of a reduction spread over the axes it had removed."""
    return broadcast_to(g if keepdims else expand_dims(g, axis), shape)


class Sum(ReductionOperation):
    """The sum over `axis`, accumulated in `dtype`."""

    name = "sum"
    lower = Reduction("add")
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, axis: tuple[int, ...], keepdims: bool, dtype: np.dtype) -> np.ndarray:
        return np.sum(x, axis=axis, keepdims=keepdims, dtype=dtype)

    @classmethod
    def infer(cls, x: Type, *, axis: tuple[int, ...], keepdims: bool, dtype: np.dtype) -> Type:
        return cls.reduced_type(x, axis, keepdims, dtype)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (restore_axes(g, ctx.types[0].shape, ctx.attrs["axis"], ctx.attrs["keepdims"]),)


def sum_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype NumPy sums in: small integers and bools widen to the platform integer."""
    return np.add.reduce(np.zeros(1, dtype)).dtype


def sum(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    """NumPy's sum: over all axes, one, or several. Same shape rules; Tensor in, Tensor out."""
    dtype = np.dtype(dtype) if dtype is not None else sum_dtype(x.dtype)
    return Sum.apply(x, axis=normalize_axes(axis, x.ndim), keepdims=bool(keepdims), dtype=dtype)
