"""Nodes of the eager backward graph: what `tensor.grad_fn` is."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping, Sequence
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

    def _release(self) -> None:
        """Drop what was saved for backward."""

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
    if not isinstance(value, Tensor) or not value.requires_grad:
        return None
    node = value._grad_fn
    return (accumulator(value), 0) if node is None else (node, value._output_nr)


class Plan:
    """For one pattern of needed gradients: which inputs to save, and whether the output is read."""

    __slots__ = ("keep_output", "needs", "nothing", "positions", "releases")

    def __init__(self, function: Any, needs: tuple[bool, ...]):
        saved = function.saved_for(needs)
        self.needs = needs
        self.positions = tuple(i for i in range(len(needs)) if str(i) in saved)
        self.keep_output = "y" in saved
        self.releases = bool(saved)
        self.nothing = (None,) * len(needs)

    def placed(self, saved: Sequence[Any]) -> tuple[Any, ...]:
        """The saved inputs in their positions, None in the others."""
        found: list[Any] = [None] * len(self.needs)
        for position, x in zip(self.positions, saved, strict=True):
            found[position] = x
        return tuple(found)


class OperationNode(BackwardNode):
    """The backward node of a built-in operation. Where nothing is recorded it is the `ctx` of the operation's
    `backward` as well, and its `inputs` and `output` are bare arrays; elsewhere `LinkedContext` makes Tensors of them.

    saved holds the inputs at the plan's positions and versions theirs (None: all 0); it may be empty where no Tensor is
        among them; after release it is None.
    inputs are the same as arrays, in their places; None where backward cannot run on what is kept, because that has
        to be unpacked or is a value of a trace.
    output is the (first) output where backward reads it: an array, or a Tensor without history, since with it this
        would be a cycle. counter is its version counter, if somebody has one, and the version that is expected.
    operands are (shape, dtype) per input (a Type where traced, a class for a Python number).
    """

    __slots__ = (
        "attrs", "counter", "inputs", "needs_input_grad", "operands", "output", "plan", "saved", "versions",
    )  # fmt: skip

    function: ClassVar[Any]
    plans: ClassVar[dict[tuple[bool, ...], Plan]]
    needs_input_grad: tuple[bool, ...]  # type: ignore[assignment]

    def link(self, inputs: tuple[Any, ...], attrs: Mapping[str, Any], outputs: tuple[Tensor, ...]) -> None:
        """Become the node of these outputs."""
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
        self._sequence = next(_sequence)
        self._hooks = None
        self.attrs = attrs
        self.operands: Any = operands
        self._outs = tuple([(o.shape, o.dtype) for o in outputs])
        self.needs_input_grad = needs = tuple([e is not None for e in edges])
        self.plan = plan = self.plans.get(needs) or self.plan_for(needs)
        self.saved: Any = tuple([inputs[i] for i in plan.positions])
        self.versions = versions_of(self.saved)
        self.output: Any = outputs[0]._array if plan.keep_output else None
        self.counter: tuple[list[int], int] | None = None
        self.inputs: Any = plan.nothing
        if self.saved:
            arrays = [x._array if isinstance(x, Tensor) else x for x in self.saved]
            self.inputs = None if any(x is None for x in arrays) else plan.placed(arrays)
        if modes.special or (plan.keep_output and self.output is None):
            self._save_specially(outputs[0])

    @classmethod
    def plan_for(cls, needs: tuple[bool, ...]) -> Plan:
        """The plan of this pattern of needed gradients, made once."""
        plan = cls.plans.get(needs)
        if plan is None:
            plan = cls.plans[needs] = Plan(cls.function, needs)
        return plan

    def _save_specially(self, output: Tensor) -> None:
        """Save where an output carries tangents or is traced, and where hooks pack what is saved."""
        if self.plan.keep_output:
            self.inputs = None
            self.output = detached(output)
            self.counter = self.output._meta.version, output._version
        if modes.anomaly:
            modes.note_forward(self)
        for x in self.saved:
            if isinstance(x, Tensor):
                _refuse_inference(x)
        pack_hooks = modes.saved_hooks
        if pack_hooks and self.plan.releases:
            hook = pack_hooks[-1]
            self.saved = tuple(hook.pack(x) if isinstance(x, Tensor) else x for x in self.saved)
            self.inputs = None
            if self.plan.keep_output:
                self.output, self.counter = hook.pack(self.output), None

    def _share_counter(self, output: Tensor, meta: Meta) -> None:
        if self.output is output._array and output._array is not None:
            meta.version = self._output_counter()

    def _output_counter(self) -> list[int]:
        """The version counter of the kept output, made when it is first asked for."""
        if self.counter is None:
            self.counter = [0], 0
        return self.counter[0]

    def output_tensor(self) -> Tensor:
        """The kept output as a Tensor without history that shares the version counter."""
        if type(self.output) is not np.ndarray:
            return self.output
        tensor = Tensor._wrap(self.output)
        tensor._ensure_meta().version = self._output_counter()
        return tensor

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the inputs."""
        return tuple(
            Type(x[1], x[0]) if type(x) is tuple else x if isinstance(x, Type) else type_of(x(0)) for x in self.operands
        )

    def check_saved(self) -> None:
        """Raise AutogradError if what was saved has been freed, or modified in place since."""
        if self.saved is None:
            raise freed()
        for i, x in enumerate(self.saved):
            version = 0 if self.versions is None else self.versions[i]
            if isinstance(x, Tensor) and x._version != version:
                raise modified(self, x, version)
        if self.counter is not None and self.counter[0][0] != self.counter[1]:
            raise modified(self, self.output_tensor(), self.counter[1])

    def run_bare(self, cotangent: np.ndarray, keep: bool) -> tuple[Any, ...]:
        """`_run`, and `_release` unless `keep`, written out for most of what backward does: arrays are exchanged, the
        only output has a cotangent, and `inputs` are there."""
        for x in self.saved:
            if isinstance(x, Tensor) and x._meta is not None:
                self.check_saved()
                break
        if self.counter is not None:
            self.check_saved()
        grads = self.function.backward(self, cotangent)
        if not keep and self.plan.releases:
            self.saved = self.inputs = self.output = None
        return grads if type(grads) is tuple else (grads,)

    def _run(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        missing = [g is None for g in cotangents]
        if any(missing):
            if all(missing):
                return (None,) * len(self._edges)
            cotangents = tuple(map(materialized, cotangents, self._outs))
        self.check_saved()
        from tracegrad.autograd.context import LinkedContext

        bare = self.inputs is not None and not state.grad_enabled and state.trace is None
        grads = self.function.backward(self if bare else LinkedContext(self), *cotangents)
        return grads if type(grads) is tuple else (grads,)

    def _release(self) -> None:
        if self.plan.releases:
            self.saved = self.inputs = self.output = self.versions = self.counter = None


def version_of(x: Any) -> int:
    """The version of a Tensor's memory; 0 for anything else."""
    if isinstance(x, Tensor):
        meta = x._meta
        return 0 if meta is None else meta.version[0]
    return 0


def versions_of(saved: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The versions of saved inputs; None where all are 0, which is nearly always."""
    for x in saved:
        if isinstance(x, Tensor) and x._meta is not None:
            return tuple(map(version_of, saved))
    return None


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
