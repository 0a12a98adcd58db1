"""Records behave like frozen dataclasses with slots."""

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from tracegrad.records import record


def fields() -> dict[str, Any]:
    return {"extra": 1}


@record
class Point:
    """Two coordinates and more."""

    x: int
    y: float = 2.0
    note: str = dataclasses.field(default="", compare=False)
    more: dict = dataclasses.field(default_factory=fields, repr=False, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    x: int
    y: float = 2.0
    note: str = dataclasses.field(default="", compare=False)
    more: dict = dataclasses.field(default_factory=fields, repr=False, compare=False)


@record(eq=False)
class Node:
    name: str
    inputs: tuple = ()


@record
class Single:
    value: Any


@record
class Base:
    a: int


@record
class Derived(Base):
    b: int = 5


@pytest.mark.parametrize(
    "args, kwargs", [((1,), {}), ((1, 3.5), {}), ((), {"x": 4, "note": "n"}), ((1, 2, "z", {}), {})]
)
def test_like_a_dataclass(args, kwargs):
    ours, theirs = Point(*args, **kwargs), Reference(*args, **kwargs)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert repr(ours) == repr(theirs).replace("Reference", "Point")
    assert dataclasses.is_dataclass(ours)
    assert not hasattr(ours, "__dict__")


@pytest.mark.parametrize("args, kwargs", [((), {}), ((1, 2, 3, 4, 5), {}), ((1,), {"z": 0}), ((1,), {"x": 2})])
def test_wrong_arguments(args, kwargs):
    with pytest.raises(TypeError):
        Reference(*args, **kwargs)
    with pytest.raises(TypeError, match="Point"):
        Point(*args, **kwargs)


def test_equality_and_hash():
    assert Point(1) == Point(1, 2.0, "another note") and hash(Point(1)) == hash(Point(1, note="n"))
    assert Point(1) != Point(2) and Point(1) != (1, 2.0) and Point(1) != Reference(1)
    a, b = Node("a"), Node("a")
    assert a == a and a != b and len({a, b}) == 2
    nan = float("nan")
    assert Single(nan) == Single(nan) and Single(nan) != Single(-nan)  # as tuples compare: identity first


def test_frozen():
    p = Point(1)
    for change in (lambda: setattr(p, "x", 2), lambda: delattr(p, "x"), lambda: setattr(p, "new", 2)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert p == Point(1)


def test_replace_copies_and_pickles():
    p = Point(1, note="n")
    q = dataclasses.replace(p, y=7.0)
    assert (q.x, q.y, q.note) == (1, 7.0, "n")
    for same in (copy.copy(p), copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert dataclasses.asdict(same) == dataclasses.asdict(p)
    assert Point(1).more is not Point(1).more


def test_derived_records():
    d = Derived(1)
    assert (d.a, d.b) == (1, 5) and repr(d) == "Derived(a=1, b=5)"
    assert Base(3).a == 3 and Derived.__slots__ == ("b",)


def test_patterns():
    match Point(3, 4.0):
        case Point(x, y):
            assert (x, y) == (3, 4.0)


@record(frozen=False)
class Counter:
    """Not frozen: its fields change, and it equals itself alone."""

    name: str
    hits: list = dataclasses.field(default_factory=list)
    total: int = dataclasses.field(init=False, default=0)

    def __post_init__(self):
        self.hits.append(self.name)


def test_records_that_are_not_frozen():
    first, second = Counter("a"), Counter("a")
    first.total += 2
    assert (first.total, first.hits, second.total) == (2, ["a"], 0)
    assert first != second and len({first, second}) == 2
    assert repr(first) == "Counter(name='a', hits=['a'], total=2)"
    with pytest.raises(AttributeError):
        first.missing = 1
    copied = copy.copy(first)
    assert (copied.name, copied.total) == ("a", 2) and copied.hits is first.hits
