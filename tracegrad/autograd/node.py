"""Nodes of the eager backward graph: what `tensor.grad_fn` is."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from tracegrad.errors import AutogradError
from tracegrad.ir.types import Type
from tracegrad.tensor import Meta, Tensor

_sequence = itertools.count()


class BackwardNode:
    """One operation of the backward graph. `next_functions` pairs each input's node with its output position.

    `sequence` grows with creation, so running nodes from the highest down is a topological order.
    """

    __slots__ = ("__weakref__", "edges", "hooks", "output_types", "prehooks", "sequence")

    def __init__(self, inputs: tuple[Any, ...], output_types: tuple[Type, ...]):
        self.sequence = next(_sequence)
        self.edges: tuple[tuple[Any, int, Type] | None, ...] = tuple(map(edge_of, inputs))
        self.output_types = output_types
        self.hooks: Any = None
        self.prehooks: Any = None

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        return tuple((None, 0) if e is None else e[:2] for e in self.edges)

    def name(self) -> str:
        return type(self).__name__

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        return tuple(e is not None for e in self.edges)

    def run(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        """One cotangent per edge for those of the outputs; the engine sums and casts them to the inputs' types."""
        raise NotImplementedError

    def release(self) -> None:
        """Drop what was saved for backward."""


class AccumulateGrad(BackwardNode):
    """The node of a leaf: adds what arrives to the leaf's `.grad`."""

    __slots__ = ("variable",)

    def __init__(self, variable: Tensor):
        super().__init__((), (variable.type,))
        self.variable = variable


_accumulators: Any = None


def edge_of(value: Any) -> tuple[Any, int, Type] | None:
    """(node, output position, type) through which `value` gets its cotangent; None where it needs none."""
    if not isinstance(value, Tensor) or not value._requires_grad:
        return None
    node = value.grad_fn
    return (accumulator(value) if node is None else node, value._output_nr, value.type)


def accumulator(leaf: Tensor) -> AccumulateGrad:
    """The AccumulateGrad node of a leaf, one and the same as long as somebody holds it."""
    import weakref

    global _accumulators
    if _accumulators is None:
        _accumulators = weakref.WeakValueDictionary()
    node = _accumulators.get(id(leaf))
    if node is None or node.variable is not leaf:
        node = _accumulators[id(leaf)] = AccumulateGrad(leaf)
    return node


class OperationNode(BackwardNode):
    """The backward node of a built-in operation; it is also the `ctx` of the operation's `backward`."""

    __slots__ = ("attrs", "released", "saved_inputs", "saved_outputs", "types", "versions")

    function: ClassVar[Any]

    def __init__(self, inputs: tuple[Any, ...], attrs: Mapping[str, Any], outputs: tuple[Tensor, ...]):
        super().__init__(inputs, tuple(o.type for o in outputs))
        saved = self.function.saved_for(self.needs_input_grad)
        self.attrs = attrs
        self.types = tuple(map(type_of, inputs))
        self.released = False
        self.saved_inputs = tuple(x if str(i) in saved else None for i, x in enumerate(inputs)) if saved else ()
        # An output is kept as array and version, never as the Tensor, whose grad_fn would make a cycle with this node.
        self.saved_outputs = tuple(map(_detached, outputs)) if "y" in saved else ()
        self.versions = tuple(x._version if isinstance(x, Tensor) else 0 for x in (*self.saved_inputs, *self.saved_outputs))

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The saved inputs, None in the places of the others."""
        self._check()
        return self.saved_inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The saved outputs, linked to this node again so that they can be differentiated once more."""
        self._check()
        linked = []
        for position, (saved, out_type) in enumerate(zip(self.saved_outputs, self.output_types, strict=False)):
            out = _detached(saved)
            if out_type.inexact:
                out._requires_grad, out.grad_fn, out._output_nr = True, self, position
            linked.append(out)
        return tuple(linked)

    @property
    def output(self) -> Tensor:
        return self.outputs[0]

    def _check(self) -> None:
        if self.released:
            raise AutogradError(
                "cannot go backward through the graph a second time: what was saved for it has been freed",
                fix="pass retain_graph=True to the first backward() or autograd.grad()",
            )
        for tensor, version in zip((*self.saved_inputs, *self.saved_outputs), self.versions, strict=False):
            if isinstance(tensor, Tensor) and tensor._version != version:
                raise AutogradError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"a Tensor of shape {tuple(tensor.shape)} saved by {self.name()} is at version {tensor._version}, "
                    f"expected {version}",
                    fix="modify a copy (`x = x.clone()`), or modify before the operation that reads the old value",
                )

    def run(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        grads = self.function.backward(self, *cotangents)
        return grads if type(grads) is tuple else (grads,)

    def release(self) -> None:
        if self.saved_inputs or self.saved_outputs:
            self.released = True
            self.saved_inputs = self.saved_outputs = self.versions = ()


def type_of(value: Any) -> Type:
    """The Type of a Tensor, array or Python number (weak)."""
    if isinstance(value, Tensor):
        return value.type
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        return Type(np.asarray(value).dtype, (), True)
    array = np.asarray(value)
    return Type(array.dtype, array.shape)


def _detached(tensor: Tensor) -> Tensor:
    """The same value without history, sharing the version counter."""
    if tensor._array is None:
        return Tensor._traced(tensor._trace, tensor._var)
    out = Tensor._wrap(tensor._array)
    out._meta = meta = Meta()
    meta.version = tensor._ensure_meta().version
    return out
