"""Views: Tensors that share memory share the version counter, and a view can derive its history from its base again."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tracegrad.errors import AutogradError
from tracegrad.state import aside, setting, state
from tracegrad.tensor import Meta, Tensor

if TYPE_CHECKING:
    from tracegrad.function import Operation

Replay = tuple[tuple[Any, Mapping[str, Any], int | None], ...]


def note_view(
    op: type[Operation], args: tuple[Any, ...], attrs: Mapping[str, Any], out: Tensor, position: int | None = None
) -> None:
    """Where `out` lies in the memory of one of the operands: share the counter, remember how to get there.

    `position` says which one of several outputs it is.
    """
    array = out._array
    for source in args:
        if not isinstance(source, Tensor):
            continue
        held = source._array
        if array is held or array.base is held or (held.base is not None and array.base is held.base):
            break
    else:
        return
    origin = source._meta or source._ensure_meta()
    version, reason = origin.version, origin.view_reason
    base = source if origin.base is None else origin.base
    if not op.differentiable:
        out._meta = Meta(version)
        return
    if aside and not state.grad_enabled and base._requires_grad:
        reason = "no_grad"
    elif position is not None:
        reason = "multi"
    out._meta = Meta(version, base, (*origin.replay, (op, attrs, position)), version[0], reason)


def alias(tensor: Tensor) -> Tensor:
    """Another Tensor over the same memory with the same version counter and no history."""
    out = Tensor._wrap(tensor._array)
    out._meta = Meta(tensor._ensure_meta().version)
    return out


def replayed(base: Any, replay: Replay) -> Any:
    """What the operations of a view make of `base`."""
    for op, attrs, position in replay:
        base = op.apply(base, **attrs)
        if position is not None:
            base = base[position]
    return base


def refresh(view: Tensor) -> None:
    """Give a view the history that its base has now."""
    meta = view._meta
    assert meta is not None and meta.base is not None
    if meta.base._requires_grad and view.dtype.kind in "fc":
        if meta.view_reason in OVERRIDING and view._requires_grad:
            raise overridden_view(meta.view_reason)
        with setting(grad_enabled=True, trace=None):
            fresh = replayed(meta.base, meta.replay)
        former, former_position = view._grad_fn, view._output_nr
        view._requires_grad, view._grad_fn, view._output_nr = True, fresh._grad_fn, fresh._output_nr
        move_retained(view, former, former_position)
    meta.view_version = meta.version[0]


def move_retained(x: Tensor, former: Any, former_position: int) -> None:
    """A gradient that is to be retained is that of the new value."""
    meta = x._meta
    if meta is None or not meta.retains_grad:
        return
    if former is not None and former._hooks is not None:
        former._hooks.retain.pop(former_position, None)
    x._grad_fn._ensure_hooks().retain[x._output_nr] = weakref.ref(x)


OVERRIDING = ("custom", "multi")  # views whose history cannot be derived from their base again


def overridden_view(reason: str | None) -> AutogradError:
    """For a view that a user's Function returned, or one of several, whose memory was modified since."""
    if reason == "multi":
        return AutogradError(
            "this Tensor is a view that was made together with others (unbind, split, chunk), and its base or another "
            "view of its base has been modified inplace",
            fix="make it by an index, or modify a copy: x.clone()",
        )
    return AutogradError(
        "this Tensor is a view that a user's Function returned, and its base or another view of its base has been "
        "modified inplace: its history would leave that Function's backward out",
        fix="return a clone from forward, or modify a copy: x.clone()",
    )


def immutable_number() -> AutogradError:
    """For an element that a function of ndarrays has read."""
    return AutogradError(
        "x[i] is a number, as NumPy's elements are, and is being modified in place",
        fix="write to the array, x[i] = ..., or read a view of it, x[i, ...]",
    )


def mark_inference(outputs: tuple[Tensor, ...]) -> None:
    """These Tensors were made under inference_mode."""
    for out in outputs:
        out._ensure_meta().inference = True
