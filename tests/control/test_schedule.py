"""Scheduled loops and branches: the slow evaluator gives what the interpreter gives; the verifier finds no fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.control.programs import ARGUMENTS, PROGRAMS
from tests.tracing import trace, value_and_gradients
from tracegrad.ir.interpret import interpret
from tracegrad.passes.pipeline import optimize
from tracegrad.schedule import schedule_with_report
from tracegrad.schedule.evaluate import evaluate
from tracegrad.schedule.verify import verify


@pytest.mark.parametrize("optimized", [False, True], ids=["plain", "optimized"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_evaluator(function: Callable[..., Any], optimized: bool):
    graph, args = trace(function, ARGUMENTS)
    joint = value_and_gradients(graph, [0, 1])
    if optimized:
        joint = optimize(joint)
    program, report = schedule_with_report(joint)
    verify(program)
    assert report
    inputs = [*args, np.array(1.0)]
    for found, expected in zip(evaluate(program, inputs), interpret(joint, inputs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
