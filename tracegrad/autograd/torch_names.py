"""The names PyTorch users type on Tensors: mm, t, view, unsqueeze, expand, clamp, size(), numel(), new_zeros, …"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ops import (
    arithmetic,
    comparison,
    creation,
    exponential,
    joining,
    linalg,
    power,
    reduction,
    rounding,
    select,
    shape,
    special,
    statistics,
    trigonometric,
)
from tracegrad.tensor import Tensor

Method = Callable[..., Any]

DIRECT: dict[str, Method] = {
    "exp": exponential.Exp.apply, "expm1": exponential.Expm1.apply, "exp2": exponential.Exp2.apply,
    "log": exponential.Log.apply, "log1p": exponential.Log1p.apply, "log2": exponential.Log2.apply,
    "log10": exponential.Log10.apply, "sqrt": power.Sqrt.apply, "square": arithmetic.Square.apply,
    "reciprocal": arithmetic.Reciprocal.apply, "sign": arithmetic.Sign.apply, "abs": arithmetic.absolute,
    "neg": arithmetic.negative, "negative": arithmetic.negative, "sin": trigonometric.Sin.apply,
    "cos": trigonometric.Cos.apply, "tan": trigonometric.Tan.apply, "asin": trigonometric.ArcSin.apply,
    "acos": trigonometric.ArcCos.apply, "atan": trigonometric.ArcTan.apply, "sinh": trigonometric.Sinh.apply,
    "cosh": trigonometric.Cosh.apply, "tanh": trigonometric.Tanh.apply, "floor": rounding.Floor.apply,
    "ceil": rounding.Ceil.apply, "trunc": rounding.Trunc.apply, "sigmoid": special.Expit.apply,
    "erf": special.Erf.apply, "erfc": special.Erfc.apply, "isnan": comparison.IsNan.apply,
    "isinf": comparison.IsInf.apply, "isfinite": comparison.IsFinite.apply,
    "logical_not": comparison.LogicalNot.apply, "add": arithmetic.add, "sub": arithmetic.subtract,
    "subtract": arithmetic.subtract, "mul": arithmetic.multiply, "multiply": arithmetic.multiply,
    "div": arithmetic.divide, "divide": arithmetic.divide, "true_divide": arithmetic.divide,
    "pow": power.operator_power, "remainder": arithmetic.remainder, "floor_divide": arithmetic.floor_divide,
    "atan2": trigonometric.ArcTan2.apply, "maximum": select.Maximum.apply, "minimum": select.Minimum.apply,
    "eq": comparison.equal, "ne": comparison.not_equal, "lt": comparison.less, "le": comparison.less_equal,
    "gt": comparison.greater, "ge": comparison.greater_equal, "matmul": linalg.matmul, "dot": linalg.dot,
    "outer": linalg.outer, "mv": linalg.matmul, "bmm": linalg.matmul, "inner": linalg.inner,
}  # fmt: skip


def mm(self: Tensor, mat2: Any) -> Tensor:
    """The product of two matrices."""
    if self.ndim != 2 or np.ndim(mat2) != 2:
        raise ShapeError(
            f"mm takes two matrices, got {self.ndim} and {np.ndim(mat2)} dimensions", fix="use `@` for other shapes"
        )
    return linalg.matmul(self, mat2)


def t(self: Tensor) -> Tensor:
    """A matrix transposed; 0-d and 1-d Tensors as they are."""
    if self.ndim > 2:
        raise ShapeError(f"t() expects at most 2 dimensions, got {self.ndim}", fix="use .transpose or .mT")
    return shape.transpose(self)


def _tuple(sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes


def view(self: Tensor, *sizes: Any) -> Tensor:
    """The same elements with other dimensions."""
    if len(sizes) == 1 and isinstance(sizes[0], (np.dtype, type)):
        raise ArgumentError("view(dtype) would reinterpret bytes", fix="use .astype(dtype) to convert values")
    return shape.reshape(self, _tuple(sizes))


def view_as(self: Tensor, other: Any) -> Tensor:
    return self[...] if other.shape == self.shape else shape.reshape(self, other.shape)


def unsqueeze(self: Tensor, dim: int) -> Tensor:
    """A new axis of size 1."""
    return shape.expand_dims(self, dim)


def expand(self: Tensor, *sizes: Any) -> Tensor:
    """Broadcast to `sizes`; -1 keeps a size."""
    wanted = _tuple(sizes)
    extra = len(wanted) - self.ndim
    return shape.expanded(
        self, tuple(self.shape[i - extra] if isinstance(n, int) and n == -1 else n for i, n in enumerate(wanted))
    )


def expand_as(self: Tensor, other: Any) -> Tensor:
    return shape.expanded(self, other.shape)


def permute(self: Tensor, *dims: Any) -> Tensor:
    return shape.transpose(self, _tuple(dims))


def contiguous(self: Tensor) -> Tensor:
    """The Tensor itself if its memory is in C order, else a copy."""
    return self if self._array is None or self._array.flags.c_contiguous else clone(self)


def is_contiguous(self: Tensor) -> bool:
    return self._array is None or self._array.flags.c_contiguous


def clone(self: Tensor) -> Tensor:
    """A copy in memory of its own; gradients flow through it."""
    from tracegrad.ops.clone import Clone

    return Clone.apply(self)


def type_as(self: Tensor, other: Any) -> Tensor:
    return self.astype(other.dtype, copy=False)


def to(self: Tensor, *args: Any, dtype: Any = None, copy: bool = False, **ignored: Any) -> Tensor:
    """In another dtype; device names are accepted and mean the CPU."""
    for arg in args:
        if isinstance(arg, Tensor):
            dtype = arg.dtype
        elif isinstance(arg, str) and arg.split(":")[0] in ("cpu",):
            continue
        else:
            dtype = arg
    if dtype is None or np.dtype(dtype) == self.dtype:
        return clone(self) if copy else self
    return self.astype(dtype)


def dim(self: Tensor) -> int:
    """How many dimensions."""
    return self.ndim


def numel(self: Tensor) -> Any:
    """How many elements."""
    return shape.size(self)


def clamp(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    return select.clip(self, min, max)


def relu(self: Tensor) -> Tensor:
    return select.where(self <= 0, np.zeros((), self.dtype), self)  # so that NaN stays NaN


def masked_fill(self: Tensor, mask: Any, value: Any) -> Tensor:
    return select.where(mask, value, self)


def masked_select(self: Tensor, mask: Any) -> Tensor:
    return self[mask]


def norm(self: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The p-norm of all elements, or along `dim`."""
    x = self if dim is not None or self.ndim == 1 else shape.ravel(self)
    return np.linalg.norm(x, 2 if p in ("fro", None) else p, dim, keepdim)


def unbind(self: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The parts along an axis. They are several views of one Tensor, not to be modified in place."""
    return tuple(_as_multi_view(joining.unstack(self, axis=dim)))


def chunk(self: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` parts of equal size along an axis."""
    length = self.shape[dim]
    return split(self, max(1, -(-length // chunks)), dim)


def split(self: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of `split_size` (the last may be smaller), or of the given sizes, along an axis."""
    length = self.shape[dim]
    if isinstance(split_size, int):
        bounds = list(range(split_size, length, split_size))
    else:
        bounds = [int(b) for b in np.cumsum(split_size)[:-1]]
        if sum(split_size) != length:
            raise ShapeError(f"the sizes {list(split_size)} do not sum to {length}, the size of axis {dim}")
    return tuple(_as_multi_view(joining.split(self, bounds, dim)))


def _as_multi_view(parts: Any) -> Any:
    for part in parts:
        if isinstance(part, Tensor) and part._meta is not None and part._meta.base is not None:
            part._meta.view_reason = "multi"
    return parts


def new_tensor(self: Tensor, data: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    return creation.tensor(data, dtype=dtype or self.dtype, requires_grad=requires_grad)


def _new(make: Method) -> Method:
    def method(self: Tensor, *sizes: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
        return make(_tuple(sizes), dtype=dtype or self.dtype, requires_grad=requires_grad)

    return method


def new_full(self: Tensor, size: Any, fill_value: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    out = creation.full(_tuple((size,)), fill_value, dtype or self.dtype)
    out.requires_grad = requires_grad
    return out


def _with_dim(function: Method, name: str) -> Method:
    """A reduction that takes `dim` and `keepdim` beside NumPy's `axis` and `keepdims`."""

    @functools.wraps(function)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if "dim" in kwargs:
            kwargs["axis"] = kwargs.pop("dim")
        if "keepdim" in kwargs:
            kwargs["keepdims"] = kwargs.pop("keepdim")
        if kwargs and isinstance(kwargs.get("axis"), list):
            kwargs["axis"] = tuple(kwargs["axis"])
        return function(self, *args, **kwargs)

    method.__name__ = name
    return method


def _cast(dtype: Any) -> Method:
    def method(self: Tensor) -> Tensor:
        return self.astype(dtype, copy=False)

    return method


def squeeze(self: Tensor, axis: Any = None, *, dim: Any = None) -> Tensor:
    """Axes of size 1 removed: all, or the given ones."""
    return shape.squeeze(self, axis if dim is None else dim)


def attach() -> None:
    """Put the names on Tensor, where NumPy has not taken them."""
    for name, function in DIRECT.items():
        setattr(Tensor, name, _plain(function, name))
    for function in (
        mm, t, view, view_as, unsqueeze, expand, expand_as, permute, contiguous, is_contiguous, clone, type_as, to, dim,
        numel, clamp, relu, masked_fill, masked_select, norm, unbind, chunk, split, new_tensor, new_full, squeeze,
    ):  # fmt: skip
        setattr(Tensor, function.__name__, function)
    for name, make in (("zeros", creation.zeros), ("ones", creation.ones), ("empty", creation.empty)):
        setattr(Tensor, f"new_{name}", _new(make))
    for name, dtype in (
        ("double", "f8"), ("float", "f4"), ("half", "f2"), ("long", "i8"), ("int", "i4"), ("short", "i2"),
        ("bool", "?"), ("cfloat", "c8"), ("cdouble", "c16"),
    ):  # fmt: skip
        setattr(Tensor, name, _cast(np.dtype(dtype)))
    for name, function in {
        "sum": reduction.sum, "prod": reduction.prod, "any": reduction.any, "all": reduction.all,
        "argmax": reduction.argmax, "argmin": reduction.argmin, "max": reduction.max, "min": reduction.min,
        "mean": statistics.mean, "var": statistics.var, "std": statistics.std, "amax": reduction.max,
        "amin": reduction.min,
    }.items():  # fmt: skip
        setattr(Tensor, name, _with_dim(function, name))
    Tensor.reshape_as = view_as
    Tensor.cpu = lambda self: self
    Tensor.device = property(lambda self: "cpu")


def _plain(function: Method, name: str) -> Method:
    def method(self: Tensor, *args: Any) -> Any:
        return function(self, *args)

    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", function.__doc__
    return method


attach()
