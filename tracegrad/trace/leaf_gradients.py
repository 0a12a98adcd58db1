"""The `.grad` of leaves from outside while a function is traced: read afresh at each call, set when the call ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracegrad.autograd.node import as_tensor, detached
from tracegrad.errors import UnsupportedError
from tracegrad.ir.graph import Var
from tracegrad.records import record
from tracegrad.state import state
from tracegrad.tensor import Tensor

if TYPE_CHECKING:
    from tracegrad.trace.memory import Memory

Leaf = Any  # a Tensor or ndarray from outside, the position of an argument, or a GradientOf


@record
class GradientOf:
    """The `.grad` that `owner`, a Leaf, has in the call."""

    owner: Any


def resolved(leaf: Leaf, leaves: Sequence[Any]) -> Any:
    """What a Leaf is in a call with these argument leaves."""
    if isinstance(leaf, GradientOf):
        return resolved(leaf.owner, leaves)._meta.grad
    return leaves[leaf] if isinstance(leaf, int) else leaf


class Live:
    """A captured value that is read afresh at each call: `read(leaves)`, from the argument leaves of that call.

    `now` is what it is in the run that is recorded.
    """

    __slots__ = ("now", "read")

    def __init__(self, read: Callable[[Sequence[Any]], Any], now: Any):
        self.read, self.now = read, now


@record
class Effect:
    """Something a call does to the outside: `kind` is write, grad (a new .grad), add (into .grad's memory) or clear.

    `target` is what is modified, `var` its new value; `count` is how often a write raises the version; `checked` says
    that it was modified while gradients were recorded, which not every Tensor may be. A new .grad that is itself a
    Tensor from outside is `source`.
    """

    kind: str
    target: Leaf
    var: Var | None = None
    value: Tensor | None = None
    count: int = 1
    checked: bool = False
    source: Leaf | None = None


@dataclass(slots=True)
class _Gradient:
    """The `.grad` of a leaf from outside: what it was on entry, and the stand-in of that once it was read."""

    leaf: Tensor
    before: Tensor | None
    read: bool = False
    assigned: bool = False
    standin: Tensor | None = None


def backward_in_body() -> UnsupportedError:
    return UnsupportedError(
        "backward() inside forward of a Function or inside a loop would add to the `.grad` of a Tensor from outside",
        fix="use tg.autograd.grad(y, x), and return or add what it gives",
    )


class LeafGradients:
    """Per leaf from outside what happened to its `.grad`; `ran_backward` says whether a backward() ran."""

    def __init__(self, memory: Memory):
        self.memory = memory
        self.known: dict[int, _Gradient] = {}
        self.ran_backward = False

    def touch(self, x: Tensor) -> Tensor:
        """Remember the `.grad` a leaf from outside has on entry, before it is assigned; the leaf."""
        leaf = self.memory.leaf_of(x)
        if leaf._array is not None and id(leaf) not in self.known:
            meta = leaf._meta
            self.known[id(leaf)] = _Gradient(leaf, None if meta is None else meta.grad)
        return leaf

    def assign(self, x: Tensor, value: Tensor | None) -> None:
        """`x.grad = value`."""
        leaf = self.touch(x)
        known = self.known.get(id(leaf))
        if known is not None:
            known.assigned = True
        leaf._ensure_meta().grad = value

    def read(self, x: Tensor) -> Tensor | None:
        """`x.grad`, which for a leaf from outside is read afresh at each call."""
        leaf = self.touch(x)
        meta = leaf._ensure_meta()
        known = self.known.get(id(leaf))
        if known is not None and not known.read and not known.assigned:
            known.read = True
            if known.before is not None:
                known.standin = meta.grad = self.memory.gradient(leaf, known.before)
        return meta.grad

    def accumulate(self, leaf: Tensor, g: Any) -> None:
        """Add `g` to the `.grad` of a leaf."""
        from tracegrad.ops.arithmetic import Add

        self.ran_backward = True
        former = self.read(leaf)
        leaf = self.memory.leaf_of(leaf)
        if leaf._array is None and leaf._trace is not self.memory.trace:
            raise backward_in_body()
        g = self.memory.own(as_tensor(g))
        meta = leaf._ensure_meta()
        if former is None:
            meta.grad = g.clone() if state.grad_enabled and g.requires_grad else detached(g)
        elif state.grad_enabled:
            meta.grad = Add.apply(former, g)
        else:

            def add(x: Tensor) -> Any:
                return Add.apply(x, g)

            self.memory.apply(former, add, "accumulation of gradients")

    def owner(self, x: Tensor) -> GradientOf | None:
        """The `.grad` of a leaf from outside that `x` is by now."""
        for known in self.known.values():
            if known.leaf._meta is not None and known.leaf._meta.grad is x:
                return GradientOf(self.memory.name(known.leaf))
        return None

    def restore(self) -> None:
        """Give the leaves the `.grad` they had: it is each call that changes them."""
        for known in self.known.values():
            if known.leaf._meta is not None:
                known.leaf._meta.grad = known.before

    def conditions(self) -> tuple[tuple[Leaf, bool], ...]:
        """The leaves whose `.grad` was looked at, and whether it was None."""
        return tuple((self.memory.name(k.leaf), k.before is None) for k in self.known.values() if k.read)

    def effects(self) -> list[Effect]:
        """What becomes of the `.grad`s."""
        found = self.memory.writes_to_gradients()
        for known in self.known.values():
            target = self.memory.name(known.leaf)
            final = None if known.leaf._meta is None else known.leaf._meta.grad
            if final is None:
                if known.assigned:
                    found.append(Effect("clear", target))
            elif final is not known.standin and final is not known.before:
                new = self.memory.trace.lift(final)
                found.append(Effect("grad", target, new, final, source=self.memory.origin(final)))
        return found
