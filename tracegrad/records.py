"""Dataclasses with slots that cost little to define, frozen unless said.

`dataclasses.dataclass` compiles six methods of a frozen class when it is defined. The compiler has some hundred such
classes, and defining them took longer than all else in its import. A record has the same fields, methods and errors
(`dataclasses.replace`, `fields` and `is_dataclass` know it too), but of its methods only `__init__` is compiled, and
that when the first instance is made; nor are annotations read, which `dataclass` does to find class variables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

Class = TypeVar("Class", bound=type)


@overload
def record(cls: Class) -> Class: ...


@overload
def record(*, eq: bool = True, frozen: bool = True) -> Callable[[Class], Class]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(cls: Any = None, *, eq: bool = True, frozen: bool = True) -> Any:
    """The class as `dataclass(frozen=frozen, slots=True, eq=eq)` makes it; one that is not frozen is its own equal
    alone."""
    return (lambda c: _make(c, eq and frozen, frozen)) if cls is None else _make(cls, eq, frozen)


def _make(cls: type, eq: bool, frozen: bool) -> type:
    fields = _fields(cls)
    own: dict[str, Any] = cls.__annotations__
    body = {k: v for k, v in vars(cls).items() if k not in own and k not in ("__dict__", "__weakref__")}
    inherited = {name for base in cls.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
    body |= {
        "__slots__": tuple(name for name in own if name not in inherited),
        "__dataclass_fields__": fields,
        "__match_args__": tuple(f.name for f in fields.values() if f.init),
        "__init__": _first_init,
        "__repr__": _repr,
        "__reduce__": _reduce,
    }
    if frozen:
        body |= {"__setattr__": _setattr, "__delattr__": _delattr}
    if eq:
        body |= _comparison([f.name for f in fields.values() if f.compare])
    made = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    return made


def _fields(cls: type) -> dict[str, Any]:
    """The fields of a class as `dataclass` finds them, of its bases first. All annotations stand for fields."""
    fields: dict[str, Any] = {}
    for base in cls.__mro__[-1:0:-1]:
        fields |= getattr(base, "__dataclass_fields__", {})
    for name, annotation in cls.__annotations__.items():
        value = cls.__dict__.get(name, dataclasses.MISSING)
        field: Any = value if isinstance(value, dataclasses.Field) else dataclasses.field(default=value)
        field.name, field.type, field.kw_only = name, annotation, False
        field._field_type = dataclasses._FIELD  # type: ignore[attr-defined]
        fields[name] = field
    return fields


def _comparison(names: list[str]) -> dict[str, Any]:
    """`__eq__` and `__hash__` by the values of these fields."""
    get = attrgetter(*names) if names else lambda instance: ()
    values = get if len(names) != 1 else lambda instance: (get(instance),)

    def __eq__(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash((self.__class__, values(self)))

    return {"__eq__": __eq__, "__hash__": __hash__}


def _first_init(self: Any, *args: Any, **kwargs: Any) -> None:
    """Compiles the class's own `__init__`, which takes this one's place."""
    for cls in type(self).__mro__:
        if cls.__dict__.get("__init__") is _first_init:
            cls.__init__ = _compile_init(cls)  # type: ignore[misc]
    self.__init__(*args, **kwargs)


def _compile_init(cls: type) -> Any:
    scope: dict[str, Any] = {"_set": object.__setattr__, "_absent": dataclasses.MISSING}
    parameters, lines = ["self"], []
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        name = field.name
        if field.init:
            parameters.append(name)
        if field.default is not dataclasses.MISSING:
            scope[f"_default_{name}"] = field.default
            if field.init:
                parameters[-1] += f"=_default_{name}"
            else:
                lines.append(f"    {name} = _default_{name}")
        elif field.default_factory is not dataclasses.MISSING:
            scope[f"_make_{name}"] = field.default_factory
            if field.init:
                parameters[-1] += "=_absent"
            lines.append(f"    {name} = _make_{name}()" + (f" if {name} is _absent else {name}" if field.init else ""))
        if field.init or field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING:
            lines.append(f"    _set(self, {name!r}, {name})")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines or ["    pass"]), scope)
    init = scope["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _repr(self: Any) -> str:
    fields = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(fields)})"


def _setattr(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _reduce(self: Any) -> tuple[Any, ...]:
    return _rebuild, (type(self), tuple(getattr(self, f.name) for f in dataclasses.fields(self)))


def _rebuild(cls: Any, values: tuple[Any, ...]) -> Any:
    instance = object.__new__(cls)
    for field, value in zip(dataclasses.fields(cls), values, strict=True):
        object.__setattr__(instance, field.name, value)
    return instance
