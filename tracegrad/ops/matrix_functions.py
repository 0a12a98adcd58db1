"""The exponential of matrices. Values come from SciPy, in compiled programs too."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.function import Operation
from tracegrad.ir.types import Type
from tracegrad.ops.arithmetic import conj
from tracegrad.ops.creation import zeros_like
from tracegrad.ops.indexing import getitem
from tracegrad.ops.joining import concatenate
from tracegrad.ops.shape import swapaxes


class Expm(Operation):
    """exp of square matrices along the last two axes, the sum of aⁿ / n!.

    The derivative L(a, e) in a direction e is a block of an exponential, exp([[a, e], [0, a]]) = [[exp a, L(a, e)],
    [0, exp a]], and its adjoint is L(aᴴ, ·): N. Higham, Functions of Matrices (2008), sections 3.1 and 10.6.
    """

    name = "expm"
    saves = ("0",)

    @staticmethod
    def forward(a: np.ndarray) -> np.ndarray:
        from scipy.linalg import expm

        result = Expm.infer(Type(a.dtype, a.shape))
        # SciPy computes in the dtype it is given, and not in every one that there is.
        return np.asarray(expm(a.astype(result.dtype, copy=False))).astype(result.dtype, copy=False)

    @staticmethod
    def infer(a: Type) -> Type:
        return a if a.dtype.char in "fdFD" else a.with_dtype(np.dtype("complex128" if a.dtype.kind == "c" else float))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        turned = conj(swapaxes(ctx.inputs[0], -1, -2))
        n = turned.shape[-1]
        above = concatenate([turned, g], -1)
        below = concatenate([zeros_like(turned), turned], -1)
        return (getitem(Expm.apply(concatenate([above, below], -2)), (..., slice(0, n), slice(n, None))),)
