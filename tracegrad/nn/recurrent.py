"""Recurrent layers, with PyTorch's names, shapes and gate order of the weights."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

import tracegrad.nn.functional as F
from tracegrad.control import scan
from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.nn import init
from tracegrad.nn.functional.arguments import floats, with_ndim
from tracegrad.nn.functional.recurrent import gru_step, lstm_step, rnn_relu_step, rnn_tanh_step
from tracegrad.nn.linear import new_parameter
from tracegrad.nn.module import Module
from tracegrad.ops.base import shape_text
from tracegrad.ops.creation import as_tensor


class _Recurrent(Module):
    """What recurrent layers share. All parameters start uniform within ±1/√hidden_size.

    The input is (L, N, input_size), (N, L, input_size) with `batch_first`, or (L, input_size); the initial state,
    zero unless given, (num_layers * directions, N, hidden_size). `dropout` acts between layers while training.
    """

    gates: ClassVar[int]
    proj_size: int = 0

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: Any = None,
    ):
        super().__init__()
        if hidden_size < 1 or num_layers < 1 or not 0 <= dropout <= 1:
            raise ArgumentError(
                f"{type(self).__name__}: hidden_size {hidden_size} and num_layers {num_layers} must be positive, "
                f"dropout {dropout} between 0 and 1"
            )
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, dropout, bidirectional
        self._directions = 2 if bidirectional else 1
        for layer in range(num_layers):
            for suffix in self._suffixes(layer):
                self._add_weights(suffix, input_size if layer == 0 else self._out_size * self._directions, dtype)
        self.reset_parameters()

    @property
    def _out_size(self) -> int:
        return self.proj_size or self.hidden_size

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: self._directions]

    def _add_weights(self, suffix: str, size: int, dtype: Any) -> None:
        rows = self.gates * self.hidden_size
        setattr(self, f"weight_ih{suffix}", new_parameter(rows, size, dtype=dtype))
        setattr(self, f"weight_hh{suffix}", new_parameter(rows, self._out_size, dtype=dtype))
        if self.bias:
            setattr(self, f"bias_ih{suffix}", new_parameter(rows, dtype=dtype))
            setattr(self, f"bias_hh{suffix}", new_parameter(rows, dtype=dtype))
        if self.proj_size:
            setattr(self, f"weight_hr{suffix}", new_parameter(self.proj_size, self.hidden_size, dtype=dtype))

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _step(self, gates: Any, state: tuple[Any, ...], weights: tuple[Any, ...]) -> tuple[Any, ...]:
        """The next state, whose first element is the output; `weights` are weight_hh, bias_hh and weight_hr."""
        raise NotImplementedError

    def _run(self, input: Any, state: tuple[Any, ...] | None) -> tuple[Any, tuple[Any, ...]]:
        """Outputs and final state of the whole stack."""
        what = type(self).__name__
        x = with_ndim(floats(input, what), (2, 3), what, "(L, N, input) or (L, input)")
        if x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{what}: the last axis of an input of shape {shape_text(x.shape)} is not input_size={self.input_size}"
            )
        batched = x.ndim == 3
        x = x[:, None] if not batched else np.swapaxes(x, 0, 1) if self.batch_first else x
        state = self._initial(x, state, batched)
        finals: list[tuple[Any, ...]] = []
        for layer in range(self.num_layers):
            if layer and self.training:
                x = F.dropout(x, self.dropout)
            outs = []
            for suffix in self._suffixes(layer):
                out, final = self._scan(x, tuple(s[len(finals)] for s in state), suffix)
                outs.append(out)
                finals.append(final)
            x = outs[0] if len(outs) == 1 else np.concatenate(outs, -1)
        last = tuple(np.stack(parts) for parts in zip(*finals, strict=True))
        if not batched:
            return x[:, 0], tuple(s[:, 0] for s in last)
        return (np.swapaxes(x, 0, 1) if self.batch_first else x), last

    def _initial(self, x: Any, state: tuple[Any, ...] | None, batched: bool) -> tuple[Any, ...]:
        sizes = self._state_sizes()
        if state is None:
            shapes = [(self.num_layers * self._directions, x.shape[1], size) for size in sizes]
            return tuple(x.new_zeros(shape) for shape in shapes)
        found = []
        for given, size in zip(state, sizes, strict=True):
            s = as_tensor(given)
            wanted = (self.num_layers * self._directions, *((x.shape[1],) if batched else ()), size)
            if tuple(s.shape) != wanted:
                raise ShapeError(
                    f"{type(self).__name__}: the initial state has shape {shape_text(s.shape)}, it must have "
                    f"{shape_text(wanted)} (layers * directions, {'batch, ' if batched else ''}size)"
                )
            found.append(s if batched else s[:, None])
        return tuple(found)

    def _state_sizes(self) -> tuple[int, ...]:
        return (self.hidden_size,)

    def _scan(self, x: Any, state: tuple[Any, ...], suffix: str) -> tuple[Any, tuple[Any, ...]]:
        """One layer in one direction. The inputs' share of all steps is one matrix product."""
        names = ("weight_ih", "bias_ih", "weight_hh", "bias_hh", "weight_hr")
        w_ih, b_ih, *weights = (self._parameters.get(name + suffix) for name in names)
        gates = F.linear(x, w_ih, b_ih)
        if x.shape[0] == 0:
            raise ShapeError(f"{type(self).__name__}: the input has no time steps")

        def step(state: tuple[Any, ...], gates_now: Any) -> tuple[tuple[Any, ...], Any]:
            state = tuple(self._step(gates_now, state, tuple(weights)))
            return state, state[0]

        start = tuple(s.astype(gates.dtype, copy=False) for s in state)
        final, outs = scan(step, start, gates, reverse=suffix.endswith("_reverse"))
        return outs, final

    def extra_repr(self) -> str:
        texts = [f"{self.input_size}, {self.hidden_size}"]
        usual = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0, "bidirectional": False,
        }  # fmt: skip
        texts += [f"{k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v]
        return ", ".join(texts)


class _OneState(_Recurrent):
    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """(outputs of the last layer, final state of all layers)."""
        out, (h,) = self._run(input, None if hx is None else (hx,))
        return out, h


class RNN(_OneState):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or with relu in its place."""

    gates = 1

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", **options: Any
    ):
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(f"RNN: nonlinearity is 'tanh' or 'relu', not {nonlinearity!r}")
        super().__init__(input_size, hidden_size, num_layers, **options)
        self.nonlinearity = nonlinearity

    def _step(self, gates: Any, state: tuple[Any, ...], weights: tuple[Any, ...]) -> tuple[Any, ...]:
        step = rnn_tanh_step if self.nonlinearity == "tanh" else rnn_relu_step
        return (step(gates, state[0], *weights[:2]),)


class GRU(_OneState):
    """Gated recurrent units, weights stacked in the order reset, update, new; see functional.recurrent.gru_step."""

    gates = 3

    def _step(self, gates: Any, state: tuple[Any, ...], weights: tuple[Any, ...]) -> tuple[Any, ...]:
        return (gru_step(gates, state[0], *weights[:2]),)


class LSTM(_Recurrent):
    """Long short-term memory, weights stacked in the order input, forget, cell, output; the state is (h, c).

    With `proj_size` h is projected to that size by weight_hr.
    """

    gates = 4

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        dtype: Any = None,
    ):
        if not 0 <= proj_size < max(hidden_size, 1):
            raise ArgumentError(f"LSTM: proj_size {proj_size} must be smaller than hidden_size {hidden_size}")
        self.__dict__["proj_size"] = proj_size  # read while the weights are made
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype)

    def _state_sizes(self) -> tuple[int, ...]:
        return self._out_size, self.hidden_size

    def _step(self, gates: Any, state: tuple[Any, ...], weights: tuple[Any, ...]) -> tuple[Any, ...]:
        return lstm_step(gates, *state, *weights)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, tuple[Any, Any]]:
        """(outputs of the last layer, (h, c) of all layers)."""
        out, (h, c) = self._run(input, hx)
        return out, (h, c)


# ---- cells --------------------------------------------------------------------------------------------------------


class _Cell(Module):
    """One step of one layer: (N, input_size) or (input_size,) and a state, zero unless given, to the next state."""

    gates: ClassVar[int]

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = self.gates * hidden_size
        self.weight_ih = new_parameter(rows, input_size, dtype=dtype)
        self.weight_hh = new_parameter(rows, hidden_size, dtype=dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, new_parameter(rows, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _read(self, input: Any, states: Any, count: int) -> tuple[Any, list[Any]]:
        """The input's share of the gates and the states, all checked."""
        what = type(self).__name__
        x = with_ndim(floats(input, what), (1, 2), what, "(N, input) or (input,)")
        if x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{what}: the last axis of an input of shape {shape_text(x.shape)} is not input_size={self.input_size}"
            )
        shape = (*x.shape[:-1], self.hidden_size)
        found = [x.new_zeros(shape)] * count if states is None else [as_tensor(s) for s in states]
        for s in found:
            if tuple(s.shape) != shape:
                raise ShapeError(f"{what}: a state has shape {shape_text(s.shape)}, it must have {shape_text(shape)}")
        return F.linear(x, self.weight_ih, self.bias_ih), found

    def extra_repr(self) -> str:
        texts = [f"{self.input_size}, {self.hidden_size}"]
        texts += ["bias=False"] if not self.bias else []
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return ", ".join(texts + ([f"nonlinearity={nonlinearity}"] if nonlinearity != "tanh" else []))


class RNNCell(_Cell):
    """One step of RNN."""

    gates = 1

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", dtype: Any = None
    ):
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(f"RNNCell: nonlinearity is 'tanh' or 'relu', not {nonlinearity!r}")
        super().__init__(input_size, hidden_size, bias, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        gates, (h,) = self._read(input, None if hx is None else (hx,), 1)
        step = rnn_tanh_step if self.nonlinearity == "tanh" else rnn_relu_step
        return step(gates, h, self.weight_hh, self.bias_hh)


class GRUCell(_Cell):
    """One step of GRU."""

    gates = 3

    def forward(self, input: Any, hx: Any = None) -> Any:
        gates, (h,) = self._read(input, None if hx is None else (hx,), 1)
        return gru_step(gates, h, self.weight_hh, self.bias_hh)


class LSTMCell(_Cell):
    """One step of LSTM; the state and the result are pairs (h, c)."""

    gates = 4

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        gates, (h, c) = self._read(input, hx, 2)
        return lstm_step(gates, h, c, self.weight_hh, self.bias_hh)
