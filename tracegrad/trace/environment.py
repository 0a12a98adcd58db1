"""What a recording depends on besides its arguments: closures, globals, defaults, attributes of objects.

The recording is right only while all of these are what they were; `Environment.holds` says so before each call.
Arrays are compared by identity, since compiled programs read their numbers afresh; where the function computed with
them in plain NumPy, so that the numbers themselves went into the recording, their contents are compared too.
"""

from __future__ import annotations

import copy
import dis
import itertools
import keyword
import operator
import types
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from tracegrad.trace.arithmetic import exchanges
from tracegrad.trace.dependencies import MISSING, Collector, cell_value
from tracegrad.trace.substitutes import original


class Environment:
    """A snapshot: per dependency the place it is read from, and what was found there.

    `running`: code that compiled programs run in Python, in each call, so that what it reads is not looked at.
    `lookups`: what was looked up by names made at run time, see `trace.lookups`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        static: Sequence[Any] = (),
        running: Set[types.CodeType] = frozenset(),
        lookups: Sequence[Any] = (),
    ):
        self.running = running
        self._cells: list[tuple[Any, Any]] = []
        self._items: list[tuple[dict[str, Any], str, Any]] = []
        self._attributes: list[tuple[Any, str, Any]] = []
        self._containers: list[tuple[Any, tuple[Any, ...]]] = []
        self._states: list[tuple[Callable[[], Any], Any]] = []
        self.arrays: dict[int, np.ndarray] = {}
        self._contents: list[tuple[np.ndarray, tuple[Any, ...], bytes]] = []
        self._kinds: list[tuple[np.ndarray, tuple[Any, ...]]] = []
        self.generators: list[Any] = []  # NumPy's, whose numbers a recording would freeze
        self.codes: list[types.CodeType] = []
        self._watched: set[tuple[int, str]] = set()
        Collector(self).collect(function, *static, lookups=lookups)
        # A descriptor that makes a new object each time says nothing by it.
        self._attributes = [(o, n, v) for o, n, v in self._attributes if same(getattr(o, n, MISSING), v)]
        self.holds = self._compile()

    @property
    def always(self) -> bool:
        """Whether there is nothing that could change."""
        kinds = self._cells, self._items, self._attributes, self._containers, self._states, self._contents, self._kinds
        return not any(kinds)

    def watch_attribute(self, owner: Any, name: str) -> None:
        """Compare what `getattr` finds."""
        self._attributes.append((owner, name, getattr(owner, name)))

    def watch_item(self, namespace: Any, name: str) -> None:
        """Compare what a namespace has under a name, be it nothing."""
        if (id(namespace), name) not in self._watched:
            self._watched.add((id(namespace), name))
            self._items.append((namespace, name, original(namespace.get(name, MISSING))))

    def watch_cell(self, cell: Any) -> None:
        """Compare a variable of a closure."""
        self._cells.append((cell, cell_value(cell)))

    def watch_container(self, container: Any) -> None:
        """Compare which elements it has."""
        self._containers.append((container, container_items(container)))

    def watch_state(self, read: Callable[[], Any]) -> None:
        """Compare what a call gives."""
        self._states.append((read, read()))

    def watch_contents(self) -> None:
        """From now on the numbers in the arrays count too, not only which arrays they are."""
        self._contents = [(a, _kind(a), a.tobytes()) for a in self.arrays.values()]
        self.holds = self._compile()

    def watch_kinds(self, captured: Sequence[Any]) -> None:
        """From now on the shapes and dtypes of arrays count that are not among these inputs of the program, too."""
        inputs = set(map(id, captured))
        self._kinds = [(a, _kind(a)) for a in self.arrays.values() if id(a) not in inputs]
        self.holds = self._compile()

    def may_decide(self) -> bool:
        """Whether code that it walked branches or makes Python numbers, so that numbers in arrays may decide."""
        return any(map(_decides, self.codes))

    def lost_arrays_of(self, before: Environment) -> bool:
        """Whether arrays that were there before the function ran are gone, and not by what the function does itself."""
        return not before.arrays.keys() <= self.arrays.keys() and not any(map(_stores, self.codes))

    def changed(self) -> str:
        """What differs now, in words for `explain`."""
        for cell, value in self._cells:
            if not same(cell_value(cell), value):
                return f"a closure variable changed from {_shown(value)} to {_shown(cell_value(cell))}"
        for namespace, name, value in self._items:
            if not same(namespace.get(name, MISSING), value):
                return f"{name!r} changed from {_shown(value)} to {_shown(namespace.get(name, MISSING))}"
        for owner, name, value in self._attributes:
            if not same(getattr(owner, name, MISSING), value):
                return f"attribute {name!r} of {type(owner).__name__} changed"
        return "a container or an array that the function reads was modified"

    def exchanged(self, resized: bool = False) -> tuple[Environment, dict[int, np.ndarray]] | None:
        """Where nothing changed but that other arrays of the same dtype and shape took the place of some: the
        environment with these, and by the id of each array the one in its place. With `resized`, of the same number of
        dimensions.

        Each place is read once, and what is found there is what the new environment compares with.
        """
        cells = [(cell, cell_value(cell)) for cell, _ in self._cells]
        items = [(owner, name, owner.get(name, MISSING)) for owner, name, _ in self._items]
        attributes = [(owner, name, getattr(owner, name, MISSING)) for owner, name, _ in self._attributes]
        containers = [(container, container_items(container)) for container, _ in self._containers]
        states = [(read, read()) for read, _ in self._states]
        kinds = (self._cells, cells), (self._items, items), (self._attributes, attributes), (self._states, states)
        places = [(a[-1], b[-1]) for old, new in kinds for a, b in zip(old, new, strict=True)]
        for (_, before), (_, now) in zip(self._containers, containers, strict=True):
            if len(before) != len(now):
                return None
            places += zip(before, now, strict=True)
        found = exchanges(places, same, resized)
        if found is None or self._contents:
            return None
        new = copy.copy(self)
        new._cells, new._items, new._attributes, new._containers = cells, items, attributes, containers
        new.arrays = {id(b): b for b in (found.get(key, a) for key, a in self.arrays.items())}
        new._kinds = [(found.get(id(a), a), kind) for a, kind in self._kinds]
        if any(_kind(a) != kind for a, kind in new._kinds):
            return None
        values = {
            f"{letter}v{i}": p[-1] for letter, (_, now) in zip("cnar", kinds, strict=True) for i, p in enumerate(now)
        }
        values |= {f"sv{i}": now for i, (_, now) in enumerate(containers)}
        values |= {f"k{i}": array for i, (array, _) in enumerate(new._kinds)}
        new.holds = types.FunctionType(self.holds.__code__, {**self.holds.__globals__, **values})
        return new, found

    def _compile(self) -> types.FunctionType:
        """One generated expression: an `is` per dependency, slower comparisons only where that fails."""
        scope: dict[str, Any] = {"same": same, "cell_value": cell_value, "missing": MISSING, "items": container_items}
        terms = []
        for i, (cell, value) in enumerate(self._cells):
            scope |= {f"c{i}": cell, f"cv{i}": value}
            terms.append(f"(c{i}.cell_contents is cv{i} or same(cell_value(c{i}), cv{i}))")
        for i, (namespace, name, value) in enumerate(self._items):
            scope |= {f"n{i}": namespace, f"nv{i}": value}
            if type(namespace) is not dict:
                terms.append(f"(n{i}.get({name!r}, missing) is nv{i} or same(n{i}.get({name!r}, missing), nv{i}))")
            elif value is MISSING:
                terms.append(f"{name!r} not in n{i}")
            else:  # several times as fast as get
                terms.append(f"(n{i}[{name!r}] is nv{i} or same(n{i}[{name!r}], nv{i}))")
        for i, (owner, name, value) in enumerate(self._attributes):
            scope |= {f"a{i}": owner, f"av{i}": value}
            found = f"getattr(a{i}, {name!r}, missing)"
            plain = value is not MISSING and name.isidentifier() and not keyword.iskeyword(name)
            terms.append(f"({f'a{i}.{name}' if plain else found} is av{i} or same({found}, av{i}))")
        for i, (container, snapshot) in enumerate(self._containers):
            scope |= {f"s{i}": container, f"sv{i}": snapshot, "is_": operator.is_, "chain": itertools.chain}
            terms.append(f"({_same_elements(i, container, snapshot)} or same(items(s{i}), sv{i}))")
        for i, (read, value) in enumerate(self._states):
            scope |= {f"r{i}": read, f"rv{i}": value}
            terms.append(f"same(r{i}(), rv{i})")
        for i, (array, kind, contents) in enumerate(self._contents):
            scope |= {f"d{i}": array, f"dk{i}": kind, f"dv{i}": contents, "has_bits": _has_bits}
            terms.append(f"has_bits(d{i}, dk{i}, dv{i})")
        for i, (array, kind) in enumerate(self._kinds):
            scope |= {f"k{i}": array, f"kv{i}": kind, "kind": _kind}
            terms.append(f"kind(k{i}) == kv{i}")
        exec(_HOLDS.format(" and ".join(terms) or "True"), scope)
        return scope["holds"]  # type: ignore[no-any-return]


_HOLDS = """
def holds():
    try:
        return {}
    except (KeyError, AttributeError):
        return False
"""
_NUMBERS = frozenset({"float", "int", "bool", "complex", "range", "item", "tolist", "any", "all"})
_BRANCHES = frozenset(
    number
    for name, number in dis.opmap.items()
    if "JUMP" in name and "IF" in name.split("_") and name.split("_")[-1] in ("TRUE", "FALSE", "POP")
)

_SUBSCRIPT = dis.opmap.get("BINARY_SUBSCR", dis.opmap["BINARY_OP"])  # which it is since 3.14
_VALUES = {_SUBSCRIPT, dis.opmap["CALL"]}


def _decides(code: types.CodeType) -> bool:
    operations = [number for number in code.co_code[::2] if number]
    if not _NUMBERS.isdisjoint(code.co_names) or not _BRANCHES.isdisjoint(operations):
        return True
    if any(b == _SUBSCRIPT and a in _VALUES for a, b in itertools.pairwise(operations)):  # x[a[0]], x[a.argmax()]
        return True
    return any(isinstance(c, types.CodeType) and _decides(c) for c in code.co_consts)


_STORE = frozenset(number for name, number in dis.opmap.items() if name.split("_")[0] in ("STORE", "DELETE"))
_STORE -= {number for name, number in dis.opmap.items() if "_FAST" in name}
_CHANGE = frozenset("setattr delattr append appendleft extend insert pop popleft popitem remove clear update".split())


def _stores(code: types.CodeType) -> bool:
    """Whether code assigns to what is outside of it, or changes a container."""
    if not _CHANGE.isdisjoint(code.co_names) or not _STORE.isdisjoint(code.co_code[::2]):
        return True
    return any(isinstance(c, types.CodeType) and _stores(c) for c in code.co_consts)


def _shown(value: Any) -> str:
    """A value as `explain` names it."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} (pass it as an argument if it is another one in each call)"
    return "nothing" if value is MISSING else repr(value)


def _kind(array: np.ndarray) -> tuple[Any, ...]:
    return array.shape, array.dtype


def _has_bits(array: np.ndarray, kind: tuple[Any, ...], contents: bytes) -> bool:
    """Whether an array has this shape and dtype, and these bytes in C order."""
    if _kind(array) != kind:
        return False
    if array.flags.c_contiguous and array.nbytes > _COPIED and array.dtype.kind in "biufc":
        return memoryview(array).cast("B") == contents
    return array.tobytes() == contents


_COPIED = 1 << 14  # bytes up to which a copy costs less than a view


def same(a: Any, b: Any) -> bool:
    """Identity, or for atoms and tuples of them equality of type and bits (so that 0.0 and -0.0, 1 and True differ)."""
    a, b = original(a), original(b)
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (float, complex, np.generic)):
        return np.asarray(a).tobytes() == np.asarray(b).tobytes()
    if isinstance(a, (bool, int, str, bytes, np.dtype, slice, range)):
        return a == b
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, types.MethodType):
        return a.__func__ is b.__func__ and a.__self__ is b.__self__
    return False


def container_items(container: Any) -> tuple[Any, ...]:
    """The contents of a container as a tuple, keys included."""
    if isinstance(container, Mapping):
        return (*container.keys(), *container.values())
    return tuple(container)


def _same_elements(number: int, container: Any, snapshot: tuple[Any, ...]) -> str:
    """An expression that compares a container with its snapshot by identity, without a step of Python per element."""
    if not snapshot:
        return f"not s{number}"
    elements, count = f"s{number}", len(snapshot)
    if isinstance(container, Mapping):
        elements, count = f"chain({elements}, {elements}.values())", count // 2
    return f"len(s{number}) == {count} and all(map(is_, {elements}, sv{number}))"
