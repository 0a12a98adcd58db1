"""Convolution layers and their transposes, over one or two axes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tracegrad.nn.functional as F
from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.nn import init
from tracegrad.nn.functional.arguments import sizes
from tracegrad.nn.functional.conv import pad_widths
from tracegrad.nn.linear import new_parameter
from tracegrad.nn.module import Module
from tracegrad.ops.base import shape_text
from tracegrad.ops.creation import as_tensor

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _Conv(Module):
    """What convolutions share. weight and bias start uniform within ±1/√fan_in."""

    n: ClassVar[int]
    transposed: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        dtype: Any = None,
    ):
        super().__init__()
        what, n = type(self).__name__, self.n
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(
                f"{what}: in_channels {in_channels} and out_channels {out_channels} must be multiples of groups "
                f"{groups}"
            )
        if padding_mode not in _PADDING_MODES[: 1 if self.transposed else None]:
            raise ArgumentError(f"{what} has no padding_mode {padding_mode!r}", fix="use 'zeros'")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = sizes(kernel_size, n, f"{what}: kernel_size")
        self.stride = sizes(stride, n, f"{what}: stride")
        self.dilation = sizes(dilation, n, f"{what}: dilation")
        self.padding_mode = padding_mode
        pad_widths(padding, self.kernel_size, self.stride, self.dilation, what)  # refuses what makes no sense
        self.padding = padding if isinstance(padding, str) else sizes(padding, n, f"{what}: padding", least=0)
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        self.weight = new_parameter(first, second // groups, *self.kernel_size, dtype=dtype)
        self.register_parameter("bias", new_parameter(out_channels, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        fan_in = init.fans(self.weight)[0]
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def _convolved(self, function: Any, input: Any) -> Any:
        x = as_tensor(input)
        if x.ndim not in (self.n + 1, self.n + 2) or x.shape[-self.n - 1] != self.in_channels:
            raise ShapeError(
                f"{type(self).__name__}({self.in_channels}, {self.out_channels}, …) takes an input of "
                f"{self.n + 1} or {self.n + 2} dimensions with {self.in_channels} channels (axis {-self.n - 1}), not "
                f"one of shape {shape_text(x.shape)}",
                fix="put the channels before the space: (N, C, …)",
            )
        padding = self.padding
        if self.padding_mode != "zeros":
            widths = pad_widths(padding, self.kernel_size, self.stride, self.dilation, type(self).__name__)
            x = F.pad(x, [w for pair in reversed(widths) for w in pair], self.padding_mode)
            padding = 0
        return function(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        n = self.n
        texts = [f"{self.in_channels}, {self.out_channels}"]
        texts += [f"kernel_size={self.kernel_size}, stride={self.stride}"]
        usual = {
            "padding": (0,) * n, "dilation": (1,) * n, "output_padding": (0,) * n, "groups": 1,
        }  # fmt: skip
        texts += [f"{k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k, v) != v]
        texts += ["bias=False"] if self.bias is None else []
        texts += [f"padding_mode={self.padding_mode}"] if self.padding_mode != "zeros" else []
        return ", ".join(texts)


class Conv1d(_Conv):
    """Correlation of (N, C, L) or (C, L) with `weight` (out, in / groups, K); see functional.conv1d."""

    n = 1

    def forward(self, input: Any) -> Any:
        return self._convolved(F.conv1d, input)


class Conv2d(_Conv):
    """Correlation of (N, C, H, W) or (C, H, W) with `weight` (out, in / groups, KH, KW); see functional.conv2d."""

    n = 2

    def forward(self, input: Any) -> Any:
        return self._convolved(F.conv2d, input)


class _ConvTranspose(_Conv):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        dtype: Any = None,
    ):
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, dtype
        )
        self.output_padding = sizes(output_padding, self.n, f"{type(self).__name__}: output_padding", least=0)

    def _convolved(self, function: Any, input: Any) -> Any:
        def transposed(x: Any, w: Any, b: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
            return function(x, w, b, stride, padding, self.output_padding, groups, dilation)

        return super()._convolved(transposed, input)


class ConvTranspose1d(_ConvTranspose):
    """The transpose of Conv1d with respect to its input; `weight` (in, out / groups, K)."""

    n = 1

    def forward(self, input: Any) -> Any:
        return self._convolved(F.conv_transpose1d, input)


class ConvTranspose2d(_ConvTranspose):
    """The transpose of Conv2d with respect to its input; `weight` (in, out / groups, KH, KW)."""

    n = 2

    def forward(self, input: Any) -> Any:
        return self._convolved(F.conv_transpose2d, input)
