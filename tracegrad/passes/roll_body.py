"""The body of a loop that was found, and what stands before it: the values from outside that an iteration reads.

What is another value in each iteration becomes a stack before the loop, or is read and written at a place computed from
the number of the iteration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.ir.graph import Location, Node, Var
from tracegrad.ir.types import Type
from tracegrad.ops.arithmetic import Add
from tracegrad.ops.constant import Constant
from tracegrad.ops.creation import Iota
from tracegrad.ops.gather import Gather
from tracegrad.ops.index_writes import index_update
from tracegrad.ops.joining import Concatenate
from tracegrad.ops.loops import Weaken
from tracegrad.ops.shape import Reshape, Transpose, broadcast_to, moveaxis, reshape, transpose
from tracegrad.ops.slicing import Slice, slices, take_slice
from tracegrad.passes.roll_match import Carried, Loop, Obstacle
from tracegrad.records import record
from tracegrad.state import setting
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace

LARGEST_COPY = 1 << 22  # elements that may be copied so that a loop reads one part of them per step
SEEN_THROUGH = (Reshape, Slice, Transpose)

Elements = dict[Var, tuple[Var, int]]  # values that are elements of stacks: of which, and which one


@record
class Variation:
    """In what the inner loops of an outer one differ, so that this must not become a part of their bodies.

    axes: per node of an iteration the axes on which its slice begins elsewhere. slots: operands that are constants.
    """

    axes: Mapping[int, tuple[int, ...]]
    slots: frozenset[int]


class Body:
    """The body of a loop, and the nodes before it, which make what it reads. Raises Obstacle where they cannot."""

    def __init__(self, loop: Loop, elements: Elements, name: str, variation: Variation | None):
        self.loop, self.elements, self.name, self.variation = loop, elements, name, variation
        self.role: Any = None  # of what is made, if what is equal in this loop may differ in others
        self.location = location_of(loop)
        self.outer, self.body = Trace(name), Trace(f"{name}_loop")
        self.outer.location = self.location
        self.stacks: list[tuple[Var, Var]] = []  # in the body, outside
        self.fixed: dict[Var, Var] = {}  # outside, in the body
        self.sources: dict[Var, Var] = {}  # in the body, outside
        self._made: dict[Any, Var] = {}

    # ---- values from outside ---------------------------------------------------------------------------------------

    def _each(self, values: Sequence[Var]) -> Var:
        """In the body, the value that belongs to the iteration."""
        key = self.role, *map(id, values)
        if key not in self._made:
            self._made[key] = self._each_new(values)
        return self._made[key]

    def _each_new(self, values: Sequence[Var]) -> Var:
        first = values[0]
        nodes = list(map(self.loop.listed.definition, values))
        if all(v is first for v in values):
            constant = nodes[0]
            if constant is not None and constant.op is Constant:
                value, weak = constant.attrs["value"], constant.attrs["weak"]
                if self._varies():
                    return self._invariant(self._constant(self.outer, value, weak))
                return self._constant(self.body, value, weak)
            return self._invariant(first)
        if all(n is not None and n.op is Constant for n in nodes):
            numbers = np.stack([n.attrs["value"] for n in nodes])  # type: ignore[union-attr]
            return self._element(self._sequence(numbers), first.type)
        stack = self._elements_of_one(values)
        if stack is not None:
            return self._element(stack, first.type)
        made = self._seen_through(nodes)
        if made is not None:
            return made
        return self._element(self._joined(values), first.type)

    def _varies(self) -> bool:
        """Whether the operand at hand is another constant in other loops."""
        return self.variation is not None and self.role[1] in self.variation.slots

    def _invariant(self, var: Var) -> Var:
        if var not in self.fixed:
            inside = self.fixed[var] = Var(var.type, var.name)
            self.sources[inside] = var
        return self.fixed[var]

    def _element(self, stack: Var, type: Type) -> Var:
        """In the body, what a stack from outside has for the iteration."""
        inside = next((v for v, outside in self.stacks if outside is stack), None)
        if inside is None:
            inside = Var(Type(stack.type.dtype, stack.type.shape[1:]))
            self.stacks.append((inside, stack))
        if not type.weak:
            return inside
        with setting(trace=self.body, grad_enabled=True):
            return self.body.lift(Weaken.apply(Tensor._traced(self.body, inside)))

    def _constant(self, trace: Trace, value: np.ndarray, weak: bool) -> Var:
        var = Var(Type(value.dtype, value.shape, weak))
        trace._record(Node(Constant, (), (var,), {"value": value, "weak": weak}, (), None))
        return var

    def _sequence(self, numbers: np.ndarray) -> Var:
        """Outside, an array that holds these numbers; one that counts needs no memory."""
        key = self.role, numbers.dtype, numbers.shape, numbers.tobytes()
        if key not in self._made:
            counts = (
                numbers.ndim == 1 and numbers.dtype.kind == "i" and not (type(self.role) is tuple and self._varies())
            )
            steps = np.diff(numbers) if counts else None
            if steps is not None and (steps == steps[0]).all():
                attrs = {
                    "shape": numbers.shape, "axis": 0, "start": int(numbers[0]), "step": int(steps[0]),
                    "dtype": numbers.dtype,
                }  # fmt: skip
                var = Var(Type(numbers.dtype, numbers.shape))
                self.outer._record(Node(Iota, (), (var,), attrs, (), self.location))
                self._made[key] = var
            else:
                if numbers.size > LARGEST_COPY:
                    raise Obstacle("it reads other constants in each iteration, too many to keep", self.location)
                self._made[key] = self._constant(self.outer, numbers, False)
        return self._made[key]

    def _elements_of_one(self, values: Sequence[Var]) -> Var | None:
        """The stack of which the values are elements at even distances, beginning with that of the first iteration."""
        places = list(map(self.elements.get, values))
        if any(p is None or p[0] is not places[0][0] for p in places):  # type: ignore[index]
            return None
        stack = places[0][0]  # type: ignore[index]
        steps = np.array([p[1] for p in places])  # type: ignore[index]
        even = np.diff(steps)
        if (even != even[0]).any():
            return None
        return self._stacked_slices(stack, steps[:, None], (1,), (1,), stack.type.shape[1:])

    def _seen_through(self, nodes: Sequence[Node | None]) -> Var | None:
        """The values as views, made in the loop, of what they are views of."""
        first = nodes[0]
        if first is None or first.op not in SEEN_THROUGH or any(n is None or n.op is not first.op for n in nodes):
            return None
        known: list[Node] = nodes  # type: ignore[assignment]
        if first.op is Slice:
            sizes = {(n.inputs[0], n.attrs["size"], n.attrs["step"]) for n in known}
            starts = np.array([n.attrs["start"] for n in known])
            if len(sizes) > 1 or starts.dtype.kind != "i" or (starts == starts[0]).all():
                return None
            return self._moving_slice(first.inputs[0], starts, first.attrs["size"], first.attrs["step"])
        if any(n.attrs != first.attrs for n in known):
            return None
        inner = self._each([n.inputs[0] for n in known])
        return self._copy(first, (inner,))

    def _joined(self, values: Sequence[Var]) -> Var:
        """Outside, a stack of different values."""
        type = values[0].type
        size = type.size
        if not isinstance(size, int) or size * len(values) > LARGEST_COPY // 4:
            raise Obstacle("it reads other large arrays in each iteration", self.location)
        if len(set(values)) < len(values):
            raise Obstacle("it reads now one value, now another one", self.location)
        with setting(trace=self.outer, grad_enabled=True):
            rows = [reshape(self._outside(v), (1, *type.shape)) for v in values]
            return self.outer.lift(Concatenate.apply(*rows, axis=0))

    def _outside(self, var: Var) -> Tensor:
        return Tensor._traced(self.outer, var)

    def _copy(self, node: Node, inputs: tuple[Var, ...]) -> Var:
        outputs = tuple(Var(v.type, v.name) for v in node.outputs)
        self.body._record(Node(node.op, inputs, outputs, node.attrs, node.bodies, node.location))
        return outputs[0]

    # ---- places that move ------------------------------------------------------------------------------------------

    def _moving_slice(self, source: Var, starts: np.ndarray, size: Any, step: Any) -> Var:
        """In the body, a part of a value from outside that moves evenly."""
        key = self.role, source, starts.tobytes(), size, step
        if key not in self._made:
            axes = np.flatnonzero((starts != starts[0]).any(axis=0))
            steps = np.diff(starts, axis=0)
            if len(axes) == 1 and size[axes[0]] == 1 and (steps == steps[0]).all():
                stack = self._stacked_slices(source, starts, size, step, size)
                self._made[key] = self._element(stack, Type(source.type.dtype, size))
            else:
                self._made[key] = self._read(self._invariant(source), starts, size, step)
        return self._made[key]

    def _stacked_slices(self, source: Var, starts: np.ndarray, size: Any, step: Any, shape: Any) -> Var:
        """Outside, the slices of all iterations, of one element along the one axis they move on, stacked."""
        (axis,) = np.flatnonzero(starts[1] != starts[0]).tolist()
        stride, count = int(starts[1][axis] - starts[0][axis]), len(starts)
        rest = len(source.type.shape) - len(size)
        whole = source.type.shape[len(size) :]
        first = (*(int(a) for a in starts[0]), *(0,) * rest)
        sizes = (*size[:axis], count, *size[axis + 1 :], *whole)
        steps = (*step[:axis], stride, *step[axis + 1 :], *(1,) * rest)
        key = self.role, source, first, sizes, steps, shape
        if key not in self._made:
            with setting(trace=self.outer, grad_enabled=True):
                taken = take_slice(self._outside(source), first, sizes, steps)
                self._made[key] = self.outer.lift(reshape(moveaxis(taken, axis, 0), (count, *shape)))
        return self._made[key]

    def _positions(self, starts: np.ndarray, axis: int) -> Tensor:
        """In the body, where the slice of the iteration begins."""
        numbers = starts[:, axis].astype(np.int64)
        type = Type(numbers.dtype)
        if axis not in self._elsewhere():
            return Tensor._traced(self.body, self._element(self._sequence(numbers), type))
        base = self._invariant(self._constant(self.outer, np.array(numbers[0]), False))
        first = Tensor._traced(self.body, base)
        if (numbers == numbers[0]).all():
            return first
        further = Tensor._traced(self.body, self._element(self._sequence(numbers - numbers[0]), type))
        with setting(trace=self.body, grad_enabled=True):
            place: Tensor = Add.apply(first, further)
            return place

    def _elsewhere(self) -> tuple[int, ...]:
        """The axes on which the slice at hand begins elsewhere in other loops."""
        return () if self.variation is None else self.variation.axes.get(self.role, ())

    def _moving_axes(self, starts: np.ndarray) -> list[int]:
        """The axes on which a slice moves, in this loop or from loop to loop."""
        return sorted({*np.flatnonzero((starts != starts[0]).any(axis=0)).tolist(), *self._elsewhere()})

    def _read(self, source: Var, starts: np.ndarray, size: Any, step: Any) -> Var:
        """In the body, a slice that moves: a gather along the axes on which it does."""
        moving = self._moving_axes(starts)
        others = [a for a in range(len(size)) if a not in moving]
        with setting(trace=self.body, grad_enabled=True):
            x = Tensor._traced(self.body, source)
            start = tuple(0 if a in moving else int(s) for a, s in enumerate(starts[0]))
            sizes = tuple(d if a in moving else n for a, (d, n) in enumerate(zip(source.type.shape, size, strict=True)))
            steps = tuple(1 if a in moving else s for a, s in enumerate(step))
            taken = transpose(take_slice(x, start, sizes, steps), (*moving, *others))
            if all(size[a] == 1 for a in moving):
                found = Gather.apply(taken, *(self._positions(starts, a) for a in moving))
            else:
                found = Gather.apply(taken, *self._grid(starts, moving, size, step))
            in_order = reshape(found, (*(size[a] for a in moving), *(size[a] for a in others)))
            return self.body.lift(transpose(in_order, tuple(np.argsort([*moving, *others]).tolist())))

    def _grid(self, starts: np.ndarray, moving: Sequence[int], size: Any, step: Any) -> list[Any]:
        """Index arrays for all combinations of positions on the axes."""
        shape = tuple(size[a] for a in moving)
        arrays = []
        for number, axis in enumerate(moving):
            around = [-1 if k == number else 1 for k in range(len(moving))]
            offsets = np.reshape(np.arange(size[axis]) * step[axis], around)
            arrays.append(broadcast_to(Add.apply(self._positions(starts, axis), offsets), shape))
        return arrays

    def _write(self, inputs: tuple[Var, ...], starts: np.ndarray, node: Node) -> Var:
        """In the body, a write to a region that moves."""
        moving = self._moving_axes(starts)
        size, step = node.inputs[1].type.shape, node.attrs["step"]
        if any(size[a] != 1 for a in moving):
            return self._write_many(inputs, starts, node, moving)
        fixed = slices([int(s) for s in starts[0]], size, step)  # type: ignore[arg-type]
        with setting(trace=self.body, grad_enabled=True):
            x, value = (Tensor._traced(self.body, v) for v in inputs)
            index = tuple(self._positions(starts, a) if a in moving else fixed[a] for a in range(len(size)))
            rest = reshape(value, tuple(d for a, d in enumerate(size) if a not in moving))
            return self.body.lift(index_update(x, index, rest))

    def _write_many(self, inputs: tuple[Var, ...], starts: np.ndarray, node: Node, moving: list[int]) -> Var:
        if len(moving) > 1:
            raise Obstacle("it writes to a block that moves along several axes", node.location)
        size: Any = node.inputs[1].type.shape
        step = node.attrs["step"]
        (axis,) = moving
        fixed = slices([int(s) for s in starts[0]], size, step)
        with setting(trace=self.body, grad_enabled=True):
            x, value = (Tensor._traced(self.body, v) for v in inputs)
            places = Add.apply(self._positions(starts, axis), np.arange(size[axis]) * step[axis])
            index = tuple(places if a == axis else fixed[a] for a in range(len(size)))
            return self.body.lift(index_update(x, index, value))


def location_of(loop: Loop) -> Location | None:
    """The user's line of a loop: that of what it hands on to the next iteration, else of its first operation."""
    carried = [o.place for o in loop.operands if isinstance(o, Carried)]
    offsets = loop.listed.first[loop.start : loop.start + loop.period] - loop.listed.first[loop.start]
    position = int(np.searchsorted(offsets, carried[0], "right")) - 1 if carried else 0
    return loop.listed.nodes[loop.start + position].location
