"""Embedding: a table of vectors that are parameters."""

from __future__ import annotations

from typing import Any

import tracegrad.nn.functional as F
from tracegrad.errors import ArgumentError, ShapeError, UnsupportedError
from tracegrad.nn import init
from tracegrad.nn.linear import new_parameter
from tracegrad.nn.module import Module
from tracegrad.nn.parameter import Parameter
from tracegrad.ops.base import shape_text
from tracegrad.ops.creation import as_tensor
from tracegrad.state import setting


class Embedding(Module):
    """The rows of `weight` (num_embeddings, embedding_dim) at integer positions; weight starts standard normal.

    The row `padding_idx` starts at zero and gets no gradient; see functional.embedding for the rest.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        dtype: Any = None,
    ):
        super().__init__()
        if scale_grad_by_freq or sparse:
            raise UnsupportedError(
                "Embedding has neither scale_grad_by_freq nor sparse gradients", fix="leave them out"
            )
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ArgumentError(f"Embedding: padding_idx {padding_idx} is outside of {num_embeddings} rows")
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.max_norm, self.norm_type = max_norm, norm_type
        self.weight = new_parameter(num_embeddings, embedding_dim, dtype=dtype)
        self.reset_parameters()

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, **options: Any) -> Embedding:
        """An Embedding over a matrix of vectors, which are not trained if `freeze`."""
        table = as_tensor(embeddings)
        if table.ndim != 2:
            raise ShapeError(f"from_pretrained takes a matrix, not a Tensor of shape {shape_text(table.shape)}")
        made = cls(*table.shape, dtype=table.dtype, **options)
        made.weight = Parameter(table.detach(), requires_grad=not freeze)
        return made

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with setting(grad_enabled=False):
                self.weight[self.padding_idx] = 0

    def forward(self, input: Any) -> Any:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type)

    def extra_repr(self) -> str:
        texts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        for name, usual in (("padding_idx", None), ("max_norm", None), ("norm_type", 2.0)):
            if getattr(self, name) != usual:
                texts.append(f"{name}={getattr(self, name)}")
        return ", ".join(texts)
