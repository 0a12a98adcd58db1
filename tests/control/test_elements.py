"""Elements that were read keep their value when the array is written to, as NumPy's numbers do; rows are views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import AutogradError


def one(x: Any) -> Any:
    b = x.copy()
    t = b[0]
    b[0] = 5.0
    return t * b[0] + t


def swap(x: Any) -> Any:
    b = x.copy()
    b[0], b[1] = b[1], b[0]
    return b[0] * 2 + b[1] * 3


def reverse(x: Any) -> Any:
    b, n = x.copy(), len(x)
    for i in range(n // 2):
        b[i], b[n - 1 - i] = b[n - 1 - i], b[i]
    return np.sum(b * x[0] * np.arange(n))


def running(x: Any) -> Any:
    b, s = x.copy(), 0.0
    for i in range(8):
        old = b[i]
        b[i] = old * 0.5 + s
        s = s + old
    return np.sum(b * x) + s


def unpacked(x: Any) -> Any:
    b = x.copy()
    first, second = b[:2]
    rest = list(b)
    b[:] = 0.0
    return first + 2 * second + rest[3] ** 2


def kinds(x: Any) -> Any:
    b = x.copy().reshape(4, -1)
    element, row = b[1, 2], b[1]
    inside, last = row[2], b[np.int64(1), -1]
    taken, flat, view = b.take(6), np.ravel(b)[7], b[1, 2, ...]
    b[1] = 7.0 * x[0]
    return element + 2 * inside + 3 * last + 4 * taken + 5 * flat + 6 * view + 7 * row[2]


def iterated(x: Any) -> Any:
    b, s = x.copy(), 0.0
    for e in b[:4]:
        b[1:4] *= 2
        s = s + e
    return s


def appended(x: Any) -> Any:
    b, kept = x.copy(), []
    for i in range(len(x)):
        kept.append(b[i])
        b[i] = b[i] * 2
    return np.sum(np.stack(kept) * b)


def single(x: Any) -> Any:
    b = x[:1].copy()
    t = b[0]
    b[0] = 3.0
    return t + b[0]


FUNCTIONS = [one, swap, reverse, running, unpacked, kinds, iterated, appended, single]


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_as_numpy(function: Any, eager: bool) -> None:
    x, h = np.linspace(0.1, 1, 20), 1e-6
    differences = [(function(x + h * e) - function(x - h * e)) / (2 * h) for e in np.eye(20)]
    with tg.eager() if eager else np.errstate():
        value, gradient = tg.value_and_grad(function)(x)
        np.testing.assert_allclose(value, function(x), rtol=1e-13)
        np.testing.assert_allclose(gradient, differences, atol=1e-7)
        np.testing.assert_allclose(tg.jvp(function, (x,), (np.ones(20),))[1], np.sum(differences), atol=1e-6)
        compiled = tg.jit(function)
        for n in (20, 24, 28):
            np.testing.assert_allclose(compiled(np.linspace(0.2, 1, n)), function(np.linspace(0.2, 1, n)), rtol=1e-13)


def test_functions_of_tensors_have_views():
    def function(b: Any) -> Any:
        t = b[0]
        b[0] = 5.0
        return t * 1.0

    compiled = tg.jit(function)
    assert compiled(np.array([1.0, 2.0])) == 1.0
    assert compiled(tg.tensor([1.0, 2.0])).item() == function(tg.tensor([1.0, 2.0])).item() == 5.0


def test_numbers_are_not_modified_in_place():
    for change in (lambda x: x.copy()[0].mul_(2), lambda x: np.add(x[0], 1.0, out=x.copy()[1])):
        with pytest.raises(AutogradError, match=r"x\[i\] is a number"):
            tg.jit(change)(np.ones(3))
        with tg.eager(), pytest.raises(AutogradError, match=r"x\[i\] is a number"):
            tg.jit(change)(np.ones(3))


def test_arrays_made_of_numbers_are_their_own():
    def function(x: Any) -> Any:
        t = x.copy()[0]
        a = np.atleast_1d(t)
        a[0] = 9.0
        return t + a[0]

    assert tg.jit(function)(np.ones(3)) == function(np.ones(3)) == 10.0
