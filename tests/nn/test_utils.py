"""Gradient clipping, and parameters as one vector."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import OptimizerValueError, ShapeError, UnsupportedError
from tracegrad.nn import utils

GRADIENTS = [np.array([[3.0, -4.0]]), np.array(12.0)]


def parameters() -> list[tg.Tensor]:
    found = [tg.tensor(np.zeros(g.shape), requires_grad=True) for g in GRADIENTS]
    for p, g in zip(found, GRADIENTS, strict=True):
        p.grad = tg.tensor(g)
    return [*found, tg.tensor(1.0, requires_grad=True)]


@pytest.mark.parametrize("norm_type, total", [(2.0, 13.0), (1.0, 19.0), (float("inf"), 12.0), (3.0, 1819.0 ** (1 / 3))])
def test_clip_grad_norm(norm_type: float, total: float):
    found = parameters()
    memory = found[0].grad
    norm = utils.clip_grad_norm_(found, 6.5, norm_type)
    assert isinstance(norm, tg.Tensor) and abs(norm.item() - total) < 1e-12 and found[0].grad is memory
    for p, g in zip(found, GRADIENTS, strict=False):
        np.testing.assert_allclose(p.grad, g * 6.5 / (total + 1e-6), rtol=1e-14)
    assert found[2].grad is None
    utils.clip_grad_norm_(found, 100.0, norm_type)
    np.testing.assert_allclose(found[1].grad, 12.0 * 6.5 / (total + 1e-6), rtol=1e-14)


def test_clip_grad_norm_of_nothing_and_of_nan():
    assert utils.clip_grad_norm_([tg.tensor(1.0, requires_grad=True)], 1.0).item() == 0.0
    found = parameters()
    found[1].grad = tg.tensor(float("nan"))
    with pytest.raises(OptimizerValueError, match="nan"):
        utils.clip_grad_norm_(found, 1.0, error_if_nonfinite=True)
    assert found[0].grad.tolist() == [[3.0, -4.0]]


def test_clip_grad_value():
    found = parameters()
    utils.clip_grad_value_(found, 3.5)
    assert found[0].grad.tolist() == [[3.0, -3.5]] and found[1].grad.item() == 3.5


def test_clipping_inside_a_compiled_step():
    def make():
        p = tg.tensor([1.0, 2.0], requires_grad=True)
        optimizer = tg.optim.SGD([p], lr=0.1)

        def step():
            optimizer.zero_grad()
            (p**3).sum().backward()
            norm = utils.clip_grad_norm_([p], 1.0)
            optimizer.step()
            return norm

        return p, step

    (p, eager), (q, traced) = make(), make()
    compiled = tg.jit(traced)
    for _ in range(5):
        np.testing.assert_allclose(compiled(), eager().item(), rtol=1e-13)
        np.testing.assert_allclose(q.detach(), p.detach(), rtol=1e-13)
    with pytest.raises(UnsupportedError, match="not known yet"):
        tg.jit(lambda: utils.clip_grad_norm_([q], 1.0, error_if_nonfinite=True))()


def test_vectors():
    a, b = tg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True), tg.tensor(5.0, requires_grad=True)
    vector = utils.parameters_to_vector([a, b])
    assert vector.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    (vector * tg.arange(5)).sum().backward()
    assert a.grad.tolist() == [[0.0, 1.0], [2.0, 3.0]] and b.grad.item() == 4.0
    utils.vector_to_parameters(vector.detach() * 2, [a, b])
    assert a.tolist() == [[2.0, 4.0], [6.0, 8.0]] and b.item() == 10.0
    with pytest.raises(ShapeError, match="5 elements"):
        utils.vector_to_parameters(tg.ones(4), [a, b])
