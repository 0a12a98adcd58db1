"""NumPy's functions on eigenvalues, singular values, QR, least squares and what follows from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg._linalg import EighResult, QRResult, SVDResult

from tracegrad.errors import ArgumentError, ShapeError, SymbolicValueError, UnsupportedError
from tracegrad.ir.dims import product
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import absolute, divide, multiply, subtract
from tracegrad.ops.base import shape_text
from tracegrad.ops.casting import astype
from tracegrad.ops.comparison import equal, greater, logical_not
from tracegrad.ops.creation import dimension
from tracegrad.ops.decompositions import Eigh, Pinv, Qr, Svd, rows_of, svd_parts, values_of
from tracegrad.ops.joining import concatenate
from tracegrad.ops.linalg import matmul
from tracegrad.ops.operands import guarded_int, operand, smaller
from tracegrad.ops.reduction import NOT_GIVEN, given
from tracegrad.ops.reduction import sum as tensor_sum
from tracegrad.ops.select import where
from tracegrad.ops.shape import expand_dims, reshape, squeeze, transpose
from tracegrad.ops.slicing import slice_axis
from tracegrad.ops.solve import adjoint, inv, lapack_dtype, solve, square_matrices

LARGEST_CUT = 1e-5  # a relative size below which singular values that are left out do not show in derivatives


def matrices(x: Any, name: str) -> Any:
    x = operand(x)
    if x.ndim < 2:
        raise ShapeError(f"np.linalg.{name} needs matrices along the last two axes, got shape {shape_text(x.shape)}")
    return x


# ---- eigenvalues --------------------------------------------------------------------------------------------------


def _eigh(a: Any, UPLO: str, name: str) -> tuple[Any, Any]:
    if str(UPLO).upper() not in ("L", "U"):
        raise ArgumentError(f"UPLO must be 'L' or 'U', not {UPLO!r}")
    x = square_matrices(a, name)
    upper = str(UPLO).upper() == "U"
    packed = Eigh.apply(x, upper=upper)
    return values_of(x, packed, upper), rows_of(packed, 1, packed.shape[-1])


@implements(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> EighResult:
    """Eigenvalues, ascending, and eigenvectors, the columns, of symmetric or Hermitian matrices.

    Where eigenvalues are equal, gradients through eigenvectors are infinite or NaN. What depends on the phases of
    complex eigenvectors raises AutogradError.
    """
    return EighResult(*_eigh(a, UPLO, "eigh"))


@implements(np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of symmetric or Hermitian matrices, ascending."""
    return _eigh(a, UPLO, "eigvalsh")[0]


@implements(np.linalg.eig, np.linalg.eigvals)
def eig(a: Any) -> Any:
    """Raises UnsupportedError: whether NumPy's result is real or complex depends on the numbers."""
    raise UnsupportedError(
        "np.linalg.eig and eigvals: whether their results are real or complex depends on the numbers",
        fix="use np.linalg.eigh or eigvalsh for symmetric matrices, np.linalg.svd for others",
    )


# ---- singular values ----------------------------------------------------------------------------------------------


@implements(np.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """u, the singular values in descending order, and the conjugate transpose of v.

    Matrices that are not square need full_matrices=False: the further vectors are arbitrary. Where singular values are
    equal, or 0 in matrices that are not square, gradients through vectors are infinite or NaN.
    """
    x = matrices(a, "svd")
    m, n = x.shape[-2:]
    if not compute_uv:
        return svdvals(x)
    if full_matrices and m != n:
        raise UnsupportedError(
            f"np.linalg.svd with all vectors of matrices of shape {shape_text((m, n))}: those that belong to no "
            "singular value are arbitrary and have no derivative",
            fix="pass full_matrices=False",
        )
    packed = Svd.apply(x)
    u, _, v = svd_parts(packed, m, n)
    return SVDResult(u, values_of(x, packed), adjoint(v))


@implements(np.linalg.svdvals)
def svdvals(x: Any, /) -> Any:
    """The singular values in descending order."""
    x = matrices(x, "svdvals")
    return values_of(x, Svd.apply(x))


@implements(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    """The condition number: of singular values, or the norm of order p times that of the inverse."""
    x = matrices(x, "cond")
    if p in (None, 2, -2):
        s = svdvals(x)
        ends = squeeze(slice_axis(s, s.ndim - 1, 0, 1), -1), squeeze(slice_axis(s, s.ndim - 1, s.shape[-1] - 1, 1), -1)
        return divide(*ends) if p != -2 else divide(ends[1], ends[0])
    return np.linalg.norm(x, p, (-2, -1)) * np.linalg.norm(inv(x), p, (-2, -1))


def _rank(s: Any, cut: Any) -> Any:
    """How many singular values are greater than `cut` times the first."""
    limits = multiply(slice_axis(s, s.ndim - 1, 0, 1), cut)
    return tensor_sum(greater(s, limits), axis=-1)


@implements(np.linalg.matrix_rank)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """The number of singular values above `tol`, or above `rtol` times the greatest."""
    x = operand(A)
    if x.ndim < 2:
        return astype(logical_not(equal(x, 0).all()), int)
    s = svdvals(x)
    if tol is not None:
        return tensor_sum(greater(s, expand_dims(operand(tol), -1)), axis=-1)
    return _rank(s, max(x.shape[-2:]) * np.finfo(s.dtype).eps if rtol is None else expand_dims(operand(rtol), -1))


@implements(np.linalg.pinv)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = NOT_GIVEN) -> Any:
    """The Moore-Penrose inverses of matrices."""
    x = matrices(a, "pinv")
    cut = rtol if given(rtol) else rcond
    if cut is not None and not (np.ndim(cut) == 0 and 0 <= float(cut) <= LARGEST_CUT):
        raise UnsupportedError(
            f"np.linalg.pinv with the cut-off {cut!r} has no derivative here",
            fix=f"use one number of at most {LARGEST_CUT}, or compute it from np.linalg.svd(a, full_matrices=False)",
        )
    return Pinv.apply(x, cut=None if cut is None else float(cut))


@implements(np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Any, Any, Any, Any]:
    """The least squares solution of a @ x = b of least norm, sums of squared residuals, rank and singular values.

    As in NumPy the sums are empty where the rank is less than the number of unknowns, or the equations are not more.
    Where nobody knows the rank, in rows of `tg.vmap` and in bodies of loops, they are NaN for such a rank.
    """
    x, y = matrices(a, "lstsq"), operand(b)
    if x.ndim != 2 or y.ndim not in (1, 2) or x.shape[0] != y.shape[0]:
        raise ShapeError(f"lstsq of arrays of shapes {shape_text(x.shape)} and {shape_text(y.shape)}")
    m, n = x.shape
    eps = np.finfo(lapack_dtype(x.dtype)).eps
    cut = max(m, n) * eps if rcond is None else eps if rcond == -1 else rcond
    solution = matmul(pinv(x, cut), y)
    s = svdvals(x)
    rank = astype(_rank(s, cut), np.int32)
    squares = absolute(subtract(y, matmul(x, solution))) ** 2
    sums = tensor_sum(squares if y.ndim == 2 else expand_dims(squares, -1), axis=0)
    try:
        if smaller(m, n) == m or guarded_int(rank) != n:
            sums = slice_axis(sums, 0, 0, 0)
    except SymbolicValueError:
        sums = where(np.equal(rank, dimension(n)), sums, np.nan)
    return solution, sums, rank, s


# ---- QR -----------------------------------------------------------------------------------------------------------


@implements(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    """q with orthonormal columns and r upper triangular (mode "r": r alone). Raises LinAlgError in the derivative where
    the first columns depend on each other."""
    x = matrices(a, "qr")
    m, n = x.shape[-2:]
    if mode not in ("reduced", "r", "complete"):
        raise UnsupportedError(f"np.linalg.qr with mode {mode!r}", fix="use mode='reduced' or 'r'")
    wide = smaller(m, n) == m
    if mode == "complete" and not wide:
        raise UnsupportedError(
            "np.linalg.qr with all columns of q: those beyond the number of columns of the matrix are arbitrary",
            fix="use mode='reduced'",
        )
    square = slice_axis(x, x.ndim - 1, 0, m) if wide else x
    packed = Qr.apply(square)
    q, r = rows_of(packed, 0, m), adjoint(rows_of(packed, m, packed.shape[-1]))
    if wide and m != n:
        r = concatenate([r, matmul(adjoint(q), slice_axis(x, x.ndim - 1, m, n - m))], -1)
    return r if mode == "r" else QRResult(q, r)


# ---- tensors as matrices ------------------------------------------------------------------------------------------


@implements(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """x with tensordot(a, x, x.ndim) = b."""
    x, y = operand(a), operand(b)
    if axes is not None:
        moved = [i % x.ndim for i in axes]
        x = transpose(x, (*(i for i in range(x.ndim) if i not in moved), *moved))
    kept = x.shape[y.ndim :]
    if product(kept) != product(y.shape):
        raise ShapeError(f"tensorsolve of arrays of shapes {shape_text(x.shape)} and {shape_text(y.shape)}")
    size = product(kept)
    return reshape(solve(reshape(x, (size, size)), reshape(y, (size,))), kept)


@implements(np.linalg.tensorinv)
def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse for tensordot over `ind` axes."""
    x = operand(a)
    if ind <= 0 or product(x.shape[:ind]) != product(x.shape[ind:]):
        raise ShapeError(f"tensorinv with ind={ind} of an array of shape {shape_text(x.shape)}")
    size = product(x.shape[ind:])
    return reshape(inv(reshape(x, (size, size))), (*x.shape[ind:], *x.shape[:ind]))
