"""Pooling layers; the functions are in tracegrad.nn.functional."""

from __future__ import annotations

from typing import Any

import tracegrad.nn.functional as F
from tracegrad.nn.module import Module


class _MaxPool(Module):
    """The maximum of each window; the windows lie one beside the other unless `stride` is given."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def _pooled(self, function: Any, input: Any) -> Any:
        return function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """Maxima of windows of (N, C, L) or (C, L)."""

    def forward(self, input: Any) -> Any:
        return self._pooled(F.max_pool1d, input)


class MaxPool2d(_MaxPool):
    """Maxima of windows of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Any) -> Any:
        return self._pooled(F.max_pool2d, input)


class AvgPool1d(Module):
    """Means of windows of (N, C, L) or (C, L)."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ):
        super().__init__()
        self.kernel_size = kernel_size if isinstance(kernel_size, tuple) else (kernel_size,)
        step = kernel_size if stride is None else stride
        self.stride = step if isinstance(step, tuple) else (step,)
        self.padding = padding if isinstance(padding, tuple) else (padding,)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Any) -> Any:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(Module):
    """Means of windows of (N, C, H, W) or (C, H, W)."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ):
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, kernel_size if stride is None else stride, padding
        self.ceil_mode, self.count_include_pad, self.divisor_override = ceil_mode, count_include_pad, divisor_override

    def forward(self, input: Any) -> Any:
        return F.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AdaptivePool(Module):
    """Pooling into parts whose number is given; a size that is None is kept."""

    def __init__(self, output_size: Any):
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptivePool):
    """Means of `output_size` parts of L."""

    def forward(self, input: Any) -> Any:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptivePool):
    """Means of output_size parts of H × W."""

    def forward(self, input: Any) -> Any:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveMaxPool1d(_AdaptivePool):
    """Maxima of `output_size` parts of L."""

    def forward(self, input: Any) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size)


class AdaptiveMaxPool2d(_AdaptivePool):
    """Maxima of output_size parts of H × W."""

    def forward(self, input: Any) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size)
