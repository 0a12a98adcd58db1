"""What accumulators start from."""

from __future__ import annotations

from typing import Any

import numpy as np


def identity(combine: str, dtype: np.dtype) -> Any:
    """The identity of a combining operation on a dtype, as a Python number."""
    if combine in ("add", "logical_or"):
        return np.zeros((), dtype).item()
    if combine in ("multiply", "logical_and"):
        return np.ones((), dtype).item()
    largest = combine == "minimum"
    if dtype.kind == "f":
        return np.inf if largest else -np.inf
    if dtype.kind == "b":
        return largest
    return int(np.iinfo(dtype).max if largest else np.iinfo(dtype).min)
