"""What Tensors have from PyTorch's autograd: backward, grad, hooks, leaves, detach. Attached on import."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tracegrad.autograd.api import backward as _run_backward
from tracegrad.autograd.hooks import HookTable, RemovableHandle
from tracegrad.autograd.views import alias
from tracegrad.errors import ArgumentError, AutogradError, DTypeError, UnsupportedError
from tracegrad.ir.sizes import Size, active
from tracegrad.state import state
from tracegrad.tensor import Count, Tensor


def backward(
    self: Tensor, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Add the gradients of this Tensor to the `.grad` of the leaves; see `tracegrad.autograd.backward`."""
    _run_backward(self, None if gradient is None else (gradient,), retain_graph, create_graph, inputs)


def _get_grad(self: Tensor) -> Tensor | None:
    meta = self._meta
    traced = state.trace is not None
    if self._array is None and not traced and (meta is None or meta.grad is None):
        from tracegrad.function import outlived

        raise outlived()
    if self._grad_fn is not None and not (meta is not None and (meta.retains_grad or meta.grad is not None)):
        warnings.warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed; backward() does not fill it. "
            "Call .retain_grad() on this Tensor before backward() if you want it, or use the leaf it came from",
            UserWarning,
            stacklevel=2,
        )
    if traced:
        return state.trace.memory.gradients.read(self)
    return None if meta is None else meta.grad


def _set_grad(self: Tensor, value: Any) -> None:
    if value is not None:
        if not isinstance(value, Tensor):
            raise ArgumentError(
                f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}",
                fix="wrap it: tg.tensor(value)",
            )
        if value is self:
            raise AutogradError("can't assign a Tensor as its own grad")
        if value.shape != self.shape:
            raise AutogradError(
                f"attempting to assign a gradient of size {list(value.shape)!r} to a tensor of size "
                f"{list(self.shape)!r}: both must be the same",
            )
        if value.dtype != self.dtype:
            raise AutogradError(f"attempting to assign a gradient of dtype {value.dtype} to a tensor of {self.dtype}")
    elif self._meta is None and state.trace is None:
        return
    if state.trace is not None:
        state.trace.memory.gradients.assign(self, value)
    else:
        self._ensure_meta().grad = value


def _delete_grad(self: Tensor) -> None:
    _set_grad(self, None)


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Switch `requires_grad` of a leaf on or off; the Tensor itself comes back."""
    if requires_grad and self.dtype.kind not in "fc":
        raise AutogradError(
            f"only Tensors of floating point dtype can require gradients, this one is {self.dtype}",
            fix="make it a float, for example with dtype=float",
        )
    self.requires_grad = requires_grad
    return self


def retain_grad(self: Tensor) -> None:
    """Let backward() fill `.grad` of this Tensor although it is not a leaf; on a leaf it does nothing."""
    if not self.requires_grad:
        raise AutogradError("can't retain_grad on Tensor that has requires_grad=False")
    node = self.grad_fn
    if node is None or self._ensure_meta().retains_grad:
        return
    self._ensure_meta().retains_grad = True
    import weakref

    node._ensure_hooks().retain[self._output_nr] = weakref.ref(self)


def register_hook(self: Tensor, hook: Any) -> RemovableHandle:
    """`hook(grad)` runs when this Tensor's gradient is computed; a Tensor it returns replaces the gradient."""
    if self._array is None and state.trace is not None:
        return _register_traced(self, hook)
    if not self.requires_grad:
        raise AutogradError(
            "cannot register a hook on a tensor that doesn't require gradient",
            fix="make it with requires_grad=True, or compute it from one that requires grad",
        )
    node = self.grad_fn
    if node is not None:
        return RemovableHandle(node._tensor_hooks(self._output_nr), hook)
    meta = self._ensure_meta()
    if meta.hooks is None:
        meta.hooks = HookTable()
    return RemovableHandle(meta.hooks, hook)


def _register_traced(self: Tensor, hook: Any) -> RemovableHandle:
    """A hook on a value of a recording: for backward() inside it, and for whoever differentiates the recording."""
    trace = self._trace
    var = trace.lift(self)
    if state.function_body or not (self.requires_grad or trace.depends_on_differentiated(var)):
        raise AutogradError(
            "cannot register a hook on a tensor that doesn't require gradient",
            fix="make it with requires_grad=True, or compute it from one that requires grad",
        )
    node = self.grad_fn
    if node is None and var in trace.sources:
        raise UnsupportedError(
            "a hook is registered inside a compiled function on a Tensor from outside, where each call would add one "
            "more",
            fix="register it outside the function",
        )
    table = HookTable() if node is None else node._tensor_hooks(self._output_nr)
    return RemovableHandle(trace.hooked.setdefault(var, table), hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Any) -> RemovableHandle:
    """`hook(tensor)` runs after backward() has added to this leaf's `.grad`."""
    if not self.requires_grad:
        raise AutogradError("cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is not None:
        raise AutogradError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    meta = self._ensure_meta()
    if meta.post_hooks is None:
        meta.post_hooks = HookTable()
    return RemovableHandle(meta.post_hooks, hook)


def detach(self: Tensor) -> Tensor:
    """The same memory as a Tensor without history; both share the version counter."""
    if self._array is None or state.trace is not None:
        from tracegrad.ops.stop import stop_gradient

        return stop_gradient(self)
    return alias(self)


def detach_(self: Tensor) -> Tensor:
    """Forget the history of this very Tensor, which becomes a leaf."""
    if self._meta is not None and self._meta.base is not None:
        raise AutogradError(
            "can't detach views in-place: this Tensor is a view of another", fix="use `.detach()` instead"
        )
    if self._array is None or state.trace is not None:
        state.trace.memory.detach(self)
    self._grad_fn, self._requires_grad, self._output_nr = None, False, 0
    return self


def _get_data(self: Tensor) -> Tensor:
    return detach(self) if self._array is None or state.trace is not None else Tensor._wrap(self._array)


def _set_data(self: Tensor, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise ArgumentError(f"data must be set to a Tensor, not a {type(value).__name__}", fix="tg.tensor(value)")
    if state.trace is not None:
        from tracegrad.state import no_grad

        with no_grad():
            self.copy_(value)
        return
    if self._requires_grad and value.dtype.kind not in "fc":
        raise DTypeError(f"data of a Tensor that requires grad must be floating point, not {value.dtype}")
    # What was saved for backward would otherwise be read with the new numbers, silently.
    self._ensure_meta().version[0] += 1
    self._array = value._array


def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The numbers as an ndarray that shares memory with the Tensor. Raises AutogradError if it requires grad."""
    if force:
        return detach(self)._value()
    if self._array is None:
        from tracegrad.ops.to_python import to_array

        return to_array(self)
    if state.differentiating:
        from tracegrad.ops.to_python import refuse_eagerly

        refuse_eagerly(self, "numpy()")
    if state.grad_enabled and self.requires_grad:
        raise AutogradError(
            "Can't call numpy() on Tensor that requires grad: the gradient would be lost",
            fix="use tensor.detach().numpy() where that is meant",
        )
    if state.trace is not None:
        state.trace.memory.freeze(self)
    return self._array


def is_floating_point(self: Tensor) -> bool:
    return self.dtype.kind == "f"


def is_complex(self: Tensor) -> bool:
    return self.dtype.kind == "c"


def data_ptr(self: Tensor) -> int:
    """The address of the first element."""
    return self._value().__array_interface__["data"][0]


def _retains_grad(self: Tensor) -> bool:
    return self._meta is not None and self._meta.retains_grad


def _base(self: Tensor) -> Tensor | None:
    return None if self._meta is None else self._meta.base


def is_inference(self: Tensor) -> bool:
    """Whether it was made under inference_mode."""
    return self._meta is not None and self._meta.inference


def deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """A leaf with a copy of the numbers. Raises AutogradError for a Tensor that was computed, as it has a history."""
    if self.grad_fn is not None:
        raise AutogradError(
            "only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol",
            fix="copy the value: x.detach().clone()",
        )
    if self._array is None:
        raise ArgumentError("a traced Tensor cannot be deep-copied", fix="use x.clone()")
    out = type(self)._rebuilt(self._array.copy(), self._requires_grad, type(self))
    memo[id(self)] = out
    if self._meta is not None and self._meta.grad is not None:
        out.grad = deepcopy(self._meta.grad, memo)
    return out


def shallow_copy(self: Tensor) -> Tensor:
    """Another Tensor on the same memory and version: of a leaf a leaf with its `.grad`, else a view with history."""
    if self._array is None or self.grad_fn is not None:
        return self[...]
    out = self.detach()
    out.__class__, out._requires_grad = type(self), self._requires_grad
    if self._meta is not None and self._meta.grad is not None:
        out.grad = self._meta.grad
    return out


def _rebuilt(array: np.ndarray, requires_grad: bool, cls: type[Tensor]) -> Tensor:
    """What unpickling calls."""
    out = Tensor._wrap(array)
    if cls is not Tensor:
        out.__class__ = cls
    out._requires_grad = requires_grad
    return out


def reduce(self: Tensor) -> Any:
    """Pickling keeps numbers and requires_grad, not the history; a Tensor that was computed is pickled as a leaf."""
    if self._array is None:
        raise ArgumentError("a traced Tensor cannot be pickled", fix="return it from the function first")
    return _rebuilt, (self._array, self.requires_grad, type(self))


class _SymbolicSize(Size):
    """A Count while a function is recorded with symbolic sizes."""

    __slots__ = ("_shape",)

    _shape: tuple[Any, ...]

    def __call__(self, dim: int | None = None) -> Any:
        return self._shape if dim is None else self._shape[dim]


def _size(self: Tensor) -> Any:
    count = self._var.type.size if self._array is None else self._array.size
    if not isinstance(count, int):
        count = count if active.sizes is None else active.sizes.size(count)
        if isinstance(count, Size):
            count = _SymbolicSize(count.terms, count._sizes)
            object.__setattr__(count, "_shape", self.shape)
        return count
    size = Count(count)
    size._shape = self.shape
    return size


def attach() -> None:
    """Put everything above on Tensor."""
    for method in (
        backward, requires_grad_, retain_grad, register_hook, register_post_accumulate_grad_hook, detach, detach_,
        numpy, is_floating_point, is_complex, data_ptr, is_inference,
    ):  # fmt: skip
        setattr(Tensor, method.__name__, method)
    Tensor.__copy__, Tensor.__deepcopy__, Tensor.__reduce__ = shallow_copy, deepcopy, reduce
    Tensor._rebuilt = staticmethod(_rebuilt)
    Tensor.size = property(_size, doc="How many elements; `x.size()` and `x.size(dim)` are PyTorch's.")
    grad_doc = "The gradient that backward() has added up; None before."
    Tensor.grad = property(_get_grad, _set_grad, _delete_grad, doc=grad_doc)
    Tensor.data = property(_get_data, _set_data, doc="The same memory without history and with its own version.")
    Tensor.retains_grad = property(_retains_grad, doc="Whether backward() fills `.grad` of this non-leaf.")
    Tensor._base = property(_base, doc="The Tensor whose memory this one views; None if its own.")


attach()

# What builds on operations comes after: printing, PyTorch's names, in-place methods.
from tracegrad.autograd import inplace_methods, printing, torch_indexing, torch_names  # noqa: E402, F401
