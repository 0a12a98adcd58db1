"""One call of a NumPy or SciPy function, checked in every way: eager and traced values, derivatives to second order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.ops.derivatives import check_derivatives
from tracegrad.autograd.node import type_of
from tracegrad.ir.interpret import interpret
from tracegrad.state import setting
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace


def is_operand(x: Any) -> bool:
    """What becomes a Tensor: arrays of floating point or complex numbers."""
    return isinstance(x, np.ndarray) and x.dtype.kind in "fc"


def operands(args: Any) -> Iterator[np.ndarray]:
    """The operands in nested lists and tuples, in order."""
    if is_operand(args):
        yield args
    elif isinstance(args, (list, tuple)):
        for a in args:
            yield from operands(a)


def replaced(args: Any, values: Iterator[Any]) -> Any:
    """`args` with the operands replaced one by one."""
    if is_operand(args):
        return next(values)
    return type(args)(replaced(a, values) for a in args) if type(args) in (list, tuple) else args


def flat(results: Any) -> list[Any]:
    """The arrays of a result, which may be a list or tuple of them."""
    return [r for part in results for r in flat(part)] if isinstance(results, (list, tuple)) else [results]


def plain(x: Any) -> Any:
    return x._value() if isinstance(x, Tensor) else x


def assert_same(found: Any, expected: Any, rtol: float = 1e-12) -> None:
    """Same shapes, dtypes and values; float32 to its own precision."""
    found, expected = flat(found), flat(expected)
    assert len(found) == len(expected)
    for f, e in zip(found, expected, strict=True):
        f, e = np.asarray(plain(f)), np.asarray(e)
        assert (f.shape, f.dtype) == (e.shape, e.dtype)
        exact = e.dtype.kind not in "fc"
        single = e.dtype in (np.dtype("f4"), np.dtype("c8"))
        relative, absolute = (0, 0) if exact else (2e-6, 1e-6) if single else (rtol, 1e-13)
        np.testing.assert_allclose(f, e, relative, absolute)


def check_function(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    order: int = 2,
    expected: Callable[..., Any] | None = None,
) -> None:
    """`function` on Tensors, eager and traced, gives what `expected` (by default itself) gives on the arrays."""
    kwargs = kwargs or {}
    with np.errstate(all="ignore"):
        wanted = (expected or function)(*args, **kwargs)
        arrays = list(operands(args))

        def call(*values: Any) -> Any:
            return function(*replaced(args, iter(values)), **kwargs)

        eager = call(*map(Tensor._wrap, arrays))
        assert any(isinstance(r, Tensor) for r in flat(eager)) or not flat(eager)
        assert_same(eager, wanted)
        assert_same(traced_values(call, arrays), wanted)
        if order:
            doubles = [a.astype(complex if a.dtype.kind == "c" else float) for a in arrays]

            def tensors(*leaves: Any) -> tuple[Tensor, ...]:
                return tuple(r for r in flat(call(*leaves)) if isinstance(r, Tensor))

            check_derivatives(tensors, doubles, order)


def traced_values(call: Callable[..., Any], arrays: list[np.ndarray]) -> list[Any]:
    """What the graph recorded of `call` gives in the interpreter."""
    trace = Trace("function")
    with setting(trace=trace):
        inputs = [trace.add_input(type_of(a), "x", a) for a in arrays]
        outputs = tuple(trace.lift(r) for r in flat(call(*inputs)))
    graph, captured = trace.finish(outputs)
    return list(interpret(graph, [*arrays, *map(plain, captured)]))
