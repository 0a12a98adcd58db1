"""The Threefry2x32 block function with 20 rounds on arrays, and the constants that define it.

J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11 (2011). Of a 64-bit key and
a 64-bit counter the low halves are word 0 of the algorithm, the high halves word 1; so are they of the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

PARITY = 0x1BD11BDA
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
ROUNDS = 20
_BLOCK = 32768  # counters that are worked on together, so that their words stay in the cache
# Both shifts of a rotation as arrays, which NumPy takes faster than scalars.
_SHIFTS = tuple(tuple((np.array(r, np.uint32), np.array(32 - r, np.uint32)) for r in half) for half in ROTATIONS)


def threefry(key: Any, counter: Any) -> np.ndarray:
    """64 random bits, as uint64, for each pair of a key and a counter (uint64, broadcast)."""
    keys, counters = np.broadcast_arrays(np.asarray(key), np.asarray(counter))
    out = np.empty(counters.shape, np.uint64)
    flat, numbers = out.reshape(-1), counters.reshape(-1)
    one_key = not any(keys.strides)
    keys = keys.reshape(-1)[:1] if one_key else keys.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        flat[part] = _block(keys if one_key else keys[part], numbers[part])
    return out


def _words(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x.astype(np.uint32), (x >> np.uint64(32)).astype(np.uint32)


def _block(key: np.ndarray, counter: np.ndarray) -> np.ndarray:
    """The block function on one-dimensional arrays, of which the key may have size 1."""
    first, second = _words(key)
    keys = (first, second, first ^ second ^ np.uint32(PARITY))
    x, y = _words(counter)
    x += first
    y += second
    high, low = np.empty_like(y), np.empty_like(y)
    for turn in range(ROUNDS // 4):
        for left, right in _SHIFTS[turn % 2]:
            np.add(x, y, out=x)
            np.left_shift(y, left, out=high)
            np.right_shift(y, right, out=low)
            np.bitwise_or(high, low, out=y)
            np.bitwise_xor(y, x, out=y)
        x += keys[(turn + 1) % 3]
        y += keys[(turn + 2) % 3] + np.uint32(turn + 1)
    bits: np.ndarray = x.astype(np.uint64) | (y.astype(np.uint64) << np.uint64(32))
    return bits
