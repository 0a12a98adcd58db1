"""The base class of learning rate schedules.

Each schedule is a formula of the step number t. Where somebody else has changed the rate meanwhile (another schedule on
the same optimizer, or the user), it is scaled by the formula's ratio instead, so schedules combine.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
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
        if last_epoch == -1:
            self._go(0)
        else:
            self._note(last_epoch)

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
            scaled = group["lr"] != former[i] and former[i] != 0  # by somebody else
            group["lr"] = group["lr"] * (new / former[i]) if scaled else new
        self._note(t)

    def _note(self, t: int) -> None:
        """Remember the step that was reached, and the rates it has."""
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
