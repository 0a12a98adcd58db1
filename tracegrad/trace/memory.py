"""In-place modification while tracing.

Values of a graph never change, so a write gives the Tensor a new value: `x[i] = v` makes the Tensor `x` stand for
`index_update(x, i, v)` from there on. A view writes through to its base, and every other view of that base derives its
value (and its history) from the base again when it is next asked. A Tensor from outside the trace is represented by a
stand-in; what the stand-ins stand for at the end are the effects of the recording, carried out after each call.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad.autograd.node import AccumulateGrad, BackwardNode, accumulator
from tracegrad.autograd.operation_node import OperationNode
from tracegrad.autograd.views import OVERRIDING, immutable_number, move_retained, overridden_view, replayed
from tracegrad.errors import AutogradError, DTypeError, ShapeError, UnsupportedError
from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Var
from tracegrad.ir.types import Type
from tracegrad.state import setting, state
from tracegrad.tensor import Meta, Tensor
from tracegrad.trace.leaf_gradients import Effect, GradientOf, Leaf, LeafGradients, Live, resolved

if TYPE_CHECKING:
    from tracegrad.trace.tracer import Trace


@dataclass(slots=True)
class _Outside:
    """A Tensor or array from outside, the Tensor that stands for it, and the value it has on entry."""

    value: Any
    leaf: Leaf
    standin: Tensor
    entry: Var
    checked: bool = False  # it was modified while gradients were recorded


class OutsideHistory(BackwardNode):
    """The history of a Tensor that was computed outside the trace, which a backward inside cannot enter."""

    __slots__ = ()

    def __init__(self, value: Tensor):
        self._begin(())
        self._outs = ((value.shape, value.dtype),)

    def _run(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        raise UnsupportedError(
            "backward() inside a traced function reached a Tensor that was computed outside it, from others",
            fix="compute it inside the function, pass x.detach(), or call backward() on the function's result",
        )


class Memory:
    """What one trace knows of memory: stand-ins of what came from outside, `.grad`s that were touched."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self.outside: dict[int, _Outside] = {}
        self.by_standin: dict[int, _Outside] = {}
        self.met: list[tuple[Leaf, Tensor]] = []  # captured Tensors that are an argument or a .grad in this call
        self.gradients = LeafGradients(self)
        self.frozen: list[tuple[Leaf, np.ndarray]] = []
        self._accumulators: list[AccumulateGrad] = []

    # ---- what comes from outside -----------------------------------------------------------------------------------

    def standin(self, value: Tensor) -> Tensor:
        """The Tensor of this trace that stands for one from outside."""
        found = self.outside.get(id(value))
        if found is None:
            tensor = Tensor._traced(self.trace, self.trace._capture(value))
            found = self.watch(value, value, tensor)
            self.mirror(value, tensor)
        elif found.leaf is not value:
            self.met.append((found.leaf, value))
        return found.standin

    def gradient(self, leaf: Tensor, now: Tensor) -> Tensor:
        """The Tensor of this trace that stands for the `.grad` of a leaf from outside, which is `now` in this call."""
        found = self.outside.get(id(now))
        if found is None:
            target = GradientOf(self.name(leaf))
            var = self.trace._capture(Live(functools.partial(resolved, target), now))
            found = self.watch(now, target, Tensor._traced(self.trace, var))
        return found.standin

    def watch(self, value: Any, leaf: Leaf, tensor: Tensor) -> _Outside:
        """Let `tensor` stand for `value`, so that writes to it become effects."""
        found = _Outside(value, leaf, tensor, tensor._var)
        self.outside[id(value)] = found
        self.by_standin[id(tensor)] = found
        return found

    def mirror(self, value: Tensor, tensor: Tensor) -> None:
        """Let gradients of the stand-in go where those of `value` go."""
        if not value.requires_grad:
            return
        tensor._requires_grad = True
        if value.grad_fn is None:
            node = accumulator(value)
            self._accumulators.append(node)
            tensor._ensure_meta().accumulator = weakref.ref(node)
        else:
            inside = value._array is None or self.trace.parent is not None
            tensor._grad_fn = value._grad_fn if inside else OutsideHistory(value)
            tensor._output_nr = value._output_nr if inside else 0

    def own(self, x: Tensor) -> Tensor:
        """`x` if it belongs to this trace, else its stand-in."""
        return x if x._array is None and x._trace is self.trace else self.standin(x)

    def leaf_of(self, x: Tensor) -> Tensor:
        """The Tensor from outside that a stand-in stands for; `x` itself otherwise."""
        found = self.by_standin.get(id(x))
        return found.value if found is not None and isinstance(found.value, Tensor) else x

    def origin(self, x: Tensor) -> Leaf | None:
        """The Tensor from outside that `x` is or stands for."""
        found = self.by_standin.get(id(x)) or self.outside.get(id(x))
        return found.leaf if found is not None and isinstance(found.value, Tensor) else None

    def returned(self, x: Tensor) -> Leaf | None:
        """The Tensor from outside that a result is, also where it is a new `.grad` of one."""
        owner = self.gradients.owner(x)
        return self.origin(x) if owner is None else owner

    def freeze(self, value: Tensor) -> None:
        """Note that the numbers of a Tensor from outside went into the recording, which holds while they last."""
        trace = self.trace
        while trace.parent is not None:
            trace = trace.parent
        outermost = trace.memory
        outermost.frozen.append((outermost.name(value), np.array(value._array)))

    # ---- views -----------------------------------------------------------------------------------------------------

    def note_view(self, op: Any, source: Tensor, attrs: Any, out: Tensor) -> None:
        """`out` shares memory with `source`: remember how to get there."""
        meta = source._ensure_meta()
        if meta.view_reason == "number":
            return  # NumPy makes an array of it
        replay = (*meta.replay, (op, attrs, None))
        if op.name == "reshape" and meta.replay and not _same_but_ones(source.shape, out.shape):
            if not _shares_memory(meta.base, replay):
                return
        base = source if meta.base is None else meta.base
        out._meta = own = Meta(meta.version, base, replay, meta.version[0])
        if op.name == "stop_gradient":
            own.view_reason = "detached"
        elif not state.grad_enabled and base._requires_grad and meta.view_reason is None:
            own.view_reason = "no_grad"
        else:
            own.view_reason = meta.view_reason

    def note_same(self, source: Tensor, out: Tensor, replay: Any) -> None:
        """`out` is `source`, or what `replay` makes of it, as a user's Function returned it: a view that must not be
        modified in place."""
        meta = source._ensure_meta()
        base = source if meta.base is None else meta.base
        out._meta = Meta(meta.version, base, (*meta.replay, *replay), meta.version[0], "custom")

    def detach(self, x: Tensor) -> None:
        """Cut the history of a value of this trace. Raises UnsupportedError for one from outside that has any."""
        from tracegrad.ops.stop import stop_gradient

        target = self.own(x)
        if id(target) in self.by_standin and target.requires_grad:
            raise UnsupportedError(
                "detach_() in a traced function, on a Tensor from outside that requires grad",
                fix="use the result of `.detach()`, or call detach_() outside the function",
            )
        target._var = stop_gradient(target)._var

    # ---- writing ---------------------------------------------------------------------------------------------------

    def apply(self, x: Tensor, compute: Callable[[Tensor], Any], what: str) -> Tensor:
        """Replace the value of `x` by `compute(x)`; `x` itself comes back."""
        target = self.own(x)
        self._check(target)
        result = compute(self._before(target))
        self._store(target, result, what)
        return x

    def replace(self, x: Tensor, value: Any, what: str, node_class: type[BackwardNode]) -> Tensor:
        """Overwrite all of `x`; the gradient flows to `value` alone."""
        from tracegrad.ops.casting import astype, fitting
        from tracegrad.ops.operands import lifted
        from tracegrad.ops.shape import broadcast_to

        target = self.own(x)
        self._check(target)
        before, shape = self._before(target), np.shape(value)
        if len(shape) > x.ndim or any(
            s not in (1, d) for s, d in zip(reversed(shape), reversed(x.shape), strict=False)
        ):
            raise ShapeError(f"{what}: a value of shape {tuple(shape)} cannot be broadcast to {tuple(x.shape)}")
        result = broadcast_to(astype(lifted(fitting(value, x.dtype)), x.dtype), x.shape)
        if state.grad_enabled and before.requires_grad and not result.requires_grad:
            node = node_class(before, None)  # type: ignore[call-arg]
            result = Tensor._traced(self.trace, self.trace.lift(result))
            result._requires_grad, result._grad_fn = True, node
        self._store(target, result, what)
        return x

    def become(self, x: Tensor, result: Tensor, what: str, count: int = 1) -> None:
        """Let a user's Function or a loop that modified `x` in place, `count` times, be what computed it."""

        def computed(before: Tensor) -> Tensor:
            return result

        self.apply(x, computed, what)
        meta = self.own(x)._ensure_meta()
        meta.version[0] += count - 1
        meta.view_version = meta.version[0]

    def _check(self, target: Tensor) -> None:
        from tracegrad.autograd.inplace import _check_history

        meta = target._meta
        if meta is not None and meta.view_reason == "number":
            raise immutable_number()
        base = target if meta is None or meta.base is None else meta.base
        detached = meta is not None and meta.view_reason == "detached"
        if state.grad_enabled and not detached:
            _check_history(target)
            outside = self.by_standin.get(id(base))
            if outside is not None:
                outside.checked = True
                if isinstance(outside.value, Tensor) and outside.value._array is not None:
                    _check_history(outside.value)
        if base._var in self.trace.differentiated and id(base) in self.by_standin:
            raise AutogradError(
                "an argument that is being differentiated is a leaf Variable that requires grad, "
                "and it is being used in an in-place operation",
                fix="write it as a new value (x = x + y), or modify a copy (x = x.copy())",
            )

    def _before(self, target: Tensor) -> Tensor:
        """The value and history of a Tensor, apart from what it will stand for."""
        before = Tensor._traced(self.trace, self.trace.lift(target))
        if target.requires_grad:
            before._requires_grad, before._grad_fn = True, target._grad_fn
            before._output_nr = target._output_nr
            if target._grad_fn is None and target._meta is not None:
                before._ensure_meta().accumulator = target._meta.accumulator
        return before

    def _store(self, target: Tensor, result: Any, what: str) -> None:
        from tracegrad.autograd.inplace import rebase_history
        from tracegrad.ops.casting import astype
        from tracegrad.ops.operands import lifted

        result = lifted(result)
        if result.shape != target.shape:
            raise ShapeError(
                f"{what}: the output with shape {tuple(target.shape)} doesn't match the broadcast shape "
                f"{tuple(result.shape)}",
                fix="write it as a new value instead: y = x + other",
            )
        if not np.can_cast(result.dtype, target.dtype, "same_kind"):
            raise DTypeError(
                f"{what}: the result type {result.dtype} can't be cast to the Tensor's {target.dtype}",
                fix=f"write it as a new value, or convert x first: x.astype({str(result.dtype)!r})",
            )
        result = self.own(astype(result, target.dtype))
        meta = target._ensure_meta()
        base = meta.base
        new = self.trace.lift(result)
        recorded = state.grad_enabled is not False and meta.view_reason != "detached"
        if base is not None:
            changed = self._put(base._var, meta.replay, new)
            base._var = changed if recorded else self._unrecorded(base._var, changed)
        if not recorded and meta.view_reason != "detached":
            new = self._unrecorded(target._var, new)
        target._var = new
        meta.version[0] += 1
        if base is None or (meta.view_reason not in OVERRIDING and not (recorded and meta.view_reason is None)):
            meta.view_version = meta.version[0]  # others are derived again, or (OVERRIDING) their next use is an error
        if not (state.grad_enabled and result.requires_grad and target.dtype.kind in "fc"):
            return
        node = result._grad_fn
        if isinstance(node, OperationNode) and node.output is not None:
            node.counter = meta.version, meta.version[0]  # it is this memory now: to modify that again is noticed
        if base is None or meta.view_reason == "detached":
            former, former_position = target._grad_fn, target._output_nr
            target._requires_grad, target._grad_fn, target._output_nr = True, result._grad_fn, result._output_nr
            move_retained(target, former, former_position)
        else:
            rebase_history(target, result._grad_fn, result._output_nr)

    def _unrecorded(self, former: Var, new: Var) -> Var:
        """`new`, of which gradients see no more than that it was `former`."""
        from tracegrad.ops.unrecorded import Unrecorded

        if not (new.type.inexact and self.trace.depends_on_differentiated(former)):
            return new
        return self.trace.emit(Unrecorded, (former, new), (Type(new.type.dtype, new.type.shape),))[0]._var

    def _put(self, base: Var, replay: Any, value: Var) -> Var:
        """The base with the elements that a view sees replaced."""
        trace = self.trace
        if not replay:
            return value
        with setting(trace=trace, grad_enabled=True):  # Tensors without history: nothing is linked
            parents = [Tensor._traced(trace, base)]
            for op, attrs, _ in replay[:-1]:
                parents.append(op.apply(parents[-1], **attrs))
            result = Tensor._traced(trace, value)
            for (op, attrs, _), parent in zip(reversed(replay), reversed(parents), strict=True):
                result = op.put(parent, result, **attrs)
            return trace.lift(result)

    # ---- the end ---------------------------------------------------------------------------------------------------

    def effects(self) -> list[Effect]:
        """What the recorded function does to the outside. Raises UnsupportedError where memory overlaps."""
        return self._writes("write", False) + self.gradients.effects()

    def writes_to_gradients(self) -> list[Effect]:
        """The `.grad`s that were modified in place."""
        return self._writes("add", True)

    def _writes(self, kind: str, to_gradients: bool) -> list[Effect]:
        from tracegrad.ops.stop import stop_gradient

        found = []
        for outside in self.by_standin.values():
            if outside.standin._var is outside.entry or isinstance(outside.leaf, GradientOf) is not to_gradients:
                continue
            self._check_writable(outside)
            count = outside.standin._version
            new = outside.standin
            if not outside.checked and new._var.type.inexact:
                new = stop_gradient(new)  # its history stays
            found.append(Effect(kind, outside.leaf, new._var, new, count, outside.checked))
        return found

    def name(self, leaf: Any) -> Leaf:
        """The position of an argument, which is another object in the next call; anything else itself."""
        outside = self.outside.get(id(leaf))
        return leaf if outside is None else outside.leaf

    def forget(self, value: Any) -> None:
        """A captured value is not captured after all."""
        outside = self.outside.pop(id(value), None)
        if outside is not None:
            del self.by_standin[id(outside.standin)]

    def _check_writable(self, written: _Outside) -> None:
        array = getattr(written.value, "_array", written.value)
        if not isinstance(array, np.ndarray):
            if isinstance(written.value, Tensor):
                return  # a value of an outer trace
            raise UnsupportedError(
                f"an argument that is a {type(written.value).__name__} is modified in place, but numbers are immutable",
                fix="pass an array, or write it as a new value",
            )
        captured = list(self.trace.captured.values())
        others = [*captured, *(o.value for o in self.outside.values())]
        for other in others:
            other_array = getattr(other, "_array", other)
            # An array that is captured is read apart from the argument that it is.
            same = other is written.value and (isinstance(other, Tensor) or all(other is not c for c in captured))
            if same or not isinstance(other_array, np.ndarray):
                continue
            if np.may_share_memory(array, other_array):
                raise UnsupportedError(
                    "a traced function modifies an array in place that shares memory with another one it uses",
                    fix="pass or capture the array once, and make views of it inside the function",
                )


def _same_but_ones(shape: tuple[DimLike, ...], other: tuple[DimLike, ...]) -> bool:
    """Whether the shapes differ in axes of size 1 alone: then a reshape never copies."""
    return [d for d in shape if d != 1] == [d for d in other if d != 1]


def _shares_memory(base: Any, replay: Any) -> bool:
    """Whether NumPy gives a view for this chain on a C-contiguous array, or copies at the last step."""
    if not all(isinstance(d, int) for d in base.shape):
        return True
    array = np.empty(base.shape, bool)
    for op, attrs, _ in replay:
        before, array = array, op.forward(array, **attrs)
    return bool(np.may_share_memory(before, array)) or array.size == 0


def refresh_view(view: Tensor) -> None:
    """Derive value and history of a traced view from what its base stands for now."""
    meta = view._meta
    assert meta is not None and meta.base is not None
    if meta.view_reason in OVERRIDING and view._requires_grad:
        raise overridden_view(meta.view_reason)
    with setting(grad_enabled=True, trace=view._trace):
        fresh = replayed(meta.base, meta.replay)
    view._var = fresh._var
    if meta.view_reason != "detached" and fresh.requires_grad:
        former, former_position = view._grad_fn, view._output_nr
        view._requires_grad, view._grad_fn, view._output_nr = True, fresh._grad_fn, fresh._output_nr
        move_retained(view, former, former_position)
    meta.view_version = meta.version[0]
