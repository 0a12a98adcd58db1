"""Samples of operations that make values from attributes alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.ops.samples import Sample


def _constant() -> list[Sample]:
    return [Sample((), {"value": v}) for v in (np.array(1.5), np.arange(6).reshape(2, 3), np.zeros((0, 2), np.float32))]


def _iota() -> list[Sample]:
    def attrs(shape: tuple[int, ...], axis: int, start: float, step: float, dtype: object) -> dict[str, object]:
        return {"shape": shape, "axis": axis, "start": start, "step": step, "dtype": np.dtype(dtype)}

    return [
        Sample((), attrs((5,), 0, 0, 1, int)), Sample((), attrs((2, 3), 0, 1.5, -0.25, float)),
        Sample((), attrs((2, 3), 1, 1, 2, np.float32)), Sample((), attrs((0,), 0, 0, 1, float)),
    ]  # fmt: skip


SAMPLES: dict[str, Callable[[], list[Sample]]] = {"constant": _constant, "iota": _iota}
