"""Schedules of the learning rate. `step()` after `optimizer.step()`, outside compiled functions, which read the rate
afresh in each call.

Each schedule is a formula of the step number t. Where somebody else has changed the rate meanwhile (another schedule on
the same optimizer, or the user), it is scaled by the formula's ratio instead, so schedules combine.
"""

from __future__ import annotations

import bisect
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tracegrad.errors import OptimizerTypeError, OptimizerValueError, UnsupportedError
from tracegrad.optim.optimizer import Optimizer
from tracegrad.state import state


def check_outside(name: str) -> None:
    """Raise UnsupportedError inside a trace, where the step of a schedule would happen once only."""
    if state.trace is not None:
        raise UnsupportedError(
            f"{name}.step() inside a traced function would happen once, while it is recorded",
            fix="call it after the compiled function, which reads the learning rate afresh in each call",
        )


class LRScheduler:
    """Base class: a subclass implements `value(base, t)`, the rate at step t of a group that began with `base`."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        if not isinstance(optimizer, Optimizer):
            raise OptimizerTypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise OptimizerValueError("param 'initial_lr' is not specified in a group when resuming an optimizer")
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._set = list(self.base_lrs)  # what we set last
        if last_epoch == -1:
            self._go(0)
        else:
            self._set = [group["lr"] for group in optimizer.param_groups]
        self._last_lr = [group["lr"] for group in optimizer.param_groups]

    def value(self, base: float, t: int) -> float:
        raise NotImplementedError(f"{type(self).__name__} has no method value(base, t)")

    def values(self, t: int) -> list[float]:
        """The rates of all groups at step t by the formula alone."""
        return [self.value(base, t) for base in self.base_lrs]

    def step(self, epoch: int | None = None) -> None:
        """On to the next step, or to step `epoch`."""
        check_outside(type(self).__name__)
        if not self.optimizer.has_stepped and self.last_epoch == 0 and epoch is None:
            warnings.warn(
                "lr_scheduler.step() is called before optimizer.step(), so the first value of the schedule is skipped; "
                "call optimizer.step() first",
                UserWarning,
                stacklevel=2,
            )
        self._go(self.last_epoch + 1 if epoch is None else epoch)

    def _go(self, t: int) -> None:
        former = self.values(self.last_epoch) if self.last_epoch >= 0 else list(self.base_lrs)
        for i, (group, new) in enumerate(zip(self.optimizer.param_groups, self.values(t), strict=True)):
            if group["lr"] != self._set[i] and former[i] != 0:
                new = group["lr"] * (new / former[i])
            group["lr"] = self._set[i] = new
        self.last_epoch = t
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float]:
        """The rates that were set last, one per group."""
        return list(self._last_lr)

    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on: numbers and lists, no functions."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer" and not _function(v)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken."""
        self.__dict__.update(state_dict)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(last_epoch={self.last_epoch}, lr={self._last_lr})"


def _function(value: Any) -> bool:
    return callable(value) or (isinstance(value, list) and any(map(callable, value)))


class LambdaLR(LRScheduler):
    """base * lr_lambda(t); a list has one function per group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1):
        groups = len(optimizer.param_groups)
        self.lr_lambdas: list[Callable[[int], float]] = (
            list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * groups
        )
        if len(self.lr_lambdas) != groups:
            raise OptimizerValueError(f"expected {groups} lr_lambdas, one per group, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def values(self, t: int) -> list[float]:
        return [base * function(t) for base, function in zip(self.base_lrs, self.lr_lambdas, strict=True)]


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


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to max_lr, and down to a final_div_factor-th of where it began (Smith, Topin,
    arXiv:1708.07120, 2017); the momentum (or beta1) goes the other way."""

    def __init__(
        self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None, epochs: int | None = None,
        steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos",
        cycle_momentum: bool = True, base_momentum: float = 0.85, max_momentum: float = 0.95, div_factor: float = 25.0,
        final_div_factor: float = 1e4, three_phase: bool = False, last_epoch: int = -1,
    ):  # fmt: skip
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise OptimizerValueError("OneCycleLR needs total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if anneal_strategy not in ("cos", "linear"):
            raise OptimizerValueError(f'anneal_strategy is "cos" or "linear", not {anneal_strategy!r}')
        self.total_steps, self.anneal_strategy, self.cycle_momentum = total_steps, anneal_strategy, cycle_momentum
        self.base_momentum, self.max_momentum = base_momentum, max_momentum
        peaks = max_lr if isinstance(max_lr, (list, tuple)) else [max_lr] * len(optimizer.param_groups)
        low, high = base_momentum, max_momentum
        first = pct_start * total_steps - 1
        # Per phase: its last step, the divisors of the peak rate at its ends, the momenta there.
        self.phases: list[tuple[float, float, float, float, float]] = [(first, div_factor, 1.0, high, low)]
        final = div_factor * final_div_factor
        if three_phase:
            self.phases += [
                (2 * pct_start * total_steps - 2, 1.0, div_factor, low, high),
                (total_steps - 1, div_factor, final, high, high),
            ]
        else:
            self.phases += [(total_steps - 1, 1.0, final, low, high)]
        if last_epoch == -1:
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["initial_lr"], group["max_lr"], group["min_lr"] = peak / div_factor, peak, peak / final
                group["lr"] = group["initial_lr"]
        self.max_lrs = list(peaks)
        super().__init__(optimizer, last_epoch)

    def _anneal(self, start: float, end: float, share: float) -> float:
        if self.anneal_strategy == "linear":
            return start + (end - start) * share
        return end + (start - end) / 2 * (1 + math.cos(math.pi * share))

    def _phase(self, t: float) -> tuple[tuple[float, ...], float]:
        begin = 0.0
        for phase in self.phases[:-1]:
            if t <= phase[0]:
                return phase, (t - begin) / (phase[0] - begin) if phase[0] != begin else 1.0
            begin = phase[0]
        last = self.phases[-1]
        return last, (t - begin) / (last[0] - begin) if last[0] != begin else 1.0

    def values(self, t: int) -> list[float]:
        if t >= self.total_steps:
            raise OptimizerValueError(
                f"Tried to step {t} times. The specified number of total steps is {self.total_steps}"
            )
        phase, share = self._phase(t)
        return [self._anneal(peak / phase[1], peak / phase[2], share) for peak in self.max_lrs]

    def _go(self, t: int) -> None:
        super()._go(t)
        if not self.cycle_momentum:
            return
        phase, share = self._phase(t)
        momentum = self._anneal(phase[3], phase[4], share)
        for group in self.optimizer.param_groups:
            if "betas" in group:
                group["betas"] = (momentum, *group["betas"][1:])
            elif "momentum" in group:
                group["momentum"] = momentum


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
        self._set = self._last_lr = [group["lr"] for group in optimizer.param_groups]
        self.base_lrs = list(self._set)

    def values(self, t: int) -> list[float]:
        i = bisect.bisect_right(self.milestones, t)
        return self.schedulers[i].values(t - self.milestones[i - 1] if i else t)

    def state_dict(self) -> dict[str, Any]:
        own = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "schedulers")}
        return {**own, "schedulers": [s.state_dict() for s in self.schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        for scheduler, saved in zip(self.schedulers, state_dict["schedulers"], strict=True):
            scheduler.load_state_dict(saved)
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "schedulers"})


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
