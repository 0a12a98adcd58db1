"""Random loops: bodies of random operations, nested loops and branches; interpreter = compiled, gradients = eager."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg

SIZES = (1, 2, 3, 8, 11)


class Body:
    """A random function of a carry (vector, number), an element (vector) and two arrays from outside.

    Every run takes the same decisions: they are drawn from a generator that starts anew.
    """

    def __init__(self, seed: int, size: int, depth: int):
        self.seed, self.size, self.depth = seed, size, depth

    def __call__(self, carry: Any, x: Any, p: Any, q: Any) -> Any:
        rng = np.random.default_rng(self.seed)
        vectors, numbers = [carry[0], x, p], [carry[1], q]
        for _ in range(rng.integers(3, 8)):
            vector, number = self.operation(rng, vectors, numbers)
            vectors.append(np.tanh(vector))
            numbers.append(np.sin(number))
        kept = vectors[-1] if rng.random() < 0.8 else carry[0]
        return (kept, numbers[-1]), (numbers[-2] * vectors[-2] if rng.random() < 0.7 else vectors[-1])

    def operation(self, rng: Any, vectors: list[Any], numbers: list[Any]) -> tuple[Any, Any]:
        a, b = (vectors[k] for k in rng.integers(0, len(vectors), 2))
        s, t = (numbers[k] for k in rng.integers(0, len(numbers), 2))
        kind = rng.integers(0, 8 if self.depth else 6)
        if kind == 0:
            return a * b + s, np.sum(a * b)
        if kind == 1:
            return np.where(a > b, a * s, np.exp(-b * b)), np.max(a) * t
        if kind == 2:
            return np.outer(a, b) @ a * t, a @ b
        if kind == 3:
            return np.concatenate([a[1:], b[:1]]), s * t + a[-1]
        if kind == 4:
            return np.cumsum(a) - b, s / (1.5 + t * t)
        if kind == 5:
            return np.sqrt(a * a + s * s + 0.1), np.mean(b) - s
        if kind == 6:
            inner = Body(int(rng.integers(1 << 30)), self.size, self.depth - 1)
            n = int(rng.integers(0, 4))
            (v, w), rows = tg.scan(
                lambda c, x: inner(c, x, a, t), (b, s), np.ones((n, self.size)) * a, reverse=bool(rng.integers(2))
            )
            return v + (np.sum(rows, axis=0) if n else 0.0), w
        return tg.cond(s > t, lambda a, b: (a * b, s * 2.0), lambda a, b: (a - np.sin(b), t + 0.0), a, b)


def case(seed: int) -> tuple[Any, tuple[np.ndarray, ...]]:
    rng = np.random.default_rng(seed)
    size, length = int(rng.choice(SIZES)), int(rng.choice([0, 1, 2, 7]))
    body, reverse = Body(seed, size, 2), bool(rng.integers(2))
    weights = rng.standard_normal((length, size))

    def function(v: Any, s: Any, xs: Any, p: Any, q: Any) -> Any:
        (v, s), ys = tg.scan(lambda c, x: body(c, x, p, q), (v, s), xs, reverse=reverse)
        return np.sum(v * v) + s * 0.5 + np.sum(ys * weights) + 0.1 * np.sum(p) * q

    args = rng.standard_normal(size), rng.standard_normal(()), rng.standard_normal((length, size))
    return function, (*args, rng.standard_normal(size), rng.standard_normal(()))


@pytest.mark.parametrize("seed", range(8))
def test_random_loops(seed: int):
    function, args = case(seed)
    every = tuple(range(len(args)))
    with tg.eager():
        expected, by_tape = tg.value_and_grad(function, argnums=every)(*args)
    value, gradients = tg.value_and_grad(function, argnums=every)(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-11)
    for found, wanted in zip(gradients, by_tape, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)
