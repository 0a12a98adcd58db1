"""Adam and its family: AdamW, Adamax, NAdam, RAdam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.ops.select import maximum, where
from tracegrad.optim.optimizer import Group, Item, Optimizer, assign, scalar
from tracegrad.tensor import Tensor

Betas = tuple[float, float]


class _Moments(Optimizer):
    """What the family shares: betas, weight decay in its two forms, the two moments.

    decoupled_weight_decay: it shrinks the parameter instead of entering the gradient.
    """

    def _betas(self, group: Group) -> tuple[Any, Any]:
        return self._number(group, "betas", 0), self._number(group, "betas", 1)

    def _decayed(self, group: Group, p: Tensor, g: Any, lr: Any, decay: Any) -> Any:
        """The gradient with weight decay, or the parameter shrunk by it."""
        if group["weight_decay"] == 0:
            return g
        if group.get("decoupled_weight_decay"):
            assign(p, p * scalar(1 - lr * decay, p))
            return g
        return g + scalar(decay, p) * p

    def _moment(self, own: dict[str, Any], p: Tensor, g: Any, beta: Any) -> Tensor:
        """exp_avg: the moving average of the gradient."""
        (average,) = self._zeros(own, p, "exp_avg")
        return assign(average, scalar(beta, p) * average + scalar(1 - beta, p) * g)

    def _square(self, own: dict[str, Any], p: Tensor, g: Any, beta: Any) -> Tensor:
        """exp_avg_sq: the moving average of its square."""
        (average,) = self._zeros(own, p, "exp_avg_sq")
        return assign(average, scalar(beta, p) * average + scalar(1 - beta, p) * (g * g))


class Adam(_Moments):
    """p -= lr * m̂ / (sqrt(v̂) + eps) with bias-corrected moments (Kingma, Ba, ICLR 2015, algorithm 1).

    amsgrad: the largest v so far takes the place of v (Reddi, Kale, Kumar, ICLR 2018).
    """

    def __init__(
        self, params: Any, lr: float = 1e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        amsgrad: bool = False, *, maximize: bool = False, decoupled_weight_decay: bool = False,
    ):  # fmt: skip
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "decoupled_weight_decay": decoupled_weight_decay,
        })  # fmt: skip

    def _update(self, group: Group, items: Sequence[Item]) -> None:
        (b1, b2), lr = self._betas(group), self._number(group, "lr")
        eps, decay = self._number(group, "eps"), self._number(group, "weight_decay")
        for p, g, own in items:
            step = self._step_count(own)
            g = self._decayed(group, p, g, lr, decay)
            m, v = self._moment(own, p, g, b1), self._square(own, p, g, b2)
            if group["amsgrad"]:
                (largest,) = self._zeros(own, p, "max_exp_avg_sq")
                v = assign(largest, maximum(largest, v))
            root = np.sqrt(v) / scalar(np.sqrt(1 - b2**step), p) + scalar(eps, p)
            assign(p, p - scalar(lr / (1 - b1**step), p) * (m / root))


class AdamW(Adam):
    """Adam with decoupled weight decay, p *= 1 - lr * weight_decay (Loshchilov, Hutter, ICLR 2019, algorithm 2)."""

    def __init__(
        self, params: Any, lr: float = 1e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
    ):  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, decoupled_weight_decay=True)


class Adamax(_Moments):
    """p -= lr / (1 - beta1^t) * m / u, u = max(beta2 * u, |g| + eps) (Kingma, Ba, ICLR 2015, algorithm 2)."""

    def __init__(
        self, params: Any, lr: float = 2e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        *, maximize: bool = False,
    ):  # fmt: skip
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        })  # fmt: skip

    def _update(self, group: Group, items: Sequence[Item]) -> None:
        (b1, b2), lr = self._betas(group), self._number(group, "lr")
        eps, decay = self._number(group, "eps"), self._number(group, "weight_decay")
        for p, g, own in items:
            step = self._step_count(own)
            g = self._decayed(group, p, g, lr, decay)
            m = self._moment(own, p, g, b1)
            (norm,) = self._zeros(own, p, "exp_inf")
            assign(norm, maximum(scalar(b2, p) * norm, np.abs(g) + scalar(eps, p)))
            assign(p, p - scalar(lr / (1 - b1**step), p) * (m / norm))


class NAdam(_Moments):
    """Adam with Nesterov momentum: mu_t = beta1 * (1 - 0.96^(t * momentum_decay) / 2) (Dozat, ICLR workshop 2016)."""

    def __init__(
        self, params: Any, lr: float = 2e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *, maximize: bool = False,
    ):  # fmt: skip
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize,
        })  # fmt: skip

    def _update(self, group: Group, items: Sequence[Item]) -> None:
        (b1, b2), lr, slowing = self._betas(group), self._number(group, "lr"), self._number(group, "momentum_decay")
        eps, decay = self._number(group, "eps"), self._number(group, "weight_decay")
        for p, g, own in items:
            step = self._step_count(own)
            product = self._state(own, "mu_product", np.array(1.0))
            g = self._decayed(group, p, g, lr, decay)
            m, v = self._moment(own, p, g, b1), self._square(own, p, g, b2)
            mu = b1 * (1 - 0.5 * 0.96 ** (step * slowing))
            next_mu = b1 * (1 - 0.5 * 0.96 ** ((step + 1) * slowing))
            assign(product, product * mu)
            root = np.sqrt(v / scalar(1 - b2**step, p)) + scalar(eps, p)
            of_gradient, of_moment = lr * (1 - mu) / (1 - product), lr * next_mu / (1 - product * next_mu)
            assign(p, p - scalar(of_gradient, p) * (g / root) - scalar(of_moment, p) * (m / root))


class RAdam(_Moments):
    """Adam whose step is rectified while few gradients were seen (Liu et al., ICLR 2020, algorithm 2): plain momentum
    until the length rho of the second moment's average exceeds 5."""

    def __init__(
        self, params: Any, lr: float = 1e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        decoupled_weight_decay: bool = False, *, maximize: bool = False,
    ):  # fmt: skip
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize,
        })  # fmt: skip

    def _update(self, group: Group, items: Sequence[Item]) -> None:
        (b1, b2), lr = self._betas(group), self._number(group, "lr")
        eps, decay = self._number(group, "eps"), self._number(group, "weight_decay")
        limit = 2 / (1 - b2) - 1
        for p, g, own in items:
            step = self._step_count(own)
            g = self._decayed(group, p, g, lr, decay)
            m, v = self._moment(own, p, g, b1), self._square(own, p, g, b2)
            correction = 1 - b2**step
            length = limit - 2 * step * b2**step / correction
            long = length > 5
            safe = where(long, length, 6.0)
            rectified = np.sqrt((safe - 4) * (safe - 2) * limit / ((limit - 4) * (limit - 2) * safe) * correction)
            adapted = scalar(rectified, p) / (np.sqrt(v) + scalar(eps, p))
            factor = where(long, adapted, np.ones((), p.dtype))
            assign(p, p - scalar(lr / (1 - b1**step), p) * m * factor)
