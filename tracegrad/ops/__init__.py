"""The operations, one file per family. Importing this package fills the registry and gives Tensor its methods."""

from tracegrad.ops import (
    arithmetic, casting, comparison, constant, creation, cumulative, diagonal, einsum, exempt, exponential, gamma, gather,
    indexing, joining, linalg, padding, power, reduction, repeating, rounding, select, shape, slicing, sorting, special,
    statistics, stop, trigonometric,
)  # fmt: skip

from tracegrad.ops import methods  # isort: skip

__all__ = [
    "arithmetic", "casting", "comparison", "constant", "creation", "cumulative", "diagonal", "einsum", "exempt",
    "exponential", "gamma", "gather", "indexing", "joining", "linalg", "methods", "padding", "power", "reduction",
    "repeating", "rounding", "select", "shape", "slicing", "sorting", "special", "statistics", "stop", "trigonometric",
]  # fmt: skip
