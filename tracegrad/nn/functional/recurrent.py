"""One step of each recurrent cell. `gates` is the input's share, x @ weight_ih.T + bias_ih, in PyTorch's gate order."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.nn.functional.activation import relu
from tracegrad.nn.functional.linear import linear
from tracegrad.ops.special import expit


def rnn_tanh_step(gates: Any, h: Any, weight_hh: Any, bias_hh: Any) -> Any:
    """tanh(gates + h @ weight_hh.T + bias_hh)."""
    return np.tanh(gates + linear(h, weight_hh, bias_hh))


def rnn_relu_step(gates: Any, h: Any, weight_hh: Any, bias_hh: Any) -> Any:
    """relu(gates + h @ weight_hh.T + bias_hh)."""
    return relu(gates + linear(h, weight_hh, bias_hh))


def gru_step(gates: Any, h: Any, weight_hh: Any, bias_hh: Any) -> Any:
    """Gates r, z, n: the new state is (1 - z) n + z h with n = tanh(n_x + r n_h) (Cho et al. 2014)."""
    r_x, z_x, n_x = np.split(gates, 3, -1)
    r_h, z_h, n_h = np.split(linear(h, weight_hh, bias_hh), 3, -1)
    r, z = expit(r_x + r_h), expit(z_x + z_h)
    n = np.tanh(n_x + r * n_h)
    return n + z * (h - n)


def lstm_step(gates: Any, h: Any, c: Any, weight_hh: Any, bias_hh: Any, weight_hr: Any = None) -> tuple[Any, Any]:
    """Gates i, f, g, o: c' = f c + i g and h' = o tanh(c'), projected by `weight_hr` if given (Hochreiter 1997)."""
    i, f, g, o = np.split(gates + linear(h, weight_hh, bias_hh), 4, -1)
    c = expit(f) * c + expit(i) * np.tanh(g)
    h = expit(o) * np.tanh(c)
    return (h if weight_hr is None else linear(h, weight_hr)), c
