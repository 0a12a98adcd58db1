"""The ctx of a user's Function, which is its backward node as well, and the checks of what backward returns.

So attributes set on ctx live exactly as long as the graph. No reference goes from it to the Tensors that `apply`
returns, hence no cycle keeps them alive.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from tracegrad.autograd.context import linked
from tracegrad.autograd.modes import modes
from tracegrad.autograd.node import BackwardNode, Packed, as_tensor, detached, edge_of, freed, modified
from tracegrad.autograd.overwritten import copied, note_kept
from tracegrad.errors import ArgumentError, AutogradError, BackwardNotImplementedError
from tracegrad.ir.types import Type
from tracegrad.state import state
from tracegrad.tensor import Tensor

NO_OUTPUT = ((), np.dtype(float))  # in place of shape and dtype where an output is no Tensor


class FunctionContext:
    """What `ctx` offers inside forward and setup_context, eager and traced."""

    needs_input_grad: tuple[bool, ...] = ()

    def _begin_context(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self._to_save: tuple[Any, ...] = ()
        self._for_forward: tuple[Any, ...] = ()
        self._dirty: tuple[Any, ...] = ()
        self._non_differentiable: tuple[Any, ...] = ()
        self._materialize = True

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep these Tensors (or None) for backward, which finds them in `saved_tensors`. Raises ArgumentError."""
        for position, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, (Tensor, np.ndarray)):
                raise ArgumentError(
                    f"save_for_backward can only save variables, but argument {position} is of type "
                    f"{type(tensor).__name__}",
                    fix="set anything else as an attribute: ctx.name = value",
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep these Tensors (or None) for jvp, which finds them in `saved_tensors`. Raises ArgumentError."""
        for position, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, (Tensor, np.ndarray)):
                raise ArgumentError(
                    f"save_for_forward can only save variables, but argument {position} is of type "
                    f"{type(tensor).__name__}",
                    fix="set anything else as an attribute: ctx.name = value",
                )
        self._for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs forward has modified in place; each must be an output as well."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward receives zeros (the default) or None for outputs that got no gradient."""
        self._materialize = bool(value)


class UserNode(FunctionContext, BackwardNode):
    """The backward node of one application of a user's Function, and its ctx."""

    _function: ClassVar[Any]
    _in_jvp = False

    @contextlib.contextmanager
    def in_jvp(self) -> Iterator[None]:
        """Inside, `saved_tensors` are those of save_for_forward."""
        self._in_jvp = True
        try:
            yield
        finally:
            self._in_jvp, self._for_forward = False, ()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What save_for_backward was given. Raises AutogradError if it was freed, or modified in place since."""
        if self._in_jvp:
            return self._for_forward
        if self._saved is None:
            if self._released:
                raise freed()
            return self._to_save
        found = []
        for tensor, version, edge in self._saved:
            if type(tensor) is Packed:
                tensor = tensor.unpack()
            elif isinstance(tensor, Tensor) and tensor._version != version:
                raise modified(self, tensor, version)
            if isinstance(edge, int):  # an output, which is kept without its history
                tensor = linked(tensor, (self, edge))
            elif edge is not None and state.grad_enabled:
                tensor = linked(tensor, edge)
            found.append(tensor)
        return tuple(found)

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        return self.saved_tensors

    def _prepare(self, arguments: tuple[Any, ...], record: bool) -> None:
        self._begin(tuple(map(edge_of, arguments)) if record else (None,) * len(arguments))
        self._saved: list[Any] | None = None
        self._released = False
        self._kept_outputs: dict[int, Tensor] = {}
        self._outs = ()
        self._tensor_inputs = tuple([isinstance(a, Tensor) for a in arguments])
        self._begin_context(tuple([isinstance(a, Tensor) and a.requires_grad for a in arguments]))

    def _save(self, arguments: tuple[Any, ...], raw: tuple[Any, ...]) -> None:
        """Take over what save_for_backward was given; outputs without their history, which would be a cycle."""
        self._saved = []
        pack_hooks = modes.saved_hooks if modes.special else ()
        for tensor in self._to_save:
            edge: Any = None
            if isinstance(tensor, Tensor):
                for position, out in enumerate(raw):
                    if out is tensor and out is not None:
                        edge, tensor = position, detached(tensor)
                        break
                else:
                    edge = next((e for a, e in zip(arguments, self._edges, strict=True) if a is tensor), None)
                if pack_hooks:
                    tensor = pack_hooks[-1].pack(tensor)
            version = tensor._version if isinstance(tensor, Tensor) else 0
            self._saved.append((tensor, version, edge))
        self._to_save = ()
        if state.keepers is not None:
            note_kept(self, [tensor for tensor, _, _ in self._saved])

    def _copy_kept(self, memory: np.ndarray) -> None:
        for i, (tensor, version, edge) in enumerate(self._saved or ()):
            copy = copied(tensor, memory)
            self._saved[i] = copy, version if copy is tensor else 0, edge  # type: ignore[index]

    def _release(self) -> None:
        if self._saved:
            self._saved, self._released = None, True

    def _run(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        if self._materialize:
            cotangents = tuple(map(_materialized, cotangents, self._outs))
        relinked = self._kept_outputs if state.grad_enabled else {}
        for position, tensor in relinked.items():
            tensor._requires_grad, tensor._grad_fn, tensor._output_nr = True, self, position
        try:
            grads = backward_of(self._function)(self, *cotangents)
        finally:
            for tensor in relinked.values():
                tensor._requires_grad, tensor._grad_fn, tensor._output_nr = False, None, 0
        found = checked_gradients(self.name(), grads, self._tensor_inputs, self._edges)
        for position, (g, edge) in enumerate(zip(found, self._edges, strict=True)):
            if g is not None and g.dtype.kind == "c" and edge is not None:
                check_kind(self.name(), position, g.dtype, edge[0]._outs[edge[1]][1])
        return found


def _materialized(g: Tensor | None, out: Any) -> Tensor | None:
    if g is not None or out is NO_OUTPUT:
        return g
    from tracegrad.ops.cotangent import zeros

    return as_tensor(zeros(Type(out[1], out[0])))


def backward_of(function: Any) -> Any:
    """The backward (or vjp) of a Function class. Raises AutogradError if both are there, or neither."""
    from tracegrad.function import Function

    has_backward = function.backward is not Function.backward
    has_vjp = getattr(function, "vjp", None) not in (None, getattr(Function, "vjp", None))
    if has_backward and has_vjp:
        raise AutogradError(
            f"{function.__name__} has both 'backward' and 'vjp'; a Function must have only one of them",
            fix="remove one: they mean the same",
        )
    if has_vjp:
        return function.vjp
    if not has_backward:
        raise BackwardNotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            f"backward mode AD: {function.__name__} has neither",
            fix="write a static method backward(ctx, *grad_outputs)",
        )
    return function.backward


def check_kind(name: str, position: int, found: np.dtype, expected: np.dtype) -> None:
    """Raise AutogradError for a complex gradient of something real."""
    if found.kind == "c" and expected.kind != "c":
        raise AutogradError(
            f"Function {name} returned a complex gradient at index {position} for an input that is real",
            fix="return its real part",
        )


def checked_gradients(name: str, grads: Any, tensor_inputs: tuple[bool, ...], edges: Any) -> tuple[Any, ...]:
    """What backward returned, one value per input. Raises AutogradError for a wrong count or type."""
    values = list(grads) if isinstance(grads, tuple) else [grads]
    expected = len(tensor_inputs)
    while len(values) > expected and values[-1] is None:
        values.pop()
    if len(values) != expected:
        raise AutogradError(
            f"function {name} returned an incorrect number of gradients (expected {expected}, got {len(values)})",
            fix="return one gradient, or None, per argument of forward (without ctx)",
        )
    for position, (g, is_tensor) in enumerate(zip(values, tensor_inputs, strict=True)):
        if g is None:
            continue
        if not is_tensor:
            raise AutogradError(
                f"function {name} returned a gradient different than None at position {position + 1}, "
                "but the corresponding forward input was not a Variable",
                fix="return None there",
            )
        if not isinstance(g, Tensor):
            if not isinstance(g, (np.ndarray, np.generic)):
                raise AutogradError(
                    f"expected Variable or None (got {type(g).__name__}): what {name} returned at position "
                    f"{position + 1} is no Tensor",
                    fix="return a Tensor, an ndarray or None",
                )
            values[position] = Tensor._wrap(np.asarray(g))
    return tuple([g if e is not None else None for g, e in zip(values, edges, strict=True)])
