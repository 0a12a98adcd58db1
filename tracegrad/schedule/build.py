"""From a graph to statements: one per node that computes, index maps for nodes that only move elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from tracegrad.ir import lowering
from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.index import Affine, Index, variable
from tracegrad.schedule import matmul, matrices, scattered, views
from tracegrad.schedule.inplace import arrange
from tracegrad.schedule.live import REGIONS, has_scalars, live_nodes, needed, runs_in_python
from tracegrad.schedule.loops import Apply, FromIndex, Literal, Value
from tracegrad.schedule.maps import ZERO, simplify_bounds, substitute, substitute_bound, variable_of
from tracegrad.schedule.order import loop_order
from tracegrad.schedule.regions import region_call
from tracegrad.schedule.statements import CallStatement, Lookup, Program, Ref, Statement, cast
from tracegrad.schedule.weights import (
    DEPTH_LIMIT,
    INLINE_LIMIT,
    REPEATED_LIMIT,
    expression_weight,
    most_leaves,
    weight_of,
)
from tracegrad.schedule.widen import widen

NOTHING: Mapping[int, int] = {}
_RENAMINGS = {"cast", "astype", "positive", "identity"}  # scalar operations that are their operand in another dtype


def build(graph: Graph, donated: Mapping[int, int] = NOTHING, narrow: bool = False) -> Program:
    """The statements of a graph, without those that nothing needs. `donated`: see `inplace.arrange`; `narrow`: whether
    batches of narrow products are loops (see `matmul.is_narrow`)."""
    return Builder(graph, donated, narrow).run()


class Builder:
    """Builds the statements of one graph; `read` gives the element of a value at an index."""

    def __init__(self, graph: Graph, donated: Mapping[int, int] = NOTHING, narrow: bool = False):
        self.graph, self.donated, self.narrow = graph, donated, narrow
        self.program = Program(inputs=graph.inputs, outputs=graph.outputs)
        self.extents = self.program.extents
        self.definitions = graph.definitions()
        self.use_counts = graph.use_counts()
        self.pieces: dict[Node, tuple[Any, ...]] = {}
        self.costs: dict[Var, int] = {}
        self.made: set[Var] = set()
        self.stored: set[Var] = set()  # those that get too large where they are written out
        self.depths: dict[Var, int] = {}
        self.in_python = {node for node in graph.nodes if runs_in_python(node)}
        self.in_place = scattered.chosen_slices(graph, donated)
        self.refs: list[Ref] = []
        self.visited: list[Node] = []
        self.memo: dict[Any, tuple[Any, int]] = {}  # what has been read, with its leaves
        self.leaves = 0  # of the expression so far, which shares parts, written out as a tree
        self.names = 0

    def run(self) -> Program:
        live = live_nodes(self.graph)
        for node in self.graph.nodes:
            if node in live:
                self.node(node)
                self.limit_depth(node)
        copies: dict[Var, Var] = {}
        for var in self.graph.outputs:
            if var not in copies:
                copies[var] = self.output(var, tuple(copies.values()))
        self.program.outputs = tuple(copies[v] for v in self.graph.outputs)
        self.program.statements = needed(self.program)
        program = widen(self)
        arrange(program, self.donated)
        return program

    # ---- nodes ----------------------------------------------------------------------------------------------------

    def node(self, node: Node) -> None:
        lower = node.op.lower
        if node in self.in_python:
            self.host_call(node)
        elif node.name in REGIONS:
            self.add_call(region_call(self, node))
        elif isinstance(lower, lowering.Constant):
            value = np.asarray(node.attrs["value"], node.output.type.dtype, order="C")
            self.program.constants[node.output] = value
        elif isinstance(lower, lowering.Elementwise):
            self.elementwise(node)
        elif isinstance(lower, lowering.Reduction):
            self.reduction(node, lower.combine)
        elif isinstance(lower, lowering.Gather):
            scattered.gather(self, node)
        elif isinstance(lower, lowering.ScatterAdd):
            scattered.scatter(self, node)
        elif isinstance(lower, lowering.Write):
            scattered.write(self, node)
        elif node in self.in_place:
            scattered.write_slice(self, node)
        elif isinstance(lower, lowering.Library):
            if lower.kernel == "matmul" and (matmul.as_nest(node) or (self.narrow and matmul.is_narrow(node))):
                self.product(node)
            else:
                self.library_call(node, lower.kernel)
        elif isinstance(lower, lowering.Matrices):
            matrices.call(self, node, lower.kernel)

    def elementwise(self, node: Node) -> None:
        index = self.variables(node.output.type.shape)
        expr = self.application(node, index)
        self.add(node.output, index, expr, self.order(index))

    def reduction(self, node: Node, combine: str) -> None:
        (x,) = node.inputs
        axes = node.attrs["axis"]
        index = self.variables(x.type.shape)
        if node.attrs.get("keepdims"):
            target = tuple(ZERO if a in axes else i for a, i in enumerate(index))
        else:
            target = tuple(i for a, i in enumerate(index) if a not in axes)
        order = self.order(index)
        reduced = frozenset(v for a, i in enumerate(index) if a in axes and (v := variable_of(i)))
        if combine in ("argmax", "argmin"):
            self.arg_extremum(node, index, target, reduced, combine == "argmax")
            return
        dtype = np.dtype(bool) if combine.startswith("logical") else node.output.type.dtype
        self.add(node.output, target, cast(self.read(x, index), dtype), order, combine, reduced)

    def arg_extremum(
        self, node: Node, index: tuple[Affine, ...], target: tuple[Affine, ...], reduced: frozenset[str], largest: bool
    ) -> None:
        """Two reductions: the extremum, then the least position that holds it (or NaN, which wins)."""
        (x,), out = node.inputs, node.output
        (axis,) = node.attrs["axis"]
        dtype = np.dtype(np.int8) if x.type.dtype.kind == "b" else x.type.dtype
        extremum = Var(out.type.with_dtype(dtype), "largest" if largest else "least")
        order = self.order(index)
        element = cast(self.read(x, index), dtype)
        self.add(extremum, target, element, order, "maximum" if largest else "minimum", reduced)
        element = cast(self.read(x, index), dtype)
        best: Any = Ref(extremum, target)
        self.refs.append(best)
        found: Any = Apply("equal", (element, best), np.dtype(bool))
        if dtype.kind == "f":
            found = Apply("logical_or", (found, Apply("not_equal", (element, element), np.dtype(bool))), np.dtype(bool))
        position = FromIndex(index[axis], out.type.dtype)
        nowhere = Literal(int(np.iinfo(out.type.dtype).max), out.type.dtype)
        chosen = Apply("where", (found, position, nowhere), out.type.dtype)
        self.add(out, target, chosen, order, "minimum", reduced)

    def product(self, node: Node) -> None:
        a, b = node.inputs
        space = matmul.space_of(a.type.shape, b.type.shape)
        names = self.variables(space.extents)
        dtype = node.output.type.dtype
        target, left, right = (tuple(ZERO if p is None else names[p] for p in space_of) for space_of in space.maps)
        factors = tuple(cast(self.read(v, i), dtype) for v, i in ((a, left), (b, right)))
        multiply, add = ("logical_and", "logical_or") if dtype.kind == "b" else ("multiply", "add")
        order = self.order(names)
        reduced = frozenset(v for v in (variable_of(names[-1]),) if v)
        self.add(node.output, target, Apply(multiply, factors, dtype), order, add, reduced)

    def library_call(self, node: Node, kernel: str) -> None:
        if kernel == "matmul":
            inputs, attrs = matmul.fold_transposes(node, partial(views.transposed_source, self.definitions))
            inputs = tuple(self.in_dtype(v, node.output.type.dtype) for v in inputs)
        else:
            inputs, attrs = node.inputs, dict(node.attrs)
            if kernel == "recurrence":
                inputs = tuple(self.in_dtype(v, node.output.type.dtype) for v in inputs)
        inputs = tuple(self.materialised(v) for v in inputs)
        self.add_call(CallStatement(kernel, inputs, node.outputs, node, attrs))

    def host_call(self, node: Node) -> None:
        inputs = tuple(self.materialised(v) for v in node.inputs)
        self.add_call(CallStatement("host", inputs, node.outputs, node, {"function": matmul.HostFunction(node)}))

    def add_call(self, call: CallStatement) -> None:
        self.program.statements.append(call)
        self.made.update(call.outputs)
        self.program.whole.update(call.outputs)
        self.forget()

    # ---- statements -----------------------------------------------------------------------------------------------

    def variables(self, shape: Sequence[DimLike]) -> tuple[Affine, ...]:
        """A new loop variable for each dimension; the index 0 where the extent is 1."""
        self.names += 1
        out = []
        for axis, extent in enumerate(shape):
            if extent == 1:
                out.append(ZERO)
                continue
            name = f"{self.names}.{axis}"
            self.extents[name] = extent
            out.append(variable(name))
        return tuple(out)

    def order(self, index: Sequence[Affine]) -> tuple[str, ...]:
        return tuple(v for i in index if (v := variable_of(i)))

    def add(
        self, var: Var, target: tuple[Index | Value, ...], expr: Any, natural: tuple[str, ...],
        combine: str = "", reduced: frozenset[str] = frozenset(), lookups: tuple[Lookup, ...] = (),
        base: Var | None = None,
    ) -> None:  # fmt: skip
        if base is None and not reduced and not any(isinstance(i, Value) for i in target):
            combine = ""  # over one element
        statement = self.statement(var, target, expr, natural, combine, reduced, lookups)
        statement.base = base
        self.program.statements.append(statement)
        self.made.add(var)

    def statement(
        self, var: Var, target: tuple[Index | Value, ...], expr: Any, natural: tuple[str, ...],
        combine: str = "", reduced: frozenset[str] = frozenset(), lookups: tuple[Lookup, ...] = (),
    ) -> Statement:  # fmt: skip
        """A statement with what has been read since the last one."""
        refs = tuple(dict.fromkeys(self.refs))
        own = self.definitions.get(var)
        nodes = tuple(dict.fromkeys((*self.visited, own) if own is not None else self.visited))
        order = loop_order(natural, refs, target, self.extents)
        weight = expression_weight(expr) + bool(combine)
        self.forget()
        return Statement(var, order, target, expr, refs, nodes, combine, reduced, lookups, weight)

    def forget(self) -> None:
        """Start another statement."""
        self.refs, self.visited, self.memo, self.leaves = [], [], {}, 0

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Inside the block, another statement than the present one is made."""
        saved = self.refs, self.visited, self.memo, self.leaves
        self.forget()
        try:
            yield
        finally:
            self.refs, self.visited, self.memo, self.leaves = saved

    def output(self, var: Var, earlier: tuple[Var, ...]) -> Var:
        """The value, with a buffer of its own, that stands for an output."""
        if var in self.graph.inputs or var in self.made:
            return var
        node = self.definitions[var]
        target = var
        if isinstance(node.op.lower, lowering.Reshape):
            written = self.definitions.get(node.inputs[0])
            updated = written is not None and (written.name == "write" or written in self.in_place)
            if updated or not views.only_units(var.type.shape, node.inputs[0].type.shape):
                source = self.program.root(self.materialised(var))
                taken = {*self.graph.outputs, *(self.program.root(o) for o in earlier)}
                if source in self.made and source not in taken:
                    return var
            target = Var(var.type, var.name)
        if var in self.program.constants:
            target = Var(var.type, var.name)  # the buffer of the constant itself is read
            if not has_scalars(var.type.dtype):
                call = {"function": matmul.HostFunction(node)}
                self.add_call(CallStatement("host", (), (target,), node, call))
                return target
        index = self.variables(var.type.shape)
        self.add(target, index, self.made_of(var, index), self.order(index))
        return target

    def materialised(self, var: Var) -> Var:
        """`var` as a value that has a buffer: itself, after a copy has been asked for if it is a view."""
        if var in self.definitions and var not in self.made and var not in self.program.constants:
            node = self.definitions[var]
            if isinstance(node.op.lower, lowering.Reshape):
                if var not in self.program.aliases:
                    self.program.aliases[var] = self.program.root(self.materialised(node.inputs[0]))
                return var
            self.store(var)
        self.program.whole.add(self.program.root(var))
        return var

    def store(self, var: Var) -> None:
        """Give a value that only moves elements a statement, before the present one."""
        with self.aside():
            index = self.variables(var.type.shape)
            self.add(var, index, self.made_of(var, index), self.order(index))

    def in_dtype(self, var: Var, dtype: np.dtype) -> Var:
        """`var` converted to a dtype, in a buffer of its own; itself where it has that dtype."""
        return var if var.type.dtype == dtype else self.copied(var, dtype)

    def copied(self, var: Var, dtype: np.dtype | None = None) -> Var:
        """A copy of `var`, in another dtype if one is given."""
        dtype = var.type.dtype if dtype is None else dtype
        copy = Var(var.type.with_dtype(dtype), var.name)
        index = self.variables(var.type.shape)
        self.add(copy, index, cast(self.read(var, index), dtype), self.order(index))
        return copy

    # ---- expressions ----------------------------------------------------------------------------------------------

    def read(self, var: Var, index: tuple[Index, ...]) -> Any:
        """The element `index` of a value, views composed and cheap producers at shifted indices written out."""
        if 1 in var.type.shape:
            index = tuple(ZERO if d == 1 else i for i, d in zip(index, var.type.shape, strict=True))
        key = (var, index)
        if key in self.memo:
            expr, leaves = self.memo[key]
            self.leaves += leaves
            return expr
        before = self.leaves
        expr = self._read(var, index)
        self.leaves = max(self.leaves, before + 1)
        self.memo[key] = expr, self.leaves - before
        return expr

    def _read(self, var: Var, index: tuple[Index, ...]) -> Any:
        node = self.definitions.get(var)
        constant = self.program.constants.get(var)
        if constant is not None and constant.size == 1:
            return Literal(constant.item(), var.type.dtype)
        if node is None or constant is not None or node in self.in_python or node in self.in_place:
            return self.ref(var, index)
        if var in self.stored:
            return self.ref(var, index)
        lower = node.op.lower
        if isinstance(lower, (lowering.IndexMap, lowering.Iota, lowering.Reshape)) and node not in self.visited:
            self.visited.append(node)
        if isinstance(lower, lowering.IndexMap):
            return self.bounded(node, index)
        if isinstance(lower, lowering.Iota):
            return views.iota(node, index)
        if isinstance(lower, lowering.Reshape):
            source = views.reshaped(index, var.type.shape, node.inputs[0].type.shape, self.extents)
            if source is not None:
                return self.read(node.inputs[0], source)
            return self.ref(self.materialised(var), index)
        if isinstance(lower, lowering.Elementwise) and not self.aligned(var, index) and self.cheap(var):
            return self.bounded(node, index)
        return self.ref(var, index)

    def made_of(self, var: Var, index: tuple[Index, ...]) -> Any:
        """The element `index` of a value that gets a statement of its own."""
        node = self.definitions[var]
        return self.written_out(node, index) if isinstance(node.op.lower, lowering.IndexMap) else self.read(var, index)

    def limit_depth(self, node: Node) -> None:
        """Store a value that is written out through many others, so that reading it does not recurse deeply."""
        if not self.is_written_out(node):
            return
        var = node.output
        self.depths[var] = 1 + max((self.depths.get(v, 0) for v in node.inputs), default=0)
        if self.depths[var] > DEPTH_LIMIT and not isinstance(node.op.lower, lowering.Reshape):
            self.depths[var] = 0
            self.keep(var)

    def is_written_out(self, node: Node) -> bool:
        """Whether elements of a node are written out at some indices at least."""
        if node in self.in_python or node in self.in_place:
            return False
        lower = node.op.lower
        moves = isinstance(lower, (lowering.IndexMap, lowering.Reshape))
        return moves or (isinstance(lower, lowering.Elementwise) and self.cheap(node.output))

    def keep(self, var: Var) -> None:
        """Read elements of a value from a statement of its own, from now on."""
        self.stored.add(var)
        if var not in self.made:
            self.store(var)

    def written_out(self, node: Node, index: tuple[Index, ...]) -> Any:
        """An element of a node by those of its operands."""
        if node not in self.visited:
            self.visited.append(node)
        lower = node.op.lower
        return self.moved(node, lower, index) if isinstance(lower, lowering.IndexMap) else self.application(node, index)

    def bounded(self, node: Node, index: tuple[Index, ...]) -> Any:
        """An element of a node by those of its operands, or as an element of a statement where that gets too large:
        a value that is read at two places twice over, and so on, would double each time."""
        var, before = node.output, self.leaves
        refs, visited, known = len(self.refs), len(self.visited), len(self.memo)
        expr = self.written_out(node, index)
        pieces = len(self.pieces.get(node, node.inputs))
        if pieces == 1 or self.leaves - before <= most_leaves(pieces):
            return expr
        # What has been read since then goes with the expression; dicts keep the order in which they were filled.
        del self.refs[refs:], self.visited[visited:]
        while len(self.memo) > known:
            self.memo.popitem()
        self.leaves = before
        self.keep(var)
        return self.ref(var, index)

    def ref(self, var: Var, index: tuple[Index, ...]) -> Ref:
        ref = Ref(var, index)
        self.refs.append(ref)
        return ref

    def moved(self, node: Node, lower: lowering.IndexMap, index: tuple[Index, ...]) -> Any:
        if node not in self.pieces:
            self.pieces[node] = views.pieces_of(node, lower)
        values = {f"d{axis}": i for axis, i in enumerate(index)}
        dtype = node.output.type.dtype
        applicable = []
        for piece in self.pieces[node]:
            when = simplify_bounds([substitute_bound(b, values) for b in piece.when], self.extents)
            if when is None:
                continue
            applicable.append((piece, when))
            if not when:
                break
        fill = Literal(np.asarray(node.attrs.get("fill", 0)).astype(dtype).item(), dtype)
        elements = []
        for piece, when in reversed(applicable):
            place = tuple(substitute(i, values) for i in piece.index)
            elements.append((when, cast(self.read(node.inputs[piece.operand], place), dtype)))
        return views.chosen(elements[::-1], fill, lower.ascending)

    def application(self, node: Node, index: tuple[Index, ...]) -> Any:
        """A scalar operation on the elements that its broadcast operands have at `index`."""
        lower = node.op.lower
        types = tuple(v.type for v in node.inputs)
        dtype = np.dtype(lower.compute_dtype(types, node.output.type))
        args = []
        for position, v in enumerate(node.inputs):
            element = self.read(v, index[len(index) - v.type.ndim :])
            keep = lower.scalar == "where" and position == 0
            args.append(cast(element, np.dtype(bool) if keep else dtype))
        if lower.scalar in _RENAMINGS:
            return cast(args[0], node.output.type.dtype)
        return Apply(lower.scalar, tuple(args), node.output.type.dtype)

    def aligned(self, var: Var, index: tuple[Index, ...]) -> bool:
        """Whether `index` runs over all of `var`, one loop per dimension."""
        seen = set()
        for i, extent in zip(index, var.type.shape, strict=True):
            if extent == 1:
                continue
            name = variable_of(i)
            if name is None or name in seen or self.extents[name] != extent:
                return False
            seen.add(name)
        return True

    def cheap(self, var: Var) -> bool:
        """Whether a value is computed again at every index it is read at, rather than stored."""
        cost = self.cost(var)
        return cost <= INLINE_LIMIT and cost * self.use_counts[var] <= REPEATED_LIMIT

    def cost(self, var: Var) -> int:
        """What one element costs when everything cheap enough behind it is computed again."""
        found = self.costs.get(var)
        if found is not None:
            return found
        pending = [var]
        while pending:
            current = pending[-1]
            node = self.definitions.get(current)
            if node is not None and not isinstance(node.op.lower, (lowering.Reduction, lowering.Gather)):
                missing = [v for v in node.inputs if v not in self.costs]
                if missing:
                    pending.extend(missing)
                    continue
            pending.pop()
            self.costs[current] = self._cost(node)
        return self.costs[var]

    def _cost(self, node: Node | None) -> int:
        if node is None or node in self.in_python or node in self.in_place:
            return 1
        lower = node.op.lower
        operands = [c if c <= INLINE_LIMIT else 1 for v in node.inputs if (c := self.costs.get(v, 1)) is not None]
        if isinstance(lower, lowering.Elementwise):
            return weight_of(lower.scalar) + sum(operands)
        if isinstance(lower, (lowering.IndexMap, lowering.Reshape)):
            return sum(operands) + len(operands) - 1
        return 0 if isinstance(lower, lowering.Iota) else 1
