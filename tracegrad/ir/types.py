"""The type of a value: dtype, dimensions, and whether a Python number made it."""

from __future__ import annotations

import functools

import numpy as np

from tracegrad.ir.dims import DimLike, product
from tracegrad.records import record

# Short names, as in the textual form: f64[3,n].
DTYPE_NAMES: dict[str, np.dtype] = {
    **{
        f"{kind}{8 * size}": np.dtype(f"{kind}{size}")
        for kind in "fiu"
        for size in (1, 2, 4, 8)
        if kind + str(size) != "f1"
    },
    "c64": np.dtype("c8"),
    "c128": np.dtype("c16"),
    "bool": np.dtype(bool),
}
NAME_OF_DTYPE = {dtype: name for name, dtype in DTYPE_NAMES.items()}


@record
class Type:
    """dtype and dims of an array; `weak` marks a 0-d value that stands for a Python number.

    A weak value takes part in NumPy's promotion as the Python number it is (NEP 50): float32 stays float32 beside it.
    """

    dtype: np.dtype
    shape: tuple[DimLike, ...] = ()
    weak: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> DimLike:
        return product(self.shape)

    @property
    def inexact(self) -> bool:
        """Whether the dtype is floating point or complex, so that the value can have a gradient."""
        return self.dtype.kind in "fc"

    def with_shape(self, shape: tuple[DimLike, ...]) -> Type:
        return Type(self.dtype, tuple(shape))

    def with_dtype(self, dtype: np.dtype) -> Type:
        return Type(np.dtype(dtype), self.shape)

    def __str__(self) -> str:
        dims = ",".join(map(str, self.shape))
        return f"{NAME_OF_DTYPE.get(self.dtype, self.dtype)}{'*' if self.weak else ''}[{dims}]"


known_type = functools.lru_cache(maxsize=4096)(Type)  # equal types are one object, while they are in use


def parse_type(text: str) -> Type:
    """The type that prints as `text`, such as f64[3,n] or f64*[] (weak). Raises ValueError."""
    from tracegrad.ir.dims import parse

    name, bracket, dims = text.partition("[")
    if not bracket or not dims.endswith("]") or name.rstrip("*") not in DTYPE_NAMES:
        raise ValueError(f"not a type: {text!r}")
    inner = dims[:-1].strip()
    shape = tuple(parse(part) for part in split_top_level(inner)) if inner else ()
    return Type(DTYPE_NAMES[name.rstrip("*")], shape, name.endswith("*"))


def split_top_level(text: str, separator: str = ",") -> list[str]:
    """`text` split at the separators that stand outside all brackets."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == separator and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]
