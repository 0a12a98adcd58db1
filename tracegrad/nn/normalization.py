"""Normalisation layers. Their parameters start as ones and zeros, the running statistics as variance 1 and mean 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import tracegrad.nn.functional as F
from tracegrad.errors import ArgumentError
from tracegrad.nn import init
from tracegrad.nn.functional.arguments import with_ndim
from tracegrad.nn.linear import new_parameter
from tracegrad.nn.module import Module
from tracegrad.ops.creation import as_tensor, ones, zeros
from tracegrad.state import setting


def _register_affine(module: Module, shape: tuple[int, ...], weight: bool, bias: bool, dtype: Any) -> None:
    module.register_parameter("weight", init.ones_(new_parameter(*shape, dtype=dtype)) if weight else None)
    module.register_parameter("bias", init.zeros_(new_parameter(*shape, dtype=dtype)) if bias else None)


def _reset_affine(module: Module) -> None:
    if module.weight is not None:
        init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)


class _BatchNorm(Module):
    """Normalises each channel over the batch; see functional.batch_norm.

    `momentum=None` makes the running statistics plain averages over all batches so far. Without
    `track_running_stats` the statistics are those of the batch in evaluation mode, too.
    """

    ndims: ClassVar[tuple[int, ...]]
    layout: ClassVar[str]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        bias: bool = True,
        dtype: Any = None,
    ):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        _register_affine(self, (num_features,), affine, affine and bias, dtype)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", ones(num_features, dtype=dtype) if tracked else None)
        self.register_buffer("num_batches_tracked", as_tensor(np.array(0)) if tracked else None)

    def reset_running_stats(self) -> None:
        """Forget the batches seen so far."""
        if self.track_running_stats:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            init.zeros_(self.num_batches_tracked)

    def reset_parameters(self) -> None:
        """Back to the starting values."""
        self.reset_running_stats()
        _reset_affine(self)

    def forward(self, input: Any) -> Any:
        x = with_ndim(as_tensor(input), self.ndims, type(self).__name__, self.layout)
        momentum: Any = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            with setting(grad_enabled=False):
                self.num_batches_tracked.add_(1)
                if self.momentum is None:
                    momentum = (1 / self.num_batches_tracked).astype(self.running_mean.dtype)
        of_batch = self.training or (self.running_mean is None and self.running_var is None)
        return F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, of_batch, momentum, self.eps
        )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L)."""

    ndims, layout = (2, 3), "(N, C) or (N, C, L)"


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (N, C, H, W)."""

    ndims, layout = (4,), "(N, C, H, W)"


class LayerNorm(Module):
    """The last axes, of sizes `normalized_shape`, less their mean, over their standard deviation."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: Any = None,
    ):
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        _register_affine(self, self.normalized_shape, elementwise_affine, elementwise_affine and bias, dtype)

    def reset_parameters(self) -> None:
        """Back to the starting values."""
        _reset_affine(self)

    def forward(self, input: Any) -> Any:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class RMSNorm(Module):
    """The last axes over the root of their mean square; `eps` defaults to that of the dtype."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        dtype: Any = None,
    ):
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        weight = init.ones_(new_parameter(*self.normalized_shape, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)

    def reset_parameters(self) -> None:
        """Back to the starting values."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Any) -> Any:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Groups of channels of each sample less their mean, over their standard deviation."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        bias: bool = True,
        dtype: Any = None,
    ):
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ArgumentError(f"GroupNorm: {num_channels} channels do not make {num_groups} equal groups")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        _register_affine(self, (num_channels,), affine, affine and bias, dtype)

    def reset_parameters(self) -> None:
        """Back to the starting values."""
        _reset_affine(self)

    def forward(self, input: Any) -> Any:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
