"""New arrays: constants, ranges and random numbers, as eager Tensors or as values of the trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError
from tracegrad.function import Operation
from tracegrad.ir import lowering
from tracegrad.ir.dims import DimLike
from tracegrad.ir.types import Type
from tracegrad.numpy_protocols import implements
from tracegrad.ops.casting import astype, number_dtype
from tracegrad.ops.operands import as_shape
from tracegrad.ops.shape import BroadcastTo, broadcast_to
from tracegrad.state import state
from tracegrad.tensor import Tensor, check_array

Shape = tuple[DimLike, ...]


class Iota(Operation):
    """`start + step * i` along `axis` of an array of `shape`."""

    name = "iota"
    lower = lowering.Iota()
    differentiable = False

    @staticmethod
    def forward(*, shape: Shape, axis: int, start: Any, step: Any, dtype: np.dtype) -> np.ndarray:
        values = (start + step * np.arange(shape[axis])).astype(dtype)
        return np.broadcast_to(values.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape).copy()

    @staticmethod
    def infer(*, shape: Shape, axis: int, start: Any, step: Any, dtype: np.dtype) -> Type:
        return Type(dtype, shape)


class PythonNumber(Operation):
    """A 0-d integer that takes part in promotion as the Python int it stands for (a size)."""

    name = "python_number"
    lower = lowering.Elementwise("positive")
    differentiable = False

    @staticmethod
    def forward(x: Any) -> int:
        return int(x)

    @staticmethod
    def infer(x: Type) -> Type:
        return Type(x.dtype, (), True)


def dimension(size: DimLike) -> Any:
    """A size as a number: an int as it is; a symbolic one as a traced value, which counts as a Python int."""
    if isinstance(size, int):
        return size
    from tracegrad.ops.reduction import sum as tensor_sum

    return PythonNumber.apply(tensor_sum(full((size,), 1, np.int64)))


def constant(value: np.ndarray) -> Tensor:
    """A Tensor of fixed numbers that nobody else will change: a leaf, or a constant of the trace."""
    trace = state.trace
    return Tensor._wrap(value) if trace is None else Tensor._traced(trace, trace.lift(value))


def _wanted(x: Tensor, requires_grad: bool) -> Tensor:
    if requires_grad:
        if x.is_traced:
            raise ArgumentError(
                "requires_grad=True on a Tensor made inside a traced function",
                fix="differentiate with tg.grad or tg.value_and_grad, which name the arguments to differentiate",
            )
        x.requires_grad = True
    return x


# ---- filled with one value ---------------------------------------------------------------------------------------


@implements(np.full)
def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, requires_grad: bool = False, **_like: Any
) -> Tensor:
    """A Tensor of `shape` filled with a number or a (broadcast) array; its gradient flows from a Tensor."""
    sizes = as_shape(shape)
    if isinstance(fill_value, Tensor):
        value = fill_value if dtype is None else astype(fill_value, dtype)
        return _wanted(BroadcastTo.apply(value, shape=sizes) if value.shape != sizes else +value, requires_grad)
    value = check_array(np.asarray(fill_value, None if dtype is None else number_dtype(dtype)))
    if state.trace is None:
        return _wanted(Tensor._wrap(np.full(sizes, value, value.dtype)), requires_grad)
    return _wanted(broadcast_to(constant(value.copy()), sizes), requires_grad)


def _sizes(args: tuple[Any, ...], shape: Any = None) -> Shape:
    """zeros(2, 3), zeros((2, 3)) and zeros(shape=(2, 3)) mean the same."""
    if not args and shape is None:
        raise ArgumentError("a shape is missing", fix="write for example zeros(2, 3) or zeros((2, 3))")
    return as_shape(shape if not args else args[0] if len(args) == 1 else args)


def zeros(*size: Any, shape: Any = None, dtype: Any = float, requires_grad: bool = False) -> Tensor:
    """A Tensor of zeros: `zeros(2, 3)` or `zeros((2, 3))`; float64 unless said."""
    return full(_sizes(size, shape), 0, float if dtype is None else dtype, requires_grad=requires_grad)


def ones(*size: Any, shape: Any = None, dtype: Any = float, requires_grad: bool = False) -> Tensor:
    """A Tensor of ones: `ones(2, 3)` or `ones((2, 3))`; float64 unless said."""
    return full(_sizes(size, shape), 1, float if dtype is None else dtype, requires_grad=requires_grad)


def empty(*size: Any, shape: Any = None, dtype: Any = float, requires_grad: bool = False) -> Tensor:
    """A Tensor whose numbers are to be overwritten; here they are zeros."""
    return zeros(*size, shape=shape, dtype=dtype, requires_grad=requires_grad)


@implements(np.zeros)
def _numpy_zeros(shape: Any, dtype: Any = float, order: str = "C", **_like: Any) -> Tensor:
    return zeros(shape, dtype=dtype)


@implements(np.ones)
def _numpy_ones(shape: Any, dtype: Any = None, order: str = "C", **_like: Any) -> Tensor:
    return ones(shape, dtype=dtype)


@implements(np.empty)
def _numpy_empty(shape: Any, dtype: Any = float, order: str = "C", **_like: Any) -> Tensor:
    return zeros(shape, dtype=dtype)


@implements(np.full_like)
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None,
    *, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A Tensor with the shape and dtype of `a`, filled with `fill_value`."""
    a = a if isinstance(a, Tensor) else np.asarray(a)
    sizes = a.shape if shape is None else as_shape(shape)
    return full(sizes, fill_value, a.dtype if dtype is None else dtype, requires_grad=requires_grad)


@implements(np.zeros_like)
def zeros_like(a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Tensor:
    """Zeros with the shape and dtype of `a`."""
    return full_like(a, 0, dtype, *args, **kwargs)


@implements(np.ones_like)
def ones_like(a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Tensor:
    """Ones with the shape and dtype of `a`."""
    return full_like(a, 1, dtype, *args, **kwargs)


@implements(np.empty_like)
def empty_like(prototype: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Tensor:
    """A Tensor like `prototype` whose numbers are to be overwritten; here they are zeros."""
    return full_like(prototype, 0, dtype, *args, **kwargs)
