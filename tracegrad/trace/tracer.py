"""The trace: nodes recorded while the user's function runs, and their values, computed when Python looks at them.

Recording needs only types; numbers are computed by the interpreter on demand (a print, an `if`, a `float`), and kept.
So a trace costs little memory, yet behaves as the real forward run it stands for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, SymbolicValueError, user_location
from tracegrad.function import Operation, link
from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import NO_ATTRS, Graph, Location, Node, Var
from tracegrad.ir.interpret import run_node
from tracegrad.ir.sizes import Size, active, plain_attributes, values_now
from tracegrad.ir.types import Type, known_type
from tracegrad.ops.constant import Constant
from tracegrad.ops.hooked import with_hooks
from tracegrad.ops.joining import Concatenate
from tracegrad.ops.reduction import Sum
from tracegrad.ops.shape import BroadcastTo, Reshape, Transpose
from tracegrad.ops.slicing import Slice, SliceUpdate
from tracegrad.ops.stop import StopGradient
from tracegrad.state import state
from tracegrad.tensor import Count, Tensor, check_array
from tracegrad.trace.columns import Columns
from tracegrad.trace.contents import Contents, overwritten_in_part
from tracegrad.trace.frequent import MOST_PLANS, Frequent, met
from tracegrad.trace.leaf_gradients import Live
from tracegrad.trace.memory import Memory, refresh_view
from tracegrad.trace.numbers import check_range, known_comparison, of_numpy, python_number

_new = tuple.__new__  # of Nodes, without their own
_traced = Tensor._traced
_COMPARED = frozenset(
    (BroadcastTo, Concatenate, Reshape, Slice, SliceUpdate, Sum, Transpose)
)  # their attributes mean the same where equal
_PYTHON_NUMBERS = (bool, int, float, complex)
Captured = np.ndarray | Tensor | Live


class Trace(Frequent):
    """One recording. `parent` is the trace it was started in; values of the parent become captured inputs here.

    `differentiated` are the inputs a gradient is wanted for: turning what depends on them into a plain number is an
    error. `guards` are (value, number) pairs: the trace is right only for calls in which the value is that number.
    """

    def __init__(self, name: str, parent: Trace | None = None):
        self.name, self.parent = name, parent
        self.inputs: list[Var] = []
        self.nodes: list[Node] = []
        self.definitions: dict[Var, Node] = {}
        self.values: dict[Var, Any] = {}
        self.sources: dict[Var, Tensor] = {}
        self.captured: dict[Var, Captured] = {}
        self.differentiated: set[Var] = set()
        self.guards: list[tuple[Var, Any]] = []
        self.assumptions: set[DimLike] = set()  # dimensions the trace takes to be non-negative
        self.finished = False
        self.location: Location | None = None  # stands in for the user's line while an adjoint is derived
        self._capture_of: dict[int, Var] = {}
        self.contents: dict[Var, Contents] = {}  # of captured arrays, when they were first used
        self.overwritten: list[np.ndarray] = []  # captured arrays that plain NumPy code modified since
        self._constants: dict[tuple[type, Any], Var] = {}
        self._plans: dict[tuple[Any, ...], tuple[tuple[Any, Mapping[str, Any], int | None], Any, Any]] = {}
        self._at_once: dict[tuple[Any, ...], Any] = {}
        self.memory = Memory(self)
        self.activity_known = False  # whether `depends_on_differentiated` sees all there is to see
        self._needs: dict[Var, bool] = {}
        self.columns: Columns | None = None  # the nodes in numbers, where somebody will look for repetitions
        self.loops: list[str] = []  # what was said of plain Python loops in bodies
        self.hooked: dict[Var, Any] = {}  # hooks registered on values, for whoever differentiates the graph

    # ---- inputs ----------------------------------------------------------------------------------------------------

    def add_input(self, type: Type, name: str = "", value: Any = None, source: Tensor | None = None) -> Tensor:
        """A Tensor for a new input. Its number is `value`, or what the outer Tensor `source` has, or unknown."""
        var = Var(type, name)
        self.inputs.append(var)
        if self.columns is not None:
            self.columns.note_other(var)
        if value is not None:
            self.values[var] = value
        if source is not None:
            self.sources[var] = source
        return Tensor._traced(self, var)

    def lift(self, value: Any) -> Var:
        """The value of this trace that stands for an operand: a Tensor, an array or a number."""
        if isinstance(value, Tensor):
            if value._array is not None or value._trace is not self:
                value = self.memory.standin(value)
            meta = value._meta
            if meta is not None and meta.base is not None and meta.view_version != meta.version[0]:
                refresh_view(value)
            return value._var
        kind = type(value)
        if kind in _PYTHON_NUMBERS:
            key = kind, repr(value) if kind is complex else value or repr(value)  # by bits: 0.0 and -0.0 are two
            return self._constants.get(key) or self._constant(python_number(value), key, weak=True)
        if isinstance(value, np.ndarray) and value.ndim:
            return self._capture(value)
        if isinstance(value, (Size, Count)):
            return self.lift(value.number)
        array = check_array(np.asarray(value))
        if array.ndim:
            return self._capture(array)
        if array is value:
            array = array.copy()  # Python may overwrite it later
        return self._constant(array, (array.dtype.type, array.tobytes()), weak=False)

    def _constant(self, array: np.ndarray, key: tuple[type, Any], weak: bool) -> Var:
        """0-d numbers: one node per distinct number."""
        var = self._constants.get(key)
        if var is None:
            var = Var(known_type(array.dtype, (), weak))
            self._append(Node(Constant, (), (var,), {"value": array, "weak": weak}, (), None))
            self._constants[key] = var
            self.values[var] = array.item() if weak else array
        return var

    def live_number(self, read: Callable[[], float]) -> Tensor:
        """A float that Python computes at each call, such as a learning rate; it takes part as a Python number."""
        if self.parent is not None:
            return self.parent.live_number(read)

        def of_call(leaves: Sequence[Any]) -> float:
            return float(read())

        return Tensor._traced(self, self._capture(Live(of_call, float(read()))))

    def _capture(self, value: Captured) -> Var:
        """An array or Tensor from outside: a hidden input, read afresh at each call."""
        if isinstance(value, Tensor) and value._array is None and value._trace.finished:
            if value._trace.parent is not None:
                raise ArgumentError(
                    f"a value of the body of {value._trace.name} was read after the body had been recorded: it stands "
                    "for the values of all steps, and has none outside",
                    fix="return it from the body: as y, which tg.scan stacks for all steps, or as part of the carry",
                )
            raise ArgumentError(
                "a Tensor of a traced function was used after that function had returned",
                fix="return it from the function instead of keeping it in a global, a list or an attribute",
            )
        var = self._capture_of.get(id(value))
        if var in self.contents and not self.contents[var].seem_those_of(value):  # type: ignore[arg-type]
            self._overwritten(var)
            var = None
        if var is None:
            if isinstance(value, Tensor):
                var = Var(value.type)
                self.sources[var] = value
            elif isinstance(value, Live):
                var = Var(value.now.type if isinstance(value.now, Tensor) else Type(np.dtype(float), (), True))
                self.values[var] = value.now._array if isinstance(value.now, Tensor) else value.now
            else:
                check_array(value)
                shape = value.shape if active.sizes is None else active.sizes.outside.get(id(value), value.shape)
                var = Var(Type(value.dtype.newbyteorder("="), shape))
                self.contents[var] = contents = Contents(value)
                self.values[var] = contents.array
            self.captured[var] = value
            self._capture_of[id(value)] = var
            if self.columns is not None:
                self.columns.note_other(var)
        return var

    def _overwritten(self, var: Var) -> None:
        """Let a captured array have the numbers that were used, which plain NumPy code has overwritten."""
        contents = self.contents.pop(var)
        if contents.sampled and contents.seem_those_of(self.captured[var]):
            raise overwritten_in_part()
        self.overwritten.append(self.captured[var])
        self.captured[var] = contents.array

    def settle(self, captured: Iterable[Var]) -> None:
        """Find those of the captured arrays that were overwritten after their last use."""
        for var in captured:
            contents = self.contents.get(var)
            if contents is not None and not contents.are_those_of(self.captured[var]):
                self._overwritten(var)

    # ---- recording -------------------------------------------------------------------------------------------------

    def _append(self, node: Node) -> None:
        """Record a node whose outputs are new values, and whose inputs are values of this trace."""
        self.nodes.append(node)
        for out in node.outputs:
            self.definitions[out] = node
        if self.columns is not None:
            self.columns.note(node)

    def _record(self, node: Node) -> None:
        """Record a node from anywhere."""
        self.columns = None
        self._append(node)

    def emit(
        self,
        op: Any,
        inputs: tuple[Var, ...],
        types: tuple[Type, ...],
        attrs: Mapping[str, Any] = NO_ATTRS,
        bodies: tuple[Graph, ...] = (),
        location: Location | None = None,
    ) -> tuple[Tensor, ...]:
        """Record one node and return Tensors for its outputs."""
        outputs = tuple(map(Var, types))
        attrs = plain_attributes(attrs)
        self._append(Node(op, inputs, outputs, attrs, bodies, location))
        return tuple(Tensor._traced(self, out) for out in outputs)

    def apply(self, op: type[Operation], args: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
        """Record a built-in operation on Tensors, arrays and numbers."""
        location = self.location or user_location(3)
        inputs: list[Var] = []
        key: list[Any] = [op, id(location)]
        tracked = False  # whether an operand has a history in this trace
        large = False  # whether an operand is a Python integer that some dtype does not hold
        for position, arg in enumerate(args):
            if isinstance(arg, Tensor):
                if arg._array is not None or arg._trace is not self:
                    arg = self.memory.standin(arg)
                    args = (*args[:position], arg, *args[position + 1 :])
                meta = arg._meta
                if meta is None:
                    tracked = tracked or arg._requires_grad
                else:
                    if meta.base is not None and meta.view_version != meta.version[0]:
                        refresh_view(arg)
                    tracked = tracked or arg.requires_grad
                var = arg._var
            else:
                if arg.__class__ is int and not 0 <= arg < 128:
                    large = True
                    if (known := known_comparison(op, args)) is not None:
                        return known
                    arg = of_numpy(op, arg, args)
                var = self.lift(arg)
            inputs.append(var)
            key.append(id(var.type))
        inferred, attrs, kind = self._plan(op, key, inputs, attrs, location)
        single = inferred.__class__ is Type
        if large and single:
            check_range(op, args, inferred)
        if single:
            outputs: tuple[Tensor, ...] = (self._put(op, tuple(inputs), inferred, attrs, location, kind),)
        else:
            outs = tuple(map(Var, inferred))
            self._append(_new(Node, (op, tuple(inputs), outs, attrs, (), location)))
            outputs = tuple([_traced(self, out) for out in outs])
        if state.grad_enabled:
            if tracked and op.differentiable:
                link(op, tuple(map(self._operand, args, inputs)), attrs, outputs)
        elif state.grad_enabled is False:
            outputs = tuple(
                self.emit(StopGradient, (o._var,), (o._var.type,), NO_ATTRS, (), None)[0] if o._var.type.inexact else o
                for o in outputs
            )
        if op.put is not None and isinstance(args[0], Tensor):
            self.memory.note_view(op, args[0], attrs, outputs[0])
        return outputs[0] if single else outputs

    def _plan(
        self, op: type[Operation], key: list[Any], inputs: list[Var], attrs: Mapping[str, Any], location: Any
    ) -> tuple[Any, Mapping[str, Any], int | None]:
        """What an operation gives for operands of these types, its attributes, and its kind in the columns, if known.

        Types and attributes that come again are the same objects. `key` has the operation, the place and the types.
        """
        if attrs:
            if op not in _COMPARED or active.sizes is not None:
                attrs = plain_attributes(attrs)
                return op.infer(*[v.type for v in inputs], **attrs), attrs, None
            key += attrs
            key += attrs.values()
        found = self._plans.get(whole := tuple(key))
        if found is None:
            types = [v.type for v in inputs]
            inferred = op.infer(*types, **attrs)
            inferred = tuple(map(met, inferred)) if isinstance(inferred, tuple) else met(inferred)
            attrs, n_out = attrs or NO_ATTRS, len(inferred) if isinstance(inferred, tuple) else 1
            columns = self.columns
            kind = None if columns is None else columns.kind(op, location, len(types), n_out, attrs is not NO_ATTRS)
            found = (inferred, attrs, kind), types, location  # kept, so that their ids are theirs
            if len(self._plans) < MOST_PLANS:
                self._plans[whole] = found
        return found[0]

    def _operand(self, arg: Any, var: Var) -> Any:
        """What a backward inside the trace reads of an operand: of an array its value here, so that nothing freezes."""
        return Tensor._traced(self, var) if isinstance(arg, np.ndarray) else arg

    # ---- values ----------------------------------------------------------------------------------------------------

    def value(self, var: Var) -> Any:
        """The number(s) `var` has in this run. Raises ArgumentError where the trace is symbolic."""
        values = self.values
        stack = [var]
        while stack:
            wanted = stack[-1]
            if wanted in values:
                stack.pop()
                continue
            node = self.definitions.get(wanted)
            if node is None:
                values[wanted] = self._source_value(wanted)
                continue
            missing = [v for v in node.inputs if v not in values]
            if missing:
                stack.extend(missing)
                continue
            results = run_node(node, [values[v] for v in node.inputs], values_now())
            for out, result in zip(node.outputs, results, strict=True):
                values[out] = result
        return values[var]

    def _source_value(self, var: Var) -> Any:
        source = self.sources.get(var)
        if source is None:
            raise SymbolicValueError(
                "this value is symbolic here: it has a shape and a dtype, but no number that Python could look at",
                fix="use np.where or tg.cond instead of `if`, tg.while_loop instead of `while`; index arrays with it "
                "as it is, without int() and without lists, and plain arrays as Tensors, tg.tensor(a)[i]; np.stack "
                "instead of np.array of several such values",
            )
        with_trace = source._value()
        return with_trace.item() if var.type.weak else with_trace

    def needs_gradient(self, var: Var) -> bool:
        """Whether a gradient of this inexact value may be wanted, as users' Functions ask; True where it is unknown."""
        if not self.activity_known:
            return True
        found = self._needs.get(var)
        if found is None:
            found = self._needs[var] = self.depends_on_differentiated(var)
        return found

    def depends_on_differentiated(self, var: Var) -> bool:
        """Whether a gradient is wanted for an input that `var` was computed from, here or in an outer trace."""
        seen, stack = {var}, [var]
        while stack:
            v = stack.pop()
            if v in self.differentiated:
                return True
            source = self.sources.get(v)
            if source is not None:
                if source.requires_grad:
                    return True
                if source._array is None and source._trace.depends_on_differentiated(source._var):
                    return True
            node = self.definitions.get(v)
            if node is not None and node.op is not StopGradient:
                for i in node.inputs:
                    if i not in seen:
                        seen.add(i)
                        stack.append(i)
        return False

    # ---- the result ------------------------------------------------------------------------------------------------

    def finish(self, outputs: tuple[Var, ...]) -> tuple[Graph, list[Captured]]:
        """The graph, whose inputs are the declared ones and then the captured ones, and what was captured.

        A captured array that nobody but the trace refers to can never change: it becomes a constant of the graph.
        """
        self.finished = True
        self.settle(list(self.contents))
        if self.parent is not None:
            self.parent.overwritten += self.overwritten
        self.contents.clear()
        self._capture_of.clear()
        constants: list[Node] = []
        kept: list[Var] = []
        captured: list[Captured] = []
        for var in list(self.captured):
            value = self.captured.pop(var)
            self.values.pop(var, None)
            if isinstance(value, np.ndarray) and _is_ours_alone(value):
                native = np.ascontiguousarray(value, dtype=var.type.dtype)
                constants.append(Node(Constant, (), (var,), {"value": native, "weak": False}))
            else:
                kept.append(var)
                captured.append(value)
        graph = Graph((*self.inputs, *kept), (*constants, *self.nodes), outputs, self.name)
        if self.hooked:
            self.columns = None
        return with_hooks(graph, self.hooked), captured

    def finish_body(self, outputs: tuple[Var, ...]) -> tuple[Graph, list[Captured]]:
        """`finish` for the body of a node: the plain Python loops in it are loops of the graph."""
        from tracegrad.passes.roll import roll

        graph, captured = self.finish(outputs)
        rolled = roll(graph, self.columns)
        if self.parent is not None:
            self.parent.loops += (*self.loops, *rolled.notes)
        return rolled.graph, captured

    def roll_from(self, start: int, outputs: Sequence[Var]) -> None:
        """Let plain Python loops among the nodes from `start` on be loops. Of their values only `outputs` are read
        later, and those that decisions were taken on."""
        from tracegrad.passes.roll import LEAST_NODES, roll

        nodes = tuple(self.nodes[start:])
        if len(nodes) < LEAST_NODES:
            return
        made = {out for node in nodes for out in node.outputs}
        read = dict.fromkeys(v for node in nodes for v in node.inputs if v not in made)
        kept = dict.fromkeys(v for v in (*outputs, *(v for v, _ in self.guards)) if v in made)
        graph = roll(Graph(tuple(read), nodes, tuple(kept), self.name)).graph
        if graph.nodes is nodes:
            return
        self.nodes[start:] = graph.nodes
        self.columns = None
        for out in made:
            del self.definitions[out]
        self.definitions |= {out: node for node in graph.nodes for out in node.outputs}
        self._constants = {k: v for k, v in self._constants.items() if v in self.definitions}


def _is_ours_alone(value: np.ndarray) -> bool:
    # References here: the caller's local, this parameter, getrefcount's argument.
    return value.base is None and value.flags.owndata and sys.getrefcount(value) <= 3


def splice(trace: Trace, graph: Graph, args: tuple[Var, ...]) -> tuple[Var, ...]:
    """Append a graph's nodes to a trace with its inputs replaced by `args`; the values of its outputs."""
    env = dict(zip(graph.inputs, args, strict=True))
    for node in graph.nodes:
        outputs = tuple(Var(o.type, o.name) for o in node.outputs)
        env.update(zip(node.outputs, outputs, strict=True))
        trace._append(
            Node(node.op, tuple(env[v] for v in node.inputs), outputs, node.attrs, node.bodies, node.location)
        )
    return tuple(env[v] for v in graph.outputs)
