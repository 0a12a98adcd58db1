"""L-BFGS (Liu, Nocedal, Mathematical Programming 45, 1989), with a strong Wolfe line search if asked for.

Algorithms 7.4 (two-loop recursion), 3.5 and 3.6 (line search) of Nocedal and Wright, Numerical Optimization, 2nd ed.
Each step decides by values how to go on, so it runs eagerly only; the closure may call a compiled function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.errors import OptimizerTypeError, OptimizerValueError, UnsupportedError
from tracegrad.optim.optimizer import Group, Item, Optimizer
from tracegrad.records import record
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor

Evaluate = Callable[[float], tuple[float, np.ndarray]]


@record
class Point:
    """A point on the line that is searched: step length, loss, slope along the line, gradient."""

    t: float
    loss: float
    slope: float
    gradient: np.ndarray


class LBFGS(Optimizer):
    """Call `step(closure)`, where closure zeroes the gradients, computes the loss, calls backward and returns the loss.

    max_iter: iterations per step; max_eval: evaluations per step (1.25 * max_iter); tolerance_grad bounds the largest
    component of the gradient, tolerance_change that of a change of the parameters, and the change of the loss.
    line_search_fn: None (steps of length lr) or "strong_wolfe". One parameter group.
    """

    def __init__(
        self, params: Any, lr: float = 1.0, max_iter: int = 20, max_eval: int | None = None,
        tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
        line_search_fn: str | None = None,
    ):  # fmt: skip
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        })  # fmt: skip
        if len(self.param_groups) != 1:
            raise OptimizerValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise OptimizerValueError(
                f"there is no line search {group['line_search_fn']!r}", fix='choose None or "strong_wolfe"'
            )

    def _loaded(self, p: Tensor, own: Mapping[str, Any]) -> dict[str, Any]:
        return dict(own)

    def _update(self, group: Group, items: Sequence[Item]) -> None:
        raise AssertionError("LBFGS has a step of its own")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Up to `max_iter` iterations; the loss before the first comes back. Raises UnsupportedError in a trace."""
        if state.trace is not None:
            raise UnsupportedError(
                "LBFGS decides by values how to go on, so its step cannot be part of a compiled function",
                fix="compile the loss alone (tg.jit around what the closure calls), or use another optimizer",
            )
        if closure is None:
            raise OptimizerTypeError(
                "LBFGS needs a closure, since it evaluates the loss several times per step",
                fix="def closure(): opt.zero_grad(); loss = ...; loss.backward(); return loss",
            )
        self.has_stepped = True
        with setting(grad_enabled=True):
            first = closure()
        with setting(grad_enabled=False):
            _Run(self, closure, float(first), self.param_groups[0]).iterate()
        return first


class _Run:
    """One call of step: what it works on, as vectors over all parameters."""

    def __init__(self, optimizer: LBFGS, closure: Callable[[], Any], loss: float, group: Group):
        self.params: list[Tensor] = group["params"]
        self.group, self.closure, self.loss = group, closure, loss
        self.own = optimizer.state[self.params[0]]
        self.gradient = self._gradient()
        self.evaluations = 1

    def _gradient(self) -> np.ndarray:
        parts = [np.zeros(p.size) if p.grad is None else p.grad._value().ravel() for p in self.params]
        return np.concatenate(parts).astype(float)

    def _point(self) -> np.ndarray:
        return np.concatenate([p._value().ravel() for p in self.params]).astype(float)

    def _move_to(self, x: np.ndarray) -> None:
        start = 0
        for p in self.params:
            p.copy_(x[start : start + p.size].reshape(p.shape))
            start += p.size

    def iterate(self) -> None:
        group, own = self.group, self.own
        own.setdefault("func_evals", 0)
        own.setdefault("n_iter", 0)
        own["func_evals"] += 1
        if np.abs(self.gradient).max(initial=0.0) <= group["tolerance_grad"]:
            return
        for left in reversed(range(group["max_iter"])):
            own["n_iter"] += 1
            direction, t = self._direction()
            slope = float(self.gradient @ direction)
            if slope > -group["tolerance_change"]:
                return
            own["d"], own["t"] = direction, t
            own["prev_flat_grad"], own["prev_loss"] = self.gradient, self.loss
            if left == 0 and group["line_search_fn"] is None:  # the next step evaluates there
                self._move_to(self._point() + t * direction)
                return
            t = self._advance(direction, t, slope)
            own["t"] = t
            if self.evaluations >= group["max_eval"] or self._settled(direction, t):
                return

    def _settled(self, direction: np.ndarray, t: float) -> bool:
        tolerance = self.group["tolerance_change"]
        return (
            np.abs(self.gradient).max(initial=0.0) <= self.group["tolerance_grad"]
            or np.abs(direction * t).max(initial=0.0) <= tolerance
            or abs(self.loss - self.own["prev_loss"]) < tolerance
        )

    def _direction(self) -> tuple[np.ndarray, float]:
        """Minus the inverse Hessian's estimate times the gradient, and the step length to try first."""
        own, g, lr = self.own, self.gradient, float(self.group["lr"])
        if "prev_flat_grad" not in own:
            own.update(old_dirs=[], old_stps=[], H_diag=1.0)
            return -g, min(1.0, 1.0 / float(np.abs(g).sum())) * lr
        y, s = g - own["prev_flat_grad"], own["d"] * own["t"]
        curvature = float(y @ s)
        if curvature > 1e-10:
            own["old_dirs"] = [*own["old_dirs"], y][-self.group["history_size"] :]
            own["old_stps"] = [*own["old_stps"], s][-self.group["history_size"] :]
            own["H_diag"] = curvature / float(y @ y)
        q, factors = -g, []
        for y, s in zip(reversed(own["old_dirs"]), reversed(own["old_stps"]), strict=True):
            rho = 1.0 / float(y @ s)
            factors.append(rho * float(s @ q))
            q = q - factors[-1] * y
        r = q * own["H_diag"]
        for y, s, a in zip(own["old_dirs"], own["old_stps"], reversed(factors), strict=True):
            r = r + s * (a - float(y @ r) / float(y @ s))
        return r, lr

    def _advance(self, direction: np.ndarray, t: float, slope: float) -> float:
        """Go along the direction and evaluate there; the step length taken."""
        start = self._point()

        def evaluate(length: float) -> tuple[float, np.ndarray]:
            self._move_to(start + length * direction)
            with setting(grad_enabled=True):
                loss = float(self.closure())
            self.evaluations += 1
            self.own["func_evals"] += 1
            return loss, self._gradient()

        if self.group["line_search_fn"] is None:
            self.loss, self.gradient = evaluate(t)
            return t
        origin = Point(0.0, self.loss, slope, self.gradient)
        limit = self.group["max_eval"] - self.evaluations
        found = strong_wolfe(evaluate, direction, t, origin, self.group["tolerance_change"], limit=limit)
        self.loss, self.gradient = found.loss, found.gradient
        self._move_to(start + found.t * direction)
        return found.t


def strong_wolfe(
    evaluate: Evaluate, direction: np.ndarray, t: float, origin: Point, tolerance: float, c1: float = 1e-4,
    c2: float = 0.9, limit: int = 25,
) -> Point:  # fmt: skip
    """A point with loss <= loss0 + c1*t*slope0 and |slope| <= c2*|slope0|, or the lowest after `limit` evaluations
    besides the first."""

    def at(length: float) -> Point:
        loss, gradient = evaluate(length)
        return Point(length, loss, float(gradient @ direction), gradient)

    def too_high(point: Point, low: Point) -> bool:
        bound = origin.loss + c1 * point.t * origin.slope
        return not point.loss <= bound or (low.t > 0 and point.loss >= low.loss)

    low, point, used = origin, at(t), 0
    while True:  # algorithm 3.5: widen until the minimum is bracketed
        if too_high(point, low):
            bracket = low, point
            break
        if abs(point.slope) <= -c2 * origin.slope:
            return point
        if point.slope >= 0:
            bracket = point, low
            break
        if used >= limit:
            return point if point.loss < origin.loss else origin
        reach = point.t + 0.01 * (point.t - low.t), 10 * point.t
        low, point, used = point, at(_minimum_of_cubic(low, point, *reach)), used + 1
    return _zoom(at, too_high, bracket, -c2 * origin.slope, tolerance, np.abs(direction).max(initial=0.0), limit - used)


def _zoom(
    at: Callable[[float], Point], too_high: Callable[[Point, Point], bool], bracket: tuple[Point, Point],
    flat: float, tolerance: float, size: float, left: int,
) -> Point:  # fmt: skip
    """Algorithm 3.6: shrink the bracket, whose first end is the lower one, until the slope there is flat."""
    low, high = bracket
    stalled = False  # the last trial was close to an end
    for _ in range(left):
        smaller, larger = sorted((low.t, high.t))
        if (larger - smaller) * size < tolerance:
            break
        margin = 0.1 * (larger - smaller)
        trial = _minimum_of_cubic(low, high, smaller, larger)
        close = min(larger - trial, trial - smaller) < margin
        if close and (stalled or trial in (smaller, larger)):
            trial, close = min(max(trial, smaller + margin), larger - margin), False
        stalled, point = close, at(trial)
        if too_high(point, low) or point.loss >= low.loss:
            high = point
            continue
        if abs(point.slope) <= flat:
            return point
        if point.slope * (high.t - low.t) >= 0:
            high = low
        low = point
    return low


def _minimum_of_cubic(a: Point, b: Point, smallest: float, largest: float) -> float:
    """The minimum of the cubic through losses and slopes of two points, within bounds (equation 3.59)."""
    middle = (smallest + largest) / 2
    if not (math.isfinite(a.loss) and math.isfinite(b.loss)) or a.t == b.t:
        return middle
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if square < 0:
        return middle
    d2 = math.copysign(math.sqrt(square), b.t - a.t)
    denominator = b.slope - a.slope + 2 * d2
    if denominator == 0:
        return middle
    return min(max(b.t - (b.t - a.t) * (b.slope + d2 - d1) / denominator, smallest), largest)
