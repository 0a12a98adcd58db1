"""Sample inputs of every registered operation: the rows of the test matrix.

One module per family beside this file. Each has a dict `SAMPLES` from an operation's name to a function without
arguments that returns its list of Samples; the module's name stands in FAMILIES below. `samples_of(operation)` finds
them; `tests/ops/test_registry.py` loops over the registry and fails for an operation that has none.

A Sample holds `args` (ndarrays; a Python number where an operand is weak), `attrs` (keyword arguments, as the
operation's `apply` takes them) and `smooth`: whether derivatives are compared with finite differences there (False at
kinks, jumps, singular points, for awkward values and low precision; the values are compared nevertheless).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FAMILIES = (
    "elementwise", "reductions", "constants", "shapes", "indexing", "joining", "linalg", "cumulative", "sorting",
    "special", "windows", "random_bits", "fourier", "decompositions",
)  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """One application of an operation; `id` names it in test reports."""

    args: tuple[Any, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    smooth: bool = True
    id: str = ""

    def __str__(self) -> str:
        if self.id:
            return self.id
        operands = ",".join(f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else repr(a) for a in self.args)
        attrs = ",".join(f"{k}={v}" for k, v in self.attrs.items() if not isinstance(v, np.ndarray))
        return f"{operands};{attrs}" if attrs else operands


def samples_of(operation: Any) -> list[Sample]:
    """The samples of a registered operation, given as class or name; an empty list if it has none."""
    name = operation if isinstance(operation, str) else operation.name
    for family in FAMILIES:
        try:
            module = importlib.import_module(f"{__name__}.{family}")
        except ModuleNotFoundError:
            continue
        if name in module.SAMPLES:
            return module.SAMPLES[name]()
    return []


def values(
    shape: tuple[int, ...] = (2, 3), low: float = -2.0, high: float = 2.0, dtype: Any = float, seed: int = 0
) -> Any:
    """Reproducible numbers between `low` and `high`, with digits that no kink or tie shares."""
    rng = np.random.default_rng((seed, *shape))
    return np.asarray(rng.uniform(low, high, shape)).astype(dtype)
