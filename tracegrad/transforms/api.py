"""jit, grad and value_and_grad: what a user decorates a function with."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tracegrad.transforms.compiled import CompiledFunction
from tracegrad.transforms.gradient import GradientFunction


def jit(function: Callable[..., Any] | None = None, *, dynamic: bool | None = None) -> Any:
    """Compile a function of arrays, numbers and pytrees of them; use it bare, `@tg.jit`, or called.

    The first call with arguments of a new kind records the function and compiles the trace; later calls run the
    compiled program. ndarrays in give ndarrays out; if any argument is a Tensor, Tensors come out and take part in
    autograd. Arguments that are not arrays or floats are static: another value is another program.

    dynamic: whether one program serves many sizes. None: sizes are fixed at first, and those that change become
        symbols with the second call; True: all are symbols from the first call on; False: other sizes are other
        programs. Axes of 0 or 1, and sizes that Python takes as numbers (`range(n)`), have programs of their own.
    """
    if function is None:
        return functools.partial(jit, dynamic=dynamic)
    return CompiledFunction(function, dynamic)


def value_and_grad(
    function: Callable[..., Any] | None = None,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    allow_unused: bool = False,
    *,
    dynamic: bool | None = None,
) -> Any:
    """A compiled function that returns `(value, gradient)` of a function with a real scalar result.

    argnums: the positional argument, or the tuple of them, to differentiate; each may be a pytree of float arrays.
    has_aux: the function returns `(value, aux)`; the result is then `((value, aux), gradient)`.
    allow_unused: permit a result that depends on no differentiated argument (its gradient is zero).
    dynamic: as for `jit`.

    A gradient has its argument's shape and dtype. Raises NonScalarError for another result than one real number,
    DTypeError for integer arguments in `argnums`.
    """
    if function is None:
        return functools.partial(
            value_and_grad, argnums=argnums, has_aux=has_aux, allow_unused=allow_unused, dynamic=dynamic
        )
    return GradientFunction(function, argnums, has_aux, True, allow_unused, dynamic)


def grad(
    function: Callable[..., Any] | None = None,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    allow_unused: bool = False,
    *,
    dynamic: bool | None = None,
) -> Any:
    """Like `value_and_grad`, but returns the gradient alone, or `(gradient, aux)` with has_aux."""
    if function is None:
        return functools.partial(grad, argnums=argnums, has_aux=has_aux, allow_unused=allow_unused, dynamic=dynamic)
    return GradientFunction(function, argnums, has_aux, False, allow_unused, dynamic)
