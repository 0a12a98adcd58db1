"""Samples of operations that move elements: reversed and strided operands, empty axes, 0-d, all kinds of dtypes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.ops.samples import Sample, values

STRIDED = values((4, 6))[::-2, ::2].T
COMPLEX = values((2, 3)) + 1j * values((2, 3), seed=1)


def _broadcasts() -> list[Sample]:
    cases = [
        (values((3,)), (2, 3)), (values((2, 1)), (2, 4)), (np.array(1.5), (2, 2)), (np.array(1.5), ()),
        (values((1, 3, 1)), (2, 4, 3, 2)), (values((1,)), (0,)), (np.zeros((0, 1)), (2, 0, 3)), (STRIDED, (2, 3, 2)),
        (values((1, 2), dtype=np.float32), (3, 2)), (np.array([True, False]), (2, 2)), (np.arange(3), (1, 3)),
        (COMPLEX, (2, 2, 3)), (2.5, (3,)),
    ]  # fmt: skip
    return [Sample((x,), {"shape": shape}) for x, shape in cases]


def _reshapes() -> list[Sample]:
    cases = [
        (values((2, 3)), (6,)), (values((2, 3)), (3, 2)), (values((6,)), (1, 2, 1, 3)), (np.array(2.0), (1, 1)),
        (np.zeros((0, 3)), (3, 0, 2)), (STRIDED, (6,)), (values((2, 2), dtype=np.float32), (4,)), (COMPLEX, (3, 2)),
        (np.arange(4), (2, 2)), (2.5, (1,)), (values((1, 1)), ()),
    ]  # fmt: skip
    return [Sample((x,), {"shape": shape}) for x, shape in cases]


def _transposes() -> list[Sample]:
    cases = [
        (values((2, 3)), (1, 0)), (values((2, 3, 4)), (2, 0, 1)), (values((2, 3, 4)), (1, 0, 2)),
        (np.zeros((0, 2)), (1, 0)),
        (STRIDED, (1, 0)), (COMPLEX, (1, 0)), (np.arange(6).reshape(3, 2), (1, 0)),
        (values((2, 1, 3, 2), dtype=np.float32), (3, 1, 0, 2)),
    ]  # fmt: skip
    return [Sample((x,), {"axes": axes}) for x, axes in cases]


# shape of the whole, start, size, step
CUTS = [
    ((5,), (1,), (3,), (1,)), ((5,), (0,), (3,), (2,)), ((5,), (4,), (5,), (-1,)), ((5,), (4,), (2,), (-3,)),
    ((5,), (2,), (0,), (1,)), ((5,), (2,), (1,), (1,)), ((4, 5), (3, 1), (2, 2), (-2, 3)),
    ((3, 4), (0, 0), (3, 4), (1, 1)),
    ((3, 4), (1, 0), (1, 4), (1, 1)), ((0, 3), (0, 2), (0, 3), (1, -1)), ((3, 0), (2, 0), (2, 0), (-1, 1)),
    ((), (), (), ()),
    ((7,), (6,), (3,), (-3,)), ((6,), (1,), (3,), (2,)), ((2, 3, 4), (1, 2, 3), (2, 2, 4), (-1, -2, -1)),
]  # fmt: skip


def _slices() -> list[Sample]:
    samples = [Sample((values(shape),), {"start": a, "size": n, "step": s}) for shape, a, n, s in CUTS]
    attrs = {"start": (2, 0), "size": (2, 2), "step": (-1, 1)}
    return [*samples, *(Sample((x,), attrs) for x in (STRIDED, np.arange(6).reshape(3, 2), STRIDED.astype("f4")))]


def _unslices() -> list[Sample]:
    samples = [
        Sample((values(n),), {"shape": shape, "start": a, "step": s, "fill": fill})
        for (shape, a, n, s), fill in zip(CUTS, [0, 1.5, -2] * 5, strict=True)
    ]
    attrs = {"shape": (5, 2), "start": (1, 0), "step": (1, 1), "fill": 0}
    return [*samples, *(Sample((x,), attrs) for x in (STRIDED, COMPLEX.T, np.arange(6).reshape(3, 2)))]


def _updates() -> list[Sample]:
    samples = [Sample((values(shape), values(n, seed=1)), {"start": a, "step": s}) for shape, a, n, s in CUTS]
    ints = np.arange(6), np.array([7, 8])
    singles = values((4,), dtype=np.float32), values((2,), seed=1, dtype=np.float32)
    return [*samples, *(Sample(args, {"start": (3,), "step": (-2,)}) for args in (ints, singles))]


def _diagonals() -> list[Sample]:
    cases = [(shape, k) for shape in ((3, 3), (2, 4), (4, 2), (2, 3, 3), (0, 3), (1, 1)) for k in (0, 1, -1, 2, -3, 7)]
    samples = [Sample((values(shape),), {"offset": k}) for shape, k in cases]
    return [*samples, Sample((STRIDED,), {"offset": -1}), Sample((COMPLEX,), {"offset": 1})]


def _placed_diagonals() -> list[Sample]:
    return [
        Sample((np.diagonal(s.args[0], s.attrs["offset"], -2, -1).copy(),), {
            "rows": s.args[0].shape[-2], "columns": s.args[0].shape[-1], "offset": s.attrs["offset"],
        })
        for s in _diagonals()
    ]  # fmt: skip


SAMPLES: dict[str, Callable[[], list[Sample]]] = {
    "broadcast_to": _broadcasts,
    "reshape": _reshapes,
    "transpose": _transposes,
    "slice": _slices,
    "unslice": _unslices,
    "slice_update": _updates,
    "diagonal": _diagonals,
    "diagonal_place": _placed_diagonals,
}
