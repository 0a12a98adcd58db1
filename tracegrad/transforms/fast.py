"""The short way of a repeated call: a generated function that checks as little as is safe and calls native code.

It serves calls whose positional arguments are arrays, floats and static values and whose results are arrays; the
native caller itself checks dtype, shape and layout of each array. Whatever it cannot serve it hands back as MISS.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad.emit.wrapper import Refused
from tracegrad.state import state
from tracegrad.transforms.compiled import MISS
from tracegrad.transforms.program import Program
from tracegrad.transforms.signature import Call
from tracegrad.transforms.sizes import Conditions

if TYPE_CHECKING:
    from tracegrad.transforms.entry import Entry


def fast_path(entry: Entry, call: Call) -> types.FunctionType | None:
    """A function of the positional arguments that returns the result or MISS; None where the call is too involved."""
    args_spec, kwargs_spec = call.spec.children()
    simple = all(child.is_leaf() for child in args_spec.children()) and not kwargs_spec.num_leaves
    recording = entry.recording
    if not simple or call.tensors or state.steps is not None or not isinstance(entry.program, Program):
        return None
    if recording.guards or not recording.effects.none or not entry.program.graph.outputs:
        return None
    if any(not isinstance(c, np.ndarray) for c in entry.recording.captured):
        return None
    scope: dict[str, Any] = {
        "MISS": MISS,
        "Refused": Refused,
        "state": state,
        "call": entry.program.executable.call,
        "asarray": np.asarray,
        "holds": entry.environment.holds,
        "entry": entry,
        "ndarray": np.ndarray,
        "floordiv": operator.floordiv,
    }
    names, tests, inputs = [], ["state.trace is None", "not state.eager", "state.steps is None"], []
    for position, leaf in enumerate(call.leaves):
        name = f"a{position}"
        names.append(name)
        if position not in entry.dynamic:
            scope |= {f"t{position}": type(leaf), f"s{position}": leaf}
            same = "is" if not isinstance(leaf, (int, str, tuple)) else "=="
            tests.append(f"type({name}) is t{position} and {name} {same} s{position}")
        elif isinstance(leaf, (float, complex)):
            scope[f"t{position}"] = type(leaf)
            tests.append(f"type({name}) is t{position}")
            inputs.append(f"asarray({name})")
        elif isinstance(leaf, np.ndarray):
            inputs.append(name)
        else:
            return None
    for position, captured in enumerate(entry.recording.captured):
        scope[f"c{position}"] = captured
        inputs.append(f"c{position}")
    result = _result_expression(entry)
    if result is None:
        return None
    if entry.sizes is not None:
        tests += size_tests(entry.sizes, entry.dynamic)
    if not entry.environment.always:
        tests.append("holds()")
    outputs = ", ".join(f"r{i}" for i in range(len(entry.program.graph.outputs)))
    source = (
        f"def fast({', '.join(names)}):\n"
        f"    if not ({' and '.join(tests)}):\n"
        f"        return MISS\n"
        f"    try:\n"
        f"        {outputs}, = call({', '.join(inputs)})\n"
        f"    except Refused:\n"
        f"        return MISS\n"
        f"    entry.calls += 1\n"
        f"    return {result}\n"
    )
    exec(source, scope)
    return scope["fast"]


def size_tests(sizes: Conditions, dynamic: Sequence[int]) -> list[str]:
    """What native code does not test of the sizes: how large symbols are, and what the recording decided on them."""

    def name_of(i: int) -> str:
        return f"a{dynamic[i]}" if i < len(dynamic) else f"c{i - len(dynamic)}"

    tests = [
        f"type({name_of(i)}) is ndarray and {name_of(i)}.ndim == {len(sizes.pattern[i])}"
        for i in {i for i, _, _ in sizes.where.values()}
    ]
    return tests + sizes.expressions(name_of)


def _result_expression(entry: Entry) -> str | None:
    """Python source that builds the result from r0, r1, …; None where it has containers or values Python made."""
    types = [v.type for v in entry.program.graph.outputs]
    values = [f"r{i}" if t.shape else f"r{i}[()]" for i, t in enumerate(types)]
    output = entry.recording.output
    if any(p is None for p in output.leaves):
        return None
    if output.spec.is_leaf():
        result = values[output.leaves[0]]  # type: ignore[index]
    elif output.spec.type is tuple and all(c.is_leaf() for c in output.spec.children()):
        result = f"({', '.join(values[p] for p in output.leaves)},)"  # type: ignore[index]
    else:
        return None
    if entry.gradient is None:
        return result
    from tracegrad.transforms.gradient import GradientOutput

    gradient = entry.gradient
    if not isinstance(gradient, GradientOutput) or gradient.has_aux:
        return None
    if not all(spec.is_leaf() for spec in gradient.specs):
        return None
    grads = values[len(values) - len(gradient.specs) :]
    packed = grads[0] if gradient.single else f"({', '.join(grads)},)"
    return f"({result}, {packed})" if gradient.with_value else packed
