"""What loading a state_dict into a module consists of."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from tracegrad.tensor import Tensor


class IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict returns."""

    __slots__ = ()

    def __repr__(self) -> str:
        return super().__repr__() if self.missing_keys or self.unexpected_keys else "<All keys matched successfully>"

    __str__ = __repr__


def load_one(key: str, target: Tensor, value: Any) -> str:
    """Copy one entry; the fault in words, or nothing."""
    array = value._value() if isinstance(value, Tensor) else np.asarray(value)
    if array.shape != target.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {tuple(array.shape)} from checkpoint, "
            f"the shape in current model is {tuple(target.shape)}."
        )
    target.copy_(array)
    return ""
