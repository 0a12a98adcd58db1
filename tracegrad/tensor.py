"""Tensor: an array that remembers how it was computed; eager over an ndarray, traced over a value of a graph.

Its operators and NumPy-like methods are attached by `tracegrad.ops.methods`, the autograd ones by
`tracegrad.autograd.tensor_methods`, so that this module depends on nothing that computes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad.errors import AutogradError, DTypeError, UnsupportedError
from tracegrad.ir.graph import Var
from tracegrad.ir.sizes import active
from tracegrad.ir.types import Type
from tracegrad.state import state

if TYPE_CHECKING:
    from tracegrad.trace.tracer import Trace


class Meta:
    """What few Tensors have: a gradient, hooks, a version counter shared with their views, a base.

    Views of arrays are made often, so making one sets what differs, and nothing else.

    base, replay, view_version: for a view its base, the operations that lead from there to it, and the version of the
        memory for which its grad_fn holds. `view_reason` says why such a view must not be modified in place.
    tangents: in forward mode, per level of dual numbers the tangent and the version of the memory it is for.
    """

    accumulator: Any = None
    grad: Tensor | None = None
    hooks: Any = None
    inference = False
    post_hooks: Any = None
    retains_grad = False
    tangents: dict[Any, Any] | None = None

    def __init__(
        self, version: list[int], base: Tensor | None = None, replay: Any = (), view_version: int = 0,
        view_reason: str | None = None,
    ) -> None:  # fmt: skip
        self.version = version
        self.base, self.replay = base, replay
        self.view_version, self.view_reason = view_version, view_reason


class Count(int):
    """The number of elements: to NumPy and to operations a Python int, as in NumPy; called, PyTorch's `x.size()`.

    NumPy knows Python's own numbers by their exact type, and would take another int for an int64.
    """

    _shape: tuple[int, ...]

    def __call__(self, dim: int | None = None) -> Any:
        return self._shape if dim is None else self._shape[dim]

    @property
    def number(self) -> int:
        """It itself, as a plain int."""
        return int(self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*[int(x) if type(x) is Count else x for x in inputs], **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return func(*[int(x) if type(x) is Count else x for x in args], **kwargs)


class Tensor:
    """A NumPy array with `requires_grad`, `grad` and `grad_fn`. Make one with `tg.tensor`.

    While a function is traced its Tensors stand for values of the graph: shape and dtype are known, numbers are
    computed when Python looks at them.
    """

    __slots__ = ("__weakref__", "_array", "_grad_fn", "_meta", "_output_nr", "_requires_grad", "_trace", "_var")

    _array: np.ndarray | None
    _requires_grad: bool
    _grad_fn: Any
    _output_nr: int
    _meta: Meta | None
    _trace: Trace
    _var: Var

    def __init__(self, data: Any, requires_grad: bool = False, dtype: Any = None):
        if isinstance(data, np.ndarray):
            check_array(data)
        array = np.array(data.detach()._array if isinstance(data, Tensor) else data, dtype=dtype)
        self._array = check_array(array)
        self._requires_grad = False
        self._grad_fn = None
        self._output_nr = 0
        self._meta = None
        if requires_grad:
            self.requires_grad = True

    @classmethod
    def _wrap(cls, array: np.ndarray) -> Tensor:
        """A leaf over this very array, not a copy."""
        self = object.__new__(Tensor)
        self._array = array
        self._requires_grad = False
        self._grad_fn = None
        self._output_nr = 0
        self._meta = None
        return self

    @classmethod
    def _traced(cls, trace: Trace, var: Var) -> Tensor:
        """The Tensor that stands for `var` of `trace`."""
        self = object.__new__(Tensor)
        self._array = None
        self._trace = trace
        self._var = var
        self._requires_grad = False
        self._grad_fn = None
        self._output_nr = 0
        self._meta = None
        return self

    # ---- what it is ------------------------------------------------------------------------------------------------

    @property
    def is_traced(self) -> bool:
        """Whether it stands for a value of a graph that is being recorded."""
        return self._array is None

    @property
    def type(self) -> Type:
        """dtype and dimensions, in the terms of the IR."""
        array = self._array
        return self._var.type if array is None else Type(array.dtype, array.shape)

    @property
    def dtype(self) -> np.dtype:
        return self._var.type.dtype if self._array is None else self._array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        if self._array is not None:
            return self._array.shape
        shape, sizes = self._var.type.shape, active.sizes
        return shape if sizes is None else sizes.wrap(shape)  # type: ignore[return-value]

    @property
    def ndim(self) -> int:
        return len(self._var.type.shape) if self._array is None else self._array.ndim

    @property
    def size(self) -> int:
        if self._array is not None:
            return self._array.size
        size, sizes = self._var.type.size, active.sizes
        return size if sizes is None else sizes.size(size)  # type: ignore[return-value]

    def _value(self) -> np.ndarray:
        """The numbers: the array itself, or for a traced Tensor what the trace computes for it."""
        return self._trace.value(self._trace.lift(self)) if self._array is None else self._array

    # ---- autograd state --------------------------------------------------------------------------------------------

    def _ensure_meta(self) -> Meta:
        meta = self._meta
        if meta is None:
            self._meta = meta = Meta([0])
            if self._grad_fn is not None:
                self._grad_fn._share_counter(self, meta)
        return meta

    @property
    def requires_grad(self) -> bool:
        meta = self._meta
        if meta is not None and meta.base is not None and meta.view_version != meta.version[0]:
            self._refresh_view()
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self.grad_fn is not None:
            if not value:
                raise AutogradError(
                    "you can only change requires_grad flags of leaf variables; this Tensor was computed from others",
                    fix="use `.detach()` to get the value without its history",
                )
            return
        if value and self.dtype.kind not in "fc":
            raise AutogradError(
                f"a Tensor of dtype {self.dtype} cannot require gradients; "
                "only Tensors of floating point and complex dtype can",
                fix="make it a float, for example with dtype=float",
            )
        if value and self._meta is not None and self._meta.inference and not state.inference:
            raise AutogradError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed",
                fix="use a copy: x.clone()",
            )
        self._requires_grad = bool(value)

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made it."""
        return self.grad_fn is None

    @property
    def grad_fn(self) -> Any:
        """The node of the backward graph that made it; None for a leaf."""
        meta = self._meta
        if meta is not None and meta.base is not None and meta.view_version != meta.version[0]:
            self._refresh_view()
        return self._grad_fn

    def _refresh_view(self) -> None:
        """Derive the history of a view again, whose memory was modified in place since it was made."""
        if self._array is None:
            self._trace.lift(self)
            return
        from tracegrad.autograd.views import refresh

        refresh(self)

    @property
    def _version(self) -> int:
        """How often it was modified in place, counted together with all views of the same memory."""
        return 0 if self._meta is None else self._meta.version[0]


def check_array(array: np.ndarray) -> np.ndarray:
    """`array` itself if its dtype is a number or bool. Raises DTypeError for object, string, datetime, …, and
    UnsupportedError for masked arrays and np.matrix, whose own meaning of what is computed would silently get lost."""
    if type(array) is not np.ndarray:
        _check_class(array)
    if array.dtype.kind not in "biufc":
        raise DTypeError(
            f"an array of dtype {array.dtype} holds no numbers that tracegrad could compute with",
            fix="pass an array of floats, integers or bools; a list of Tensors goes through np.stack or tg.stack",
        )
    return array


def plain_array(result: Any) -> np.ndarray:
    """What NumPy computed, as an ndarray. Raises UnsupportedError where an operand had a meaning of its own."""
    return np.asarray(check_array(result) if isinstance(result, np.ndarray) else result)


def _check_class(array: np.ndarray) -> None:
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(array, masked.MaskedArray):
        what, fix = "a masked array, whose mask would be lost", "pass x.filled(value), or x.data and x.mask"
    elif isinstance(array, np.matrix):
        what, fix = "an np.matrix, whose * is a matrix product", "pass np.asarray(x), and write @ for that product"
    else:
        return
    raise UnsupportedError(f"tracegrad computes with plain arrays; this is {what}", fix=fix)
