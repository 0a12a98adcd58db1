"""Each pass on its golden cases: the text after it, and the same bits before and after on special values."""

import pytest

from tests.equivalence import assert_equivalent
from tests.golden_cases import GOLDEN, cases, check
from tracegrad.ir.identity import equal
from tracegrad.ir.text import parse_graph, print_graph
from tracegrad.ir.verify import verify
from tracegrad.passes.cse import cse
from tracegrad.passes.dce import dce
from tracegrad.passes.fold import fold
from tracegrad.passes.simplify import simplify

PASSES = {function.__name__: function for function in (dce, cse, fold, simplify)}
CASES = [case for path in sorted((GOLDEN / "passes").glob("*.txt")) for case in cases(path)]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_case(case):
    before = parse_graph(case.before)
    verify(before)
    after = PASSES[case.path.stem](before)
    verify(after, case.path.stem)
    check(case, print_graph(after))
    assert_equivalent(before, after, zeros="sign of zeros" not in case.title)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_texts_are_fixed_points(case):
    for text in (case.before, case.after):
        graph = parse_graph(text)
        assert equal(parse_graph(print_graph(graph)), graph)
        assert print_graph(parse_graph(print_graph(graph))) == print_graph(graph)


def test_every_pass_has_cases():
    assert {case.path.stem for case in CASES} == set(PASSES)
