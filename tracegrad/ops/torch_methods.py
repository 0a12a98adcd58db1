"""Methods under PyTorch's names, for code written in its style: `x.exp()`, `w.t()`, `b.unsqueeze(0).expand_as(y)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracegrad.errors import ShapeError
from tracegrad.ops import arithmetic, exponential, linalg, power, rounding, select, shape, special, trigonometric
from tracegrad.ops.base import normalize_axes
from tracegrad.ops.creation import tensor
from tracegrad.ops.operands import as_shape
from tracegrad.tensor import Tensor

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": arithmetic.absolute, "neg": arithmetic.negative, "sign": arithmetic.sign, "square": arithmetic.square,
    "reciprocal": arithmetic.reciprocal, "exp": exponential.exp, "expm1": exponential.expm1, "log": exponential.log,
    "log1p": exponential.log1p, "log2": exponential.log2, "log10": exponential.log10, "sqrt": power.sqrt,
    "sin": trigonometric.sin, "cos": trigonometric.cos, "tan": trigonometric.tan, "sinh": trigonometric.sinh,
    "cosh": trigonometric.cosh, "tanh": trigonometric.tanh, "asin": trigonometric.arcsin, "acos": trigonometric.arccos,
    "atan": trigonometric.arctan, "sigmoid": special.expit, "erf": special.erf, "floor": rounding.floor,
    "ceil": rounding.ceil, "add": arithmetic.add, "sub": arithmetic.subtract, "mul": arithmetic.multiply,
    "div": arithmetic.divide, "pow": power.operator_power, "maximum": select.maximum, "minimum": select.minimum,
    "matmul": linalg.matmul,
}  # fmt: skip


def _method(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def method(self: Tensor, *args: Any) -> Any:
        return function(self, *args)

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    method.__doc__ = f"Elementwise {name}." if name != "matmul" else "The matrix product."
    return method


def _matrix(x: Tensor, what: str) -> None:
    if x.ndim != 2:
        raise ShapeError(f"{what} takes matrices, not a Tensor of shape {tuple(x.shape)}", fix="use @ for other shapes")


def mm(self: Tensor, other: Tensor) -> Tensor:
    """The product of two matrices. Raises ShapeError for other dimensions."""
    _matrix(self, "mm")
    _matrix(other, "mm")
    return linalg.matmul(self, other)


def t(self: Tensor) -> Tensor:
    """The transpose of a matrix (of a vector, itself). Raises ShapeError for more dimensions."""
    if self.ndim > 1:
        _matrix(self, "t()")
    return shape.transpose(self)


def clone(self: Tensor) -> Tensor:
    """A copy through which gradients flow."""
    return self.copy()


def unsqueeze(self: Tensor, dim: int) -> Tensor:
    """A new axis of size 1 at position `dim`."""
    return shape.expand_dims(self, dim)


def expand(self: Tensor, *sizes: Any) -> Tensor:
    """Repeated along axes of size 1 (without a copy); -1 keeps a size."""
    wanted = as_shape(sizes[0] if len(sizes) == 1 else sizes)
    extra = len(wanted) - self.ndim
    full = tuple(self.shape[i - extra] if i >= extra and d == -1 else d for i, d in enumerate(wanted))
    return shape.expanded(self, full)


def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Repeated to the shape of `other`."""
    return shape.expanded(self, other.shape)


def squeeze(self: Tensor, axis: Any = None) -> Tensor:
    """Axes of size 1 removed, all or the given ones; as in PyTorch, a given axis of another size stays."""
    if axis is not None:
        axis = tuple(i for i in normalize_axes(axis, self.ndim) if self.shape[i] == 1)
    return shape.squeeze(self, axis)


def new(self: Tensor, data: Any) -> Tensor:
    """A Tensor of `data` in the dtype of this one, without history."""
    return tensor(data, dtype=self.dtype)


def view(self: Tensor, *sizes: Any) -> Tensor:
    """The same elements with other dimensions, as reshape."""
    return self.reshape(*sizes)


def permute(self: Tensor, *dims: Any) -> Tensor:
    """The axes in another order."""
    return self.transpose(*dims)


METHODS: dict[str, Callable[..., Any]] = {
    **{name: _method(function, name) for name, function in _FUNCTIONS.items()},
    **{m.__name__: m for m in (mm, t, clone, unsqueeze, squeeze, expand, expand_as, new, view, permute)},
}
