"""Python's and NumPy's functions that make a number or an array of a size, while sizes are symbolic.

`len(x)` has to be an int, and `np.zeros(n)` or `np.arange(n)` look at no Tensor that could answer for them; so a
recording would hold for one size only. While a user's function is recorded with symbolic sizes these functions stand
aside for tracegrad's where they are given such a size, and do in all other calls, of any thread, what they always do.
They are found by name: one that a module has bound under a name of its own gives a number, which is right as well.
`np.prod(x.shape)` and its kin stay sizes, which count as NumPy's integers.

C code finds the functions by name too, as NumPy's generators of random numbers do, and takes what they return for an
array without a look; so a Tensor goes only to Python code whose present instruction calls the function.
"""

from __future__ import annotations

import builtins
import functools
import math
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from tracegrad.ir.dims import Dim
from tracegrad.ir.sizes import Size, active, plain
from tracegrad.ops import creation
from tracegrad.tensor import Tensor
from tracegrad.trace.call_sites import calls
from tracegrad.trace.substitutes import Functions, Substitutes

_NUMPY = ("arange", "empty", "eye", "full", "identity", "linspace", "ones", "zeros")
_OF_SHAPES = {"max": builtins.max, "min": builtins.min, "prod": math.prod, "sum": builtins.sum}


def functions_of_sizes() -> AbstractContextManager[None]:
    """Inside the block they take symbolic sizes, if this thread records with such."""
    return nullcontext() if active.sizes is None else _substitutes.installed()


def _functions() -> Functions:
    functions: dict[tuple[Any, str], Any] = {(builtins, "len"): _length(builtins.len)}
    for name in _NUMPY:
        ours = getattr(creation, f"_numpy_{name}", None) or getattr(creation, name)
        functions[np, name] = _of_sizes(getattr(np, name), ours)
    for name, python in _OF_SHAPES.items():
        functions[np, name] = _of_shapes(getattr(np, name), python)
    return functions


_substitutes = Substitutes(_functions)


def _length(original: Callable[[Any], int]) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def length(obj: Any, /) -> Any:
        if active.sizes is not None and type(obj) is Tensor and obj.is_traced and obj.ndim:
            return obj.shape[0]
        return original(obj)

    return length


def _of_sizes(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def made(*args: Any, **kwargs: Any) -> Any:
        given = active.sizes is not None and any(map(_has_size, (*args, *kwargs.values())))
        direct = given and calls(sys._getframe(1), made)
        return ours(*args, **kwargs) if direct else original(*args, **kwargs)

    return made


def _of_shapes(original: Callable[..., Any], python: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def reduced(a: Any, *args: Any, **kwargs: Any) -> Any:
        sizes = active.sizes
        if sizes is None or args or kwargs or not isinstance(a, (tuple, list)) or not _is_shape(a):
            return original(a, *args, **kwargs)
        found = python(a)
        return sizes.size(plain(found), of_numpy=True) if isinstance(found, Size) else np.int64(found)

    return reduced


def _is_shape(values: Iterable[Any]) -> bool:
    return all(isinstance(v, (Size, int)) for v in values) and any(isinstance(v, Size) for v in values)


def _has_size(value: Any) -> bool:
    return isinstance(value, Size) or (isinstance(value, (tuple, list)) and any(isinstance(v, Dim) for v in value))
