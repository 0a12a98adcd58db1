"""A training step as users write it, with its optimizer in an object: eager and compiled runs are the same run."""

from __future__ import annotations

import numpy as np

import tracegrad as tg

X = np.random.default_rng(0).normal(size=(16, 8))
Y = np.random.default_rng(1).normal(size=(16, 3))


class Trainer:
    """A small network with dropout, gradient clipping and a schedule."""

    def __init__(self):
        tg.manual_seed(0)
        self.model = tg.nn.Sequential(tg.nn.Linear(8, 12), tg.nn.Tanh(), tg.nn.Dropout(0.25), tg.nn.Linear(12, 3))
        self.optimizer = tg.optim.AdamW(self.model.parameters(), lr=0.05)
        self.schedule = tg.optim.lr_scheduler.OneCycleLR(self.optimizer, 0.05, total_steps=40)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = ((self.model(x) - y) ** 2).mean()
        loss.backward()
        tg.nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.optimizer.step()
        return loss

    def run(self, step, x, y) -> list[float]:
        tg.manual_seed(1)
        losses = []
        for epoch in range(30):
            losses.append(float(step(x, y)))
            self.schedule.step()
            if epoch == 20:
                self.optimizer.param_groups[0]["weight_decay"] = 0.0
        return losses


def test_eager_and_compiled_training_agree():
    eager, compiled = Trainer(), Trainer()
    step = tg.jit(compiled.step)
    expected = eager.run(eager.step, tg.tensor(X), tg.tensor(Y))
    found = compiled.run(step, X, Y)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    for p, q in zip(compiled.model.parameters(), eager.model.parameters(), strict=True):
        np.testing.assert_allclose(p.detach(), q.detach(), rtol=1e-9, atol=1e-11)
    assert expected[-1] < 0.8 * expected[0]
    assert "2 programs" in repr(step)  # with and without weight decay


def test_draws_inside_loops_and_branches_are_those_of_eager_code():
    def body(total, x):
        u = tg.rand()
        return total + u * x, u

    x = np.arange(1.0, 5.0)
    tg.manual_seed(3)
    total, drawn = tg.jit(lambda x: tg.scan(body, 0.0, x))(x)
    tg.manual_seed(3)
    expected = np.array([tg.rand().item() for _ in x])
    np.testing.assert_array_equal(drawn, expected)
    np.testing.assert_allclose(total, expected @ x, rtol=1e-15)
    assert tg.random.get_state().tolist() == [3, 4]
    choose = tg.jit(lambda x: tg.cond(x[0] > 0, lambda: tg.rand(2), lambda: np.zeros(2) * x[0]))
    choose(-x)
    assert tg.random.get_state().tolist() == [3, 4]
    choose(x)
    assert tg.random.get_state().tolist() == [3, 6]
