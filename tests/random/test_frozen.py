"""Random numbers of NumPy's and Python's generators inside a traced function are an error that names the line."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from numpy.random import standard_normal

import tracegrad as tg
from tracegrad.errors import FrozenRandomError

RNG = np.random.default_rng(0)


class Noise:
    def __init__(self):
        self.rng = np.random.RandomState(0)

    def draw(self):
        return self.rng.rand()


def makes_a_generator(x):
    return x * np.random.default_rng().random()  # line of a new generator


def makes_a_state(x):
    return x * np.random.RandomState().rand()  # line of a new state


def helper(x):
    return x * np.random.uniform()  # line of the helper


def uses_np_random(x):
    return x * np.random.rand()  # line of np.random


def uses_helper(x):
    return helper(x)


def uses_imported_name(x):
    return x + standard_normal(x.shape)  # line of the imported name


def uses_global_generator(x):
    return x + RNG.normal(size=x.shape)  # line of the generator


def uses_python(x):
    return x * random.random()  # line of Python's module


def uses_attribute() -> Callable:
    noise = Noise()

    def f(x):
        return x * noise.draw()

    return f


def uses_closure() -> Callable:
    generator = np.random.default_rng(3)

    def f(x):
        y = x + 1
        return y * generator.random()  # line of the closure

    return f


CASES = [
    (uses_np_random, "line of np.random", "global random state"),
    (uses_helper, "line of the helper", "global random state"),
    (uses_imported_name, "line of the imported name", "global random state"),
    (uses_global_generator, "line of the generator", "Generator from outside"),
    (uses_python, "line of Python's module", "module random"),
    (uses_attribute(), "return self.rng.rand()", "RandomState from outside"),
    (uses_closure(), "line of the closure", "Generator from outside"),
    (makes_a_generator, "line of a new generator", "without a seed"),
    (makes_a_state, "line of a new state", "without a seed"),
]


@pytest.mark.parametrize("function, line, what", CASES, ids=[c[0].__qualname__ for c in CASES])
@pytest.mark.parametrize("transform", [tg.jit, lambda f: tg.grad(lambda x: np.sum(f(x)))], ids=["jit", "grad"])
def test_numbers_that_would_be_frozen_are_an_error(transform: Callable, function: Callable, line: str, what: str):
    with pytest.raises(FrozenRandomError, match="same in every later call") as caught:
        transform(function)(np.ones(3))
    text = str(caught.value)
    assert line in text and what in text and "tg.random" in text


def test_a_generator_as_a_static_argument_is_watched():
    with pytest.raises(FrozenRandomError, match="Generator"):
        tg.jit(lambda x, rng: x + rng.random())(np.ones(2), np.random.default_rng(0))


def test_a_generator_that_is_not_used_does_no_harm():
    generator = np.random.default_rng(3)
    before = np.random.get_state()[2]

    @tg.jit
    def f(x):
        return x * 2 if generator is not None and random is not None else x

    np.testing.assert_array_equal(f(np.ones(3)), [2.0, 2.0, 2.0])
    assert np.random.get_state()[2] == before


def test_a_generator_made_from_a_seed_inside_is_the_same_in_each_call_anyway():
    @tg.jit
    def f(x):
        return x + np.random.default_rng(5).random(3)

    expected = np.random.default_rng(5).random(3)
    for _ in range(2):
        np.testing.assert_array_equal(f(np.zeros(3)), expected)


def test_eager_mode_draws_as_ever():
    with tg.eager():
        np.random.seed(0)
        first = tg.jit(uses_np_random)(np.ones(3))
        np.random.seed(0)
        np.testing.assert_array_equal(first, np.ones(3) * np.random.rand())


FIRST_USE = """
import sys
import numpy as np
import pytest
import tracegrad as tg
from tracegrad.errors import FrozenRandomError

assert "numpy.random" not in sys.modules  # NumPy imports it when it is first asked for
tg.grad(lambda x: np.sum(x * x))(np.ones(3))
assert "numpy.random" not in sys.modules
with pytest.raises(FrozenRandomError, match="global random state"):
    tg.grad(lambda x: np.sum(x * np.random.rand(312)))(np.ones(312))  # as many words as the state has
"""
FIRST_MADE = FIRST_USE.replace("global random state", "without a seed").replace("rand(", "default_rng().random(")


@pytest.mark.parametrize("program", [FIRST_USE, FIRST_MADE], ids=["used", "made"])
def test_a_generator_that_is_first_used_while_tracing(program: str):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
