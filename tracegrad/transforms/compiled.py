"""Compiled functions: the table of programs behind a decorated function, and how a call finds its own."""

from __future__ import annotations

import functools
import operator
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from types import MethodDescriptorType
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, TracegradError
from tracegrad.ir.sizes import Sizes
from tracegrad.ops.creation import dimension
from tracegrad.state import state
from tracegrad.tensor import Tensor
from tracegrad.transforms.autograd import GraphFunction
from tracegrad.transforms.eager import run_undecorated
from tracegrad.transforms.entry import MAX_PROGRAMS_PER_SIGNATURE, Entry, add, has_masks, has_room
from tracegrad.transforms.interrupted import carry_out_noted
from tracegrad.transforms.program import Program
from tracegrad.transforms.record import record
from tracegrad.transforms.signature import Call, read_call
from tracegrad.transforms.sizes import Family, Shapes, TooShort, conditions, other_sizes, refined, values_of

MAX_RECORDINGS = 4
MISS = object()  # what a fast path returns for a call it does not serve


_CACHES = ("entries", "families", "recompiles", "warned", "last", "fast", "former", "fast_arity", "former_arity")


class Unsettled(TracegradError):
    """No recording went undisturbed by other threads."""


class CompiledFunction:
    """A function that is recorded and compiled at its first call with arguments of a new kind."""

    def __init__(self, function: Callable[..., Any], dynamic: bool | None = None):
        if not callable(function):
            raise ArgumentError(
                f"a function is needed here, not a {type(function).__name__}",
                fix="decorate a function: @tg.jit above def, or tg.grad(f)",
            )
        if isinstance(function, MethodDescriptorType) and function.__objclass__ is np.ndarray:
            raise ArgumentError(
                f"np.ndarray.{function.__name__} takes plain arrays alone, no values of a recording",
                fix="use NumPy's function, as np.dot for np.ndarray.dot, or lambda x, y: x.dot(y)",
            )
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.dynamic = dynamic
        self._forget()

    def _forget(self) -> None:
        """Start without programs."""
        self.entries: dict[tuple[Any, ...], list[Entry]] = {}
        self.families: dict[tuple[Any, ...], Family] = {}
        self.recompiles: list[str] = []
        self.warned = False
        self.last: Entry | None = None
        self.fast: Callable[..., Any] | None = None
        self.former: Callable[..., Any] | None = None  # the fast path before that, for calls that alternate
        self.fast_arity = self.former_arity = 0

    kind = "jit"

    @property
    def py_func(self) -> Callable[..., Any]:
        """The function as it was before decoration."""
        return self.function

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """As functions are, by name where it is found by its name; else by the function, and without programs."""
        name = getattr(self, "__qualname__", "")
        try:
            found = operator.attrgetter(name)(sys.modules[self.__module__])
        except (AttributeError, KeyError):
            found = None
        return name if found is self else super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict[str, Any]:
        kept = dict(vars(self))
        for name in _CACHES:
            del kept[name]
        return kept

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept)
        self._forget()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fast = self.fast
        if fast is not None and not kwargs and len(args) == self.fast_arity:
            result = fast(*args)
            if result is not MISS:
                return result
        former = self.former
        if former is not None and not kwargs and len(args) == self.former_arity:
            result = former(*args)
            if result is not MISS:
                return result
        return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if state.trace is not None:
            return self._inline(args, kwargs)
        if state.eager or state.dual is not None:
            return self._eager(args, kwargs)
        call = read_call(args, kwargs)
        key = call.family()
        family = self.families.setdefault(key, Family(self.dynamic))
        keys = [(k, p) for k in (key, *family.resized) for p in self.families[k].patterns]
        groups = [self.entries.get(call.key, []), *(self.entries[k] for k in keys)]
        for entries in groups:
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
        for entries in groups:
            for position, entry in enumerate(entries):
                exchanged = entry.exchanged(call)
                if exchanged is None:
                    continue
                held, result = exchanged.run(call)
                if held:
                    entries[position : position + 1] = [exchanged]
                    if entry is self.last:
                        self.last, self.fast = exchanged, exchanged.fast
                    else:
                        self._prepare(exchanged, call)
                    return result
        return self._new(call, key, args, kwargs)

    def _new(self, call: Call, key: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record and compile for a call that nothing serves: for other sizes too, or for those it has."""
        from tracegrad.emit.runtime import load_beside

        load_beside()
        call, key = self._with_captured(call, key)
        family, shapes = self.families[key], call.shapes()
        pattern = family.pattern(shapes)
        if not has_room(self.entries.get((key, pattern), ())):
            pattern = None
        entry, why = (None, "") if pattern is None else self._for_many_sizes(call, key, pattern, args, kwargs)
        if entry is None:
            entries = self.entries.setdefault(call.key, [])
            if not has_room(entries):
                return self._give_up(args, kwargs)
            self._note_recompile(entries, call, family, why)
            try:
                entry = self._for_all_counts(call, args, kwargs) or self._settled(call, args, kwargs)
            except Unsettled:
                self.recompiles.pop()
                return self._eager(args, kwargs)
            except Exception as error:
                carry_out_noted(error, call.leaves)
                raise
            if entry.share_program(entries):
                self.recompiles.pop()
            add(entry, entries)
        held, result = entry.run(call)
        assert held, "a guard failed on the very call it was recorded from"
        family.note(shapes)
        self.families[call.family()].note(call.shapes(()), entry)
        self._prepare(entry, call)
        return result

    def _with_captured(self, call: Call, key: tuple[Any, ...]) -> tuple[Call, tuple[Any, ...]]:
        """The call with the arrays from outside, and the key of the family of such calls, where these have other sizes
        than those of a former call and nothing else changed."""
        family = self.families[key]
        for entry in reversed(family.entries) if family.dynamic is not False else ():
            captured = entry.resized()
            if not captured or [c.shape for c in captured] == list(entry.shapes[len(call.dynamic) :]):
                continue
            longer = (*key, tuple(c.ndim for c in captured))
            outer = self.families.setdefault(longer, Family(family.dynamic))
            if longer not in family.resized:
                family.resized.append(longer)
            for other in family.entries:
                if tuple(map(len, other.shapes)) == tuple(map(len, call.shapes(captured))):
                    outer.note(other.shapes)
            return replace(call, captured=captured), longer
        return call, key

    def _settled(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry:
        """`_compile`, again where another thread has meanwhile put other arrays in the place of those it found."""
        for _ in range(MAX_RECORDINGS):
            entry = self._compile(call, args, kwargs)
            if entry.settled:
                return entry
        raise Unsettled("other threads replace the arrays that the function reads all the time")

    def _for_all_counts(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        """An entry that takes any number of elements that masks select; None where none is known to be needed, or
        there is none."""
        family = self.families[call.family()]
        if not self._counting(family):
            return None
        sizes = Sizes({}, dimension)
        sizes.counts = []
        try:
            with sizes.known():
                entry = self._settled(call, args, kwargs)
            if not sizes.decided_on_counts():
                return entry
        except Unsettled:
            raise
        except Exception:  # then for one count, which raises the user's errors itself
            pass
        family.counts = False
        return None

    def _counting(self, family: Family) -> bool:
        """Whether numbers of elements that masks select are to be symbols: from the second recording on."""
        if family.counts is None and any(has_masks(entry.recording.graph) for entry in family.entries):
            family.counts = True
        return bool(family.counts)

    def _for_many_sizes(
        self, call: Call, key: tuple[Any, ...], pattern: Shapes | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Entry | None, str]:
        """An entry with symbolic sizes, or None and why there is none.

        Where the recording needs some sizes to be numbers, or two of them to be equal, it is made again with fewer
        symbols. Whatever fails here is tried again with the sizes of the call, which then raise their own errors.
        """
        family, shapes = self.families[key], call.shapes()
        uses: list[str] = []
        outer = self.families[call.family()]
        while pattern is not None:
            sizes = Sizes(values_of(pattern, shapes), dimension)
            sizes.counts = [] if self._counting(outer) else None
            sizes.outside = dict(zip(map(id, call.captured), pattern[len(call.dynamic) :], strict=True))
            try:
                with sizes.known():
                    entry = self._settled(replace(call, pattern=pattern), args, kwargs)
                if call.captured and list(map(id, entry.arrays_outside())) != list(map(id, call.captured)):
                    family.refuse(pattern, None)
                    return None, "the function does not only calculate with the arrays it captures"
                if sizes.decided_on_counts():
                    outer.counts = False
                    continue
                fewer = refined(pattern, sizes)
                if fewer == pattern:
                    shared = entry.share_program(self.entries.get((key, pattern), ()))
                    program = entry.program
                    graphs = [program.graph] if isinstance(program, GraphFunction) else [program.stage("adjoint")]
                    entry.sizes = conditions(pattern, sizes, graphs)
                    if isinstance(program, Program):
                        program.stage("executable")
                    else:
                        program.prepare(entry.recording.inputs(call.leaves, entry.dynamic))
                    break
            except TooShort as error:
                return None, error.message
            except Unsettled:
                return None, ""
            except Exception as error:
                if sizes.counts:
                    outer.counts = False
                    continue
                fewer = refined(pattern, sizes)
                if fewer != pattern:  # numbers met symbols: once more with the numbers alone
                    uses += sizes.uses
                    family.refuse(pattern, fewer)
                    pattern = fewer
                    continue
                family.refuse(pattern, None)
                return None, f"symbolic sizes failed ({type(error).__name__}: {getattr(error, 'message', error)})"
            uses += sizes.uses
            if sizes.consumed:
                family.refuse(pattern, fewer)
            pattern = fewer
        if pattern is None:
            return None, "Python uses a size " + (
                "; ".join(dict.fromkeys(uses)) or "in a comparison, where it is equal"
            )
        group = self.entries.setdefault((key, pattern), [])
        if not shared:
            self._note_recompile(group, call, family, "", pattern)
        if pattern not in family.patterns:
            family.patterns.insert(0, pattern)
        add(entry, group)
        return entry, ""

    def _prepare(self, entry: Entry, call: Call) -> None:
        """Make `entry` the one that is tried first, by the fast path where it has one."""
        from tracegrad.transforms.fast import fast_path

        if entry.fast is None:
            entry.fast = fast_path(entry, call)
        self.former, self.former_arity = self.fast, self.fast_arity
        self.last, self.fast, self.fast_arity = entry, entry.fast, len(call.spec.children()[0].children())

    def _note_recompile(
        self, entries: list[Entry], call: Call, family: Family, why: str, pattern: Shapes | None = None
    ) -> None:
        """Remember, for `explain`, why this call compiles."""
        if not any(self.entries.values()):
            self.recompiles.append("first call")
        elif not entries and family.history:
            self.recompiles.append(other_sizes(family, call.shapes(), pattern, why))
        elif not entries:
            self.recompiles.append("arguments of another kind: structure, dtype, number of dimensions or static value")
        elif any(entry.sizes is not None and not entry.sizes.holds(call.shapes()) for entry in entries):
            self.recompiles.append("Python took another decision on a size")
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
            self._call(args, kwargs)  # makes the entry that serves it the last
        if self.last is None:
            raise ArgumentError(
                "nothing has been compiled yet", fix="call the function once, or pass arguments to show"
            )
        return show_entry(self.last, stage)

    def __repr__(self) -> str:
        entries = [entry for group in self.entries.values() for entry in group]
        calls = sum(entry.calls for entry in entries)
        programs = len({id(entry.program) for entry in entries})
        return f"<{self.kind} {self.__name__}: {programs} programs, {calls} calls>"

    # ---- the three ways to run --------------------------------------------------------------------------------------

    def _compile(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry:
        recording = record(self.function, call.leaves, call.spec, call.types(), grad_enabled=state.grad_enabled)
        tensors = call.tensors or any(isinstance(c, Tensor) for c in recording.captured)
        linked = tensors and recording.effects.linked
        program = GraphFunction(recording.graph) if linked else Program(recording.graph)
        return Entry(call, recording, program, None, self.function)

    def _eager(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return run_undecorated(self.function, args, kwargs)

    def _inline(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.function(*args, **kwargs)
