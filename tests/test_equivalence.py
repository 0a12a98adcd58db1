"""Random programs run in every way: eager = interpreter = compiled, values and gradients, and gradients = differences.

Programs are compiled in packs, several in one graph with the results and gradients of all, since a pack of small
programs compiles faster than each of them alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.random_programs import Program, assert_close, random_program
from tracegrad.autograd import grad
from tracegrad.autograd.node import type_of
from tracegrad.ir.graph import Graph
from tracegrad.passes.adjoint import adjoint
from tracegrad.state import setting
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace
from tracegrad.transforms.program import Program as Executable


@dataclass(frozen=True)
class Case:
    """A program, its results by NumPy, and a cotangent for each of those that are floating."""

    program: Program
    results: tuple[np.ndarray, ...]
    cotangents: tuple[np.ndarray, ...]

    @property
    def floating(self) -> list[int]:
        """The results that can be differentiated."""
        return [i for i, r in enumerate(self.results) if r.dtype.kind == "f"]

    @property
    def wrt(self) -> list[int]:
        """The arguments a gradient is taken in: the float arrays."""
        return [i for i in self.program.argnums if isinstance(self.program.args[i], np.ndarray)]


def case(seed: int, length: int | None) -> Case:
    program = random_program(seed, length)
    results = tuple(map(np.asarray, program.function(*program.args)))
    generator = np.random.default_rng(seed)
    floating = [r for r in results if r.dtype.kind == "f"]
    return Case(
        program, results, tuple(np.asarray(generator.uniform(-1, 1, r.shape)).astype(r.dtype) for r in floating)
    )


class JitProgram:
    """A random program whose function is compiled."""

    def __init__(self, program: Program):
        self.args, self.argnums, self.function = program.args, program.argnums, tg.jit(program.function)


def by_eager(case: Case) -> tuple[list[Any], list[Any]]:
    """Results and gradients by eager Tensors."""
    args = [Tensor._wrap(a) if isinstance(a, np.ndarray) else a for a in case.program.args]
    for i in case.wrt:
        args[i] = Tensor._wrap(case.program.args[i].copy())
        args[i].requires_grad = True
    results = case.program.function(*args)
    pairs = [(results[i], c) for i, c in zip(case.floating, case.cotangents, strict=True)]
    linked = [(r, Tensor._wrap(c)) for r, c in pairs if isinstance(r, Tensor) and r.requires_grad]
    wanted = [args[i] for i in case.wrt]
    return [plain(r) for r in results], [plain(g) for g in _grad(linked, wanted)]


def _grad(linked: Sequence[tuple[Tensor, Tensor]], wanted: list[Tensor]) -> list[Any]:
    if not linked or not wanted:
        return [np.zeros(w.shape, w.dtype) for w in wanted]
    outputs, cotangents = zip(*linked, strict=True)
    return list(grad(outputs, wanted, cotangents, allow_unused=True, materialize_grads=True))


def plain(x: Any) -> np.ndarray:
    return x._array if isinstance(x, Tensor) else np.asarray(x)


def packed(cases: Sequence[Case]) -> tuple[Graph, list[Any]]:
    """One graph with the results of all programs, and then their gradients; and its inputs."""
    trace = Trace("programs")
    inputs: list[Any] = []
    outputs, wrt, seeds, cotangents = [], [], [], []
    with setting(trace=trace):
        for one in cases:
            args = [trace.add_input(type_of(a), f"x{len(inputs) + i}", a) for i, a in enumerate(one.program.args)]
            wrt += [len(inputs) + i for i in one.wrt]
            inputs += one.program.args
            seeds += [len(outputs) + i for i in one.floating]
            cotangents += one.cotangents
            outputs += [trace.lift(r) for r in one.program.function(*args)]
    graph, captured = trace.finish(tuple(outputs))
    joint, _ = adjoint(graph, wrt, seeds)
    return joint, [*inputs, *map(plain, captured), *cotangents]


def check_pack(cases: Sequence[Case]) -> None:
    graph, inputs = packed(cases)
    executable = Executable(graph)
    interpreted, compiled = executable.interpret(*inputs), executable(*inputs)
    first, first_gradient = 0, sum(len(one.results) for one in cases)
    for one in cases:
        results = slice(first, first + len(one.results))
        gradients = slice(first_gradient, first_gradient + len(one.wrt))
        first, first_gradient = results.stop, gradients.stop
        eager, eager_gradients = by_eager(one)
        for what, found in (("eager", eager), ("interpreted", interpreted[results]), ("compiled", compiled[results])):
            compare(one, what, found, one.results)
        compare(one, "gradients, eager", eager_gradients, interpreted[gradients])
        compare(one, "gradients, compiled", compiled[gradients], interpreted[gradients])
        if one.program.rtol < 1e-6:
            check_direction(one, interpreted[gradients])


def compare(one: Case, what: str, found: Sequence[Any], expected: Sequence[Any]) -> None:
    for position, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert_close(one.program, a, b, f"{what}, {position},")


def check_direction(one: Case, gradients: Sequence[np.ndarray]) -> None:
    """The gradients against central differences along a random direction."""
    generator = np.random.default_rng(one.program.seed)
    directions = [generator.uniform(-1, 1, one.program.args[i].shape) for i in one.wrt]

    def loss(step: float) -> float:
        args = list(one.program.args)
        for i, d in zip(one.wrt, directions, strict=True):
            args[i] = args[i] + step * d
        results = one.program.function(*args)
        return float(sum(np.sum(results[i] * c) for i, c in zip(one.floating, one.cotangents, strict=True)))

    # Two steps: a kink within one of them spoils one difference, hardly both.
    expected = [(loss(h) - loss(-h)) / (2 * h) for h in (1e-6, 1e-7)]
    found = float(sum(np.sum(g * d) for g, d in zip(gradients, directions, strict=True)))
    scale = 1 + abs(found) + sum(float(np.sum(np.abs(g))) for g in gradients)
    error = min(abs(found - e) for e in expected)
    assert error < 3e-4 * scale, f"{found} is not {expected}: gradient of\n{one.program}"


def check(seeds: Sequence[int], length: int | None = None) -> None:
    """All programs of these numbers; a failure that does not say so itself names the one that raises it alone."""
    cases = [case(seed, length) for seed in seeds]
    try:
        check_pack(cases)
    except AssertionError:
        raise
    except Exception as error:
        error.add_note(blamed(cases, check_pack))
        raise


def check_transforms(program: Program) -> None:
    """What a user calls: jit, value_and_grad, backward through jit, and all of it under `tg.eager()`."""
    one = case(program.seed, None)
    tensors, gradients = by_eager(one)
    f, loss = tg.jit(program.function), tg.value_and_grad(program.loss, program.argnums, allow_unused=True)
    for _ in range(2):
        compare(one, "jit", f(*program.args), one.results)
    value, found = loss(*program.args)
    assert_close(program, value, program.loss(*program.args), "value_and_grad")
    with tg.eager():
        compare(one, "jit in eager mode", f(*program.args), one.results)
        _, expected = loss(*program.args)
    compare(one, "value_and_grad against eager mode", found, expected)
    results, linked = by_eager(Case(JitProgram(program), one.results, one.cotangents))
    compare(one, "jit of Tensors", results, tensors)
    compare(one, "backward through jit", linked, gradients)


def blamed(cases: Sequence[Case], function: Callable[[Sequence[Case]], None]) -> str:
    for one in cases:
        try:
            function([one])
        except Exception:
            return f"raised by\n{one.program}"
    return f"raised by the pack of {[one.program.seed for one in cases]} only"


@pytest.mark.parametrize("start", range(0, 450, 30))
def test_short_programs(start: int) -> None:
    check(range(start, start + 30), length=3)


@pytest.mark.parametrize("start", range(1000, 1050, 10))
def test_programs(start: int) -> None:
    check(range(start, start + 10))


@pytest.mark.parametrize("seed", range(2000, 2008))
def test_transforms(seed: int) -> None:
    check_transforms(random_program(seed))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(10_000, 30_000, 20))
def test_many_programs(start: int) -> None:
    check(range(start, start + 20))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(3000, 3500, 10))
def test_many_transforms(start: int) -> None:
    for seed in range(start, start + 10):
        check_transforms(random_program(seed))
