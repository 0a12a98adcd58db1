"""Entries of a compiled function: recordings with their programs, and which calls each of them serves."""

from __future__ import annotations

import copy
import types
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad.ir.graph import Graph
from tracegrad.ir.identity import equal
from tracegrad.tensor import Tensor
from tracegrad.trace.arithmetic import calculates, reads_sizes
from tracegrad.trace.environment import Environment
from tracegrad.trace.leaf_gradients import resolved
from tracegrad.transforms.autograd import GraphFunction
from tracegrad.transforms.effects import SpentHistory
from tracegrad.transforms.guards import guards_hold, guards_hold_alone, may_not_end
from tracegrad.transforms.program import run_results
from tracegrad.transforms.record import Recording
from tracegrad.transforms.signature import Call
from tracegrad.transforms.sizes import Conditions

if TYPE_CHECKING:
    from tracegrad.transforms.gradient import GradientOutput

MAX_PROGRAMS_PER_SIGNATURE = 16


class Entry:
    """A compiled recording: the program, where its inputs come from, how its results go back to the user."""

    def __init__(
        self,
        call: Call,
        recording: Recording,
        program: Any,
        gradient: GradientOutput | None,
        function: Callable[..., Any],
    ):
        self.key, self.dynamic = call.key, tuple(call.dynamic)
        self.recording, self.program, self.gradient = replace(recording, before=None, lookups=()), program, gradient
        # Kept alive, since keys hold the ids of what cannot be hashed.
        self.static = [leaf for i, leaf in enumerate(call.leaves) if i not in set(call.dynamic)]
        # What the recording found outside its arguments. Taken after it: side effects happen while recording only.
        self.environment = Environment(function, self.static, lookups=recording.lookups)
        self.settled = recording.before is None or not self.environment.lost_arrays_of(recording.before)
        running = code_run_in_python(recording.graph, program.graph)
        if running:
            self.environment = Environment(function, self.static, running, recording.lookups)
        self.exchangeable = only_calculates(recording, self.environment, self.static)
        if not self.exchangeable and depends_on_contents(recording, self.environment):
            self.environment.watch_contents()
        else:
            self.environment.watch_kinds(recording.captured)
        self.may_not_end = may_not_end(recording)
        self.calls = 0
        self.sizes: Conditions | None = None  # for a recording with symbolic sizes, what they must be
        self.resizable = call.captured if call.pattern else ()  # the arrays from outside whose sizes are among these
        self.shapes = call.shapes(self.arrays_outside())
        self.fast: types.FunctionType | None = None

    def holds(self, call: Call) -> bool:
        """Whether the sizes are those it serves, and everything outside the arguments is as the recording found it."""
        effects = self.recording.effects
        return self.environment.holds() and self._fits(call) and (effects.none or effects.hold(call.leaves))

    def _fits(self, call: Call) -> bool:
        """Whether arguments, and arrays from outside, have shapes that the program is for."""
        if self.sizes is not None and not self.sizes.holds(call.shapes(self.resizable)):
            return False
        captured, inputs = self.recording.captured, self.recording.graph.inputs
        outside = inputs[len(inputs) - len(captured) :]  # the last ones; tangents, for one, are no inputs here
        arrays = [(c, v.type.shape) for c, v in zip(captured, outside, strict=True) if isinstance(c, np.ndarray)]
        return bool(self.resizable) or all(c.shape == shape for c, shape in arrays)

    def run(self, call: Call) -> tuple[bool, Any]:
        """(whether the guards held, the result)."""
        recording, effects, leaves = self.recording, self.recording.effects, call.leaves
        inputs = recording.inputs(leaves, self.dynamic)
        if effects.effects:
            effects.check_apart(leaves, inputs, len(self.dynamic), recording.differentiated)
            if isinstance(self.program, GraphFunction):
                inputs = effects.apart_from_writes(inputs, leaves)
        if self.may_not_end and not guards_hold_alone(recording, inputs, before_loops=True):
            return False, None
        program = self.program
        try:
            results: Sequence[Any] = program(inputs) if isinstance(program, GraphFunction) else program(*inputs)
        except Exception:
            if recording.guards and not guards_hold_alone(recording, inputs):
                return False, None
            raise
        if recording.guards and not guards_hold(recording, results):
            return False, None
        self.calls += 1
        if effects.effects:
            effects.carry_out(results, leaves)
        return True, self._build(results, call.tensors or self._reads_tensors(), leaves)

    def _reads_tensors(self) -> bool:
        """Whether Tensors come out though none was passed: where captured ones require a gradient, and where there are
        some and no array was passed."""
        alone = not self.dynamic and self.gradient is None
        return any(isinstance(c, Tensor) and (alone or c.requires_grad) for c in self.recording.captured)

    def exchanged(self, call: Call) -> Entry | None:
        """The same for other arrays that have taken the place of captured ones; None where anything else changed."""
        effects = self.recording.effects
        found = self.environment.exchanged(bool(self.resizable)) if self.exchangeable else None
        if found is None or not (effects.none or effects.hold(call.leaves)):
            return None
        entry = copy.copy(self)
        entry.environment, arrays = found
        entry.resizable = tuple(arrays.get(id(c), c) for c in self.resizable)
        captured = tuple(arrays.get(id(c), c) for c in self.recording.captured)
        entry.recording = replace(self.recording, captured=captured)
        if not entry._fits(call):
            return None
        if self.fast is not None:
            scope = {**self.fast.__globals__, "entry": entry, "holds": entry.environment.holds}
            scope |= {f"c{position}": c for position, c in enumerate(captured)}
            entry.fast = types.FunctionType(self.fast.__code__, scope)
        return entry

    def arrays_outside(self) -> tuple[Any, ...]:
        """The captured arrays, if their sizes are free to change: code only calculates and asks for none. Else none."""
        captured = self.recording.captured
        free = self.exchangeable and all(isinstance(c, np.ndarray) for c in captured)
        return captured if free and not reads_sizes(self.environment) else ()

    def resized(self) -> tuple[Any, ...]:
        """Arrays of other sizes that have taken the place of the captured ones, all of them; none where anything else
        changed."""
        captured = self.arrays_outside()
        found = self.environment.exchanged(resized=True) if captured else None
        return () if found is None else tuple(found[1].get(id(c), c) for c in captured)

    def share_program(self, others: Sequence[Entry]) -> bool:
        """Take the program of one of `others` that was recorded alike, with other arrays; whether one was."""
        program = self.program
        for other in others:
            if type(other.program) is type(program) and equal(other.program.graph, program.graph):
                self.program = other.program
                return True
        return False

    def _build(self, results: Sequence[Any], tensors: bool, leaves: Sequence[Any]) -> Any:
        if isinstance(self.program, GraphFunction):
            values: list[Any] = list(results)
            for position in self.recording.effects.plain:
                values[position] = values[position].detach()
        elif tensors:
            values = [Tensor._wrap(r) for r in results]
            for position in self.recording.effects.spent:
                out = values[position]
                out._requires_grad, out._grad_fn = True, SpentHistory(out)
        else:
            values = run_results(results)
        if not tensors:
            values = [run_results([v._array])[0] if isinstance(v, Tensor) else v for v in values]
        if self.gradient is None:
            for position, leaf in self.recording.effects.returned if tensors else ():
                values[position] = resolved(leaf, leaves)
            return self.recording.output.build(values)
        return self.gradient.build(self.recording.output, values)


def only_calculates(recording: Recording, environment: Environment, static: Sequence[Any]) -> bool:
    """Whether the recording would be the same whatever numbers the arrays from outside have: see `trace.arithmetic`."""
    if recording.guards or recording.effects.effects or recording.effects.frozen or None in recording.output.leaves:
        return False
    if any(isinstance(c, np.ndarray) and id(c) not in environment.arrays for c in recording.captured):
        return False
    if any(n.name == "constant" and not n.attrs["weak"] for n in recording.graph.all_nodes()):
        return False
    return calculates(environment, static)


def code_run_in_python(graph: Graph, whole: Graph) -> set[types.CodeType]:
    """The code of users' Functions that the program runs in Python in each call, and holds nowhere recorded.

    `graph` is the recording's and `whole` what the program computes, with the adjoint if it has one.
    """
    nodes = list(graph.all_nodes())
    forwards = Counter(n.attrs["function"].function for n in nodes if n.name == "host_call")
    backwards = Counter(n.attrs["function"].record.function for n in whole.all_nodes() if n.name == "host_backward")
    recorded = {n.attrs["record"].function for n in nodes if n.name == "call"}
    left = {f for f in forwards if f not in recorded}
    run = [f.forward for f in left] + [f.backward for f in left if backwards[f] >= forwards[f]]
    return {f.__code__ for f in run if isinstance(f, types.FunctionType)}


def depends_on_contents(recording: Recording, environment: Environment) -> bool:
    """Whether numbers of watched arrays may have gone into the recording: it holds constants that NumPy computed, or
    its code took decisions or made Python numbers."""
    if not environment.arrays:
        return False
    small = sum(a.size for a in environment.arrays.values()) <= 10_000
    constants = (n for n in recording.graph.all_nodes() if n.name == "constant")
    return small or environment.may_decide() or any(not n.attrs["weak"] for n in constants)


def has_masks(graph: Graph) -> bool:
    """Whether how many elements a mask selects is a number of the recording."""
    return any(node.name == "nonzero" for node in graph.all_nodes())


def has_room(entries: Sequence[Entry]) -> bool:
    """Whether there may be another program."""
    return len({id(e.program) for e in entries}) < MAX_PROGRAMS_PER_SIGNATURE


def add(entry: Entry, entries: list[Entry]) -> None:
    """Put `entry` first. Where they get too many, the last of those goes whose program another entry has too."""
    entries.insert(0, entry)
    if len(entries) > MAX_PROGRAMS_PER_SIGNATURE:
        programs = [id(e.program) for e in entries]
        last = max((i for i, p in enumerate(programs) if programs.index(p) < i), default=len(entries))
        del entries[last : last + 1]
