"""A graph as arrays of numbers, in which repetitions are found by NumPy instead of node by node.

A plain Python loop of ten thousand steps leaves a million nodes, so everything that is done for each of them is done by
functions written in C: `map`, `zip`, a dict, and array arithmetic.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from operator import attrgetter, not_

import numpy as np

from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ops.constant import Constant
from tracegrad.records import record

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
    """

    nodes: tuple[Node, ...]
    constants: tuple[Node, ...]
    values: tuple[Var, ...]
    numbers: Mapping[Var, int]
    keys: np.ndarray
    first: np.ndarray
    reads: np.ndarray
    begin: np.ndarray
    last: np.ndarray

    def definition(self, var: Var) -> Node | None:
        """The node that defines a value; None for inputs of the graph and for values it does not have."""
        number = self.numbers.get(var, -1) - int(self.first[0])
        if number >= 0:
            return self.nodes[int(np.searchsorted(self.first, number + self.first[0], "right")) - 1]
        return self.constants[number] if -len(self.constants) <= number and var in self.numbers else None


def listing(graph: Graph) -> Listing:
    """The graph as arrays. Its constants stand before all other nodes."""
    is_constant = [op is Constant for op in map(attrgetter("op"), graph.nodes)]
    constants = tuple(itertools.compress(graph.nodes, is_constant))
    nodes = tuple(itertools.compress(graph.nodes, map(not_, is_constant)))
    count = len(nodes)
    inputs, outputs = list(map(attrgetter("inputs"), nodes)), list(map(attrgetter("outputs"), nodes))
    n_in, n_out = (np.fromiter(map(len, part), np.int64, count) for part in (inputs, outputs))
    fixed = (*graph.inputs, *(v for n in constants for v in n.outputs))
    values = (*fixed, *itertools.chain.from_iterable(outputs))
    number = dict(zip(values, itertools.count(), strict=False))
    reads = np.fromiter(map(number.__getitem__, itertools.chain.from_iterable(inputs)), np.int64, int(n_in.sum()))
    last = np.full(len(values), -1)
    last[reads] = np.repeat(np.arange(count), n_in)  # of several assignments to one element the last one holds
    last[[number[v] for v in graph.outputs]] = count
    first = len(fixed) + np.concatenate(([0], np.cumsum(n_out)))
    begin = np.concatenate(([0], np.cumsum(n_in)))
    table: defaultdict[tuple[int, ...], int] = defaultdict()
    table.default_factory = itertools.count().__next__
    ops, lines = map(attrgetter("op"), nodes), map(attrgetter("location"), nodes)
    described = zip(map(id, ops), map(id, lines), map(len, inputs), map(len, outputs))
    keys = np.fromiter(map(table.__getitem__, described), np.int64, count)
    return Listing(nodes, constants, values, number, keys, first, reads, begin, last)


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
    order = np.argsort(keys, kind="stable")  # of 16 bits: in linear time
    ordered = keys[order]
    scores = np.zeros(longest + 1, np.int64)
    for delay in range(1, LONGEST_DELAY + 1):
        same = ordered[delay:] == ordered[:-delay]
        distances = (order[delay:] - order[:-delay])[same]
        scores += np.bincount(distances[distances <= longest], minlength=longest + 1)
    frequent = np.flatnonzero(scores >= least - 1)
    chosen = {int(p) for p in frequent[np.argsort(-scores[frequent], kind="stable")[:candidates]]}
    covering = -scores[frequent] * frequent
    return chosen | {int(p) for p in frequent[np.argsort(covering, kind="stable")[:candidates]]}


def runs(keys: np.ndarray, free: np.ndarray, period: int, least: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of the longest stretches of free nodes whose keys have the period, `least` times or more."""
    same = (keys[period:] == keys[:-period]) & free[period:] & free[:-period]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(np.int8)))
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if stop - start >= (least - 1) * period:
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
