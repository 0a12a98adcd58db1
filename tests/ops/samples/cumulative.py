"""Samples of running results: both directions, all axes, zeros and ties, empty axes, NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.samples import Sample, values

SHAPES = [((5,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 3, 2), 1), ((0,), 0), ((2, 0), 1), ((0, 2), 1), ((1,), 0)]
COMPLEX = values((4,)) + 1j * values((4,), seed=1)


def _attrs(combine: str, axis: int, reverse: bool) -> dict[str, Any]:
    return {"combine": combine, "axis": axis, "reverse": reverse}


def _running(combine: str) -> Callable[[], list[Sample]]:
    def samples() -> list[Sample]:
        others = [values((3, 4)).T[::-1], values((4,), dtype=np.float32), np.array([3, -1, 4])]
        return [
            *(Sample((values(shape),), _attrs(combine, axis, r)) for shape, axis in SHAPES for r in (False, True)),
            *(Sample((x,), _attrs(combine, 0, r)) for x in others for r in (False, True)),
            Sample((np.array([1.0, np.nan, 2.0]),), _attrs(combine, 0, False), smooth=False),
            *(Sample((COMPLEX,), _attrs(combine, 0, r)) for r in (False, True) if combine in ("add", "multiply")),
        ]

    return samples


def _products() -> list[Sample]:
    zeros = [[0.0, 2.0, 3.0], [2.0, 0.0, 3.0, 0.0], [2.0, 3.0, 0.0], [0.0, 0.0]]
    return [
        *_running("multiply")(),
        *(Sample((np.array(x),), _attrs("multiply", 0, r)) for x in zeros for r in (False, True)),
    ]


def _extremes() -> list[Sample]:
    ties = np.array([1.0, 3.0, 3.0, 2.0, 3.0])
    return [
        *_running("maximum")(), *_running("minimum")(),
        *(Sample((ties,), _attrs(c, 0, r), smooth=False) for c in ("maximum", "minimum") for r in (False, True)),
    ]  # fmt: skip


def _recurrences() -> list[Sample]:
    return [
        *(
            Sample((values(shape), values(shape, seed=1)), {"axis": axis, "reverse": r})
            for shape, axis in SHAPES
            for r in (False, True)
        ),
        Sample((COMPLEX, COMPLEX[::-1]), {"axis": 0, "reverse": False}),
        Sample((values((4,), dtype=np.float32), values((4,))), {"axis": 0, "reverse": True}),
    ]


SAMPLES: dict[str, Callable[[], list[Sample]]] = {
    "cumulative_sum": _running("add"),
    "cumulative_product": _products,
    "cumulative_extreme": _extremes,
    "linear_recurrence": _recurrences,
}
