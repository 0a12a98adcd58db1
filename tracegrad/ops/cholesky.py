"""The Cholesky factor and its adjoint, which has an operation of its own: half a dozen times cheaper by blocks than
the same by products and triangular systems of whole matrices.

I. Murray, Differentiation of the Cholesky decomposition (2016): the reverse of the blocked factorisation, section 3.2,
and the closed forms of section 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.function import Operation
from tracegrad.ir.lowering import Matrices
from tracegrad.ir.types import Type
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import add, multiply, subtract
from tracegrad.ops.base import broadcast_shapes
from tracegrad.ops.diagonal import tril
from tracegrad.ops.linalg import matmul
from tracegrad.ops.shape import swapaxes
from tracegrad.ops.solve import adjoint, lapack_dtype, square_matrices
from tracegrad.ops.triangular import SolveTriangular

BLOCK = 256  # columns at a time in NumPy


class Cholesky(Operation):
    """The lower triangular l with l @ lᴴ = a, from the lower triangle of a; its gradient is symmetric.

    Raises LinAlgError where a is not positive definite.
    """

    name = "cholesky"
    lower = Matrices("cholesky")
    saves = ("y",)

    @staticmethod
    def forward(a: np.ndarray) -> np.ndarray:
        return np.linalg.cholesky(a)

    @staticmethod
    def infer(a: Type) -> Type:
        return a.with_dtype(lapack_dtype(a.dtype))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        factor = ctx.output
        if factor.dtype.kind != "c":
            return (CholeskyAdjoint.apply(factor, g),)
        turned = adjoint(factor)
        half = _behind(turned, adjoint(_behind(turned, adjoint(_halved(matmul(turned, tril(g)))))))
        return (multiply(add(half, adjoint(half)), 0.5),)


class CholeskyAdjoint(Operation):
    """The symmetric gradient for a, from its real factor l and the gradient g for that, of both the lower triangles.

    It is the symmetric part of l⁻ᵀ Φ(lᵀ g) l⁻¹, where Φ takes the lower triangle with its diagonal halved.
    """

    name = "cholesky_adjoint"
    lower = Matrices("cholesky_adjoint")
    saves = ("01y", "0")

    @staticmethod
    def forward(factor: np.ndarray, g: np.ndarray) -> np.ndarray:
        l, n = np.tril(factor).astype(float, copy=False), g.shape[-1]
        result = _of_block(l, np.tril(g)) if n <= BLOCK else _by_blocks(l, g)
        return result.astype(np.result_type(factor, g), copy=False)

    @staticmethod
    def infer(factor: Type, g: Type) -> Type:
        return Type(np.result_type(factor.dtype, g.dtype), broadcast_shapes(factor.shape, g.shape))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        # With h = sym(g) and p = l⁻¹ h l⁻ᵀ: the gradients are tril(-2 y h l⁻ᵀ + g₁ Φ(p)ᵀ) and tril(l Φ(p)).
        (factor, before), result = ctx.inputs, ctx.output
        h = multiply(add(g, swapaxes(g, -1, -2)), 0.5)
        half = swapaxes(_before(factor, h), -1, -2)  # h l⁻ᵀ
        inner = _halved(_before(factor, half))
        through = None
        if ctx.needs_input_grad[0]:
            own = matmul(tril(before), swapaxes(inner, -1, -2))
            through = tril(subtract(own, multiply(matmul(result, half), 2.0)))
        return through, tril(matmul(tril(factor), inner))


def _by_blocks(l: np.ndarray, g: np.ndarray) -> np.ndarray:
    n = g.shape[-1]
    bar = np.array(np.broadcast_to(np.tril(g), np.broadcast_shapes(l.shape, g.shape)), float)
    for start in reversed(range(0, n, BLOCK)):
        left, own, below = slice(0, start), slice(start, start + BLOCK), slice(start + BLOCK, n)
        under = np.swapaxes(bar[..., below, own], -1, -2)
        under[...] = _under(l[..., own, own], under)
        bar[..., own, own] -= np.tril(under @ l[..., below, own])
        bar[..., own, own] = twice = 2 * _of_block(l[..., own, own], bar[..., own, own])
        bar[..., below, left] -= np.swapaxes(under, -1, -2) @ l[..., own, left]
        bar[..., own, left] -= under @ l[..., below, left] + twice @ l[..., own, left]
    return 0.5 * (np.tril(bar) + np.swapaxes(np.tril(bar, -1), -1, -2))


def _of_block(l: np.ndarray, bar: np.ndarray) -> np.ndarray:
    """The adjoint of one block as it is defined."""
    inner = np.tril(np.swapaxes(l, -1, -2) @ bar)
    inner *= 1 - 0.5 * np.eye(bar.shape[-1])
    half = _under(l, np.swapaxes(_under(l, np.swapaxes(inner, -1, -2)), -1, -2))
    return 0.5 * (half + np.swapaxes(half, -1, -2))


def _under(l: np.ndarray, b: np.ndarray) -> np.ndarray:
    """l⁻ᵀ b."""
    return SolveTriangular.forward(np.swapaxes(l, -1, -2), b, lower=False, unit=False)


def _halved(x: Any) -> Any:
    """Φ: the lower triangle with its diagonal halved."""
    x = tril(x)
    return multiply(add(x, tril(x, -1)), 0.5)


def _behind(upper: Any, b: Any) -> Any:
    """upper⁻¹ b."""
    return SolveTriangular.apply(upper, b, lower=False, unit=False)


def _before(lower: Any, b: Any) -> Any:
    """lower⁻¹ b."""
    return SolveTriangular.apply(lower, b, lower=True, unit=False)


@implements(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """The Cholesky factor, lower triangular, or upper if asked for."""
    x = square_matrices(a, "cholesky")
    return adjoint(Cholesky.apply(adjoint(x))) if upper else Cholesky.apply(x)
