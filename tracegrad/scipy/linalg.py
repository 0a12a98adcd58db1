"""scipy.linalg for Tensors, arrays and traced values.

Arguments, shapes and values are SciPy's, with two differences: leading axes are batches in every function, and
`check_finite` is read but nothing is checked: NaN spreads, as it does in np.linalg. `overwrite_a` and `overwrite_b`
permit what is never done.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError, UnsupportedError
from tracegrad.ops import cholesky as _cholesky
from tracegrad.ops import factors as _factors
from tracegrad.ops import norms as _norms
from tracegrad.ops import solve as _solve
from tracegrad.ops.arithmetic import conj, subtract
from tracegrad.ops.base import shape_text
from tracegrad.ops.creation import arange, zeros
from tracegrad.ops.indexing import getitem
from tracegrad.ops.joining import concatenate
from tracegrad.ops.matrix_functions import Expm
from tracegrad.ops.operands import operand
from tracegrad.ops.shape import expand_dims, ravel, squeeze, swapaxes
from tracegrad.ops.triangular import SolveTriangular

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "det", "eigh", "eigvalsh", "expm", "inv", "norm", "pinv", "qr",
    "solve", "solve_triangular", "svd", "svdvals", "toeplitz",
]  # fmt: skip

_TRANSPOSED: dict[Any, str] = {0: "N", 1: "T", 2: "C", "N": "N", "T": "T", "C": "C"}


def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Any:
    """np.linalg.norm."""
    return _norms.norm(a, ord, axis, keepdims)


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The inverses of matrices. Raises LinAlgError where one is singular."""
    return _solve.inv(a)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinants of matrices."""
    return _solve.det(a)


def solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """x with op(t) @ x = b for a triangle t of `a` (..., n, n); b is (n,) or (..., n, k).

    `trans`: op is the identity (0, "N"), the transpose (1, "T") or the conjugate transpose (2, "C"). The gradient in
    `a` is zero outside the triangle. Raises LinAlgError where t is singular, ShapeError, ArgumentError.
    """
    if trans not in _TRANSPOSED:
        raise ArgumentError(f"solve_triangular was given trans={trans!r}", fix='use "N", "T" or "C"')
    left, way = _solve.square_matrices(a, "solve_triangular"), _TRANSPOSED[trans]
    if way != "N":
        left, lower = swapaxes(left, -1, -2), not lower
        left = conj(left) if way == "C" else left
    return _on_columns(lambda rhs: SolveTriangular.apply(left, rhs, lower=bool(lower), unit=bool(unit_diagonal)), b)


def _on_columns(solve: Any, b: Any) -> Any:
    """A solver of matrices of right-hand sides, given these or one vector."""
    rhs = operand(b)
    if rhs.ndim == 0:
        raise ShapeError("a linear system needs a vector or matrices on the right")
    return squeeze(solve(expand_dims(rhs, -1)), -1) if rhs.ndim == 1 else solve(rhs)


def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The upper (or lower) triangular factor of positive definite matrices; raises LinAlgError for others.

    As in SciPy the triangle of `a` of that name is read; the gradient is symmetric.
    """
    return _cholesky.cholesky(a, upper=not lower)


def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, bool]:
    """The factor for `cho_solve`, with zeros in the triangle where SciPy leaves what it found, and which it is."""
    return cholesky(a, lower), bool(lower)


def cho_solve(c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """x with a @ x = b, given `cho_factor(a)`."""
    factor, lower = c_and_lower
    first, second = ("N", "C") if lower else ("C", "N")
    return solve_triangular(factor, solve_triangular(factor, b, first, lower), second, lower)


def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str | None = None,
    transposed: bool = False,
) -> Any:
    """x with a @ x = b for (..., n, n) and (n,) or (..., n, k). Raises LinAlgError where `a` is singular.

    `assume_a="pos"` uses a Cholesky factor of the triangle named by `lower`; "lower triangular" and "upper triangular"
    substitute; everything else is solved as a general matrix, all of which is read.
    """
    if transposed:
        a, lower = swapaxes(_solve.square_matrices(a, "solve"), -1, -2), not lower
    if assume_a in ("pos", "positive definite"):
        return cho_solve(cho_factor(a, lower), b)
    if assume_a in ("lower triangular", "upper triangular"):
        return solve_triangular(a, b, lower=(assume_a == "lower triangular") != transposed)
    return _on_columns(lambda rhs: _solve.solve(a, rhs), b)


def eigh(
    a: Any, b: None = None, *, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices, as np.linalg.eigh; or the eigenvalues alone."""
    if b is not None:
        raise UnsupportedError(
            "scipy.linalg.eigh with two matrices",
            fix="with b = l lᴴ use the matrix l⁻¹ a l⁻ᴴ (cholesky, solve_triangular)",
        )
    triangle = "L" if lower else "U"
    return _factors.eigvalsh(a, triangle) if eigvals_only else tuple(_factors.eigh(a, triangle))


def eigvalsh(a: Any, *, lower: bool = True, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The eigenvalues of Hermitian matrices, ascending."""
    return _factors.eigvalsh(a, "L" if lower else "U")


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """np.linalg.svd."""
    found = _factors.svd(a, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The singular values in descending order."""
    return _factors.svdvals(a)


def pinv(a: Any, *, rtol: float | None = None, check_finite: bool = True) -> Any:
    """np.linalg.pinv, with SciPy's limit for singular values that count as 0: max(m, n) times the rounding unit."""
    x = _factors.matrices(a, "pinv")
    limit = max(x.shape[-2:]) * float(np.finfo(_solve.lapack_dtype(x.dtype)).eps) if rtol is None else rtol
    return _factors.pinv(x, limit)


def qr(a: Any, overwrite_a: bool = False, *, mode: str = "full", check_finite: bool = True) -> Any:
    """q and r, or r alone for mode "r"; matrices with more rows than columns need mode "economic" (or "r")."""
    if mode not in ("full", "economic", "r"):
        raise ArgumentError(f"qr was given mode={mode!r}", fix='use "economic" or "r"')
    found = _factors.qr(a, {"full": "complete", "economic": "reduced", "r": "r"}[mode])
    return (found,) if mode == "r" else tuple(found)


def expm(A: Any) -> Any:
    """The exponential of square matrices along the last two axes."""
    return Expm.apply(_solve.square_matrices(A, "expm"))


def toeplitz(c: Any, r: Any = None) -> Any:
    """The matrix with constant diagonals whose first column is `c` and whose first row is `r`, conj(c) without it.

    Both are vectors; r[0] is not read.
    """
    column = operand(c)
    row = conj(column) if r is None else operand(r)
    for vector in (column, row):
        if vector.ndim != 1:
            raise ShapeError(f"toeplitz takes vectors, got an array of shape {shape_text(vector.shape)}")
    rows, columns = column.shape[0], row.shape[0]
    values = concatenate([getitem(column, slice(None, None, -1)), getitem(row, slice(1, None))])
    places = subtract(expand_dims(arange(columns), 0), expand_dims(arange(rows), 1))
    return getitem(values, places + (rows - 1))


def block_diag(*arrs: Any) -> Any:
    """The matrix with the given matrices along its diagonal and zeros elsewhere; numbers and vectors are rows."""
    blocks = [operand(a) for a in arrs] or [np.zeros((1, 0))]
    for block in blocks:
        if block.ndim > 2:
            raise ShapeError(f"block_diag takes matrices, got an array of shape {shape_text(block.shape)}")
    blocks = [b if b.ndim == 2 else expand_dims(ravel(b), 0) for b in blocks]
    total, dtype = sum(b.shape[1] for b in blocks), np.result_type(*(b.dtype for b in blocks))
    rows, before = [], 0
    for b in blocks:
        sides = (zeros(b.shape[0], n, dtype=dtype) for n in (before, total - before - b.shape[1]))
        rows.append(concatenate([next(sides), b, next(sides)], 1))
        before += b.shape[1]
    return concatenate(rows, 0)
