"""Samples of the random bits of keys and counters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.ops.samples import Sample


def _pairs() -> list[Sample]:
    key = np.array(0x123456789ABCDEF0, np.uint64)
    counters = np.arange(2**32 - 3, 2**32 + 3, dtype=np.uint64).reshape(2, 3)
    largest = np.array([0, 1, 2**64 - 1], np.uint64)
    return [
        Sample((key, counters)), Sample((key, counters.T)), Sample((largest, counters)), Sample((largest, key)),
        Sample((largest[:, None], largest[::-1])), Sample((key, np.array(7, np.uint64))),
        Sample((key, np.zeros((0, 3), np.uint64))), Sample((largest[:1], np.arange(20_000, dtype=np.uint64))),
    ]  # fmt: skip


def _gammas() -> list[Sample]:
    key, counters = np.array(5, np.uint64), np.arange(6, dtype=np.uint64).reshape(2, 3)
    shapes = np.array([[0.2, 1.0, 3.5], [40.0, 0.0, np.nan]])
    return [
        Sample((key, counters, shapes), smooth=False), Sample((counters, key, shapes.astype(np.float32)), smooth=False),
        Sample((key, counters, np.array(2.0)), smooth=False), Sample((key, key, np.array(np.inf)), smooth=False),
        Sample((key, np.zeros((0, 3), np.uint64), np.ones(3)), smooth=False),
    ]  # fmt: skip


SAMPLES: dict[str, Callable[[], list[Sample]]] = {"random_bits": _pairs, "random_gamma": _gammas}
