"""Parameter: a Tensor that a Module lists among its parameters."""

from __future__ import annotations

from typing import Any

from tracegrad.autograd.printing import tensor_repr
from tracegrad.errors import UnsupportedError
from tracegrad.state import state
from tracegrad.tensor import Tensor


class Parameter(Tensor):
    """A leaf Tensor that requires grad; assigned to an attribute of a Module it becomes one of its parameters."""

    __slots__ = ()

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        if state.trace is not None:
            raise UnsupportedError(
                "a layer or Parameter is made inside a traced function: it would be drawn anew in each call",
                fix="make it once, outside, and pass it to the function or use it from there",
            )
        if data is None:
            data = Tensor([])
        source = data if isinstance(data, Tensor) else Tensor(data)
        out = Tensor._wrap(source._value())
        out.__class__ = cls
        if requires_grad:
            out.requires_grad = True
        return out  # type: ignore[return-value]

    def __init__(self, data: Any = None, requires_grad: bool = True):
        pass  # made in __new__, over the memory of `data`

    def __repr__(self) -> str:
        return f"Parameter containing:\n{tensor_repr(self)}"

    __str__ = __repr__
