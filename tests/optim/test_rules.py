"""Every optimizer against its published rule over 100 steps, eagerly and as one compiled step."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.optim import rules

STEPS = 100
CASES = [
    ("SGD", rules.sgd, {"lr": 0.02}),
    ("SGD", rules.sgd, {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.01}),
    ("SGD", rules.sgd, {"lr": 0.02, "momentum": 0.8, "dampening": 0.3}),
    ("SGD", rules.sgd, {"lr": 0.02, "momentum": 0.9, "nesterov": True}),
    ("Adam", rules.adam, {"lr": 0.05}),
    ("Adam", rules.adam, {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1}),
    ("AdamW", partial(rules.adam, decoupled=True), {"lr": 0.05, "weight_decay": 0.1}),
    ("Adamax", rules.adamax, {"lr": 0.05, "weight_decay": 0.1}),
    ("NAdam", rules.nadam, {"lr": 0.05, "momentum_decay": 0.01}),
    ("RAdam", rules.radam, {"lr": 0.05}),
    ("RMSprop", rules.rmsprop, {"lr": 0.01}),
    ("RMSprop", rules.rmsprop, {"lr": 0.01, "centered": True, "momentum": 0.5, "weight_decay": 0.1}),
    ("Adagrad", rules.adagrad, {"lr": 0.1, "lr_decay": 0.01, "initial_accumulator_value": 0.1}),
    ("Adadelta", rules.adadelta, {"lr": 0.5, "weight_decay": 0.01}),
]
IDS = [f"{name}-{'-'.join(map(str, options))}" for name, _, options in CASES]
CENTRE = np.array([[1.0, -2.0, 0.5], [3.0, 0.1, -0.7]])
START = np.array([[-1.0, 0.3, 2.0], [0.4, -1.5, 1.2]])


def loss(p: Any) -> Any:
    """Smooth, not quadratic, so that gradients depend on the point."""
    return np.sum((p - CENTRE) ** 2 * (1 + 0.3 * np.sin(p)))


def gradient(p: np.ndarray) -> np.ndarray:
    d = p - CENTRE
    return 2 * d * (1 + 0.3 * np.sin(p)) + d**2 * 0.3 * np.cos(p)


def trained(name: str, options: dict, compiled: bool, dtype: type = float) -> list[np.ndarray]:
    p = tg.tensor(START.astype(dtype), requires_grad=True)
    optimizer = getattr(tg.optim, name)([p], **options)

    def step():
        optimizer.zero_grad()
        loss(p).backward()
        optimizer.step()

    run = tg.jit(step) if compiled else step
    points = []
    for _ in range(STEPS):
        run()
        points.append(p.detach().numpy().copy())
    return points


def expected(rule: Any, options: dict) -> list[np.ndarray]:
    steps = rule(START, gradient, **options)
    return [next(steps) for _ in range(STEPS)]


@pytest.mark.parametrize("name, rule, options", CASES, ids=IDS)
def test_published_rule(name: str, rule: Any, options: dict):
    found = trained(name, options, compiled=False)
    np.testing.assert_allclose(found, expected(rule, options), rtol=1e-12, atol=1e-12)
    assert not np.allclose(found[-1], START)


@pytest.mark.parametrize("name, rule, options", CASES, ids=IDS)
def test_compiled_step(name: str, rule: Any, options: dict):
    found = trained(name, options, compiled=True)
    np.testing.assert_allclose(found, expected(rule, options), rtol=1e-11, atol=1e-12)


def test_amsgrad_keeps_the_largest_second_moment():
    """The gradient is large once and small afterwards; the rule is written out here for a constant direction."""
    p = tg.tensor(0.0, requires_grad=True)
    optimizer = tg.optim.Adam([p], lr=0.1, amsgrad=True)
    m = v = largest = value = 0.0
    for t in range(1, STEPS + 1):
        g = 10.0 if t == 1 else 0.1
        p.grad = tg.tensor(g)
        optimizer.step()
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        largest = max(largest, v)
        value -= 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(largest) / np.sqrt(1 - 0.999**t) + 1e-8)
        assert abs(p.item() - value) < 1e-12
    assert v < largest


@pytest.mark.parametrize("name, rule, options", CASES, ids=IDS)
def test_float32_stays_float32(name: str, rule: Any, options: dict):
    found = trained(name, options, compiled=False, dtype=np.float32)
    assert found[-1].dtype == np.float32
    np.testing.assert_allclose(found[20], expected(rule, options)[20], rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(trained(name, options, True, np.float32)[20], found[20], rtol=1e-4, atol=1e-4)


def test_maximize_climbs():
    p, q = tg.tensor([1.0, 2.0], requires_grad=True), tg.tensor([1.0, 2.0], requires_grad=True)
    up, down = tg.optim.Adam([p], lr=0.1, maximize=True), tg.optim.Adam([q], lr=0.1)
    for _ in range(10):
        for x, optimizer, sign in ((p, up, -1), (q, down, 1)):
            optimizer.zero_grad()
            (sign * (x * x).sum()).backward()
            optimizer.step()
    np.testing.assert_allclose(p.detach(), q.detach(), rtol=1e-14)
