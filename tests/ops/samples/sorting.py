"""Samples of orders and searches: ties, NaN, empty axes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.ops.samples import Sample, values


def _orders() -> list[Sample]:
    arrays = [
        values((5,)), values((3, 4)), values((4, 3)).T, np.array([2.0, 1.0, 2.0, np.nan, 1.0]), np.zeros((0,)),
        np.array([3, 1, 2]), np.array([True, False]), values((3,), dtype=np.float32),
        np.array([np.inf, -np.inf, 0.0, -0.0]),
    ]  # fmt: skip
    return [Sample((x,), {"axis": axis}) for x in arrays for axis in range(x.ndim)]


EDGES = np.array([0.0, 1.0, 1.0, 2.0])
PROBES = [np.array([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, np.nan]), np.array(1.0), np.zeros((0, 2)), np.array([[0, 1]])]


def _searches() -> list[Sample]:
    return [Sample((EDGES, v), {"side": side}) for v in PROBES for side in ("left", "right")]


def _bins() -> list[Sample]:
    return [Sample((v, edges), {"right": r}) for v in PROBES for edges in (EDGES, EDGES[::-1]) for r in (False, True)]


SAMPLES: dict[str, Callable[[], list[Sample]]] = {"argsort": _orders, "searchsorted": _searches, "digitize": _bins}
