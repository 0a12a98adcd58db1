"""Linear systems, inverses and determinants. Values come from NumPy; compiled programs have loops for small real
matrices and call LAPACK for larger ones.

Derivatives: M. Giles, Collected matrix derivative results for forward and reverse mode algorithmic differentiation
(2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg._linalg import SlogdetResult

from tracegrad.errors import ShapeError, UnsupportedError
from tracegrad.function import Operation
from tracegrad.ir.lowering import Matrices
from tracegrad.ir.types import Type
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import conj, multiply, negative, subtract
from tracegrad.ops.base import broadcast_shapes, shape_text
from tracegrad.ops.linalg import matmul
from tracegrad.ops.operands import operand
from tracegrad.ops.reduction import sum as tensor_sum
from tracegrad.ops.shape import Reshape, expand_dims, swapaxes
from tracegrad.ops.stop import stop_gradient


def adjoint(x: Any) -> Any:
    """The conjugate transpose of matrices."""
    return conj(swapaxes(x, -1, -2))


def lapack_dtype(*dtypes: np.dtype) -> np.dtype:
    """What LAPACK computes in: floats stay, integers become float64."""
    common = np.result_type(*dtypes)
    return common if common.kind in "fc" else np.dtype(float)


def square_matrices(x: Any, name: str) -> Any:
    x = operand(x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"np.linalg.{name} needs square matrices along the last two axes, got the shape {shape_text(x.shape)}"
        )
    return x


class Solve(Operation):
    """x with a @ x = b, for matrices a and b whose leading axes broadcast. Raises LinAlgError where a is singular."""

    name = "solve"
    lower = Matrices("solve")
    saves = ("0y", "0")

    @staticmethod
    def forward(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.linalg.solve(a, b)

    @staticmethod
    def infer(a: Type, b: Type) -> Type:
        if a.shape[-1] != b.shape[-2]:
            raise ShapeError(f"solve with matrices of shape {shape_text(a.shape)} and {shape_text(b.shape)}")
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return Type(lapack_dtype(a.dtype, b.dtype), (*batch, *b.shape[-2:]))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        right = Solve.apply(adjoint(ctx.inputs[0]), g)
        return negative(matmul(right, adjoint(ctx.output))) if ctx.needs_input_grad[0] else None, right


class Inv(Operation):
    """The inverses of matrices. Raises LinAlgError where one is singular."""

    name = "inv"
    lower = Matrices("inv")
    saves = ("y",)

    @staticmethod
    def forward(a: np.ndarray) -> np.ndarray:
        return np.linalg.inv(a)

    @staticmethod
    def infer(a: Type) -> Type:
        return a.with_dtype(lapack_dtype(a.dtype))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        inverse = adjoint(ctx.output)
        return (negative(matmul(matmul(inverse, g), inverse)),)


class Det(Operation):
    """The determinants of matrices; the derivative is the matrix of cofactors, which singular matrices have too."""

    name = "det"
    lower = Matrices("det")
    saves = ("0",)

    @staticmethod
    def forward(a: np.ndarray) -> np.ndarray:
        return np.asarray(np.linalg.det(a))

    @staticmethod
    def infer(a: Type) -> Type:
        return Type(lapack_dtype(a.dtype), a.shape[:-2])

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (multiply(expand_dims(g, (-1, -2)), conj(Cofactors.apply(ctx.inputs[0]))),)


class Cofactors(Operation):
    """det(a) times the transposed inverse of a, from singular values, so that a may be singular.

    Its own derivative needs the inverse, and raises LinAlgError for a singular matrix.
    """

    name = "cofactors"
    saves = ("0y",)

    @staticmethod
    def forward(a: np.ndarray) -> np.ndarray:
        u, s, vh = np.linalg.svd(a)
        n = s.shape[-1]
        others = np.where(np.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
        turn = np.linalg.det(u) * np.linalg.det(vh)
        return turn[..., None, None] * ((np.conj(u) * others[..., None, :]) @ np.conj(vh))

    @staticmethod
    def infer(a: Type) -> Type:
        return a.with_dtype(lapack_dtype(a.dtype))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        # With C = det(a) a⁻ᵀ: dC = tr(a⁻¹ da) C - a⁻ᵀ daᵀ C.
        inverse, cofactors = Inv.apply(ctx.inputs[0]), ctx.output
        weight = tensor_sum(multiply(g, conj(cofactors)), axis=(-1, -2))
        turned = swapaxes(inverse, -1, -2)
        first = multiply(expand_dims(weight, (-1, -2)), conj(turned))
        return (subtract(first, matmul(matmul(conj(cofactors), swapaxes(g, -1, -2)), conj(turned))),)


class LogAbsDet(Operation):
    """log |det(a)| of real matrices."""

    name = "logabsdet"
    lower = Matrices("logabsdet")
    saves = ("0",)

    @staticmethod
    def forward(a: np.ndarray) -> np.ndarray:
        return np.asarray(np.linalg.slogdet(a)[1])

    @staticmethod
    def infer(a: Type) -> Type:
        return Type(lapack_dtype(a.dtype), a.shape[:-2])

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (multiply(expand_dims(g, (-1, -2)), swapaxes(Inv.apply(ctx.inputs[0]), -1, -2)),)


class DetSign(Operation):
    """The sign of the determinant of real matrices."""

    name = "det_sign"
    lower = Matrices("det_sign")
    differentiable = False

    @staticmethod
    def forward(a: np.ndarray) -> np.ndarray:
        return np.asarray(np.linalg.slogdet(a)[0])

    @staticmethod
    def infer(a: Type) -> Type:
        return Type(lapack_dtype(a.dtype), a.shape[:-2])


# ---- NumPy's functions --------------------------------------------------------------------------------------------


@implements(np.linalg.solve)
def solve(a: Any, b: Any) -> Any:
    """x with a @ x = b; b is one vector (one dimension) or matrices."""
    left, right = square_matrices(a, "solve"), operand(b)
    if right.ndim == 0:
        raise ShapeError("solve needs a vector or matrices on the right")
    if right.ndim == 1:
        column = Solve.apply(left, Reshape.apply(right, shape=(*right.shape, 1)))
        return Reshape.apply(column, shape=column.shape[:-1])
    return Solve.apply(left, right)


@implements(np.linalg.inv)
def inv(a: Any) -> Any:
    """The inverses of matrices. For a⁻¹ b use solve, which is more accurate."""
    return Inv.apply(square_matrices(a, "inv"))


@implements(np.linalg.det)
def det(a: Any) -> Any:
    """The determinants of matrices."""
    return Det.apply(square_matrices(a, "det"))


@implements(np.linalg.slogdet)
def slogdet(a: Any) -> SlogdetResult:
    """Sign and logarithm of the absolute value of the determinants of real matrices."""
    x = square_matrices(a, "slogdet")
    if x.dtype.kind == "c":
        raise UnsupportedError("slogdet of complex matrices", fix="use np.linalg.det")
    return SlogdetResult(DetSign.apply(stop_gradient(x)), LogAbsDet.apply(x))
