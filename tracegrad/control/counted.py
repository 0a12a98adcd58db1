"""Loops that are counted: `scan` and `fori_loop`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad import tree
from tracegrad.control.carry import as_type, check_structure, join_types, leaf_names, own_memory, type_of
from tracegrad.control.checkpoint import levels_of, recomputed, run_checkpointed, stretch_for
from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.dims import Dim, DimLike, symbol
from tracegrad.ir.graph import Graph
from tracegrad.ir.sizes import plain
from tracegrad.ir.types import Type
from tracegrad.ops.clone import Clone
from tracegrad.ops.creation import dimension
from tracegrad.ops.loops import Scan, Sized, Weaken
from tracegrad.ops.loops.scan import output_types, with_tape
from tracegrad.ops.operands import positions
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor
from tracegrad.trace.examples import First
from tracegrad.trace.loops import (
    Recorded,
    as_traced,
    carry_out,
    carrying_writes,
    depth,
    emit_region,
    lift_leaf,
    record_body,
)
from tracegrad.trace.tracer import Trace

ATTEMPTS = 4  # recordings of a body until the types of its carry agree; each raises one leaf's type


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[Any, Any]:
    """`carry, y = f(carry, x)` for each x along the first axis of `xs`; the last carry, and the ys stacked.

    init, xs:  arrays and numbers, or trees of them. With `xs=None`, f receives None and `length` says how often.
    reverse:   go through xs from the end; ys stand at the positions of their xs.
    unroll:    how many steps the compiled loop and its adjoint write out one after the other, for short steps whose
               cost is the loop's own; more code, and the same results but for products and sums of neighbouring steps
               that may become one instruction.

    The carry keeps its structure, shapes and dtypes; a Python number takes the dtype it becomes. Raises ShapeError,
    DTypeError or ArgumentError that names the leaf which does not; ShapeError for xs of different lengths.
    The signature is that of jax.lax.scan.
    """
    leaves, spec = tree.flatten(xs)
    size = _length(leaves, length)
    unroll = _unroll(unroll, "scan")
    trace = state.trace
    if trace is None:
        count = operator.index(size)  # type: ignore[arg-type]
        if (stretch := stretch_for(count)) is not None:
            return _in_stretches(f, init, leaves, spec, count, reverse, stretch)
        return _eager(f, init, leaves, spec, count, reverse)
    return traced_scan(trace, f, init, (leaves, spec), size, reverse, unroll)


def _unroll(unroll: Any, what: str) -> int:
    """The hint as a number. Raises ArgumentError."""
    count = operator.index(unroll) if hasattr(unroll, "__index__") else 0
    if count < 1:
        raise ArgumentError(
            f"{what} cannot take {unroll!r} steps at once", fix="pass unroll=2 or more; unroll=1 is the plain loop"
        )
    return count


def _length(leaves: Sequence[Any], length: Any) -> DimLike:
    """The number of steps."""
    found: dict[DimLike, None] = {}
    for leaf in leaves:
        shape = type_of(leaf).shape
        if not shape:
            raise ShapeError(
                "scan runs along the first axis of xs, but a leaf of xs is a single number",
                fix="put it into an array with one element per step, or use it from outside the body",
            )
        found[shape[0]] = None
    if length is not None:
        found[length if isinstance(length, Dim) else operator.index(length)] = None
    if not found:
        raise ArgumentError("scan needs xs or a length", fix="pass length=…, the number of steps")
    if len(found) > 1:
        raise ShapeError(
            f"scan was given different numbers of steps: {', '.join(map(str, found))}",
            fix="all leaves of xs need first axes of one size, which is `length` if that is given",
        )
    (size,) = found
    if isinstance(size, int) and size < 0:
        raise ArgumentError(f"scan cannot run {size} steps", fix="pass a length of 0 or more")
    return size


# ---- eager --------------------------------------------------------------------------------------------------------


def _eager(f: Any, init: Any, leaves: list[Any], spec: Any, length: int, reverse: bool) -> tuple[Any, Any]:
    carry = own_memory(init)
    former = tree.flatten(carry)
    names = leaf_names(init)
    stacked: list[Any] = [None] * length
    y_spec = None
    for t in range(length - 1, -1, -1) if reverse else range(length):
        x = tree.unflatten(spec, [leaf[t] for leaf in leaves])
        carry, y = _pair(f(carry, x))
        current = tree.flatten(carry)
        check_structure("scan", former[1], current[1])
        join_types("scan", names, list(map(type_of, former[0])), list(map(type_of, current[0])))
        former = current
        found, y_spec = tree.flatten(y)
        stacked[t] = [_kept(leaf, current[0]) for leaf in found]
    if not length:
        return carry, _nothing(f, init, leaves, spec)
    return carry, tree.unflatten(y_spec, [_stack(column) for column in zip(*stacked, strict=True)])


def _in_stretches(
    f: Any, init: Any, leaves: list[Any], spec: Any, length: int, reverse: bool, stretch: int
) -> tuple[Any, Any]:
    """The same, of which only the carry at the start of each stretch of steps is kept for the gradient."""
    carry, found = init, []
    starts = range(0, length, stretch)
    for start in reversed(starts) if reverse else starts:
        end = min(start + stretch, length)
        rows = [leaf[start:end] for leaf in leaves]
        carry, y = recomputed(functools.partial(_eager, f, carry, rows, spec, end - start, reverse))
        found.append(tree.flatten(y))
    parts = [part for part, _ in (found[::-1] if reverse else found)]
    return carry, tree.unflatten(found[0][1], [np.concatenate(column) for column in zip(*parts, strict=True)])


def _kept(y: Any, carry: Sequence[Any]) -> Any:
    """A y that stays as it is when the next step modifies its carry in place."""
    array = y._array if isinstance(y, Tensor) else y
    if not isinstance(array, np.ndarray):
        return y
    arrays = [c._array if isinstance(c, Tensor) else c for c in carry]
    shared = any(isinstance(a, np.ndarray) and np.may_share_memory(a, array) for a in arrays)
    return Clone.apply(y) if shared else y


def _pair(result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise ArgumentError(
            f"the body of scan returned a {type(result).__name__}, not a pair (carry, y)",
            fix="return carry, y; y may be None",
        )
    return result


def _stack(column: Sequence[Any]) -> Any:
    if any(isinstance(c, Tensor) for c in column):
        from tracegrad.ops.joining import stack

        return stack([c if isinstance(c, Tensor) else np.asarray(c) for c in column])
    return np.stack([np.asarray(c) for c in column])


def _nothing(f: Any, init: Any, leaves: list[Any], spec: Any) -> Any:
    """The ys of no steps: arrays without elements, of the types a step would give."""
    carries, carry_spec = tree.flatten(init)
    types = [*map(type_of, carries), *(Type(type_of(x).dtype, type_of(x).shape[1:]) for x in leaves)]

    def step(*values: Any) -> Any:
        carry, x = list(values[: len(carries)]), list(values[len(carries) :])
        return _pair(f(tree.unflatten(carry_spec, carry), tree.unflatten(spec, x)))[1]

    flat = tree.flatten((0,) * len(types))[1]
    recorded = record_body(Trace("scan"), step, types, flat, [""] * len(types), "scan")
    recorded.abandon()
    return tree.unflatten(recorded.spec, [np.empty((0, *v.type.shape), v.type.dtype) for v in recorded.outputs])


# ---- traced -------------------------------------------------------------------------------------------------------


def traced_scan(
    trace: Trace, f: Any, init: Any, xs: tuple[list[Any], Any], length: DimLike, reverse: bool, unroll: int,
    what: str = "scan",
) -> tuple[Any, Any]:  # fmt: skip
    """Record the loop as one node; the last carry and the stacked ys."""
    leaves, spec = tree.flatten(init)
    carry = [as_traced(trace, leaf, what) for leaf in leaves]
    elements = [_element(trace, x, what) for x in xs[0]]
    examples = [*carry, *map(First, xs[0])]
    recorded, types = _record(trace, f, carry, spec, elements, xs[1], leaf_names(init), what, examples)
    carry_spec, y_spec = recorded.spec.children()
    n_carry = len(types)
    with setting(trace=recorded.trace):
        final = [as_type(Tensor._traced(recorded.trace, v), t) for v, t in zip(recorded.outputs, types, strict=False)]
        outputs = (*map(recorded.trace.lift, final), *recorded.outputs[n_carry:])
    graph, captured = recorded.finish(outputs)
    n_ys, written = len(outputs) - n_carry, recorded.written
    graph, values, captured = carrying_writes(graph, captured, written, n_carry, len(elements))
    n_all = n_carry + len(written)
    sources = [*(as_type(c, t) for c, t in zip(carry, types, strict=True)), *values, *xs[0], *captured]
    steps = state.steps
    if steps is not None and (levels := levels_of(length, steps)) > 1:
        given = [Tensor._traced(trace, trace.lift(s)) for s in sources]
        n_end = n_all + len(elements)
        groups = given[:n_all], given[n_all:n_end], given[n_end:]
        results, ys = run_checkpointed(trace, graph, *groups, plain(length), bool(reverse), levels, steps)
        carry_out(trace, written, results[n_carry:n_all], what, length)
        return tree.unflatten(carry_spec, results[:n_carry]), tree.unflatten(y_spec, ys)
    body = with_tape(graph, n_all, length)
    attrs = {
        "length": length, "reverse": bool(reverse), "n_carry": n_all, "n_xs": len(elements), "unroll": int(unroll)
    }  # fmt: skip
    results = list(emit_region(trace, Scan, sources, output_types(body, n_all, length), attrs, (body,)))
    carry_out(trace, written, results[n_carry:n_all], what, length)
    ys = results[n_all : n_all + n_ys]
    return tree.unflatten(carry_spec, results[:n_carry]), tree.unflatten(y_spec, ys)


def _element(trace: Trace, x: Any, what: str) -> Type:
    type = lift_leaf(trace, x, what).type
    return Type(type.dtype, type.shape[1:])


def _record(
    trace: Trace,
    f: Any,
    carry: list[Tensor],
    spec: Any,
    elements: list[Type],
    x_spec: Any,
    names: list[str],
    what: str,
    examples: Sequence[Any],
) -> tuple[Recorded, tuple[Type, ...]]:
    """The body, recorded with types of the carry that it keeps."""
    types = tuple(c.type for c in carry)
    both = tree.flatten((tree.unflatten(spec, [0] * len(types)), tree.unflatten(x_spec, [0] * len(elements))))[1]
    labels = [*(f"c{i}" for i in range(len(types))), *(f"x{i}" for i in range(len(elements)))]
    for _ in range(ATTEMPTS):
        recorded = record_body(trace, lambda c, x: _pair(f(c, x)), (*types, *elements), both, labels, what, examples)
        check_structure(what, spec, recorded.spec.children()[0])
        wanted = join_types(what, names, types, [v.type for v in recorded.outputs[: len(types)]])
        if wanted == types:
            return recorded, types
        recorded.abandon()
        types = wanted
    raise ArgumentError(
        f"the dtypes of the carry of {what} do not settle", fix="start with NumPy scalars or arrays, np.float64(0.0)"
    )


# ---- fori_loop ----------------------------------------------------------------------------------------------------


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any, *, unroll: int = 1) -> Any:
    """`val = body_fun(i, val)` for i in range(lower, upper); the last val. `unroll` is that of `scan`.

    The bounds may be computed values: then the number of steps is known when the program runs, and gradients go
    through it all the same. Raises as `scan` does for a val that changes its structure, shapes or dtypes. The
    signature is that of jax.lax.fori_loop.
    """
    trace, unroll = state.trace, _unroll(unroll, "fori_loop")
    if trace is None:
        first, last = (int(_bound(b)) for b in (lower, upper))
        if (stretch := stretch_for(last - first)) is None:
            return _eager_fori(first, last, body_fun, init_val)
        for start in range(first, last, stretch):
            run = functools.partial(_eager_fori, start, min(start + stretch, last), body_fun, init_val)
            init_val = recomputed(run)
        return init_val
    known = [operator.index(_bound(b)) if not isinstance(b, Tensor | Dim) else b for b in (lower, upper)]
    if state.steps is not None and any(isinstance(b, Tensor | Dim) for b in known):
        return _limited_fori(trace, *map(_computed, known), body_fun, init_val, unroll, state.steps)
    if not any(isinstance(b, Tensor) for b in known):
        length = known[1] - known[0]
        if isinstance(length, int):
            length = max(length, 0)
        return _traced_fori(trace, known[0], length, body_fun, init_val, unroll)
    return _computed_fori(trace, known[0], known[1], body_fun, init_val, unroll)


def _bound(bound: Any) -> Any:
    """The bound, if it is one integer. Raises ArgumentError."""
    found = type_of(bound) if not isinstance(bound, Dim) else None
    if found is not None and (found.dtype.kind not in "iub" or found.shape):
        raise ArgumentError(f"a bound of fori_loop is {found}, not one integer", fix="convert it with .astype(int)")
    return bound


def _eager_fori(lower: int, upper: int, body_fun: Any, val: Any) -> Any:
    names = leaf_names(val)
    val = own_memory(val)
    former = tree.flatten(val)
    for i in range(lower, upper):
        val = body_fun(i, val)
        current = tree.flatten(val)
        check_structure("fori_loop", former[1], current[1])
        join_types("fori_loop", names, list(map(type_of, former[0])), list(map(type_of, current[0])))
        former = current
    return val


def _traced_fori(trace: Trace, lower: Any, length: DimLike, body_fun: Any, init_val: Any, unroll: int) -> Any:
    steps, shift = positions(length), None if isinstance(lower, int) and lower == 0 else lower

    def step(val: Any, i: Any) -> tuple[Any, None]:
        return body_fun(Weaken.apply(i if shift is None else i + shift), val), None

    xs = tree.flatten(steps)
    return traced_scan(trace, step, init_val, xs, length, False, unroll, "fori_loop")[0]


def _computed(bound: Any) -> Any:
    return dimension(bound) if isinstance(bound, Dim) else bound


def _limited_fori(trace: Trace, lower: Any, upper: Any, body_fun: Any, init_val: Any, unroll: int, steps: int) -> Any:
    """As many stretches as carries may be kept, of so many steps that all are run: n steps keep steps + n / steps."""
    size = (upper - lower + steps - 1) // steps

    def inner(i: Any, val: Any) -> Any:
        with setting(steps=steps):  # for the loops in the body
            return body_fun(i, val)

    def stretch(number: Any, val: Any) -> Any:
        first = np.minimum(lower + number * size, upper)
        return fori_loop(first, np.minimum(first + size, upper), inner, val, unroll=unroll)

    with setting(steps=None):
        return _traced_fori(trace, 0, steps, stretch, init_val, 1)


def _computed_fori(trace: Trace, lower: Any, upper: Any, body_fun: Any, init_val: Any, unroll: int) -> Any:
    from tracegrad.ops.casting import astype

    lower, upper = _bound(lower), _bound(upper)
    count = astype(upper - lower, np.int64)
    # the first number and the initial values enter the sized part as its inputs
    leaves, spec = tree.flatten(init_val)

    def inside(*values: Any) -> Any:
        inner = state.trace
        assert inner is not None
        return _traced_fori(inner, values[0], symbol(name), body_fun, tree.unflatten(spec, list(values[1:])), unroll)

    name = f"steps{depth(trace)}"
    first = Tensor._traced(trace, trace.lift(np.int64(lower))) if isinstance(lower, int) else astype(lower, np.int64)
    given = [first, *(as_traced(trace, leaf, "fori_loop") for leaf in leaves)]
    types = [g.type for g in given]
    flat = tree.flatten((0,) * len(types))[1]
    labels = ["lower", *(f"c{i}" for i in range(len(leaves)))]
    recorded = record_body(trace, inside, types, flat, labels, "fori_loop", given)
    n_results = len(recorded.outputs)
    graph, captured = recorded.finish((*recorded.outputs, *(w.final for w in recorded.written)))
    results = emit_sized(trace, count, [*given, *captured], graph, name)
    carry_out(trace, recorded.written, results[n_results:], "fori_loop")
    return tree.unflatten(recorded.spec, list(results[:n_results]))


def emit_sized(trace: Trace, count: Any, sources: Sequence[Any], body: Graph, name: str) -> tuple[Tensor, ...]:
    """A node in whose body the symbol `name` stands for `count`."""
    return emit_region(trace, Sized, [count, *sources], [v.type for v in body.outputs], {"symbol": name}, (body,))
