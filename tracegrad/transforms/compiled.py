"""Compiled functions: the table of programs behind a decorated function, and how a call finds its own."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad.errors import ArgumentError
from tracegrad.state import state
from tracegrad.tensor import Tensor
from tracegrad.trace.environment import Environment
from tracegrad.transforms.autograd import GraphFunction
from tracegrad.transforms.eager import run_undecorated
from tracegrad.transforms.effects import SpentHistory
from tracegrad.transforms.program import Program, run_results
from tracegrad.transforms.record import Recording, record
from tracegrad.transforms.signature import Call, leaf_type, read_call

if TYPE_CHECKING:
    from tracegrad.transforms.gradient import GradientOutput

MAX_PROGRAMS_PER_SIGNATURE = 16
MISS = object()  # what a fast path returns for a call it does not serve


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
        self.recording, self.program, self.gradient = recording, program, gradient
        # Kept alive, since keys hold the ids of what cannot be hashed.
        self.static = [leaf for i, leaf in enumerate(call.leaves) if i not in set(call.dynamic)]
        # What the recording found outside its arguments. Taken after it: side effects happen while recording only.
        self.environment = Environment(function, self.static)
        if depends_on_contents(recording, self.environment):
            self.environment.watch_contents()
        self.calls = 0

    def holds(self, call: Call) -> bool:
        """Whether everything outside the arguments is as the recording found it."""
        effects = self.recording.effects
        return self.environment.holds() and (effects.none or effects.hold(call.leaves))

    def run(self, call: Call) -> tuple[bool, Any]:
        """(whether the guards held, the result)."""
        recording, effects, leaves = self.recording, self.recording.effects, call.leaves
        inputs = recording.inputs(leaves, self.dynamic)
        if effects.effects:
            effects.check_apart(leaves, inputs, len(self.dynamic), recording.differentiated)
            if isinstance(self.program, GraphFunction):
                inputs = effects.apart_from_writes(inputs, leaves)
        program = self.program
        results: Sequence[Any] = program(inputs) if isinstance(program, GraphFunction) else program(*inputs)
        n_guards = len(recording.guards)
        if n_guards and not guards_hold(recording.guards, results, recording):
            return False, None
        self.calls += 1
        if effects.effects:
            effects.carry_out(results, leaves)
        captures_gradient = any(isinstance(c, Tensor) and c.requires_grad for c in recording.captured)
        return True, self._build(results, call.tensors or captures_gradient)

    def _build(self, results: Sequence[Any], tensors: bool) -> Any:
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
            return self.recording.output.build(values)
        return self.gradient.build(self.recording.output, values)


def guards_hold(expected: Sequence[Any], results: Sequence[Any], recording: Recording) -> bool:
    """Whether the guarded values are again the numbers Python saw when the function was recorded."""
    first = len(recording.graph.outputs) - len(expected)
    for number, result in zip(expected, results[first : first + len(expected)], strict=True):
        value = np.asarray(result._array if isinstance(result, Tensor) else result)
        if not np.array_equal(value, number, equal_nan=value.dtype.kind in "fc"):
            return False
    return True


def depends_on_contents(recording: Recording, environment: Environment) -> bool:
    """Whether numbers of watched arrays may have gone into the recording: it holds constants that NumPy computed."""
    if not environment.arrays:
        return False
    small = sum(a.size for a in environment.arrays.values()) <= 10_000
    constants = (n for n in recording.graph.all_nodes() if n.name == "constant")
    return small or any(not n.attrs["weak"] for n in constants)


class CompiledFunction:
    """A function that is recorded and compiled at its first call with arguments of a new kind."""

    def __init__(self, function: Callable[..., Any]):
        if not callable(function):
            raise ArgumentError(
                f"a function is needed here, not a {type(function).__name__}",
                fix="decorate a function: @tg.jit above def, or tg.grad(f)",
            )
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.entries: dict[tuple[Any, ...], list[Entry]] = {}
        self.recompiles: list[str] = []
        self.warned = False
        self.last: Entry | None = None
        self.fast: Callable[..., Any] | None = None
        self.fast_arity = 0

    kind = "jit"

    @property
    def py_func(self) -> Callable[..., Any]:
        """The function as it was before decoration."""
        return self.function

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fast = self.fast
        if fast is not None and not kwargs and len(args) == self.fast_arity:
            result = fast(*args)
            if result is not MISS:
                return result
        return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if state.trace is not None:
            return self._inline(args, kwargs)
        if state.eager or state.dual is not None:
            return self._eager(args, kwargs)
        call = read_call(args, kwargs)
        entries = self.entries.setdefault(call.key, [])
        for position, entry in enumerate(entries):
            if not entry.holds(call):
                continue
            held, result = entry.run(call)
            if held:
                if position:
                    entries.insert(0, entries.pop(position))
                if entry is not self.last:
                    self._prepare(entry, call)
                return result
        if len(entries) >= MAX_PROGRAMS_PER_SIGNATURE:
            return self._give_up(args, kwargs)
        self._note_recompile(entries, call)
        entry = self._compile(call, args, kwargs)
        entries.insert(0, entry)
        held, result = entry.run(call)
        assert held, "a guard failed on the very call it was recorded from"
        self._prepare(entry, call)
        return result

    def _prepare(self, entry: Entry, call: Call) -> None:
        """Make `entry` the one that is tried first, by the fast path where it has one."""
        from tracegrad.transforms.fast import fast_path

        self.last, self.fast, self.fast_arity = entry, fast_path(entry, call), len(call.spec.children()[0].children())

    def _note_recompile(self, entries: list[Entry], call: Call) -> None:
        """Remember, for `explain`, why this call compiles."""
        if not any(self.entries.values()):
            self.recompiles.append("first call")
        elif not entries:
            self.recompiles.append("arguments of another kind: structure, dtype, shape or static value")
        elif all(entry.holds(call) for entry in entries):
            self.recompiles.append("Python took another decision on a value (an if, a while, an int() or bool())")
        elif all(entry.environment.holds() for entry in entries):
            self.recompiles.append(
                "a Tensor it uses changed: requires_grad, its hooks, whether .grad is None, its type; or the call is "
                "under no_grad, or passes one object twice, where the others did not"
            )
        else:
            self.recompiles.append(next(e for e in entries if not e.environment.holds()).environment.changed())

    def _give_up(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Past the bound on programs: run eagerly, and say so once."""
        if not self.warned:
            self.warned = True
            warnings.warn(
                f"{self.__name__} was compiled {MAX_PROGRAMS_PER_SIGNATURE} times for the same kind of arguments and "
                "now runs eagerly, because it takes ever new Python decisions on values; "
                f"tg.explain({self.__name__}) lists the reasons",
                RuntimeWarning,
                stacklevel=3,
            )
        return self._eager(args, kwargs)

    def show(self, stage: str = "optimized", *args: Any, **kwargs: Any) -> str:
        """The text of a stage: trace, adjoint, optimized, schedule, llvm, asm; see `tg.show`."""
        from tracegrad.inspection import show_entry

        if args or kwargs:
            self(*args, **kwargs)
            return show_entry(self.entries[read_call(args, kwargs).key][0], stage)
        if self.last is None:
            raise ArgumentError(
                "nothing has been compiled yet", fix="call the function once, or pass arguments to show"
            )
        return show_entry(self.last, stage)

    def __repr__(self) -> str:
        entries = [entry for group in self.entries.values() for entry in group]
        calls = sum(entry.calls for entry in entries)
        return f"<{self.kind} {self.__name__}: {len(entries)} programs, {calls} calls>"

    # ---- the three ways to run --------------------------------------------------------------------------------------

    def _compile(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry:
        types = {i: leaf_type(call.leaves[i]) for i in call.dynamic}
        recording = record(self.function, call.leaves, call.spec, types, grad_enabled=state.grad_enabled)
        tensors = call.tensors or any(isinstance(c, Tensor) for c in recording.captured)
        linked = tensors and recording.effects.linked
        program = GraphFunction(recording.graph) if linked else Program(recording.graph)
        return Entry(call, recording, program, None, self.function)

    def _eager(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return run_undecorated(self.function, args, kwargs)

    def _inline(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.function(*args, **kwargs)
