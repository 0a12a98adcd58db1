"""How plain NumPy code reaches tracegrad: `__array_ufunc__` and `__array_function__` look operations up here.

Modules of operations fill the two tables with the decorators below; nothing else decides what NumPy dispatches to.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tracegrad.errors import UnsupportedError
from tracegrad.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

ufuncs: dict[np.ufunc, Callable[..., Any]] = {}
ufunc_methods: dict[tuple[np.ufunc, str], Callable[..., Any]] = {}
functions: dict[Callable[..., Any], Callable[..., Any]] = {}


def implements(*numpy_functions: Callable[..., Any]) -> Callable[[F], F]:
    """Register the decorated function as what these NumPy functions (or ufuncs) mean for Tensors."""

    def register(function: F) -> F:
        for target in numpy_functions:
            (ufuncs if isinstance(target, np.ufunc) else functions)[target] = function  # type: ignore[index]
        return function

    return register


def array_ufunc(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Tensor.__array_ufunc__: np.exp(x), np.add(x, y, out=z), np.add.reduce(x), …"""
    if method == "__call__":
        function = ufuncs.get(ufunc) or _scipy_function(ufunc)
        if function is None:
            owner = "np." if getattr(np, ufunc.__name__, None) is ufunc else "the ufunc "
            raise _unsupported(f"{owner}{ufunc.__name__}", [u.__name__ for u in ufuncs])
        if not kwargs:
            result = function(*inputs)
            plain = type(result) is Tensor and (result._array is not None or not result._var.type.weak)
            return result if plain else strong(result)
        from tracegrad.ops.ufunc_arguments import call_with_arguments

        return call_with_arguments(ufunc, function, inputs, kwargs)
    reduction = ufunc_methods.get((ufunc, method))
    if reduction is None:
        raise _unsupported(f"np.{ufunc.__name__}.{method}", [f"{u.__name__}.{m}" for u, m in ufunc_methods])
    return reduction(*inputs, **kwargs)


def strong(result: Any) -> Any:
    """A Python number that went through a ufunc is one of NumPy's: np.tanh(0.5) is a float64, 0.5 * 2 is not."""
    if isinstance(result, Tensor) and result._array is None and result._var.type.weak:
        from tracegrad.ops.casting import astype

        return astype(result, result.dtype)
    return result


def array_function(self: Any, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
    """Tensor.__array_function__: np.sum(x), np.concatenate([x, y]), np.linalg.solve(a, b), …"""
    function = functions.get(func)
    if function is None:
        name = f"{func.__module__}.{func.__name__}".replace("numpy", "np", 1)
        raise _unsupported(name, [f.__name__ for f in functions])
    return function(*args, **kwargs)


def _scipy_function(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """What a ufunc of scipy.special means. The table is filled on first use, so that others need not import SciPy."""
    special = sys.modules.get("scipy.special")
    if special is None or getattr(special, ufunc.__name__, None) is not ufunc:
        return None
    importlib.import_module("tracegrad.scipy.special")
    return ufuncs.get(ufunc)


def _unsupported(name: str, known: list[str]) -> UnsupportedError:
    import difflib

    near = difflib.get_close_matches(name.rsplit(".", 1)[-1], known, 3, cutoff=0.7)
    hint = f"near it there are: {', '.join(near)}; " if near else ""
    return UnsupportedError(
        f"{name} is not one of the functions tracegrad differentiates",
        fix=hint + "write it with functions it has, or wrap the call in a tg.Function with its own backward",
    )
