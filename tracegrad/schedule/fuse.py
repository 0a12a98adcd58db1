"""Placement: each statement goes into the forest of loops as deep as is legal.

A consumer may share a loop with a producer if it reads the producer at exactly the current iteration of that loop and
the producer is not reduced over it. Inside shared loops the same question is asked again; where no loop can be
shared, it gets new ones. Of several producers in different nests, the largest is worth most: its array disappears.
Statements over the same space, or over the same axes of a matrix, also share loops without reading each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Var
from tracegrad.ir.index import Affine, Index
from tracegrad.records import record
from tracegrad.schedule.loops import Value
from tracegrad.schedule.maps import variable_of
from tracegrad.schedule.order import small_loops
from tracegrad.schedule.statements import CallStatement, Program, Statement
from tracegrad.schedule.tree import Body, CallItem, Item, Leaf, LoopNode, Place, union

NEST_LIMIT = 500  # statements per nest; compile time grows faster than linearly in larger ones
CANDIDATES = 24  # loops of other statements looked at per level and extent
REORDER = 16  # another loop order than its own is worth it for a producer at least 1/16 as large
GUESS = 1000  # the size a symbol stands for where sizes are compared


@record
class _Producer:
    """A statement that is read, and at which indices (None: as a whole, other dimensions)."""

    statement: Statement | CallStatement
    place: Place
    reads: tuple[tuple[Index | Value, ...] | None, ...]


@record(frozen=False)
class Forest:
    """The nests of a program, and where each statement went."""

    program: Program
    top: Body = field(default_factory=Body)
    places: dict[Statement | CallStatement, Place] = field(default_factory=dict)
    makers: dict[Var, Statement | CallStatement] = field(default_factory=dict)


def fuse(program: Program) -> Forest:
    """Place every statement of the program."""
    forest = Forest(program)
    for statement in program.statements:
        if isinstance(statement, CallStatement):
            _place_call(forest, statement)
        else:
            _Placement(forest, statement).run()
            forest.makers[statement.var] = statement
    return forest


def _place_call(forest: Forest, call: CallStatement) -> None:
    item = CallItem(call)
    makers = [forest.makers.get(forest.program.root(v)) for v in call.inputs]
    before = [m for m in (*makers, *forest.program.earlier.get(call, ())) if m is not None]
    forest.top.add(item, [forest.places[m].items[0] for m in dict.fromkeys(before)])
    forest.places[call] = Place((), {}, (item,), 0)
    for out in call.outputs:
        forest.makers[out] = call


class _Placement:
    """The placement of one statement."""

    def __init__(self, forest: Forest, statement: Statement):
        self.forest = forest
        self.statement = statement
        self.extents = forest.program.extents
        self.small = small_loops(statement.order, self.extents)
        large = [v for v in statement.order if v not in self.small]
        self.inner = large[-1] if len(large) > 1 else None
        self.axes = _axes_by_variable(statement)
        self.path: list[LoopNode] = []
        self.items: list[Item] = []
        self.binding: dict[str, LoopNode] = {}

    def run(self) -> None:
        body = self.forest.top
        active = self.producers()
        remaining = list(self.statement.order)
        while True:
            depth = len(self.path)
            if not remaining:
                leaf = Leaf(self.statement)
                body.add(leaf, [*_items(active, depth), *(() if depth else self.earlier())])
                self.items.append(leaf)
                break
            choice = self.choose(body, active, remaining)
            if choice is None:
                loop = self.new_loop(remaining[0], depth)
                body.add(loop, [*_items(active, depth), *(() if depth else self.earlier())])
                choice = remaining[0], loop
            else:
                body.require(choice[1], [item for item in _items(active, depth) if item is not choice[1]])
            variable, loop = choice
            remaining.remove(variable)
            self.enter(variable, loop)
            active = [p for p in active if p.place.items[depth] is loop]
            body = loop.body
        self.record()

    def producers(self) -> list[_Producer]:
        reads: dict[Statement | CallStatement, list[tuple[Index | Value, ...] | None]] = {}
        for ref in self.statement.refs:
            root = self.forest.program.root(ref.var)
            maker = self.forest.makers.get(root)
            if maker is not None:
                reads.setdefault(maker, []).append(ref.index if root is ref.var else None)
        return [_Producer(m, self.forest.places[m], tuple(r)) for m, r in reads.items()]

    def earlier(self) -> list[Item]:
        """For an update, the items of the value it takes over and of everything else that reads it."""
        if self.statement.base is None:
            return []
        program = self.forest.program
        maker = self.forest.makers.get(program.root(program.bases[self.statement.var]))
        before = [*program.earlier.get(self.statement, ()), *(() if maker is None else (maker,))]
        return [self.forest.places[s].items[0] for s in dict.fromkeys(before)]

    def new_loop(self, variable: str, depth: int) -> LoopNode:
        loop = LoopNode(self.extents[variable], variable in self.small, Body(), depth)
        loop.closed = self.statement.scatter or self.statement.base is not None
        loop.serial = self.statement.scatter or bool(self.statement.lookups and self.statement.base is not None)
        return loop

    def enter(self, variable: str, loop: LoopNode) -> None:
        self.path.append(loop)
        self.items.append(loop)
        self.binding[variable] = loop

    # ---- which loop to share --------------------------------------------------------------------------------------

    def choose(self, body: Body, active: Sequence[_Producer], remaining: Sequence[str]) -> tuple[str, LoopNode] | None:
        """The variable and the loop of `body` to run it in, or None."""
        if self.statement.scatter or self.statement.base is not None:
            return None
        best: tuple[float, str, LoopNode] | None = None
        depth = len(self.path)
        space = _space(remaining, self.extents)
        items = _items(active, depth)
        needed = union(items)
        for loop in self.candidates(body, items, remaining):
            before = needed if loop not in items else union(i for i in items if i is not loop)
            if loop.closed or loop.size >= NEST_LIMIT or before >> loop.number & 1:
                continue
            inside = [p for p in active if p.place.items[depth] is loop]
            for variable in remaining:
                if self.extents[variable] != loop.extent or not self.legal(variable, loop, inside):
                    continue
                score = self.score(variable, loop, inside, remaining, space)
                if score is not None and (best is None or score > best[0]):
                    best = score, variable, loop
        return None if best is None else best[1:]

    def candidates(self, body: Body, items: Sequence[Item], remaining: Sequence[str]) -> list[LoopNode]:
        """Loops of its producers, and the latest others of the right extents."""
        found = {item: None for item in items if isinstance(item, LoopNode)}
        for extent in dict.fromkeys(self.extents[v] for v in remaining):
            found.update(dict.fromkeys(body.loops.get(extent, ())[-CANDIDATES:]))
        return list(found)

    def legal(self, variable: str, loop: LoopNode, inside: Sequence[_Producer]) -> bool:
        """Whether every producer in the loop is read at the current iteration, and finished there."""
        for producer in inside:
            if not isinstance(producer.statement, Statement):
                return False
            own = next(v for v, bound in producer.place.binding.items() if bound is loop)
            if own in producer.statement.reduced:
                return False
            axis = next(a for a, i in enumerate(producer.statement.target) if variable_of(i) == own)
            if any(read is None or variable_of(read[axis]) != variable for read in producer.reads):
                return False
        return True

    def score(
        self,
        variable: str,
        loop: LoopNode,
        inside: Sequence[_Producer],
        remaining: Sequence[str],
        space: tuple[str, ...],
    ) -> float | None:
        """How much is won by sharing the loop; None if it would cost more than it wins."""
        shared = sum(pair in loop.axes for pair in self.axes.get(variable, ()))
        large = [v for v in remaining if v not in self.small]
        if variable == self.inner and len(large) > 1:
            others = {v for v in large if v != variable}
            if not any(others <= _variables(read) for p in inside for read in p.reads if read is not None):
                return None
        if variable in self.small and large:
            return None
        if inside:
            gain = sum(guessed_size(p.statement.var.type.shape) for p in inside if isinstance(p.statement, Statement))
            if variable != remaining[0] and gain * REORDER < guessed_size([self.extents[v] for v in remaining]):
                return None
            return 1000.0 + gain + shared
        if space in loop.spaces:
            return 1.0 + shared
        matrix = any((v, a) in loop.axes and self.rank(v) > 1 for v, a in self.axes.get(variable, ()))
        return float(shared) if matrix and len(large) > 1 else None

    def rank(self, var: Var) -> int:
        """How many large loops of the statement index `var`."""
        return max(len(_variables(r.index) - self.small) for r in self.statement.refs if r.var is var)

    # ---- what later statements need to know -----------------------------------------------------------------------

    def record(self) -> None:
        statement = self.statement
        complete = next(
            (d for d, loop in enumerate(self.path) if any(self.binding[v] is loop for v in statement.reduced)),
            len(self.path),
        )
        if statement.scatter:
            complete = 0
        self.forest.places[statement] = Place(tuple(self.path), self.binding, tuple(self.items), complete)
        order = [next(v for v, bound in self.binding.items() if bound is loop) for loop in self.path]
        for depth, (variable, loop) in enumerate(zip(order, self.path, strict=True)):
            loop.size += 1
            loop.axes.update(self.axes.get(variable, ()))
            loop.spaces.add(_space(order[depth:], self.extents))


def _items(active: Sequence[_Producer], depth: int) -> list[Item]:
    """The items of the body at that depth in which the producers run."""
    return list(dict.fromkeys(p.place.items[depth] for p in active))


def guessed_size(shape: Sequence[DimLike]) -> float:
    """A number of elements, symbols guessed."""
    total = 1.0
    for d in shape:
        total *= d if isinstance(d, int) else GUESS
    return total


def _axes_by_variable(statement: Statement) -> Mapping[str, list[tuple[Var, int]]]:
    """Per loop variable, the axes of the values that it walks along."""
    found: dict[str, list[tuple[Var, int]]] = {}
    for ref in statement.refs:
        for axis, index in enumerate(ref.index):
            if isinstance(index, Affine) and len(index.terms) == 1 and index.terms[0][1] == 1:
                found.setdefault(index.terms[0][0], []).append((ref.var, axis))
    return found


def _variables(index: Sequence[Index | Value]) -> set[str]:
    return {name for i in index if isinstance(i, Affine) for name, _ in i.terms}


def _space(variables: Sequence[str], extents: Mapping[str, DimLike]) -> tuple[str, ...]:
    return tuple(sorted(str(extents[v]) for v in variables))
