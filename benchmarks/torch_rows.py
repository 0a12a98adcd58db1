"""The rows as a PyTorch user writes them."""

from __future__ import annotations

import itertools
import math

import torch


def rosen(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def normal_cdf(z):
    return 0.5 * (1 + torch.erf(z / math.sqrt(2)))


def black_scholes(spot, strike, years, rate, vol):
    d1 = (torch.log(spot / strike) + (rate + vol * vol / 2) * years) / (vol * torch.sqrt(years))
    d2 = d1 - vol * torch.sqrt(years)
    return (spot * normal_cdf(d1) - strike * torch.exp(-rate * years) * normal_cdf(d2)).sum()


def logistic(w, X, y):
    z = X @ w
    return torch.nn.functional.softplus(z, threshold=1000).mean() - (y * z).mean()


def network(W1, b1, W2, b2, X, Y):
    z = torch.tanh(X @ W1 + b1) @ W2 + b2
    return -((z - torch.logsumexp(z, 1, keepdim=True)) * Y).sum() / X.shape[0]


def layer_norm_gelu(x, gain, bias):
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    h = centred / torch.sqrt(variance + 1e-5) * gain + bias
    h = 0.5 * h * (1 + torch.tanh(0.7978845608 * (h + 0.044715 * h * h * h)))
    return (h * h).sum()


def lennard_jones(x):
    d = x[:, None, :] - x[None, :, :]
    r2 = (d * d).sum(-1) + torch.eye(x.shape[0], dtype=x.dtype) * 1e6
    i6 = 1.0 / (r2 * r2 * r2)
    return (4 * (i6 * i6 - i6)).sum() / 2


def gaussian_process(theta, X, y):
    d = X[:, None, :] - X[None, :, :]
    r2 = (d * d).sum(-1)
    eye = torch.eye(X.shape[0], dtype=X.dtype)
    K = torch.exp(theta[0]) * torch.exp(-0.5 * r2 * torch.exp(theta[1])) + torch.exp(theta[2]) * eye
    L = torch.linalg.cholesky(K)
    a = torch.linalg.solve_triangular(L, y[:, None], upper=False)[:, 0]
    return 0.5 * (a * a).sum() + torch.log(torch.diagonal(L)).sum()


def lotka_volterra(p, y0):
    dt = 0.01

    def slope(u, v):
        return p[0] * u - p[1] * u * v, p[2] * u * v - p[3] * v

    (u, v), total = y0, 0.0
    for _ in range(1000):
        a = slope(u, v)
        b = slope(u + 0.5 * dt * a[0], v + 0.5 * dt * a[1])
        c = slope(u + 0.5 * dt * b[0], v + 0.5 * dt * b[1])
        d = slope(u + dt * c[0], v + dt * c[1])
        u = u + dt / 6 * (a[0] + 2 * b[0] + 2 * c[0] + d[0])
        v = v + dt / 6 * (a[1] + 2 * b[1] + 2 * c[1] + d[1])
        total = total + u * u + v * v
    return total


def lstm(weights, extra, state, characters):
    bits = characters.shape[1]
    cells = [(state[2 * k], state[2 * k + 1]) for k in range(weights.shape[0] // 2)]
    total = 0.0
    for character, following in itertools.pairwise(characters):
        x = character * extra[0]
        for k, (h, c) in enumerate(cells):
            gates = torch.cat([x, h, x, h]) * weights[2 * k] + weights[2 * k + 1]
            forget, ingest, out, change = gates.split(bits)
            c = c * torch.sigmoid(forget) + torch.sigmoid(ingest) * torch.tanh(change)
            x = torch.sigmoid(out) * torch.tanh(c)
            cells[k] = x, c
        y = x * extra[1] + extra[2]
        total = total + (following * (y - torch.log(2 + y.exp().sum()))).sum()
    return -total / (bits * (characters.shape[0] - 1))


def hidden_markov(A, B, symbols):
    transition, emission = torch.log_softmax(A, 1), torch.log_softmax(B, 1)
    state = emission[:, 0] * 0 - math.log(len(A))
    for symbol in symbols:
        state = torch.logsumexp(state[:, None] + transition, 0) + emission[:, symbol]
    return torch.logsumexp(state, 0)


def kalman(theta, observations):
    dt, q, r = 0.1, theta[0].exp(), theta[1].exp()
    F = torch.tensor([[1, 0, dt, 0], [0, 1, 0, dt], [0, 0, 1, 0], [0, 0, 0, 1.0]], dtype=theta.dtype)
    H = torch.tensor([[1.0, 0, 0, 0]], dtype=theta.dtype)
    eye = torch.eye(4, dtype=theta.dtype)
    m, P, total = torch.zeros(4, dtype=theta.dtype) * q, eye * q, 0.0
    for observation in observations:
        m, P = F @ m, F @ P @ F.T + q * eye * 0.1
        S = (H @ P @ H.T)[0, 0] + r
        K, error = (P @ H.T)[:, 0] / S, observation - m[0]
        m, P = m + K * error, P - torch.outer(K, K) * S
        total = total - 0.5 * (torch.log(2 * math.pi * S) + error * error / S)
    return total


def gru(W, U, b, sequence):
    h = torch.zeros(sequence.shape[1], U.shape[1], dtype=sequence.dtype)
    total = 0.0
    for x in sequence:
        z = torch.sigmoid(x @ W[0] + h @ U[0] + b[0])
        r = torch.sigmoid(x @ W[1] + h @ U[1] + b[1])
        h = (1 - z) * torch.tanh(x @ W[2] + (r * h) @ U[2] + b[2]) + z * h
        total = total + (h * h).sum()
    return total / (sequence.shape[0] * h.numel())


def gaussian_mixture(alphas, means, icf, x, gamma, m):
    """ADBench's GMM objective; numpy_rows.py has the reference."""
    n, d = x.shape
    k = alphas.shape[0]
    q, below = icf[:, :d], icf[:, d:]
    Q = torch.exp(q)
    # pairs of torch.triu_indices, swapped, walk the strictly lower triangle column by column
    columns, rows = torch.triu_indices(d, d, 1)
    L = torch.zeros(k, d, d, dtype=icf.dtype).index_put((torch.arange(k)[:, None], rows, columns), below)
    diff = x[:, None, :] - means
    y = Q * diff + torch.einsum("kij,nkj->nki", L, diff)
    terms = alphas + q.sum(1) - 0.5 * (y * y).sum(2)
    likelihood = torch.logsumexp(terms, 1).sum() - n * torch.logsumexp(alphas, 0)
    prior = 0.5 * gamma**2 * ((Q * Q).sum() + (below * below).sum()) - m * q.sum()
    p = d + m + 1
    log_gamma = torch.special.multigammaln(torch.tensor(0.5 * p, dtype=x.dtype), d)
    constant = p * d * math.log(gamma / math.sqrt(2)) - log_gamma
    return -n * d / 2 * math.log(2 * math.pi) + likelihood + prior - k * constant


FUNCTIONS = {
    "rosen10": rosen,
    "rosen1e6": rosen,
    "bs1e6": black_scholes,
    "logreg": logistic,
    "mlp": network,
    "lngelu": layer_norm_gelu,
    "lj300": lennard_jones,
    "gp200": gaussian_process,
    "lv1000": lotka_volterra,
    "lstm": lstm,
    "hmm": hidden_markov,
    "kalman": kalman,
    "gru": gru,
    "gmm": gaussian_mixture,
}
