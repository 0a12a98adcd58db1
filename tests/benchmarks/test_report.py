"""The benchmark's judgement: who agrees with whom, who is best, what the table says."""

from __future__ import annotations

import math

import pytest

from benchmarks import measure, table, worker
from benchmarks.measure import Measured
from benchmarks.rows import ROWS

ROW = ROWS["rosen10"]


def measured(peer: str, seconds: float = 1e-5, value: float = 2.0, **changes) -> Measured:
    hello = {"value": value, "abs": [3.0], "weighted": [0.5], "base_kb": 1024, "version": "1"} | changes
    return Measured(peer, hello, [0.1, 0.05], [0.6, 0.7], 0.01, [2 * seconds, seconds, 3 * seconds], 4096)


def test_agreement_names_nobody():
    row = [measured("tracegrad"), measured("jax", value=2.0 * (1 + 1e-12)), measured("torch")]
    assert measure.disagreements(ROW, row) == set()


@pytest.mark.parametrize("change", [{"value": 2.001}, {"value": math.nan}, {"abs": [3.1]}, {"weighted": [0.51]}])
def test_the_odd_one_out_is_named(change):
    row = [measured("tracegrad", **change), measured("jax"), measured("torch")]
    assert measure.disagreements(ROW, row) == {"tracegrad"}


def test_of_two_that_disagree_both_are_named():
    assert measure.disagreements(ROW, [measured("tracegrad"), measured("jax", value=9.0)]) == {"tracegrad", "jax"}


def test_wrong_answers_never_count_as_best():
    row = [measured("tracegrad", 1e-6), measured("jax", 1e-7, value=9.0), measured("torch", 4e-6), measured("autograd")]
    wrong = measure.disagreements(ROW, row)
    assert wrong == {"jax"}
    assert table.best_peer(row, wrong).peer == "torch"
    assert table.ratio_to_best(row, wrong) == pytest.approx(0.25)
    assert "WRONG 0.10" in table.render({"rosen10": row}, {"rosen10": wrong}, "here")


def test_no_ratio_when_ours_is_wrong_or_missing():
    row = [measured("tracegrad", value=9.0), measured("jax"), measured("torch")]
    assert table.ratio_to_best(row, measure.disagreements(ROW, row)) is None
    assert table.ratio_to_best(row[1:], set()) is None


def test_failures_are_told():
    broken = Measured("torch", failure="ValueError: no")
    text = table.render({"rosen10": [measured("tracegrad"), measured("jax"), broken]}, {"rosen10": set()}, "here")
    assert "`rosen10`, torch eager: no result: ValueError: no" in text
    assert "| 10.0 (20.0) | 10.0 (20.0) | – | JAX jit | **1.00** | ≤ 0.14 ✗ |" in text
    assert "0.050 (0.60)" in text and "4 (3)" in text


def test_worker_checksums_see_order():
    a, b = worker.checksums((1.0, [[1.0, 2.0]])), worker.checksums((1.0, [[2.0, 1.0]]))
    assert a["abs"] == b["abs"] == [3.0] and a["weighted"] != b["weighted"]


def test_unknown_peers_are_refused():
    with pytest.raises(ValueError, match="no such peer: nobody"):
        measure.known_peers("jax,nobody", torch_compile=True)
    assert [p.name for p in measure.known_peers("torchc,jax", torch_compile=False)] == ["jax"]
