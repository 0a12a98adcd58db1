"""Triangular systems. Values come from SciPy (LAPACK's trtrs); compiled programs have loops for small real matrices
and call BLAS for larger ones.

Derivatives: M. Giles, Collected matrix derivative results for forward and reverse mode algorithmic differentiation
(2008), section 2.2.3, restricted to the triangle that is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ShapeError
from tracegrad.function import Operation
from tracegrad.ir.lowering import Matrices
from tracegrad.ir.types import Type
from tracegrad.ops.arithmetic import conj, negative
from tracegrad.ops.base import broadcast_shapes, shape_text
from tracegrad.ops.diagonal import tril, triu
from tracegrad.ops.linalg import matmul
from tracegrad.ops.shape import swapaxes


class SolveTriangular(Operation):
    """x with t @ x = b, where t is the lower or upper triangle of a, its diagonal taken as ones if `unit`.

    Leading axes broadcast. Raises LinAlgError where t has a zero on its diagonal.
    """

    name = "solve_triangular"
    lower = Matrices("solve_triangular")
    saves = ("0y", "0")

    @staticmethod
    def forward(a: np.ndarray, b: np.ndarray, *, lower: bool, unit: bool) -> np.ndarray:
        from scipy.linalg import solve_triangular

        def solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            # An empty system has an answer, which not every SciPy gives.
            options = {"lower": lower, "unit_diagonal": unit, "check_finite": False}
            return solve_triangular(a, b, **options) if b.size else np.zeros(b.shape)

        dtype = SolveTriangular.infer(Type(a.dtype, a.shape), Type(b.dtype, b.shape), lower=lower, unit=unit).dtype
        a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
        if a.ndim == b.ndim == 2:
            return solve(a, b).astype(dtype, copy=False)
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        out = np.empty(batch + b.shape[-2:], dtype)
        a, b = np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(b, batch + b.shape[-2:])
        for index in np.ndindex(batch):
            out[index] = solve(a[index], b[index])
        return out

    @staticmethod
    def infer(a: Type, b: Type, *, lower: bool, unit: bool) -> Type:
        if a.shape[-1] != b.shape[-2]:
            raise ShapeError(f"solve_triangular with matrices of shape {shape_text(a.shape)} and {shape_text(b.shape)}")
        common = np.result_type(a.dtype, b.dtype)
        dtype = common if common.char in "fdFD" else np.dtype("complex128" if common.kind == "c" else float)
        return Type(dtype, (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        lower, unit = ctx.attrs["lower"], ctx.attrs["unit"]
        turned = conj(swapaxes(ctx.inputs[0], -1, -2))
        right = SolveTriangular.apply(turned, g, lower=not lower, unit=unit)
        if not ctx.needs_input_grad[0]:
            return None, right
        whole = negative(matmul(right, conj(swapaxes(ctx.output, -1, -2))))
        return tril(whole, -1 if unit else 0) if lower else triu(whole, 1 if unit else 0), right
