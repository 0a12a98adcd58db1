"""The pipeline of passes, and the one wrapper that runs each: it times, verifies and dumps."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tracegrad.ir.graph import Graph
from tracegrad.ir.text import print_graph
from tracegrad.ir.verify import verify
from tracegrad.passes.bodies import everywhere, with_loops
from tracegrad.passes.cse import cse
from tracegrad.passes.dce import dce
from tracegrad.passes.fold import fold
from tracegrad.passes.simplify import simplify
from tracegrad.trace.custom import inline_calls

Pass: TypeAlias = Callable[[Graph], Graph]

PIPELINE: tuple[Pass, ...] = (
    inline_calls,
    dce,
    everywhere(cse),
    everywhere(fold),
    everywhere(simplify),
    with_loops("specialise"),
    everywhere(cse),
    with_loops("loop_sums"),
    with_loops("increments"),
    everywhere(simplify),
    everywhere(cse),
    dce,
)


def optimize(graph: Graph, passes: Sequence[Pass] = PIPELINE, timings: dict[str, float] | None = None) -> Graph:
    """The graph after all `passes`, in order. `timings` receives the seconds each took, summed by name.

    TRACEGRAD_VERIFY=1 verifies the graph before the first and after every pass (VerificationError names the pass).
    TRACEGRAD_DUMP=folder writes the graph there after every pass that changed it; `-` prints on the error stream.
    """
    target = os.environ.get("TRACEGRAD_DUMP", "")
    checked = os.environ.get("TRACEGRAD_VERIFY", "") not in ("", "0")
    if checked:
        verify(graph)
    if target:
        _dump(graph, 0, "traced", target)
    returned: dict[str, Graph] = {}
    for number, function in enumerate(passes, 1):
        started = time.perf_counter()
        name = function.__name__
        if returned.get(name) is graph:
            continue  # nothing has changed since this pass ran
        former, graph = graph, function(graph)
        returned[name] = graph
        if timings is not None:
            timings[name] = timings.get(name, 0.0) + time.perf_counter() - started
        if checked and graph is not former:
            verify(graph, name)
        if target and graph is not former:
            _dump(graph, number, name, target)
    return graph


def _dump(graph: Graph, number: int, name: str, target: str) -> None:
    title = f"{graph.name}.{number:02}.{name}"
    if target == "-":
        print(f"# {title}\n{print_graph(graph)}", file=sys.stderr)
        return
    os.makedirs(target, exist_ok=True)
    with open(os.path.join(target, re.sub(r"[^\w.-]", "_", title) + ".txt"), "w") as file:
        file.write(print_graph(graph))
