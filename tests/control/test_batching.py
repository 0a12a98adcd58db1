"""vmap of loops and branches against a Python loop over the rows: values, gradients inside and outside."""

from __future__ import annotations

from typing import Any

import numpy as np

import tracegrad as tg
from tracegrad import tree

RNG = np.random.default_rng(0)


def check(function: Any, *args: Any, in_axes: Any = 0) -> None:
    """`function` of vectors, with rows in those arguments of `in_axes` that are not None."""
    axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
    rows = [
        function(*(a if axis is None else a[k] for a, axis in zip(args, axes, strict=True)))
        for k in range(next(len(a) for a, axis in zip(args, axes, strict=True) if axis is not None))
    ]
    compiled = tg.jit(tg.vmap(function, in_axes=in_axes))
    found = compiled(*args)
    for k, row in enumerate(rows):
        for x, y in zip(tree.flatten(found)[0], tree.flatten(row)[0], strict=True):
            np.testing.assert_allclose(x[k], y, rtol=1e-11, atol=1e-13)
    assert "map_rows" not in compiled.show("optimized")


def scanned(x: Any, w: Any, xs: Any) -> Any:
    """One carry has rows only after the first step; another never has any."""

    def step(c: Any, t: Any) -> Any:
        h, total, count = c
        h = np.tanh(w * h + t)
        return (h, total + h.sum() * x, count + 1), (h * count, count)

    (h, total, count), (hs, counts) = tg.scan(step, (np.zeros(2), 0.0, 0), xs)
    return h.sum() * total + hs.sum() + count, counts


def test_scans():
    x, w, xs = RNG.standard_normal(4), RNG.standard_normal((4, 2)), RNG.standard_normal((4, 3, 2))
    check(scanned, x, w[0], xs[0], in_axes=(0, None, None))
    check(tg.value_and_grad(scanned, argnums=(0, 1), has_aux=True), x, w, xs)


def newton(a: Any, start: Any) -> Any:
    """√a, in a number of steps that depends on a; log(a - 0.5) has no value where a row takes the other branch."""
    root = tg.while_loop(lambda x: np.abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), start + 0.0 * a)
    slow = tg.fori_loop(0, (a * 3).astype(int), lambda i, c: c * root + i, 1.0)
    chosen = tg.cond(a > 1, lambda: np.log(a - 0.5) * root, lambda: np.sqrt(1.2 - a))
    return root + slow + chosen


def test_rows_that_decide_for_themselves():
    a = np.array([0.3, 2.0, 1.1, 9.0, 0.2])
    check(tg.value_and_grad(newton), a, 1.0, in_axes=(0, None))
    slope = tg.grad(newton)
    # the gradient of the batch: rows that do not take a branch put no NaN into it
    total = tg.grad(lambda a: np.sum(tg.vmap(newton, in_axes=(0, None))(a, 1.0)))
    np.testing.assert_allclose(total(a), [slope(v, 1.0) for v in a], rtol=1e-10)
    none_taken = np.array([0.3, 0.2, 0.9, 0.3, 0.4])
    np.testing.assert_allclose(total(none_taken), [slope(v, 1.0) for v in none_taken], rtol=1e-10)


def test_decisions_for_all_rows():
    def function(x: Any, n: Any) -> Any:
        y = tg.while_loop(lambda c: c[1] < n, lambda c: (c[0] * x, c[1] + 1), (1.0, 0))[0]
        return tg.switch(n, [lambda: y, lambda: y * 2, lambda: x])

    check(function, RNG.standard_normal(3), np.int64(3), in_axes=(0, None))
