"""Nodes of the eager backward graph: what `tensor.grad_fn` is."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import numpy as np

from tracegrad.autograd.hooks import HookTable, NodeHooks, RemovableHandle
from tracegrad.autograd.modes import modes
from tracegrad.errors import ArgumentError, AutogradError
from tracegrad.ir.dims import DimLike
from tracegrad.ir.types import Type
from tracegrad.tensor import Meta, Tensor

_sequence = itertools.count()
_leaf_sequence = itertools.count(-1, -1)

Edge = tuple["BackwardNode", int]
ShapeAndDtype = tuple[tuple[DimLike, ...], np.dtype]


class BackwardNode:
    """One operation of the backward graph.

    _edges:    per input the node and output position its cotangent goes to; None where it needs none.
    _outs:     shape and dtype of each output.
    _sequence: grows with creation, so running nodes from the highest down is a topological order; leaves come last.
    metadata: a dict for whoever wants to note something on the node (anomaly mode keeps the forward traceback there).
    """

    __slots__ = ("__weakref__", "_edges", "_hooks", "_noted", "_outs", "_sequence")

    _edges: tuple[Edge | None, ...]
    _outs: tuple[ShapeAndDtype, ...]
    _hooks: NodeHooks | None
    _sequence: int

    def _begin(self, edges: tuple[Edge | None, ...]) -> None:
        """The number is taken when the edges are there: looking for them may record the view of something modified."""
        self._edges = edges
        self._sequence = next(_sequence)
        self._hooks = None
        if modes.anomaly:
            modes.note_forward(self)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        return tuple((None, 0) if e is None else e for e in self._edges)

    @property
    def metadata(self) -> dict[str, Any]:
        try:
            return self._noted
        except AttributeError:
            self._noted: dict[str, Any] = {}
            return self._noted

    def name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        return tuple([e is not None for e in self._edges])

    def _run(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        """One cotangent per edge for those of the outputs; the engine sums and casts them to the inputs' types."""
        raise NotImplementedError

    def _origin_of_nan(self, cotangents: tuple[Tensor | None, ...]) -> str:
        """Where inside the node a NaN came up, for a node that knows more than its name."""
        return ""

    def check_saved(self) -> None:
        """Raise AutogradError if a value of a trace that backward will read has been modified in place since."""

    def _release(self) -> None:
        """Drop what was saved for backward."""

    def _copy_kept(self, memory: np.ndarray) -> None:
        """Keep copies of what lies in that memory, which is about to be overwritten."""

    def run_bare(self, cotangent: np.ndarray, keep: bool) -> tuple[Any, ...] | None:
        """What `_run` gives, as arrays, where that is quickly had: see OperationNode. None elsewhere."""
        return None

    def _share_counter(self, output: Tensor, meta: Meta) -> None:
        """Make the version counter of an output the one by which a node that keeps it notices modifications."""

    def _ensure_hooks(self) -> NodeHooks:
        if self._hooks is None:
            self._hooks = NodeHooks()
        return self._hooks

    def register_prehook(self, hook: Any) -> RemovableHandle:
        """`hook(grad_outputs)` runs before the node; a tuple it returns replaces them."""
        return RemovableHandle(self._ensure_hooks().pre, hook)

    def register_hook(self, hook: Any) -> RemovableHandle:
        """`hook(grad_inputs, grad_outputs)` runs after the node; a tuple it returns replaces the former."""
        return RemovableHandle(self._ensure_hooks().post, hook)

    def _tensor_hooks(self, position: int) -> HookTable:
        """The hooks of the Tensor that is output `position`."""
        return self._ensure_hooks().tensor.setdefault(position, HookTable())


class AccumulateGrad(BackwardNode):
    """The node of a leaf: adds what arrives to the leaf's `.grad`."""

    __slots__ = ("variable",)

    def __init__(self, variable: Tensor):
        self._begin(())
        self._sequence = next(_leaf_sequence)
        self._outs = ((variable.shape, variable.dtype),)
        self.variable = variable


def accumulator(leaf: Tensor) -> AccumulateGrad:
    """The AccumulateGrad node of a leaf, one and the same as long as somebody holds it."""
    meta = leaf._meta or leaf._ensure_meta()
    node = meta.accumulator and meta.accumulator()
    if node is None:
        node = AccumulateGrad(leaf)
        meta.accumulator = weakref.ref(node)
    return node


def edge_of(value: Any) -> Edge | None:
    """The node and output position through which `value` gets its cotangent; None where it needs none."""
    if not isinstance(value, Tensor):
        return None
    meta = value._meta
    if meta is not None and meta.base is not None and meta.view_version != meta.version[0]:
        value._refresh_view()
    if not value._requires_grad:
        return None
    node = value._grad_fn
    return (accumulator(value), 0) if node is None else (node, value._output_nr)


class Packed:
    """A saved Tensor that went through a pack hook."""

    __slots__ = ("content", "unpack_hook")

    def __init__(self, content: Any, unpack_hook: Any):
        self.content, self.unpack_hook = content, unpack_hook

    def unpack(self) -> Tensor:
        """What the unpack hook makes of it. Raises ArgumentError unless that is a Tensor."""
        tensor = self.unpack_hook(self.content)
        if not isinstance(tensor, Tensor):
            raise ArgumentError(
                f"the unpack hook of saved_tensors_hooks must return a Tensor, not {type(tensor).__name__}",
                fix="return the Tensor that the pack hook had received",
            )
        return tensor


def materialized(g: Tensor | None, out: ShapeAndDtype) -> Tensor | None:
    """The cotangent, zeros in place of a missing one."""
    if g is not None or out[1].kind not in "fc":
        return g
    from tracegrad.ops.cotangent import zeros

    return as_tensor(zeros(Type(out[1], out[0])))


def as_tensor(value: Any) -> Tensor:
    """A Tensor over the value, itself if it is one."""
    return value if isinstance(value, Tensor) else Tensor._wrap(np.asarray(value))


def detached(tensor: Tensor) -> Tensor:
    """The same value without history, sharing the version counter."""
    if tensor._array is None:
        out = Tensor._traced(tensor._trace, tensor._trace.lift(tensor))
        out._meta = Meta(tensor._ensure_meta().version)
        return out
    out = Tensor._wrap(tensor._array)
    meta = tensor._meta
    if meta is None:
        meta = tensor._ensure_meta()
    out._meta = own = Meta(meta.version)
    if meta.tangents is not None:
        own.tangents = meta.tangents
    return out


def freed() -> AutogradError:
    return AutogradError(
        "cannot go backward through the graph a second time (or read saved tensors after they have been freed): "
        "the values saved for backward are freed by the first backward() or autograd.grad()",
        fix="pass retain_graph=True to the first of them",
    )


def modified(node: BackwardNode, tensor: Tensor, version: int) -> AutogradError:
    made_by = tensor._grad_fn
    origin = f", which is output {tensor._output_nr} of {made_by.name()}," if made_by is not None else ""
    hint = (
        "the traceback above shows the operation that cannot compute its gradient; "
        "the Tensor was modified there or later"
        if modes.anomaly
        else "modify a copy (`x = x.clone()`), or modify before the operation that reads the old value; "
        "tg.autograd.set_detect_anomaly(True) shows that operation"
    )
    return AutogradError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"the Tensor of shape {tuple(tensor.shape)} saved by {node.name()}{origin} is at version {tensor._version}; "
        f"expected version {version}",
        fix=hint,
    )


def type_of(value: Any) -> Type:
    """The Type of a Tensor, array or Python number (weak)."""
    if isinstance(value, Tensor):
        return value.type
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        return Type(np.asarray(value).dtype, (), True)
    array = np.asarray(value)
    return Type(array.dtype, array.shape)
