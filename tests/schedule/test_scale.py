"""Large graphs: work grows in proportion to the number of nodes, nests stay bounded."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable

import pytest

from tests.schedule.graphs import GraphBuilder
from tracegrad.ir.graph import Graph
from tracegrad.schedule import schedule
from tracegrad.schedule.contract import CHAIN_LIMIT
from tracegrad.schedule.fuse import NEST_LIMIT
from tracegrad.schedule.loops import Expr, Loop, Where
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
