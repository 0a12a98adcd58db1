"""The rows: inputs, differentiated arguments and goals. The same arrays for every peer, from a fixed seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Row:
    """One workload.

    `inputs()` returns the positional arguments; `wrt` says which of them are differentiated. `goal` bounds our time
    divided by that of the best peer in the same run. `rtol` bounds the disagreement between peers, relative to the sum
    of absolute values. `without` names peers that unroll the row's loop and compile for many minutes.
    """

    name: str
    title: str
    inputs: Callable[[], list[Any]]
    wrt: tuple[int, ...]
    goal: float
    rtol: float = 1e-9
    without: tuple[str, ...] = ()


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _small(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) * 0.05).astype(np.float32)


def _rosen10() -> list[Any]:
    return [_rng().standard_normal(10)]


def _rosen1e6() -> list[Any]:
    return [_rng().standard_normal(1_000_000)]


def _bs1e6() -> list[Any]:
    rng, n = _rng(), 1_000_000
    bounds = [(80, 120), (80, 120), (0.1, 2), (0.01, 0.05), (0.1, 0.4)]
    return [rng.uniform(low, high, n) for low, high in bounds]


def _logreg() -> list[Any]:
    rng = _rng()
    return [rng.standard_normal(100), rng.standard_normal((10_000, 100)), (rng.random(10_000) > 0.5) * 1.0]


def _mlp() -> list[Any]:
    rng, batch = _rng(), 128
    labels = np.zeros((batch, 10), np.float32)
    labels[np.arange(batch), rng.integers(0, 10, batch)] = 1
    return [*(_small(rng, *s) for s in [(784, 128), (128,), (128, 10), (10,), (batch, 784)]), labels]


def _lngelu() -> list[Any]:
    rng = _rng()
    return [_small(rng, 1024, 1024), _small(rng, 1024), _small(rng, 1024)]


def _lj300() -> list[Any]:
    return [_rng().uniform(0, 10, (300, 3))]


def _gp200() -> list[Any]:
    rng = _rng()
    return [np.array([0.1, 0.2, -1.0]), rng.standard_normal((200, 3)), rng.standard_normal(200)]


def _gmm() -> list[Any]:
    """α (K,), means (K, d), icf (K, d(d+1)/2), points (n, d), γ, m; benchmarks/data/README.md has the format."""
    lines = (DATA / "gmm_1k_d10_K25.txt").read_text().split("\n")
    d, k, n = map(int, lines[0].split())
    numbers = np.array(" ".join(lines[1:]).split(), dtype=float)
    sizes = [k, k * d, k * (d * (d + 1) // 2), n * d, 1, 1]
    alphas, means, icf, points, gamma, m = np.split(numbers, np.cumsum(sizes)[:-1])
    return [alphas, means.reshape(k, d), icf.reshape(k, -1), points.reshape(n, d), float(gamma[0]), int(m[0])]


def _lv1000() -> list[Any]:
    return [np.array([1.1, 0.4, 0.1, 0.4]), np.array([10.0, 10.0])]


def _lstm() -> list[Any]:
    """Weights (2·layers, 4·bits), extra weights (3, bits), state (2·layers, bits), characters (n, bits)."""
    _, *blocks = (DATA / "lstm_l2_c1024.txt").read_text().strip().split("\n\n")
    return [np.array([line.split() for line in block.split("\n")], dtype=float) for block in blocks]


def _hmm() -> list[Any]:
    """Transition scores (8, 8), emission scores (8, 16), observed symbols (1000,)."""
    rng = _rng()
    return [rng.standard_normal((8, 8)), rng.standard_normal((8, 16)), rng.integers(0, 16, 1000)]


def _kalman() -> list[Any]:
    """Logarithms of the noise variances, observations (1000,)."""
    return [np.array([0.1, -0.3]), np.cumsum(_rng().standard_normal(1000)) * 0.1]


def _gru() -> list[Any]:
    """Weights of the inputs (3, 32, 64) and of the state (3, 64, 64), biases (3, 64), sequence (100, 16, 32)."""
    rng = _rng()
    shapes = [(3, 32, 64), (3, 64, 64), (3, 64)]
    return [*(rng.standard_normal(s) * 0.1 for s in shapes), rng.standard_normal((100, 16, 32))]


# The goals of rosen10 and bs1e6 are 0.4 of PyTensor and 0.7 of Dr.Jit, which are not among the peers here (2.8 and
# 9929 µs where JAX takes 8.1 and torch.compile 16608); they are stated relative to those two instead.
ROWS = {
    row.name: row
    for row in [
        Row("rosen10", "Rosenbrock, n = 10", _rosen10, (0,), 0.14),
        Row("rosen1e6", "Rosenbrock, n = 10⁶", _rosen1e6, (0,), 0.8),
        Row("bs1e6", "Black-Scholes, 10⁶ options, 5 gradients", _bs1e6, (0, 1, 2, 3, 4), 0.42),
        Row("logreg", "logistic regression, 10⁴ × 100", _logreg, (0,), 0.6),
        Row("mlp", "float32 784-128-10 network, batch 128", _mlp, (0, 1, 2, 3), 0.9, rtol=1e-4),
        Row("lngelu", "float32 1024², layer norm and GELU", _lngelu, (0, 1, 2), 0.4, rtol=1e-4),
        Row("lj300", "Lennard-Jones, 300 particles", _lj300, (0,), 0.25),
        Row("gp200", "Gaussian process likelihood, n = 200", _gp200, (0,), 0.6, rtol=1e-8),
        Row("lv1000", "Lotka–Volterra, RK4, 1000 steps", _lv1000, (0, 1), 0.04, without=("torchc",)),
        Row("lstm", "ADBench LSTM, 2 layers, 1024 characters", _lstm, (0, 1), 0.2, without=("torchc",)),
        Row("hmm", "hidden Markov model, 8 states, 1000 steps", _hmm, (0, 1), 0.3, without=("torchc",)),
        Row("kalman", "Kalman filter, state of 4, 1000 steps", _kalman, (0,), 0.2, without=("torchc",)),
        Row("gru", "GRU 32-64, batch 16, 100 steps", _gru, (0, 1, 2), 0.9, without=("torchc",)),
        Row("gmm", "ADBench GMM, d 10, K 25, n 1000", _gmm, (0, 1, 2), 0.5),
    ]
}
