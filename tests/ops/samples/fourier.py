"""Samples of Fourier transforms: even and odd sizes, one point, several axes, norms, dtypes, strided, empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.samples import Sample, values

NORMS = ("backward", "ortho", "forward")


def _complex(shape: tuple[int, ...]) -> Any:
    return values(shape) + 1j * values(shape, seed=1)


def _full() -> list[Sample]:
    places = [((4,), (0,)), ((2, 3), (1,)), ((3, 2, 4), (0, 2)), ((1, 5), (1, 0)), ((0, 3), (1,))]
    complexes = [Sample((_complex(s),), {"axis": a, "inverse": i, "norm": n}) for s, a in places for i, n in
                 ((False, "backward"), (True, "backward"), (True, "ortho"))]  # fmt: skip
    attrs = {"axis": (1,), "inverse": False, "norm": "forward"}
    reals = [values((2, 3)), values((4, 3))[::2], values((3, 5)).T, np.arange(6).reshape(2, 3)]
    singles = [values((2, 3), dtype=np.float32), _complex((2, 3)).astype(np.complex64)]
    return [
        *complexes, *(Sample((x,), attrs) for x in reals), *(Sample((x,), attrs, smooth=False) for x in singles)
    ]  # fmt: skip


def _half() -> list[Sample]:
    samples = [Sample((values(s),), {"axis": a, "norm": n}) for n in NORMS for s, a in (((6,), 0), ((3, 5), 1))]
    more = [values((1, 4)), values((0, 3)), values((4, 6))[:, ::-2], np.arange(4).reshape(1, 4)]
    single = values((2, 5), dtype=np.float32)
    attrs = {"axis": 1, "norm": "backward"}
    return [*samples, *(Sample((x,), attrs) for x in more), Sample((single,), attrs, smooth=False)]


def _from_half() -> list[Sample]:
    samples = [
        Sample((_complex((2, n // 2 + 1)),), {"axis": 1, "norm": m, "n": n}) for m in NORMS for n in (1, 2, 5, 6)
    ]
    single = _complex((3, 1)).astype(np.complex64)
    attrs = {"axis": 0, "norm": "backward", "n": 5}
    return [*samples, Sample((values((3, 2)),), attrs), Sample((single,), attrs, smooth=False)]


SAMPLES: dict[str, Callable[[], list[Sample]]] = {
    "fourier": _full,
    "real_fourier": _half,
    "inverse_real_fourier": _from_half,
}
