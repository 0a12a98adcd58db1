"""PyTorch's methods that pick and put elements: values by NumPy, derivatives by differences, eager and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(4, 5)), RNG.normal(size=(4, 5))
ROWS, COLUMNS = np.array([2, 0, 2]), np.array([[4, 0, 1], [2, 2, 3]])


def scattered(x, index, source, add):
    out = x.copy()
    for (i, j), place in np.ndenumerate(index):
        out[i, place] = (out[i, place] if add else 0) + source[i, j]
    return out


def added_rows(x, source):
    out = x.copy()
    np.add.at(out, ROWS, 2 * source)
    return out


CASES = {
    "softmax": (lambda x, y: x.softmax(1), lambda x, y: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    "log_softmax": (lambda x, y: x.log_softmax(0), lambda x, y: x - np.log(np.exp(x).sum(0, keepdims=True))),
    "narrow": (lambda x, y: x.narrow(1, -3, 2), lambda x, y: x[:, 2:4]),
    "index_select": (lambda x, y: x.index_select(0, ROWS), lambda x, y: x[ROWS]),
    "gather": (lambda x, y: x.gather(1, COLUMNS), lambda x, y: np.take_along_axis(x[:2], COLUMNS, 1)),
    "scatter": (lambda x, y: x.scatter(1, COLUMNS, y), lambda x, y: scattered(x, COLUMNS, y, False)),
    "scatter_add": (lambda x, y: x.scatter_add(1, COLUMNS, y), lambda x, y: scattered(x, COLUMNS, y, True)),
    "scatter_add_": (lambda x, y: (x * 1).scatter_add_(1, COLUMNS, y), lambda x, y: scattered(x, COLUMNS, y, True)),
    "index_add": (lambda x, y: x.index_add(0, ROWS, y[:3], alpha=2), lambda x, y: added_rows(x, y[:3])),
    "index_add_": (lambda x, y: (x * 1).index_add_(0, ROWS, y[:3], alpha=2), lambda x, y: added_rows(x, y[:3])),
    "topk": (lambda x, y: x.topk(2).values, lambda x, y: -np.sort(-x, axis=1)[:, :2]),
    "smallest": (lambda x, y: x.topk(3, 0, largest=False).values, lambda x, y: np.sort(x, axis=0)[:3]),
    "addmm": (lambda x, y: (x @ y.T).addmm(x, y.T, beta=0.5, alpha=3), lambda x, y: 3.5 * (x @ y.T)),
    "addcmul": (lambda x, y: x.addcmul(x, y, value=0.5), lambda x, y: x + 0.5 * x * y),
    "addcdiv": (lambda x, y: x.addcdiv(x, y), lambda x, y: x + x / y),
    "lerp": (lambda x, y: x.lerp(y, 0.25), lambda x, y: x + 0.25 * (y - x)),
    "triu": (lambda x, y: x.triu(1), lambda x, y: np.triu(x, 1)),
    "tril_": (lambda x, y: (x * 1).tril_(), lambda x, y: np.tril(x)),
    "diag": (lambda x, y: x.diag(1), lambda x, y: np.diag(x, 1)),
    "masked_scatter": (lambda x, y: x.masked_scatter(X > 0, y), lambda x, y: _masked(x, y)),
}


def _masked(x, y):
    out = x.copy()
    out[X > 0] = y.reshape(-1)[: (X > 0).sum()]
    return out


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name):
    method, expected = CASES[name]
    x, y = tg.tensor(X, requires_grad=True), tg.tensor(Y, requires_grad=True)
    wanted = expected(X, Y)
    eager, compiled = method(x, y), tg.jit(method)(x, y)
    np.testing.assert_allclose(eager.detach(), wanted, rtol=1e-12)
    np.testing.assert_allclose(compiled.detach(), wanted, rtol=1e-12)
    weights = RNG.normal(size=wanted.shape)
    for out in (eager, compiled):
        found = tg.autograd.grad((out * weights).sum(), (x, y), allow_unused=True, materialize_grads=True)
        for position, (g, direction) in enumerate(zip(found, RNG.normal(size=(2, 4, 5)), strict=True)):
            moved = [[X, Y], [X, Y]]
            moved[0][position] = moved[0][position] + 1e-6 * direction
            moved[1][position] = moved[1][position] - 1e-6 * direction
            slope = np.sum((expected(*moved[0]) - expected(*moved[1])) * weights) / 2e-6
            np.testing.assert_allclose(np.sum(g.detach()._array * direction), slope, rtol=1e-6, atol=1e-7)


def test_places_of_the_largest():
    values, places = tg.tensor([3.0, 1.0, 2.0]).topk(2)
    assert values.tolist() == [3.0, 2.0] and places.tolist() == [0, 2]


def test_what_does_not_fit_is_refused():
    x = tg.tensor(X)
    with pytest.raises(TypeError, match="outside an axis"):
        x.narrow(1, 4, 2)
    with pytest.raises(TypeError, match="out of range"):
        x.topk(6)
    with pytest.raises(ValueError, match="dimensions"):
        x.gather(0, ROWS)
    with pytest.raises(ValueError, match="larger than"):
        x.gather(1, np.zeros((5, 1), int))
    with pytest.raises(ValueError, match="vector of indices"):
        x.index_select(0, COLUMNS)
