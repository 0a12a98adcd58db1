"""Attribute values as text: what the printer writes inside `{…}` and the parser reads there.

Numbers are written so that they come back bit for bit. What has no text (large arrays, functions, foreign objects) is
written as `@name` and looked up in an environment when it is read.
"""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tracegrad.ir.dims import Dim
from tracegrad.ir.dims import parse as parse_dim
from tracegrad.ir.types import DTYPE_NAMES, NAME_OF_DTYPE, Type, parse_type

SMALL = 64  # elements; larger arrays are not written out

_UNSIGNED = {2: np.uint16, 4: np.uint32, 8: np.uint64}
_WORDS: dict[str, Any] = {"None": None, "True": True, "False": False, "...": ..., **DTYPE_NAMES}


# ---- writing ----


def format_value(value: Any, environment: dict[str, Any]) -> str:
    """The text of an attribute. What cannot be written is put into `environment` under the name that stands for it."""
    kind = type(value)
    if kind is int or kind is bool or value is None or kind is Dim:
        return str(value)
    if kind is str:
        return repr(value)
    if kind is tuple:
        return "(" + ", ".join(format_value(v, environment) for v in value) + ("," if len(value) == 1 else "") + ")"
    if kind is float or kind is complex:
        return format_number(value, np.dtype(kind))
    if isinstance(value, np.dtype) and value in NAME_OF_DTYPE:
        return NAME_OF_DTYPE[value]
    if kind is Type:
        return str(value)
    if isinstance(value, np.ndarray) and value.dtype in NAME_OF_DTYPE:
        return str(Type(value.dtype, value.shape)) + f"<{_elements(value, environment)}>"
    if isinstance(value, np.generic) and value.dtype in NAME_OF_DTYPE:
        return f"{NAME_OF_DTYPE[value.dtype]}<{format_number(value, value.dtype)}>"
    if kind is slice:
        return "slice" + format_value((value.start, value.stop, value.step), environment)
    return "..." if value is ... else _name(value, environment)


def _elements(array: np.ndarray, environment: dict[str, Any]) -> str:
    if array.size > SMALL:
        return _name(array, environment)
    return ", ".join(format_number(x, array.dtype) for x in array.ravel())


def _name(value: Any, environment: dict[str, Any]) -> str:
    stem = "array" if isinstance(value, np.ndarray) else getattr(value, "__name__", type(value).__name__)
    stem = re.sub(r"\W", "_", stem)
    name, number = stem, 1
    while name in environment and environment[name] is not value:
        name, number = f"{stem}_{number}", number + 1
    environment[name] = value
    return "@" + name


def format_number(value: Any, dtype: np.dtype) -> str:
    """A number of that dtype as text that reads back to the same bits."""
    if dtype.kind == "b":
        return str(bool(value))
    if dtype.kind in "iu":
        return str(int(value))
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return f"complex({format_number(value.real, part)}, {format_number(value.imag, part)})"
    number = dtype.type(value)
    if number != number:
        return _format_nan(number)
    if dtype.itemsize == 8:
        return repr(float(number))
    short = str(number)  # shortest for its own precision, unless it rounds twice on the way back
    exact = repr(float(number))
    return short if "." in short and dtype.type(float(short)) == number else exact


def _format_nan(number: Any) -> str:
    unsigned = _UNSIGNED[number.dtype.itemsize]
    bits = number.view(unsigned)
    for text, usual in (("nan", number.dtype.type(np.nan)), ("-nan", -number.dtype.type(np.nan))):
        if bits == usual.view(unsigned):
            return text
    return f"nan({int(bits):#x})"


# ---- reading: the patterns are compiled when they are first used, since printing needs none ----

_SPACE = r"(?:\s+|#[^\n]*)*"
_DTYPES = "|".join(sorted(DTYPE_NAMES, key=len, reverse=True))
TYPE = rf"(?:{_DTYPES})\*?\[[^\]]*\]"
NAME = r"[A-Za-z_][\w.]*"
STRING = r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\""
_COMPLEX = r"complex\("
_FLOAT = r"-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf\b|nan\b(?:\(0x[0-9a-f]+\))?)"
_INTEGER = r"-?\d+(?![\w.*+-])"
_WORD = r"\.\.\.|[A-Za-z_]\w*(?![\w*+(-])"
_SCALAR = rf"({_DTYPES})<"
_REFERENCE = r"@(\w+)"
_DIM = r"-?(?:\d+\*)?[A-Za-z_]\w*"


@functools.cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, ready to be matched."""
    return re.compile(pattern)


class Scanner:
    """A position in a text. Spaces, line ends and comments from `#` on separate and mean nothing."""

    def __init__(self, text: str, environment: Mapping[str, Any]):
        self.text, self.environment, self.position = text, environment, 0
        self.skip()

    def skip(self) -> None:
        match = compiled(_SPACE).match(self.text, self.position)
        self.position = match.end() if match else self.position

    def take(self, pattern: str) -> re.Match[str] | None:
        """The match of `pattern` here, which is then behind the position; None if there is none."""
        match = compiled(pattern).match(self.text, self.position)
        if match is not None:
            self.position = match.end()
            self.skip()
        return match

    def accept(self, token: str) -> bool:
        """Whether `token` stands here; if so it is then behind the position."""
        if not self.text.startswith(token, self.position):
            return False
        self.position += len(token)
        self.skip()
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.error(f"expected {token!r}")

    def error(self, message: str) -> ValueError:
        """A ValueError that shows the line."""
        line = self.text.count("\n", 0, self.position) + 1
        shown = self.text.splitlines()[line - 1 : line]
        column = self.position - (self.text.rfind("\n", 0, self.position) + 1)
        return ValueError(f"line {line}: {message}\n  {''.join(shown)}\n  {' ' * column}^")

    def sequence(self, end: str) -> list[Any]:
        """Values separated by commas, up to and including `end`."""
        values: list[Any] = []
        while not self.accept(end):
            if values:
                self.expect(",")
                if self.accept(end):
                    break
            values.append(self.value())
        return values

    def value(self) -> Any:
        """The attribute value that stands here."""
        if self.accept("("):
            return tuple(self.sequence(")"))
        if match := self.take(STRING):
            return _unquote(match.group())
        if match := self.take(TYPE):
            return self._array(parse_type(match.group())) if self.accept("<") else parse_type(match.group())
        if match := self.take(_SCALAR):
            return self._numbers(DTYPE_NAMES[match.group(1)], ())[()]
        if match := self.take(_REFERENCE):
            return self._lookup(match.group(1))
        if self.accept("slice("):
            return slice(*self.sequence(")"))
        for pattern, kind in ((_COMPLEX, complex), (_FLOAT, float)):
            if compiled(pattern).match(self.text, self.position):
                return self._number(np.dtype(kind)).item()
        if match := self.take(_INTEGER):
            return int(match.group())
        match = compiled(_WORD).match(self.text, self.position)
        if match is not None and match.group() in _WORDS:
            self.take(_WORD)
            return _WORDS[match.group()]
        return self._dim()

    def _array(self, type: Type) -> np.ndarray:
        if match := self.take(_REFERENCE):
            self.expect(">")
            array: np.ndarray = self._lookup(match.group(1))
            return array
        if not all(isinstance(d, int) for d in type.shape):
            raise self.error("an array literal needs a shape of integers")
        return self._numbers(type.dtype, type.shape)  # type: ignore[arg-type]

    def _numbers(self, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        numbers: list[Any] = []
        while not self.accept(">"):
            if numbers:
                self.expect(",")
            numbers.append(self._number(dtype))
        if len(numbers) != math.prod(shape):
            raise self.error(f"{len(numbers)} numbers for an array of shape {shape}")
        return np.array(numbers, dtype).reshape(shape)

    def _number(self, dtype: np.dtype) -> Any:
        """One number of that dtype, bit for bit."""
        if self.take(_COMPLEX):
            number = np.empty((), dtype)
            number.real = self._number(number.real.dtype)
            self.expect(",")
            number.imag = self._number(number.real.dtype)
            self.expect(")")
            return number[()]
        if match := self.take(_FLOAT):
            text = match.group()
            if "(" in text:
                bits = np.array(int(text[4:-1], 16), _UNSIGNED[dtype.itemsize])
                return bits.view(dtype)[()]
            return dtype.type(float(text))
        if match := self.take(_INTEGER):
            return dtype.type(int(match.group()))
        match = self.take(_WORD)
        if match is None or match.group() not in ("True", "False"):
            raise self.error(f"not a number of dtype {dtype}")
        return dtype.type(match.group() == "True")

    def _lookup(self, name: str) -> Any:
        if name not in self.environment:
            raise self.error(f"@{name} stands for a value without text; give it in the environment")
        return self.environment[name]

    def _dim(self) -> Any:
        depth, end = 0, self.position
        while end < len(self.text) and not (depth == 0 and self.text[end] in ",)}>\n"):
            depth += (self.text[end] == "(") - (self.text[end] == ")")
            end += 1
        try:
            dim = parse_dim(self.text[self.position : end].strip())
        except ValueError:
            raise self.error("not a value") from None
        self.position = end
        self.skip()
        return dim


def _unquote(text: str) -> str:
    value = ast.literal_eval(text)
    assert isinstance(value, str)
    return value
