"""A graph as arrays of numbers, in which repetitions are found by NumPy instead of node by node.

A plain Python loop of ten thousand steps leaves a million nodes, so nothing is done for each of them in Python: a
recording notes numbers of them as it goes; of other graphs `map`, `zip` and a dict make the same numbers.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, not_

import numpy as np

from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ops.constant import Constant
from tracegrad.records import record
from tracegrad.trace.columns import Columns

LONGEST_DELAY = 4  # how often a key may occur in one period of which no key occurs only once
STRETCHES = ((1, 24), (8, 8), (64, 8))  # keys in a row; periods tried of those that are frequent, and that cover much
_MIXER, _HALF, _REST = np.uint64(0x9E3779B97F4A7C15), np.uint64(32), np.uint64(48)  # 2^64 over the golden ratio


@record
class Listing:
    """The nodes of a graph but its constants, and its values, by number: inputs, constants, outputs of the nodes.

    keys:   per node, equal for nodes of one operation, line of the user and number of inputs and outputs.
    first:  per node (and one more) the number of its first output.
    reads:  the numbers of all values read, in order; those of node n begin at `begin[n]`.
    last:   per value the last node that reads it; -1 for none, the number of nodes where the graph returns it.
    attrs:  per node a number; nodes with the same number have the same attributes.
    """

    nodes: Sequence[Node]
    constants: tuple[Node, ...]
    fixed: tuple[Var, ...]
    numbers: Callable[[Var], int]
    keys: np.ndarray
    first: np.ndarray
    reads: np.ndarray
    begin: np.ndarray
    last: np.ndarray
    attrs: np.ndarray

    def value(self, number: int) -> Var:
        """The value with this number."""
        return self.values(np.array([number]))[0]

    def values(self, numbers: np.ndarray) -> tuple[Var, ...]:
        """The values with these numbers."""
        makers = np.searchsorted(self.first, numbers, "right") - 1
        places = numbers - self.first[makers]
        found = zip(numbers.tolist(), makers.tolist(), places.tolist(), strict=True)
        return tuple([self.nodes[m].outputs[p] if m >= 0 else self.fixed[n] for n, m, p in found])

    def definition(self, var: Var) -> Node | None:
        """The node that defines a value; None for inputs of the graph and for values it does not have."""
        number = self.numbers(var)
        if number < 0:
            return None
        if number >= self.first[0]:
            return self.nodes[int(np.searchsorted(self.first, number, "right")) - 1]
        position = number - int(self.first[0])
        return self.constants[position] if -len(self.constants) <= position else None


def listing(graph: Graph, columns: Columns | None = None) -> Listing:
    """The graph as arrays. Its constants stand before all other nodes. `columns` are what its recording noted."""
    noted = None if columns is None else _noted(graph, columns)
    return _looked_up(graph) if noted is None else noted


def _looked_up(graph: Graph) -> Listing:
    is_constant = [op is Constant for op in map(attrgetter("op"), graph.nodes)]
    constants = tuple(itertools.compress(graph.nodes, is_constant))
    nodes = tuple(itertools.compress(graph.nodes, map(not_, is_constant)))
    count = len(nodes)
    inputs, outputs = list(map(attrgetter("inputs"), nodes)), list(map(attrgetter("outputs"), nodes))
    n_in, n_out = (np.fromiter(map(len, part), np.int64, count) for part in (inputs, outputs))
    fixed = (*graph.inputs, *(v for n in constants for v in n.outputs))
    number = dict(zip((*fixed, *itertools.chain.from_iterable(outputs)), itertools.count(), strict=False))
    reads = np.fromiter(map(number.__getitem__, itertools.chain.from_iterable(inputs)), np.int64, int(n_in.sum()))
    table: defaultdict[tuple[int, ...], int] = defaultdict()
    table.default_factory = itertools.count().__next__
    ops, lines = map(attrgetter("op"), nodes), map(attrgetter("location"), nodes)
    described = zip(map(id, ops), map(id, lines), map(len, inputs), map(len, outputs))
    keys = np.fromiter(map(table.__getitem__, described), np.int64, count)
    attrs = np.fromiter(map(id, map(attrgetter("attrs"), nodes)), np.int64, count)
    returned = [number[v] for v in graph.outputs]

    def numbers(var: Var) -> int:
        return number.get(var, -1)

    return _listing(nodes, constants, fixed, numbers, keys, n_in, n_out, reads, returned, attrs)


def _noted(graph: Graph, columns: Columns) -> Listing | None:
    """The same from the numbers that the recording noted; None where they are not those of the graph."""
    own = len(graph.nodes) - len(columns.kinds)  # captured arrays that became constants stand first
    if own < 0 or not columns.kinds:
        return None
    kinds = np.frombuffer(columns.kinds, np.int64).astype(np.int32)
    kept = np.array([op is not Constant for op, *_ in columns.kind_of])[kinds]
    places = np.flatnonzero(~kept) + own
    constants = (*graph.nodes[:own], *(graph.nodes[k] for k in places.tolist()))
    nodes: list[Node] = []
    for start, stop in zip([own, *(places + 1).tolist()], [*places.tolist(), len(graph.nodes)], strict=True):
        nodes += graph.nodes[start:stop]
    fixed = (*graph.inputs, *(v for n in constants for v in n.outputs))
    made = np.ones(columns.count, bool)
    made[columns.others] = False
    made[[n.outputs[0].number for n in constants]] = False
    further = np.flatnonzero(made)
    outside = [v.number for v in (*fixed, *graph.outputs)]
    if min(outside, default=0) < 0 or max(outside, default=0) >= columns.count:
        return None
    number = np.full(columns.count, -1, np.int32)
    number[[v.number for v in fixed]] = np.arange(len(fixed))
    number[further] = np.arange(len(fixed), len(fixed) + len(further), dtype=np.int32)
    reads = number[np.frombuffer(columns.reads, np.int64)]  # constants read nothing
    returned = [int(number[v.number]) for v in graph.outputs]
    kinds = kinds[kept]
    n_in, n_out, has_attrs = (np.array([kind[k] for kind in columns.kind_of], np.int32)[kinds] for k in (2, 3, 4))
    if len(further) != n_out.sum() or len(reads) != n_in.sum() or min([*returned, reads.min(initial=0)]) < 0:
        return None
    attrs = np.zeros(len(kinds), np.int64)
    attrs[has_attrs == 1] = np.frombuffer(columns.attrs, np.int64)

    def numbers(var: Var) -> int:
        found = int(number[var.number]) if 0 <= var.number < len(number) else -1
        return found if found >= 0 and listed.value(found) is var else -1

    listed = _listing(nodes, constants, fixed, numbers, kinds, n_in, n_out, reads, returned, attrs)
    return listed


def _listing(
    nodes: Sequence[Node], constants: tuple[Node, ...], fixed: tuple[Var, ...], numbers: Callable[[Var], int],
    keys: np.ndarray, n_in: np.ndarray, n_out: np.ndarray, reads: np.ndarray, returned: list[int], attrs: np.ndarray,
) -> Listing:  # fmt: skip
    count = len(nodes)
    last = np.full(len(fixed) + int(n_out.sum()), -1, np.int32)
    # Of several assignments to one element the last one holds.
    last[reads] = np.repeat(np.arange(count, dtype=np.int32), n_in)
    last[returned] = count
    first = len(fixed) + np.concatenate(([0], np.cumsum(n_out)))
    begin = np.concatenate(([0], np.cumsum(n_in)))
    if len(keys) and keys.max() < 1 << 16:
        keys = keys.astype(np.uint16)  # compared at many distances
    return Listing(nodes, constants, fixed, numbers, keys, first, reads, begin, last, attrs)


# ---- repetitions --------------------------------------------------------------------------------------------------


def periods(keys: np.ndarray, least: int) -> list[int]:
    """The distances at which keys come again, `least` times or more: those that a loop may have as its period.

    In a long iteration the same few keys come again and again, so also stretches of keys are looked at.
    """
    longest = len(keys) // least
    found: set[int] = set()
    for size, candidates in STRETCHES:
        stretches = _stretches(keys, size)
        if len(stretches):
            found |= _frequent(stretches, longest, least, candidates)
    return sorted(found)


def _stretches(keys: np.ndarray, size: int) -> np.ndarray:
    """Per position a number, equal where the `size` keys (a power of two) from there on are equal; by chance elsewhere
    too, which costs a period that is tried in vain."""
    width, mixed = 1, keys.astype(np.uint64) * _MIXER
    while width < size:
        mixed, width = (mixed[:-width] ^ (mixed[:-width] >> _HALF)) * _MIXER + mixed[width:], 2 * width
    return (mixed >> _REST).astype(np.uint16)


def _frequent(keys: np.ndarray, longest: int, least: int, candidates: int) -> set[int]:
    order = np.argsort(keys, kind="stable").astype(np.int32)  # of 16 bits: in linear time
    ordered = keys[order]
    scores = np.zeros(longest + 1, np.int64)
    for delay in range(1, LONGEST_DELAY + 1):
        distances = order[delay:] - order[:-delay]
        near = (ordered[delay:] == ordered[:-delay]) & (distances <= longest)
        scores += np.bincount(distances[near], minlength=longest + 1)
    frequent = np.flatnonzero(scores >= least - 1)
    chosen = {int(p) for p in frequent[np.argsort(-scores[frequent], kind="stable")[:candidates]]}
    covering = -scores[frequent] * frequent
    return chosen | {int(p) for p in frequent[np.argsort(covering, kind="stable")[:candidates]]}


def runs(keys: np.ndarray, free: np.ndarray, period: int, least: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of the longest stretches of free nodes whose keys have the period, `least` times or more."""
    shortest = (least - 1) * period
    same = keys[period:] == keys[:-period]
    block = max(shortest // 2, 1)  # each such stretch has a whole one
    whole = same[: len(same) // block * block].reshape(-1, block)
    if not whole[:, 0].any() or not whole[whole[:, 0]].all(axis=1).any():
        return
    same &= free[period:] & free[:-period]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(np.int8)))
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if stop - start >= shortest:
            yield start, stop + period


def best_start(listed: Listing, start: int, stop: int, period: int) -> int:
    """Where in the first period an iteration is cut off from the next so that the fewest values cross the cut."""
    middle = start + (stop - start) // (2 * period) * period
    end = min(middle + 3 * period, stop)
    values = listed.first[middle], listed.first[middle + period]
    reads = listed.reads[listed.begin[middle] : listed.begin[end]]
    readers = np.repeat(np.arange(middle, end), np.diff(listed.begin[middle : end + 1]))
    own = (reads >= values[0]) & (reads < values[1])
    latest = np.full(int(values[1] - values[0]), -1)
    latest[reads[own] - values[0]] = readers[own] - middle
    defined = np.repeat(np.arange(period), np.diff(listed.first[middle : middle + period + 1]))
    used = latest >= 0
    crossing = np.zeros(4 * period + 1, np.int64)
    np.add.at(crossing, defined[used] + 1, 1)
    np.add.at(crossing, latest[used] + 1, -1)
    alive = np.cumsum(crossing)[: 4 * period].reshape(4, period).sum(axis=0)
    return start + int(np.argmin(alive))
