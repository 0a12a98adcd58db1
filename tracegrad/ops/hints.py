"""What to write instead, in errors about values that would become plain numbers.

Who asked for the numbers is found among the frames between the user's and ours, if it is SciPy's Python code or a
masked array; else what stands on the user's line says it. Only names that exist are offered.
"""

from __future__ import annotations

import importlib
import linecache
import re
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, FrameType

import numpy as np

from tracegrad.errors import is_internal
from tracegrad.ir.graph import Location

_LISTS_OF_VALUES = "give np.{0} of a list of values np.stack(values)"
_INSTEAD = (
    (r"\bnp\.(?:array|asarray)\(", "write np.stack for np.array (or np.asarray) of a list of values"),
    (r"\bnp\.(asarray|asanyarray|ascontiguousarray|asfortranarray)\(", "leave np.{0} of a value itself away"),
    (r"\bnp\.(sum|mean|max|min|prod|std|var|median)\((?!\s*np\.)", _LISTS_OF_VALUES),
    (r"\bnp\.(?!array|as\w+array|\w*stack|concatenate|block|einsum|select|choose)(\w+)\(\s*\[", _LISTS_OF_VALUES),
    (r"\bnp\.float(?:32|64)\(|\bfloat\(", "leave float() away, or use .astype to change the dtype"),
    (r"\bint\(", "use np.floor or np.trunc, which stay in the trace"),
    (
        r"\[[^\]]*\]\s*=[^=]|\bnp\.copyto\(|\.fill\(",
        "make the target a Tensor with np.zeros_like(x), or build it with np.stack or np.where",
    ),
    (r"\.(dot|clip|take|searchsorted|repeat|choose)\(", "write np.{0}(a, x) for the method a.{0}(x) of a plain array"),
    (r"\bnp\.r_\[", "write np.concatenate for np.r_"),
    (r"\bnp\.c_\[", "write np.column_stack for np.c_"),
    (r"\bnp\.full\(", "write x * np.ones(shape) for np.full(shape, x)"),
    (r"\bnp\.arange\((?![\d.,\s-]*\))", "write x + np.arange(n) for np.arange(x, x + n)"),
    (r"\bnp\.vectorize\(", "call the function on arrays, or by tg.vmap, without np.vectorize"),
    (r"\bnp\.(polyval|fromiter)\(", "give np.stack of the values where a list of them is"),
    (r"\.(normal|uniform|poisson)\(", "draw numbers that do not depend on x, and scale and shift them"),
)
_OF_MATH = {
    "fsum": "np.sum", "sumprod": "np.dot", "pow": "np.power", "dist": "np.linalg.norm(a - b)",
    "erf": "scipy.special.erf", "erfc": "scipy.special.erfc", "gamma": "scipy.special.gamma",
    "lgamma": "scipy.special.gammaln",
}  # fmt: skip
_OURS = ("scipy.special", "scipy.linalg", "scipy.stats")
_USUAL = "write np.sin for math.sin, np.stack for np.array of a list of values, and write into np.zeros_like(x)"
_OWN_RULE = "wrap {0} in a tg.Function with its own backward"
_OF_SPARSE = "write A.toarray() for a sparse matrix A, or wrap A @ x in a tg.Function, whose backward is A.T @ g"
_OF_MASKED = "write a.filled(value) for a masked array a, or use its data and its mask"


def instead(location: Location | None) -> list[str]:
    """What to write for what asked for the numbers. The lines typed at a prompt are not kept: then the usual."""
    line = linecache.getline(location.file, location.line) if location is not None else ""
    user, libraries = _frames()
    hint = _of_libraries(libraries, line)
    if hint is not None:
        return [hint]
    if not line:
        return [_USUAL]
    found = [*_of_math(line, user), *_of_line(line), *_of_scipy(line)]
    return list(dict.fromkeys(found)) or [_OWN_RULE.format("what needs plain numbers")]


def _frames() -> tuple[FrameType | None, list[FrameType]]:
    """The user's innermost frame, and those inside it that are a library's or ours, outer ones first."""
    inside = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame.f_code):
        inside.append(frame)
        frame = frame.f_back
    return frame, inside[::-1]


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _of_libraries(frames: list[FrameType], line: str) -> str | None:
    scipy = [f for f in frames if _module(f).startswith("scipy.")]
    if scipy:
        return _of_scipy_frames(scipy, line)
    return _OF_MASKED if any(_module(f).startswith("numpy.ma.") for f in frames) else None


def _of_scipy_frames(frames: list[FrameType], line: str) -> str:
    for frame in frames:
        package = _public_module(frame)
        if package is None:
            continue
        if package.startswith("scipy.sparse") and not package.startswith("scipy.sparse.linalg"):
            return _OF_SPARSE
        name = frame.f_code.co_qualname.split(".")[0]
        if _is_ours(package, name):
            return f"use tracegrad.{package}.{name}"
        method = _method_of_ours(package, frame.f_code.co_name, line)
        if method is not None:
            return f"use tracegrad.{package}.{method}"
        if name in getattr(sys.modules[package], "__all__", ()):
            return _OWN_RULE.format(f"the call of {package}.{name}")
    return _OWN_RULE.format("the call into SciPy")


def _public_module(frame: FrameType) -> str | None:
    """The module under whose name users know the function of a frame: scipy.linalg of scipy.linalg._basic."""
    parts = _module(frame).split(".")
    public = next((i for i, part in enumerate(parts) if part.startswith("_")), len(parts))
    return ".".join(parts[:public]) if public > 1 else None


def _is_ours(package: str, name: str) -> bool:
    """Whether tracegrad has this function of SciPy under its name."""
    return package in _OURS and name in importlib.import_module(f"tracegrad.{package}").__all__


def _method_of_ours(package: str, method: str, line: str) -> str | None:
    """`norm.pdf` where the frame is that of a method pdf and the line says norm, for a distribution tracegrad has."""
    for word in re.findall(r"\w+", line):
        if _is_ours(package, word) and hasattr(getattr(sys.modules[f"tracegrad.{package}"], word), method):
            return f"{word}.{method}"
    return None


def _of_math(line: str, user: FrameType | None) -> Iterator[str]:
    """For functions of math, which are also recognised by the names under which they were imported."""
    for name in re.findall(r"\bmath\.(\w+)", line):
        yield from _numpy_for(name, f"math.{name}")
    for word in re.findall(r"(?<![\w.])(\w+)\(", line) if user is not None else ():
        known = user.f_globals.get(word)  # type: ignore[union-attr]
        if type(known) is BuiltinFunctionType and known.__module__ == "math":
            yield from _numpy_for(known.__name__, f"{word} of math")


def _numpy_for(name: str, said: str) -> Iterator[str]:
    if name in _OF_MATH or callable(getattr(np, name, None)):
        yield f"write {_OF_MATH.get(name, f'np.{name}')} for {said}"


def _of_line(line: str) -> Iterator[str]:
    for pattern, hint in _INSTEAD:
        match = re.search(pattern, line)
        if match:
            yield hint.format(*match.groups())


def _of_scipy(line: str) -> Iterator[str]:
    """For functions of SciPy that are compiled, so that no frame tells of them."""
    for module, name in re.findall(r"(?<!np\.)(?<!numpy\.)\b(special|linalg|stats)\.(\w+)", line):
        if _is_ours(f"scipy.{module}", name):
            yield f"use tracegrad.scipy.{module}.{name}"
