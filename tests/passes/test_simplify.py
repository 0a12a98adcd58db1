"""Every row of simplify: it fires on its cases and not on their counterparts, and changes no bit.

A case is titled with the name of its row; after a comma stands what it shows, "not …" that the row must not fire.
"""

import time
from collections import Counter

import numpy as np
import pytest

from tests.equivalence import assert_equivalent
from tests.golden_cases import GOLDEN, cases
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.identity import equal
from tracegrad.ir.text import parse_graph
from tracegrad.ir.types import Type
from tracegrad.ir.verify import verify
from tracegrad.ops.arithmetic import Add, Mul
from tracegrad.passes.pipeline import optimize
from tracegrad.passes.rewrite import rewrite
from tracegrad.passes.simplify import ROWS, simplify

CASES = cases(GOLDEN / "passes" / "simplify.txt")
BY_ROW = {row.name: [c for c in CASES if c.title.partition(",")[0] == row.name] for row in ROWS}


def refuses(case):
    return case.title.partition(", ")[2].removeprefix("but ").startswith("not ")


def test_rows_have_names_of_their_own_and_equations():
    assert not [name for name, count in Counter(row.name for row in ROWS).items() if count > 1]
    assert all("=" in row.equation for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_fires_alone_and_changes_no_bit(row):
    positive = [case for case in BY_ROW[row.name] if not refuses(case)]
    assert positive, "the row has no case"
    for case in positive:
        before = parse_graph(case.before)
        after, fired = rewrite(before, [row])
        assert fired[row.name] >= 1
        verify(after, row.name)
        assert_equivalent(before, after, zeros="sign of zeros" not in case.title)


@pytest.mark.parametrize("case", [c for c in CASES if refuses(c)], ids=lambda c: c.id)
def test_row_refuses(case):
    (row,) = (row for row in ROWS if row.name == case.title.partition(",")[0])
    before = parse_graph(case.before)
    after, fired = rewrite(before, [row])
    assert after is before and not fired[row.name]


@pytest.mark.parametrize("case", [c for c in CASES if c.title.startswith("no row")], ids=lambda c: c.id)
def test_nothing_fires(case):
    before = parse_graph(case.before)
    assert simplify(before) is before


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_result_is_as_simple_as_it_gets(case):
    once = optimize(parse_graph(case.before))
    assert equal(optimize(once), once)


@pytest.mark.slow
def test_pipeline_is_near_linear_at_a_hundred_thousand_nodes():
    small, large = (_seconds(_chain(size)) for size in (10_000, 100_000))
    assert large < 20 * small


def test_ten_thousand_nodes_pass_the_pipeline_in_seconds():
    assert _seconds(_chain(10_000)) < 3


def _seconds(graph):
    import os

    former = os.environ.pop("TRACEGRAD_VERIFY", None)
    try:
        started = time.process_time()
        optimize(graph)
        return time.process_time() - started
    finally:
        if former is not None:
            os.environ["TRACEGRAD_VERIFY"] = former


def _chain(size):
    x = Var(Type(np.dtype(float), (3,)), "x")
    value, nodes = x, []
    for number in range(size):
        out = Var(value.type)
        nodes.append(Node(Mul if number % 3 else Add, (value, x if number % 2 else value), (out,)))
        value = out
    return Graph((x,), tuple(nodes), (value,))
