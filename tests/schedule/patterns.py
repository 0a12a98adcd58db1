"""Value and gradient of well-known functions as optimised graphs, at sizes the evaluator can run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tracegrad as tg
from tracegrad.ir.graph import Graph
from tracegrad.passes.pipeline import optimize
from tracegrad.transforms.signature import read_call


def value_and_grad_graph(function: Callable[..., Any], argnums: Any, args: tuple[Any, ...]) -> Graph:
    """The graph that tg.value_and_grad compiles."""
    compiled = tg.value_and_grad(function, argnums=argnums)
    _, joint = compiled._record(read_call(args, {}), args, None)
    return optimize(joint)


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def black_scholes(spot, strike, time, rate, sigma):
    d1 = (np.log(spot / strike) + (rate + sigma * sigma / 2) * time) / (sigma * np.sqrt(time))
    d2 = d1 - sigma * np.sqrt(time)
    return (spot * normal(d1) - strike * np.exp(-rate * time) * normal(d2)).sum()


def normal(z):
    return 0.5 * (1 + tg.scipy.special.erf(z / np.sqrt(2)))


def logistic(w, X, y):
    z = np.matmul(X, w)
    return np.logaddexp(0.0, z).mean() - (y * z).mean()


def mlp(W1, b1, W2, b2, X, Y):
    h = np.tanh(np.matmul(X, W1) + b1)
    z = np.matmul(h, W2) + b2
    m = z - z.max(1, keepdims=True)
    logp = m - np.log(np.exp(m).sum(1, keepdims=True))
    return -(logp * Y).sum() / X.shape[0]


def layer_norm_gelu(x, g, b):
    mu = x.mean(-1, keepdims=True)
    xc = x - mu
    v = (xc * xc).mean(-1, keepdims=True)
    h = xc / np.sqrt(v + 1e-5) * g + b
    h = 0.5 * h * (1 + np.tanh(0.7978845608 * (h + 0.044715 * h * h * h)))
    return (h * h).sum()


def lennard_jones(x, eye):
    d = x[:, None, :] - x[None, :, :]
    r2 = (d * d).sum(-1)
    r2 = r2 + eye * 1e6
    i6 = 1.0 / (r2 * r2 * r2)
    return (4 * (i6 * i6 - i6)).sum() / 2


def softmax_rows(x, y):
    e = np.exp(x - x.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    return (p * y).sum()


def gaussian_mixture(alphas, means, icf, x, index):
    """The likelihood of ADBench's GMM; `index` says where in a row of icf each element of the triangle stands."""
    d = x.shape[1]
    q = icf[:, :d]
    Q = np.exp(q)
    lower = np.concatenate([icf[:, d:], np.zeros((icf.shape[0], 1))], 1)[:, index]
    difference = x[:, None, :] - means[None]
    y = Q * difference + (lower * difference[:, :, None, :]).sum(-1)
    inner = alphas + q.sum(1) - 0.5 * (y * y).sum(-1)
    m = inner.max(1, keepdims=True)
    value = (np.log(np.exp(inner - m).sum(1)) + m[:, 0]).sum()
    return value - x.shape[0] * np.log(np.exp(alphas).sum()) + (Q * Q).sum() - q.sum()


def triangle(d: int) -> np.ndarray:
    """Positions of a strictly lower triangle stored column by column; one past the end elsewhere."""
    index = np.full((d, d), d * (d - 1) // 2)
    columns, rows = np.triu_indices(d, 1)
    index[rows, columns] = np.arange(len(rows))
    return index


def patterns(scale: int = 1) -> dict[str, tuple[Callable[..., Any], Any, tuple[np.ndarray, ...]]]:
    """name → (function, argnums, arguments); `scale` multiplies the large sizes."""
    rng = np.random.default_rng(0)
    n = 12 * scale

    def f32(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * 0.5).astype(np.float32)

    one_hot = np.eye(10, dtype=np.float32)[rng.integers(0, 10, n)]
    return {
        "rosenbrock": (rosenbrock, 0, (rng.standard_normal(n),)),
        "black_scholes": (
            black_scholes,
            (0, 1, 2, 3, 4),
            tuple(rng.uniform(a, b, n) for a, b in ((80, 120), (80, 120), (0.1, 2), (0.01, 0.05), (0.1, 0.4))),
        ),
        "logistic": (
            logistic,
            0,
            (rng.standard_normal(n + 3), rng.standard_normal((2 * n, n + 3)), (rng.random(2 * n) > 0.5) * 1.0),
        ),
        "mlp": (
            mlp,
            (0, 1, 2, 3),
            (f32(20 * scale, 14 * scale), f32(14 * scale), f32(14 * scale, 10), f32(10), f32(n, 20 * scale), one_hot),
        ),
        "layer_norm_gelu": (layer_norm_gelu, (0, 1, 2), (f32(n, n + 2), f32(n + 2), f32(n + 2))),
        "lennard_jones": (lennard_jones, 0, (rng.uniform(0, 10, (n - 3, 3)), np.eye(n - 3))),
        "gaussian_mixture": (
            gaussian_mixture,
            (0, 1, 2),
            (
                rng.standard_normal(13),
                rng.standard_normal((13, 9)),
                rng.standard_normal((13, 45)) * 0.3,
                rng.standard_normal((n, 9)),
                triangle(9),
            ),
        ),
        "softmax_rows": (softmax_rows, 0, (rng.standard_normal((n, n + 3)), rng.standard_normal((n, n + 3)))),
    }


__all__ = ["patterns", "value_and_grad_graph"]
