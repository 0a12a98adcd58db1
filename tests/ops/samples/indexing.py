"""Samples of gathers and scatters: repeated and negative positions, several index arrays, 0-d and empty ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.ops.samples import Sample, values

# shape of the whole, index arrays
PLACES = [
    ((5,), [[3, 0, 3, -1]]), ((5,), [[[0, 0], [1, -5]]]), ((4, 3), [[2, 2, -1]]), ((4, 3), [[0, 3, 0], [2, 1, 2]]),
    ((4, 3), [[[0, 1], [2, 3]], [[0, 0], [1, 1]]]), ((5,), [2]), ((4, 3), [1, -2]), ((3, 2, 4), [[2, 0], [1, 1]]),
    ((5,), [[]]), ((0, 3), [[]]), ((3, 0), [[1, 1]]), ((2, 2, 2), [[1], [0], [-1]]),
]  # fmt: skip


def _indices(places: list, dtype: type = np.intp) -> tuple[np.ndarray, ...]:
    return tuple(np.array(p, dtype) for p in places)


def _gathers() -> list[Sample]:
    samples = [Sample((values(shape), *_indices(places))) for shape, places in PLACES]
    x, places = np.arange(6).reshape(3, 2), [[0, 2, 2]]
    return [
        *samples, Sample((x, *_indices(places))), Sample((x > 2, *_indices(places))),
        Sample((values((3, 2), dtype=np.float32), *_indices(places, np.int32))),
        Sample((values((6, 4))[::-2, ::2], *_indices(places, np.uint8))),
        Sample((values((3,)) + 1j * values((3,), seed=1), *_indices(places, np.int16))),
    ]  # fmt: skip


def _scatters() -> list[Sample]:
    samples = []
    for shape, places in PLACES:
        arrays = _indices(places)
        samples.append(Sample((values((*arrays[0].shape, *shape[len(arrays) :])), *arrays), {"shape": shape}))
    arrays = _indices([[0, 2, 2]])
    return [
        *samples, Sample((np.arange(3), *arrays), {"shape": (3,)}),
        Sample((values((3, 2), dtype=np.float32), *arrays), {"shape": (4, 2)}),
        Sample((values((3,)) + 1j * values((3,), seed=1), *arrays), {"shape": (3,)}),
    ]  # fmt: skip


def _nonzeros() -> list[Sample]:
    masks = [
        np.array([True, False, True]),
        np.array([[0, 1], [2, 0]]),
        np.zeros(3),
        np.array([]),
        np.array(5.0),
        np.eye(3),
    ]
    return [Sample((m,), {"count": int(np.count_nonzero(m))}) for m in masks]


def _combinations() -> list[Sample]:
    x, places, floats = np.array([5, 0, -3]), np.array([0, 0, 1, -1]), np.array([-0.7, 0.7, 1.6, 2.5])
    return [
        Sample((x, places, floats), {"subtract": False}), Sample((x, places, floats), {"subtract": True}),
        Sample((x > 0, places, np.array([1, -1, 0, 2])), {"subtract": False}),
        Sample((x[:0], places[:0], floats[:0]), {"subtract": False}),
    ]  # fmt: skip


def _write_sources() -> list[Sample]:
    return [Sample(_indices(places), {"shape": shape[: len(places)]}) for shape, places in PLACES]


def _writes() -> list[Sample]:
    def sample(
        shape: tuple, value: tuple, places: list, axes: tuple, start: tuple, step: tuple, add: bool, within: tuple = ()
    ) -> Sample:
        extents = within or tuple(shape[a] for a in axes)
        attrs = {"axes": axes, "extents": extents, "start": start, "step": step, "add": add}
        return Sample((values(shape), values(value, seed=1), *_indices(places)), attrs)

    whole = {"start": (0, 0), "step": (1, 1)}
    kinds = {"axes": (0,), "start": (0,), "step": (1,)}
    sixth, third = {**kinds, "extents": (6,)}, {**kinds, "extents": (3,)}
    return [
        sample((5,), (), [-2], (0,), (0,), (1,), False), sample((5,), (4,), [[3, 0, 3, -1]], (0,), (0,), (1,), True),
        sample((4, 3), (), [1, -1], (0, 1), (0, 0), (1, 1), False),
        sample((4, 3), (4,), [2], (1,), *whole.values(), True),
        sample((4, 6), (2,), [1], (0,), (0, 5), (1, -3), False), sample((6, 4), (2, 3), [], (), (1, 0), (4, 1), True),
        sample((6, 4), (2, 3), [], (), (5, 1), (-2, 1), False), sample((3, 2, 4), (2, 2), [[2, 0], [1, 3]], (0, 2),
        (0, 0, 0), (1, 1, 1), True), sample((0, 3), (0, 3), [[]], (0,), (0, 0), (1, 1), True),
        Sample((np.arange(6), np.array(7), *_indices([4], np.uint8)), {**sixth, "add": False}),
        Sample((np.arange(6) > 2, np.array(True), *_indices([1])), {**sixth, "add": False}),
        Sample((values((3,)) + 1j * values((3,), seed=1), np.array(2j), *_indices([1])), {**third, "add": True}),
        sample((6, 3), (2, 3), [[1, -3]], (0,), (1, 0), (2, 1), False, (3,)),
        sample((3, 7), (4, 2), [[0, 1, 1, -2]], (1,), (2, 6), (-2, -2), True, (3,)),
        sample((5, 4), (), [-1, -2], (0, 1), (4, 2), (-1, -1), False, (2, 3)),
    ]  # fmt: skip


def _last_writes() -> list[Sample]:
    return [
        Sample((values((3, 2)), *_indices([[2, -5, 1]])), {"shape": (5,)}),
        Sample((values((2, 2)), *_indices([[[0, 1], [1, 1]], [[3, 0], [2, -1]]])), {"shape": (2, 4)}),
        Sample((values((4,)), *_indices([[1, 0, -2, 0]])), {"shape": (3,)}, smooth=False),
    ]


def _replacements() -> list[Sample]:
    x, y = values((2, 3)), values((3,), seed=1)
    never = np.zeros((2, 3), bool)
    return [
        Sample((never, 0.0, x)), Sample((never, y, x)), Sample((np.zeros(2, bool)[:, None], 0.0, y)),
        Sample((x > 0, 0.0, x), smooth=False), Sample((x > 0, y, x), smooth=False),
        Sample((np.array(True), np.float32(1), x.astype(np.float32)), smooth=False),
    ]  # fmt: skip


SAMPLES: dict[str, Callable[[], list[Sample]]] = {
    "gather": _gathers,
    "scatter_add": _scatters,
    "nonzero": _nonzeros,
    "combine_at": _combinations,
    "write_source": _write_sources,
    "replaced": _replacements,
    "write": _writes,
    "last_writes": _last_writes,
}
