"""What loops and branches do at the edges: no steps, one step, other dtypes, what is not evaluated, what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import ArgumentError, DTypeError, ShapeError, TracegradError

both = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])


def run(function: Any, compiled: bool, *args: Any) -> Any:
    return tg.jit(function)(*args) if compiled else function(*args)


@both
@pytest.mark.parametrize("length", [0, 1, 3])
@pytest.mark.parametrize("reverse", [False, True])
def test_lengths(compiled: bool, length: int, reverse: bool):
    xs = np.arange(2.0 * length).reshape(length, 2) + 1

    def function(init: Any, xs: Any) -> Any:
        return tg.scan(lambda c, x: (c * 2 + x, (c, x.sum())), init, xs, reverse=reverse)

    last, (carries, sums) = run(function, compiled, np.ones(2), xs)
    carry, expected = np.ones(2), np.zeros((length, 2))
    for t in range(length)[:: -1 if reverse else 1]:
        expected[t], carry = carry, carry * 2 + xs[t]
    np.testing.assert_array_equal(last, carry)
    np.testing.assert_array_equal(carries, expected)
    np.testing.assert_array_equal(sums, xs.sum(1))
    assert carries.dtype == sums.dtype == float
    gradient = tg.grad(lambda init, xs: function(init, xs)[0].sum())(np.ones(2), xs)
    np.testing.assert_array_equal(gradient, np.full(2, 2.0**length))


@both
def test_loops_that_run_no_step(compiled: bool):
    def function(x: Any, n: Any) -> Any:
        up = tg.fori_loop(3, n, lambda i, c: c * i, x)
        return up, tg.while_loop(lambda c: c < 0, lambda c: c * 2, x), tg.fori_loop(2, 1, lambda i, c: c * i, x)

    assert run(function, compiled, 1.5, np.int64(-4)) == (1.5, 1.5, 1.5)


@both
def test_the_number_of_steps_is_known_at_run_time(compiled: bool):
    def function(x: Any, n: Any) -> Any:
        return tg.fori_loop(0, n, lambda i, c: c * x + i, 1.0)

    compiled_function = tg.value_and_grad(function) if compiled else None
    for n in (0, 1, 4, 9):
        value, slope = 1.0, 0.0
        for i in range(n):
            value, slope = value * 1.1 + i, slope * 1.1 + value
        if compiled_function is None:
            np.testing.assert_allclose(function(1.1, n), value)
        else:
            np.testing.assert_allclose(compiled_function(1.1, np.int64(n)), (value, slope))
    if compiled_function is not None:
        assert len(tg.explain(compiled_function).programs) == 1


@both
def test_the_index_counts_as_a_python_number(compiled: bool):
    x = np.ones(3, np.float32)
    assert run(lambda x: tg.fori_loop(0, 3, lambda i, c: c * 0.5 + i, x), compiled, x).dtype == np.float32


@both
def test_a_python_number_takes_the_dtype_it_becomes(compiled: bool):
    def function(x: Any) -> Any:
        return tg.scan(lambda c, x: (c + x, c), 0, x)

    last, sums = run(function, compiled, np.arange(4, dtype=np.float32))
    assert last == 6 and np.asarray(last).dtype == np.float32
    np.testing.assert_array_equal(sums, [0, 0, 1, 3])


@both
def test_integers_and_bools_are_carried(compiled: bool):
    def function(x: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            count, seen = c
            return (count + (v > 1), seen | (v == 3)), count

        return tg.scan(step, (np.int32(0), np.bool_(False)), x)

    (count, seen), counts = run(function, compiled, np.array([0, 2, 3, 1]))
    assert (count, seen) == (2, True) and np.asarray(count).dtype == np.int32
    np.testing.assert_array_equal(counts, [0, 0, 1, 2])


def test_the_other_branch_is_not_evaluated():
    calls = []

    class Noted(tg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            calls.append(float(x.numpy()))
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    def function(x: Any) -> Any:
        return tg.cond(x > 0, lambda x: np.sqrt(x), lambda x: np.sqrt(-x), x)

    value_and_grad = tg.value_and_grad(function)
    for x in (4.0, -4.0):
        value, gradient = value_and_grad(x)
        assert value == 2.0 and gradient == np.sign(x) / 4  # no NaN of the other branch's square root
    assert tg.grad(tg.grad(function))(4.0) == -1 / 32


def test_a_decision_in_a_body_on_a_value_from_outside_is_guarded():
    @tg.jit
    def function(x: Any, flag: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            return (c + v if flag > 0 else c - v), None

        return tg.scan(step, 0.0, x)[0]

    x = np.arange(4.0)
    assert [function(x, np.float64(f)) for f in (1, -1, 2)] == [6, -6, 6]


def test_globals_in_bodies_are_read_afresh():
    data = np.array([1.0, 2.0])

    @tg.jit
    def function(x: Any) -> Any:
        return tg.fori_loop(0, 2, lambda i, c: c + data.sum() + (data * x).sum(), 0.0)

    assert function(1.0) == 12.0
    data[0] = 5.0
    assert function(1.0) == 28.0


# ---- what is wrong ------------------------------------------------------------------------------------------------


def raises(error: type[TracegradError], text: str, function: Any, *args: Any, eager: bool = True) -> None:
    for compiled in (False, True) if eager else (True,):
        with pytest.raises(error, match=text):
            run(function, compiled, *args)


def test_a_decision_on_a_symbolic_value():
    def function(x: Any) -> Any:
        return tg.scan(lambda c, v: (c + v if v > 0 else c, None), 0.0, x)[0]

    raises(ArgumentError, r"(?s)symbolic.*test_meaning.*tg\.cond", function, np.arange(3.0), eager=False)


def test_a_carry_that_changes():
    x = np.arange(3.0)
    shape = r"carry\['b'\]\[0\] of scan changes its shape from \(\) to \(2,\)"
    init = {"a": 1.0, "b": (0.0,)}
    raises(ShapeError, shape, lambda x: tg.scan(lambda c, v: ({"a": c["a"], "b": (v * np.ones(2),)}, v), init, x), x)
    dtype = "carry of fori_loop changes its dtype from int64 to float64"
    raises(DTypeError, dtype, lambda x: tg.fori_loop(0, 3, lambda i, c: c + x[0] * 0.5, np.int64(1)), x)
    structure = "carry of while_loop changes its structure"
    raises(ArgumentError, structure, lambda x: tg.while_loop(lambda c: c[0] < 9, lambda c: (*c, 1), (x[0], 1)), x)


def test_bodies_that_return_something_else():
    x = np.arange(3.0)
    raises(ArgumentError, "not a pair", lambda x: tg.scan(lambda c, v: c + v, 0.0, x), x)
    raises(ArgumentError, "not one bool", lambda x: tg.while_loop(lambda c: c > 0, lambda c: c - 1, x), x)
    raises(ArgumentError, "not one integer", lambda x: tg.fori_loop(0, x[2], lambda i, c: c + 1, x[0]), x)


def test_lengths_that_do_not_fit():
    x = np.arange(3.0)
    raises(ShapeError, "different numbers of steps: 3, 4", lambda x: tg.scan(lambda c, v: (c, v), 0.0, x, length=4), x)
    raises(ShapeError, "single number", lambda x: tg.scan(lambda c, v: (c, v), 0.0, x[0]), x)
    raises(ArgumentError, "xs or a length", lambda x: tg.scan(lambda c, v: (c, v), x[0]), x)
    raises(ArgumentError, "-2 steps", lambda x: tg.scan(lambda c, v: (c, v), x[0], length=-2), x)


def test_branches_that_do_not_agree():
    x = np.float64(1.0)
    raises(ShapeError, "different shapes", lambda x: tg.cond(x > 0, lambda: x, lambda: np.ones(2)), x, eager=False)
    raises(ArgumentError, "structures", lambda x: tg.cond(x > 0, lambda: x, lambda: (x, x)), x, eager=False)
    raises(ShapeError, "one value", lambda x: tg.cond(x > 0, lambda: x, lambda: x), tg.tensor([1.0, 2.0]))
    raises(ArgumentError, "at least one branch", lambda x: tg.switch(x, []), np.int64(1))


def test_what_is_no_number():
    raises(ArgumentError, "this leaf is a str", lambda x: tg.scan(lambda c, v: (c, v), "a", x), np.ones(2), eager=False)


def test_values_of_a_body_end_with_it():
    kept: dict[str, Any] = {}

    def read(x: Any) -> Any:
        tg.scan(lambda c, v: (kept.update(last=c) or c * v, None), x, np.arange(3.0))
        return kept["last"] * 2

    raises(
        ArgumentError, r"(?s)value of the body of scan.*test_meaning.*return it from the body", read, 1.0, eager=False
    )

    def collected(x: Any) -> Any:
        rows: list[Any] = []

        def step(i: Any, c: Any) -> Any:
            rows.append(c)
            return c + rows[0]  # the first step's, in a Python loop

        return tg.fori_loop(0, 3, step, x)

    raises(ArgumentError, r"(?s)appends to a list.*test_meaning.*tg\.scan stacks", collected, 1.0, eager=False)


def test_functions_that_leave_tracegrad():
    """A user's forward and backward in Python run in each step, on that step's numbers."""
    calls = []

    class Smooth(tg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any) -> Any:
            calls.append("forward")
            ctx.save_for_backward(x, w)
            ctx.size = w.numpy().size
            return tg.tensor(np.convolve(x.numpy(), w.numpy(), "same"))

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            calls.append("backward")
            x, w = (t.numpy() for t in ctx.saved_tensors)
            by_x = [np.convolve(e, w, "same") @ g.numpy() for e in np.eye(x.size)]
            return tg.tensor(by_x), tg.tensor([np.convolve(x, e, "same") @ g.numpy() for e in np.eye(ctx.size)])

    def function(x: Any, w: Any) -> Any:
        def step(h: Any, k: Any) -> Any:
            h = Smooth.apply(h, w) * 0.5 + x * k
            return h, np.sin(h).sum()

        h, ys = tg.scan(step, x, np.arange(3.0))
        h = tg.fori_loop(0, 2, lambda i, h: Smooth.apply(h, w) + i, h)
        h = tg.while_loop(lambda h: h @ h < 200, lambda h: Smooth.apply(h, w) * 1.5 + 1, h)
        return tg.cond(h[0] > 0, lambda h: Smooth.apply(h, w) @ h, lambda h: h.sum(), h) + ys.sum()

    rng = np.random.default_rng(0)
    args = rng.standard_normal(5), rng.standard_normal(3)
    with tg.eager():
        value, gradients = tg.value_and_grad(function, argnums=(0, 1))(*args)
    compiled = tg.value_and_grad(function, argnums=(0, 1))
    for _ in range(2):
        calls.clear()
        found, by_loops = compiled(*args)
        np.testing.assert_allclose(found, value, rtol=1e-12)
        for g, wanted in zip(by_loops, gradients, strict=True):
            np.testing.assert_allclose(g, wanted, rtol=1e-11)
    assert calls.count("backward") == 7 and calls.count("forward") <= 7 + 2  # the while_loop's two steps ran twice
