"""Guards: the numbers Python saw while a function was recorded, which a call must have again.

A program computes the guarded values beside its results, and they are compared when it has run. What it does only
because Python decided so may raise for a call in which Python would have decided otherwise: then the guards, alone and
one after the other, say whether the error is the user's. Likewise a loop may not end there, so that guards are looked
at before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.ir.graph import Graph
from tracegrad.ir.interpret import interpret
from tracegrad.passes.dce import dce
from tracegrad.tensor import Tensor
from tracegrad.transforms.record import Recording


def guards_hold(recording: Recording, results: Sequence[Any]) -> bool:
    """Whether the guarded values among a program's results are the numbers that were recorded."""
    guards = recording.guards
    first = len(recording.graph.outputs) - len(guards)
    return all(map(_same, guards, results[first : first + len(guards)]))


def guards_hold_alone(recording: Recording, inputs: Sequence[Any], before_loops: bool = False) -> bool:
    """The same, of the guards alone: by the interpreter, each guard after those before it.

    For inputs at which the program raises an error, or, with `before_loops`, before a program whose loop might not end;
    guards that need a loop themselves are then left to the program. True where a guarded value cannot be computed.
    """
    graph, guards = recording.graph, recording.guards
    plain = [x._value() if isinstance(x, Tensor) else x for x in inputs]
    args = [np.asarray(x).item() if v.type.weak else np.asarray(x) for x, v in zip(plain, graph.inputs, strict=True)]
    for number, var in zip(guards, graph.outputs[len(graph.outputs) - len(guards) :], strict=True):
        alone = dce(Graph(graph.inputs, graph.nodes, (var,), graph.name))
        if before_loops and any(node.bodies for node in alone.nodes):
            continue
        try:
            (value,) = interpret(alone, args)
        except Exception:
            return True
        if not _same(number, value):
            return False
    return True


def may_not_end(recording: Recording) -> bool:
    """Whether the program has guards, and a loop that runs until a condition holds."""
    return bool(recording.guards) and any(node.name == "while" for node in recording.graph.all_nodes())


def _same(number: Any, result: Any) -> bool:
    value = np.asarray(result._array if isinstance(result, Tensor) else result)
    return np.array_equal(value, number, equal_nan=value.dtype.kind in "fc")
