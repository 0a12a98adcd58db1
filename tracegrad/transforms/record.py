"""Recording a function for given arguments: a graph, what it captured, and how results are put together again."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

import numpy as np

from tracegrad import tree
from tracegrad.autograd.versions import check_saved
from tracegrad.errors import ArgumentError, LeavesTraceError, SymbolicValueError, TracegradError
from tracegrad.ir.graph import Graph, Location, Var
from tracegrad.ir.sizes import Size, active
from tracegrad.ir.symbols import dims_in
from tracegrad.ir.types import Type
from tracegrad.passes.roll import roll, with_guards_joined
from tracegrad.passes.simplify import write_through_views
from tracegrad.records import record
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor
from tracegrad.trace.columns import Columns
from tracegrad.trace.contents import refuse_writes_outside
from tracegrad.trace.environment import Environment
from tracegrad.trace.leaf_gradients import Live
from tracegrad.trace.lookups import lookups_noted
from tracegrad.trace.randomness import random_numbers_watched
from tracegrad.trace.size_functions import functions_of_sizes
from tracegrad.trace.tracer import Captured, Trace
from tracegrad.transforms.effects import Effects, collect
from tracegrad.transforms.interrupted import note_effects

_UNFINISHED = (GeneratorType, CoroutineType, AsyncGeneratorType, map, zip, filter, enumerate, reversed)


@record
class Output:
    """The function's result: its structure, and per leaf the position of a graph output or a value fixed by Python."""

    spec: Any
    leaves: tuple[int | None, ...]
    fixed: tuple[Any, ...]

    def build(self, results: Sequence[Any]) -> Any:
        leaves = [
            (f.copy() if isinstance(f, np.ndarray) else f) if p is None else results[p]
            for p, f in zip(self.leaves, self.fixed, strict=True)
        ]
        return tree.unflatten(self.spec, leaves)


@record
class Recording:
    """`graph` computes from the dynamic leaves, then the captured values, the results and then the guarded values.

    `guards` are the numbers Python saw for the last `len(guards)` outputs: the recording is right while they recur.
    Between the results and them stand the new values of what the function modifies, as `effects` says. `loops` says
    which plain Python loops became loops of the graph, and which did not. `before` is what was outside at the start,
    `lookups` what code looked up by names made at run time.
    """

    graph: Graph
    captured: tuple[Captured, ...]
    output: Output
    guards: tuple[Any, ...]
    differentiated: tuple[int, ...]
    effects: Effects
    loops: tuple[str, ...] = ()
    before: Environment | None = None
    lookups: tuple[Any, ...] = ()

    def inputs(self, leaves: Sequence[Any], dynamic: Sequence[int]) -> list[Any]:
        """What the program is given in a call with these argument leaves."""
        captured = [c.read(leaves) if isinstance(c, Live) else c for c in self.captured]
        return [leaves[i] for i in dynamic] + captured


def record(
    function: Callable[..., Any],
    leaves: Sequence[Any],
    spec: Any,
    types: dict[int, Type],
    *,
    parent: Trace | None = None,
    differentiated: Sequence[int] = (),
    symbolic: Sequence[int] = (),
    grad_enabled: bool = True,
) -> Recording:
    """Run `function` on arguments whose leaves named in `types` are traced, and return what was recorded.

    Leaves in `symbolic` have a type and no number: they stand for one row of the leaf.
    """
    name = getattr(function, "__name__", function.__class__.__name__)
    trace = Trace(name, parent)
    trace.columns = Columns()
    trace.activity_known = not symbolic and (parent is None or parent.activity_known)
    replaced = list(leaves)
    inputs: list[Var] = []
    for position, input_type in types.items():
        leaf = leaves[position]
        if position in symbolic:
            replaced[position] = trace.add_input(input_type, f"x{position}")
            inputs.append(replaced[position]._var)
            trace.memory.watch(object(), position, replaced[position])
            continue
        source = leaf if isinstance(leaf, Tensor) else None
        value = None if source is not None else leaf if input_type.weak else np.asarray(leaf)
        replaced[position] = trace.add_input(input_type, f"x{position}", value, source)
        inputs.append(replaced[position]._var)
        known = trace.memory.outside.get(id(leaf))
        if known is not None and position not in differentiated and isinstance(leaf, (Tensor, np.ndarray)):
            replaced[position] = known.standin  # the same object in two places
            continue
        # What is differentiated is a variable of its own, even where the function also captures the object it is given.
        trace.memory.watch(object() if position in differentiated else leaf, position, replaced[position])
        if parent is None and source is not None and position not in differentiated:
            trace.memory.mirror(leaf, replaced[position])
        if position in differentiated:
            trace.differentiated.add(replaced[position]._var)
    args, kwargs = tree.unflatten(spec, replaced)
    arguments = tuple(p for p in types if p not in differentiated and p not in symbolic)
    try:
        plain = state.numbers or not any(isinstance(leaf, Tensor) for leaf in leaves)
        with setting(trace=trace, grad_enabled=grad_enabled, numbers=plain):
            static = [leaf for i, leaf in enumerate(leaves) if i not in types]
            with (
                random_numbers_watched(function, static) as before,
                functions_of_sizes(),
                lookups_noted(before.codes) as lookups,
                without_collection(),
            ):
                result = call_user(function, args, kwargs)
            outputs, output = read_output(trace, result)
            results = [leaf for leaf in tree.flatten(result)[0] if isinstance(leaf, Tensor)]
            check_saved(results)
            effects, written = collect(trace, results, len(outputs), leaves, arguments, grad_enabled)
    except Exception as error:
        note_effects(error, trace)
        raise
    finally:
        trace.memory.gradients.restore()
    consume_sizes(trace)
    guards = tuple(number for _, number in trace.guards)
    outputs += (*written, *(var for var, _ in trace.guards))
    graph, captured = trace.finish(outputs)
    refuse_writes_outside(function, static, trace.overwritten)
    trace.values.clear()
    if active.sizes is not None and active.sizes.counts:
        from tracegrad.passes.masks import without_counts

        graph, held = without_counts(graph, set(active.sizes.counts))
        guards, trace.columns = (*guards, *(np.True_,) * held), None
    rolled = roll(graph, trace.columns)
    graph, guards = with_guards_joined(rolled, guards)
    graph = write_through_views(graph)
    positions = list(types)
    wrt = tuple(positions.index(p) for p in differentiated)
    loops = tuple(dict.fromkeys((*trace.loops, *rolled.notes)))
    return Recording(graph, tuple(captured), output, guards, wrt, effects, loops, before, tuple(lookups))


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """No search for garbage inside the block: it would look again and again at all the nodes, of which none is any.

    What was made inside counts as old afterwards, so that the next search does not look at it either.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def consume_sizes(trace: Trace) -> None:
    """Decisions on values that are computed from sizes alone bind the sizes, not the values."""
    if active.sizes is None:
        return
    kept = []
    for var, number in trace.guards:
        stack, seen, dims, of_values = [var], {var}, set(), False
        while stack:
            node = trace.definitions.get(stack.pop())
            if node is None:
                of_values = True
                break
            dims |= dims_in(tuple(node.attrs.values())) | dims_in(tuple(v.type.shape for v in node.outputs))
            stack += [v for v in node.inputs if v not in seen]
            seen.update(node.inputs)
        if of_values or not dims:
            kept.append((var, number))
        for dim in () if of_values else dims:
            active.sizes.consume(dim, "in a decision on a number computed from it")
    trace.guards[:] = kept


def call_user(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the user's function; an error of ours that NumPy wrapped in its own comes out itself."""
    try:
        result = function(*args, **kwargs)
        for leaf in tree.flatten(result)[0]:
            refuse_unfinished(function, leaf)
        return result
    except TracegradError:
        raise
    except (TypeError, ValueError) as error:
        ours = error.__cause__ or error.__context__
        while ours is not None and not isinstance(ours, (LeavesTraceError, SymbolicValueError)):
            ours = ours.__cause__ or ours.__context__
        if ours is None:
            raise
        raise ours from None


def refuse_unfinished(function: Callable[..., Any], leaf: Any) -> None:
    """Raise for a generator, coroutine or the like: it would compute later, with values that mean nothing then."""
    if not isinstance(leaf, _UNFINISHED):
        return
    if isinstance(leaf, CoroutineType):
        leaf.close()  # else Python warns that it was never awaited
    kind = type(leaf).__name__
    raise ArgumentError(
        f"the function returns a {kind}, which would compute only after the function has ended",
        fix="return a list, or the array itself; decorate what an async function calls, not the function",
        location=definition_of(function),
    )


def read_output(trace: Trace, result: Any) -> tuple[tuple[Var, ...], Output]:
    """The graph outputs among the leaves of a result, and the recipe that puts them back."""
    leaves, spec = tree.flatten(result)
    outputs: list[Var] = []
    positions: list[int | None] = []
    fixed: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            positions.append(len(outputs))
            outputs.append(trace.lift(leaf))
            fixed.append(None)
        else:
            positions.append(None)
            fixed.append(int(leaf) if isinstance(leaf, Size) else leaf)
    return tuple(outputs), Output(spec, tuple(positions), tuple(fixed))


def definition_of(function: Callable[..., Any]) -> Location | None:
    """Where the user wrote `function`."""
    code = getattr(function, "__code__", None)
    return None if code is None else Location(code.co_filename, code.co_firstlineno, function.__name__)
