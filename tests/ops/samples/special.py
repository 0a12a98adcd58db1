"""Samples of special functions whose values come from SciPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.ops.samples import Sample, values

AWKWARD = np.array([0.0, -0.0, 1.0, -1.0, 1e-300, 1e300, np.inf, -np.inf, np.nan])


def _unary(low: float, high: float, **attrs: object) -> Callable[[], list[Sample]]:
    def samples() -> list[Sample]:
        return [
            Sample((values((2, 3), low, high),), attrs), Sample((values((3,), low, high, np.float32),), attrs),
            Sample((np.array(0.5 * (low + high)),), attrs), Sample((np.zeros((0, 2)),), attrs),
            Sample((np.array([1, 2]),), attrs, smooth=False), Sample((AWKWARD,), attrs, smooth=False),
        ]  # fmt: skip

    return samples


def _binary() -> list[Sample]:
    x, y = values((2, 3), 0.5, 3.0), values((3,), 0.3, 2.0, seed=1)
    return [
        Sample((x, y)), Sample((y, x)), Sample((x.astype(np.float32), y.astype(np.float32))), Sample((x, 1.5)),
        Sample((np.array([1, 2]), y[:2])), Sample((np.zeros((0, 3)), y)), Sample((AWKWARD, np.ones(9)), smooth=False),
    ]  # fmt: skip


def _polygamma() -> list[Sample]:
    return [s for n in (1, 2, 3) for s in _unary(0.5, 4.0, n=n)()]


def _bessel() -> list[Sample]:
    return [s for n in (0, 1, 2) for scaled in (False, True) for s in _unary(0.3, 3.0, n=n, scaled=scaled)()]


SAMPLES: dict[str, Callable[[], list[Sample]]] = {
    "gammaln": _unary(0.5, 4.0), "digamma": _unary(0.5, 4.0), "gamma": _unary(-1.9, -1.1), "polygamma": _polygamma,
    "log_ndtr": _unary(-4.0, 3.0), "ndtri": _unary(0.1, 0.9), "erfinv": _unary(-0.8, 0.8), "erfcinv": _unary(0.2, 1.8),
    "erfcx": _unary(-1.0, 3.0), "bessel_i": _bessel, "beta": _binary, "betaln": _binary,
}  # fmt: skip
