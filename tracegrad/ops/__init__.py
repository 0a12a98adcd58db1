"""The operations, one file per family. Importing this package fills the registry and gives Tensor its methods."""

from tracegrad.ops import (
    arithmetic,
    casting,
    comparison,
    constant,
    creation,
    cumulative,
    diagonal,
    einsum,
    elementwise,
    exempt,
    exponential,
    gamma,
    gather,
    indexing,
    joining,
    linalg,
    nan_reductions,
    norms,
    padding,
    power,
    reduction,
    repeating,
    rounding,
    select,
    shape,
    slicing,
    solve,
    sorting,
    special,
    statistics,
    stop,
    trigonometric,
)

# These two read the tables that the families above have filled.
from tracegrad.ops import methods, ufunc_methods  # isort: skip
