"""Samples of products of matrices: vectors, stacks that broadcast, empty sizes, transposed and strided operands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.ops.samples import Sample, values

SHAPES = [
    ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((1, 3), (3, 1)), ((2, 2, 3), (3, 4)),
    ((2, 3), (4, 3, 2)),
    ((2, 2, 3), (2, 3, 1)), ((2, 1, 2, 3), (3, 3, 2)), ((1, 2, 3), (4, 3, 2)), ((3,), (2, 3, 2)), ((2, 2, 3), (3,)),
    ((2, 0), (0, 3)), ((0, 2), (2, 3)), ((2, 3), (3, 0)), ((0,), (0,)), ((0, 2, 3), (3, 2)),
    ((2, 2, 2, 2), (2, 2, 2, 2)),
]  # fmt: skip


def _products() -> list[Sample]:
    samples = [Sample((values(a), values(b, seed=1))) for a, b in SHAPES]
    a, b = values((3, 4)), values((4, 2), seed=1)
    ints = np.arange(6).reshape(2, 3)
    return [
        *samples, Sample((a.T.copy().T, b)), Sample((values((4, 3)).T, values((2, 4)).T)),
        Sample((a[::-1], b[::-1, ::-1])),
        Sample((a.astype(np.float32), b.astype(np.float32)), smooth=False), Sample((a.astype(np.float32), b)),
        Sample((ints, ints.T)), Sample((ints > 2, ints.T > 1)), Sample((ints, values((3, 2)))),
        Sample((a * (1 + 1j), b - 1j * b[::-1])), Sample((a * 1j, b)), Sample((values((9, 8)), values((8, 7), seed=1))),
    ]  # fmt: skip


WELL = values((3, 3)) + 4 * np.eye(3)
STACK = values((2, 1, 2, 2)) + 3 * np.eye(2)
COMPLEX = WELL + 1j * values((3, 3), seed=1)
SINGULAR = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])


def _matrices() -> list[Sample]:
    arrays = [WELL, STACK, values((0, 2, 2)), np.zeros((0, 0)), np.array([[2.0]]), WELL.T[::-1]]
    return [
        *(Sample((x,)) for x in arrays), Sample((WELL.astype(np.float32),), smooth=False),
        Sample((np.array([[2, 1], [1, 3]]),)),
    ]  # fmt: skip


def _inverses() -> list[Sample]:
    return [*_matrices(), Sample((COMPLEX,))]


def _determinants() -> list[Sample]:
    return [*_inverses(), Sample((SINGULAR,), smooth=False), Sample((np.zeros((3, 3)),), smooth=False)]


def _systems() -> list[Sample]:
    return [
        Sample((WELL, values((3, 2)))), Sample((STACK, values((3, 2, 2), seed=1))), Sample((WELL, values((2, 3, 1)))),
        Sample((COMPLEX, values((3, 2)))),
        Sample((WELL.astype(np.float32), values((3, 2), dtype=np.float32)), smooth=False),
        Sample((np.zeros((0, 0)), np.zeros((0, 2)))), Sample((np.array([[2, 1], [1, 3]]), values((2, 2)))),
    ]  # fmt: skip


def _positive() -> list[Sample]:
    # Not smooth: the factor is read from one triangle, its gradient is symmetric. test_solve.py has its derivatives.
    samples = [x @ np.conj(np.swapaxes(x, -1, -2)) for x in (WELL, STACK, COMPLEX, WELL.astype(np.float32))]
    return [Sample((x,), smooth=False) for x in (*samples, np.zeros((0, 0)), np.array([[4]]))]


def _factors() -> list[Sample]:
    pairs = [(np.tril(x), values(x.shape, seed=2)) for x in (WELL, STACK, np.zeros((0, 0)))]
    single = tuple(x.astype(np.float32) for x in pairs[0])
    return [*(Sample(pair) for pair in pairs), Sample((np.tril(WELL), values((2, 3, 3)))), Sample(single, smooth=False)]


def _triangular() -> list[Sample]:
    options = [{"lower": lower, "unit": unit} for lower in (False, True) for unit in (False, True)]
    systems = [Sample(s.args, attrs, s.smooth) for s, attrs in zip(_systems(), options * 2, strict=False)]
    return [*systems, *(Sample((WELL, values((3, 2))), attrs) for attrs in options)]


SAMPLES: dict[str, Callable[[], list[Sample]]] = {
    "matmul": _products,
    "solve": _systems,
    "inv": _inverses,
    "det": _determinants,
    "cofactors": _inverses,
    "logabsdet": _matrices,
    "det_sign": _matrices,
    "cholesky": _positive,
    "cholesky_adjoint": _factors,
    "solve_triangular": _triangular,
    "expm": _inverses,
}
