"""Activation layers; the functions are in tracegrad.nn.functional."""

from __future__ import annotations

from typing import Any

import tracegrad.nn.functional as F
from tracegrad.nn.module import Module
from tracegrad.nn.parameter import Parameter
from tracegrad.ops.creation import full


class _Activation(Module):
    """A function with settings. `shown` names those that the repr always shows; `inplace` shows where it is set."""

    shown: tuple[str, ...] = ()
    inplace: bool = False

    def extra_repr(self) -> str:
        texts = [f"{name}={getattr(self, name)!r}" for name in self.shown]
        return ", ".join(texts + ["inplace=True"] * self.inplace)


class _Inplace(_Activation):
    """An activation whose only setting is `inplace`."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace


class ReLU(_Inplace):
    """max(x, 0)."""

    def forward(self, input: Any) -> Any:
        return F.relu(input, self.inplace)


class ReLU6(_Inplace):
    """x limited to 0 … 6."""

    def forward(self, input: Any) -> Any:
        return F.relu6(input, self.inplace)


class SELU(_Inplace):
    """The self-normalising ELU."""

    def forward(self, input: Any) -> Any:
        return F.selu(input, self.inplace)


class SiLU(_Inplace):
    """x sigmoid(x)."""

    def forward(self, input: Any) -> Any:
        return F.silu(input, self.inplace)


class Mish(_Inplace):
    """x tanh(softplus(x))."""

    def forward(self, input: Any) -> Any:
        return F.mish(input, self.inplace)


class Hardsigmoid(_Inplace):
    """relu6(x + 3) / 6."""

    def forward(self, input: Any) -> Any:
        return F.hardsigmoid(input, self.inplace)


class Hardswish(_Inplace):
    """x relu6(x + 3) / 6."""

    def forward(self, input: Any) -> Any:
        return F.hardswish(input, self.inplace)


class Sigmoid(_Activation):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Any) -> Any:
        return F.sigmoid(input)


class LogSigmoid(_Activation):
    """log(sigmoid(x))."""

    def forward(self, input: Any) -> Any:
        return F.logsigmoid(input)


class Tanh(_Activation):
    """The hyperbolic tangent."""

    def forward(self, input: Any) -> Any:
        return F.tanh(input)


class Tanhshrink(_Activation):
    """x - tanh(x)."""

    def forward(self, input: Any) -> Any:
        return F.tanhshrink(input)


class Softsign(_Activation):
    """x / (1 + |x|)."""

    def forward(self, input: Any) -> Any:
        return F.softsign(input)


class LeakyReLU(_Activation):
    """x where it is positive, `negative_slope * x` elsewhere."""

    shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False):
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Any) -> Any:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class RReLU(_Activation):
    """LeakyReLU with slopes drawn from [lower, upper) while training, their mean otherwise."""

    shown = ("lower", "upper")

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False):
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Any) -> Any:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class PReLU(_Activation):
    """LeakyReLU whose slope is a parameter: one, or one per channel (axis 1)."""

    shown = ("num_parameters",)

    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: Any = None):
        super().__init__()
        self.num_parameters = num_parameters
        self.weight = Parameter(full(num_parameters, init, float if dtype is None else dtype))

    def forward(self, input: Any) -> Any:
        return F.prelu(input, self.weight)


class ELU(_Activation):
    """x where it is positive, `alpha * (exp(x) - 1)` elsewhere."""

    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Any) -> Any:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Activation):
    """x where it is positive, `alpha * (exp(x / alpha) - 1)` elsewhere."""

    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Any) -> Any:
        return F.celu(input, self.alpha, self.inplace)


class GELU(_Activation):
    """x Φ(x); `approximate="tanh"` for the approximation by tanh."""

    shown = ("approximate",)

    def __init__(self, approximate: str = "none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        return F.gelu(input, self.approximate)


class Softplus(_Activation):
    """log(1 + exp(beta x)) / beta; x itself where beta x exceeds the threshold."""

    shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Any) -> Any:
        return F.softplus(input, self.beta, self.threshold)


class Softshrink(_Activation):
    """x moved towards 0 by `lambd`."""

    def __init__(self, lambd: float = 0.5):
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Any) -> Any:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Activation):
    """x, and 0 within the distance `lambd` of 0."""

    def __init__(self, lambd: float = 0.5):
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Any) -> Any:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardtanh(_Activation):
    """x limited to `min_val` … `max_val`."""

    shown = ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False):
        super().__init__()
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Any) -> Any:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class Threshold(_Activation):
    """x where it exceeds the threshold, `value` elsewhere."""

    shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False):
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Any) -> Any:
        return F.threshold(input, self.threshold, self.value, self.inplace)


class GLU(_Activation):
    """The first half along an axis, times the sigmoid of the second half."""

    shown = ("dim",)

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        return F.glu(input, self.dim)


class _AlongAxis(_Activation):
    shown = ("dim",)

    def __init__(self, dim: int | None = None):
        super().__init__()
        self.dim = dim


class Softmax(_AlongAxis):
    """exp(x) / sum(exp(x)) along `dim`."""

    def forward(self, input: Any) -> Any:
        return F.softmax(input, self.dim)


class LogSoftmax(_AlongAxis):
    """log(softmax(x)) along `dim`."""

    def forward(self, input: Any) -> Any:
        return F.log_softmax(input, self.dim)


class Softmin(_AlongAxis):
    """softmax(-x) along `dim`."""

    def forward(self, input: Any) -> Any:
        return F.softmin(input, self.dim)
