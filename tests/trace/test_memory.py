"""In-place modification in traced functions: values, gradients, aliasing and effects as in NumPy and in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg


def both(function: Callable[..., Any], *arrays: np.ndarray) -> None:
    """NumPy, eager and compiled give the same results and leave the same arguments behind."""
    plain = [a.copy() for a in arrays]
    expected = function(*plain)
    for run in (tg.jit(function), _eagerly(function)):
        for _ in range(2):
            given = [a.copy() for a in arrays]
            found = run(*given)
            np.testing.assert_allclose(found, expected, rtol=1e-14)
            for left, wanted in zip(given, plain, strict=True):
                np.testing.assert_allclose(left, wanted, rtol=1e-14)


def _eagerly(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        with tg.eager():
            return tg.jit(function)(*args)

    return run


def writes_through_views(x):
    y = np.zeros_like(x)
    first, rest = y[0], y[1:]
    rest[...] = x[:-1] * 2
    first += 3
    y.T[1] *= 5
    y.reshape(-1)[::3] = x.sum()
    rest[:, ::-1][0, 0] = -1
    return y + rest.sum()


def copies_are_apart(x):
    y = x * 1
    copy, moved = y.copy(), y.T.reshape(-1)
    copy[0] = 7
    moved[0] = 9
    y[1] += copy[0] + moved[1]
    return y


def diagonal_and_mask(x):
    y = x * 2
    y[y > 3] = 0
    y[[0, 2, 0], [1, 1, 0]] += 1
    np.add.at(y, ([0, 0, 1], [0, 0, 1]), 1.5)
    return y


def out_arguments(x):
    y = np.empty_like(x)
    np.multiply(x, 2, out=y)
    np.exp(y, out=y)
    np.add(y, 1, out=y, where=y > 2)
    return y


def arguments_change(x):
    x += 1
    x[0] = 5
    return x * 2


def numbers_do_not_alias(x):
    total = np.sum(x)
    before = total
    total += x[0, 0]
    element = x[0, 1]
    element *= 10
    return np.stack([total, before, element, x[0, 1]])


def loop_over_a_table(x):
    table = np.zeros_like(x)
    for i in range(1, x.shape[0]):
        for j in range(1, x.shape[1]):
            table[i, j] = x[i, j] + np.maximum(table[i - 1, j], table[i, j - 1])
    return table


PROGRAMS = [
    writes_through_views, copies_are_apart, diagonal_and_mask, out_arguments, arguments_change, numbers_do_not_alias,
    loop_over_a_table,
]  # fmt: skip


@pytest.mark.parametrize("function", PROGRAMS)
def test_values_are_numpys(function):
    both(function, np.random.default_rng(0).normal(size=(3, 3)))


@pytest.mark.parametrize("function", [p for p in PROGRAMS if p is not arguments_change])
def test_gradients_are_those_of_differences(function):
    x = np.random.default_rng(1).normal(size=(3, 3))
    weights = np.random.default_rng(2).normal(size=np.shape(function(x.copy())))

    def loss(x):
        return np.sum(function(x) * weights)

    gradient = tg.grad(loss)
    found = gradient(x)
    if function not in (writes_through_views, loop_over_a_table):  # eager keeps no copy of what is overwritten
        with tg.eager():
            np.testing.assert_allclose(gradient(x), found, rtol=1e-12)
    direction = np.random.default_rng(3).normal(size=x.shape)
    step = 1e-6
    slope = (loss(x + step * direction) - loss(x - step * direction)) / (2 * step)
    np.testing.assert_allclose(np.sum(found * direction), slope, rtol=1e-6)

    def along(x):
        return np.sum(gradient(x) * direction)

    second = tg.grad(along, allow_unused=True)(x)  # some are linear
    slope = (along(x + step * direction) - along(x - step * direction)) / (2 * step)
    np.testing.assert_allclose(np.sum(second * direction), slope, rtol=1e-5, atol=1e-6)


def random_program(seed: int) -> Callable[[np.ndarray], Any]:
    """A few dozen reads and writes through views of views of three arrays."""

    def program(x):
        generator = np.random.default_rng(seed)
        arrays = [x * 1.0, np.zeros_like(x), x + 1]
        for _ in range(25):
            base = arrays[generator.integers(len(arrays))]
            view = base
            for _ in range(generator.integers(0, 3)):
                view = _random_view(view, generator)
            kind = generator.integers(6)
            source = arrays[generator.integers(len(arrays))]
            if kind == 0 and len(arrays) < 8 and view.ndim == 2:
                arrays.append(view)
            elif kind == 1:
                view += np.sin(source).sum() * 0.1
            elif kind == 2 and view.ndim:
                view[...] = np.cos(view) * 0.5
            elif kind == 3 and view.ndim:
                view[generator.integers(view.shape[0])] = source.mean()
            elif kind == 4 and view.ndim:
                view *= 0.9
            else:
                arrays[0][0, 0] = arrays[0][0, 0] + np.tanh(view).sum()
        return np.stack([a.sum() for a in arrays] + [arrays[0][1, 1], arrays[1].max()])

    return program


def _random_view(x, generator):
    kind = generator.integers(5)
    if x.ndim < 2 or min(x.shape) < 2:
        return x[::-1] if x.ndim else x
    if kind == 0:
        return x[1:]
    if kind == 1:
        return x[:, ::2]
    if kind == 2:
        return x.T
    if kind == 3:
        return x[::-1]
    return x.reshape(-1) if generator.integers(2) else x.diagonal() * 1.0


@pytest.mark.parametrize("seed", range(10))
def test_random_programs(seed):
    program = random_program(seed)
    x = np.random.default_rng(seed).normal(size=(3, 4))
    both(program, x)
    weights = np.random.default_rng(seed + 1).normal(size=program(x.copy()).shape)

    def loss(x):
        return np.sum(program(x) * weights)

    direction = np.random.default_rng(seed + 2).normal(size=x.shape)
    step = 1e-6
    slope = (loss(x + step * direction) - loss(x - step * direction)) / (2 * step)
    np.testing.assert_allclose(np.sum(tg.grad(loss)(x) * direction), slope, rtol=1e-5, atol=1e-6)


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_version_errors_are_those_of_eager():
    w = tg.tensor([1.0, 2.0], requires_grad=True)

    def step():
        y = w.exp()
        z = y.sum()
        y.mul_(2)
        z.backward()

    for run in (step, tg.jit(step)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            run()
    assert w.grad is None


def test_a_leaf_cannot_be_modified():
    w = tg.tensor([1.0, 2.0], requires_grad=True)

    def whole():
        w.add_(1)

    def part():
        w[0] = 1

    for function in (whole, part):
        for run in (function, tg.jit(function)):
            with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
                run()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        tg.grad(lambda x: arguments_change(x).sum())(np.ones((2, 2)))


def test_overlapping_memory_is_refused():
    base = np.zeros(4)
    both_parts = tg.jit(lambda x, y: x.__iadd__(y))
    with pytest.raises(TypeError, match="shares memory"):
        both_parts(base[:3], base[1:])
    both_parts(np.zeros(3), np.ones(3))
    with pytest.raises(TypeError, match="shares memory"):
        both_parts(base[:3], base[1:])
    assert not base.any()


def test_numbers_and_read_only_arrays_cannot_be_modified():
    def add(x):
        x.add_(1)
        return x

    with pytest.raises(TypeError, match="immutable"):
        tg.jit(add)(1.0)
    x = np.zeros(2)
    x.flags.writeable = False
    with pytest.raises(TypeError, match="read-only"):
        tg.jit(arguments_change)(x)


def test_shapes_and_dtypes_must_fit():
    with pytest.raises(ValueError, match="broadcast shape"):
        tg.jit(lambda x: (x * 1).add_(np.ones((3, 2))))(np.ones(2))
    with pytest.raises(TypeError, match="can't be cast"):
        tg.jit(lambda x: (x * 1).mul_(1.5))(np.ones(2, int))


def test_a_failed_recording_leaves_gradients_as_eager_code_does():
    w = tg.tensor([1.0, 2.0], requires_grad=True)
    (w * 3).sum().backward()
    before = w.grad

    @tg.jit
    def fails(x):
        (w * x).sum().backward()
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        fails(np.ones(2))
    assert w.grad is before and before._array.tolist() == [4.0, 4.0]


def test_backward_does_not_enter_history_from_outside():
    w = tg.tensor([1.0, 2.0], requires_grad=True)
    outside = w * 2
    with pytest.raises(TypeError, match="computed outside"):
        tg.jit(lambda: (outside * outside).sum().backward())()
