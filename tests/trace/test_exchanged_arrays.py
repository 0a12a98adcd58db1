"""Other arrays of the same dtype and shape in the place of captured ones: the same program computes with them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad import nn
from tracegrad.trace import arithmetic

X = np.arange(3.0)


def scaled(x: Any, a: Any) -> Any:
    return np.sin(x) * a


class Model:
    def __init__(self) -> None:
        self.X, self.y, self.k, self.parts = np.ones((4, 3)), np.ones(4), 2.0, [np.ones(3), np.ones(3)]
        self.table = {"a": np.ones(3)}
        self.i = np.array([0, 1])

    def loss(self, w: Any) -> Any:
        return np.sum((np.tanh(self.X @ w) - self.y) ** 2) * self.k

    def of_containers(self, w: Any) -> Any:
        return scaled(w, self.parts[0]) + scaled(w, self.parts[1]) * self.table["a"]


def programs(function: Any) -> int:
    return len({id(entry.program) for entries in function.entries.values() for entry in entries})


def test_attributes_that_are_others_in_each_call() -> None:
    """One program, without another recording; values and gradients are those of the arrays there are."""
    rng, model, w = np.random.default_rng(0), Model(), np.array([0.1, -0.2, 0.3])
    recordings: set[int] = set()
    compiled, gradient = tg.jit(model.loss), tg.value_and_grad(model.loss)
    for _ in range(50):
        model.X, model.y = rng.normal(size=(4, 3)), rng.normal(size=4)
        t = np.tanh(model.X @ w)
        np.testing.assert_allclose(compiled(w), np.sum((t - model.y) ** 2) * 2, rtol=1e-12)
        value, grad = gradient(w)
        np.testing.assert_allclose(value, np.sum((t - model.y) ** 2) * 2, rtol=1e-12)
        np.testing.assert_allclose(grad, 4 * ((t - model.y) * (1 - t**2)) @ model.X, rtol=1e-10)
        recordings.add(id(compiled.last.recording.graph))
    assert programs(compiled) == programs(gradient) == 1 and len(recordings) == 1
    assert len(compiled.recompiles) == 1
    model.X[:] = 0.5  # in place, which no entry has to notice
    np.testing.assert_allclose(compiled(w), model.loss(w), rtol=1e-12)
    model.k = 3.0
    np.testing.assert_allclose(compiled(w), model.loss(w), rtol=1e-12)
    assert programs(compiled) == 2


def test_globals_cells_and_elements() -> None:
    global X
    model, w, a = Model(), np.array([0.1, 0.2, 0.3]), np.ones(3)

    def with_cell(x: Any) -> Any:
        return np.exp(x) * a + X

    functions: list[Any] = [tg.jit(with_cell), tg.jit(model.of_containers)]
    for step in range(4):
        a, X = np.full(3, 1.0 + step), np.full(3, 2.0 * step)
        model.parts[step % 2] = np.full(3, step + 5.0)
        model.table["a"] = np.full(3, step - 1.0)
        for function in functions:
            np.testing.assert_allclose(function(w), function.function(w), rtol=1e-14)
    assert [programs(f) for f in functions] == [1, 1]
    assert all(f.last.exchangeable for f in functions)


def test_which_arrays_are_the_same_one() -> None:
    """Two names of one array become two arrays, and two become one."""
    s, x = SimpleNamespace(a=np.ones(3), b=None), np.array([1.0, 2.0, 3.0])
    s.b = s.a

    @tg.jit
    def f(x: Any) -> Any:
        return x * s.a - np.exp(x) * s.b

    rng = np.random.default_rng(1)
    for kind in "same", "same", "two", "first", "second", "one", "swap", "same":
        new = rng.normal(size=3)
        if kind == "same":
            s.a = s.b = new
        elif kind == "two":
            s.a, s.b = new, new.copy() + 1
        elif kind == "first":
            s.a = new
        elif kind == "second":
            s.b = new
        elif kind == "one":
            s.a = s.b
        else:
            s.a, s.b = new, s.a
        np.testing.assert_allclose(f(x), x * s.a - np.exp(x) * s.b, rtol=1e-14)
    for other in np.ones(3, np.float32), np.ones((1, 3)), 2.0:
        s.a = other
        np.testing.assert_allclose(f(x), x * s.a - np.exp(x) * s.b, rtol=1e-6)


def branch(s: Any, x: Any) -> Any:
    return x * s.a if s.a[0] > 0 else -x


def index(s: Any, x: Any) -> Any:
    return x[int(s.a[1])] * s.a


def through_a_variable(s: Any, x: Any) -> Any:
    i = s.a.argmax()
    return x[i] + s.a * x


def plain_result(s: Any, x: Any) -> Any:
    return x * np.exp(s.a), s.a


def plain_view(s: Any, x: Any) -> Any:
    return x * np.exp(s.a).reshape(3, 1)[:, 0] + s.a[0] + s.a


def plain_output(s: Any, x: Any) -> Any:
    return x + np.exp(s.a, s.b) + s.b + s.a


def made_constant(s: Any, x: Any) -> Any:
    return x ** np.sum(s.a) + np.mean(s.a) * s.a * x


def as_axis(s: Any, x: Any) -> Any:
    return np.sum(x * s.a, axis=s.i.argmax() * 0 + s.n) + s.a


def own_name(s: Any, x: Any) -> Any:
    return np.take(x * s.a, s.argmax(s.a))


@pytest.mark.parametrize(
    "function",
    [branch, index, through_a_variable, plain_result, plain_view, plain_output, made_constant, as_axis, own_name],
)
def test_numbers_that_decide(function: Callable[..., Any]) -> None:
    """What the function took from the numbers in Python or plain NumPy is taken again."""
    s = SimpleNamespace(a=np.array([1.0, 2.0, 0.5]), b=np.zeros(3), i=np.array([1, 0]), n=0, argmax=np.argmax)
    compiled, x = tg.jit(lambda x: function(s, x)), np.array([1.0, 2.0, 3.0])
    for a in [1.0, 2.0, 0.5], [-1.0, 0.0, 0.25], [1.0, 0.0, 3.0], [3.0, 1.0, 0.5], [1.0, 2.0, 0.5]:
        s.a = np.array(a)
        got = compiled(x)
        for g, e in zip(np.atleast_1d(got), np.atleast_1d(function(s, x)), strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-13)


def test_recorded_alike() -> None:
    """Code that branches is recorded again for other arrays, Tensors and Parameters, and takes the program it has."""
    s = SimpleNamespace(a=np.ones(3), b=tg.tensor(np.ones(3)), on=True)
    layer, x = nn.Linear(3, 2), np.array([0.5, -1.0, 2.0])

    @tg.jit
    def f(x: Any) -> Any:
        return x * s.a + s.b if s.on else x

    apply = tg.jit(lambda x: layer(x))
    for step in range(20):
        s.a, s.b = np.full(3, float(step)), tg.tensor(np.full(3, step + 1.0))
        np.testing.assert_allclose(np.asarray(f(x)), x * s.a + step + 1.0, rtol=1e-14)
        layer.weight = nn.Parameter(np.full((2, 3), float(step)))
        expected = layer.weight.detach().numpy() @ x + layer.bias.detach().numpy()
        np.testing.assert_allclose(apply(x).detach().numpy(), expected, rtol=1e-6)
    assert programs(f) == programs(apply) == 1
    assert sum(map(len, f.entries.values())) <= 16
    apply(x).sum().backward()
    np.testing.assert_allclose(layer.weight.grad.numpy(), np.broadcast_to(x, (2, 3)), rtol=1e-6)


def test_threads_see_one_array_or_the_other() -> None:
    s, x = SimpleNamespace(a=np.zeros(2000)), np.ones(2000)

    @tg.jit
    def f(x: Any) -> Any:
        return x * s.a + 1

    f(x)
    wrong: list[np.ndarray] = []

    def call() -> None:
        for _ in range(30):
            got = f(x)
            if (got != got[0]).any() or got[0] not in (1.0, 2.0, 3.0):
                wrong.append(got)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    k = 0
    while any(thread.is_alive() for thread in threads):
        k += 1
        s.a = np.full(2000, float(k % 3))
        time.sleep(1e-4)
    for thread in threads:
        thread.join()
    assert not wrong and programs(f) == 1
    np.testing.assert_array_equal(f(x), s.a + 1)


def test_arrays_of_other_sizes() -> None:
    """The second size makes the dimension a symbol, as for arguments: two programs for all sizes."""
    rng, model, w = np.random.default_rng(1), Model(), np.array([0.1, -0.2, 0.3])
    data = np.ones(2)

    def with_grown(x: Any, z: Any) -> Any:
        return np.sum(np.sin(data * x) * z)

    gradient, mixed = tg.value_and_grad(model.loss), tg.jit(with_grown)
    for n in (4, *range(7, 20), 7, 50):
        model.X, model.y, data = rng.normal(size=(n, 3)), rng.normal(size=n), np.append(data, rng.normal(size=n))
        z = rng.normal(size=data.size)
        for _ in range(2):
            t = np.tanh(model.X @ w)
            value, grad = gradient(w)
            np.testing.assert_allclose(value, np.sum((t - model.y) ** 2) * 2, rtol=1e-12)
            np.testing.assert_allclose(grad, 4 * ((t - model.y) * (1 - t**2)) @ model.X, rtol=1e-10)
            np.testing.assert_allclose(mixed(1.5, z), with_grown(1.5, z), rtol=1e-12)
    assert programs(gradient) == programs(mixed) == 2
    assert "(3,), (n, 3), (n,)" in str(tg.explain(gradient)) and gradient.last.fast is not None
    for n in (1, 5):  # one element is another program, which sizes after it do not meet
        model.X, model.y = rng.normal(size=(n, 3)), rng.normal(size=n)
        np.testing.assert_allclose(gradient(w)[0], model.loss(w), rtol=1e-12)
    assert programs(gradient) == 3
    model.X, model.y = np.zeros((5, 3), np.float32), np.ones(5)
    assert gradient(w)[0] == 10 and programs(gradient) == 4


def test_sizes_that_are_read_and_shapes_that_change_in_place() -> None:
    model, w, row = Model(), np.ones(3), np.arange(4.0)
    mean, product = tg.jit(lambda w: np.sum(model.X @ w) / model.X.shape[0]), tg.jit(lambda x: row * x)
    for n in (4, 5, 6):
        model.X = np.full((n, 3), 1.0 * n)
        assert mean(w) == 3.0 * n
    assert product(2.0).tolist() == [0, 2, 4, 6]
    row.shape = (2, 2)
    assert product(2.0).tolist() == [[0, 2], [4, 6]]


def test_instructions_that_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of other versions of Python: each exchange is recorded, and goes to the same program if the graph is the same."""
    monkeypatch.setattr(arithmetic._Walk, "_step", lambda self, step: False)
    rng, model, w = np.random.default_rng(2), Model(), np.array([0.1, -0.2, 0.3])
    compiled = tg.jit(model.loss)
    for _ in range(3):
        model.X, model.y = rng.normal(size=(4, 3)), rng.normal(size=4)
        np.testing.assert_allclose(compiled(w), model.loss(w), rtol=1e-12)
        assert not compiled.last.exchangeable
    assert programs(compiled) == 1
