"""What a recording depends on: each kind of thing is modified, and the environment notices; before, it holds."""

from __future__ import annotations

import builtins
import collections
import contextvars
import dataclasses
import functools
import math
import operator
import os
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad import nn
from tracegrad.trace.environment import Environment

MODULE = types.ModuleType("module_of_a_user")
NUMBER, LIST, GETATTR = 2.0, [1.0, [2.0]], builtins.getattr
Case = tuple[Callable[..., Any], Callable[[], Any]]
CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


class Base:
    scale = 1.0

    def method(self, x: Any) -> Any:
        return x * self.scale


class Thing(Base):
    def __init__(self) -> None:
        self.k, self.items, self.store = 1.0, [1.0], {"a": 1.0}

    def __len__(self) -> int:
        return len(self.items)

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["store"][name]

    def method(self, x: Any) -> Any:
        return super().method(x) + 1


class Record(types.SimpleNamespace):
    pass


def sets(target: Any, **values: Any) -> Callable[..., None]:
    return lambda *_: [setattr(target, name, value) for name, value in values.items()] and None


NAMESPACE_MAKERS: dict[str, Callable[[], Any]] = {
    "namespace": types.SimpleNamespace, "subclass": Record, "module": lambda: types.ModuleType("module_of_a_user"),
}  # fmt: skip


@pytest.mark.parametrize("kind", NAMESPACE_MAKERS)
def test_attributes(kind: str) -> None:
    for value in (2.0, -0.0, True, "b", (1.0, [2.0]), slice(0, 2), np.float32(1), np.ones(2)):
        holder, outer = NAMESPACE_MAKERS[kind](), types.SimpleNamespace()
        holder.k, outer.inner = 0.0, [{"a": holder}]
        noticed((lambda x, o=outer: x * o.inner[0]["a"].k), sets(holder, k=value))
        noticed((lambda x, h=holder: x * getattr(h, "missing", 1.0)), sets(holder, missing=value))
        noticed(
            (lambda x, h=holder: x * sum(vars(h).values())), sets(holder, other=value)
        ) if kind != "module" else None


def noticed(function: Callable[..., Any], modify: Callable[[], Any]) -> None:
    environment = Environment(function)
    assert environment.holds() and environment.holds()
    modify()
    assert not environment.holds() and environment.changed()


COLLECTIONS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "list": (lambda: [1.0, 2.0], lambda c: c.reverse()),
    "long list": (lambda: [1.0] * 20_001, lambda c: c.append(2.0)),
    "dict": (lambda: {"a": 1.0, "b": 2.0}, lambda c: c.update(a=c.pop("a"))),
    "deque": (lambda: collections.deque([1.0]), lambda c: c.append(2.0)),
    "chain": (lambda: collections.ChainMap({"a": 1.0}), lambda c: c.maps[0].update(a=2.0)),
    "user dict": (lambda: collections.UserDict(a=1.0), lambda c: c.update(a=2.0)),
    "bytes": (lambda: bytearray(b"ab"), lambda c: c.reverse()),
    "subclass": (type("L", (list,), {"k": 1.0}), lambda c: setattr(c, "k", 2.0)),
    "array": (lambda: np.zeros(3), lambda c: c.__setitem__(0, -0.0)),
    "shape": (lambda: np.zeros(4), lambda c: setattr(c, "shape", (2, 2))),
    "weak reference": (lambda: weakref.ref(REFERRED), lambda c: setattr(c(), "k", c().k + 1)),
    "context": (lambda: contextvars.ContextVar("c", default=1.0), lambda c: c.set(5.0)),
}
REFERRED = Record(k=1.0)


@pytest.mark.parametrize("kind", COLLECTIONS)
def test_contents(kind: str) -> None:
    make, modify = COLLECTIONS[kind]
    held = make()
    environment = Environment(lambda x: x * held.k)
    environment.watch_contents()
    assert environment.holds()
    modify(held)
    assert not environment.holds()
    proxied = types.MappingProxyType({"a": 1.0})
    assert Environment(lambda x: x * proxied["a"]).holds()


@case
def instance_hides_the_class() -> Case:
    thing = Thing()
    return (lambda x: x * thing.scale), sets(thing, scale=2.0)


@case
def instance_hides_a_method() -> Case:
    thing = Thing()
    return (lambda x: thing.method(x)), sets(thing, method=lambda x: x)


@case
def method_of_a_base() -> Case:
    thing, former = Thing(), Base.method
    return (lambda x: thing.method(x)), lambda: setattr(Base, "method", lambda self, x: former(self, x))


@case
def class_of_an_instance() -> Case:
    thing = Thing()
    return (lambda x: thing.method(x)), lambda: setattr(thing, "__class__", Base)


@case
def unnamed_method() -> Case:
    thing = Thing()
    return (lambda x: x * len(thing)), lambda: thing.items.append(2.0)


@case
def attributes_made_up() -> Case:
    thing = Thing()
    return (lambda x: x * thing.a), lambda: thing.store.update(a=2.0)


@case
def constructor() -> Case:
    class Scaled:
        factor = 1.0

        def __init__(self, x: Any):
            self.x = x * Scaled.factor

    return (lambda x: Scaled(x).x), sets(Scaled, factor=2.0)


@case
def metaclass() -> Case:
    meta = type("Meta", (type,), {"k": 1.0})
    cls = meta("Configuration", (), {})
    return (lambda x: x * cls.k), sets(meta, k=2.0)


@case
def method_bound_to_a_list() -> Case:
    held = [1.0]
    get = held.__getitem__
    return (lambda x: x * get(0)), lambda: held.__setitem__(0, 2.0)


@case
def keywords_of_a_partial() -> Case:
    function = functools.partial(lambda x, k: x * k, k=1.0)
    return (lambda x: function(x)), lambda: function.keywords.update(k=2.0)


@case
def getter() -> Case:
    thing, get = Thing(), operator.attrgetter("k")
    return (lambda x: x * get(thing)), sets(thing, k=2.0)


@case
def function_attribute() -> Case:
    def function(x: Any) -> Any:
        return x * function.k  # type: ignore[attr-defined]

    function.k = 1.0  # type: ignore[attr-defined]
    return function, sets(function, k=2.0)


@case
def single_dispatch() -> Case:
    @functools.singledispatch
    def function(x: Any) -> Any:
        return x

    return (lambda x: function(x)), lambda: function.register(tg.Tensor, lambda x: x * 2)


@case
def local_import() -> Case:
    def function(x: Any) -> Any:
        from module_of_a_user import k  # type: ignore[import-not-found]

        return x * k

    MODULE.k = 1.0  # type: ignore[attr-defined]
    return function, sets(MODULE, k=2.0)


@case
def attribute_error() -> Case:
    def function(x: Any) -> Any:
        try:
            return x * MODULE.seldom  # type: ignore[attr-defined]
        except AttributeError:
            return x

    held = types.SimpleNamespace(module=MODULE)
    return (lambda x: function(x) if held.module else x), sets(MODULE, seldom=2.0)


@case
def global_by_its_name() -> Case:
    return (lambda x: x * globals()["NUMBER"]), lambda: globals().update(NUMBER=NUMBER + 1)


@case
def evaluated_text() -> Case:
    return (lambda x: eval("x * NUMBER")), lambda: globals().update(NUMBER=NUMBER + 1)


@case
def environment_variable() -> Case:
    return (lambda x: x * float(os.environ.get("K_OF_A_TEST", "1"))), lambda: os.environ.update(K_OF_A_TEST="2")


@case
def numpy_setting() -> Case:
    former = np.geterr()["under"]
    other = "warn" if former == "ignore" else "ignore"
    return (lambda x: x * len(np.geterr()["under"])), lambda: np.seterr(under=other)  # type: ignore[arg-type]


@case
def user_function() -> Case:
    class Double(tg.Function):
        k = 2.0

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * Double.k

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    return (lambda x: Double.apply(x)), lambda: setattr(Double, "backward", staticmethod(lambda ctx, g: g))


@case
def flag_of_a_tensor() -> Case:
    held = tg.tensor([1.0])
    return (lambda x: x * (2 if held.requires_grad else 3)), lambda: held.requires_grad_()


@case
def forward_of_a_module() -> Case:
    module = type("Net", (nn.Module,), {"forward": lambda self, x: x * 2})()
    return module, sets(module, forward=lambda x: x)


@case
def all_fields() -> Case:
    held = dataclasses.make_dataclass("Data", [("k", float)])(1.0)
    return (lambda x: x * dataclasses.asdict(held)["k"]), sets(held, k=2.0)


@pytest.mark.parametrize("name", CASES)
def test_kinds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "module_of_a_user", MODULE)
    monkeypatch.setattr(Base, "method", Base.method)
    monkeypatch.delenv("K_OF_A_TEST", raising=False)
    with np.errstate():
        noticed(*CASES[name]())


PREFIX, CHOSEN = "weight_", {"name": "tanh"}
MADE_UP: dict[str, tuple[Callable[..., Any], Callable[..., Any], float]] = {
    "attribute": (lambda x: x * getattr(REFERRED, PREFIX + "a"), lambda m: m.setattr(REFERRED, "weight_a", 4.0), 6.0),
    "not yet there": (lambda x: x * getattr(REFERRED, PREFIX + "b", 1.0), sets(REFERRED, weight_b=4.0), 6.0),
    "global": (lambda x: x * globals()[PREFIX + "c"], lambda m: m.setitem(globals(), "weight_c", 4.0), 6.0),
    "global that was not there": (
        lambda x: x * (4.0 if PREFIX + "d" in globals() else 1.0), lambda m: m.setitem(globals(), "weight_d", 4.0), 6.0,
    ),
    "evaluated": (lambda x: eval(" x * " + PREFIX + "c"), lambda m: m.setitem(globals(), "weight_c", 4.0), 6.0),
    "function of NumPy": (lambda x: getattr(np, CHOSEN["name"])(x), lambda m: m.setattr(np, "tanh", np.negative), -1.5),
    "patched": (lambda x: np.cos(x), lambda m: m.setattr("numpy.cos", np.negative), -1.5),
    "patched below": (lambda x: np.linalg.norm(x), lambda m: m.setattr("numpy.linalg.norm", np.negative), -1.5),
    "constant of Python": (lambda x: x * math.pi, lambda m: m.setattr(math, "pi", 3.0), 4.5),
    "shadowed": (lambda x: x * abs(-2.0), lambda m: m.setitem(globals(), "abs", lambda v: 3.0), 4.5),
    "table of modules": (
        lambda x: x * sys.modules["module_of_a_user"].k,
        lambda m: m.setitem(sys.modules, "module_of_a_user", types.SimpleNamespace(k=4.0)), 6.0,
    ),
    "flags": (lambda x: x * FLAGGED.flags.writeable, lambda m: FLAGGED.setflags(write=False), 0.0),
    "number in an array": (lambda x: x * SCALAR, lambda m: SCALAR.fill(4.0), 6.0),
}  # fmt: skip
REFERRED.weight_a = weight_c = 1.0
FLAGGED, SCALAR = np.zeros(3), np.array(1.0)


@pytest.mark.parametrize("name", MADE_UP)
def test_names_made_at_run_time_and_what_libraries_hold(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, modify, after = MADE_UP[name]
    monkeypatch.setitem(sys.modules, "module_of_a_user", MODULE)
    MODULE.k = 1.0  # type: ignore[attr-defined]
    compiled = tg.jit(function)
    for _ in range(2):
        assert compiled(1.5) == pytest.approx(function(1.5), rel=1e-15)
    assert len(compiled.recompiles) == 1
    modify(monkeypatch)
    assert compiled(1.5) == after == function(1.5)
    assert builtins.getattr is GETATTR and len(compiled.recompiles) == 2


def test_globals_are_those_of_the_module() -> None:
    def count(x: Any) -> Any:
        globals()["COUNTED"] = globals().get("COUNTED", 0) + 1
        globals().update(LAST=len(globals()))
        return x * globals().pop("COUNTED")

    assert tg.jit(count)(1.5) == 1.5 and "COUNTED" not in globals() and globals()["LAST"] > 20


def test_shapes_changed_in_place_and_objects_that_answer_for_themselves() -> None:
    class Doubling:
        factor, k = 2.0, 3.0

        def __getattribute__(self, name: str) -> Any:
            return object.__getattribute__(self, name) * object.__getattribute__(self, "factor")

    array, thing = np.arange(4.0), Doubling()
    noticed(lambda x: x * thing.k, lambda: setattr(Doubling, "factor", 3.0))
    function = tg.jit(lambda x: x * array.shape[0])
    assert function(1.5) == 6.0
    array.shape = (2, 2)
    assert function(1.5) == 3.0


def test_large_arrays_that_decide() -> None:
    large, first = np.zeros(20_000), np.zeros(20_000, int)
    function = tg.jit(lambda x: x * 2 if large[0] > 0 else x * 3)
    assert function(1.5) == 4.5
    large[0] = 1
    assert function(1.5) == 3.0
    for decided in (lambda x: x[first[0]] * 2, lambda x: x * float(large[0]), lambda x: x[first.argmax()]):
        assert Environment(decided).may_decide()
    assert not Environment(lambda x: np.sum(np.exp(large) * x[0])).may_decide()


def test_another_array_is_named_by_its_shape() -> None:
    holder = types.SimpleNamespace(k=np.ones(3))
    environment = Environment(lambda x: x * holder.k)
    holder.k = np.ones(4)
    assert "'k' changed from an array of shape (3,) (pass it as an argument" in environment.changed()
