"""Array contraction: where each value lives, and which values are computed again instead of stored.

A value whose every use is inside its own loops is a register. One that is used elsewhere is stored, without the
dimensions whose loops all uses share, or computed again there if that costs less. Decided from the last statement to
the first, so that all uses of a value are known, those by recomputed consumers too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from tracegrad.ir.dims import DimLike, product
from tracegrad.records import record
from tracegrad.schedule.fuse import NEST_LIMIT, Forest
from tracegrad.schedule.maps import variable_of
from tracegrad.schedule.statements import CallStatement, Ref, Statement
from tracegrad.schedule.tree import LoopNode, Place
from tracegrad.schedule.weights import LOAD, STORE, STREAM

ROW_BYTES = 64  # for each element of a row whose length is a symbol, at most
LOCAL_BYTES = 16384  # a row buffer larger than this becomes an array in the workspace
STREAMED = 3  # reading an array that has left the cache
CHAIN_LIMIT = 40  # recomputed values that depend on each other
UNKNOWN = 100  # iterations of a loop whose extent is a symbol


@record
class Site:
    """Loops in which a value is computed or read: outermost first, and which variable each one is."""

    path: tuple[LoopNode, ...]
    binding: Mapping[str, LoopNode]


@record
class Use:
    """A read inside `path`; per axis of the value the loop that walks it, None where it is not read along one loop.
    `aligned`: each axis has its own loop of the same extent. `whole`: the buffer itself is needed, in full."""

    path: tuple[LoopNode, ...]
    loops: tuple[LoopNode | None, ...]
    aligned: bool
    whole: bool = False

    def apart(self, place: Place) -> bool:
        """Whether the use is in another nest than the statement placed there."""
        return not place.path or not self.path or self.path[0] is not place.path[0]


@record
class Storage:
    """A buffer with these axes of the value, used within the first `depth` loops of its statement."""

    axes: tuple[int, ...]
    depth: int
    role: str  # "local", "temp" or "output"


@record(frozen=False)
class Contraction:
    """`storage` has the values that are stored, `live` the statements that run in their own place."""

    storage: dict[Statement, Storage] = field(default_factory=dict)
    live: set[Statement | CallStatement] = field(default_factory=set)


def contract(forest: Forest) -> Contraction:
    """Decide registers, buffers and recomputation for every statement."""
    return _Decision(forest).run()


class _Decision:
    def __init__(self, forest: Forest):
        self.forest = forest
        self.program = forest.program
        self.extents = forest.program.extents
        self.outputs = {forest.program.root(v) for v in forest.program.outputs}
        self.uses: dict[Statement | CallStatement, dict[Use, None]] = {}
        self.chains: dict[Statement | CallStatement, int] = {}
        self.sizes: dict[LoopNode, int] = {}
        self.result = Contraction()

    def run(self) -> Contraction:
        for statement in reversed(self.program.statements):
            if isinstance(statement, CallStatement):
                self.result.live.add(statement)
                for var in statement.inputs:
                    maker = self.forest.makers.get(self.program.root(var))
                    if maker is not None:
                        self.uses.setdefault(maker, {})[Use((), (None,) * var.type.ndim, False, True)] = None
            else:
                self.decide(statement)
        return self.result

    def decide(self, statement: Statement) -> None:
        place = self.forest.places[statement]
        uses = list(self.uses.get(statement, ()))
        output = statement.var in self.outputs
        if not uses and not output:
            return
        inside = [u for u in uses if visible(statement, place, u)]
        foreign = [u for u in uses if u not in inside]
        sites: list[Site] = []
        if foreign and self.recomputable(statement, foreign):
            again = distinct(site_of(statement, u) for u in foreign)
            cost = self.again_cost(statement, again, bool(inside) or output)
            apart = any(u.apart(place) for u in foreign)  # then a tie would only move the array, so store
            if cost < self.store_cost(place, foreign, output) + (0 if apart else 0.5):
                sites, foreign = again, []
                self.grow(statement, again)
        if inside or foreign or output:
            sites.append(Site(place.path, place.binding))
            self.result.live.add(statement)
        if foreign or output:
            self.result.storage[statement] = self.store(statement, place, foreign, output)
        for site in sites:
            for ref in statement.refs:
                self.read(ref, site)
        if statement.base is not None:
            maker = self.forest.makers.get(self.program.root(self.program.bases[statement.var]))
            if maker is not None:
                self.uses.setdefault(maker, {})[Use((), (), False, True)] = None

    def grow(self, statement: Statement, sites: list[Site]) -> None:
        """Note what computing a statement again means: longer chains, larger nests."""
        chain = self.chains.get(statement, 0) + 1
        for ref in statement.refs:
            maker = self.forest.makers.get(self.program.root(ref.var))
            if maker is not None:
                self.chains[maker] = max(chain, self.chains.get(maker, 0))
        for site in sites:
            if site.path:
                self.sizes[site.path[0]] = self.sizes.get(site.path[0], site.path[0].size) + 1

    def read(self, ref: Ref, site: Site) -> None:
        root = self.program.root(ref.var)
        maker = self.forest.makers.get(root)
        if maker is None:
            return
        if root is not ref.var:
            use = Use((), (None,) * root.type.ndim, False, True)
        else:
            use = use_of(ref, site, self.extents)
        self.uses.setdefault(maker, {})[use] = None

    # ---- storing --------------------------------------------------------------------------------------------------

    def store(self, statement: Statement, place: Place, foreign: list[Use], output: bool) -> Storage:
        rank = statement.var.type.ndim
        if output:
            return Storage(tuple(range(rank)), 0, "output")
        depth = place.complete
        if statement.var in self.program.whole:
            depth = 0
        for use in foreign:
            depth = min(depth, shared_depth(statement, place, use))
        while depth:
            axes = tuple(a for a in range(rank) if self.loop_of(statement, place, a) not in place.path[:depth])
            if self.fits(statement, axes):
                return Storage(axes, depth, "local")
            depth = 0
        return Storage(tuple(range(rank)), 0, "temp")

    def loop_of(self, statement: Statement, place: Place, axis: int) -> LoopNode | None:
        name = variable_of(statement.target[axis])
        return None if name is None else place.binding[name]

    def fits(self, statement: Statement, axes: tuple[int, ...]) -> bool:
        """Whether the elements along these axes are few, or a row whose length is a symbol."""
        shape, itemsize = statement.var.type.shape, statement.var.type.dtype.itemsize
        known = [shape[a] for a in axes if isinstance(shape[a], int)]
        rows = len(axes) - len(known)
        return rows < 2 and product(known) * itemsize <= (LOCAL_BYTES if not rows else ROW_BYTES)  # type: ignore[operator]

    # ---- recomputing ----------------------------------------------------------------------------------------------

    def recomputable(self, statement: Statement, foreign: list[Use]) -> bool:
        return (
            not statement.combine
            and not statement.lookups
            and statement.var not in self.program.whole
            and not any(self.program.root(r.var) in self.program.overwritten for r in statement.refs)
            and all(u.aligned for u in foreign)
            and self.chains.get(statement, 0) < CHAIN_LIMIT
            and all(not u.path or self.sizes.get(u.path[0], 0) < 2 * NEST_LIMIT for u in foreign)
        )

    def store_cost(self, place: Place, foreign: list[Use], output: bool) -> float:
        apart = any(u.apart(place) for u in foreign)
        written = 0 if output else STREAM if apart else STORE
        return written + sum(STREAMED if apart else LOAD for _ in foreign)

    def again_cost(self, statement: Statement, sites: list[Site], stays: bool) -> float:
        total = 0.0
        for number, site in enumerate(sites):
            cost = self.loads_cost(statement, site, 3)
            if stays or number:
                cost += statement.weight
            total += cost * _repetitions(site)
        return total

    def loads_cost(self, statement: Statement, site: Site, depth: int) -> float:
        """What the operands cost where a statement is computed again."""
        total = 0.0
        for ref in statement.refs:
            maker = self.forest.makers.get(self.program.root(ref.var))
            if not isinstance(maker, Statement) or maker.var is not ref.var:
                total += LOAD
                continue
            use = use_of(ref, site, self.extents)
            place = self.forest.places[maker]
            if use in self.uses.get(maker, ()) or visible(maker, place, use):
                continue
            stored: float = STREAMED if use.apart(place) else LOAD
            if not maker.combine and maker.var not in self.outputs:
                stored += STREAM if use.apart(place) else STORE
            if depth and not maker.combine and not maker.lookups and use.aligned:
                stored = min(stored, self.loads_cost(maker, site_of(maker, use), depth - 1) + maker.weight)
            total += stored
        return total


def use_of(ref: Ref, site: Site, extents: Mapping[str, DimLike]) -> Use:
    """How a read looks from the loops it happens in."""
    loops: list[LoopNode | None] = []
    aligned = True
    for index, extent in zip(ref.index, ref.var.type.shape, strict=True):
        name = variable_of(index)
        loop = site.binding.get(name) if name is not None else None
        if loop is not None and (loop in loops or extents[name or ""] != extent):
            loop = None
        if loop is None and extent != 1:
            aligned = False
        loops.append(loop)
    return Use(site.path, tuple(loops), aligned)


def visible(statement: Statement, place: Place, use: Use) -> bool:
    """Whether the use can read the statement's register: the same iteration of all its loops.

    What is scattered has none, even along an axis of extent 1.
    """
    path = place.path[: place.complete]
    if use.whole or statement.scatter or statement.base is not None or use.path[: len(path)] != path:
        return False
    for target, loop, extent in zip(statement.target, use.loops, statement.var.type.shape, strict=True):
        name = variable_of(target)
        if extent != 1 and (name is None or place.binding[name] is not loop or loop not in path):
            return False
    return True


def shared_depth(statement: Statement, place: Place, use: Use) -> int:
    """How many of the statement's loops the use shares, at the current iteration of each."""
    axis_of = {place.binding[n]: a for a, t in enumerate(statement.target) if (n := variable_of(t)) is not None}
    for depth, loop in enumerate(place.path[: place.complete]):
        if depth >= len(use.path) or use.path[depth] is not loop or use.loops[axis_of[loop]] is not loop:
            return depth
    return place.complete


def site_of(statement: Statement, use: Use) -> Site:
    """The loops in which a recomputed value runs for a use: down to the innermost that one of its axes needs."""
    binding = {
        name: loop
        for target, loop in zip(statement.target, use.loops, strict=True)
        if (name := variable_of(target)) is not None and loop is not None
    }
    deepest = max((use.path.index(loop) for loop in binding.values()), default=-1)
    return Site(use.path[: deepest + 1], binding)


def distinct(sites: Iterable[Site]) -> list[Site]:
    """The sites without repetitions."""
    return list({(s.path, tuple(s.binding.items())): s for s in sites}.values())


def _repetitions(site: Site) -> float:
    """How often each element is computed: the iterations of loops that are not its own."""
    own = set(site.binding.values())
    total = 1.0
    for loop in site.path:
        if loop not in own:
            total *= loop.extent if isinstance(loop.extent, int) else UNKNOWN
    return total
