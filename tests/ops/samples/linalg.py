"""Samples of products of matrices: vectors, stacks that broadcast, empty sizes, transposed and strided operands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.ops.samples import Sample, values

SHAPES = [
    ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((1, 3), (3, 1)), ((2, 2, 3), (3, 4)), ((2, 3), (4, 3, 2)),
    ((2, 2, 3), (2, 3, 1)), ((2, 1, 2, 3), (3, 3, 2)), ((1, 2, 3), (4, 3, 2)), ((3,), (2, 3, 2)), ((2, 2, 3), (3,)),
    ((2, 0), (0, 3)), ((0, 2), (2, 3)), ((2, 3), (3, 0)), ((0,), (0,)), ((0, 2, 3), (3, 2)), ((2, 2, 2, 2), (2, 2, 2, 2)),
]  # fmt: skip


def _products() -> list[Sample]:
    samples = [Sample((values(a), values(b, seed=1))) for a, b in SHAPES]
    a, b = values((3, 4)), values((4, 2), seed=1)
    ints = np.arange(6).reshape(2, 3)
    return [
        *samples, Sample((a.T.copy().T, b)), Sample((values((4, 3)).T, values((2, 4)).T)), Sample((a[::-1], b[::-1, ::-1])),
        Sample((a.astype(np.float32), b.astype(np.float32)), smooth=False), Sample((a.astype(np.float32), b)),
        Sample((ints, ints.T)), Sample((ints > 2, ints.T > 1)), Sample((ints, values((3, 2)))),
        Sample((a * (1 + 1j), b - 1j * b[::-1])), Sample((a * 1j, b)), Sample((values((9, 8)), values((8, 7), seed=1))),
    ]  # fmt: skip


SAMPLES: dict[str, Callable[[], list[Sample]]] = {"matmul": _products}
