"""The part of gradcheck that looks at forward mode: Jacobians by dual numbers, and tangents of many rows at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad.autograd.forward_ad import dual_level, make_dual, unpack_dual
from tracegrad.autograd.jacobians import mismatch, numerical_jacobian, outputs_of, random_like, values_of
from tracegrad.errors import GradcheckError, TracegradError
from tracegrad.state import setting
from tracegrad.tensor import Tensor

if TYPE_CHECKING:
    from tracegrad.autograd.check import Settings

Differentiable = Sequence[tuple[int, Tensor]]


def pushed(func: Callable[..., Any], arguments: tuple[Any, ...], i: int, tangent: np.ndarray) -> list[np.ndarray]:
    """The tangents of all outputs of `func` for one of argument `i`. Raises GradcheckError for a wrong type."""
    with dual_level(), setting(grad_enabled=True):
        given = list(arguments)
        given[i] = make_dual(arguments[i], Tensor._wrap(tangent))
        found = []
        for out in outputs_of(func(*given)):
            t = unpack_dual(out).tangent
            if t is not None and (t.shape != out.shape or t.dtype != out.dtype):
                raise GradcheckError(f"a tangent is {t.dtype}{list(t.shape)}, its output {out.dtype}{list(out.shape)}")
            found.append(np.zeros(out.shape, out.dtype) if t is None else np.array(t._value()))
    return found


def forward_jacobians(func: Any, arguments: tuple[Any, ...], i: int, x: Tensor) -> list[np.ndarray]:
    """Per output its Jacobian (elements of x, elements of the output), laid out as the numerical one."""
    units = [1.0, 1j] if x.dtype.kind == "c" else [1.0]
    rows: list[list[np.ndarray]] = []
    for index in np.ndindex(x.shape):
        parts: list[list[np.ndarray]] = []
        for unit in units:
            tangent = np.zeros(x.shape, x.dtype)
            tangent[index] = unit
            flat = [t.reshape(-1) for t in pushed(func, arguments, i, tangent)]
            parts.append([np.concatenate([t.real, t.imag]) if t.dtype.kind == "c" else t for t in flat])
        rows.append([np.concatenate(column) for column in zip(*parts, strict=True)])
    return [np.stack(column) for column in zip(*rows, strict=True)]


def check_forward(
    func: Any, arguments: tuple[Any, ...], outputs: Sequence[Tensor], wrt: Differentiable, s: Settings
) -> None:
    """Compare the Jacobians of forward mode with central differences, or both along one direction in fast mode."""
    for i, x in wrt:
        if s.fast_mode:
            _check_direction(func, arguments, outputs, i, x, s)
            continue
        found = forward_jacobians(func, arguments, i, x)
        for position, (out, jacobian) in enumerate(zip(outputs, found, strict=bool(x.size))):
            if out.dtype.kind not in "fc":
                continue
            numerical = numerical_jacobian(func, arguments, x, position, s.eps)
            if not np.allclose(jacobian, numerical, rtol=s.rtol, atol=s.atol, equal_nan=True):
                raise _forward_mismatch(mismatch(position, i, out, x, numerical, jacobian, s.rtol))


def _forward_mismatch(text: str) -> GradcheckError:
    return GradcheckError(
        text.replace("Jacobian mismatch", "Jacobian computed with forward mode mismatch", 1),
        fix="look at the jvp of the Functions on the way",
    )


def _check_direction(
    func: Any, arguments: tuple[Any, ...], outputs: Sequence[Tensor], i: int, x: Tensor, s: Settings
) -> None:
    rng = np.random.default_rng(4)
    u = random_like(rng, x._array)  # type: ignore[arg-type]
    found = pushed(func, arguments, i, u)
    array, origin = x._array, x._array.copy()  # type: ignore[union-attr]
    try:
        array[...] = origin + s.eps * u  # type: ignore[index]
        above = values_of(func, arguments)
        array[...] = origin - s.eps * u  # type: ignore[index]
        below = values_of(func, arguments)
    finally:
        array[...] = origin  # type: ignore[index]
    for position, out in enumerate(outputs):
        if out.dtype.kind not in "fc":
            continue
        v = random_like(rng, out._array)  # type: ignore[arg-type]
        numerical = np.vdot(v, (above[position] - below[position]) / (2 * s.eps)).real
        analytical = np.vdot(v, found[position]).real
        scale = max(1.0, float(np.abs(u).sum() * np.abs(v).sum()))
        if not np.allclose(analytical, numerical, rtol=s.rtol, atol=s.atol * scale, equal_nan=True):
            raise _forward_mismatch(
                f"Jacobian mismatch for output {position} with respect to input {i},\n"
                f"numerical:{numerical}\nanalytical:{analytical}\n\n"
                "The above quantities relating the numerical and analytical jacobians are computed \n"
                "in fast mode: both are projections of the Jacobians on one random direction."
            )


def check_batched_forward(func: Any, arguments: tuple[Any, ...], wrt: Differentiable) -> None:
    """vmap over tangents must give what one tangent at a time gives. Raises GradcheckError."""
    from tracegrad.transforms.forward import jvp
    from tracegrad.transforms.vectorize import vmap

    rng = np.random.default_rng(5)
    for i, x in wrt:
        tangents = np.stack([random_like(rng, x._array) for _ in range(2)])  # type: ignore[arg-type]

        def of_x(value: Any, i: int = i) -> Any:
            return tuple(outputs_of(func(*arguments[:i], value, *arguments[i + 1 :])))

        def along(tangent: Any, x: Tensor = x, of_x: Any = of_x) -> Any:
            return jvp(of_x, (x.detach(),), (tangent,))[1]

        try:
            batched = vmap(along)(tangents)
        except (TracegradError, TypeError, ValueError) as error:
            raise GradcheckError(
                f"While computing batched tangents, got: {error}", fix="leave check_batched_forward_grad out"
            ) from error
        rows = [pushed(func, arguments, i, t) for t in tangents]
        for position, (found, expected) in enumerate(zip(batched, zip(*rows, strict=True), strict=True)):
            if not np.allclose(found, np.stack(expected), equal_nan=True):
                raise GradcheckError(f"batched tangents of output {position} differ from one by one, for input {i}")
