"""Random programs: NumPy = interpreter of the trace = interpreter after all passes, values and gradients."""

import numpy as np
import pytest

from tests.random_programs import Program, assert_close, random_program
from tests.tracing import trace, value_and_gradients
from tracegrad.ir.identity import equal
from tracegrad.ir.interpret import interpret
from tracegrad.ir.text import parse_graph, print_graph
from tracegrad.passes.pipeline import optimize


def check_values(program: Program) -> None:
    graph, inputs = trace(program.function, program.args)
    expected = program.function(*program.args)
    traced = interpret(graph, inputs)
    optimized = optimize(graph)
    for found, value in zip(traced, expected, strict=True):
        assert_close(program, found, value, "the trace")
    for found, value in zip(interpret(optimized, inputs), traced, strict=True):
        assert_close(program, found, value, "what the passes left")
    environment: dict[str, object] = {}
    text = print_graph(optimized, environment)
    assert equal(parse_graph(text, environment), optimized)


def check_gradients(program: Program) -> None:
    """Before passes against after them, and against a central difference along a random direction (float64 only)."""
    graph, inputs = trace(program.loss, program.args)
    pulled = value_and_gradients(graph, program.argnums)
    seed = np.ones((), graph.outputs[0].type.dtype)
    expected = interpret(pulled, [*inputs, seed])
    for found, value in zip(interpret(optimize(pulled), [*inputs, seed]), expected, strict=True):
        assert_close(program, found, value, "gradients after the passes")
    if program.rtol < 1e-6:
        check_direction(program, expected[1:])


def check_direction(program: Program, gradients: tuple[np.ndarray, ...]) -> None:
    generator = np.random.default_rng(program.seed)
    directions = [generator.uniform(-1, 1, np.shape(program.args[i])) for i in program.argnums]
    expected = []
    for step in (1e-6, 1e-7):
        ends = []
        for sign in (1, -1):
            args = list(program.args)
            for i, d in zip(program.argnums, directions, strict=True):
                args[i] = args[i] + sign * step * d
            ends.append(float(program.loss(*args)))
        expected.append((ends[0] - ends[1]) / (2 * step))
    found = float(sum(np.sum(g * d) for g, d in zip(gradients, directions, strict=True)))
    scale = 1 + abs(found) + sum(float(np.sum(np.abs(g))) for g in gradients)
    # Two steps: a kink within one of them (or a domain that ends there) spoils one difference, hardly both.
    assert min(abs(found - e) for e in expected) < 3e-4 * scale, f"{found} is not {expected}: gradient of\n{program}"


@pytest.mark.parametrize("start", range(0, 60, 10))
def test_values(start):
    for seed in range(start, start + 10):
        check_values(random_program(seed))


@pytest.mark.parametrize("start", range(0, 60, 10))
def test_gradients(start):
    for seed in range(start, start + 10):
        check_gradients(random_program(seed))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 4000, 100))
def test_many(start):
    for seed in range(start, start + 100):
        program = random_program(seed)
        check_values(program)
        check_gradients(program)


def test_programs_are_reproducible():
    for seed in range(20):
        first, second = random_program(seed), random_program(seed)
        assert first.source == second.source
        for a, b in zip(first.args, second.args, strict=True):
            np.testing.assert_array_equal(a, b)


def test_programs_are_varied():
    text = "".join(str(random_program(seed)) for seed in range(200))
    for name in (
        "np.sum",
        "@",
        "np.where",
        "[::-1]",
        "astype",
        "np.concatenate",
        "np.maximum",
        "np.einsum",
        ".reshape",
    ):
        assert name in text
