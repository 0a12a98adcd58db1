"""Nodes of built-in operations in the eager backward graph, and what they save."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, ClassVar

import numpy as np

from tracegrad.autograd.modes import modes
from tracegrad.autograd.node import (
    BackwardNode,
    Edge,
    _sequence,
    detached,
    edge_of,
    freed,
    materialized,
    modified,
    type_of,
)
from tracegrad.autograd.overwritten import copied, note_kept, owner
from tracegrad.errors import AutogradError
from tracegrad.ir.types import Type, known_type
from tracegrad.state import state
from tracegrad.tensor import Meta, Tensor


class Plan:
    """For one pattern of needed gradients of an operation: which inputs to save, whether the output is read, and the
    class of its nodes."""

    __slots__ = ("keep_output", "needs", "node_class", "nothing", "positions", "releases")

    def __init__(self, family: type[OperationNode], needs: tuple[bool, ...]):
        saved = family.function.saved_for(needs)
        self.needs = needs
        self.positions = tuple(i for i in range(len(needs)) if str(i) in saved)
        self.keep_output = "y" in saved
        self.releases = bool(saved)
        self.nothing = (None,) * len(needs)
        members = {"__slots__": (), "plan": self, "needs_input_grad": needs}
        self.node_class: Any = type(family.__name__, (family,), members)
        self.node_class.run_bare = own_code(_bare_road(self, family.function.backward))

    def placed(self, saved: Sequence[Any]) -> tuple[Any, ...]:
        """The saved inputs in their positions, None in the others."""
        found: list[Any] = [None] * len(self.needs)
        for position, x in zip(self.positions, saved, strict=True):
            found[position] = x
        return tuple(found)


def own_code(function: Any) -> Callable[..., Any]:
    """The function with a code object of its own, as each class of nodes has.

    CPython notes in the code which classes its attribute accesses meet. In code they shared, where another class comes
    at each turn, an access costs four times as much.
    """
    code = function.__code__.replace(co_qualname=function.__qualname__)
    return FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)


def _bare_road(plan: Plan, backward: Callable[..., Any]) -> Callable[..., Any]:
    """`run_bare` of the nodes of a plan."""
    saves, keeps_output, releases = bool(plan.positions), plan.keep_output, plan.releases

    def run_bare(self: OperationNode, cotangent: np.ndarray, keep: bool) -> tuple[Any, ...] | None:
        """`_run`, and `_release` unless `keep`, written out for most of what backward does: arrays are exchanged, the
        only output has a cotangent, there are no hooks, and `inputs` are there. None elsewhere."""
        if self._hooks is not None or self.inputs is None:
            return None
        if saves:
            for x in self.saved:
                if isinstance(x, Tensor) and x._meta is not None:
                    self.check_saved()
                    break
        if keeps_output and self.counter is not None:
            self.check_saved()
        grads = backward(self, cotangent)
        if releases and not keep:
            self.saved = self.inputs = self.output = None
        return grads if type(grads) is tuple else (grads,)

    return run_bare


class OperationNode(BackwardNode):
    """The backward node of a built-in operation. Where nothing is recorded it is the `ctx` of the operation's
    `backward` as well, and its `inputs` and `output` are bare arrays; elsewhere `LinkedContext` makes Tensors of them.

    saved holds the inputs at the plan's positions and versions theirs (None: all 0); it may be empty where no Tensor is
        among them; after release it is None.
    inputs are the same as arrays, in their places; None where backward cannot run on what is kept, because that has
        to be unpacked or is a value of a trace.
    output is the (first) output where backward reads it: an array, or a Tensor without history, since with it this
        would be a cycle. counter is its version counter, if somebody has one, and the version that is expected.
    operands are the types of the inputs; None where backward does not read them.

    Each operation has a class of nodes, which names them, and of it one for each plan.
    """

    __slots__ = ("attrs", "counter", "inputs", "operands", "output", "saved", "versions")

    function: ClassVar[Any]
    plans: ClassVar[dict[tuple[bool, ...], Plan]]
    plan: ClassVar[Plan]
    needs_input_grad: ClassVar[tuple[bool, ...]]  # type: ignore[misc]
    attrs: Mapping[str, Any]
    operands: Any
    saved: Any
    versions: tuple[int, ...] | None
    inputs: Any
    output: Any
    counter: tuple[list[int], int] | None

    @classmethod
    def plan_for(cls, needs: tuple[bool, ...]) -> Plan:
        """The plan of this pattern of needed gradients, made once."""
        plan = cls.plans.get(needs)
        if plan is None:
            plan = cls.plans[needs] = Plan(cls, needs)
        return plan

    @classmethod
    def link(cls, inputs: tuple[Any, ...], attrs: Mapping[str, Any], outputs: tuple[Tensor, ...]) -> OperationNode:
        """The node of these outputs."""
        edges: list[Edge | None] = []
        types: list[Type] = []
        for x in inputs:
            if isinstance(x, Tensor):
                array = x._array
                types.append(x._var.type if array is None else known_type(array.dtype, array.shape))
                edges.append(edge_of(x))
            else:
                edges.append(None)
                types.append(type_of(x))
        needs = tuple([e is not None for e in edges])
        plan = cls.plans.get(needs) or cls.plan_for(needs)
        self: OperationNode = plan.node_class()
        self._edges = tuple(edges)
        self._sequence = next(_sequence)
        self._hooks = None
        self.attrs = attrs
        self.operands = tuple(types)
        self._outs = tuple([(o.shape, o.dtype) if (a := o._array) is None else (a.shape, a.dtype) for o in outputs])
        self.saved = tuple([inputs[i] for i in plan.positions]) if plan.positions else ()
        self.versions = None
        self.output = outputs[0]._array if plan.keep_output else None
        self.counter = None
        self.inputs = plan.nothing
        if self.saved:
            self.versions = versions_of(self.saved)
            arrays = [x._array if isinstance(x, Tensor) else x for x in self.saved]
            self.inputs = None if any(x is None for x in arrays) else plan.placed(arrays)
        if modes.special or (plan.keep_output and self.output is None):
            self._save_specially(outputs[0])
        if state.keepers is not None:
            self._note_kept()
        return self

    def _note_kept(self) -> None:
        """Where kept values may be overwritten: copy those that NumPy itself could write to, note the others."""
        self.saved = tuple([x.copy() if isinstance(x, np.ndarray) else x for x in self.saved])
        self._renew_inputs()
        note_kept(self, (*self.saved, self.output))

    def _copy_kept(self, memory: np.ndarray) -> None:
        if self.saved is None:
            return
        versions = self.versions or (0,) * len(self.saved)
        saved = [copied(x, memory) for x in self.saved]
        self.versions = tuple([v if x is old else 0 for x, old, v in zip(saved, self.saved, versions, strict=True)])
        self.saved = tuple(saved)
        self._renew_inputs()
        if isinstance(self.output, np.ndarray) and owner(self.output) is memory:
            self.output, self.counter = self.output.copy(), None
        elif isinstance(self.output, Tensor):
            self.output, former = copied(self.output, memory), self.output
            self.counter = self.counter if self.output is former else None

    def _renew_inputs(self) -> None:
        """`inputs` anew after `saved` has changed."""
        if self.saved and self.inputs is not None:
            self.inputs = self.plan.placed([x._array if isinstance(x, Tensor) else x for x in self.saved])

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
        return self.operands

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
            for kept in saved:
                if isinstance(kept, Tensor):
                    _refuse_inference(kept)
            return tuple(map(version_of, saved))
    return None


def _refuse_inference(tensor: Tensor) -> None:
    if tensor._meta is not None and tensor._meta.inference:
        raise AutogradError(
            "Inference tensors cannot be saved for backward: this one was made under inference_mode",
            fix="make it under no_grad instead, or use a copy made outside: x.clone()",
        )
