"""gradcheck and gradgradcheck: derivatives against central differences, with PyTorch's parameters and meaning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.autograd.api import grad
from tracegrad.autograd.check_forward import check_batched_forward, check_forward
from tracegrad.autograd.jacobians import (
    analytical_jacobian,
    fast_mismatch,
    mismatch,
    numerical_jacobian,
    outputs_of,
    pulled_back,
    random_like,
    values_of,
)
from tracegrad.errors import ArgumentError, AutogradError, GradcheckError, TracegradError
from tracegrad.records import record
from tracegrad.state import setting
from tracegrad.tensor import Tensor


@record
class Settings:
    """The parameters of one check."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_undefined_grad: bool
    check_grad_dtypes: bool
    check_batched_grad: bool
    fast_mode: bool


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of `func` agree with central differences of step `eps`.

    inputs: a Tensor, an ndarray, or a tuple of them and other arguments. Tensors with requires_grad are checked;
        if there is none, all floating ndarrays are.
    check_forward_ad: compare the Jacobians of forward mode (dual numbers) too.
    check_batched_grad, check_batched_forward_grad: compare derivatives of several rows at once with one by one.
    fast_mode: compare along one random direction per input and output instead of whole Jacobians.
    Raises GradcheckError (a RuntimeError) with both Jacobians and the worst entry, or returns False without
    `raise_exception`; bad inputs raise in any case.
    """
    settings = Settings(
        eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad, fast_mode
    )
    if check_batched_grad and not check_backward_ad:
        raise ArgumentError("check_batched_grad=True checks gradients, but check_backward_ad is False")
    if check_batched_forward_grad and not check_forward_ad:
        raise ArgumentError("check_batched_forward_grad=True needs check_forward_ad=True")
    if not (check_backward_ad or check_forward_ad):
        raise ArgumentError("nothing to check: both check_backward_ad and check_forward_ad are False")
    arguments = _as_arguments(inputs)
    try:
        with setting(grad_enabled=True):
            _check(func, arguments, settings, check_backward_ad)
            if check_forward_ad:
                outputs, wrt = outputs_of(func(*arguments)), _differentiable(arguments)
                check_forward(func, arguments, outputs, wrt, settings)
                if check_batched_forward_grad:
                    check_batched_forward(func, arguments, wrt)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """gradcheck of the gradients of `func`, with respect to its inputs and to the cotangents they start from.

    grad_outputs: the cotangents; drawn at random (with a fixed seed) if None.
    check_rev_over_rev, check_fwd_over_rev: differentiate the gradients by backward, and by dual numbers.
    """
    arguments = _as_arguments(inputs)
    with setting(grad_enabled=True):
        outputs = outputs_of(func(*arguments))
    differentiable = [o for o in outputs if o.requires_grad]
    if not differentiable:
        raise GradcheckError("no output of the function requires grad, so there is nothing to differentiate twice")
    cotangents = _cotangents(differentiable, grad_outputs, gen_non_contig_grad_outputs)
    count = len(arguments)

    def gradients(*values: Any) -> tuple[Any, ...]:
        given, seeds = values[:count], values[count:]
        results = [o for o in outputs_of(func(*given)) if o.requires_grad]
        wrt = [v for v in given if isinstance(v, Tensor) and v.requires_grad]
        found = grad(results, wrt, seeds, create_graph=True, allow_unused=True)
        return tuple(g for g in found if isinstance(g, Tensor) and g.requires_grad)

    return gradcheck(
        gradients, (*arguments, *cotangents), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev, fast_mode=fast_mode,
    )  # fmt: skip


def _cotangents(outputs: Sequence[Tensor], given: Any, non_contiguous: bool) -> list[Tensor]:
    if given is not None:
        values = (given,) if isinstance(given, (Tensor, np.ndarray)) else tuple(given)
        return [_leaf(v) for v in values]
    rng = np.random.default_rng(0)
    drawn = []
    for out in outputs:
        array = random_like(rng, out._array).astype(out.dtype)
        if non_contiguous and array.ndim:
            array = np.repeat(array[..., None], 2, axis=-1)[..., 0]
        drawn.append(_leaf(Tensor._wrap(array)))
    return drawn


def _leaf(value: Any) -> Tensor:
    if isinstance(value, Tensor) and value.requires_grad:
        return value
    out = Tensor._wrap(value._array if isinstance(value, Tensor) else np.array(value))
    out.requires_grad = True
    return out


def _as_arguments(inputs: Any) -> tuple[Any, ...]:
    """The arguments; where no Tensor requires grad, Tensors that do over the floating arrays among them."""
    arguments = (inputs,) if isinstance(inputs, (Tensor, np.ndarray, np.generic, float)) else tuple(inputs)
    if not any(isinstance(a, Tensor) for a in arguments):
        arguments = tuple(
            _leaf(a) if isinstance(a, (np.ndarray, np.generic, float)) and np.asarray(a).dtype.kind in "fc" else a
            for a in arguments
        )
    return arguments


def _check(func: Any, arguments: tuple[Any, ...], s: Settings, backward_ad: bool) -> None:
    _check_inputs(arguments)
    outputs = outputs_of(func(*arguments))
    checked = [(i, o) for i, o in enumerate(outputs) if o.requires_grad]
    if not checked:
        _check_no_dependence(func, arguments, outputs, s)
        return
    for i, out in enumerate(outputs):
        if out.dtype.kind not in "fc" and out.requires_grad:
            raise GradcheckError(f"output {i} of dtype {out.dtype} requires grad")
    if backward_ad:
        check = _check_directions if s.fast_mode else _check_jacobians
        for position, out in checked:
            check(func, arguments, position, out, s)
            if s.nondet_tol is not None:
                _check_reentrant(arguments, position, out, s)
        _check_multiplied(arguments, [o for _, o in checked])
        if s.check_undefined_grad:
            _check_undefined(func, arguments)
        if s.check_batched_grad:
            _check_batched(arguments, checked)


def _check_inputs(arguments: tuple[Any, ...]) -> None:
    wrt = _differentiable(arguments)
    if not wrt:
        raise _bad_input(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True"
        )
    for i, x in wrt:
        if x.dtype not in (np.dtype("f8"), np.dtype("c16")):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex: its {x.dtype} "
                "is too coarse for the differences taken here, so the check will likely fail",
                UserWarning,
                stacklevel=4,
            )
        strided = zip(x._array.strides, x._array.shape, strict=True)
        if any(stride == 0 and size > 1 for stride, size in strided):
            raise AutogradError(
                f"The {i}th input has a dimension with stride 0: its elements share memory, so they cannot be "
                "perturbed one by one",
                fix="pass a copy: x.clone()",
            )


class _InputError(TracegradError, ValueError):
    """Inputs that gradcheck cannot start from."""


def _bad_input(message: str) -> TracegradError:
    return _InputError(message, fix="make the inputs with tg.tensor(..., requires_grad=True), or pass ndarrays")


def _differentiable(arguments: tuple[Any, ...]) -> list[tuple[int, Tensor]]:
    return [(i, a) for i, a in enumerate(arguments) if isinstance(a, Tensor) and a.requires_grad]


def _check_no_dependence(func: Any, arguments: tuple[Any, ...], outputs: list[Tensor], s: Settings) -> None:
    if not outputs:
        raise _bad_input("gradcheck expects at least one output to be a Tensor")
    for position in range(len(outputs)):
        for _, x in _differentiable(arguments):
            numerical = numerical_jacobian(func, arguments, x, position, s.eps)
            if not np.allclose(numerical, 0, rtol=s.rtol, atol=s.atol):
                raise GradcheckError(
                    "Numerical gradient for function expected to be zero: no output requires grad, yet output "
                    f"{position} changes with an input",
                    fix="the history is cut somewhere: look for detach(), .data, .numpy() or no_grad",
                )


def _check_jacobians(func: Any, arguments: tuple[Any, ...], position: int, out: Tensor, s: Settings) -> None:
    for i, x in _differentiable(arguments):
        analytical = analytical_jacobian(out, x, s.check_grad_dtypes)
        numerical = numerical_jacobian(func, arguments, x, position, s.eps)
        if not np.allclose(analytical, numerical, rtol=s.rtol, atol=s.atol, equal_nan=True):
            raise GradcheckError(mismatch(position, i, out, x, numerical, analytical, s.rtol), fix=_where(out))


def _where(out: Tensor) -> str:
    node = out.grad_fn
    return f"look at the backward of the operations that lead to {node.name()}" if node is not None else ""


# ---- fast mode -------------------------------------------------------------------------------------------------------


def _check_directions(func: Any, arguments: tuple[Any, ...], position: int, out: Tensor, s: Settings) -> None:
    """vᵀ J u for one random u per input and one random v, instead of J (the sum of |u||v| scales the tolerance)."""
    rng = np.random.default_rng(0)
    v = random_like(rng, out._array)
    for i, x in _differentiable(arguments):
        u = random_like(rng, x._array)
        array, origin = x._array, x._array.copy()
        try:
            array[...] = origin + s.eps * u
            above = values_of(func, arguments)[position]
            array[...] = origin - s.eps * u
            below = values_of(func, arguments)[position]
        finally:
            array[...] = origin
        numerical = np.vdot(v, (above - below) / (2 * s.eps)).real
        g = pulled_back(out, x, v, s.check_grad_dtypes)
        analytical = np.vdot(g, u.reshape(-1)).real
        scale = max(1.0, float(np.abs(u).sum() * np.abs(v).sum()))
        if not np.allclose(analytical, numerical, rtol=s.rtol, atol=s.atol * scale, equal_nan=True):
            raise GradcheckError(fast_mismatch(func, arguments, position, i, out, x, numerical, analytical, s.eps))


# ---- further checks --------------------------------------------------------------------------------------------------


def _check_reentrant(arguments: tuple[Any, ...], position: int, out: Tensor, s: Settings) -> None:
    seed = random_like(np.random.default_rng(1), out._array)
    for _, x in _differentiable(arguments):
        first = pulled_back(out, x, seed, False)
        second = pulled_back(out, x, seed, False)
        if not np.allclose(first, second, rtol=0.0, atol=s.nondet_tol, equal_nan=True):
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                "gives different values, although analytical gradient matches numerical gradient. "
                f"The tolerance for nondeterminism was {s.nondet_tol}",
                fix="a backward draws random numbers or changes its own state; or raise nondet_tol",
            )


def _check_multiplied(arguments: tuple[Any, ...], outputs: list[Tensor]) -> None:
    """A cotangent of zeros must give gradients of zeros."""
    wrt = [x for _, x in _differentiable(arguments)]
    seeds = [Tensor._wrap(np.zeros(o.shape, o.dtype)) for o in outputs]
    for g, x in zip(grad(outputs, wrt, seeds, retain_graph=True, allow_unused=True), wrt, strict=True):
        if g is None:
            continue
        if not np.all(g._value() == 0):
            raise GradcheckError(
                "backward not multiplied by grad_output: a grad_output of zeros gives a gradient that is not zero",
                fix="multiply by grad_output in backward",
            )
        if g.dtype != x.dtype or g.shape != x.shape:
            raise GradcheckError(f"grad is {g.dtype}{list(g.shape)}, the input {x.dtype}{list(x.shape)}")


def _check_undefined(func: Any, arguments: tuple[Any, ...]) -> None:
    """backward has to cope with outputs that got no gradient: all of them, and one at a time."""
    wrt = [x for _, x in _differentiable(arguments)]
    with setting(grad_enabled=True):
        outputs = [o for o in outputs_of(func(*arguments)) if o.requires_grad]
    rng = np.random.default_rng(2)
    seeds: list[Any] = [Tensor._wrap(random_like(rng, o._array)) for o in outputs]
    cases = [[None] * len(outputs)]
    if len(outputs) > 1:
        cases += [[None if j == i else g for j, g in enumerate(seeds)] for i in range(len(outputs))]
    for case in cases:
        _run_undefined(outputs, wrt, case)


def _run_undefined(outputs: list[Tensor], wrt: list[Tensor], seeds: list[Any]) -> None:
    from tracegrad.autograd.engine import Wanted, run_backward
    from tracegrad.autograd.node import edge_of

    roots = [edge_of(o) for o in outputs]
    wanted = Wanted([r[0] for r in roots], [edge_of(x) for x in wrt])
    try:
        run_backward(roots, seeds, True, False, wanted)
    except RuntimeError as error:
        raise GradcheckError(
            "Expected backward function to handle undefined output grads: it failed where a grad_output is None",
            fix="test `if grad_output is None` in backward, or leave ctx.set_materialize_grads at True",
        ) from error
    if all(g is None for g in seeds):
        for g in wanted.found:
            if g is not None and not np.all(g._value() == 0):
                raise GradcheckError(
                    "Expected all input grads to be undefined or zero when all output grads are undefined or zero"
                )


def _check_batched(arguments: tuple[Any, ...], checked: list[tuple[int, Tensor]]) -> None:
    wrt = [x for _, x in _differentiable(arguments)]
    rng = np.random.default_rng(3)
    for position, out in checked:
        seeds = np.stack([random_like(rng, out._array) for _ in range(2)])
        batched = grad(out, wrt, Tensor._wrap(seeds), retain_graph=True, allow_unused=True, is_grads_batched=True)
        for i, x in enumerate(wrt):
            rows = [pulled_back(out, x, seed, False).reshape(x.shape) for seed in seeds]
            g = batched[i]
            if g is not None and not np.allclose(g._value(), np.stack(rows)):
                raise GradcheckError(f"batched gradient of output {position} differs from one by one, for input {i}")
