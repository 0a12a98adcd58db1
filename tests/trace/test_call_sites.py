"""Which calls of NumPy's functions get Tensors of symbolic sizes: those of Python code, not those of C code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.trace.call_sites import calls

GENERATORS = {
    "normal": lambda g, n: g.normal(size=n),
    "random": lambda g, n: g.random(n),
    "standard_normal": lambda g, n: g.standard_normal((n,)),
    "uniform": lambda g, n: g.uniform(size=(n,)),
    "poisson": lambda g, n: g.poisson(2.0, size=n),
    "integers": lambda g, n: g.integers(0, 5, size=n),
    "choice": lambda g, n: g.choice(n, size=n),
    "permutation": lambda g, n: g.permutation(n),
    "beside zeros": lambda g, n: g.normal(size=n) + np.zeros(n),
    "among arguments": lambda g, n: np.concatenate([np.zeros(n), g.normal(size=n), g.random(len(np.ones(n)))])[
        n : 2 * n
    ],
}


@pytest.mark.parametrize("name", GENERATORS)
def test_generators_draw_for_each_size(name: str) -> None:
    draw: Callable[..., Any] = GENERATORS[name]

    def f(x: Any) -> Any:
        return np.sum(x * draw(np.random.default_rng(0), len(x)))

    compiled, gradient = tg.jit(f), tg.jit(tg.grad(f))
    for n in (4, 3, 6, 3, 5, 4):
        x = np.linspace(1, 2, n)
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient(x), draw(np.random.default_rng(0), n), rtol=1e-12)


def test_c_code_that_is_given_a_function_of_numpys() -> None:
    def f(x: Any) -> Any:
        (first,) = map(np.ones, [len(x)])
        return np.sum(x * first)

    compiled = tg.jit(f)
    for n in (4, 3, 6):
        assert compiled(np.arange(float(n))) == np.sum(np.arange(n))


namespace = SimpleNamespace(numpy=np)


def of_module(n: Any) -> Any:
    return np.zeros(n)


def of_attribute(n: Any) -> Any:
    return namespace.numpy.zeros(shape=n)


def of_local_name(n: Any) -> Any:
    zeros = np.zeros
    return zeros(n)


def of_closure(n: Any) -> Any:
    zeros = np.zeros
    return (lambda: zeros(*(n,)))()


def of_chained_calls(n: Any) -> Any:
    return np.zeros(n).reshape(1, -1).ravel()


def of_comprehension(n: Any) -> Any:
    return sum([np.zeros(m) for m in (n, n)])


WAYS = [of_module, of_attribute, of_local_name, of_closure, of_chained_calls, of_comprehension]


@pytest.mark.parametrize("make", WAYS)
def test_python_code_gets_one_program_for_all_sizes(make: Callable[..., Any]) -> None:
    f = tg.jit(lambda x: np.sum(np.cos(make(len(x)) + x)))
    for n in (4, 3, 6, 7):
        np.testing.assert_allclose(f(np.ones(n)), n * np.cos(1.0), rtol=1e-12)
    assert sum(map(len, f.entries.values())) == 2


def called_directly(*_: Any) -> bool:
    return calls(sys._getframe(1), called_directly)


def test_what_a_frame_calls() -> None:
    assert called_directly()
    assert called_directly(map(str, [1]))
    assert not next(map(called_directly, [1]))
    assert not any(map(called_directly, [1, 2]))
    assert (lambda: called_directly())()


def test_without_positions_in_the_source_sizes_become_numbers() -> None:
    program = """if True:
    import numpy as np, tracegrad as tg
    f = tg.jit(lambda x: np.sum(x * np.ones(len(x)) * np.random.default_rng(0).random(len(x))))
    for n in (4, 3, 6):
        np.testing.assert_allclose(f(np.ones(n)), np.sum(np.random.default_rng(0).random(n)))
    """
    subprocess.run([sys.executable, "-X", "no_debug_ranges", "-c", program], check=True, timeout=120)
