"""Numbers that could be those of the symbolic values of a body: its first step's, as far as they are known.

Only users' code that has to run while it is recorded sees them, so that the types of its results are learnt; a Python
decision on a symbolic value stays an error.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.ir.graph import Var
from tracegrad.ir.interpret import concrete, run_node
from tracegrad.ir.sizes import values_now
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace

_of_inputs: weakref.WeakKeyDictionary[Trace, dict[Var, Any]] = weakref.WeakKeyDictionary()


class First:
    """The first element of an outer value, which is what the first step gets."""

    __slots__ = ("outer",)

    def __init__(self, outer: Any):
        self.outer = outer


def note_examples(body: Trace, inputs: Sequence[Var], outer: Sequence[Any]) -> None:
    """The inputs of a body start as these values from outside (Tensors, arrays, numbers, First of one)."""
    _of_inputs[body] = dict(zip(inputs, outer, strict=False))


def note_results(trace: Trace, outputs: Sequence[Tensor], arrays: Sequence[np.ndarray]) -> None:
    """What users' code has just returned: the values' numbers, or where they are symbolic, their examples."""
    known = _of_inputs.get(trace)
    target = trace.values if known is None else known
    target.update((out._var, array) for out, array in zip(outputs, arrays, strict=True))


def has_examples(trace: Trace) -> bool:
    """Whether the numbers of a trace are only what they could be."""
    return trace in _of_inputs


def example(trace: Trace, var: Var) -> np.ndarray:
    """The numbers of `var` in this run, or in a body what they could be."""
    return np.asarray(_value(trace, var))


def _value(trace: Trace, var: Var) -> Any:
    known = _of_inputs.get(trace)
    if known is None:
        return trace.value(var)
    stack = [var]
    while stack:
        wanted = stack[-1]
        if wanted in known and not isinstance(known[wanted], Tensor | First):
            stack.pop()
            continue
        node = trace.definitions.get(wanted)
        missing = [] if node is None else [v for v in node.inputs if isinstance(known.get(v), Tensor | First | None)]
        if missing:
            stack.extend(missing)
        elif node is None or wanted in known:
            known[wanted] = _source(trace, wanted, known.get(wanted))
        else:
            results = run_node(node, [known[v] for v in node.inputs], values_now())
            known.update(zip(node.outputs, results, strict=True))
    return known[var]


def _source(trace: Trace, var: Var, outer: Any) -> Any:
    """The example of an input or captured value."""
    if outer is None:
        outer = trace.sources.get(var, trace.values.get(var))
    first = isinstance(outer, First)
    if isinstance(outer, First):
        outer = outer.outer
    if isinstance(outer, Tensor):
        outer = outer._array if outer._array is not None else _value(outer._trace, outer._var)
    array = np.asarray(outer) if outer is not None else np.ones(())
    if first:
        array = array[0] if len(array) else np.ones(())
    array = np.broadcast_to(array, concrete(var.type.shape, values_now())).astype(var.type.dtype)
    return array.item() if var.type.weak else array
