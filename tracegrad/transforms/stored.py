"""Programs in the disk cache: the key of a graph, and what of a program needs the graph again when it is read.

The key is the text of the graph as it was recorded and differentiated, with the bits of its large constants, so a hit
leaves out passes, scheduling, emission and LLVM. Host calls are found again by the number of their node in the
optimised graph, and users' lines by the number of the first node that stands there.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad import cache
from tracegrad.function import registry
from tracegrad.ir.graph import Graph, Location, Node
from tracegrad.ir.text import print_graph

if TYPE_CHECKING:
    from tracegrad.emit.executable import Executable

# Attributes that have no text and of which the code holds nothing: users' Functions, called or already inlined.
_OPAQUE = ("CallRecord", "HostForward", "HostBackward")


class Stored:
    """The place of a graph's program in the cache. `optimize` gives the graph after the passes, where it is needed."""

    def __init__(self, graph: Graph, key: str, optimize: Callable[[], Graph]):
        self.graph, self.key, self.optimize = graph, key, optimize

    def load(self) -> Executable | None:
        """The program another process has left here; None if there is none that can be used."""
        data = cache.read(self.key)
        if data is None:
            return None
        from tracegrad.emit.executable import load_image
        from tracegrad.emit.image import from_bytes

        try:
            image = from_bytes(data, [node.location for node in all_nodes(self.graph)], self._function)
        except (ValueError, KeyError, IndexError, TypeError):
            return None
        return load_image(image)

    def save(self, executable: Executable) -> None:
        """Leave the program to other processes, unless a part of it has no meaning there."""
        from tracegrad.emit.image import to_bytes

        places: dict[Location | None, int] = {None: -1}
        for number, node in enumerate(all_nodes(self.graph)):
            places.setdefault(node.location, number)
        try:
            data = to_bytes(executable.image, lambda location: places.get(location, -1), self._number)
        except LookupError:
            return
        cache.write(self.key, data)

    def _number(self, function: Any) -> str:
        """How the function of a host call is written: the number of its node, and the graph that has this number."""
        node = getattr(function, "node", None)
        return f"{self._nodes[1][id(node)]} {self._nodes[2]}"

    def _function(self, text: str) -> Any:
        """The function that `_number` wrote so. Raises ValueError if the optimised graph has become another one."""
        from tracegrad.schedule.matmul import HostFunction

        number, graph = text.split()
        if graph != self._nodes[2]:
            raise ValueError("the graph is not the one the entry was written for")
        return HostFunction(self._nodes[0][int(number)])

    @functools.cached_property
    def _nodes(self) -> tuple[list[Node], dict[int, int], str]:
        """The nodes of the optimised graph, their numbers by id, and the graph's hash."""
        optimized = self.optimize()
        nodes = list(all_nodes(optimized))
        return nodes, {id(n): k for k, n in enumerate(nodes)}, cache.digest([print_graph(optimized, locations=False)])


def find(graph: Graph, optimize: Callable[[], Graph]) -> Stored | None:
    """The place of the graph's program; None if the cache is off, or the graph has no key."""
    if cache.folder() is None or any(os.environ.get(f"TRACEGRAD_{n}", "") not in ("", "0") for n in ("DUMP", "VERIFY")):
        return None  # who wants to see or check the passes wants them to run
    key = key_of(graph)
    return None if key is None else Stored(graph, key, optimize)


def key_of(graph: Graph) -> str | None:
    """The key of the graph's program. None where an attribute or operation may mean something its text does not say."""
    if any(registry.get(node.name) is not node.op for node in all_nodes(graph)):
        return None
    environment: dict[str, Any] = {}
    parts: list[str | bytes] = [print_graph(graph, environment, locations=False)]
    for name, value in environment.items():
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            parts += [name, f"{value.dtype.str} {value.shape}", value.tobytes()]
        elif type(value).__name__ not in _OPAQUE:
            return None
    return cache.key(*parts)


def all_nodes(graph: Graph) -> Iterator[Node]:
    """The nodes of the graph, those of bodies after the node that has them."""
    for node in graph.nodes:
        yield node
        for body in node.bodies:
            yield from all_nodes(body)
