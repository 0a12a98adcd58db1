"""What a compiled function does besides returning results: it modifies arrays in place, and sets `.grad`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tracegrad.autograd.inplace import _check_history as check_history
from tracegrad.autograd.inplace import rebase_history
from tracegrad.autograd.node import BackwardNode, edge_of, freed
from tracegrad.errors import ArgumentError, UnsupportedError
from tracegrad.records import record
from tracegrad.state import no_grad, state
from tracegrad.tensor import Tensor
from tracegrad.trace.leaf_gradients import Effect, Leaf, resolved
from tracegrad.trace.tracer import Trace


@record
class Captured:
    """A Tensor from outside the function, its memory, whether it requires a gradient, and the hooks on that."""

    tensor: Tensor
    array: np.ndarray
    requires_grad: bool
    hooks: tuple[Any, ...]

    def fits(self) -> bool:
        """Whether its memory is of the same type, if it was exchanged (`x.data = y`)."""
        now = self.tensor._array
        return now is self.array or (
            now is not None and now.shape == self.array.shape and now.dtype == self.array.dtype
        )


@record
class Effects:
    """What a recording requires of the outside, and what each call does to it.

    outputs:  per effect, the position of the new value among the graph's outputs, None where there is none.
    absent:   (leaf, whether its `.grad` was None): the recording holds while that is so.
    frozen:   (leaf, numbers): Tensors whose numbers Python looked at.
    flags:    the captured Tensors as they were.
    same:     (leaf, Tensor): captured Tensors that were also passed, or the `.grad` of another.
    cast:     positions of the arguments that are Tensors or arrays, with the hooks on them.
    leaves:   whether any of those requires a gradient, so that its hooks matter.
    plain:    outputs beside a backward() inside that have no history.
    identity: which of the arguments, captured Tensors and `.grad`s were one and the same object; None: no matter.
    grad_enabled: whether gradients are recorded around the call; None: no matter.
    returned: (output, leaf): outputs that are Tensors from outside, which are returned themselves.
    spent:    outputs whose history was freed by a backward() inside; `linked` says whether any other has one.
    """

    effects: tuple[Effect, ...]
    outputs: tuple[int | None, ...]
    absent: tuple[tuple[Any, bool], ...]
    frozen: tuple[tuple[Any, np.ndarray], ...]
    flags: tuple[Captured, ...]
    spent: frozenset[int]
    linked: bool
    same: tuple[tuple[Any, Tensor], ...] = ()
    cast: tuple[tuple[int, tuple[Any, ...]], ...] = ()
    leaves: bool = False
    plain: frozenset[int] = frozenset()
    identity: tuple[int, ...] | None = None
    grad_enabled: bool | None = None
    returned: tuple[tuple[int, Leaf], ...] = ()

    @property
    def none(self) -> bool:
        depends = self.effects or self.absent or self.frozen or self.flags or self.same or self.leaves
        return not depends and self.identity is None and self.grad_enabled is None

    def hold(self, leaves: Sequence[Any]) -> bool:
        """Whether the outside is as the recording found it."""
        if self.grad_enabled is not None and self.grad_enabled is not state.grad_enabled:
            return False
        for flag in self.flags:
            tensor, meta = flag.tensor, flag.tensor._meta
            if tensor.requires_grad is not flag.requires_grad or not flag.fits():
                return False
            if meta is not None and (flag.hooks or meta.hooks or meta.post_hooks) and hooks_of(tensor) != flag.hooks:
                return False
        for leaf, absent in self.absent:
            meta = resolved(leaf, leaves)._meta
            if (meta is None or meta.grad is None) is not absent:
                return False
        for leaf, numbers in self.frozen:
            array = resolved(leaf, leaves)._array
            if not np.array_equal(array, numbers, equal_nan=numbers.dtype.kind in "fc"):
                return False
        if any(resolved(leaf, leaves) is not tensor for leaf, tensor in self.same):
            return False
        if self.leaves and any(hooks_of(leaves[position]) != hooks for position, hooks in self.cast):
            return False
        return self.identity is None or self.identity == self.pattern(leaves)

    def pattern(self, leaves: Sequence[Any]) -> tuple[int, ...]:
        """Per argument, captured Tensor and `.grad` the number of the first that is the same object."""
        found = [leaves[position] for position, _ in self.cast]
        found += [flag.tensor for flag in self.flags]
        found += [resolved(leaf, leaves)._meta.grad for leaf, absent in self.absent if not absent]
        first: dict[int, int] = {}
        return tuple(first.setdefault(id(value), number) for number, value in enumerate(found))

    def check_apart(self, leaves: Sequence[Any], inputs: Sequence[Any], n_arguments: int, wrt: Sequence[int]) -> None:
        """Raise UnsupportedError where an array that is written shares memory with another input of this call.

        The first `n_arguments` of the inputs are arguments, of which `wrt` are differentiated and so apart from all.
        What is captured was checked when it was recorded, so it needs a look only where its memory was exchanged.
        """
        exchanged = any(flag.tensor._array is not flag.array for flag in self.flags)
        for effect in self.effects:
            if effect.kind in ("write", "add"):
                target = resolved(effect.target, leaves)
                array = _memory(target)
                if effect.checked and isinstance(target, Tensor):
                    check_history(target)
                count = len(inputs) if exchanged or isinstance(effect.target, int) else n_arguments
                for number in range(count):
                    other = inputs[number]
                    apart = number in wrt or (number >= n_arguments and not isinstance(other, Tensor))
                    memory = _memory(other)
                    if not isinstance(memory, np.ndarray) or (other is target and not apart):
                        continue
                    if not np.may_share_memory(array, memory):
                        continue
                    raise UnsupportedError(
                        "a compiled function modifies an argument in place that shares memory with another input",
                        fix="pass a copy of one of them",
                    )

    def apart_from_writes(self, inputs: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
        """The inputs, with copies of those that will be written: a backward may read what they are now."""
        written = {id(resolved(e.target, leaves)) for e in self.effects if e.kind in ("write", "add")}
        return [_copied(x) if id(x) in written else x for x in inputs]

    def carry_out(self, results: Sequence[Any], leaves: Sequence[Any]) -> None:
        """Do to the outside what the function does."""
        new: dict[int, Tensor] = {  # the .grads to be, by what they are in the recording, which several may share
            id(e.value): resolved(e.source, leaves) for e in self.effects if e.source is not None
        }
        for effect, position in zip(self.effects, self.outputs, strict=True):
            target = resolved(effect.target, leaves)
            result = None if position is None else results[position]
            if effect.kind in ("write", "add"):
                _write(target, result, effect.count, effect.value is not None and effect.value.requires_grad)
            elif effect.kind == "clear":
                if target._meta is not None:
                    target._meta.grad = None
            else:
                assert effect.value is not None
                linked = effect.value.requires_grad and isinstance(result, Tensor) and result.requires_grad
                made = result if linked else Tensor._wrap(np.array(_memory(result)))
                target._ensure_meta().grad = new.setdefault(id(effect.value), made)

    def pass_on(self, outer: Trace, results: Sequence[Tensor], leaves: Sequence[Any]) -> None:
        """Do to a surrounding trace what the function does."""
        for effect, position in zip(self.effects, self.outputs, strict=True):
            if effect.kind != "write" or position is None:
                raise UnsupportedError(
                    "`.grad` is used in a function that is differentiated by tg.grad inside another traced function",
                    fix="call backward() in the outer function",
                )
            target = resolved(effect.target, leaves)
            if not isinstance(target, Tensor):
                raise UnsupportedError(
                    "an array is modified in place by a function that is differentiated inside another traced function",
                    fix="modify a copy, or return the new value",
                )
            with no_grad():
                target.copy_(results[position])
        outer.memory.frozen.extend((resolved(leaf, leaves), numbers) for leaf, numbers in self.frozen)


def _copied(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return np.array(x)
    out = Tensor._wrap(np.array(x._array))
    edge = edge_of(x)
    if edge is not None:
        out._requires_grad, (out._grad_fn, out._output_nr) = True, edge
    return out


def _is_leaf(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def hooks_of(value: Any) -> tuple[Any, ...]:
    """The hooks on the gradient of a leaf, in order."""
    meta = value._meta if isinstance(value, Tensor) else None
    if meta is None or not (meta.hooks or meta.post_hooks):
        return ()
    return (*(meta.hooks or {}).values(), None, *(meta.post_hooks or {}).values())


def _memory(value: Any) -> Any:
    return value._array if isinstance(value, Tensor) else value


def _write(target: Any, result: Any, count: int, linked: bool) -> None:
    """The target's memory becomes the result, and where that is `linked` its history the result's."""
    array = _memory(target)
    if not isinstance(array, np.ndarray):
        raise ArgumentError(
            f"a compiled function modifies an argument in place that is a {type(target).__name__} in this call",
            fix="pass an array",
        )
    if not array.flags.writeable:
        raise ArgumentError(
            "a compiled function modifies an array in place that is read-only", fix="pass a copy: x.copy()"
        )
    np.copyto(array, _memory(result))
    if isinstance(target, Tensor):
        target._ensure_meta().version[0] += count
        if linked and isinstance(result, Tensor) and result.requires_grad and result._grad_fn is not None:
            rebase_history(target, result._grad_fn, result._output_nr)


class SpentHistory(BackwardNode):
    """The history of a result whose saved values were freed by a backward() inside the compiled function."""

    __slots__ = ()

    def __init__(self, out: Tensor):
        self._begin(())
        self._outs = ((out.shape, out.dtype),)

    def _run(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        raise freed()


def collect(
    trace: Trace,
    results: Sequence[Tensor],
    first: int,
    leaves: Sequence[Any],
    arguments: Sequence[int],
    grad_enabled: bool,
) -> tuple[Effects, tuple[Any, ...]]:
    """The effects of a recording with these results, whose own outputs start at `first`; and the values to append.

    `arguments` are the positions among the leaves that the function may modify.
    """
    memory = trace.memory
    effects = tuple(memory.effects())
    positions: list[int | None] = []
    values = []
    for effect in effects:
        positions.append(None if effect.var is None else first + len(values))
        if effect.var is not None:
            values.append(effect.var)
    spent = frozenset(i for i, r in enumerate(results) if memory.gradients.ran_backward and _is_spent(r))
    # Without a backward() inside, the adjoint of the graph decides what has a history.
    ran_backward = memory.gradients.ran_backward
    onward = any(e.kind == "write" and e.value is not None and e.value._grad_fn is not None for e in effects)
    linked = not ran_backward or onward or any(r.requires_grad and i not in spent for i, r in enumerate(results))
    plain = frozenset(i for i, r in enumerate(results) if ran_backward and not r.requires_grad)
    flags = tuple(
        Captured(c, c._array, c.requires_grad, hooks_of(c))
        for c in trace.captured.values()
        if isinstance(c, Tensor) and c._array is not None
    )
    returned = tuple((i, leaf) for i, r in enumerate(results) if (leaf := memory.returned(r)) is not None)
    memory.gradients.restore()
    cast = tuple((i, hooks_of(leaves[i])) for i in arguments if isinstance(leaves[i], (Tensor, np.ndarray)))
    found = Effects(
        effects, tuple(positions), memory.gradients.conditions(), tuple(memory.frozen), flags, spent, linked,
        tuple(memory.met), cast, any(_is_leaf(leaves[i]) for i, _ in cast), plain, returned=returned,
    )  # fmt: skip
    pattern = found.pattern(leaves)
    involved = bool(found.effects or found.absent)
    identity = pattern if involved or pattern != tuple(range(len(pattern))) else None
    # Without effects, what is recorded with gradients serves without them too.
    either = not involved and (grad_enabled or not (flags or any(isinstance(leaves[i], Tensor) for i in arguments)))
    return replace(found, identity=identity, grad_enabled=None if either else grad_enabled), tuple(values)


def _is_spent(result: Tensor) -> bool:
    """Whether the history of a result was freed."""
    stack, seen = [result.grad_fn], set()
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if getattr(node, "saved", ()) is None:
            return True
        stack.extend(successor for successor, _ in node.next_functions)
    return False
