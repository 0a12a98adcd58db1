"""Which sizes of a call become symbols, and which calls a recording with symbolic sizes serves.

Calls that differ in sizes alone are a family. Its first call is recorded with the sizes it has. A later one with other
sizes is recorded with symbols in place of those that have been seen to change; sizes that have been the same distance
apart in all calls share a symbol. What the recording took for granted about the symbols (`ir.sizes`) is tested before
it serves another call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tracegrad.errors import UnsupportedError
from tracegrad.ir.dims import Dim, DimLike, substitute, symbol, symbols
from tracegrad.ir.graph import Graph
from tracegrad.ir.sizes import LEAST, Sizes
from tracegrad.ir.symbols import dims_of
from tracegrad.ops.base import shape_text
from tracegrad.records import record

Shapes = tuple[tuple[Any, ...], ...]
Place = tuple[int, int]  # the number of an array among the arguments, and an axis of it
MAX_PATTERNS = 8
MAX_HISTORY = 16
MAX_REFUSALS = 2
_LETTERS = ("n", "m", "k", "l", "p", "q", "r", "s")


class TooShort(UnsupportedError):
    """A value has no or one element along an axis that the recording takes for longer."""


class Family:
    """What has been seen of the sizes of calls that differ in nothing else.

    dynamic: True makes all sizes symbols from the first call on, None those that change, False none.
    refused: how often a place had to be given a number, because Python took its size as one.
    """

    def __init__(self, dynamic: bool | None):
        self.dynamic = dynamic
        self.history: list[Shapes] = []
        self.patterns: list[Shapes] = []
        self.refused: dict[Place, int] = {}
        self.counts: bool | None = None  # whether how many elements a mask selects is a symbol; None: not yet
        self.entries: list[Any] = []  # those compiled last
        self.resized: list[Any] = []  # the keys of families that differ in the sizes of captured arrays too

    def note(self, shapes: Shapes, entry: Any = None) -> None:
        """Remember the sizes of a call that has been compiled."""
        if entry is not None:
            self.entries = [*self.entries[1 - MAX_HISTORY :], entry]
        if shapes not in self.history:
            del self.history[: len(self.history) - MAX_HISTORY + 1]
            self.history.append(shapes)

    def pattern(self, shapes: Shapes) -> Shapes | None:
        """The shapes with symbols to record this call with; None where its own sizes are to be taken."""
        if self.dynamic is False or not (self.history or self.dynamic):
            return None
        calls = [*self.history, shapes]
        symbolic = [place for place in _places(shapes) if self._symbolic(place, calls, shapes)]
        dims: dict[Place, DimLike] = {}
        for place in symbolic:
            names = {name for dim in dims.values() for name in symbols(dim)}
            dims[place] = _like_former(place, dims, calls) or symbol(_name(len(names)))
        if not dims:
            return None
        pattern = _with_dims(shapes, dims)
        return None if pattern not in self.patterns and len(self.patterns) >= MAX_PATTERNS else pattern

    def _symbolic(self, place: Place, calls: Sequence[Shapes], shapes: Shapes) -> bool:
        if _at(shapes, place) < LEAST or self.refused.get(place, 0) >= MAX_REFUSALS:
            return False
        return bool(self.dynamic) or len({_at(s, place) for s in calls}) > 1

    def refuse(self, before: Shapes, after: Shapes | None) -> None:
        """Count the places that a recording needed to be numbers."""
        for place in _places(before):
            if isinstance(_at(before, place), Dim) and (after is None or not isinstance(_at(after, place), Dim)):
                self.refused[place] = self.refused.get(place, 0) + 1


def _like_former(place: Place, dims: dict[Place, DimLike], calls: Sequence[Shapes]) -> DimLike | None:
    """The dimension of an earlier place whose size has always been as far from this one's."""
    for other, dim in dims.items():
        distances = {_at(s, place) - _at(s, other) for s in calls}
        if len(distances) == 1 and (len(calls) > 1 or distances == {0}):
            return dim + distances.pop()
    return None


def _name(number: int) -> str:
    return _LETTERS[number] if number < len(_LETTERS) else f"n{number}"


def _places(shapes: Shapes) -> list[Place]:
    return [(i, axis) for i, shape in enumerate(shapes) for axis in range(len(shape))]


def _at(shapes: Shapes, place: Place) -> Any:
    return shapes[place[0]][place[1]]


def _with_dims(shapes: Shapes, dims: dict[Place, DimLike]) -> Shapes:
    return tuple(tuple(dims.get((i, axis), d) for axis, d in enumerate(shape)) for i, shape in enumerate(shapes))


def values_of(pattern: Shapes, shapes: Shapes) -> dict[str, int]:
    """What each symbol of a pattern is in a call."""
    found: dict[str, int] = {}
    for place in _places(pattern):
        dim = _at(pattern, place)
        if isinstance(dim, Dim):
            (name,) = symbols(dim)
            found.setdefault(name, _at(shapes, place) - substitute(dim, {name: 0}))
    return found


def refined(pattern: Shapes, sizes: Sizes) -> Shapes | None:
    """The pattern with the equations solved that a recording needs; the pattern itself if there are none, None where
    nothing stays symbolic."""
    known: dict[str, DimLike] = {}
    for name in sizes.consumed:
        known[name] = sizes.values[name]
    for equation, relation in sizes.conditions:
        if relation == "==":
            _solve(substitute(equation, known), sizes, known)
    if not known:
        return pattern
    found = tuple(tuple(substitute(d, known) for d in shape) for shape in pattern)
    return found if any(isinstance(d, Dim) for shape in found for d in shape) else None


def _solve(equation: DimLike, sizes: Sizes, known: dict[str, DimLike]) -> None:
    """A symbol by its number, or by another where the equation says how far they are apart; others stay conditions."""
    names = sorted(symbols(equation))
    solution: dict[str, DimLike] = {}
    if len(names) == 1 and all(len(monomial) < 2 for monomial, _ in equation.terms):  # type: ignore[union-attr]
        if not any(isinstance(atom, tuple) for monomial, _ in equation.terms for atom in monomial):  # type: ignore[union-attr]
            solution = {names[0]: sizes.values[names[0]]}
    elif len(names) == 2:
        difference = symbol(names[0]) - symbol(names[1])
        for side in (equation, equation * -1):
            if isinstance(side - difference, int):
                solution = {names[0]: symbol(names[1]) - (side - difference)}
    for name, dim in known.items():
        known[name] = substitute(dim, solution)
    known.update(solution)


@record
class Conditions:
    """When a recording with symbolic sizes serves a call: `holds(shapes)`, where these are those of the arguments.

    `tests` are Python expressions in the symbols and `floordiv`, `where` says where each symbol is found and what has
    to be added to the size there.
    """

    pattern: Shapes
    tests: tuple[str, ...]
    where: dict[str, tuple[int, int, int]]
    holds: Callable[[Shapes], bool]

    def __str__(self) -> str:
        return ", ".join(self.tests)

    def expressions(self, name_of: Callable[[int], str]) -> list[str]:
        """The tests as Python source, where `name_of(i)` is the name of the i-th array; types and equal sizes apart."""
        read = {n: f"({name_of(i)}.shape[{axis}]{_plus(more)})" for n, (i, axis, more) in self.where.items()}
        return [_renamed(test, read) for test in self.tests]


def _plus(number: int) -> str:
    return f" + {number}" if number > 0 else f" - {-number}" if number else ""


def _renamed(test: str, names: dict[str, str]) -> str:
    import re

    return re.sub(r"[A-Za-z_]\w*", lambda m: names.get(m[0], m[0]), test)


def conditions(pattern: Shapes, sizes: Sizes, graphs: Iterable[Graph]) -> Conditions:
    """What a recording with this pattern needs. Raises TooShort where a value of this call has no or one
    element along an axis that is taken for longer."""
    for dim in dims_of(graphs):
        if not sizes.require(dim, LEAST):
            raise TooShort(f"an axis of size {dim}, which is less than {LEAST} here")
    where: dict[str, tuple[int, int, int]] = {}
    shape_tests = []
    for i, axis in _places(pattern):
        dim = pattern[i][axis]
        names = symbols(dim)
        if names and not names <= where.keys():
            (name,) = names
            where[name] = (i, axis, -substitute(dim, {name: 0}))  # type: ignore[operator, assignment]
        else:
            shape_tests.append(f"s[{i}][{axis}] == {dim}")
    tests = []
    for name in where:
        least, most = sizes.least[name], sizes.most[name]
        tests.append(f"{name} >= {least}" if math.isinf(most) else f"{least} <= {name} <= {most:.0f}")
    tests += [f"{dim} {relation} 0" for dim, relation in sizes.conditions]
    read = {n: f"(s[{i}][{axis}]{_plus(more)})" for n, (i, axis, more) in where.items()}
    source = " and ".join(_renamed(test, read) for test in (*shape_tests, *tests))
    scope: dict[str, Any] = {"floordiv": lambda a, b: a // b}
    return Conditions(pattern, tuple(tests), where, eval(f"lambda s: {source}", scope))


def other_sizes(family: Family, shapes: Shapes, pattern: Shapes | None, why: str) -> str:
    """Why a call of a known family compiles, as `explain` says it."""
    if pattern is not None:
        return f"other sizes: recorded for all of them, with the shapes {', '.join(map(shape_text, pattern))}"
    if family.dynamic is False:
        return "other sizes, and dynamic=False"
    if why:
        return f"other sizes; {why}"
    if any(family.refused.get(place, 0) >= MAX_REFUSALS for place in _places(shapes)):
        return "other sizes, which cannot be symbolic, as an earlier line says"
    if len(family.patterns) >= MAX_PATTERNS:
        return "other sizes, in more combinations than are kept"
    return "other sizes: an axis of 0 or 1, for which the program is one of its own"
