"""Jacobians by central differences and by backward, and the words in which gradcheck reports that they differ.

They are printed as input elements × output elements. For complex inputs the numerical derivative follows the convention
of the engine (steepest ascent); complex elements then take two rows or columns, real part first.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tracegrad.autograd.api import grad
from tracegrad.errors import GradcheckError
from tracegrad.state import setting
from tracegrad.tensor import Tensor


def outputs_of(result: Any) -> list[Tensor]:
    values = result if isinstance(result, (tuple, list)) else (result,)
    return [v for v in values if isinstance(v, Tensor)]


def values_of(func: Any, arguments: tuple[Any, ...]) -> list[np.ndarray]:
    with setting(grad_enabled=True):
        return [np.array(o._value()) for o in outputs_of(func(*arguments))]


def random_like(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    drawn = rng.uniform(-1, 1, array.shape)
    if array.dtype.kind == "c":
        drawn = drawn + 1j * rng.uniform(-1, 1, array.shape)
    return np.asarray(drawn, dtype=array.dtype)


def numerical_jacobian(func: Any, arguments: tuple[Any, ...], x: Tensor, position: int, eps: float) -> np.ndarray:
    """Central differences, (elements of x, elements of output `position`); the engine's convention where complex."""
    array = x._array
    rows: list[np.ndarray] = []
    for index in np.ndindex(array.shape):
        real = _difference(func, arguments, array, index, position, eps)
        if array.dtype.kind == "c":
            imaginary = _difference(func, arguments, array, index, position, eps * 1j)
            rows.append(_combine(real, imaginary))
        else:
            rows.append(real)
    size = values_of(func, arguments)[position].size
    return np.stack(rows) if rows else np.zeros((0, size))


def _combine(real: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """Per element the derivatives along the axes, stacked: real part first, then imaginary."""
    return np.concatenate([real, imaginary])


def _difference(func: Any, arguments: Any, array: np.ndarray, index: Any, position: int, step: complex) -> np.ndarray:
    origin = array[index]
    writeable = array.flags.writeable
    try:
        array.flags.writeable = True
        array[index] = origin + step
        above = values_of(func, arguments)
        array[index] = origin - step
        below = values_of(func, arguments)
    finally:
        array[index] = origin
        array.flags.writeable = writeable
    a, b = above[position], below[position]
    assert a.shape == b.shape, "the function gave outputs of different shapes for inputs that hardly differ"
    assert a.dtype == b.dtype, "the function gave outputs of different dtypes for inputs that hardly differ"
    change = ((a.astype(np.result_type(a, 0.0)) - b) / (2 * abs(step))).reshape(-1)
    return change if change.dtype.kind != "c" else np.concatenate([change.real, change.imag])


def analytical_jacobian(out: Tensor, x: Tensor, check_dtype: bool) -> np.ndarray:
    """The same array from one backward per output element (two where the output is complex)."""
    units = [1.0, 1j] if out.dtype.kind == "c" else [1.0]
    columns = []
    for unit, index in itertools.product(units, np.ndindex(out.shape)):
        seed = np.zeros(out.shape, out.dtype)
        seed[index] = unit
        columns.append(pulled_back(out, x, seed, check_dtype))
    complex_input = x.dtype.kind == "c"
    flat = [np.concatenate([c.real, c.imag]) if complex_input else c for c in columns]
    jacobian = np.stack(flat, axis=1) if flat else np.zeros((x.size * (1 + complex_input), 0))
    if complex_input:  # rows by element, each with its two axes one after the other along the columns
        half = x.size
        return np.concatenate([jacobian[:half], jacobian[half:]], axis=1)
    return jacobian


def pulled_back(out: Tensor, x: Tensor, seed: np.ndarray, check_dtype: bool) -> np.ndarray:
    (g,) = grad(out, x, Tensor._wrap(seed), retain_graph=True, allow_unused=True)
    if g is None:
        return np.zeros(x.size, x.dtype)
    if g.shape != x.shape:
        raise GradcheckError(f"the gradient has shape {g.shape}, the input {x.shape}")
    if check_dtype and g.dtype != x.dtype:
        raise GradcheckError(f"the gradient has dtype {g.dtype}, the input {x.dtype}")
    return np.array(g._value()).reshape(-1)


def mismatch(
    position: int, i: int, out: Tensor, x: Tensor, numerical: np.ndarray, analytical: np.ndarray, rtol: float
) -> str:
    error = np.abs(analytical - numerical) - rtol * np.abs(numerical)
    worst = np.unravel_index(int(np.argmax(np.where(np.isnan(error), np.inf, error))), error.shape)
    row = np.unravel_index(int(worst[0]), x.shape) if x.shape else ()
    column = np.unravel_index(int(worst[1]) % max(out.size, 1), out.shape) if out.shape else ()
    return (
        f"Jacobian mismatch for output {position} with respect to input {i},\n"
        f"numerical:{np.array_str(numerical)}\nanalytical:{np.array_str(analytical)}\n"
        f"the worst entry is d output{list(map(int, column))} / d input{list(map(int, row))}: "
        f"numerical {numerical[worst]:.10g}, analytical {analytical[worst]:.10g}"
    )


def fast_mismatch(
    func: Any,
    arguments: Any,
    position: int,
    i: int,
    out: Tensor,
    x: Tensor,
    numerical: Any,
    analytical: Any,
    eps: float,
) -> str:
    full = numerical_jacobian(func, arguments, x, position, eps)
    derived = analytical_jacobian(out, x, False)
    worst = float(np.max(np.abs(full - derived), initial=0.0))
    return (
        f"Jacobian mismatch for output {position} with respect to input {i},\n"
        f"numerical:{numerical}\nanalytical:{analytical}\n\n"
        "The above quantities relating the numerical and analytical jacobians are computed \n"
        "in fast mode: both are projections of the Jacobians on one random direction. The full ones:\n"
        f"Numerical:\n{np.array_str(full)}\nAnalytical:\n{np.array_str(derived)}\n\n"
        f"The max per-element difference (slow mode) is: {worst}."
    )
