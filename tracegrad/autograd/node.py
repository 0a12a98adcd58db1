"""Nodes of the eager backward graph: what `tensor.grad_fn` is."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from tracegrad.autograd.hooks import HookTable, NodeHooks, RemovableHandle
from tracegrad.autograd.modes import modes
from tracegrad.errors import AutogradError
from tracegrad.ir.dims import DimLike
from tracegrad.ir.types import Type
from tracegrad.state import state
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

    def _begin(self) -> None:
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

    def _release(self) -> None:
        """Drop what was saved for backward."""

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
        self._begin()
        self._sequence = next(_leaf_sequence)
        self._edges = ()
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
    if not isinstance(value, Tensor) or not value.requires_grad:
        return None
    node = value._grad_fn
    return (accumulator(value), 0) if node is None else (node, value._output_nr)


class Plan:
    """For one pattern of needed gradients: which inputs to save, and whether the outputs are read."""

    __slots__ = ("keep_outputs", "needs", "positions")

    def __init__(self, function: Any, needs: tuple[bool, ...]):
        saved = function.saved_for(needs)
        self.needs = needs
        self.positions = tuple(i for i in range(len(needs)) if str(i) in saved)
        self.keep_outputs = "y" in saved


class OperationNode(BackwardNode):
    """The backward node of a built-in operation; it is also the `ctx` of the operation's `backward`.

    saved holds the inputs at the plan's positions and versions theirs, followed by those of saved_outputs; after
    release saved is None. operands are (shape, dtype) per input (a Type where traced, a class for a Python number).
    """

    __slots__ = ("attrs", "operands", "plan", "saved", "saved_outputs", "versions")

    function: ClassVar[Any]
    plans: ClassVar[dict[tuple[bool, ...], Plan]]

    def __init__(self, inputs: tuple[Any, ...], attrs: Mapping[str, Any], outputs: tuple[Tensor, ...]):
        self._sequence = next(_sequence)
        self._hooks = None
        self.attrs = attrs
        edges: list[Edge | None] = []
        operands: list[Any] = []
        for x in inputs:
            if isinstance(x, Tensor):
                array = x._array
                operands.append(x._var.type if array is None else (array.shape, array.dtype))
                edges.append(edge_of(x))
            else:
                edges.append(None)
                operands.append((x.shape, x.dtype) if isinstance(x, (np.ndarray, np.generic)) else type(x))
        self._edges = tuple(edges)
        self.operands: Any = operands
        self._outs = tuple([(o.shape, o.dtype) for o in outputs])
        needs = tuple([e is not None for e in edges])
        self.plan = plan = self.plans.get(needs) or self.plan_for(needs)
        self.saved: Any = tuple([inputs[i] for i in plan.positions])
        versions = [version_of(x) for x in self.saved]
        self.saved_outputs: Any = None
        if plan.keep_outputs:
            # Kept as arrays with their versions, never as the Tensors, whose grad_fn would make a cycle with this node.
            self.saved_outputs = tuple([detached(o) for o in outputs])
            versions.extend([o._version for o in outputs])
        self.versions = versions
        if modes.special:
            self._special()

    @classmethod
    def plan_for(cls, needs: tuple[bool, ...]) -> Plan:
        """The plan of this pattern of needed gradients, made once."""
        plan = cls.plans.get(needs)
        if plan is None:
            plan = cls.plans[needs] = Plan(cls.function, needs)
        return plan

    def _special(self) -> None:
        if modes.anomaly:
            modes.note_forward(self)
        pack_hooks = modes.saved_hooks
        for x in self.saved:
            if isinstance(x, Tensor):
                _refuse_inference(x)
        if pack_hooks:
            hook = pack_hooks[-1]
            self.saved = tuple(hook.pack(x) if isinstance(x, Tensor) else x for x in self.saved)
            if self.saved_outputs:
                self.saved_outputs = tuple(map(hook.pack, self.saved_outputs))

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:  # type: ignore[override]
        return self.plan.needs

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the inputs."""
        return tuple(
            Type(x[1], x[0]) if type(x) is tuple else x if isinstance(x, Type) else type_of(x(0)) for x in self.operands
        )

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The saved inputs, None in the places of the others. Bare arrays where nothing is recorded."""
        if self.saved is None:
            raise freed()
        plan = self.plan
        found: list[Any] = [None] * len(plan.needs)
        recording = state.grad_enabled
        for position, x, version in zip(plan.positions, self.saved, self.versions):
            if isinstance(x, Tensor):
                meta = x._meta
                if meta is not None and meta.version[0] != version:
                    raise modified(self, x, version)
            elif type(x) is Packed:
                x = x.unpack()
            if not recording:
                if isinstance(x, Tensor) and x._array is not None and state.trace is None:
                    x = x._array
            elif self._edges[position] is not None:
                x = linked(x, self._edges[position])
            found[position] = x
        return tuple(found)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The saved outputs, linked to this node again so that they can be differentiated once more."""
        if self.saved is None:
            raise freed()
        found = []
        versions = self.versions[len(self.saved) :]
        for position, (x, version) in enumerate(zip(self.saved_outputs, versions)):
            if type(x) is Packed:
                x = x.unpack()
            elif x._version != version:
                raise modified(self, x, version)
            if not state.grad_enabled:
                x = x._array if x._array is not None and state.trace is None else x
            elif x.dtype.kind in "fc":
                x = linked(x, (self, position))
            found.append(x)
        return tuple(found)

    @property
    def output(self) -> Tensor:
        return self.outputs[0]

    def _run(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        missing = [g is None for g in cotangents]
        if any(missing):
            if all(missing):
                return (None,) * len(self._edges)
            cotangents = tuple(map(materialized, cotangents, self._outs))
        grads = self.function.backward(self, *cotangents)
        return grads if type(grads) is tuple else (grads,)

    def _release(self) -> None:
        if self.saved or self.saved_outputs:
            self.saved = self.saved_outputs = self.versions = None


def version_of(x: Any) -> int:
    """The version of a Tensor's memory; 0 for anything else."""
    if isinstance(x, Tensor):
        meta = x._meta
        return 0 if meta is None else meta.version[0]
    return 0


class Packed:
    """A saved Tensor that went through a pack hook."""

    __slots__ = ("content", "unpack_hook")

    def __init__(self, content: Any, unpack_hook: Any):
        self.content, self.unpack_hook = content, unpack_hook

    def unpack(self) -> Tensor:
        """What the unpack hook makes of it. Raises AutogradError unless that is a Tensor."""
        tensor = self.unpack_hook(self.content)
        if not isinstance(tensor, Tensor):
            raise AutogradError(
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


def linked(tensor: Tensor, edge: Edge) -> Tensor:
    """The Tensor with that edge: itself where it has it, else another one for the same value."""
    node, position = edge
    if not isinstance(tensor, Tensor):
        return tensor
    if type(node) is AccumulateGrad:
        return tensor if tensor._grad_fn is None and tensor._requires_grad else node.variable
    if tensor._grad_fn is node and tensor._output_nr == position:
        return tensor
    out = detached(tensor)
    out._requires_grad, out._grad_fn, out._output_nr = True, node, position
    return out


def detached(tensor: Tensor) -> Tensor:
    """The same value without history, sharing the version counter."""
    if tensor._array is None:
        out = Tensor._traced(tensor._trace, tensor._trace.lift(tensor))
        out._meta = own = Meta()
        own.version = tensor._ensure_meta().version
        return out
    out = Tensor._wrap(tensor._array)
    meta = tensor._meta
    if meta is None:
        meta = tensor._ensure_meta()
    out._meta = own = Meta()
    own.version, own.tangents = meta.version, meta.tangents
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


def _refuse_inference(tensor: Tensor) -> None:
    if tensor._meta is not None and tensor._meta.inference:
        raise AutogradError(
            "Inference tensors cannot be saved for backward: this one was made under inference_mode",
            fix="make it under no_grad instead, or use a copy made outside: x.clone()",
        )


def type_of(value: Any) -> Type:
    """The Type of a Tensor, array or Python number (weak)."""
    if isinstance(value, Tensor):
        return value.type
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        return Type(np.asarray(value).dtype, (), True)
    array = np.asarray(value)
    return Type(array.dtype, array.shape)
