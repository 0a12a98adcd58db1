"""Eigenvalues, singular values and QR. Values come from NumPy (LAPACK), in compiled programs too.

What belongs to one factorisation has its columns in common, so each operation gives one array: the values in a row, the
vectors as columns above or below it.

Derivatives: M. Giles, Collected matrix derivative results for forward and reverse mode algorithmic differentiation
(2008), section 3; of singular vectors: J. Townsend, Differentiating the singular value decomposition (2016), for
complex matrices with the phases of Z. Wan and S. Zhang, Automatic differentiation for complex valued SVD (2019); of QR:
S. Walter and L. Lehmann, Algorithmic differentiation of linear algebra functions with application in optimum
experimental design (2010).

Vectors are functions of the matrix only where values differ. Where two are equal, what flows back through vectors is
divided by 0, so that gradients are infinite or NaN, be it zero or not: u s vᴴ has a gradient where s is 0, though none
flows back to u. What flows back to the values a user reads takes another way, `FactorValues`, and stays right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import AutogradError
from tracegrad.function import Operation
from tracegrad.ir.dims import DimLike
from tracegrad.ir.types import Type
from tracegrad.ops.arithmetic import add, divide, multiply, negative, subtract
from tracegrad.ops.casting import imag, real
from tracegrad.ops.comparison import equal
from tracegrad.ops.diagonal import Diagonal, DiagonalPlace, tril, triu
from tracegrad.ops.linalg import matmul
from tracegrad.ops.operands import positions, smaller
from tracegrad.ops.select import where
from tracegrad.ops.shape import expand_dims, squeeze
from tracegrad.ops.slicing import slice_axis
from tracegrad.ops.solve import adjoint, lapack_dtype
from tracegrad.ops.stop import stop_gradient
from tracegrad.ops.triangular import SolveTriangular


def rows_of(packed: Any, first: DimLike, count: DimLike) -> Any:
    """Some rows of matrices."""
    return slice_axis(packed, packed.ndim - 2, first, count)


def row_of(packed: Any, position: DimLike) -> Any:
    """One row of matrices, its real part."""
    return real(squeeze(rows_of(packed, position, 1), -2))


def placed(diagonal: Any) -> Any:
    """Matrices with this diagonal."""
    n = diagonal.shape[-1]
    return DiagonalPlace.apply(diagonal, rows=n, columns=n, offset=0)


def _over(x: Any, gaps: Any) -> Any:
    """x divided by the gaps between values, off the diagonal."""
    place = positions(gaps.shape[-1])
    diagonal = equal(expand_dims(place, -1), place)
    return multiply(x, where(diagonal, 0, divide(1.0, where(diagonal, 1, gaps))))


class PhaseFree(Operation):
    """The first operand, once the diagonal of the second is found to be real.

    Complex vectors are given but for a phase each; were the result to depend on it, the diagonal would not be real.
    """

    name = "phase_free"
    saves = ("", "")

    @staticmethod
    def forward(x: np.ndarray, turning: np.ndarray) -> np.ndarray:
        phases = np.abs(np.diagonal(turning, axis1=-2, axis2=-1).imag).max(initial=0)
        if phases > 100 * np.sqrt(np.finfo(x.dtype).eps) * np.abs(turning).max(initial=0):
            raise AutogradError(
                "the result depends on the phases of complex eigenvectors or singular vectors, which are arbitrary, so "
                "it has no gradient",
                fix="compute from them what a phase does not change, such as abs(v)**2 or products v vᴴ",
            )
        return x.copy()

    @staticmethod
    def infer(x: Type, turning: Type) -> Type:
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, None]:
        return g, None


def _phase_free(x: Any, turning: Any) -> Any:
    return PhaseFree.apply(x, turning) if x.dtype.kind == "c" else x


class FactorValues(Operation):
    """The row of values out of the factorisation of matrices: eigenvalues where `upper` is given, else singular values.

    The second operand is the factorisation without a derivative. That of the values needs the vectors, and factorises
    once more, which value numbering merges with the first time: so nothing flows back through vectors that only lie
    beside the values.
    """

    name = "factor_values"
    saves = ("0", "")

    @staticmethod
    def forward(a: np.ndarray, packed: np.ndarray, *, upper: bool | None) -> np.ndarray:
        return packed[..., 0 if upper is not None else a.shape[-2], :].real.copy()

    @staticmethod
    def infer(a: Type, packed: Type, *, upper: bool | None) -> Type:
        return Type(np.zeros(0, packed.dtype).real.dtype, (*packed.shape[:-2], packed.shape[-1]))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, None]:
        a, upper = ctx.inputs[0], ctx.attrs["upper"]
        m, n = ctx.types[0].shape[-2:]
        if upper is None:
            u, _, v = svd_parts(Svd.apply(a), m, n)
        else:
            u = v = rows_of(Eigh.apply(a, upper=upper), 1, n)
        return matmul(multiply(u, expand_dims(g, -2)), adjoint(v)), None


def values_of(a: Any, packed: Any, upper: bool | None = None) -> Any:
    """The values in the factorisation `packed` of a."""
    return FactorValues.apply(a, stop_gradient(packed), upper=upper)


class Eigh(Operation):
    """Eigenvalues of Hermitian matrices in ascending order, and under each of them its eigenvector, of length 1.

    One triangle is read; the gradient is Hermitian.
    """

    name = "eigh"
    saves = ("y",)

    @staticmethod
    def forward(a: np.ndarray, *, upper: bool) -> np.ndarray:
        values, vectors = np.linalg.eigh(a, "U" if upper else "L")
        return np.concatenate([values[..., None, :], vectors], axis=-2)

    @staticmethod
    def infer(a: Type, *, upper: bool) -> Type:
        return Type(lapack_dtype(a.dtype), (*a.shape[:-2], a.shape[-2] + 1, a.shape[-1]))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        n = ctx.types[0].shape[-1]
        values, vectors = row_of(ctx.output, 0), rows_of(ctx.output, 1, n)
        turning = matmul(adjoint(vectors), rows_of(g, 1, n))
        gaps = subtract(expand_dims(values, -2), expand_dims(values, -1))
        mixed = _over(_phase_free(turning, turning), gaps)
        inner = add(multiply(add(mixed, adjoint(mixed)), 0.5), placed(row_of(g, 0)))
        return (matmul(matmul(vectors, inner), adjoint(vectors)),)


class Svd(Operation):
    """The thin singular value decomposition of m × n matrices: rows of u (m), of singular values (1), of v (n)."""

    name = "svd"
    saves = ("y",)

    @staticmethod
    def forward(a: np.ndarray) -> np.ndarray:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        return np.concatenate([u, s[..., None, :], np.conj(np.swapaxes(vh, -1, -2))], axis=-2)

    @staticmethod
    def infer(a: Type) -> Type:
        m, n = a.shape[-2:]
        return Type(lapack_dtype(a.dtype), (*a.shape[:-2], m + 1 + n, smaller(m, n)))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        m, n = ctx.types[0].shape[-2:]
        u, s, v = svd_parts(ctx.output, m, n)
        gu, gs, gv = svd_parts(g, m, n)
        by_u, by_v = matmul(adjoint(u), gu), matmul(adjoint(v), gv)
        by_u = _phase_free(by_u, add(by_u, by_v))
        row, column = expand_dims(s, -2), expand_dims(s, -1)
        gaps = multiply(subtract(row, column), add(row, column))
        mixed_u, mixed_v = _over(by_u, gaps), _over(by_v, gaps)
        inner = add(placed(gs), multiply(add(mixed_u, adjoint(mixed_u)), row))
        inner = add(inner, multiply(add(mixed_v, adjoint(mixed_v)), column))
        if u.dtype.kind == "c":
            phase = divide(imag(Diagonal.apply(by_u, offset=0)), s)
            inner = add(inner, placed(multiply(phase, 1j)))
        result = matmul(matmul(u, inner), adjoint(v))
        if m != u.shape[-1]:
            result = add(result, matmul(_beyond(u, gu, s), adjoint(v)))
        if n != u.shape[-1]:
            result = add(result, matmul(u, adjoint(_beyond(v, gv, s))))
        return (result,)


def svd_parts(packed: Any, m: DimLike, n: DimLike) -> tuple[Any, Any, Any]:
    """u, the singular values, and v."""
    return rows_of(packed, 0, m), row_of(packed, m), rows_of(packed, m + 1, n)


def _beyond(vectors: Any, g: Any, s: Any) -> Any:
    """The part of g outside the space that the vectors span, over the singular values."""
    scaled = divide(g, expand_dims(s, -2))
    return subtract(scaled, matmul(vectors, matmul(adjoint(vectors), scaled)))


class Qr(Operation):
    """q and r of m × n matrices with m ≥ n: the rows of q (m), and those of the conjugate transpose of r (n)."""

    name = "qr"
    saves = ("y",)

    @staticmethod
    def forward(a: np.ndarray) -> np.ndarray:
        q, r = np.linalg.qr(a)
        return np.concatenate([q, np.conj(np.swapaxes(r, -1, -2))], axis=-2)

    @staticmethod
    def infer(a: Type) -> Type:
        m, n = a.shape[-2:]
        return Type(lapack_dtype(a.dtype), (*a.shape[:-2], m + n, n))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        m, n = ctx.types[0].shape[-2:]
        q, r = rows_of(ctx.output, 0, m), adjoint(rows_of(ctx.output, m, n))
        gq, gr = rows_of(g, 0, m), triu(adjoint(rows_of(g, m, n)))
        inner = subtract(matmul(r, adjoint(gr)), matmul(adjoint(gq), q))
        below = tril(inner, -1)
        diagonal = placed(real(Diagonal.apply(inner, offset=0)))
        whole = add(gq, matmul(q, add(add(below, adjoint(below)), diagonal)))
        # whole r⁻ᴴ
        return (adjoint(SolveTriangular.apply(r, adjoint(whole), lower=False, unit=False)),)


class Pinv(Operation):
    """The Moore-Penrose inverses of matrices; singular values below `cut` times the greatest are taken as zeros.

    The derivative holds where the rank does not change: G. Golub and V. Pereyra, The differentiation of pseudo-inverses
    and nonlinear least squares problems whose variables separate (1973).
    """

    name = "pinv"
    saves = ("0y",)

    @staticmethod
    def forward(a: np.ndarray, *, cut: float | None) -> np.ndarray:
        return np.linalg.pinv(a) if cut is None else np.linalg.pinv(a, cut)

    @staticmethod
    def infer(a: Type, *, cut: float | None) -> Type:
        return Type(lapack_dtype(a.dtype), (*a.shape[:-2], a.shape[-1], a.shape[-2]))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        a, p = ctx.inputs[0], ctx.output
        ph, gh = adjoint(p), adjoint(g)
        # dP = -P dA P + P Pᴴ dAᴴ (1 - A P) + (1 - P A) dAᴴ Pᴴ P
        first = negative(matmul(matmul(ph, g), ph))
        left = matmul(gh, matmul(p, ph))
        right = matmul(matmul(ph, p), gh)
        left = subtract(left, matmul(a, matmul(p, left)))
        right = subtract(right, matmul(matmul(right, p), a))
        return (add(first, add(left, right)),)
