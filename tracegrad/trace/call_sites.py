"""What a frame is calling, as far as its bytecode says it by names: `np.zeros(n)`, `zeros(n)`, `self.xp.zeros(n)`.

A function of NumPy's may be called by Python code or by C code, which has no frame of its own: the frame that it sees
is that of the Python code that called the C code. Only the instruction tells them apart.
"""

from __future__ import annotations

import builtins
import dis
import functools
from types import CodeType, FrameType
from typing import Any

_ROOTS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_BESIDE = frozenset(("PUSH_NULL", "PRECALL", "KW_NAMES", "EXTENDED_ARG", "NOP"))  # they belong to any call
_MISSING = object()


def calls(frame: FrameType, function: Any) -> bool:
    """Whether the present instruction of a frame is a call of `function`, for all we can tell; if not, C code called
    it, or Python code in a way that leaves no names."""
    names = _called(frame.f_code, frame.f_lasti)
    return bool(names) and _value(frame, names) is function


@functools.lru_cache(maxsize=1024)
def _called(code: CodeType, offset: int) -> tuple[str, ...]:
    """The dotted name that the call at this offset calls; empty if it is something else. What names the function stands
    in the source where the call begins, arguments do not."""
    before = [i for i in dis.get_instructions(code) if i.offset <= offset]  # which may be that of a call's cache
    call = before.pop()
    start = _start(call)
    if not call.opname.startswith("CALL") or start is None:
        return ()
    names: tuple[str, ...] = ()
    for instruction in before:
        if instruction.opname in _BESIDE or _start(instruction) != start:
            continue
        if instruction.opname.startswith(_ROOTS):
            names = (instruction.argval,)
        elif instruction.opname in _ATTRIBUTES and names:
            names = (*names, instruction.argval)
        else:
            names = ()
    return names if all(isinstance(name, str) for name in names) else ()


def _start(instruction: dis.Instruction) -> tuple[int, int] | None:
    where = instruction.positions
    if where is None or where.lineno is None or where.col_offset is None:
        return None
    return where.lineno, where.col_offset


def _value(frame: FrameType, names: tuple[str, ...]) -> Any:
    """What a dotted name means, without running code of attributes."""
    root, *attributes = names
    scopes = (frame.f_locals, frame.f_globals, vars(builtins))
    value = next((scope[root] for scope in scopes if root in scope), _MISSING)
    for name in attributes:
        value = getattr(value, "__dict__", {}).get(name, _MISSING)
    return value
