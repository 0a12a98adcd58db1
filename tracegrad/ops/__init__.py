"""The operations, one file per family. Importing this package fills the registry and gives Tensor its methods."""

from tracegrad.ops import (
    arithmetic,
    casting,
    comparison,
    constant,
    creation,
    exponential,
    power,
    reduction,
    rounding,
    select,
    shape,
    special,
    statistics,
    stop,
    trigonometric,
)  # fmt: skip

from tracegrad.ops import methods  # isort: skip

__all__ = [
    "arithmetic", "casting", "comparison", "constant", "creation", "exponential", "indexing", "joining", "methods", "power", "reduction",
    "rounding", "select", "shape", "special", "statistics", "stop", "trigonometric",
]  # fmt: skip
