"""Symbolic sizes: one program for calls that differ in sizes, recorded anew wherever a size has decided something."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.random_programs import assert_close, random_program
from tracegrad.ir.dims import evaluate, symbol
from tracegrad.ir.sizes import Size, Sizes
from tracegrad.scipy import special


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(list(shape)).normal(size=shape)


def programs(f: Any) -> int:
    return sum(map(len, f.entries.values()))


def symbolic(f: Any) -> list[str]:
    """The conditions of the programs with symbolic sizes."""
    return [str(e.sizes) for group in f.entries.values() for e in group if e.sizes is not None]


def test_fifty_lengths_compile_twice():
    def logistic(w: Any, X: Any, y: Any) -> Any:
        z = X @ w
        return np.mean(np.logaddexp(0.0, z) - y * z)

    f = tg.value_and_grad(logistic)
    w = array(3)
    for n in range(4, 54):
        X, y = array(n, 3), array(n)
        value, gradient = f(w, X, y)
        z = X @ w
        np.testing.assert_allclose(value, np.mean(np.logaddexp(0, z) - y * z), rtol=1e-12)
        np.testing.assert_allclose(gradient, X.T @ (1 / (1 + np.exp(-z)) - y) / n, rtol=1e-10, atol=1e-14)
    assert programs(f) == 2 and symbolic(f) == ["n >= 2"]
    assert "(3,), (n, 3), (n,)" in str(tg.explain(f))
    assert "n >= 2" in str(tg.explain(f))


def leaky(x: Any) -> Any:
    def step(carry: Any, v: Any) -> Any:
        carry = 0.9 * carry + v
        return carry, carry

    return tg.scan(step, 0.0, x)[1]


def leaky_by_sums(x: np.ndarray) -> np.ndarray:
    return np.array([np.sum(x[: t + 1] * 0.9 ** np.arange(t, -1, -1)) for t in range(len(x))])


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any] | None]] = {
    "softmax": (lambda x: special.softmax(np.outer(x, x), 1)[0], lambda x: np.exp(x[0] * x) / np.exp(x[0] * x).sum()),
    "slices": (lambda x: x[2:] * 0.5 + x[1:-1] * 2 - x[:-2] * x[::-1][2:], None),
    "scan": (leaky, leaky_by_sums),
    "sizes as numbers": (lambda x: x / len(x) + np.sqrt(x.size) * x * (x.shape[0] / 2 - 0.5), None),
    "ranges": (lambda x: x * np.arange(len(x)) + np.linspace(0, 1, len(x)) + np.arange(len(x) - 1, -1, -1), None),
    "new arrays": (lambda x: x + np.ones(x.shape) + np.eye(len(x)) @ x + np.full(x.shape[0], 2.0), None),
    "joined": (lambda x: np.concatenate([x, x[:2], np.pad(x, 1), np.cumsum(np.sort(x))]).reshape(-1, 1)[:, 0], None),
    "statistics": (lambda x: (x - x.mean()) / x.std() + np.median(x) * np.linalg.norm(x), None),
    "pairs": (lambda x: np.einsum("ij,j->i", np.where(x[:, None] > x, x, 0.1 * x) ** 2, x), None),
}


SLOW = ("joined", "pairs", "softmax")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in FUNCTIONS])
def test_values_and_gradients_at_many_sizes(name: str):
    function, expected = FUNCTIONS[name]

    def loss(x: Any) -> Any:
        return np.sum(np.sin(function(x)))

    f = tg.value_and_grad(loss)
    for n in (9, 12, 31):
        value, gradient = f(array(n))
        np.testing.assert_allclose(value, np.sum(np.sin((expected or function)(array(n)))), rtol=1e-11)
    with tg.eager():
        np.testing.assert_allclose(gradient, f(array(31))[1], rtol=1e-10, atol=1e-12)
    assert programs(f) == 2


@pytest.mark.parametrize(
    "name", ["slices", *(pytest.param(name, marks=pytest.mark.slow) for name in FUNCTIONS if name != "slices")]
)
def test_second_derivatives_and_short_axes(name: str):
    function, expected = FUNCTIONS[name]
    f = tg.jit(function)
    second = tg.grad(lambda x: np.sum(tg.grad(lambda y: np.sum(np.sin(function(y))))(x) ** 2))
    for n in (5, 7, 12):
        gradient = second(array(n))
        f(array(n))
    with tg.eager():
        np.testing.assert_allclose(gradient, second(array(12)), rtol=1e-9, atol=1e-11)
    for n in (0, 1, 2, 3):  # programs of their own where a trace for longer axes would not do
        try:
            with np.errstate(all="ignore"):
                wanted = (expected or function)(array(n))
        except (IndexError, ValueError):
            with pytest.raises((IndexError, ValueError)):
                f(array(n))
        else:
            if n or name != "statistics":
                np.testing.assert_allclose(f(array(n)), wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("seed", [3, 16])
def test_random_programs(seed: int):
    resize_and_compare(seed, (5, 11))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_more_random_programs(seed: int):
    resize_and_compare(seed, (5, 11, 2, 1, 0, 37))


def resize_and_compare(seed: int, sizes: tuple[int, ...]) -> None:
    """A program with each of its sizes above 1 in turn replaced, where NumPy runs it so too."""
    program = random_program(seed)
    f = tg.jit(program.function)
    changed = sorted({d for a in program.args for d in np.shape(a) if d > 1})
    for size in (None, *sizes):
        exchange = {} if size is None else {d: size + i * (size > 1) for i, d in enumerate(changed)}
        args = [_resized(a, exchange) for a in program.args]
        with np.errstate(all="ignore"):
            try:
                expected = program.function(*args)
            except (ValueError, IndexError, TypeError):
                continue
            for found, wanted in zip(f(*args), expected, strict=True):
                assert_close(program, found, wanted, f"sizes {exchange}, {symbolic(f)}")


def _resized(value: Any, exchange: dict[int, int]) -> Any:
    if not np.ndim(value):
        return value
    return np.resize(value, tuple(exchange.get(d, d) for d in value.shape))


def test_sizes_that_are_equal_share_a_symbol_until_they_differ():
    f = tg.jit(lambda x, y: np.sum(x**2) * np.sum(y) if x.shape == y.shape else np.sum(x) + np.sum(y))
    for n, m in ((4, 4), (6, 6), (9, 9), (5, 8), (7, 3), (6, 6)):
        x, y = array(n), array(m)
        wanted = np.sum(x**2) * np.sum(y) if n == m else np.sum(x) + np.sum(y)
        np.testing.assert_allclose(f(x, y), wanted, rtol=1e-12)
    assert programs(f) == 3
    diff = tg.jit(lambda edges, h: np.diff(edges) * h)
    for n in (4, 6, 9, 30):
        np.testing.assert_allclose(diff(array(n + 1), array(n)), np.diff(array(n + 1)) * array(n), rtol=1e-12)
    assert programs(diff) == 2 and "(n,), (n-1,)" in str(tg.explain(diff))


def test_decisions_on_sizes():
    @tg.jit
    def f(x: Any) -> Any:
        if len(x) > 10:
            return 2 * x
        return 3 * x if x.shape[0] % 2 == 0 else x[:5].sum()

    for n in (20, 30, 8, 11, 5, 7, 3, 6, 10, 50, 9):
        x = array(n)
        wanted = 2 * x if n > 10 else 3 * x if n % 2 == 0 else x[:5].sum()
        np.testing.assert_allclose(f(x), wanted, rtol=1e-12)
    assert {"n >= 11", "2 <= n <= 10, n-2*floordiv(n, 2) == 0"} <= set(symbolic(f))


TABLE = {6: 2.0}


@functools.cache
def weight(n: int) -> float:
    return float(n)


CONSUMERS: dict[str, Callable[[Any], Any]] = {
    "range": lambda x: sum(i * x[i] for i in range(len(x))),
    "iteration": lambda x: sum(i * v for i, v in enumerate(x)),
    "text": lambda x: x * float(f"{x.shape[0]}"),
    "key of a dict": lambda x: x * TABLE.get(x.shape[0], 3.0),
    "cache": lambda x: x * weight(len(x)),
    "float": lambda x: x * float(x.size),
    "list": lambda x: x + np.array([1.0] * len(x)),
    "number computed from it": lambda x: x * int(x.shape[0] / 2),
    "equality": lambda x: x * 2 if len(x) == 6 else x,
    "truth": lambda x: x * 2 if x.shape[0] - 6 else x,
    "membership": lambda x: x * 2 if len(x) in (6, 9) else x,
}


@pytest.mark.parametrize("name", CONSUMERS)
def test_sizes_that_python_takes_as_numbers(name: str):
    f = tg.jit(CONSUMERS[name])
    for n in (4, 6, 9, 7, 6, 4, 11):
        np.testing.assert_allclose(f(array(n)), CONSUMERS[name](array(n)), rtol=1e-12)
    if name == "range":
        assert "Python uses a size as an integer" in str(tg.explain(f)) and "test_sizes.py" in str(tg.explain(f))


def test_one_size_is_a_number_and_another_is_not():
    f = tg.jit(lambda X: sum(np.sum(X, 0)[j] * j for j in range(X.shape[1])))
    for n, m in ((5, 3), (7, 4), (9, 4), (12, 4)):
        X = array(n, m)
        np.testing.assert_allclose(f(X), np.sum(X, 0) @ np.arange(m), rtol=1e-12)
    assert programs(f) == 2 and "(n, 4)" in str(tg.explain(f))


def test_sizes_as_results_are_ints():
    f = tg.jit(lambda x: (x.sum(), {"n": len(x)}, x.shape))
    for n in (3, 4, 5, 6):
        _, number, shape = f(np.ones(n))
        assert number == {"n": n} and shape == (n,) and type(number["n"]) is type(shape[0]) is int


def test_dynamic_true_and_false():
    always = tg.jit(lambda x, w: x @ w, dynamic=True)
    never = tg.grad(lambda x: np.sum(x**3), dynamic=False)
    for n in (5, 6, 8):
        np.testing.assert_allclose(always(array(n, 3), array(3)), array(n, 3) @ array(3), rtol=1e-12)
        np.testing.assert_allclose(never(array(n)), 3 * array(n) ** 2, rtol=1e-12)
    assert programs(always) == 1 and symbolic(always) == ["n >= 2, m >= 2"]
    assert programs(never) == 3 and not symbolic(never)


def test_tensors_their_gradients_and_effects():
    w = tg.tensor(array(3), requires_grad=True)

    @tg.jit
    def f(x: Any) -> Any:
        return np.sum(np.diff(x) ** 2 * x.mean()) + x[:3] @ w

    for n in (6, 9, 13, 40):
        results = []
        for function in (f, f.py_func):
            x = tg.tensor(array(n), requires_grad=True)
            (g, gw) = tg.autograd.grad(function(x), (x, w), create_graph=True)
            results.append((g, gw, *tg.autograd.grad((g * g).sum(), (x,))))
        for found, wanted in zip(*results, strict=True):
            np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-11, atol=1e-12)
    assert len(f.recompiles) == 2

    @tg.jit
    def shift(x: Any) -> None:
        x[1:] = x[:-1].copy() * len(x)

    for n in (4, 6, 9, 2):
        x, wanted = array(n), array(n)
        wanted[1:] = array(n)[:-1] * n
        shift(x)
        np.testing.assert_array_equal(x, wanted)


def test_other_transforms():
    def g(x: Any) -> Any:
        return np.diff(x) * len(x)

    rows, mapped = tg.vmap(np.cumsum), tg.vmap(tg.grad(lambda r: np.sum(r[1:] * r[:-1])))
    for n, m in ((3, 4), (5, 4), (6, 7), (9, 8)):
        X, x = array(n, m), array(n)
        np.testing.assert_allclose(rows(X), np.cumsum(X, 1), rtol=1e-12)
        padded = np.pad(X, ((0, 0), (1, 1)))
        np.testing.assert_allclose(mapped(X), padded[:, 2:] + padded[:, :-2], rtol=1e-12)
        value, pull = tg.vjp(g, x)
        (cotangent,) = pull(value)
        np.testing.assert_allclose(cotangent, -np.diff(np.pad(value, 1)) * n, rtol=1e-12)
        np.testing.assert_allclose(tg.jvp(g, (x,), (cotangent,))[1], g(cotangent), rtol=1e-12)
    assert programs(rows) == programs(mapped) == 3


def test_jacobians():
    jacobian, hessian = tg.jacrev(lambda x: np.sin(x) * x.sum()), tg.hessian(lambda x: np.sum(x**3) * x.mean())
    for n in (4, 6, 9):
        x = array(n)
        np.testing.assert_allclose(jacobian(x), np.diag(np.cos(x) * x.sum()) + np.sin(x)[:, None], rtol=1e-12)
        wanted = np.diag(6 * x) * x.mean() + np.add.outer(3 * x**2, 3 * x**2) / n
        np.testing.assert_allclose(hessian(x), wanted, rtol=1e-11, atol=1e-13)
    assert programs(jacobian) == programs(hessian) == 2


def test_mistakes_raise_as_with_fixed_sizes():
    f = tg.jit(lambda x, y: x + y)
    for n in (4, 5):
        f(array(n), array(n))
    with pytest.raises(ValueError, match="broadcast"):
        f(array(4), array(5))
    np.testing.assert_array_equal(f(array(7), array(7)), 2 * array(7))
    np.testing.assert_array_equal(f(array(7), array(1)), array(7) + array(1))
    largest = tg.jit(lambda x: np.max(x[3:]))
    for n in (5, 7):
        assert largest(array(n)) == np.max(array(n)[3:])
    with pytest.raises(ValueError, match="no elements"):
        largest(array(3))


def test_arithmetic_and_decisions_of_a_size():
    values = {"n": 7, "m": 4}
    sizes = Sizes(values, lambda dim: float(evaluate(dim, values)))
    n, m = (Size(symbol(name).terms, sizes) for name in "nm")
    with sizes.known():
        assert isinstance(2 * n + m // 2 - 1, Size) and n - n == 0
        assert n > 1 and n >= 2 and not n < 2 and n != 1 and bool(n) and abs(n) is n and not sizes.conditions
        assert n < 10 and n <= 9.5 and n > 2.5 and not n > np.inf and n < np.inf
        assert (sizes.least["n"], sizes.most["n"]) == (3, 9)
        assert n != m and n % 2 == 1 and max(n, m) is n
        assert n / 2 == 3.5 and n * 0.5 == 3.5 and 1 / n == 1 / 7 and n / m == 1.75 and n**2 == 49 and 2.0**m == 16
        assert not sizes.consumed
    assert sizes.serve({"n": 7, "m": 3}) and sizes.serve({"n": 7, "m": 4})
    for other in ({"n": 8, "m": 4}, {"n": 11, "m": 4}, {"n": 7, "m": 7}, {"n": 7, "m": 9}, {"n": 3, "m": 1}):
        assert not sizes.serve(other)
    assert int(n) == 7 and len(range(m)) == 4 and not sizes.consumed  # it is over: plain numbers
    with sizes.known():
        assert float(n) == 7.0 and f"{n}" == "7" and {7: 1}[n] == 1 and sizes.consumed == {"n"}


def test_numbers_made_of_a_shape_have_the_dtypes_of_numpy():
    """np.prod(x.shape) is an np.int64, which makes float64 of float32; len(x) is an int, which leaves it."""

    def symbolic_ones(x: Any) -> Any:
        size, longest = np.prod(x.shape), np.max(x.shape)
        return (
            x * size, x / (2 * size - 1), x * -size, x * (longest + len(x)), x - np.sum(x.shape), x * len(x),
            x / x.size, x[:2] * np.min([2, len(x)]), x / np.sqrt(size), np.reshape(x, size),
            x + np.zeros(size, np.float32),
        )  # fmt: skip

    def numbers(x: Any) -> Any:
        return x * np.array([len(x), 1])[0], x * np.stack([len(x), 1])[0], x * np.cumsum(x.shape), np.outer(x.shape, x)

    for function, most in ((symbolic_ones, 2), (numbers, 4)):
        f = tg.jit(function)
        for n in (3, 4, 5, 6):
            x = array(n).astype(np.float32)
            for found, expected in zip(f(x), function(x), strict=True):
                assert found.dtype == expected.dtype
                np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert programs(f) == most


@pytest.mark.parametrize("function", [
    lambda a: a[-4], lambda a: np.cumsum(a)[-4], lambda a: np.arange(len(a))[-4] + a[0], lambda a: a[:, None].T[0, -4],
])  # fmt: skip
def test_a_negative_position_that_is_out_of_range_for_a_later_size(function):
    compiled = tg.jit(function)
    for n in (5, 7, 9, 4, 3, 2, 6, 1):
        a = np.arange(1.0, n + 1)
        if n >= 4:
            assert compiled(a) == function(a)
        else:
            with pytest.raises(IndexError, match="out of bounds"):
                compiled(a)


def test_a_write_at_a_negative_position_that_is_out_of_range_for_a_later_size():
    def function(a):
        a = a * 1
        a[-3] = 7.0
        return a

    compiled = tg.jit(function)
    for n in (5, 6, 8, 3):
        np.testing.assert_array_equal(compiled(np.arange(float(n))), function(np.arange(float(n))))
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(np.ones(2))
