"""From Tensors to Python numbers and ndarrays: what `float(x)`, `if x > 0:` and `np.array([x])` do.

While a function is traced, a number that Python sees becomes a guard: the recording holds for calls in which it is the
same. A number that a gradient flows through cannot be taken out, for the derivative would be lost without a word;
integers and truth values have no derivative.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, AutogradError, LeavesFunctionBody, LeavesTraceError, user_location
from tracegrad.ir.sizes import Size
from tracegrad.state import state
from tracegrad.tensor import Tensor


def leaves_trace(what: str) -> LeavesTraceError:
    """The error for a differentiated value that `what` (such as "float()") would turn into a plain number."""
    from tracegrad.ops.hints import instead

    location = user_location()
    return LeavesTraceError(
        f"{what} turns a value that a gradient is wanted for into plain numbers, so its derivative would be lost",
        fix="; ".join((*instead(location), "tg.stop_gradient(x) gives a value whose derivative is not wanted")),
        location=location,
    )


def carries_tangent(x: Tensor) -> bool:
    """Whether forward mode goes through `x` by dual numbers."""
    return state.dual is not None and x._meta is not None and bool(x._meta.tangents)


def refuse_eagerly(x: Tensor, what: str) -> None:
    """Raise the same error where a transform runs eagerly and wants a derivative through `x`.

    Where recording is off, as in forward of a Function, nobody wants it.
    """
    if state.differentiating and ((state.grad_enabled and x.requires_grad) or carries_tangent(x)):
        raise leaves_trace(what)


def leave_function_body() -> None:
    """Inside a user's Function that is being traced: let it become a call into Python."""
    if state.function_body:
        raise LeavesFunctionBody


def number(x: Tensor, what: str) -> Any:
    """The one element of `x` as a NumPy scalar. `what` names the conversion in errors."""
    if x.size != 1:
        raise ArgumentError(
            f"only Tensors with one element can be converted to a Python number; this one has shape {tuple(x.shape)}",
            fix="take one element, x[i], or reduce it, for example with x.sum()",
        )
    if not x.is_traced and state.trace is not None:
        x = state.trace.memory.standin(x)
    if not x.is_traced:
        if what != "bool()":
            refuse_eagerly(x, what)
        return x._array.reshape(())[()]  # type: ignore[union-attr]
    if what in ("float()", "complex()", "item()"):
        leave_function_body()
    if x.dtype.kind in "fc" and what != "bool()" and x._trace.depends_on_differentiated(x._var):
        raise leaves_trace(what)
    value = np.asarray(x._value()).reshape(())[()]
    if x.ndim:
        x = x.reshape(())
    x._trace.guards.append((x._var, value.item()))
    return value


def to_float(x: Tensor) -> float:
    """`float(x)` of a Tensor with one real element."""
    return float(number(x, "float()"))


def to_complex(x: Tensor) -> complex:
    return complex(number(x, "complex()"))


def to_int(x: Tensor) -> int:
    """`int(x)`, rounding towards zero."""
    return int(number(x, "int()"))


def to_index(x: Tensor) -> int:
    """What makes an integer Tensor usable as an index and in `range`."""
    if x.dtype.kind not in "iu" or x.ndim:
        raise ArgumentError(
            "only integer Tensors without dimensions can be used as an index or to repeat a str or bytes",
            fix="convert with int(x), or index with an integer array; a str is no factor of an array",
        )
    return operator.index(number(x, "index()"))


def to_bool(x: Tensor) -> bool:
    """The truth of one element: a decision, which a trace keeps as a guard.

    Raises a ValueError for several elements, as NumPy does.
    """
    from tracegrad.errors import ShapeError
    from tracegrad.ops.comparison import NotEqual

    if x.size != 1:
        raise ShapeError(
            f"the truth value of a Tensor of shape {tuple(x.shape)} is ambiguous",
            fix="use np.any(x) or np.all(x), or np.where for a choice per element",
        )
    if (x.is_traced or state.trace is not None) and x.dtype.kind != "b":
        x = NotEqual.apply(x, 0)
    return bool(number(x, "bool()"))


def to_array(x: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """`np.asarray(x)`: a read-only view of an eager Tensor's numbers (a copy where asked for).

    Raises AutogradError where a gradient would be lost and LeavesTraceError for a traced Tensor that has one, or that
    has several elements, which cannot be kept as a guard.
    """
    if x.is_traced:
        leave_function_body()
        exact = x.dtype.kind not in "fc"
        if not exact and x._trace.depends_on_differentiated(x._var):
            raise leaves_trace("np.asarray")
        if x.size != 1:
            from tracegrad.ops.hints import instead

            location = user_location()
            as_index = ["to index a plain array with a traced value needs its numbers; index a Tensor, tg.tensor(a)[i]"]
            hints = (*(as_index if exact else ()), *instead(location))
            raise LeavesTraceError(
                "np.asarray of a traced value would freeze its numbers into the compiled program",
                fix="; ".join((*hints, "use NumPy's functions on the value itself; they are recorded")),
                location=location,
            )
        array = np.asarray(number(x, "np.asarray")).reshape(x.shape)
        return array if dtype is None else array.astype(dtype)
    refuse_eagerly(x, "np.asarray")
    if state.grad_enabled and x.requires_grad:
        raise AutogradError(
            "a Tensor that requires grad cannot become an ndarray: its history would be lost",
            fix="use np.stack to join Tensors, or x.detach() to take the numbers without the history",
        )
    if copy or (dtype is not None and np.dtype(dtype) != x.dtype):
        if copy is False:
            raise ArgumentError(f"a Tensor of dtype {x.dtype} cannot become {np.dtype(dtype)} without a copy")
        if state.trace is not None:
            state.trace.memory.freeze(x)
        return np.array(x._array, dtype=dtype)
    if state.trace is not None:
        state.trace.memory.freeze(x)
    view = x._array.view()  # type: ignore[union-attr]
    view.flags.writeable = False
    return view


def item(x: Tensor, *index: Any) -> Any:
    """The one element, or the one at `index`, as a Python number."""
    if index:
        position = index[0] if len(index) == 1 and isinstance(index[0], tuple) else index
        x = x.reshape(-1)[position[0]] if len(position) == 1 else x[tuple(position)]
    return number(x, "item()").item()


def tolist(x: Tensor) -> Any:
    """Nested lists of Python numbers. Raises LeavesTraceError for a traced Tensor with several elements."""
    if x.is_traced:
        leave_function_body()
        if x.dtype.kind in "fc" and x._trace.depends_on_differentiated(x._var):
            raise leaves_trace("tolist()")
        return to_array(x).tolist()
    refuse_eagerly(x, "tolist()")
    if state.trace is not None:
        state.trace.memory.freeze(x)
    return x._array.tolist()  # type: ignore[union-attr]


def length(x: Tensor) -> int:
    """`len(x)`: the size of the first axis."""
    if not x.ndim:
        raise ArgumentError("a Tensor without dimensions has no len()", fix="use x.size, which is 1")
    return int_size(x.shape[0], "len()")


def int_size(size: Any, what: str) -> int:
    if isinstance(size, int):
        return size
    if isinstance(size, Size):
        return operator.index(size)
    raise ArgumentError(
        f"{what} of an axis whose size {size} is symbolic here", fix="use x.shape[0], which stays symbolic"
    )


def iterate(x: Tensor) -> Any:
    """`for row in x`, over the first axis, whose size is static."""
    if not x.ndim:
        raise ArgumentError("iteration over a Tensor without dimensions", fix="use the Tensor itself")
    return (x[i] for i in range(int_size(x.shape[0], "iteration")))


def contains(x: Tensor, value: Any) -> bool:
    """`value in x`: whether any element equals it."""
    return to_bool((x == value).any())


def leave_trace(x: Tensor, what: str) -> np.ndarray:
    """The numbers of a traced Tensor as an ndarray, where that loses neither a derivative nor later calls' values."""
    return to_array(x)


CONVERSIONS: dict[str, Callable[..., Any]] = {
    "__float__": to_float, "__int__": to_int, "__complex__": to_complex, "__index__": to_index, "__bool__": to_bool,
    "__array__": to_array, "__len__": length, "__iter__": iterate, "__contains__": contains,
    "_leave_trace": leave_trace, "item": item, "tolist": tolist,
}  # fmt: skip
