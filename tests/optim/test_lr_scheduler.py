"""Schedules against their formulas, in combination, saved and loaded, and on a compiled step."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import OptimizerValueError, UnsupportedError
from tracegrad.optim import lr_scheduler as schedules

BASE = 0.5


def optimizer(name: str = "SGD", **options) -> tg.optim.Optimizer:
    made = getattr(tg.optim, name)([tg.tensor(1.0, requires_grad=True)], lr=BASE, **options)
    made.step()
    return made


def rates(scheduler, steps: int = 30) -> list[float]:
    found = []
    for _ in range(steps):
        found.append(scheduler.optimizer.param_groups[0]["lr"])
        assert scheduler.get_last_lr() == found[-1:]
        scheduler.step()
    return found


def cosine(t: float, period: float, low: float) -> float:
    return low + (BASE - low) * (1 + math.cos(math.pi * t / period)) / 2


def triangle(t: int, factor: float) -> float:
    """Up by 2 in 4 steps, down in 6."""
    within = t % 10
    return BASE + 2 * factor * (within / 4 if within <= 4 else (10 - within) / 6)


FORMULAS: dict[str, tuple[Callable, Callable[[int], float]]] = {
    "StepLR": (lambda o: schedules.StepLR(o, 7, 0.5), lambda t: BASE * 0.5 ** (t // 7)),
    "MultiStepLR": (
        lambda o: schedules.MultiStepLR(o, [4, 9, 9], 0.1), lambda t: BASE * 0.1 ** ((t >= 4) + 2 * (t >= 9)),
    ),
    "ExponentialLR": (lambda o: schedules.ExponentialLR(o, 0.9), lambda t: BASE * 0.9**t),
    "ConstantLR": (lambda o: schedules.ConstantLR(o, 0.25, 4), lambda t: BASE * (0.25 if t < 4 else 1)),
    "LinearLR": (lambda o: schedules.LinearLR(o, 0.2, 0.8, 10), lambda t: BASE * (0.2 + 0.06 * min(t, 10))),
    "PolynomialLR": (lambda o: schedules.PolynomialLR(o, 12, 2.0), lambda t: BASE * (1 - min(t, 12) / 12) ** 2),
    "LambdaLR": (lambda o: schedules.LambdaLR(o, lambda t: 1 / (t + 1)), lambda t: BASE / (t + 1)),
    "MultiplicativeLR": (
        lambda o: schedules.MultiplicativeLR(o, lambda t: 1 - 0.5 / t),
        lambda t: BASE * math.prod(1 - 0.5 / i for i in range(1, t + 1)),
    ),
    "CyclicLR": (lambda o: schedules.CyclicLR(o, BASE, 2.5, 4, 6, cycle_momentum=False), lambda t: triangle(t, 1.0)),
    "CyclicLR, half as high": (
        lambda o: schedules.CyclicLR(o, BASE, 2.5, 4, 6, "triangular2", cycle_momentum=False),
        lambda t: triangle(t, 0.5 ** (t // 10)),
    ),
    "CyclicLR, decaying": (
        lambda o: schedules.CyclicLR(o, BASE, 2.5, 4, 6, "exp_range", 0.9, cycle_momentum=False),
        lambda t: triangle(t, 0.9**t),
    ),
    "ChainedScheduler": (
        lambda o: schedules.ChainedScheduler([schedules.ConstantLR(o, 0.1, 8), schedules.ExponentialLR(o, 0.9)]),
        lambda t: BASE * 0.9**t * (0.1 if t < 8 else 1.0),
    ),
    "CosineAnnealingLR": (lambda o: schedules.CosineAnnealingLR(o, 12, 0.1), lambda t: cosine(t, 12, 0.1)),
    "CosineAnnealingWarmRestarts": (
        lambda o: schedules.CosineAnnealingWarmRestarts(o, 4, 2, 0.05),
        lambda t: cosine(t, 4, 0.05) if t < 4 else cosine(t - 4, 8, 0.05) if t < 12 else cosine(t - 12, 16, 0.05),
    ),
    "SequentialLR": (
        lambda o: schedules.SequentialLR(o, [schedules.LinearLR(o, 0.1, 1.0, 5), schedules.ExponentialLR(o, 0.8)], [5]),
        lambda t: BASE * (0.1 + 0.18 * t if t < 5 else 0.8 ** (t - 5)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name: str):
    make, formula = FORMULAS[name]
    steps = 28 if name == "CosineAnnealingWarmRestarts" else 30
    np.testing.assert_allclose(rates(make(optimizer()), steps), [formula(t) for t in range(steps)], rtol=1e-12)


@pytest.mark.parametrize("name", FORMULAS)
def test_saved_and_loaded(name: str):
    make, _ = FORMULAS[name]
    first = make(optimizer())
    rates(first, 6)
    second_optimizer = optimizer()
    second = make(second_optimizer)
    second_optimizer.load_state_dict(first.optimizer.state_dict())
    second.load_state_dict(first.state_dict())
    assert rates(second, 10) == rates(first, 10)


def test_two_schedules_on_one_optimizer_multiply():
    o = optimizer()
    warm, decay = schedules.LinearLR(o, 0.5, 1.0, 4), schedules.ExponentialLR(o, 0.9)
    for t in range(12):
        expected = BASE * (0.5 + 0.125 * min(t, 4)) * 0.9**t
        np.testing.assert_allclose(o.param_groups[0]["lr"], expected, rtol=1e-12)
        warm.step()
        decay.step()


@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_one_cycle(strategy: str):
    o = optimizer("Adam")
    scheduler = schedules.OneCycleLR(o, 1.0, total_steps=11, pct_start=0.4, anneal_strategy=strategy)
    found, betas = [], []
    for t in range(11):
        found.append(o.param_groups[0]["lr"])
        betas.append(o.param_groups[0]["betas"][0])
        if t < 10:
            scheduler.step()
    top = 0.4 * 11 - 1

    def between(a: float, b: float, share: float) -> float:
        return a + (b - a) * share if strategy == "linear" else b + (a - b) / 2 * (1 + math.cos(math.pi * share))

    expected = [
        between(1 / 25, 1.0, t / top) if t <= top else between(1.0, 1 / 25e4, (t - top) / (10 - top)) for t in range(11)
    ]
    momenta = [
        between(0.95, 0.85, t / top) if t <= top else between(0.85, 0.95, (t - top) / (10 - top)) for t in range(11)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(betas, momenta, rtol=1e-12)
    with pytest.raises(OptimizerValueError, match="total steps is 11"):
        scheduler.step()


def test_cyclic_momentum_goes_the_other_way():
    o = optimizer("Adam")
    scheduler = schedules.CyclicLR(o, 0.1, 0.5, 2, base_momentum=0.8, max_momentum=0.9)
    betas = []
    for _ in range(6):
        betas.append(o.param_groups[0]["betas"][0])
        scheduler.step()
    np.testing.assert_allclose(betas, [0.9, 0.85, 0.8, 0.85, 0.9, 0.85], rtol=1e-12)
    assert o.param_groups[0]["betas"][1] == 0.999
    scaled = schedules.CyclicLR(optimizer(momentum=0.1), 0.1, 0.5, 2, scale_fn=lambda c: 1 / c, scale_mode="cycle")
    np.testing.assert_allclose(rates(scaled, 8), [0.1, 0.3, 0.5, 0.3, 0.1, 0.2, 0.3, 0.2], rtol=1e-12)
    with pytest.raises(OptimizerValueError, match="neither momentum nor betas"):
        schedules.CyclicLR(optimizer("Adagrad"), 0.1, 0.5)
    with pytest.raises(OptimizerValueError, match="mode"):
        schedules.CyclicLR(o, 0.1, 0.5, mode="square")
    with pytest.raises(OptimizerValueError, match="same optimizer"):
        schedules.ChainedScheduler([scheduler, scaled])
    with pytest.raises(OptimizerValueError, match="needs a metric"):
        schedules.ChainedScheduler([schedules.ReduceLROnPlateau(o)])


def test_one_cycle_in_three_phases_comes_back():
    o = optimizer("SGD", momentum=0.9)
    scheduler = schedules.OneCycleLR(o, 1.0, epochs=2, steps_per_epoch=10, pct_start=0.5, three_phase=True)
    found = rates(scheduler, 19)
    np.testing.assert_allclose([found[0], found[9], max(found)], [1 / 25, 1.0, 1.0], rtol=1e-12)
    np.testing.assert_allclose([found[18], o.param_groups[0]["lr"]], [1 / 25, 1 / 25e4])


def test_reduce_on_plateau():
    o = optimizer()
    scheduler = schedules.ReduceLROnPlateau(o, factor=0.5, patience=2, cooldown=1, min_lr=0.1)
    metrics = [5.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0]
    found = []
    for metric in metrics:
        scheduler.step(tg.tensor(metric))
        found.append(o.param_groups[0]["lr"])
    # Best at step 1; steps 2-4 are bad, the third of them too many; then one step of cooldown.
    assert found == [0.5] * 4 + [0.25] * 7 + [0.125] + [0.125] * 3 + [0.1]
    up = schedules.ReduceLROnPlateau(optimizer(), mode="max", patience=0, threshold=0.5, threshold_mode="abs")
    for metric, rate in ((1.0, 0.5), (2.0, 0.5), (2.4, 0.05)):
        up.step(metric)
        np.testing.assert_allclose(up.get_last_lr(), [rate])


def test_a_schedule_on_a_compiled_step():
    def make():
        p = tg.tensor([1.0, -2.0], requires_grad=True)
        o = tg.optim.SGD([p], lr=0.1, momentum=0.9)

        def step():
            o.zero_grad()
            (p * p).sum().backward()
            o.step()

        return p, step, schedules.OneCycleLR(o, 0.2, total_steps=8)

    (p, eager, first), (q, traced, second) = make(), make()
    compiled = tg.jit(traced)
    for _ in range(7):
        eager(), compiled(), first.step(), second.step()
        np.testing.assert_allclose(q.detach(), p.detach(), rtol=1e-13)
    assert "1 programs" in repr(compiled)
    with pytest.raises(UnsupportedError, match="happen once"):
        tg.jit(first.step)()


def test_misuse():
    made = tg.optim.SGD([tg.tensor(1.0, requires_grad=True)], lr=0.1)
    with pytest.warns(UserWarning, match=r"before optimizer.step\(\)"):
        schedules.StepLR(made, 3).step()
    with pytest.raises(OptimizerValueError, match="initial_lr"):
        schedules.StepLR(tg.optim.SGD([tg.tensor(1.0, requires_grad=True)], lr=0.1), 3, last_epoch=4)
    with pytest.raises(OptimizerValueError, match="lr_lambdas"):
        schedules.LambdaLR(made, [abs, abs])
    with pytest.raises(OptimizerValueError, match="milestone"):
        schedules.SequentialLR(made, [schedules.StepLR(made, 3)], [3])
    with pytest.raises(OptimizerValueError, match=r"Factor should be < 1.0"):
        schedules.ReduceLROnPlateau(made, factor=1.0)
