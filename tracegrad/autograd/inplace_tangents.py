"""In-place modification in forward mode: the tangent of a base is written where its memory is.

Tangents are never modified, since several Tensors may carry one: a base gets a new one, and views derive theirs from
it when next asked (`forward_ad.tangent_of`). Writing is done by the same methods, so that outer levels see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tracegrad.autograd.forward_ad import Level, attach, levels, tangent_of
from tracegrad.autograd.views import replayed
from tracegrad.errors import AutogradError
from tracegrad.state import setting
from tracegrad.tensor import Tensor

Tangents = Mapping[Level, tuple[Tensor | None, Tensor | None]]


def base_of(x: Tensor) -> Tensor:
    """The Tensor whose memory `x` is, or sees."""
    return x if x._meta is None or x._meta.base is None else x._meta.base


def refuse_arguments(x: Tensor) -> None:
    """Raise AutogradError for what is being differentiated, as in backward mode: it is the caller's."""
    base = base_of(x)
    if any(base is argument for level in levels() for argument in level.arguments):
        raise AutogradError(
            "an argument that is being differentiated is a leaf Variable that requires grad, "
            "and it is being used in an in-place operation",
            fix="write it as a new value (x = x + y), or modify a copy (x = x.copy())",
        )


def tangents_before(x: Tensor, value: Any) -> Tangents:
    """Per active level the tangents of the memory that is about to be modified, and of the value written there."""
    return {level: (tangent_of(base_of(x), level), tangent_of(value, level)) for level in levels()}


def write_tangents(x: Tensor, tangents: Tangents, index: Any = ...) -> None:
    """After `x[index] = value`: tangents of the memory with that of the value, or zero, in its place."""
    base = base_of(x)
    for level, (tangent, new) in tangents.items():
        if tangent is None and new is None:
            continue
        with setting(dual=level.outer):
            whole = Tensor._wrap(np.zeros(base.shape, base.dtype)) if tangent is None else tangent.clone()
            part = whole if x is base else replayed(whole, x._meta.replay)  # type: ignore[union-attr]
            part[index] = 0.0 if new is None else new
        attach(base, level, whole)
