"""RMSprop and Adadelta: steps divided by a moving average of the gradient's size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.errors import OptimizerValueError
from tracegrad.optim.optimizer import Group, Item, Optimizer, assign, require_non_negative, scalar


class RMSprop(Optimizer):
    """p -= lr * g / (sqrt(s) + eps), s the moving average of g² (Hinton, Coursera lecture 6e, 2012).

    centered: the square of the moving average of g is subtracted from s (Graves, arXiv:1308.0850, 2013).
    """

    def __init__(
        self, params: Any, lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
        momentum: float = 0, centered: bool = False, *, maximize: bool = False,
    ):  # fmt: skip
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "maximize": maximize,
        })  # fmt: skip

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        require_non_negative(group, "alpha")

    def _update(self, group: Group, items: Sequence[Item]) -> None:
        lr, alpha, eps = (self._number(group, name) for name in ("lr", "alpha", "eps"))
        momentum, decay = self._number(group, "momentum"), self._number(group, "weight_decay")
        for p, g, own in items:
            self._step_count(own)
            d = g + scalar(decay, p) * p if group["weight_decay"] != 0 else g
            (average,) = self._zeros(own, p, "square_avg")
            keep, take = scalar(alpha, p), scalar(1 - alpha, p)
            size = assign(average, keep * average + take * (d * d))
            if group["centered"]:
                (mean,) = self._zeros(own, p, "grad_avg")
                assign(mean, keep * mean + take * d)
                size = size - mean * mean
            change = d / (np.sqrt(size) + scalar(eps, p))
            if group["momentum"] != 0:
                (buffer,) = self._zeros(own, p, "momentum_buffer")
                change = assign(buffer, scalar(momentum, p) * buffer + change)
            assign(p, p - scalar(lr, p) * change)


class Adadelta(Optimizer):
    """p -= lr * g * sqrt(a + eps) / sqrt(s + eps), s and a moving averages of g² and of the changes' squares (Zeiler,
    arXiv:1212.5701, 2012, algorithm 1)."""

    def __init__(
        self, params: Any, lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        *, maximize: bool = False,
    ):  # fmt: skip
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        })  # fmt: skip

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        if not 0 <= group["rho"] <= 1:
            raise OptimizerValueError(f"Invalid rho value: {group['rho']}", fix="choose it in [0, 1]")

    def _update(self, group: Group, items: Sequence[Item]) -> None:
        lr, rho, eps = (self._number(group, name) for name in ("lr", "rho", "eps"))
        decay = self._number(group, "weight_decay")
        for p, g, own in items:
            self._step_count(own)
            d = g + scalar(decay, p) * p if group["weight_decay"] != 0 else g
            average, changes = self._zeros(own, p, "square_avg", "acc_delta")
            keep, take, small = scalar(rho, p), scalar(1 - rho, p), scalar(eps, p)
            assign(average, keep * average + take * (d * d))
            change = np.sqrt(changes + small) / np.sqrt(average + small) * d
            assign(changes, keep * changes + take * (change * change))
            assign(p, p - scalar(lr, p) * change)
