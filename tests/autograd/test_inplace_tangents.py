"""In-place modification in forward mode: derivatives of functions written that way, and tangents of shared memory."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.autograd import forward_ad as fwAD
from tracegrad.errors import UnsupportedError


def part_overwritten(x):
    y = x * 1
    y[0] = x[1] * x[2]
    return (y * y).sum()


def augmented(x):
    y = x * 1
    y += x
    y *= x
    return (y**2).sum()


def through_views(x):
    z = tg.zeros(3)
    early = z[1:]
    z[1:] += x[1:]
    v = z[:2]
    v *= 3
    return (z * x).sum() + early[1] * x[0]


def filled_and_copied(x):
    y = tg.zeros(3)
    y[:] = x
    y[0] += 1
    w = tg.ones(3)
    w.copy_(y).mul_(2).exp_()
    y.fill_(4.0)
    return w.sum() + y.sum()


@pytest.mark.parametrize("eagerly", [False, True])
@pytest.mark.parametrize(
    "f, gradient, hessian",
    [
        (part_overwritten, [0, 40, 30], [[0, 0, 0], [0, 20, 24], [0, 24, 10]]),  # y² z² + y² + z²
        (augmented, [16, 128, 432], np.diag([48, 192, 432])),  # 4 x⁴
        (through_views, [3, 12, 7], [[0, 0, 1], [0, 6, 0], [1, 0, 2]]),  # 3 y² + z² + x z
        (filled_and_copied, 2 * np.exp([4, 4, 6]), np.diag(4 * np.exp([4, 4, 6]))),
    ],
)
def test_in_place_modification(f, gradient, hessian, eagerly):
    x, t = np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0, 0.5])
    with tg.eager() if eagerly else contextlib.nullcontext():
        np.testing.assert_allclose(tg.hessian(f)(x), hessian, rtol=1e-12)
        if eagerly:
            np.testing.assert_allclose(tg.jvp(f, (x,), (t,))[1], np.dot(gradient, t), rtol=1e-12)
            np.testing.assert_allclose(tg.jacfwd(f)(x), gradient, rtol=1e-12)
        with pytest.raises(RuntimeError, match="in-place operation"):
            tg.jvp(lambda x: x.mul_(2).sum(), (x,), (t,))
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_levels_in_levels():
    with tg.eager():
        found = tg.jacfwd(tg.jacfwd(through_views))(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(found, [[0, 0, 1], [0, 6, 0], [1, 0, 2]], rtol=1e-12)


def test_tangents_of_memory_that_is_shared():
    with fwAD.dual_level():
        x = fwAD.make_dual(tg.tensor([1.0, 2.0]), tg.tensor([1.0, 1.0]))
        y = x * 3
        view = y[1:]
        y[1] = 5.0
        assert fwAD.unpack_dual(view).tangent.tolist() == [0.0]
        view.add_(x[:1])
        assert fwAD.unpack_dual(y).tangent.tolist() == [3.0, 1.0]
        assert fwAD.unpack_dual(x).tangent.tolist() == [1.0, 1.0]
        plain = tg.tensor([1.0, 2.0])
        plain[0] = x[1]
        assert fwAD.unpack_dual(plain).tangent.tolist() == [1.0, 0.0]
        y.detach().mul_(2)
        with pytest.raises(UnsupportedError, match="shares its memory"):
            y * 2
