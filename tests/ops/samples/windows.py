"""Samples of sliding windows and their transpose."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.ops.samples import Sample, values

# (lead, kernel, space, stride, dilation); the number of windows follows.
_CASES = (
    ((), (3,), (6,), (1,), (1,)), ((2,), (2,), (7,), (2,), (1,)), ((), (2,), (7,), (3,), (2,)),
    ((), (1,), (4,), (1,), (1,)), ((2,), (2, 3), (4, 5), (1, 2), (2, 1)), ((), (4,), (4,), (1,), (1,)),
    ((0,), (2,), (3,), (1,), (1,)),
)  # fmt: skip


def _count(space: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]):
    return tuple((w - d * (k - 1) - 1) // s + 1 for w, k, s, d in zip(space, kernel, stride, dilation, strict=True))


def _picks() -> list[Sample]:
    samples = []
    for lead, kernel, space, stride, dilation in _CASES:
        attrs = {"size": _count(space, kernel, stride, dilation), "stride": stride, "dilation": dilation}
        samples.append(Sample((values((*lead, *kernel, *space)),), attrs))
    x = values((3, 6))
    attrs = {"size": (4,), "stride": (1,), "dilation": (1,)}
    for one in (x.astype(np.float32), x > 0, np.arange(18).reshape(3, 6), x * 1j, x[::-1, ::-1]):
        samples.append(Sample((one,), attrs))
    samples.append(Sample((np.broadcast_to(values((6,)), (3, 6)),), attrs, id="stride 0"))
    return samples


def _puts() -> list[Sample]:
    samples = []
    for lead, kernel, space, stride, dilation in _CASES:
        windows = _count(space, kernel, stride, dilation)
        attrs = {"size": space, "stride": stride, "dilation": dilation}
        samples.append(Sample((values((*lead, *kernel, *windows)),), attrs))
    x = values((3, 4))
    attrs = {"size": (6,), "stride": (1,), "dilation": (1,)}
    for one in (x.astype(np.float32), x > 0, np.arange(12).reshape(3, 4), x * 1j, x[::-1, ::-1]):
        samples.append(Sample((one,), attrs))
    return samples


SAMPLES: dict[str, Callable[[], list[Sample]]] = {"window_pick": _picks, "window_put": _puts}
