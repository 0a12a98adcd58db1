"""Schedules that go up and down, and the momentum the other way: CyclicLR, OneCycleLR."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tracegrad.errors import OptimizerValueError
from tracegrad.optim.optimizer import Group, Optimizer
from tracegrad.optim.schedule import LRScheduler


def per_group(value: Any, optimizer: Optimizer, what: str) -> list[Any]:
    """A number or function for each parameter group: the one that is given for all of them, or those of a list."""
    found = list(value) if isinstance(value, (list, tuple)) else [value] * len(optimizer.param_groups)
    if len(found) != len(optimizer.param_groups):
        raise OptimizerValueError(
            f"expected {len(optimizer.param_groups)} {what}, one per parameter group, but got {len(found)}"
        )
    return found


def set_momentum(group: Group, momentum: float) -> None:
    """The momentum of a group, or its beta1."""
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    elif "momentum" in group:
        group["momentum"] = momentum


class CyclicLR(LRScheduler):
    """From base_lr to max_lr in `step_size_up` steps and back in `step_size_down`, again and again (Smith, WACV 2017).

    mode: "triangular"; "triangular2", whose height halves in each cycle; "exp_range", whose height is gamma^t.
    scale_fn: the factor of the height instead, of the number of the cycle (from 1) or of t, as `scale_mode` says.
    cycle_momentum: the momentum (or beta1) goes from max_momentum to base_momentum and back.
    """

    def __init__(
        self, optimizer: Optimizer, base_lr: Any, max_lr: Any, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle", cycle_momentum: bool = True,
        base_momentum: Any = 0.8, max_momentum: Any = 0.9, last_epoch: int = -1,
    ):  # fmt: skip
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise OptimizerValueError(f'mode is "triangular", "triangular2" or "exp_range", not {mode!r}')
        if cycle_momentum and not optimizer.defaults.keys() & {"momentum", "betas"}:
            raise OptimizerValueError(
                f"{type(optimizer).__name__} has neither momentum nor betas for CyclicLR to change",
                fix="pass cycle_momentum=False",
            )
        self.mode, self.gamma, self.scale_fn, self.cycle_momentum = mode, gamma, scale_fn, cycle_momentum
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.total_size = float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        self.step_ratio = step_size_up / self.total_size
        self.lowest = per_group(base_lr, optimizer, "values of base_lr")
        self.max_lrs = per_group(max_lr, optimizer, "values of max_lr")
        self.base_momentums = per_group(base_momentum, optimizer, "values of base_momentum")
        self.max_momentums = per_group(max_momentum, optimizer, "values of max_momentum")
        if last_epoch == -1:
            for group, low in zip(optimizer.param_groups, self.lowest, strict=True):
                group["initial_lr"] = group["lr"] = low
        super().__init__(optimizer, last_epoch)

    def _height(self, t: float) -> float:
        """How far above the lowest rate, as a share of the whole range."""
        cycle, share = divmod(t / self.total_size, 1.0)
        height = share / self.step_ratio if share <= self.step_ratio else (1 - share) / (1 - self.step_ratio)
        x = cycle + 1 if self.scale_mode == "cycle" else t
        if self.scale_fn is not None:
            return height * self.scale_fn(x)
        return height * {"triangular": 1.0, "triangular2": 0.5 ** (x - 1), "exp_range": self.gamma**x}[self.mode]

    def values(self, t: int) -> list[float]:
        height = self._height(t)
        return [low + (high - low) * height for low, high in zip(self.lowest, self.max_lrs, strict=True)]

    def _go(self, t: int) -> None:
        super()._go(t)
        if self.cycle_momentum:
            height = self._height(t)
            momenta = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in momenta:
                set_momentum(group, high - (high - low) * height)


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
        peaks = per_group(max_lr, optimizer, "values of max_lr")
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
            set_momentum(group, momentum)
