"""New arrays: filled with one value, ranges, and Tensors over given data; eager, or values of the trace."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, AutogradError, UnsupportedError
from tracegrad.function import Operation
from tracegrad.ir import lowering
from tracegrad.ir.dims import Dim, DimLike
from tracegrad.ir.types import Type
from tracegrad.numpy_protocols import implements
from tracegrad.ops.casting import astype, number_dtype, result_type
from tracegrad.ops.operands import as_dim, as_shape, assume_non_negative, lifted
from tracegrad.ops.shape import BroadcastTo, broadcast_to, expand_dims, moveaxis, reshape
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
    return PythonNumber.apply(reshape(_iota_from(size, 1, np.int64), ()))


def constant(value: np.ndarray) -> Tensor:
    """A Tensor of fixed numbers that nobody else will change: a leaf, or a constant of the trace."""
    trace = state.trace
    return Tensor._wrap(value) if trace is None else Tensor._traced(trace, trace.lift(value))


def _wanted(x: Tensor, requires_grad: bool) -> Tensor:
    if requires_grad:
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
        return _wanted(+BroadcastTo.apply(value, shape=sizes) if value.shape != sizes else +value, requires_grad)
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


# ---- ranges ------------------------------------------------------------------------------------------------------


@implements(np.arange)
def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *, requires_grad: bool = False, **_like: Any
) -> Tensor:
    """Numbers from `start` (0) up to `stop`, `step` apart; plain numbers, for the result's size must be known."""
    if stop is None:
        start, stop = 0, start
    for bound in (start, stop, step):
        if isinstance(bound, Tensor):
            raise ArgumentError(
                "the size of arange would depend on the value of a Tensor",
                fix="multiply a range of fixed size: start + step * tg.arange(n)",
            )
    if any(isinstance(bound, Dim) for bound in (start, stop, step)):
        if all(isinstance(bound, (int, Dim)) for bound in (start, stop)) and type(step) is int and step:
            return _wanted(_range(start, stop, step, dtype), requires_grad)
        start, stop, step = (operator.index(b) if isinstance(b, Dim) else b for b in (start, stop, step))
    return _wanted(constant(np.arange(start, stop, step, dtype)), requires_grad)


def _range(start: DimLike, stop: DimLike, step: int, dtype: Any) -> Tensor:
    """The same for integers and sizes that are symbolic."""
    distance, stride = (stop - start, step) if step > 0 else (start - stop, -step)
    count = (distance + (stride - 1)) // stride
    if not assume_non_negative(count):
        count = 0
    wanted = np.dtype(np.int64 if dtype is None else number_dtype(dtype))
    attrs = {"shape": (count,), "axis": 0, "start": start, "step": step, "dtype": wanted}
    return state.trace.apply(Iota, (), attrs)  # type: ignore[union-attr, no-any-return]


def _iota_from(start: Any, size: DimLike, dtype: Any) -> Tensor:
    """start, start + 1, … (`size` numbers) in a trace whose sizes are symbolic."""
    wanted = np.dtype(np.int64 if dtype is None else dtype)
    attrs = {"shape": (size,), "axis": 0, "start": start, "step": 1, "dtype": wanted}
    return state.trace.apply(Iota, (), attrs)  # type: ignore[union-attr, no-any-return]


@implements(np.linspace)
def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
    axis: int = 0, *, requires_grad: bool = False, device: Any = None,
) -> Any:  # fmt: skip
    """`num` numbers from `start` to `stop`, evenly spaced; both may be Tensors, and get gradients."""
    if not isinstance(start, Tensor) and not isinstance(stop, Tensor):
        if isinstance(num, Dim):
            if (
                np.ndim(start) == np.ndim(stop) == axis == 0
                and not isinstance(start, Dim)
                and not isinstance(stop, Dim)
            ):
                spaced = _spaced(start, stop, num, endpoint, dtype)
                return spaced if retstep else _wanted(spaced[0], requires_grad)
            num = operator.index(num)
        plain = np.linspace(start, stop, num, endpoint, retstep, dtype, axis)
        values, step = plain if retstep else (plain, None)
        result = _wanted(constant(values), requires_grad)
        return (result, step) if retstep else result
    count = as_dim(num)
    inner = result_type(start, stop, float(1))
    low, high = astype(start, inner), astype(stop, inner)
    spaces = count - 1 if endpoint else count
    step = (high - low) / (spaces if spaces != 0 else float("nan"))
    ndim = max(np.ndim(low), np.ndim(high))
    weight = _ramp(count, spaces, inner)
    weight = reshape(weight, (count,) + (1,) * ndim)
    low, high = expand_dims(low, 0) if ndim else low, expand_dims(high, 0) if ndim else high
    # Weights are exactly 0 and 1 at the ends, so that the first and last numbers are the given ones.
    result = low * (1 - weight) + high * weight
    wanted = inner if dtype is None else number_dtype(dtype)
    if wanted.kind in "iu":
        from tracegrad.ops.rounding import floor

        result = floor(result)
    result = astype(moveaxis(result, 0, axis) if axis else result, wanted)
    return (result, step) if retstep else result


@implements(np.logspace)
def logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Any:
    """Powers of `base`, whose exponents are evenly spaced from `start` to `stop`; all three may be Tensors."""
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    powers = np.power(base if np.ndim(base) == 0 else np.expand_dims(base, axis), exponents)
    return powers if dtype is None else astype(powers, dtype)


@implements(np.geomspace)
def geomspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    """Numbers from `start` to `stop`, of one sign, with the same ratio from each to the next."""
    if result_type(start, stop).kind == "c":
        raise UnsupportedError("geomspace of complex Tensors", fix="take np.exp of np.linspace")
    exponents = linspace(np.log(np.absolute(start)), np.log(np.absolute(stop)), num, endpoint, axis=axis)
    numbers = np.sign(start) * np.exp(exponents)
    return numbers if dtype is None else astype(numbers, dtype)


def _spaced(start: Any, stop: Any, num: DimLike, endpoint: bool, dtype: Any) -> tuple[Tensor, Any]:
    """`num` numbers between two plain numbers as NumPy computes them, and how far apart they are."""
    inner = np.result_type(start, stop, float(1))
    places = _iota_from(0, num, np.int64)
    spaces = num - 1 if endpoint else num
    step = (np.subtract(stop, start, dtype=inner)) / dimension(spaces)
    result = astype(places, inner) * step + np.asarray(start, inner)[()]
    if endpoint:
        from tracegrad.ops.comparison import equal
        from tracegrad.ops.select import where

        result = where(equal(places, dimension(spaces)), np.asarray(stop, inner)[()], result)
    wanted = inner if dtype is None else number_dtype(dtype)
    if wanted.kind in "iu":
        from tracegrad.ops.rounding import floor

        result = floor(result)
    return astype(result, wanted), step


def _ramp(count: DimLike, spaces: DimLike, dtype: np.dtype) -> Any:
    """0, 1/spaces, 2/spaces, … (count numbers)."""
    if isinstance(count, int):
        return np.arange(count).astype(dtype) / (spaces or 1)
    return _iota_from(0, count, dtype) / dimension(spaces)


@implements(np.eye)
def eye(N: Any, M: Any = None, k: int = 0, dtype: Any = float, *, requires_grad: bool = False, **_like: Any) -> Tensor:
    """The identity matrix, or ones on the k-th diagonal of an N×M matrix."""
    columns = N if M is None else M
    if isinstance(N, Dim) or isinstance(columns, Dim):
        from tracegrad.ops.comparison import equal

        rows = expand_dims(_iota_from(k, N, np.int64), 1)
        return _wanted(astype(equal(rows, _iota_from(0, columns, np.int64)), number_dtype(dtype)), requires_grad)
    return _wanted(constant(np.eye(N, M, k, number_dtype(dtype))), requires_grad)


@implements(np.identity)
def identity(n: int, dtype: Any = None, **_like: Any) -> Tensor:
    """The n×n identity matrix."""
    return eye(n, dtype=float if dtype is None else dtype)


# ---- over given data -----------------------------------------------------------------------------------------------


def tensor(data: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A new Tensor with a copy of `data` (numbers, nested lists, an ndarray, or a Tensor without history).

    float64 for Python floats, as NumPy. Raises AutogradError where the history of a Tensor would be dropped.
    """
    if isinstance(data, Tensor):
        if data.requires_grad or (data.is_traced and data._trace.depends_on_differentiated(data._var)):
            raise AutogradError(
                "tg.tensor copies numbers only, so the gradient of this Tensor would be lost",
                fix="use x.clone() for a copy with its history, x.detach().clone() for one without",
            )
        return _wanted(astype(+data, data.dtype if dtype is None else dtype), requires_grad)
    if isinstance(data, np.ndarray):
        check_array(data)
    array = np.array(data, None if dtype is None else number_dtype(dtype))
    array = check_array(array).astype(array.dtype.newbyteorder("="), copy=False)
    if state.trace is None or requires_grad:
        result = Tensor._wrap(array)
        result.requires_grad = requires_grad
        return result
    return astype(lifted(data), array.dtype) if isinstance(data, np.ndarray) else constant(array)


def as_tensor(data: Any, dtype: Any = None) -> Tensor:
    """`data` as a Tensor: a Tensor as it is, an ndarray sharing its memory, numbers and lists as a new one."""
    if not isinstance(data, Tensor):
        array = np.asarray(check_array(data) if isinstance(data, np.ndarray) else data)
        if array.dtype.kind in "biufc" and not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        check_array(array)
        data = Tensor._wrap(array) if state.trace is None else lifted(array)
    return data if dtype is None else astype(data, dtype)


def from_numpy(array: np.ndarray) -> Tensor:
    """A Tensor that shares the memory of `array`."""
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"from_numpy takes an ndarray, not {type(array).__name__}", fix="use tg.tensor(data)")
    return as_tensor(array)
