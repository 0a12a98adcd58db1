"""Schedules of the learning rate. `step()` after `optimizer.step()`, outside compiled functions, which read the rate
afresh in each call."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tracegrad.errors import OptimizerTypeError, OptimizerValueError
from tracegrad.optim.cycles import CyclicLR, OneCycleLR, per_group
from tracegrad.optim.optimizer import Optimizer
from tracegrad.optim.schedule import LRScheduler, check_outside

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


class LambdaLR(LRScheduler):
    """base * lr_lambda(t); a list has one function per group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1):
        self.lr_lambdas: list[Callable[[int], float]] = per_group(lr_lambda, optimizer, "lr_lambdas")
        super().__init__(optimizer, last_epoch)

    def values(self, t: int) -> list[float]:
        return [base * function(t) for base, function in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(LRScheduler):
    """The former rate * lr_lambda(t); a list has one function per group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1):
        self.lr_lambdas: list[Callable[[int], float]] = per_group(lr_lambda, optimizer, "lr_lambdas")
        super().__init__(optimizer, last_epoch)

    def values(self, t: int) -> list[float]:
        factors = (math.prod(map(function, range(1, t + 1))) for function in self.lr_lambdas)
        return [base * factor for base, factor in zip(self.base_lrs, factors, strict=True)]

    def _go(self, t: int) -> None:  # without all the factors that there were
        for group, function in zip(self.optimizer.param_groups, self.lr_lambdas, strict=True):
            group["lr"] *= function(t) if t > 0 else 1
        self._note(t)


class StepLR(LRScheduler):
    """base * gamma^(t // step_size)."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def value(self, base: float, t: int) -> float:
        return base * self.gamma ** (t // self.step_size)


class MultiStepLR(LRScheduler):
    """base * gamma^(number of milestones reached)."""

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1):
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def value(self, base: float, t: int) -> float:
        return base * self.gamma ** bisect.bisect_right(self.milestones, t)


class ExponentialLR(LRScheduler):
    """base * gamma^t."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def value(self, base: float, t: int) -> float:
        return base * self.gamma**t


class ConstantLR(LRScheduler):
    """base * factor for the first `total_iters` steps, base after them."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1):
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def value(self, base: float, t: int) -> float:
        return base * (self.factor if t < self.total_iters else 1.0)


class LinearLR(LRScheduler):
    """base times a factor that goes from start_factor to end_factor in `total_iters` steps."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5,
        last_epoch: int = -1,
    ):  # fmt: skip
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise OptimizerValueError("the factors of LinearLR are in [0, 1], the first of them not 0")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def value(self, base: float, t: int) -> float:
        passed = min(t, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * passed)


class PolynomialLR(LRScheduler):
    """base * (1 - t / total_iters)^power."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def value(self, base: float, t: int) -> float:
        return base * (1 - min(t, self.total_iters) / self.total_iters) ** self.power


class CosineAnnealingLR(LRScheduler):
    """From base to eta_min along half a cosine of T_max steps, and on (Loshchilov, Hutter, ICLR 2017, equation 5)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def value(self, base: float, t: int) -> float:
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * t / self.T_max)) / 2


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines of T_0, T_0 * T_mult, T_0 * T_mult², … steps (Loshchilov, Hutter, ICLR 2017). `step` takes fractions
    of an epoch too."""

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ):  # fmt: skip
        if T_0 <= 0 or T_mult < 1:
            raise OptimizerValueError(f"Expected positive T_0 and T_mult >= 1, but got {T_0} and {T_mult}")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def value(self, base: float, t: float) -> float:
        period: float = self.T_0
        if self.T_mult == 1:
            t = t % period
        else:
            while t >= period:
                t, period = t - period, period * self.T_mult
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * t / period)) / 2


def state_of_all(scheduler: Any) -> dict[str, Any]:
    """What a schedule made of others needs to go on."""
    own = {k: v for k, v in vars(scheduler).items() if k not in ("optimizer", "schedulers")}
    return {**own, "schedulers": [s.state_dict() for s in scheduler.schedulers]}


def load_all(scheduler: Any, state_dict: Mapping[str, Any]) -> None:
    """Let it and the others go on where `state_dict` was taken."""
    for each, saved in zip(scheduler.schedulers, state_dict["schedulers"], strict=True):
        each.load_state_dict(saved)
    vars(scheduler).update({k: v for k, v in state_dict.items() if k != "schedulers"})


class SequentialLR(LRScheduler):
    """One schedule after the other; the i-th begins, from its step 0, at the i-th milestone."""

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1
    ):
        if len(milestones) != len(schedulers) - 1 or not schedulers:
            raise OptimizerValueError(
                f"SequentialLR needs one milestone less than schedulers, got {len(milestones)} and {len(schedulers)}"
            )
        if any(s.optimizer is not optimizer for s in schedulers):
            raise OptimizerValueError("all schedulers of a SequentialLR belong to its optimizer")
        self.schedulers, self.milestones = list(schedulers), list(milestones)
        super().__init__(optimizer, last_epoch)
        # The schedules have set their first values one after the other; only the first one's counts.
        for group, value in zip(optimizer.param_groups, self.values(max(self.last_epoch, 0)), strict=True):
            group["lr"] = value
        self._note(self.last_epoch)

    def values(self, t: int) -> list[float]:
        i = bisect.bisect_right(self.milestones, t)
        return self.schedulers[i].values(t - self.milestones[i - 1] if i else t)

    def state_dict(self) -> dict[str, Any]:
        return state_of_all(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        load_all(self, state_dict)


class ChainedScheduler(LRScheduler):
    """Several schedules of one optimizer, of which each `step()` steps all: their factors multiply."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None):
        if not schedulers:
            raise OptimizerValueError("a ChainedScheduler needs at least one scheduler")
        if not all(isinstance(s, LRScheduler) for s in schedulers):
            raise OptimizerValueError("a ChainedScheduler cannot step ReduceLROnPlateau, which needs a metric")
        self.optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        if any(s.optimizer is not self.optimizer for s in schedulers):
            raise OptimizerValueError("all schedulers of a ChainedScheduler belong to the same optimizer")
        self.schedulers = list(schedulers)
        self._note(schedulers[-1].last_epoch)

    def step(self, epoch: int | None = None) -> None:
        """On to the next step of all, or to step `epoch`."""
        for scheduler in self.schedulers:
            scheduler.step(epoch)
        self._note(self.schedulers[-1].last_epoch)

    def state_dict(self) -> dict[str, Any]:
        return state_of_all(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        load_all(self, state_dict)


class ReduceLROnPlateau:
    """The rate times `factor` where a metric has not improved for more than `patience` steps."""

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0.0, eps: float = 1e-8,
    ):  # fmt: skip
        if factor >= 1.0:
            raise OptimizerValueError("Factor should be < 1.0")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise OptimizerValueError('mode is "min" or "max", threshold_mode is "rel" or "abs"')
        if not isinstance(optimizer, Optimizer):
            raise OptimizerTypeError(f"{type(optimizer).__name__} is not an Optimizer")
        groups = len(optimizer.param_groups)
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * groups
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0

    def _better(self, metric: float) -> bool:
        sign = 1 if self.mode == "min" else -1
        margin = self.threshold * abs(self.best) if self.threshold_mode == "rel" else self.threshold
        if math.isinf(self.best):
            return metric != self.best
        return sign * metric < sign * self.best - margin

    def step(self, metrics: Any, epoch: int | None = None) -> None:
        """Take note of the metric of this step."""
        check_outside(type(self).__name__)
        metric = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._better(metric):
            self.best, self.num_bad_epochs = metric, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, smallest in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                new = max(group["lr"] * self.factor, smallest)
                if group["lr"] - new > self.eps:
                    group["lr"] = new
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def get_last_lr(self) -> list[float]:
        """The present rates, one per group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken."""
        self.__dict__.update(state_dict)
