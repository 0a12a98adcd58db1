"""Whether two graphs compute the same bits: runs both by the interpreter on special and on ordinary values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.ir.dims import evaluate, symbols
from tracegrad.ir.graph import Graph
from tracegrad.ir.interpret import interpret
from tracegrad.ir.types import Type

FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.7, np.inf, -np.inf, np.nan, 1e-300, 5e-324, -1e300, 1.7e308, 0.1, -0.3)
SUMMABLE = (0.0, -0.0, 1.0, -2.0, 0.5, 3.0, -0.25, np.inf, -np.inf, np.nan)  # sums of a few are exact in any order
ORDINARY = (0.1, -0.3, 0.5, 0.9, 1.0, -1.2, 1.7, 2.0, -2.6, 3.7, 1e-3, 11.25)


def arrays(
    types: list[Type], generator: np.random.Generator, sizes: dict[str, int], pool: tuple[float, ...] = FLOATS
) -> list[Any]:
    """One argument per type: floats drawn from `pool`, integers near 0 and (not for ordinary values) at the ends."""
    made = []
    for type in types:
        shape = tuple(evaluate(d, sizes) for d in type.shape)
        array = _draw(type.dtype, shape, generator, pool)
        made.append(array.item() if type.weak else array)
    return made


def _draw(
    dtype: np.dtype, shape: tuple[int, ...], generator: np.random.Generator, pool: tuple[float, ...]
) -> np.ndarray:
    with np.errstate(all="ignore"):
        if dtype.kind == "b":
            return generator.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            ends = [int(info.min), int(info.max)] if pool is FLOATS else []
            return generator.choice(np.array([v for v in (*range(-3, 8), *ends) if v >= info.min], dtype), shape)
        if dtype.kind == "c":
            return (generator.choice(pool, shape) + 1j * generator.choice(pool, shape)).astype(dtype)
        return np.asarray(generator.choice(pool, shape)).astype(dtype)


def sizes_of(graph: Graph, generator: np.random.Generator) -> dict[str, int]:
    """A size of at least 2 for every symbol (size 1 would broadcast, which a symbol never does)."""
    names = sorted({n for v in graph.inputs for d in v.type.shape for n in symbols(d)})
    return {name: int(generator.integers(2, 6)) for name in names}


def assert_same_bits(a: Any, b: Any, zeros: bool = True) -> None:
    """Same dtype, same shape, same bits; every NaN is as good as any other, and without `zeros` either zero."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype, f"{a.dtype} is not {b.dtype}"
    assert a.shape == b.shape, f"{a.shape} is not {b.shape}"
    if a.dtype.kind == "c":
        assert_same_bits(a.real, b.real, zeros)
        assert_same_bits(a.imag, b.imag, zeros)
        return
    if a.dtype.kind != "f":
        np.testing.assert_array_equal(a, b)
        return
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    real = ~np.isnan(a)
    np.testing.assert_array_equal(a[real], b[real])
    if zeros:
        np.testing.assert_array_equal(np.signbit(a[real]), np.signbit(b[real]))


def assert_equivalent(before: Graph, after: Graph, rounds: int = 8, zeros: bool = True) -> None:
    """Both graphs give the same bits for `rounds` draws of arguments, special and ordinary ones in turn.

    Where a graph sums, the values are such that the order of the additions does not matter.
    """
    generator = np.random.default_rng(0)
    assert [v.type for v in before.inputs] == [v.type for v in after.inputs]
    assert [v.type for v in before.outputs] == [v.type for v in after.outputs]
    sums = any(node.name in ("sum", "matmul", "prod") for node in before.nodes)
    for number in range(rounds):
        sizes = sizes_of(before, generator)
        pool = SUMMABLE if sums else FLOATS if number % 2 == 0 else ORDINARY
        args = arrays([v.type for v in before.inputs], generator, sizes, pool)
        with np.errstate(all="ignore"):
            for x, y in zip(interpret(before, args), interpret(after, args), strict=True):
                assert_same_bits(x, y, zeros)
