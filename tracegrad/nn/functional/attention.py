"""Scaled dot-product attention, and multi-head attention built on it (Vaswani et al. 2017)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.nn.functional.activation import softmax
from tracegrad.nn.functional.arguments import floats
from tracegrad.nn.functional.dropout import dropout
from tracegrad.ops.base import shape_text
from tracegrad.ops.creation import as_tensor


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(query key^T scale + mask) value: query (…, L, E), key (…, S, E), value (…, S, V) give (…, L, V).

    A boolean mask, broadcast to (…, L, S), is True where a key takes part; a mask of floats is added. `scale` is
    1 / √E unless given. `enable_gqa` repeats the heads (third axis from the end) of key and value.
    """
    q, k, v = (floats(x, "scaled_dot_product_attention") for x in (query, key, value))
    if is_causal and attn_mask is not None:
        raise ArgumentError("scaled_dot_product_attention takes attn_mask or is_causal, not both")
    if min(q.ndim, k.ndim, v.ndim) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ShapeError(
            f"scaled_dot_product_attention: query {shape_text(q.shape)}, key {shape_text(k.shape)} and value "
            f"{shape_text(v.shape)} do not fit",
            fix="give them the shapes (…, L, E), (…, S, E) and (…, S, V)",
        )
    if enable_gqa:
        k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], axis=-3) for x in (k, v))
    if is_causal:
        attn_mask = np.tril(np.ones((q.shape[-2], k.shape[-2]), bool))
    weights = attention_weights(q, k, attn_mask, scale)
    return dropout(weights, dropout_p) @ v


def attention_weights(q: Any, k: Any, mask: Any, scale: float | None = None) -> Any:
    """softmax(q k^T scale + mask) along the last axis."""
    scores = q * (1 / math.sqrt(q.shape[-1]) if scale is None else scale) @ np.swapaxes(k, -1, -2)
    if mask is not None:
        mask = as_tensor(mask)
        scores = np.where(mask, scores, -np.inf) if mask.dtype.kind == "b" else scores + mask
    return softmax(scores, -1)


def additive_mask(mask: Any, dtype: Any, what: str) -> Any:
    """A mask as numbers to add: a boolean one has -inf where it is True (what is left out)."""
    mask = as_tensor(mask)
    if mask.dtype.kind == "b":
        return np.where(mask, -np.inf, np.zeros((), dtype))
    if mask.dtype.kind != "f":
        raise ArgumentError(f"{what} must be boolean or floats, not {mask.dtype}")
    return mask.astype(dtype, copy=False)
