"""Losses as modules; the functions are in tracegrad.nn.functional. `reduction` is 'mean', 'sum' or 'none'."""

from __future__ import annotations

from typing import Any

import tracegrad.nn.functional as F
from tracegrad.errors import ArgumentError
from tracegrad.nn.module import Module


class _Loss(Module):
    """A function of an input and a target, with a reduction."""

    reductions: tuple[str, ...] = ("mean", "sum", "none")

    def __init__(self, reduction: str = "mean"):
        super().__init__()
        if reduction not in self.reductions:
            raise ArgumentError(f"{type(self).__name__}: reduction must be one of {self.reductions}, not {reduction!r}")
        self.reduction = reduction


class L1Loss(_Loss):
    """|input - target|."""

    def forward(self, input: Any, target: Any) -> Any:
        return F.l1_loss(input, target, self.reduction)


class MSELoss(_Loss):
    """(input - target)²."""

    def forward(self, input: Any, target: Any) -> Any:
        return F.mse_loss(input, target, self.reduction)


class SmoothL1Loss(_Loss):
    """Quadratic for differences below `beta`, linear beyond; see functional.smooth_l1_loss."""

    def __init__(self, reduction: str = "mean", beta: float = 1.0):
        super().__init__(reduction)
        self.beta = beta

    def forward(self, input: Any, target: Any) -> Any:
        return F.smooth_l1_loss(input, target, self.reduction, self.beta)


class HuberLoss(_Loss):
    """Quadratic for differences up to `delta`, linear beyond; see functional.huber_loss."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0):
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: Any, target: Any) -> Any:
        return F.huber_loss(input, target, self.reduction, self.delta)


class _Weighted(_Loss):
    """A loss with a weight per class or element, kept as a buffer."""

    def __init__(self, weight: Any = None, reduction: str = "mean"):
        super().__init__(reduction)
        self.register_buffer("weight", weight)


class CrossEntropyLoss(_Weighted):
    """Cross entropy of logits (N, C, …) with classes (N, …) or probabilities; see functional.cross_entropy."""

    def __init__(
        self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0
    ):
        super().__init__(weight, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Any, target: Any) -> Any:
        return F.cross_entropy(input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing)


class NLLLoss(_Weighted):
    """-input[n, target[n]] for logarithms of probabilities (N, C, …); see functional.nll_loss."""

    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"):
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Any, target: Any) -> Any:
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class BCELoss(_Weighted):
    """Binary cross entropy of probabilities."""

    def forward(self, input: Any, target: Any) -> Any:
        return F.binary_cross_entropy(input, target, self.weight, self.reduction)


class BCEWithLogitsLoss(_Weighted):
    """Binary cross entropy of sigmoid(input), without overflow; `pos_weight` multiplies the positive term."""

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None):
        super().__init__(weight, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Any, target: Any) -> Any:
        return F.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)


class KLDivLoss(_Loss):
    """target (log target - input); reduction 'batchmean' divides the sum by the batch size."""

    reductions = ("mean", "sum", "none", "batchmean")

    def __init__(self, reduction: str = "mean", log_target: bool = False):
        super().__init__(reduction)
        self.log_target = log_target

    def forward(self, input: Any, target: Any) -> Any:
        return F.kl_div(input, target, self.reduction, self.log_target)


class GaussianNLLLoss(_Loss):
    """Negative log-likelihood of normal distributions with given variances."""

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean"):
        super().__init__(reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Any, target: Any, var: Any) -> Any:
        return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


class PoissonNLLLoss(_Loss):
    """Negative log-likelihood of Poisson distributions; the input is the (logarithm of the) rate."""

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"):
        super().__init__(reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, input: Any, target: Any) -> Any:
        return F.poisson_nll_loss(input, target, self.log_input, self.full, self.eps, self.reduction)


class _Margin(_Loss):
    """A loss with a margin."""

    def __init__(self, margin: float = 0.0, reduction: str = "mean"):
        super().__init__(reduction)
        self.margin = margin


class CosineEmbeddingLoss(_Margin):
    """1 - cos(x1, x2) for target 1, max(0, cos - margin) for target -1."""

    def forward(self, input1: Any, input2: Any, target: Any) -> Any:
        return F.cosine_embedding_loss(input1, input2, target, self.margin, self.reduction)


class MarginRankingLoss(_Margin):
    """max(0, -target (input1 - input2) + margin)."""

    def forward(self, input1: Any, input2: Any, target: Any) -> Any:
        return F.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


class HingeEmbeddingLoss(_Margin):
    """The input for target 1, max(0, margin - input) for target -1."""

    def __init__(self, margin: float = 1.0, reduction: str = "mean"):
        super().__init__(margin, reduction)

    def forward(self, input: Any, target: Any) -> Any:
        return F.hinge_embedding_loss(input, target, self.margin, self.reduction)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target input))."""

    def forward(self, input: Any, target: Any) -> Any:
        return F.soft_margin_loss(input, target, self.reduction)


class TripletMarginLoss(_Margin):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)."""

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: str = "mean"
    ):
        super().__init__(margin, reduction)
        self.p, self.eps, self.swap = p, eps, swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        return F.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, self.reduction
        )
