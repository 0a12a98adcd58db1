"""Random bits as a function of a key and a counter.

Equal keys and counters give equal bits wherever they are computed, in any order: by NumPy, or inside the loops of a
compiled program. What draws from them, and which counters are used up, is the business of `tracegrad.random`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import DTypeError
from tracegrad.function import Operation
from tracegrad.ir.lowering import Elementwise
from tracegrad.ir.threefry import threefry
from tracegrad.ir.types import Type
from tracegrad.ops.base import broadcast_shapes


class RandomBits(Operation):
    """64 bits of the Threefry2x32 generator per pair of a key and a counter, all of them uint64."""

    name = "random_bits"
    lower = Elementwise("random_bits")
    differentiable = False

    @staticmethod
    def forward(key: Any, counter: Any) -> np.ndarray:
        return threefry(key, counter)

    @staticmethod
    def infer(key: Type, counter: Type) -> Type:
        for operand in (key, counter):
            if operand.dtype != np.uint64:
                raise DTypeError(
                    f"random bits come from a key and a counter of dtype uint64, not {operand.dtype}",
                    fix="make the key with tg.random.key(seed)",
                )
        return Type(np.dtype(np.uint64), broadcast_shapes(key.shape, counter.shape))


random_bits = RandomBits.apply


class RandomGamma(Operation):
    """Numbers of the gamma distribution with scale 1, of which each has a stream of its own from key and counter.

    G. Marsaglia, W. W. Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000): d * (1 + c*x)**3
    for a normal x, accepted or drawn again; below shape 1 the number of shape + 1 times a power of a uniform one.
    Computed in float64 by `forward` in compiled programs too, so equal everywhere. NaN where the shape is not positive.
    """

    name = "random_gamma"
    differentiable = False

    @staticmethod
    def forward(key: Any, counter: Any, shape: Any) -> np.ndarray:
        bits, a = np.broadcast_arrays(threefry(key, counter), np.asarray(shape))
        return _gamma(bits.ravel(), a.ravel().astype(np.float64)).reshape(a.shape).astype(np.asarray(shape).dtype)

    @staticmethod
    def infer(key: Type, counter: Type, shape: Type) -> Type:
        bits = RandomBits.infer(key, counter)
        if shape.dtype.kind != "f":
            raise DTypeError(
                f"the shape parameter of the gamma distribution is a float, not {shape.dtype}",
                fix="convert it: .astype(float)",
            )
        return Type(shape.dtype, broadcast_shapes(bits.shape, shape.shape))


_BOOST = np.uint64(2**63)  # the block that numbers of shape below 1 take their uniform factor from


def uniform_between(bits: np.ndarray) -> np.ndarray:
    """Uniform numbers strictly between 0 and 1."""
    return ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def _gamma(streams: np.ndarray, shape: np.ndarray) -> np.ndarray:
    from scipy.special import ndtri

    out = np.full(shape.shape, np.nan)
    small = shape < 1
    d = np.where(small, shape + 1, shape) - 1 / 3
    left = np.flatnonzero((shape > 0) & (shape < np.inf))
    step = 0
    while left.size:
        own = streams[left]
        x = ndtri(uniform_between(threefry(own, np.uint64(step))))
        u = uniform_between(threefry(own, np.uint64(step + 1)))
        scale = d[left]
        v = (1 + x / np.sqrt(9 * scale)) ** 3
        positive = v > 0
        log_v = np.log(np.where(positive, v, 1.0))
        accepted = positive & (np.log(u) < 0.5 * x * x + scale * (1 - v + log_v))
        out[left[accepted]] = (scale * v)[accepted]
        left = left[~accepted]
        step += 2
    with np.errstate(under="ignore", divide="ignore", invalid="ignore"):
        factor = np.log(uniform_between(threefry(streams, _BOOST))) / shape
        out = np.where(small, out * np.exp(factor), out)
    return np.where(shape == np.inf, np.inf, out)


random_gamma = RandomGamma.apply
