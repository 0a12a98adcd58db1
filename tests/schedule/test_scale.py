"""Large graphs: work grows in proportion to the number of nodes, nests stay bounded."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable

import numpy as np
import pytest

from tests.schedule.graphs import GraphBuilder, scheduled
from tracegrad.ir.graph import Graph
from tracegrad.ir.interpret import interpret
from tracegrad.schedule import schedule
from tracegrad.schedule.contract import CHAIN_LIMIT
from tracegrad.schedule.evaluate import evaluate
from tracegrad.schedule.fuse import NEST_LIMIT
from tracegrad.schedule.loops import Apply, Expr, Loop, Where
from tracegrad.schedule.rewrite import expressions, walk


def chain(nodes: int) -> Graph:
    f = GraphBuilder()
    x, p = f.input((1000,)), f.input(())
    former, latter = x, x
    while len(f.nodes) < nodes:
        former, latter = latter, f("add", f("multiply", latter, p), former)
    return f.graph(latter, f.sum(latter))


def stencils(nodes: int) -> Graph:
    f = GraphBuilder()
    x = f.input((100,))
    while len(f.nodes) < nodes:
        left = f("slice", x, start=(0,), size=(98,), step=(1,))
        right = f("slice", x, start=(2,), size=(98,), step=(1,))
        x = f("unslice", f("add", left, right), shape=(100,), start=(1,), step=(1,), fill=0)
    return f.graph(x)


def matrix_vector_products(nodes: int) -> Graph:
    f = GraphBuilder()
    a, v = f.input((50, 50)), f.input((50,))
    while len(f.nodes) < nodes:
        v = f("add", v, f("tanh", f("matmul", a, v)))
    return f.graph(v)


def scalars(nodes: int) -> Graph:
    f = GraphBuilder()
    x = f.input(())
    former, latter = x, x
    while len(f.nodes) < nodes:
        former, latter = latter, f("add", f("multiply", latter, former), former)
    return f.graph(latter)


def function_calls(graph: Graph) -> int:
    """A measure of work that does not depend on how busy the machine is."""
    profile = cProfile.Profile()
    profile.runcall(schedule, graph)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize("make", [chain, stencils, matrix_vector_products, scalars])
def test_work_is_proportional_to_nodes(make: Callable[[int], Graph]) -> None:
    small, large = function_calls(make(250)), function_calls(make(1000))
    assert large < 5 * small
    assert large < 1000 * 1200


def test_nests_are_split_and_long_chains_do_not_recurse() -> None:
    program = schedule(chain(3 * NEST_LIMIT))
    loops = [s for s in program.body if isinstance(s, Loop)]
    assert len(loops) >= 3
    assert all(len(list(walk((s,)))) < 2 * NEST_LIMIT + CHAIN_LIMIT for s in loops)


def test_one_of_many_joined_arrays_is_found_by_bisection():
    f = GraphBuilder()
    program = schedule(f.graph(f("concatenate", *(f("sin", f.input((1,))) for _ in range(300)), axis=0)))

    def depth(e: Expr) -> int:
        return 1 + max(depth(e.inside), depth(e.outside)) if isinstance(e, Where) else 0

    assert 8 <= max(depth(e) for s in walk(program.body) for e in expressions(s)) < 20


def overlapping_writes(nodes: int) -> Graph:
    f = GraphBuilder()
    x = f.input((40,))
    while len(f.nodes) < nodes:
        start = len(f.nodes) % 7 + 1
        part = f("slice", x, start=(start,), size=(40 - start,), step=(1,))
        x = f("slice_update", x, f("multiply", part, part), start=(start,), step=(1,))
        x = f("slice_update", x, f("slice", x, start=(9,), size=(1,), step=(1,)), start=(start - 1,), step=(1,))
    return f.graph(f.sum(x))


def joined_to_itself(nodes: int) -> Graph:
    f = GraphBuilder()
    x = f.input((40,))
    while len(f.nodes) < nodes:
        count = len(f.nodes) % 7 + 1
        last = f("slice", x, start=(40 - count,), size=(count,), step=(1,))
        x = f("concatenate", last, f("slice", x, start=(0,), size=(40 - count,), step=(1,)), axis=0)
    return f.graph(f.sum(x))


def chosen_among_shifts(nodes: int) -> Graph:
    f = GraphBuilder()
    x = f.input((40,))
    while len(f.nodes) < nodes:
        left = f("slice", x, start=(0,), size=(38,), step=(1,))
        right = f("slice", x, start=(2,), size=(38,), step=(1,))
        larger = f("where", f("greater", left, right), left, right)
        x = f("slice_update", x, larger, start=(1,), step=(1,))
    return f.graph(f.sum(x))


def first_elements(nodes: int) -> Graph:
    f = GraphBuilder()
    x = f.input((40,))
    while len(f.nodes) < nodes:
        first = f("sin", f("slice", x, start=(0,), size=(1,), step=(1,)))
        x = f("slice_update", x, f("sin", first), start=(1 + len(f.nodes) % 30,), step=(1,))
    return f.graph(f.sum(f("slice", x, start=(0,), size=(1,), step=(1,))), f.sum(x))


def size(expr: Expr) -> int:
    if isinstance(expr, Apply):
        return 1 + sum(map(size, expr.args))
    if isinstance(expr, Where):
        return 1 + size(expr.inside) + size(expr.outside)
    return 1


@pytest.mark.parametrize("make", [overlapping_writes, joined_to_itself, chosen_among_shifts, first_elements])
def test_values_read_at_two_places_over_and_over_are_stored(make: Callable[[int], Graph]) -> None:
    def total(nodes: int) -> int:
        return sum(size(e) for s in walk(schedule(make(nodes)).body) for e in expressions(s))

    small, large = total(300), total(1200)
    assert large < 6 * small
    assert large < 1200 * 400
    assert function_calls(make(1200)) < 6 * function_calls(make(300))


@pytest.mark.parametrize("make", [overlapping_writes, joined_to_itself, chosen_among_shifts, first_elements])
def test_stored_values_are_right(make: Callable[[int], Graph]) -> None:
    graph = make(150)
    x = np.random.default_rng(0).uniform(-1, 1, 40)
    for found, wanted in zip(evaluate(scheduled(graph), [x]), interpret(graph, [x]), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
