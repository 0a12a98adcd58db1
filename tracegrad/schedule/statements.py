"""Statements: what a graph's nodes mean as loops, before it is decided where they run.

A statement is `var[target] (combine)= expr` over its own loop variables. In `expr` the elements of other statements,
inputs and constants stand as `Ref`s; views have been composed into their index maps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Node, Var
from tracegrad.ir.index import Index
from tracegrad.records import record
from tracegrad.schedule.loops import Cast, Expr, FromIndex, Literal, Value

SMALL = 8  # constant extents up to this are unrolled


@record
class Ref:
    """The element `index` of a graph value that is not written out here. `Value("@k")` is the statement's lookup k."""

    var: Var
    index: tuple[Index | Value, ...]

    @property
    def dtype(self) -> np.dtype:
        return self.var.type.dtype


Scalar: TypeAlias = Expr | Ref


@record
class Lookup:
    """A gathered index: an integer expression over `variables` that must lie in [-extent, extent). It counts positions
    from `start` on, `step` apart."""

    index: Any
    extent: DimLike
    axis: int
    variables: tuple[str, ...]
    start: DimLike = 0
    step: DimLike = 1


@record(frozen=False)
class Statement:
    """`var[target] = expr`, or `combine=` over the variables in `reduced`; `order` has all its loops, outermost first.

    With lookups in the target it is a scatter: every loop in `reduced` may hit every element of those axes. With a
    `base` it is an update: the value is that of `base` apart from the elements it writes.
    """

    var: Var
    order: tuple[str, ...]
    target: tuple[Index | Value, ...]
    expr: Any
    refs: tuple[Ref, ...]
    nodes: tuple[Node, ...] = ()
    combine: str = ""
    reduced: frozenset[str] = frozenset()
    lookups: tuple[Lookup, ...] = ()
    weight: int = 1
    base: Var | None = None

    @property
    def scatter(self) -> bool:
        return self.base is None and any(isinstance(i, Value) for i in self.target)


@record(frozen=False)
class CallStatement:
    """A library kernel that reads whole buffers and defines whole buffers."""

    kernel: str
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]
    node: Node
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (self.node,)


@record(frozen=False)
class Program:
    """Statements in an order in which they could run, with what their names mean.

    `extents` has the extent of every loop variable; `aliases` maps a reshaped value to the one whose memory it is;
    `whole` are the values that need a buffer of their own in full. `bases` maps an updated value to the one whose
    memory it takes over, `overwritten` are the values whose memory is, and `earlier` says what has to run before that.
    """

    statements: list[Statement | CallStatement] = field(default_factory=list)
    extents: dict[str, DimLike] = field(default_factory=dict)
    aliases: dict[Var, Var] = field(default_factory=dict)
    constants: dict[Var, np.ndarray] = field(default_factory=dict)
    whole: set[Var] = field(default_factory=set)
    bases: dict[Var, Var] = field(default_factory=dict)
    overwritten: set[Var] = field(default_factory=set)
    earlier: dict[Statement | CallStatement, list[Statement | CallStatement]] = field(default_factory=dict)
    inputs: tuple[Var, ...] = ()
    outputs: tuple[Var, ...] = ()

    def root(self, var: Var) -> Var:
        """The value that `var` is, up to its dimensions."""
        return self.aliases.get(var, var)

    def memory(self, var: Var) -> Var:
        """The value whose memory `var` lies in."""
        root = self.root(var)
        while root in self.bases:
            root = self.root(self.bases[root])
        return root


def cast(expr: Any, dtype: np.dtype) -> Any:
    """`expr` as that dtype."""
    if expr.dtype == dtype:
        return expr
    if isinstance(expr, Literal):
        with np.errstate(all="ignore"):
            return Literal(np.asarray(expr.value, expr.dtype).astype(dtype).item(), dtype)
    if isinstance(expr, FromIndex) and dtype.kind in "iuf":
        return FromIndex(expr.index, dtype)
    return Cast(expr, dtype)
