"""Samples of factorisations: tall, wide and square matrices, stacks, one row, no matrix at all, integers, float32.

Complex eigenvectors and singular vectors have no derivative in general directions: test_decompositions.py has theirs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.ops.samples import Sample, values

TALL, WIDE, SQUARE, STACK = values((4, 3)), values((2, 3)), values((3, 3)), values((2, 3, 2))
SYMMETRIC = SQUARE + SQUARE.T


def _eigh() -> list[Sample]:
    # Not smooth: one triangle is read, the gradient is symmetric.
    stack = STACK @ np.swapaxes(STACK, -1, -2) + np.diag([1.0, 2.0, 3.0])
    arrays = [SYMMETRIC[::-1, ::-1], SYMMETRIC, stack, np.zeros((0, 2, 2)), SYMMETRIC.astype("f4")]
    whole = np.array([[2, 1], [1, 3]])
    return [Sample((x,), {"upper": i % 2 == 1}, smooth=False) for i, x in enumerate((*arrays, whole))]


def _svd() -> list[Sample]:
    arrays = [TALL[::-1], WIDE, SQUARE, STACK]
    more = [Sample((TALL.astype("f4"),), smooth=False), Sample((np.arange(6).reshape(3, 2),))]
    return [*(Sample((x,)) for x in arrays), *more]


def _values() -> list[Sample]:
    # Not smooth: the derivative of both operands together is that of the values.
    factors = np.linalg.eigh(SYMMETRIC), np.linalg.svd(TALL, full_matrices=False)
    eigen, singular = np.vstack(factors[0]), np.vstack([factors[1][0], factors[1][1], factors[1][2].T])
    return [
        Sample((SYMMETRIC, eigen), {"upper": False}, smooth=False),
        Sample((TALL, singular), {"upper": None}, smooth=False),
    ]


def _qr() -> list[Sample]:
    arrays = [TALL, STACK, SQUARE - 1j * SYMMETRIC]
    return [*(Sample((x,)) for x in arrays), Sample((TALL.astype("f4"),), smooth=False), Sample((np.zeros((0, 2, 2)),))]


def _pinv() -> list[Sample]:
    arrays = [TALL, STACK, WIDE + 1j * values((2, 3), seed=1)]
    deficient = Sample((TALL[:, :1] * WIDE[:1],), {"cut": 1e-10}, smooth=False)
    return [*(Sample((x,), {"cut": None}) for x in arrays), deficient]


def _phase_free() -> list[Sample]:
    x, turning = TALL[:3] + 1j * SQUARE, SYMMETRIC + 1j * (SQUARE - SQUARE.T)
    return [Sample((x, turning)), Sample((x.astype("c8"), turning.astype("c8")), smooth=False)]


SAMPLES: dict[str, Callable[[], list[Sample]]] = {
    "eigh": _eigh,
    "factor_values": _values,
    "svd": _svd,
    "qr": _qr,
    "pinv": _pinv,
    "phase_free": _phase_free,
}
