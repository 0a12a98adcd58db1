"""What code objects say of themselves: the names they load, and the strings that are names."""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Iterator, Set
from typing import Any

BY_STRING = frozenset(("globals", "locals", "eval", "exec"))  # functions that take names as strings
_MODULES = frozenset(("modules", "import_module", "__import__"))


def code_names(code: types.CodeType) -> Iterator[str]:
    """The names that a code object and those within it load."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_names(constant)


_LOADS_GLOBAL = dis.opmap["LOAD_GLOBAL"]
_LOADS_NAME = frozenset(dis.opmap[n] for n in ("LOAD_NAME", "DELETE_GLOBAL", "DELETE_NAME") if n in dis.opmap)
_SHIFT = 1 if sys.version_info >= (3, 11) else 0  # of the number of a global's name


@functools.cache
def loaded_globals(code: types.CodeType) -> frozenset[str]:
    """The names that a code object and those within it look up in the globals of their module."""
    names, number = set(), 0
    instructions = code.co_code
    for place in range(0, len(instructions), 2):
        operation, number = instructions[place], number << 8 | instructions[place + 1]
        if operation == dis.EXTENDED_ARG:
            continue
        if operation == _LOADS_GLOBAL:
            names.add(code.co_names[number >> _SHIFT])
        elif operation in _LOADS_NAME:
            names.add(code.co_names[number])
        number = 0
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= loaded_globals(constant)
    return frozenset(names)


def _strings(code: types.CodeType) -> Iterator[str]:
    """The strings in a code object and those within it."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _strings(constant)
        elif isinstance(constant, str):
            yield constant


def modules_named(code: types.CodeType, names: Set[str], package: Any) -> set[str]:
    """The modules that a code object imports, or looks up in `sys.modules`."""
    found: set[str] = set()
    if _imports(code):
        found.update(names, (f"{package}.{name}" for name in names))
    if not names.isdisjoint(_MODULES):
        found.update(_strings(code))
    return {name for name in found if isinstance(sys.modules.get(name), types.ModuleType)}


def _imports(code: types.CodeType) -> bool:
    """Whether a code object or one within it has an import statement."""
    if dis.opmap["IMPORT_NAME"] in code.co_code[::2]:
        return True
    return any(isinstance(c, types.CodeType) and _imports(c) for c in code.co_consts)


def identifiers(code: types.CodeType) -> Iterator[str]:
    """The strings in a code object that are names, or words of an expression where it is evaluated."""
    evaluated = not BY_STRING.isdisjoint(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from identifiers(constant)
        elif isinstance(constant, str) and (constant.isidentifier() or evaluated):
            yield from (w for w in "".join(c if c.isalnum() or c == "_" else " " for c in constant).split())
