"""Linear layers, the identity, and changes of shape."""

from __future__ import annotations

import math
from typing import Any

import tracegrad.nn.functional as F
from tracegrad.errors import ArgumentError
from tracegrad.nn import init
from tracegrad.nn.module import Module
from tracegrad.nn.parameter import Parameter
from tracegrad.ops.base import normalize_axis
from tracegrad.ops.creation import as_tensor, empty


def new_parameter(*shape: int, dtype: Any = None) -> Parameter:
    """A parameter of that shape and dtype (float64 unless given), to be filled."""
    return Parameter(empty(shape, dtype=dtype))


class Identity(Module):
    """Hands its input on; arguments of the constructor are ignored."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Module):
    """`x @ weight.T + bias`; weight (out_features, in_features) and bias start uniform within ±1/√in_features."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, dtype: Any = None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = new_parameter(out_features, in_features, dtype=dtype)
        self.register_parameter("bias", new_parameter(out_features, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Any) -> Any:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """`x1 weight[k] x2 + bias[k]`; weight (out, in1, in2) and bias start uniform within ±1/√in1."""

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, dtype: Any = None):
        super().__init__()
        if in1_features <= 0:
            raise ArgumentError(f"Bilinear: in1_features must be positive, got {in1_features}")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = new_parameter(out_features, in1_features, in2_features, dtype=dtype)
        self.register_parameter("bias", new_parameter(out_features, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Any, input2: Any) -> Any:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Flatten(Module):
    """The axes from `start_dim` to `end_dim` joined into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Any) -> Any:
        x = as_tensor(input)
        first, last = normalize_axis(self.start_dim, x.ndim), normalize_axis(self.end_dim, x.ndim)
        if first > last:
            raise ArgumentError(f"Flatten: start_dim {first} comes after end_dim {last}")
        joined = math.prod(x.shape[first : last + 1])
        return x.reshape((*x.shape[:first], joined, *x.shape[last + 1 :]))

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One axis split into several, of the sizes `unflattened_size`."""

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]):
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Any) -> Any:
        x = as_tensor(input)
        axis = normalize_axis(self.dim, x.ndim)
        return x.reshape((*x.shape[:axis], *self.unflattened_size, *x.shape[axis + 1 :]))

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
