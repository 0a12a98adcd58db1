"""Stochastic gradient descent, with momentum as Sutskever et al. (ICML 2013) and Nesterov's variant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.errors import OptimizerValueError
from tracegrad.ops.select import where
from tracegrad.optim.optimizer import Group, Item, Optimizer, assign, scalar


class SGD(Optimizer):
    """p -= lr * d with d = g + weight_decay * p; with momentum b = momentum * b + (1 - dampening) * d, d = b (Nesterov:
    d + momentum * b). The first b is d itself."""

    handles_complex = True

    def __init__(
        self, params: Any, lr: float = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float = 0,
        nesterov: bool = False, *, maximize: bool = False,
    ):  # fmt: skip
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize,
        })  # fmt: skip

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise OptimizerValueError("Nesterov momentum requires a momentum and zero dampening")

    def _update(self, group: Group, items: Sequence[Item]) -> None:
        lr, momentum = self._number(group, "lr"), self._number(group, "momentum")
        decay, dampening = self._number(group, "weight_decay"), self._number(group, "dampening")
        for p, g, own in items:
            d = g + scalar(decay, p) * p if group["weight_decay"] != 0 else g
            if group["momentum"] != 0:
                started = "momentum_buffer" in own
                (buffer,) = self._zeros(own, p, "momentum_buffer")
                damped = d
                if group["dampening"] != 0:
                    first = self._step_count(own, start=1.0 if started else 0.0) == 1
                    damped = where(first, d, (1 - scalar(dampening, p)) * d)
                assign(buffer, scalar(momentum, p) * buffer + damped)
                d = d + scalar(momentum, p) * buffer if group["nesterov"] else buffer
            assign(p, p - scalar(lr, p) * d)


class Adagrad(Optimizer):
    """p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps), s the sum of g² (Duchi et al., JMLR 12, 2011)."""

    def __init__(
        self, params: Any, lr: float = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, *, maximize: bool = False,
    ):  # fmt: skip
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "maximize": maximize,
        })  # fmt: skip

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        if not group["initial_accumulator_value"] >= 0:
            raise OptimizerValueError(f"Invalid initial_accumulator_value: {group['initial_accumulator_value']}")

    def _update(self, group: Group, items: Sequence[Item]) -> None:
        lr, lr_decay = self._number(group, "lr"), self._number(group, "lr_decay")
        eps, decay = self._number(group, "eps"), self._number(group, "weight_decay")
        for p, g, own in items:
            step = self._step_count(own)
            d = g + scalar(decay, p) * p if group["weight_decay"] != 0 else g
            (total,) = self._zeros(own, p, "sum", value=group["initial_accumulator_value"])
            rate = lr / (1 + (step - 1) * lr_decay) if group["lr_decay"] != 0 else lr
            assign(total, total + d * d)
            assign(p, p - scalar(rate, p) * (d / (np.sqrt(total) + scalar(eps, p))))
