"""Multi-head attention with PyTorch's layout of the parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tracegrad.nn.functional as F
from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.nn import init
from tracegrad.nn.functional.arguments import floats
from tracegrad.nn.functional.attention import additive_mask, attention_weights
from tracegrad.nn.linear import Linear, new_parameter
from tracegrad.nn.module import Module
from tracegrad.ops.base import shape_text
from tracegrad.ops.creation import as_tensor


class MultiheadAttention(Module):
    """Attention of queries to keys and values in `num_heads` subspaces of size embed_dim / num_heads.

    Parameters: in_proj_weight (3 embed_dim, embed_dim), or q_, k_ and v_proj_weight where kdim or vdim differ;
    in_proj_bias, out_proj, and with `add_bias_kv` bias_k and bias_v, an additional key and value.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        dtype: Any = None,
    ):
        super().__init__()
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise ArgumentError(
                f"MultiheadAttention: embed_dim {embed_dim} must be a positive multiple of num_heads {num_heads}"
            )
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        together = self.kdim == self.vdim == embed_dim
        self.register_parameter(
            "in_proj_weight", new_parameter(3 * embed_dim, embed_dim, dtype=dtype) if together else None
        )
        for name, size in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            separate = None if together else new_parameter(embed_dim, size, dtype=dtype)
            self.register_parameter(f"{name}_proj_weight", separate)
        self.register_parameter("in_proj_bias", new_parameter(3 * embed_dim, dtype=dtype) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, new_parameter(1, 1, embed_dim, dtype=dtype) if add_bias_kv else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Projections xavier_uniform_, biases zero, bias_k and bias_v xavier_normal_."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
            init.xavier_normal_(self.bias_v)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """(output, attention weights or None).

        query (L, N, E), key (S, N, kdim), value (S, N, vdim), with N first if `batch_first`, or all without N. The
        weights are (N, L, S), averaged over heads, or (N, heads, L, S). Masks: attn_mask (L, S) or (N * heads, L, S),
        key_padding_mask (N, S); True means left out, floats are added. `is_causal` says that attn_mask is causal.
        """
        if is_causal and attn_mask is None:
            raise ArgumentError(
                "MultiheadAttention: is_causal only says that attn_mask is causal, and there is no attn_mask",
                fix="pass attn_mask=np.triu(np.ones((L, L), bool), 1)",
            )
        q, k, v, batched = self._inputs(query, key, value)
        batch, length = q.shape[:2]
        q, k, v = self._projected(q, k, v)
        mask = self._mask(attn_mask, key_padding_mask, q, k.shape[1], batched)
        k, v, mask = self._extended(k, v, mask)
        q, k, v = (self._split_heads(x) for x in (q, k, v))
        weights = attention_weights(q, k, mask, 1 / math.sqrt(self.head_dim))
        if self.training:
            weights = F.dropout(weights, self.dropout)
        out = self.out_proj(np.swapaxes(weights @ v, 1, 2).reshape((batch, length, self.embed_dim)))
        if average_attn_weights and need_weights:
            weights = weights.mean(axis=1)
        if not batched:
            return out[0], weights[0] if need_weights else None
        return out if self.batch_first else np.swapaxes(out, 0, 1), weights if need_weights else None

    def _inputs(self, query: Any, key: Any, value: Any) -> tuple[Any, Any, Any, bool]:
        """All three with the batch as first axis."""
        q, k, v = (floats(x, "MultiheadAttention") for x in (query, key, value))
        sizes = (self.embed_dim, self.kdim, self.vdim)
        fits = q.ndim == k.ndim == v.ndim in (2, 3) and (q.shape[-1], k.shape[-1], v.shape[-1]) == sizes
        batched = q.ndim == 3
        if fits and not batched:
            q, k, v = (x[None] for x in (q, k, v))
        elif fits and not self.batch_first:
            q, k, v = (np.swapaxes(x, 0, 1) for x in (q, k, v))
        if not fits or k.shape[:2] != v.shape[:2] or q.shape[0] != k.shape[0]:
            raise ShapeError(
                f"MultiheadAttention: query {shape_text(query.shape)}, key {shape_text(key.shape)} and value "
                f"{shape_text(value.shape)} do not fit",
                fix="give them (L, N, {}), (S, N, {}) and (S, N, {}){}".format(
                    *sizes, ", with N first as batch_first=True" if self.batch_first else ", or all without N"
                ),
            )
        return q, k, v, batched

    def _projected(self, q: Any, k: Any, v: Any) -> list[Any]:
        if self.in_proj_weight is not None:
            weights = np.split(self.in_proj_weight, 3)
        else:
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        biases = [None] * 3 if self.in_proj_bias is None else np.split(self.in_proj_bias, 3)
        return [F.linear(x, w, b) for x, w, b in zip((q, k, v), weights, biases, strict=True)]

    def _split_heads(self, x: Any) -> Any:
        """(N, length, embed) to (N, heads, length, head size)."""
        return np.swapaxes(x.reshape((*x.shape[:2], self.num_heads, self.head_dim)), 1, 2)

    def _mask(self, attn_mask: Any, padding: Any, q: Any, keys: int, batched: bool) -> Any:
        """Both masks as numbers to add, broadcastable to (N, heads, L, S)."""
        batch, length = q.shape[:2]
        mask = None
        if attn_mask is not None:
            mask = additive_mask(attn_mask, q.dtype, "attn_mask")
            if tuple(mask.shape) not in ((length, keys), (batch * self.num_heads, length, keys)):
                raise ShapeError(
                    f"MultiheadAttention: attn_mask has shape {shape_text(mask.shape)}",
                    fix=f"give it ({length}, {keys}) or ({batch * self.num_heads}, {length}, {keys})",
                )
            if mask.ndim == 3:
                mask = mask.reshape((batch, self.num_heads, length, keys))
        if padding is None:
            return mask
        left_out = as_tensor(padding) if batched else as_tensor(padding)[None]
        if tuple(left_out.shape) != (batch, keys):
            raise ShapeError(
                f"MultiheadAttention: key_padding_mask has shape {shape_text(as_tensor(padding).shape)}",
                fix=f"give it ({batch}, {keys}): batch and keys" if batched else f"give it ({keys},)",
            )
        added = additive_mask(left_out, q.dtype, "key_padding_mask")[:, None, None]
        return added if mask is None else mask + added

    def _extended(self, k: Any, v: Any, mask: Any) -> tuple[Any, Any, Any]:
        """Keys and values with bias_k and bias_v and a zero at the end; nothing masks these."""
        extra = 0
        batch = k.shape[0]
        if self.bias_k is not None:
            k, v = (
                np.concatenate([x, np.broadcast_to(b, (batch, 1, self.embed_dim))], 1)
                for x, b in ((k, self.bias_k), (v, self.bias_v))
            )
            extra += 1
        if self.add_zero_attn:
            k, v = (np.concatenate([x, x.new_zeros((batch, 1, self.embed_dim))], 1) for x in (k, v))
            extra += 1
        if mask is not None and extra:
            mask = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, extra)])
        return k, v, mask
