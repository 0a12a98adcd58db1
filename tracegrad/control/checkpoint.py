"""Checkpoints: values that the backward pass computes again instead of finding them stored.

A function: only its arguments are kept, and its inside is computed once more when its gradient is wanted. A loop of n
steps: of the carries at most `steps` are kept at a time. The loop becomes a loop over stretches of steps, which keeps
the carry at the start of each; a stretch is run again for its gradient, and is itself such a loop where it is long.
With d levels of about n^(1/d) stretches each, d n^(1/d) carries are kept and every step is computed at most d + 1 times
(Griewank and Walther, Evaluating Derivatives, ch. 12.3; d = log₂ n keeps 2 log₂ n).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from typing import Any, overload

import numpy as np

from tracegrad.errors import ArgumentError, UnsupportedError
from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Graph
from tracegrad.ir.sizes import LEAST, active, plain
from tracegrad.ops.joining import concatenate
from tracegrad.ops.loops import Scan
from tracegrad.ops.loops.scan import output_types, with_carries, with_tape
from tracegrad.ops.shape import reshape
from tracegrad.ops.slicing import slice_axis
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor
from tracegrad.trace.loops import emit_region
from tracegrad.trace.tracer import Trace

Function = Callable[..., Any]


@overload
def checkpoint(function: Function, *, steps: int | None = None) -> Function: ...
@overload
def checkpoint(function: None = None, *, steps: int) -> limited_steps: ...
def checkpoint(function: Function | None = None, *, steps: int | None = None) -> Any:
    """Compute again in the backward pass what is not stored in the forward pass.

    `checkpoint(f)` is `f`, of whose inside nothing is kept for the gradient but the arguments and what f captures; so
    is `@checkpoint`. f may be called anything, with arrays, numbers and trees of them while tracing; it has to compute
    the same again, so it must not modify arrays from outside when it runs eagerly.

    `with checkpoint(steps=k):` and `@checkpoint(steps=k)` are for the loops recorded or run inside: of the values a
    `scan` or `fori_loop` carries, at most k are kept at a time, or about 2 log₂ n of n where k is less; the others are
    computed again. Where the number n of steps is a symbolic size or only known at run time, as in a `while_loop`, it
    is about k + n / k. A loop that runs eagerly is cut into stretches once, not again, a `while_loop` not.

    Gradients are those without it up to the order in which contributions of steps to one sum are added.
    Raises ArgumentError unless k is an integer of at least 2.
    """
    if steps is not None and (not isinstance(steps, (int, np.integer)) or isinstance(steps, bool) or steps < 2):
        raise ArgumentError(f"checkpoint was given steps={steps!r}", fix="pass an integer of at least 2")
    if function is None:
        if steps is None:
            fix = "tg.checkpoint(f) or tg.checkpoint(steps=32)"
            raise ArgumentError("checkpoint needs a function, or steps=", fix=fix)
        return limited_steps(int(steps))
    if not callable(function):
        raise ArgumentError(f"checkpoint was given a {type(function).__name__}, not a function", fix="checkpoint(f)")
    if steps is not None:
        return limited_steps(int(steps))(function)

    @functools.wraps(function)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if state.trace is not None:
            from tracegrad.control.branches import one_branch

            return one_branch(state.trace, functools.partial(function, **kwargs), args, "checkpoint")
        return recomputed(functools.partial(function, *args, **kwargs))

    return checkpointed


class limited_steps(ContextDecorator):
    """Loops inside keep at most `steps` carries at a time."""

    def __init__(self, steps: int):
        self.steps = steps
        self.former: list[int | None] = []

    def __enter__(self) -> None:
        self.former.append(state.steps)
        state.steps = self.steps

    def __exit__(self, *exception: object) -> None:
        state.steps = self.former.pop()


# ---- eager --------------------------------------------------------------------------------------------------------


class _Recomputed:
    """The Tensors that a function saves for backward: numbers in the order of saving, until one is asked for."""

    def __init__(self, run: Callable[[], Any]):
        self.run, self.count = run, 0
        self.found: dict[int, Tensor] = {}
        self.left = 0

    def drop(self, tensor: Tensor) -> int:
        self.count += 1
        self.left += 1
        return self.count - 1

    def get(self, number: int) -> Tensor:
        if number not in self.found:
            self._again()
        return self.found[number]

    def _again(self) -> None:
        from tracegrad.autograd.modes import saved_tensors_hooks

        saved: list[Tensor] = []

        def keep(tensor: Tensor) -> int:
            saved.append(tensor)
            return len(saved) - 1

        with setting(grad_enabled=True), saved_tensors_hooks(keep, saved.__getitem__):
            self.run()
        if len(saved) != self.count:
            raise UnsupportedError(
                f"a checkpointed function saved {self.count} Tensors when it ran first and {len(saved)} when it was "
                "computed again",
                fix="let it compute the same each time: no randomness or state that changes between the two runs",
            )
        self.found = dict(enumerate(saved))


def recomputed(run: Callable[[], Any]) -> Any:
    """What `run` returns; its inside is computed again for the gradient."""
    from tracegrad.autograd.modes import saved_tensors_hooks

    if not state.grad_enabled:
        return run()
    saved = _Recomputed(run)
    with saved_tensors_hooks(saved.drop, saved.get):
        return run()


def stretch_for(length: int) -> int | None:
    """How many steps a stretch of an eager loop has; None if it is not cut. Eager loops have two levels at most."""
    steps = state.steps
    if steps is None or length <= steps or not state.grad_enabled:
        return None
    return max(round(length**0.5), -(-length // max(steps // 2, 1)))


# ---- traced -------------------------------------------------------------------------------------------------------


def levels_for(length: int, steps: int) -> int:
    """The least number of levels with which at most `steps` carries are kept; else the one that keeps least."""
    most = max(1, int(np.ceil(np.log2(max(length, 2)))))
    kept = {levels: levels * _branching(length, levels) for levels in range(1, most + 1)}
    return next((d for d, count in kept.items() if count <= steps), min(kept, key=kept.__getitem__))


def levels_of(length: DimLike, steps: int) -> int:
    """The same for a length that may be a symbol: then there are two levels, or one if it is less than two stretches.

    The second is a condition on the size, which the recording serves from then on.
    """
    if isinstance(length, int):
        return levels_for(length, steps)
    sizes = active.sizes
    if sizes is None or not length.symbols() <= sizes.values.keys():
        return 1
    return 2 if sizes.non_negative(plain(length) - 2 * (steps + 1)) else 1


def _stretch_size(length: DimLike, levels: int, steps: int) -> int:
    """How many steps a stretch of the outermost level has."""
    return -(-length // _branching(length, levels)) if isinstance(length, int) else steps


def _branching(length: int, levels: int) -> int:
    """The least b with bᵈ ≥ length."""
    b = max(1, round(length ** (1 / levels)) - 1)
    while b**levels < length:
        b += 1
    return b


def run_checkpointed(
    trace: Trace, body: Graph, carry: Sequence[Any], xs: Sequence[Any], fixed: Sequence[Any], length: DimLike,
    reverse: bool, levels: int, steps: int,
) -> tuple[list[Tensor], list[Tensor]]:  # fmt: skip
    """Record a scan of `length` steps of `body`, which has no tape, in so many levels: the last carry and the ys.

    Of a symbolic length, stretches have `steps` steps, and at least two are left over: no array is shorter than that.
    """
    if levels <= 1 or (isinstance(length, int) and length <= 2):
        return _emit(trace, with_tape(body, len(carry), length, dear=False), body, carry, xs, fixed, length, reverse)
    size = _stretch_size(length, levels, steps)
    count = length // size if isinstance(length, int) else (length - LEAST) // size
    main, rest = size * count, length - size * count
    first = rest if reverse else 0  # the steps that fill no stretch come last
    rows = [reshape(_part(x, first, main), (count, size, *x.shape[1:])) for x in xs]
    inner = _stretch(trace, body, carry, rows, fixed, size, reverse, levels - 1, steps)
    taped = with_carries(inner, len(carry))
    carry, stacks = _emit(trace, taped, inner, carry, rows, fixed, count, reverse)
    ys = [reshape(y, (main, *y.shape[2:])) for y in stacks]
    if rest:
        others = [_part(x, 0 if reverse else main, rest) for x in xs]
        carry, more = run_checkpointed(trace, body, carry, others, fixed, rest, reverse, levels - 1, steps)
        ys = [concatenate((b, a) if reverse else (a, b)) for a, b in zip(ys, more, strict=True)]
    return list(carry), ys


def _part(x: Any, start: DimLike, size: DimLike) -> Any:
    return slice_axis(x, 0, start, size) if size != x.shape[0] else x


def _stretch(
    parent: Trace, body: Graph, carry: Sequence[Any], rows: Sequence[Any], fixed: Sequence[Any], size: int,
    reverse: bool, levels: int, steps: int,
) -> Graph:  # fmt: skip
    """The graph that runs the steps of one stretch."""
    trace = Trace(body.name, parent)
    n_carry, n_xs = len(carry), len(rows)
    types = [v.type for v in body.inputs]
    inside = [trace.add_input(t, v.name) for t, v in zip(types[:n_carry], body.inputs, strict=False)]
    elements = [trace.add_input(x.type.with_shape(x.shape[1:]), "x") for x in rows]
    captured = [trace.add_input(t, "") for t in types[n_carry + n_xs :]]
    with setting(trace=trace, grad_enabled=True):
        final, ys = run_checkpointed(trace, body, inside, elements, captured, size, reverse, levels, steps)
        outputs = tuple(map(trace.lift, (*final, *ys)))
    graph, outside = trace.finish(outputs)
    assert not outside
    return graph


def _emit(
    trace: Trace, taped: Graph, body: Graph, carry: Sequence[Any], xs: Sequence[Any], fixed: Sequence[Any],
    length: DimLike, reverse: bool,
) -> tuple[list[Tensor], list[Tensor]]:  # fmt: skip
    n_carry = len(carry)
    attrs = {"length": length, "reverse": reverse, "n_carry": n_carry, "n_xs": len(xs), "unroll": 1}
    types = output_types(taped, n_carry, length)
    results = emit_region(trace, Scan, [*carry, *xs, *fixed], types, attrs, (taped,))
    return list(results[:n_carry]), list(results[n_carry : len(body.outputs)])
