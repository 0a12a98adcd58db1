"""vmap: a function of one example as a function of many."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad import tree
from tracegrad.errors import ArgumentError, ShapeError, UnsupportedError
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.sizes import active
from tracegrad.ir.types import Type
from tracegrad.ops.joining import stack
from tracegrad.ops.shape import BroadcastTo, Transpose
from tracegrad.passes.batching import batch
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace
from tracegrad.transforms.record import Output, Recording, call_user, definition_of, record
from tracegrad.transforms.signature import Call, is_data, read_call
from tracegrad.transforms.transformed import TransformedFunction


def vmap(fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Any:
    """A function that applies `fun` to every row of its arguments and stacks the results.

    in_axes: the axis of each argument that counts the rows, None for an argument that is the same for all: an int, or a
        tuple with one entry per positional argument, each of which may be a pytree prefix of it.
    out_axes: where the rows stand in the results: an int, or a pytree prefix of them.

    Operations take all rows at once where they can, and run row by row where not. `fun` is recorded for one row, so a
    Python decision on a row's value is an error; functions of Tensors with a gradient, `tg.grad` and `tg.jit` may stand
    inside and outside. A user's Function needs a `vmap` staticmethod, or `generate_vmap_rule = True`.
    Keyword arguments are mapped over axis 0. Raises ShapeError where the numbers of rows differ.
    """
    if not callable(fun):
        raise ArgumentError(f"vmap needs a function, not a {type(fun).__name__}")
    return BatchedFunction(fun, in_axes, out_axes)


def prefix_leaves(prefix: Any, whole: Any, what: str) -> list[int | None]:
    """One axis per leaf of `whole`: an int or None in `prefix` stands for all leaves under it. Raises ArgumentError."""
    if prefix is None or isinstance(prefix, int):
        return [prefix] * len(tree.flatten(whole)[0])
    if isinstance(prefix, (tuple, list)) and isinstance(whole, (tuple, list)) and len(prefix) == len(whole):
        pairs: Any = zip(prefix, whole, strict=True)
    elif isinstance(prefix, dict) and isinstance(whole, dict) and set(prefix) == set(whole):
        pairs = ((prefix[k], whole[k]) for k in _keys_in_order(whole))
    else:
        raise ArgumentError(
            f"{what}={prefix!r} does not fit: a {type(whole).__name__} stands there",
            fix="give an int, None, or a container of the same keys or length",
        )
    return [axis for p, w in pairs for axis in prefix_leaves(p, w, what)]


def _keys_in_order(whole: dict[Any, Any]) -> list[Any]:
    """The keys of a dict in the order of its leaves."""
    marked, _ = tree.flatten({k: _Key(k) for k in whole})
    return [leaf.key for leaf in marked]


class _Key:
    def __init__(self, key: Any):
        self.key = key


def axes_of(in_axes: Any, args: tuple[Any, ...], kwargs: dict[str, Any], call: Call) -> dict[int, int]:
    """Per mapped leaf its axis of rows, non-negative. Raises ArgumentError or ShapeError."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise ArgumentError(
            f"in_axes has {len(in_axes)} entries, the call {len(args)} positional arguments",
            fix="give one entry per positional argument",
        )
    found = prefix_leaves(in_axes, args, "in_axes")
    found += [0] * len(tree.flatten(kwargs)[0])
    axes: dict[int, int] = {}
    for position, axis in enumerate(found):
        if axis is None:
            continue
        leaf = call.leaves[position]
        ndim = leaf.ndim if position in call.dynamic and hasattr(leaf, "ndim") else 0
        if not -ndim <= axis < ndim:
            what = f"an array of {ndim} dimensions" if hasattr(leaf, "ndim") else f"a {type(leaf).__name__}"
            raise ArgumentError(
                f"in_axes maps axis {axis} of {what}, which does not have it",
                fix="pass None in in_axes for arguments that are the same for all rows"
                + ("" if is_data(leaf) else ", such as the self of a method: in_axes=(None, 0)"),
            )
        axes[position] = axis % ndim
    return axes


def rows_in(axes: dict[int, int], types: Mapping[int, Type]) -> Any:
    """The one number of rows. Raises ArgumentError (nothing is mapped) or ShapeError (they differ)."""
    sizes = {types[position].shape[axis] for position, axis in axes.items()}
    if not sizes:
        raise ArgumentError("vmap maps no argument: every entry of in_axes is None", fix="map at least one argument")
    if len(sizes) > 1:
        raise ShapeError(f"vmap got arguments with different numbers of rows: {sorted(sizes, key=str)}")
    return sizes.pop()  # type: ignore[no-any-return]


class RowsOutput:
    """Puts the results together; what Python fixed while the function was recorded is repeated for each row."""

    def __init__(self, size: int, axes: Sequence[int | None]):
        self.size, self.axes = size, axes

    def build(self, output: Output, values: Sequence[Any]) -> Any:
        fixed = [None if f is None else self._rows(f, a) for f, a in zip(output.fixed, self.axes, strict=True)]
        return Output(output.spec, output.leaves, tuple(fixed)).build(values)

    def _rows(self, value: Any, axis: int | None) -> Any:
        if axis is None or not isinstance(value, (bool, int, float, complex, np.ndarray, np.generic)):
            return value
        array = np.asarray(value)
        return np.stack([array] * self.size, axis)


class BatchedFunction(TransformedFunction):
    """A function over rows."""

    def __init__(self, function: Callable[..., Any], in_axes: Any, out_axes: Any):
        super().__init__(function)
        self.in_axes, self.out_axes = in_axes, out_axes

    kind = "vmap"

    def _transform(
        self, call: Call, args: tuple[Any, ...], parent: Trace | None
    ) -> tuple[Recording, Graph, RowsOutput]:
        tree_args, tree_kwargs = tree.unflatten(call.spec, call.leaves)
        axes = axes_of(self.in_axes, tuple(tree_args), tree_kwargs, call)
        types = call.types()
        size = rows_in(axes, types)
        rows = {i: Type(types[i].dtype, _without(types[i].shape, a)) for i, a in axes.items()}
        recording = record(self.function, call.leaves, call.spec, types | rows, parent=parent, symbolic=tuple(axes))
        if recording.effects.effects:
            raise UnsupportedError(
                "a function under vmap modifies an array in place that it was given or that it captured",
                fix="return the new value instead; random numbers come from a key per row: tg.random.split(key, rows)",
                location=definition_of(self.function),
            )
        flags = [i in axes for i in call.dynamic] + [False] * len(recording.captured)
        batched, has_rows = batch(recording.graph, size, flags)
        whole = tree.unflatten(recording.output.spec, [object() for _ in recording.output.leaves])
        out_axes = prefix_leaves(self.out_axes, whole, "out_axes")
        positions = {p: a for p, a in zip(recording.output.leaves, out_axes, strict=True) if p is not None}
        moves = [axes.get(i, 0) for i in call.dynamic] + [0] * len(recording.captured)
        graph = _with_axes(batched, flags, moves, has_rows, positions, size)
        if any(f is not None for f in recording.output.fixed) and active.sizes is not None:
            size = operator.index(active.sizes.size(size))
        return recording, graph, RowsOutput(size, out_axes)

    def _eager(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return eager_vmap(self.function, self.in_axes, self.out_axes, args, kwargs)


def _without(shape: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _with_axes(
    graph: Graph,
    flags: Sequence[bool],
    moves: Sequence[int],
    has_rows: Sequence[bool],
    out_axes: dict[int, int | None],
    size: int,
) -> Graph:
    """The batched graph with rows at the axes the user has them, in inputs and outputs; guarded values have none."""
    inputs, before, after = list(graph.inputs), [], []
    for i, (var, flag, axis) in enumerate(zip(graph.inputs, flags, moves, strict=True)):
        if flag and axis:
            order = (axis, *(a for a in range(var.type.ndim) if a != axis))
            outer = Var(Type(var.type.dtype, _moved(var.type.shape, axis)), var.name)
            before.append(Node(Transpose, (outer,), (var,), {"axes": order}))
            inputs[i] = outer
    outputs = []
    for i, (var, flag) in enumerate(zip(graph.outputs, has_rows, strict=True)):
        if i in out_axes:
            var = _placed(after, var, flag, out_axes[i], size)
        elif flag:
            raise ArgumentError("a Python decision was taken on a value that differs from row to row", fix="np.where")
        outputs.append(var)
    return Graph(tuple(inputs), (*before, *graph.nodes, *after), tuple(outputs), graph.name)


def _moved(shape: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    """The shape whose axis `axis` is the first of `shape`."""
    first, *rest = shape
    return (*rest[:axis], first, *rest[axis:])


def _placed(nodes: list[Node], var: Var, flag: bool, axis: int | None, size: int) -> Var:
    if axis is None:
        if flag:
            raise ArgumentError(
                "out_axes is None for a result that differs from row to row", fix="give the axis where rows stand"
            )
        return var
    if not flag:
        repeated = Var(Type(var.type.dtype, (size, *var.type.shape)))
        nodes.append(Node(BroadcastTo, (var,), (repeated,), {"shape": repeated.type.shape}))
        var = repeated
    ndim = var.type.ndim
    if not -ndim <= axis < ndim:
        raise ArgumentError(f"out_axes is {axis} for a result of {ndim} dimensions", fix="count the axis of rows too")
    axis %= ndim
    if not axis:
        return var
    moved = Var(Type(var.type.dtype, _moved(var.type.shape, axis)))
    order = (*range(1, axis + 1), 0, *range(axis + 1, ndim))
    nodes.append(Node(Transpose, (var,), (moved,), {"axes": order}))
    return moved


def eager_vmap(function: Callable[..., Any], in_axes: Any, out_axes: Any, args: Any, kwargs: Any) -> Any:
    """The same by a loop over the rows."""
    from tracegrad.transforms.eager import as_eager, plain_code, plain_unless_linked

    call = read_call(args, kwargs)
    axes = axes_of(in_axes, args, kwargs, call)
    size = rows_in(axes, call.types())
    leaves = list(map(as_eager, call.leaves))
    rows = []
    for i in range(size):
        row = [x[(slice(None),) * axes[p] + (i,)] if p in axes else x for p, x in enumerate(leaves)]
        row_args, row_kwargs = tree.unflatten(call.spec, row)
        with setting(in_vmap=True, **plain_code(call.tensors)):
            rows.append(call_user(function, row_args, row_kwargs))
    flat, specs = zip(*map(tree.flatten, rows), strict=True) if rows else ((), ())
    if not rows:
        raise ShapeError("vmap over no rows at all", fix="test the number of rows first")
    if any(spec != specs[0] for spec in specs):
        raise ArgumentError("the function gives results of different structure for different rows")
    whole = prefix_leaves(out_axes, rows[0], "out_axes")
    stacked = [_stacked(column, axis) for column, axis in zip(zip(*flat, strict=True), whole, strict=True)]
    tensors = call.tensors or state.dual is not None
    return tree.unflatten(specs[0], stacked if tensors else list(map(plain_unless_linked, stacked)))


def _stacked(column: Sequence[Any], axis: int | None) -> Any:
    if axis is None or not isinstance(column[0], (bool, int, float, complex, np.ndarray, np.generic, Tensor)):
        return column[0]
    return stack(column, axis) if any(isinstance(x, Tensor) for x in column) else np.stack(column, axis)
