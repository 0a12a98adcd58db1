"""Loops and branches: eager = interpreter = compiled, for values, gradients and second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.control.programs import ARGUMENTS, PROGRAMS, newton
from tests.tracing import trace, value_and_gradients
from tracegrad.ir.identity import equal
from tracegrad.ir.interpret import interpret
from tracegrad.ir.text import parse_graph, print_graph
from tracegrad.ir.verify import verify
from tracegrad.passes.pipeline import optimize

ONE = np.array(1.0)
WEIGHTS = (np.array([0.7, -1.3]), np.array([0.4, 0.9]))
programs = pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
Function = Callable[..., Any]


def differences(function: Function, step: float = 1e-6) -> list[np.ndarray]:
    """Central differences of a scalar function at ARGUMENTS."""
    found = []
    for i, x in enumerate(ARGUMENTS):
        partial = np.zeros_like(x)
        for k in range(x.size):
            ends = []
            for sign in (1, -1):
                moved = [a.copy() for a in ARGUMENTS]
                moved[i][k] += sign * step
                ends.append(float(function(*moved)))
            partial[k] = (ends[0] - ends[1]) / (2 * step)
        found.append(partial)
    return found


def along(function: Function) -> Function:
    """The derivative along a fixed direction, as a function of the same arguments."""

    gradient = tg.grad(function, argnums=(0, 1))

    def derivative(*args: Any) -> Any:
        return sum((w * g).sum() for w, g in zip(WEIGHTS, gradient(*args), strict=True))

    return derivative


def close(found: Any, expected: Any, rtol: float = 1e-11) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=rtol)


def eager(function: Function, *args: Any) -> Any:
    with tg.eager():
        return tg.value_and_grad(function, argnums=(0, 1))(*args)


@programs
def test_interpreter(function: Function):
    graph, args = trace(function, ARGUMENTS)
    verify(graph)
    joint = value_and_gradients(graph, [0, 1])
    verify(joint)
    value, *gradients = interpret(joint, [*args, ONE])
    expected, by_tape = eager(function, *ARGUMENTS)
    close([value, *gradients], [expected, *by_tape])
    close([expected], [function(*ARGUMENTS)])
    close(gradients, differences(function), 1e-7)


@programs
def test_passes_keep_the_meaning(function: Function):
    graph, args = trace(along(function), ARGUMENTS)
    joint = value_and_gradients(graph, [0, 1])
    optimized = optimize(joint)
    verify(optimized)
    close(interpret(optimized, [*args, ONE]), interpret(joint, [*args, ONE]))


@programs
def test_text(function: Function):
    joint = value_and_gradients(trace(function, ARGUMENTS)[0], [0, 1])
    environment: dict[str, Any] = {}
    assert equal(parse_graph(print_graph(joint, environment), environment), joint)


@programs
def test_compiled(function: Function):
    expected, by_tape = eager(function, *ARGUMENTS)
    value, gradients = tg.value_and_grad(function, argnums=(0, 1))(*ARGUMENTS)
    close([value, *gradients], [expected, *by_tape])
    close([tg.jit(function)(*ARGUMENTS)], [expected])


@programs
def test_compiled_function_of_tensors(function: Function):
    expected, by_tape = eager(function, *ARGUMENTS)
    tensors = [tg.tensor(a, requires_grad=True) for a in ARGUMENTS]
    result = tg.jit(function)(*tensors)
    result.backward()
    close([result.detach(), *(t.grad for t in tensors)], [expected, *by_tape])


@programs
def test_second_derivatives(function: Function):
    tensors = [tg.tensor(a, requires_grad=True) for a in ARGUMENTS]
    gradients = tg.autograd.grad(function(*tensors), tensors, create_graph=True)
    weighted = sum((w * g).sum() for w, g in zip(WEIGHTS, gradients, strict=True))
    expected = [g.numpy() for g in tg.autograd.grad(weighted, tensors)]
    close(tg.grad(along(function), argnums=(0, 1))(*ARGUMENTS), expected, 1e-10)
    close(expected, differences(along(function)), 1e-5)


def test_newton_has_the_derivative_of_the_square_root():
    (p, y), root = ARGUMENTS, np.sqrt(ARGUMENTS[0][0] * ARGUMENTS[1][1])
    value, gradient = tg.value_and_grad(newton)(p, y)
    np.testing.assert_allclose(value, root, rtol=1e-14)
    np.testing.assert_allclose(gradient, [y[1] / (2 * root), 0.0], rtol=1e-10, atol=1e-15)
