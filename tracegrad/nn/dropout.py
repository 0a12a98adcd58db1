"""Dropout layers: active while training, the identity after eval()."""

from __future__ import annotations

from typing import Any

import tracegrad.nn.functional as F
from tracegrad.errors import OptionError
from tracegrad.nn.module import Module


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        if not 0 <= p <= 1:
            raise OptionError(f"{type(self).__name__}: the probability p lies between 0 and 1, got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Each element 0 with probability p, else divided by 1 - p."""

    def forward(self, input: Any) -> Any:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """Whole channels of (N, C, L) dropped."""

    def forward(self, input: Any) -> Any:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """Whole channels of (N, C, H, W) dropped."""

    def forward(self, input: Any) -> Any:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance of SELU's outputs."""

    def forward(self, input: Any) -> Any:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)
