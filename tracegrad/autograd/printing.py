"""How Tensors print: as PyTorch's, with the dtype where it is not the default of its kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import TracegradError
from tracegrad.tensor import Tensor

_DEFAULTS = {np.dtype(float), np.dtype(int), np.dtype(bool), np.dtype(complex)}


def tensor_repr(self: Tensor) -> str:
    """tensor([2.], grad_fn=<MulBackward0>); a traced Tensor shows its numbers if it has them, else its type."""
    marks = []
    array: Any
    try:
        array = np.asarray(self._value())
    except TracegradError:
        array = None
    if self.dtype not in _DEFAULTS:
        marks.append(f"dtype={self.dtype}")
    if self._array is None:
        marks.append("traced")
    elif self.grad_fn is not None:
        marks.append(f"grad_fn=<{self.grad_fn.name()}>")
    elif self.requires_grad:
        marks.append("requires_grad=True")
    text = str(self.type) if array is None else _numbers(array)
    if array is not None and array.size == 0 and array.shape != (0,):
        marks.insert(0, f"size={array.shape}")
    return f"tensor({', '.join([text, *marks])})"


def _numbers(array: np.ndarray) -> str:
    if array.size == 0:
        return "[]"
    return np.array2string(array, separator=", ", prefix="tensor(", floatmode="maxprec")


def tensor_str(self: Tensor) -> str:
    return tensor_repr(self)


def tensor_format(self: Tensor, spec: str) -> str:
    """A Tensor with one element formats as its number."""
    if not spec:
        return tensor_repr(self)
    return format(np.asarray(self._value()).item(), spec)


Tensor.__repr__ = tensor_repr
Tensor.__str__ = tensor_str
Tensor.__format__ = tensor_format
