"""PyTorch's in-place methods of Tensors: add_, mul_, clamp_, zero_, copy_, uniform_, … Attached on import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.autograd.inplace import apply_inplace, augmented, bump, check_inplace, replace_value, setitem
from tracegrad.autograd.overwritten import rescue
from tracegrad.errors import ArgumentError
from tracegrad.ops import arithmetic, comparison, exponential, power, rounding, select, special, trigonometric
from tracegrad.state import state
from tracegrad.tensor import Tensor

Function = Callable[..., Any]

OPERATORS: dict[str, tuple[str, Function]] = {
    "__iadd__": ("+=", arithmetic.add), "__isub__": ("-=", arithmetic.subtract),
    "__imul__": ("*=", arithmetic.multiply), "__itruediv__": ("/=", arithmetic.divide),
    "__ifloordiv__": ("//=", arithmetic.floor_divide), "__imod__": ("%=", arithmetic.remainder),
    "__ipow__": ("**=", power.operator_power), "__iand__": ("&=", comparison.bitwise_and),
    "__ior__": ("|=", comparison.bitwise_or), "__ixor__": ("^=", comparison.bitwise_xor),
}  # fmt: skip
BINARY: dict[str, Function] = {
    "mul_": arithmetic.multiply, "div_": arithmetic.divide, "divide_": arithmetic.divide,
    "multiply_": arithmetic.multiply, "pow_": power.operator_power, "remainder_": arithmetic.remainder,
    "floor_divide_": arithmetic.floor_divide, "fmod_": arithmetic.Fmod.apply, "atan2_": trigonometric.ArcTan2.apply,
}  # fmt: skip
UNARY: dict[str, Function] = {
    "neg_": arithmetic.negative, "abs_": arithmetic.absolute, "exp_": exponential.Exp.apply,
    "expm1_": exponential.Expm1.apply, "log_": exponential.Log.apply, "log1p_": exponential.Log1p.apply,
    "sqrt_": power.Sqrt.apply, "square_": arithmetic.Square.apply, "reciprocal_": arithmetic.Reciprocal.apply,
    "sign_": arithmetic.Sign.apply, "sin_": trigonometric.Sin.apply, "cos_": trigonometric.Cos.apply,
    "tan_": trigonometric.Tan.apply, "tanh_": trigonometric.Tanh.apply, "sinh_": trigonometric.Sinh.apply,
    "cosh_": trigonometric.Cosh.apply, "floor_": rounding.Floor.apply, "ceil_": rounding.Ceil.apply,
    "trunc_": rounding.Trunc.apply, "round_": rounding.Rint.apply, "sigmoid_": special.Expit.apply,
    "erf_": special.Erf.apply,
}  # fmt: skip


def add_(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """self += alpha * other, in place."""
    return apply_inplace(self, lambda x: arithmetic.add(x, _scaled(_of(self, x, other), alpha)), "add_")


def sub_(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """self -= alpha * other, in place."""
    return apply_inplace(self, lambda x: arithmetic.subtract(x, _scaled(_of(self, x, other), alpha)), "sub_")


def _scaled(other: Any, alpha: Any) -> Any:
    return other if type(alpha) is int and alpha == 1 else arithmetic.multiply(other, alpha)


def _of(self: Tensor, old: Tensor, other: Any) -> Any:
    return old if other is self else other


def addcmul_(self: Tensor, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """self += value * tensor1 * tensor2, in place."""
    change = arithmetic.multiply(tensor1, tensor2)
    return apply_inplace(self, lambda x: arithmetic.add(x, _scaled(change, value)), "addcmul_")


def addcdiv_(self: Tensor, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """self += value * tensor1 / tensor2, in place."""
    change = arithmetic.divide(tensor1, tensor2)
    return apply_inplace(self, lambda x: arithmetic.add(x, _scaled(change, value)), "addcdiv_")


def lerp_(self: Tensor, end: Any, weight: Any) -> Tensor:
    """self += weight * (end - self), in place."""

    def towards_end(x: Tensor) -> Any:
        return arithmetic.add(x, arithmetic.multiply(arithmetic.subtract(end, x), weight))

    return apply_inplace(self, towards_end, "lerp_")


def clamp_(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Values outside [min, max] become the bound, in place."""
    return apply_inplace(self, lambda x: select.clip(x, min, max), "clamp_")


def clamp_min_(self: Tensor, min: Any) -> Tensor:
    return clamp_(self, min=min)


def clamp_max_(self: Tensor, max: Any) -> Tensor:
    return clamp_(self, max=max)


def relu_(self: Tensor) -> Tensor:
    """Negative values become 0, in place."""
    return apply_inplace(self, lambda x: select.where(x <= 0, np.zeros((), x.dtype), x), "relu_")


def masked_fill_(self: Tensor, mask: Any, value: Any) -> Tensor:
    """`value` where the mask is True, in place."""
    return apply_inplace(self, lambda x: select.where(mask, value, x), "masked_fill_")


def zero_(self: Tensor) -> Tensor:
    """All elements become 0."""
    return replace_value(self, 0, "zero_", "ZeroBackward0")


def fill_(self: Tensor, value: Any) -> Tensor:
    """All elements become `value`, a number or 0-d Tensor."""
    if isinstance(value, (Tensor, np.ndarray)) and value.ndim:
        raise ArgumentError(f"fill_ takes a number or a 0-d Tensor, not one of shape {tuple(value.shape)}")
    return replace_value(self, value, "fill_", "FillBackward0")


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """The elements of `src`, broadcast and cast, in place."""
    return replace_value(self, src, "copy_", "CopyBackwards")


def _draw(self: Tensor, kind: str, generator: Any, *parameters: Any) -> Tensor:
    from tracegrad.random import inplace

    value = getattr(inplace, kind)(self, generator, *parameters)
    return replace_value(self, value, f"{kind}_", f"{kind.title().replace('_', '')}Backward0")


def uniform_(self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Any = None) -> Tensor:
    """Uniform random numbers from [from_, to), in place."""
    return _draw(self, "uniform", generator, from_, to)


def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Normal random numbers, in place."""
    return _draw(self, "normal", generator, mean, std)


def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Tensor:
    """exp of normal random numbers of that mean and standard deviation, in place."""
    return _draw(self, "log_normal", generator, mean, std)


def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Tensor:
    """Cauchy random numbers, in place."""
    return _draw(self, "cauchy", generator, median, sigma)


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """1 with probability p, else 0, in place."""
    return _draw(self, "bernoulli", generator, p)


def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Exponential random numbers of rate `lambd`, in place."""
    return _draw(self, "exponential", generator, lambd)


def random_(self: Tensor, from_: int = 0, to: int | None = None, *, generator: Any = None) -> Tensor:
    """Random integers from [from_, to), in place; without `to`, all that the dtype holds exactly."""
    return _draw(self, "random", generator, from_, to)


def fill_diagonal_(self: Tensor, value: Any) -> Tensor:
    """The main diagonal becomes `value`."""
    if state.trace is not None or state.dual is not None or (state.grad_enabled and self.requires_grad):
        index = (np.arange(min(self.shape)),) * self.ndim
        setitem(self, index, value)
        return self
    check_inplace(self)
    rescue(self)
    np.fill_diagonal(self._array, value)
    bump(self)
    return self


def _binary(function: Function, name: str) -> Function:
    def method(self: Tensor, other: Any) -> Tensor:
        return apply_inplace(self, lambda x: function(x, _of(self, x, other)), name)

    return method


def _unary(function: Function, name: str) -> Function:
    def method(self: Tensor) -> Tensor:
        return apply_inplace(self, function, name)

    return method


def attach() -> None:
    """Put the in-place operators and methods on Tensor."""
    for name, (symbol, function) in OPERATORS.items():
        setattr(Tensor, name, augmented(symbol, function))
    for table, maker in ((BINARY, _binary), (UNARY, _unary)):
        for name, function in table.items():
            method = maker(function, name)
            method.__name__, method.__qualname__ = name, f"Tensor.{name}"
            method.__doc__ = f"{name[:-1]} of the elements, in place."
            setattr(Tensor, name, method)
    for function in (
        add_, sub_, addcmul_, addcdiv_, lerp_, clamp_, clamp_min_, clamp_max_, relu_, masked_fill_, zero_, fill_, copy_,
        uniform_, normal_, log_normal_, cauchy_, bernoulli_, exponential_, random_, fill_diagonal_,
    ):  # fmt: skip
        setattr(Tensor, function.__name__, function)
    Tensor.clip_ = clamp_
    Tensor.subtract_ = sub_
    Tensor.__setitem__ = setitem


attach()
