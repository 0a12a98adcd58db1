"""Linear systems and factors of matrices: calls of kernels on whole arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracegrad.ir.graph import Node, Var
from tracegrad.schedule import views
from tracegrad.schedule.loops import for_lapack
from tracegrad.schedule.statements import CallStatement, cast

if TYPE_CHECKING:
    from tracegrad.schedule.build import Builder

_TURNABLE = ("solve", "solve_triangular")  # kernels of LAPACK that read a transposed matrix where it lies


def call(builder: Builder, node: Node, kernel: str) -> None:
    """Computed in float64, as NumPy does whatever the dtype; triangular systems, which are SciPy's, in their own."""
    out, attrs, (a, *others) = node.output, dict(node.attrs), node.inputs
    if kernel in _TURNABLE and for_lapack(a.type.shape[-1]):
        source = views.transposed_source(builder.definitions, a)
        a, attrs["transposed"] = (a, False) if source is None else (source, True)
    dtype = out.type.dtype if kernel == "solve_triangular" else np.dtype(float)
    result = out if out.type.dtype == dtype else Var(out.type.with_dtype(dtype), out.name)
    inputs = tuple(builder.materialised(builder.in_dtype(v, dtype)) for v in (a, *others))
    builder.add_call(CallStatement(kernel, inputs, (result,), node, attrs))
    if result is not out:
        index = builder.variables(out.type.shape)
        builder.add(out, index, cast(builder.read(result, index), out.type.dtype), builder.order(index))
