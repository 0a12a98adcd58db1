"""What a recording looks up by names made at run time: `getattr(obj, f"w{i}")`, `globals()[name]`, `eval(text)`.

Code does not say these names, so where it calls such a function, that function notes them while it is recorded; for
other threads, and for the code of libraries, it does what it always does.
"""

from __future__ import annotations

import builtins
import functools
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tracegrad.trace.codes import code_names
from tracegrad.trace.dependencies import library
from tracegrad.trace.substitutes import Functions, Substitutes

_NAMES = frozenset(("getattr", "hasattr", "globals", "eval"))


class Lookup(tuple[Any, str]):
    """An object and the name of the attribute that was asked for, or a module's namespace and a key of it."""

    __slots__ = ()


class _Noted(threading.local):
    lookups: list[Lookup] | None = None


_noted = _Noted()


@contextmanager
def lookups_noted(codes: Iterable[types.CodeType]) -> Iterator[list[Any]]:
    """Gives the list of what is looked up inside the block, if one of these codes does so: Lookups, and functions
    whose code is a text that was evaluated."""
    if all(map(_NAMES.isdisjoint, map(code_names, codes))):
        yield []
        return
    outer = _noted.lookups
    lookups: list[Any] = [] if outer is None else outer
    _noted.lookups = lookups
    try:
        with _substitutes.installed():
            yield lookups
    finally:
        _noted.lookups = outer


def _caller() -> types.FrameType | None:
    """The frame of the user's code that called one of the functions below, if this thread records."""
    frame = sys._getframe(2)
    return None if _noted.lookups is None or library(frame.f_globals.get("__name__")) else frame


def _functions() -> Functions:
    return {
        (builtins, "getattr"): _of_attribute(builtins.getattr),
        (builtins, "hasattr"): _of_attribute(builtins.hasattr),
        (builtins, "globals"): _globals(builtins.globals),
        (builtins, "eval"): _eval(builtins.eval),
    }


def _of_attribute(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def looked_up(obj: Any, name: str, /, *default: Any) -> Any:
        if _caller() is not None and type(name) is str:
            _noted.lookups.append(Lookup((obj, name)))  # type: ignore[union-attr]
        return original(obj, name, *default)

    return looked_up


def _globals(original: Callable[[], Any]) -> Callable[[], Any]:
    @functools.wraps(original)
    def namespace() -> Any:
        frame = sys._getframe(1)
        plain = _caller() is None or "exec" in frame.f_code.co_names  # what is executed writes past our copy
        return frame.f_globals if plain else _Globals(frame.f_globals)

    return namespace


def _eval(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def evaluated(source: Any, scope: Any = None, names: Any = None, /) -> Any:
        frame = sys._getframe(1)
        if scope is None:
            scope, names = frame.f_globals, frame.f_locals if names is None else names
        if _caller() is not None and type(scope) is dict:
            code = source if isinstance(source, types.CodeType) else compile(_stripped(source), "<string>", "eval")
            if not code.co_freevars:
                _noted.lookups.append(types.FunctionType(code, scope))  # type: ignore[union-attr]
        return original(source, scope, names)

    return evaluated


def _stripped(source: Any) -> Any:
    return source.lstrip(" \t") if isinstance(source, str) else source


def _written(name: str) -> Any:
    """A method of dicts that changes a namespace and our copy of it."""

    def write(self: _Globals, *args: Any, **kwargs: Any) -> Any:
        getattr(dict, name)(self, *args, **kwargs)
        return getattr(self._namespace, name)(*args, **kwargs)

    return write


class _Globals(dict[str, Any]):
    """The globals of a module, with a note of each name that is read; what is written goes to the module."""

    def __init__(self, namespace: dict[str, Any]):
        super().__init__(namespace)
        self._namespace = namespace

    def _note(self, name: Any) -> None:
        if _noted.lookups is not None and type(name) is str:
            _noted.lookups.append(Lookup((self._namespace, name)))

    def __getitem__(self, name: str) -> Any:
        self._note(name)
        return self._namespace[name]

    def get(self, name: str, default: Any = None) -> Any:
        """As that of a dict."""
        self._note(name)
        return self._namespace.get(name, default)

    def __contains__(self, name: object) -> bool:
        self._note(name)
        return name in self._namespace

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._namespace[name] = value

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        del self._namespace[name]

    update, setdefault, pop = _written("update"), _written("setdefault"), _written("pop")
    popitem, clear = _written("popitem"), _written("clear")


_substitutes = Substitutes(_functions)
