"""Samples of joining and repeating."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.ops.samples import Sample, values


def _concatenations() -> list[Sample]:
    cases = [
        (((2, 3), (1, 3)), 0), (((2, 3), (2, 1), (2, 0)), 1), (((2,),), 0), (((0,), (0,)), 0), (((0,), (3,), (0,)), 0),
        (((2, 1, 2), (2, 3, 2)), 1), (((1,), (1,), (1,), (1,)), 0),
    ]  # fmt: skip
    samples = [Sample(tuple(values(s, seed=i) for i, s in enumerate(shapes)), {"axis": axis}) for shapes, axis in cases]
    x = values((2, 2))
    for one in (x.astype(np.float32), x > 0, np.arange(4).reshape(2, 2), x * 1j):
        samples.append(Sample((one, one[::-1, :1].T.reshape(2, 1)), {"axis": 1}))
    return [*samples, Sample((x, x), {"axis": 0}, id="twice the same")]


def _repetitions() -> list[Sample]:
    counts = [[1, 2, 0], [0, 0], [], [3]]
    return [Sample((np.array(c, np.intp),), {"total": sum(c)}) for c in counts]


SAMPLES: dict[str, Callable[[], list[Sample]]] = {"concatenate": _concatenations, "repeat_positions": _repetitions}
