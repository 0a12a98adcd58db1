"""Forward mode in eager code, by dual numbers, with the names of `torch.autograd.forward_ad`.

Inside a `dual_level` a Tensor may carry a tangent; every operation that meets one computes that of its result, by the
transpose of its own backward (see `passes/tangent`). Compiled functions run operation by operation there. Levels may be
nested: the tangents of the inner one are computed by operations that the outer one sees.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tracegrad import tree
from tracegrad.autograd.modes import modes
from tracegrad.autograd.spent import spend
from tracegrad.autograd.views import alias, replayed
from tracegrad.errors import (
    AutogradError,
    BackwardNotImplementedError,
    DTypeError,
    LeavesTraceError,
    ShapeError,
    UnsupportedError,
)
from tracegrad.ir.types import Type
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor


class Level:
    """One level of dual numbers, and the Tensors that carry a tangent of it."""

    def __init__(self, outer: Level | None):
        self.outer = outer
        self.carriers: list[weakref.ref[Tensor]] = []
        self.arguments: list[Tensor] = []  # of the function that is differentiated, which must not modify them


class dual_level:
    """A context manager: Tensors made by `make_dual` inside carry their tangents until its end."""

    def __enter__(self) -> Level:
        return enter_dual_level()

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()


def enter_dual_level() -> Level:
    """Begin a level of dual numbers, inside the present one if there is one."""
    state.dual = Level(state.dual)
    modes.special += 1
    return state.dual


def exit_dual_level(level: Level | None = None) -> None:
    """End the innermost level: its tangents are dropped. Raises AutogradError where there is none."""
    ending = state.dual
    if ending is None or (level is not None and level is not ending):
        raise AutogradError("exit_dual_level: this is not the innermost level of dual numbers", fix="use dual_level()")
    state.dual = ending.outer
    modes.special -= 1
    for reference in ending.carriers:
        tensor = reference()
        if tensor is not None and tensor._meta is not None and tensor._meta.tangents:
            tensor._meta.tangents.pop(ending, None)


class UnpackedDualTensor(NamedTuple):
    """A Tensor without its tangent, and the tangent (None where it has none)."""

    primal: Tensor
    tangent: Tensor | None


def make_dual(tensor: Tensor, tangent: Any, *, level: Level | None = None) -> Tensor:
    """The same value carrying `tangent`, which must have its shape and dtype. Needs a dual level around it."""
    level = state.dual if level is None else level
    if level is None:
        raise AutogradError(
            "Trying to create a dual Tensor for forward AD but no level exists", fix="with forward_ad.dual_level():"
        )
    if tensor.dtype.kind not in "fc":
        raise DTypeError(f"a Tensor of dtype {tensor.dtype} has no tangent", fix="make it a float")
    tangent = tangent if isinstance(tangent, Tensor) else Tensor._wrap(np.asarray(tangent, tensor.dtype))
    if tangent.shape != tensor.shape or tangent.dtype != tensor.dtype:
        raise ShapeError(
            f"the tangent is {tangent.dtype}{list(tangent.shape)}, the Tensor {tensor.dtype}{list(tensor.shape)}",
            fix="give the tangent the Tensor's shape and dtype",
        )
    dual = same_value(tensor)
    attach(dual, level, tangent)
    return dual


def unpack_dual(tensor: Tensor, *, level: Level | None = None) -> UnpackedDualTensor:
    """Primal and tangent of a Tensor at the innermost level."""
    level = state.dual if level is None else level
    tangent = None if level is None else tangent_of(tensor, level)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    with setting(dual=level.outer):  # type: ignore[union-attr]
        return UnpackedDualTensor(same_value(tensor), tangent)


# ---- tangents --------------------------------------------------------------------------------------------------------


def attach(tensor: Tensor, level: Level, tangent: Tensor) -> None:
    """Let the Tensor carry a tangent, of its memory as it is now."""
    meta = tensor._ensure_meta()
    if meta.tangents is None:
        meta.tangents = {}
    meta.tangents[level] = (tangent, meta.version[0])
    level.carriers.append(weakref.ref(tensor))


def tangent_of(tensor: Any, level: Level) -> Tensor | None:
    """The tangent a Tensor carries at that level. Raises AutogradError where its memory has been modified since."""
    meta = tensor._meta if isinstance(tensor, Tensor) else None
    if meta is None:
        return None
    found = meta.tangents.get(level) if meta.tangents else None
    if found is not None and found[1] == meta.version[0]:
        return found[0]  # type: ignore[no-any-return]
    of_base = None if meta.base is None else tangent_of(meta.base, level)
    if of_base is not None:
        with setting(dual=level.outer):
            tangent = replayed(of_base, meta.replay)
        attach(tensor, level, tangent)
        return tangent  # type: ignore[no-any-return]
    if found is not None:
        raise UnsupportedError(
            "a Tensor that carries a tangent has been modified in place through detach() or another Tensor that shares "
            "its memory",
            fix="write it as a new value in code that forward mode goes through",
        )
    return None


def levels() -> list[Level]:
    """The active levels, the innermost first."""
    found, level = [], state.dual
    while level is not None:
        found.append(level)
        level = level.outer
    return found


def carries(values: Sequence[Any]) -> bool:
    """Whether any of the values has a tangent at an active level."""
    return any(tangent_of(v, level) is not None for level in levels() for v in values)


def copy_tangents(source: Tensor, target: Tensor) -> None:
    """Let `target`, which has the value of `source` now, carry the same tangents."""
    for level in levels():
        tangent = tangent_of(source, level)
        if tangent is not None:
            attach(target, level, tangent)


def same_value(tensor: Tensor) -> Tensor:
    """Another Tensor of the same value with the same history and, at the active levels, the same tangents."""
    if tensor.requires_grad and state.grad_enabled:
        from tracegrad.ops.arithmetic import Positive

        return Positive.apply(tensor)  # type: ignore[no-any-return]
    out = alias(tensor)
    copy_tangents(tensor, out)
    return out


def without_history(tensor: Any) -> Any:
    """A Tensor cut off from the backward graph, and so its tangents; anything else as it is."""
    if not isinstance(tensor, Tensor) or not tensor.requires_grad:
        return tensor
    out = alias(tensor)
    for level in levels():
        tangent = tangent_of(tensor, level)
        if tangent is not None:
            attach(out, level, without_history(tangent))
    return out


def push(op: Any, args: tuple[Any, ...], attrs: Mapping[str, Any], outputs: tuple[Tensor, ...]) -> None:
    """Give the outputs of a built-in operation the tangents that follow from those of its operands."""
    if not op.differentiable:
        return
    for level in levels():
        given = {i: t for i, a in enumerate(args) if (t := tangent_of(a, level)) is not None}
        if not given:
            continue
        with setting(dual=level.outer, grad_enabled=state.grad_enabled):
            found = _transposed(lambda *operands: op.apply(*operands, **attrs), args, given, None)[1]
        for out, tangent in zip(outputs, found, strict=True):
            if tangent is not None:
                attach(out, level, tangent)
    kept = getattr(outputs[0]._grad_fn, "output", None)
    if isinstance(kept, Tensor):
        copy_tangents(outputs[0], kept)


def _transposed(
    call: Callable[..., Any], args: tuple[Any, ...], given: Mapping[int, Tensor], function: Any
) -> tuple[Any, list[Tensor | None]]:
    """What `call` returns for the args, linked to them, and the tangents of its outputs: the pullback of its pullback.

    `function` is the user's Function that is called, None for a built-in operation.
    """
    from tracegrad.autograd.api import grad

    outer = state.grad_enabled and any(isinstance(a, Tensor) and a.requires_grad for a in (*args, *given.values()))
    operands = list(args)
    with setting(grad_enabled=True):
        for i in given:
            operands[i] = _variable(args[i], outer)
        result = call(*operands)
        results = result if isinstance(result, tuple) else (result,)
        outputs = [r for r in results if isinstance(r, Tensor) and r.requires_grad and r.dtype.kind in "fc"]
        if not outputs:
            return result, [None] * len(results)
        dummies = [Tensor(np.zeros(r.shape, r.dtype), requires_grad=True) for r in outputs]
        variables = {i: operands[i] for i in given}
        spend([*dummies, *(v for v in variables.values() if v.is_leaf)])
        try:
            pulled = grad(outputs, list(variables.values()), dummies, create_graph=True, allow_unused=True)
        except (AutogradError, BackwardNotImplementedError, LeavesTraceError) as error:
            raise _no_jvp(function, error) from error
        pairs = [(g, given[i]) for i, g in zip(variables, pulled, strict=True) if g is not None]
        if function is not None and any(not g.requires_grad for g, _ in pairs):
            raise _no_jvp(function, None)
        pairs = [(g, t) for g, t in pairs if g.requires_grad]
        if not pairs:
            return result, [None] * len(results)
        gradients, tangents = zip(*pairs, strict=True)
    try:
        # With create_graph the engine runs on Tensors, so that an outer level sees what it does.
        recorded = outer or state.dual is not None
        found = grad(gradients, dummies, tangents, create_graph=recorded, allow_unused=True)
    except AutogradError as error:
        raise _no_jvp(function, error) from error
    if recorded and not outer:
        found = tuple(map(without_history, found))
    by_output = dict(zip(map(id, outputs), found, strict=True))
    return result, [by_output.get(id(r)) for r in results]


def _no_jvp(function: Any, error: Exception | None) -> Exception:
    if function is None:
        return error if error is not None else AutogradError("an operation without a forward derivative")
    return BackwardNotImplementedError(
        "You must implement the jvp function for custom autograd.Function to use it with forward mode AD: "
        f"{function.__name__} has none, and its backward cannot be differentiated in turn",
        fix="write a static method jvp(ctx, *grad_inputs) that returns one tangent per output",
    )


def _variable(value: Tensor, linked: bool) -> Tensor:
    """A Tensor to differentiate with respect to, over the same memory; with the history of `value` if linked."""
    from tracegrad.ops.arithmetic import Positive

    if value.requires_grad and linked:
        return Positive.apply(value)  # type: ignore[no-any-return]
    out = Tensor._wrap(value._array)  # type: ignore[arg-type]
    copy_tangents(value, out)
    out._requires_grad = True
    return out


# ---- users' Functions ------------------------------------------------------------------------------------------------


def push_function(cls: Any, args: tuple[Any, ...], apply: Callable[..., Any]) -> Any:
    """Apply a user's Function, some of whose arguments carry tangents, by its `jvp`, or by the transpose of backward.

    `apply(*args)` runs it without tangents: (what it returned, its ctx).
    """
    active = levels()
    level = next(x for x in active if any(tangent_of(a, x) is not None for a in args))
    given = {i: t for i, a in enumerate(args) if (t := tangent_of(a, level)) is not None}
    with setting(dual=level.outer):
        if overrides_jvp(cls):
            result, ctx = apply(*args)
            found = call_jvp(cls, ctx, args, given, result)
        else:
            result, found = _transposed(lambda *operands: apply(*operands)[0], args, given, cls)
    results = result if isinstance(result, tuple) else (result,)
    linked = state.grad_enabled and any(isinstance(a, Tensor) and a.requires_grad for a in args)
    finished = []
    for out, tangent in zip(results, found, strict=True):
        if isinstance(out, Tensor) and out.requires_grad and not linked:
            out = out.detach()
        if tangent is not None:
            attach(out, level, tangent)
        finished.append(out)
    return tuple(finished) if isinstance(result, tuple) else finished[0]


def overrides_jvp(cls: Any) -> bool:
    """Whether the Function has a jvp of its own."""
    from tracegrad.function import Function

    return cls.jvp is not Function.jvp


def call_jvp(
    cls: Any, ctx: Any, args: tuple[Any, ...], given: Mapping[int, Tensor], result: Any
) -> list[Tensor | None]:
    """One tangent per output, from the user's jvp."""
    tangents = [given.get(i) for i in range(len(args))]
    if ctx._materialize:
        tangents = [
            Tensor._wrap(np.zeros(a.shape, a.dtype))
            if t is None and isinstance(a, Tensor) and a.dtype.kind in "fc"
            else t
            for a, t in zip(args, tangents, strict=True)
        ]
    with ctx.in_jvp():
        found = cls.jvp(ctx, *tangents)
    return checked_tangents(cls, found, result)


def checked_tangents(cls: Any, found: Any, result: Any) -> list[Tensor | None]:
    """What jvp returned, one value per output. Raises AutogradError for a wrong count, shape or dtype."""
    results = result if isinstance(result, tuple) else (result,)
    values = list(found) if isinstance(found, tuple) else [found]
    if len(values) != len(results):
        raise AutogradError(
            f"{cls.__name__}.jvp returned an incorrect number of tangents (expected {len(results)}, got {len(values)})",
            fix="return one tangent, or None, per output of forward",
        )
    for i, (value, out) in enumerate(zip(values, results, strict=True)):
        if value is None:
            continue
        if not isinstance(value, Tensor):
            value = values[i] = Tensor._wrap(np.asarray(value))
        expected: Type | None = out.type if isinstance(out, Tensor) else None
        if expected is None or value.shape != expected.shape or value.dtype != expected.dtype:
            raise AutogradError(
                f"{cls.__name__}.jvp returned an invalid tangent at position {i}: {value.dtype}{list(value.shape)} "
                f"for an output {expected}",
                fix="return a tangent of the output's shape and dtype, None for what is no Tensor",
            )
    return values


# ---- jvp by dual numbers ---------------------------------------------------------------------------------------------


def eager_jvp(function: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool) -> tuple[Any, ...]:
    """What `tg.jvp` returns, operation by operation."""
    from tracegrad.transforms.eager import as_eager, plain_code, plain_unless_linked
    from tracegrad.transforms.record import call_user

    leaves, spec = tree.flatten(tuple(primals))
    given, _ = tree.flatten(tuple(tangents))
    tensors = any(isinstance(leaf, Tensor) for leaf in (*leaves, *given))
    with dual_level() as level:
        with setting(dual=level.outer):
            wrapped = [as_eager(np.float64(x) if type(x) is float else x) for x in leaves]
            duals = [same_value(x) for x in wrapped]
        for dual, tangent in zip(duals, map(as_eager, given), strict=True):
            attach(dual, level, tangent)
            level.arguments.append(dual)
        with setting(differentiating=True, **plain_code(tensors)):
            result = call_user(function, tree.unflatten(spec, duals), {})
        value, aux = result if has_aux else (result, None)
        flat, out_spec = tree.flatten(value)
        pushed = [_pushed(leaf, level) for leaf in flat]
    convert = (lambda leaf: leaf) if tensors or state.dual is not None else plain_unless_linked
    tangent = tree.unflatten(out_spec, [convert(t) for t in pushed])
    outputs = (tree.map_leaves(convert, value), tangent)
    return (*outputs, tree.map_leaves(convert, aux)) if has_aux else outputs


def _pushed(leaf: Any, level: Level) -> Any:
    tangent = tangent_of(leaf, level)
    if tangent is not None:
        return tangent
    shape = np.shape(leaf) if not isinstance(leaf, Tensor) else leaf.shape
    dtype = leaf.dtype if isinstance(leaf, Tensor) and leaf.dtype.kind in "fc" else np.float64
    return Tensor._wrap(np.zeros(shape, dtype))
