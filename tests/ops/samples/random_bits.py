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


SAMPLES: dict[str, Callable[[], list[Sample]]] = {"random_bits": _pairs}
