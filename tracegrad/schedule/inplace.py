"""Writes in place: which updated value takes over the memory of the value before, and in what order things run then.

An update (`Write`, a small `slice_update`, a loop that carries an array) may overwrite the former value if that has
memory of its own, is no result, and everything else that reads it can run earlier. Otherwise it works on a copy. A
loop owns its carry, so the body may overwrite that input (it is `donated`) for the output that replaces it.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from tracegrad.ir.dims import product
from tracegrad.ir.graph import Graph, Var
from tracegrad.ir.index import variable
from tracegrad.ir.types import Type
from tracegrad.schedule.live import REGIONS
from tracegrad.schedule.loops import region_of_attrs
from tracegrad.schedule.maps import ZERO
from tracegrad.schedule.statements import CallStatement, Program, Ref, Statement

SMALL = 512  # bytes; smaller arrays are registers, or cost nothing to copy
Item: TypeAlias = Statement | CallStatement


def large(type: Type) -> bool:
    """Whether an array is worth to be updated in place."""
    size = product(type.shape) * type.dtype.itemsize
    return not isinstance(size, int) or size > SMALL


def owners(graph: Graph, donated: Collection[int]) -> set[Var]:
    """The values whose memory an update may take over: donated inputs, results of loops and branches."""
    return {graph.inputs[k] for k in donated} | {v for n in graph.nodes if n.name in REGIONS for v in n.outputs}


def arrange(program: Program, donated: Mapping[int, int]) -> None:
    """Decide all updates of the program, give those that cannot be done in place copies to work on, and order its
    statements. `donated`: inputs that may be overwritten, each with the output that then has to lie in its memory."""
    if not any(map(_bases, program.statements)):
        return
    while True:
        attempt = _Arrangement(program, {program.inputs[k] for k in donated})
        attempt.run()
        lost = set()
        for k, out in donated.items():
            var = program.inputs[k]
            if var in attempt.overwritten and attempt.memory(attempt.outputs[out]) is not var:
                lost.add(k)
        if not lost:
            break
        donated = {k: out for k, out in donated.items() if k not in lost}
    program.statements = attempt.ordered()
    program.outputs = tuple(attempt.outputs)
    program.bases = attempt.bases
    program.whole |= attempt.whole
    program.overwritten = set(attempt.overwritten)
    program.earlier = attempt.earlier


def _bases(statement: Item) -> list[tuple[Var, Var]]:
    """(updated value, former value) of each update that a statement is."""
    if isinstance(statement, Statement):
        return [] if statement.base is None else [(statement.var, statement.base)]
    region = region_of_attrs(statement.attrs)
    return [] if region is None else [(statement.outputs[o], statement.inputs[i]) for i, o in region.in_place]


class _Arrangement:
    def __init__(self, program: Program, owned: set[Var]):
        self.program, self.owned = program, owned
        self.outputs = list(program.outputs)
        self.bases: dict[Var, Var] = {}
        self.whole: set[Var] = set()
        self.overwritten: dict[Var, Item] = {}
        self.earlier: dict[Item, list[Item]] = {}
        self.keys: dict[Item, float] = {}
        self.makers: dict[Var, Item] = {}
        self.readers: dict[Var, dict[Item, int]] = {}
        self.later: dict[Item, list[Item]] = {}
        self.backward = False  # whether something has to move before what stands earlier
        self.copies = 0
        for number, statement in enumerate(program.statements):
            self.enter(statement, number)

    def enter(self, statement: Item, key: float) -> None:
        self.keys[statement] = key
        for var in (statement.var,) if isinstance(statement, Statement) else statement.outputs:
            self.makers[var] = statement
        for root in self.roots(statement):
            readers = self.readers.setdefault(root, {})
            readers[statement] = readers.get(statement, 0) + 1
            if root in self.makers:
                self.later.setdefault(self.makers[root], []).append(statement)

    def roots(self, statement: Item) -> list[Var]:
        """The values that a statement reads, an updated one too; for calls, once per operand."""
        if isinstance(statement, CallStatement):
            return [self.program.root(v) for v in statement.inputs]
        found = dict.fromkeys(self.program.root(r.var) for r in statement.refs)
        if statement.base is not None:
            found[self.program.root(statement.base)] = None
        return list(found)

    def memory(self, var: Var) -> Var:
        root = self.program.root(var)
        while root in self.bases:
            root = self.program.root(self.bases[root])
        return root

    def run(self) -> None:
        for position, var in enumerate(self.outputs):
            if var in self.owned and self.updated(var):
                self.outputs[position] = self.copy(var, -1.0).var
        results = {self.program.root(v) for v in self.outputs}
        for statement in self.program.statements:
            for out, base in _bases(statement):
                self.update(statement, out, base, results)

    def updated(self, var: Var) -> bool:
        return any(self.program.root(b) is var for s in self.readers.get(var, ()) for _, b in _bases(s))

    def update(self, statement: Item, out: Var, base: Var, results: set[Var]) -> None:
        root = self.program.root(base)
        own = root in self.makers or root in self.owned
        readers = self.readers[root]
        if own and root not in results and root not in self.overwritten and readers[statement] == 1:
            others = [r for r in readers if r is not statement]
            if not self.reaches(statement, others):
                self.bases[out] = base
                self.whole |= {root, out}
                self.overwritten[root] = statement
                for reader in others:
                    self.before(reader, statement)
                return
        if isinstance(statement, Statement):  # loops and branches copy what they carry themselves
            copy = self.copy(base, self.keys[statement] - 0.5)
            self.bases[out] = copy.var
            self.whole |= {copy.var, out}
            self.later.setdefault(copy, []).append(statement)

    def before(self, first: Item, second: Item) -> None:
        self.earlier.setdefault(second, []).append(first)
        self.later.setdefault(first, []).append(second)
        self.backward = self.backward or self.keys[first] > self.keys[second]

    def reaches(self, start: Item, targets: Sequence[Item]) -> bool:
        """Whether one of the targets has to run after `start`."""
        if not self.backward and all(self.keys[t] < self.keys[start] for t in targets):
            return False
        wanted, seen, pending = set(targets), {start}, [start]
        while pending:
            for each in self.later.get(pending.pop(), ()):
                if each in wanted:
                    return True
                if each not in seen:
                    seen.add(each)
                    pending.append(each)
        return False

    def copy(self, var: Var, key: float) -> Statement:
        """A statement that copies a value, to run before it is overwritten."""
        self.copies += 1
        index = []
        for axis, extent in enumerate(var.type.shape):
            name = f"c{self.copies}.{axis}"
            if extent != 1:
                self.program.extents[name] = extent
            index.append(ZERO if extent == 1 else variable(name))
        order = tuple(name for i in index for name, _ in i.terms)
        fresh = Var(var.type, var.name)
        statement = Statement(fresh, order, tuple(index), Ref(var, tuple(index)), (Ref(var, tuple(index)),))
        self.enter(statement, key)
        root = self.program.root(var)
        if root in self.overwritten:
            self.before(statement, self.overwritten[root])
        return statement

    def ordered(self) -> list[Item]:
        """The statements, each after what it reads and what has to run earlier, else as they stood."""
        former = sorted(self.keys, key=self.keys.__getitem__)
        if not self.backward and not self.copies:
            return former
        missing = dict.fromkeys(former, 0)
        for followers in self.later.values():
            for each in followers:
                missing[each] += 1
        ready = [(self.keys[s], k) for k, s in enumerate(former) if not missing[s]]
        positions = {s: k for k, s in enumerate(former)}
        heapq.heapify(ready)
        found: list[Item] = []
        while ready:
            statement = former[heapq.heappop(ready)[1]]
            found.append(statement)
            for each in self.later.get(statement, ()):
                missing[each] -= 1
                if not missing[each]:
                    heapq.heappush(ready, (self.keys[each], positions[each]))
        assert len(found) == len(former)
        return found
