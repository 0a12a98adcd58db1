"""How Tensors print: as PyTorch's, with the dtype where it is not the default of its kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import TracegradError
from tracegrad.state import state
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
    text = format(np.asarray(self._value()).item(), spec)
    if self._array is not None and not state.differentiating:
        return text
    shown = Shown(text)
    shown.tensor = self
    return shown


class Shown(str):
    """The text of a traced or differentiated number: what is read or decided from it is so from the number itself.

    Where it is joined with other text, as in most messages, it becomes a str like any other.
    """

    tensor: Tensor

    def _look(self, what: str) -> str:
        from tracegrad.ops.to_python import number

        if state.trace is not None or state.differentiating:
            number(self.tensor, what)
        return str.__str__(self)

    def __float__(self) -> float:
        return float(self._look("float()"))

    def __int__(self) -> int:
        return int(self._look("int()"))

    def __complex__(self) -> complex:
        return complex(self._look("complex()"))

    def __eq__(self, other: object) -> bool:
        return self._look("bool()") == other

    def __ne__(self, other: object) -> bool:
        return self._look("bool()") != other

    def __hash__(self) -> int:
        return hash(self._look("bool()"))

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str.__str__(self),)


Tensor.__repr__ = tensor_repr
Tensor.__str__ = tensor_str
Tensor.__format__ = tensor_format
