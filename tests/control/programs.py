"""Functions of two vectors with loops and branches in them, each a scalar that is smooth at `ARGUMENTS`."""

from __future__ import annotations

from typing import Any

import numpy as np

import tracegrad as tg

ARGUMENTS = (np.array([1.1, 0.4]), np.array([1.03, 2.1]))


def tuple_carry(p: Any, y: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        u, v = carry
        u, v = u + 0.1 * (p[0] * u - u * v), v + 0.1 * (u * v - p[1] * v) * x
        return (u, v), u * u

    (u, _), ys = tg.scan(step, (y[0], y[1]), np.linspace(0.5, 1, 5))
    return ys.sum() + u


def reverse_trees(p: Any, y: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        new = {"a": carry["a"] * p + x["s"], "b": [carry["b"][0] * 0.5 + carry["a"].sum() * x["t"][1]]}
        return new, (carry["a"], {"norm": np.sqrt(new["b"][0] ** 2 + 1.0)})

    xs = {"s": np.arange(4.0) * y[1], "t": np.arange(8.0).reshape(4, 2) * 0.1}
    last, (rows, rest) = tg.scan(step, {"a": y, "b": [p[0]]}, xs, reverse=True)
    return last["a"].sum() + np.sum(rows * np.arange(8.0).reshape(4, 2)) + np.sum(rest["norm"]) * last["b"][0]


def python_number_carry(p: Any, y: Any) -> Any:
    total, count = tg.scan(lambda c, x: ((c[0] + x * p[0], c[1] + 1), None), (0, 0), y * np.ones(2))[0]
    return total * count


def counter(p: Any, y: Any) -> Any:
    return tg.fori_loop(2, 7, lambda i, c: c * p[1] + np.sin(i * y[0]), y[1])


def indexed(p: Any, y: Any) -> Any:
    data = np.linspace(0.1, 1.0, 12).reshape(6, 2) * y

    def step(i: Any, c: Any) -> Any:
        return c * p[0] + data[i] * data[5 - i]

    return tg.fori_loop(0, 6, step, np.zeros(2)).sum()


def computed_length(p: Any, y: Any) -> Any:
    n = (y[0] * 5).astype(int)
    a, b = tg.fori_loop(1, n, lambda i, c: (c[0] * p[0] + i * c[1], np.sin(c[1]) * p[1]), (0.5, y[1]))
    return a + b


def until(p: Any, y: Any) -> Any:
    def step(c: Any) -> Any:
        return c[0] * 1.5 + p[0] * np.sin(c[2]), c[1] + 1, c[2] * p[1]

    last = tg.while_loop(lambda c: c[0] < 10, step, (y[0], 0, y[1]))
    return last[0] * last[2] + last[1]


def newton(p: Any, y: Any) -> Any:
    """√(p₀ y₁) by Newton's iteration, whose derivative is that of the square root."""
    a = p[0] * y[1]
    return tg.while_loop(lambda x: np.abs(x * x - a) > 1e-13, lambda x: 0.5 * (x + a / x), 1.0 + 0.0 * a)


def branch(p: Any, y: Any) -> Any:
    return tg.cond(y[0] > 0, lambda x: np.sum(np.sqrt(x * p)), lambda x: np.log(-x) * p[1], y[0]) * y[1]


def switched(p: Any, y: Any) -> Any:
    branches = [lambda x: x * p[0], lambda x: np.exp(x) * y[1], lambda x: 2.0]
    return sum(tg.switch((y[1] + k).astype(int), branches, y[0] * p[1]) for k in (-9, -1, 0, 9))


def products(p: Any, y: Any) -> Any:
    weights = np.stack([p, y])

    def step(h: Any, x: Any) -> Any:
        h = np.tanh(weights @ h + x)
        return h, h

    h, hs = tg.scan(step, y, np.linspace(0, 1, 8).reshape(4, 2))
    return (hs * hs).sum() + h[0]


def larger_products(p: Any, y: Any) -> Any:
    rng = np.random.default_rng(1)
    first, second = rng.standard_normal((2, 20, 20)) * 0.3

    def step(h: Any, _: Any) -> Any:
        h = np.tanh(first @ (h * p[0])) + second @ h * p[1]
        return h, np.sum(h, axis=0)

    h, ys = tg.scan(step, np.outer(np.linspace(0, 1, 20), np.linspace(-1, 1, 20)) * y[0], None, length=3)
    return np.mean(h * h) + ys[1].sum() * y[1]


def solved(p: Any, y: Any) -> Any:
    """An operation without a loop meaning inside a loop: a call into Python in each step."""
    matrix = np.array([[3.0, 0.5], [0.2, 2.0]])

    def step(h: Any, x: Any) -> Any:
        return np.linalg.solve(matrix * p, h) + x, h

    h, hs = tg.scan(step, y, np.linspace(0, 1, 6).reshape(3, 2))
    return h.sum() + (hs**2).sum()


def nested(p: Any, y: Any) -> Any:
    def inner(c: Any, x: Any) -> Any:
        return tg.cond(c > x, lambda c: np.sin(c) * p[0], lambda c: c * c + x, c), c * x

    def outer(c: Any, x: Any) -> Any:
        c2, ys = tg.scan(inner, c, x * np.arange(3.0))
        c3 = tg.while_loop(lambda z: z < 2.0, lambda z: z * 1.3 + 0.1 * p[1] ** 2, np.abs(c2) + 0.1)
        return c3 * p[0], ys.sum() + tg.fori_loop(0, 3, lambda i, z: z * c + i, 1.0)

    c, ys = tg.scan(outer, y[0] * y[1], np.ones((4, 2)) @ y * 0.1)
    return c + ys.sum()


def while_in_while(p: Any, y: Any) -> Any:
    def outer(c: Any) -> Any:
        x, total = c
        halved = tg.while_loop(lambda z: z > 0.3, lambda z: z * p[1], x)
        return x * 1.7, total + halved * p[0]

    return tg.while_loop(lambda c: c[0] < 9, outer, (y[0], y[1]))[1]


def mapped(p: Any, y: Any) -> Any:
    return tg.map(lambda x: np.sum(np.exp(-x * p)), np.linspace(0, 1, 7) * y[0]).sum() * y[1]


def invariants(p: Any, y: Any) -> Any:
    """Carries and ys that nobody reads, a carry that never changes, work that is the same in each step."""

    def step(c: Any, x: Any) -> Any:
        still, moving, dead = c
        shift = np.exp(p[1]) * still
        return (still, moving * x + shift, dead * 2.0), (x * dead, moving)

    (_, moving, _), (_, ys) = tg.scan(step, (y[0], y[1], p[0]), np.linspace(0.2, 1, 5))
    return moving + ys.sum()


def carried_writes(p: Any, y: Any) -> Any:
    """A carry that its body modifies in place, and whose former state is a y."""

    def step(c: Any, x: Any) -> Any:
        c[0] = (c[1] + 0.0) * p[0] + x  # in eager mode, too, the old value is needed for the gradient
        c[1:] += (c[0] + 0.0) * p[1]
        return c, c

    last, rows = tg.scan(step, np.stack([y[0], y[1], p[0]]), np.linspace(0, 1, 4))
    return last.sum() + (rows * rows).sum()


def table(p: Any, y: Any) -> Any:
    """Writes to a Tensor from outside, as in a recurrence over a table."""
    out = tg.zeros(6)
    out[0] = y[0]

    def step(i: Any, c: Any) -> Any:
        out[i] = (out[i - 1] + 0.0) * p[0] + c
        return c * p[1]

    last = tg.fori_loop(1, 6, step, y[1])
    return (out * out).sum() + last


def writes_in_branches(p: Any, y: Any) -> Any:
    out, total = tg.zeros(3), tg.zeros(())

    def put(x: Any) -> Any:
        out[1] = x * p[0]
        return x

    def add(x: Any) -> Any:
        total[...] += x
        return x * p[1]

    def step(x: Any) -> Any:
        out[2] += tg.cond(x > 2, put, add, x)
        return x * 1.3

    last = tg.while_loop(lambda x: x + out[2] < 9, step, y[0])
    return last * out.sum() + total * y[1]


PROGRAMS = (
    tuple_carry, reverse_trees, python_number_carry, counter, indexed, computed_length, until, newton, branch, switched,
    products, larger_products, solved, nested, while_in_while, mapped, invariants,
    carried_writes, table, writes_in_branches,
)  # fmt: skip
