"""pad, in PyTorch's order: the last axis first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ops.base import shape_text
from tracegrad.ops.creation import as_tensor

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """`pad` holds (before, after) of the last axis, then of the one before it, and so on; negative ones cut off.

    Modes: constant (with `value`, 0), reflect, replicate, circular.
    """
    x = as_tensor(input)
    widths = [int(w) for w in pad]
    if mode not in _MODES:
        raise ArgumentError(f"pad has no mode {mode!r}", fix="use one of " + ", ".join(_MODES))
    if len(widths) % 2 or len(widths) > 2 * x.ndim:
        raise ShapeError(
            f"pad: {len(widths)} widths for an input of shape {shape_text(x.shape)}",
            fix="give a pair (before, after) for each axis to pad, the last axis first",
        )
    if mode != "constant" and value:
        raise ArgumentError(f"pad in mode {mode!r} takes no value")
    pairs = [(0, 0)] * x.ndim
    for i in range(len(widths) // 2):
        pairs[x.ndim - 1 - i] = (widths[2 * i], widths[2 * i + 1])
    cut = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, pairs, strict=True))
    if any(a < 0 or b < 0 for a, b in pairs):
        x = x[cut]
    grown = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if not any(map(any, grown)):
        return x
    if mode == "constant":
        return np.pad(x, grown, constant_values=0 if value is None else value)
    _check_reach(x, grown, mode)
    return np.pad(x, grown, mode=_MODES[mode])


def _check_reach(x: Any, grown: Sequence[tuple[int, int]], mode: str) -> None:
    """NumPy repeats an array as often as needed; PyTorch refuses to go beyond its end, which is mostly a mistake."""
    for axis, (size, widths) in enumerate(zip(x.shape, grown, strict=True)):
        most = size - 1 if mode == "reflect" else size
        if mode != "replicate" and max(widths) > most:
            raise ShapeError(f"pad: mode {mode!r} can add at most {most} elements to axis {axis} of size {size}")
