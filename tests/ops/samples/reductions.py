"""Samples of reductions: axes, kept dimensions, dtypes, empty axes, ties, special values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.samples import Sample, values

AXES = (((0, 1, 2), False), ((1,), False), ((0, 2), True), ((2,), True), ((), False))


def _floats() -> list[np.ndarray]:
    return [values((2, 3, 2)), values((2, 3, 2), dtype=np.float32), values((2, 2, 3))[::-1, :, ::-1].transpose(0, 2, 1)]


def _accumulations() -> list[Sample]:
    def attrs(axis: tuple[int, ...], keepdims: bool, dtype: Any) -> dict[str, Any]:
        return {"axis": axis, "keepdims": keepdims, "dtype": np.dtype(dtype)}

    samples = [Sample((x,), attrs(axis, keep, x.dtype), x.itemsize == 8) for x in _floats() for axis, keep in AXES]
    empty = np.zeros((0, 3))
    samples += [
        Sample((empty,), attrs((0,), False, float)), Sample((empty,), attrs((1,), False, float)),
        Sample((np.array(2.5),), attrs((), False, float)), Sample((np.ones((1, 1)),), attrs((0, 1), True, float)),
        Sample((np.arange(6).reshape(2, 3),), attrs((0,), False, np.int64)),
        Sample((np.array([True, False, True]),), attrs((0,), False, np.int64)),
        Sample((np.array([200, 100], np.uint8),), attrs((0,), False, np.uint64)),
        Sample((values((3,), dtype=np.float32),), attrs((0,), False, float)),
        Sample((values((3,), dtype=np.float16),), attrs((0,), False, np.float16), smooth=False),
        Sample((values((2, 2)) + 1j * values((2, 2), seed=1),), attrs((1,), False, complex)),
        Sample((np.array([1.0, np.nan, 2.0]),), attrs((0,), False, float), smooth=False),
        Sample((np.array([1.0, np.inf, 2.0]),), attrs((0,), False, float), smooth=False),
        Sample((np.array([2.0, 3.0, 0.0, 0.0]),), attrs((0,), False, float), id="zeros"),
        Sample((values((7,), 0.5, 1.5),), attrs((0,), False, float)),
    ]  # fmt: skip
    return samples


def _extremes() -> list[Sample]:
    def attrs(axis: tuple[int, ...], keepdims: bool = False) -> dict[str, Any]:
        return {"axis": axis, "keepdims": keepdims}

    return [
        *(Sample((x,), attrs(axis, keep)) for x in _floats() for axis, keep in AXES),
        Sample((np.zeros((0, 3)),), attrs((1,))), Sample((np.array(2.5),), attrs(())),
        Sample((np.arange(6)[::-1].reshape(2, 3),), attrs((0,)), smooth=False),
        Sample((np.array([True, False]),), attrs((0,)), smooth=False),
        Sample((np.array([1.0, np.nan, 2.0]),), attrs((0,)), smooth=False),
        Sample((np.array([-np.inf, np.inf, 2.0]),), attrs((0,)), smooth=False),
        Sample((np.array([[1.0, 2.0, 2.0], [0.0, -0.0, 0.0]]),), attrs((1,)), smooth=False, id="ties"),
    ]  # fmt: skip


def _quantifiers() -> list[Sample]:
    x = np.array([[1.0, 0.0, np.nan], [0.0, -0.0, 0.0]])
    return [
        Sample((x,), {"axis": axis, "keepdims": keep}) for axis in ((0, 1), (0,), (1,)) for keep in (False, True)
    ] + [
        Sample((np.zeros((0, 2), bool),), {"axis": (0,), "keepdims": False}),
        Sample((np.array([True, True]),), {"axis": (0,), "keepdims": False}),
        Sample((np.array([0, 3, 0]),), {"axis": (0,), "keepdims": True}),
        Sample((np.array([0, 3j]),), {"axis": (0,), "keepdims": True}),
    ]


def _positions() -> list[Sample]:
    ties = np.array([[1.0, 2.0, 2.0], [0.0, -0.0, 0.0], [np.nan, 5.0, np.nan]])
    return [
        *(Sample((x,), {"axis": (i,), "keepdims": k}) for x in _floats() for i in (0, 1, 2) for k in (False, True)),
        Sample((ties,), {"axis": (1,), "keepdims": False}),
        Sample((np.array([3, 1, 3, 1]),), {"axis": (0,), "keepdims": False}),
        Sample((np.array([False, True, True]),), {"axis": (0,), "keepdims": False}),
        Sample((np.zeros((0, 2)),), {"axis": (1,), "keepdims": False}),
    ]  # fmt: skip


SAMPLES: dict[str, Callable[[], list[Sample]]] = {
    "sum": _accumulations, "prod": _accumulations, "max": _extremes, "min": _extremes,
    "any": _quantifiers, "all": _quantifiers, "argmax": _positions, "argmin": _positions,
}  # fmt: skip
