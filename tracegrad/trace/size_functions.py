"""Python's and NumPy's functions that make a number or an array of a size, while sizes are symbolic.

`len(x)` has to be an int, and `np.zeros(n)` or `np.arange(n)` look at no Tensor that could answer for them; so a
recording would hold for one size only. While a user's function is recorded with symbolic sizes these functions stand
aside for tracegrad's where they are given such a size, and do in all other calls, of any thread, what they always do.
They are found by name: one that a module has bound under a name of its own gives a number, which is right as well.
"""

from __future__ import annotations

import builtins
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tracegrad.ir.dims import Dim
from tracegrad.ir.sizes import Size, active
from tracegrad.ops import creation
from tracegrad.tensor import Tensor

_NUMPY = ("arange", "empty", "eye", "full", "identity", "linspace", "ones", "zeros")
_lock = threading.Lock()
_former: dict[tuple[Any, str], Any] = {}
_recordings = 0


@contextmanager
def functions_of_sizes() -> Iterator[None]:
    """Inside the block they take symbolic sizes, if this thread records with such."""
    global _recordings
    if active.sizes is None:
        yield
        return
    with _lock:
        _recordings += 1
        if _recordings == 1:
            _install()
    try:
        yield
    finally:
        with _lock:
            _recordings -= 1
            if not _recordings:
                _remove()


def _install() -> None:
    _former[builtins, "len"] = builtins.len
    builtins.len = _length(builtins.len)
    for name in _NUMPY:
        _former[np, name] = getattr(np, name)
        ours = getattr(creation, f"_numpy_{name}", None) or getattr(creation, name)
        setattr(np, name, _of_sizes(getattr(np, name), ours))


def _remove() -> None:
    for (module, name), function in _former.items():
        setattr(module, name, function)
    _former.clear()


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
        return ours(*args, **kwargs) if given else original(*args, **kwargs)

    return made


def _has_size(value: Any) -> bool:
    return isinstance(value, Size) or (isinstance(value, (tuple, list)) and any(isinstance(v, Dim) for v in value))
