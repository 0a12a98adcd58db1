"""The rows as plain NumPy code, for tracegrad, JAX and autograd; torch_rows.py says the same in PyTorch."""

from __future__ import annotations

import math

from benchmarks.namespace import np, scan, solve_lower, special


def rosen(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def normal_cdf(z):
    return 0.5 * (1 + special.erf(z / math.sqrt(2)))


def black_scholes(spot, strike, years, rate, vol):
    d1 = (np.log(spot / strike) + (rate + vol * vol / 2) * years) / (vol * np.sqrt(years))
    d2 = d1 - vol * np.sqrt(years)
    return np.sum(spot * normal_cdf(d1) - strike * np.exp(-rate * years) * normal_cdf(d2))


def logistic(w, X, y):
    z = X @ w
    return np.mean(np.logaddexp(0.0, z)) - np.mean(y * z)


def network(W1, b1, W2, b2, X, Y):
    z = np.tanh(X @ W1 + b1) @ W2 + b2
    z = z - np.max(z, axis=1, keepdims=True)
    log_p = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    return -np.sum(log_p * Y) / X.shape[0]


def layer_norm_gelu(x, gain, bias):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    h = centred / np.sqrt(variance + 1e-5) * gain + bias
    h = 0.5 * h * (1 + np.tanh(0.7978845608 * (h + 0.044715 * h * h * h)))
    return np.sum(h * h)


def lennard_jones(x):
    d = x[:, None, :] - x[None, :, :]
    r2 = np.sum(d * d, axis=-1) + np.eye(x.shape[0]) * 1e6
    i6 = 1.0 / (r2 * r2 * r2)
    return np.sum(4 * (i6 * i6 - i6)) / 2


def gaussian_process(theta, X, y):
    d = X[:, None, :] - X[None, :, :]
    r2 = np.sum(d * d, axis=-1)
    K = np.exp(theta[0]) * np.exp(-0.5 * r2 * np.exp(theta[1])) + np.exp(theta[2]) * np.eye(X.shape[0])
    L = np.linalg.cholesky(K)
    a = solve_lower(L, y)
    return 0.5 * np.sum(a * a) + np.sum(np.log(np.diag(L)))


def lotka_volterra(p, y0):
    dt = 0.01

    def slope(u, v):
        return p[0] * u - p[1] * u * v, p[2] * u * v - p[3] * v

    def step(state, _):
        u, v = state
        a = slope(u, v)
        b = slope(u + 0.5 * dt * a[0], v + 0.5 * dt * a[1])
        c = slope(u + 0.5 * dt * b[0], v + 0.5 * dt * b[1])
        d = slope(u + dt * c[0], v + dt * c[1])
        u = u + dt / 6 * (a[0] + 2 * b[0] + 2 * c[0] + d[0])
        v = v + dt / 6 * (a[1] + 2 * b[1] + 2 * c[1] + d[1])
        return (u, v), u * u + v * v

    return np.sum(scan(step, (y0[0], y0[1]), None, length=1000)[1])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(weights, extra, state, characters):
    """ADBench's LSTM, an elementwise cell predicting the next character: Šrajer, Kukelova, Fitzgibbon."""
    bits = characters.shape[1]
    layers = weights.shape[0] // 2

    def step(cells, pair):
        character, following = pair
        x, new = character * extra[0], []
        for k, (h, c) in enumerate(cells):
            gates = np.concatenate([x, h, x, h]) * weights[2 * k] + weights[2 * k + 1]
            forget, ingest, out, change = (gates[i * bits : (i + 1) * bits] for i in range(4))
            c = c * sigmoid(forget) + sigmoid(ingest) * np.tanh(change)
            x = sigmoid(out) * np.tanh(c)
            new.append((x, c))
        y = x * extra[1] + extra[2]
        return tuple(new), np.sum(following * (y - np.log(2 + np.sum(np.exp(y)))))

    cells = tuple((state[2 * k], state[2 * k + 1]) for k in range(layers))
    scores = scan(step, cells, (characters[:-1], characters[1:]))[1]
    return -np.sum(scores) / (bits * (characters.shape[0] - 1))


def hidden_markov(A, B, symbols):
    """The forward algorithm: log likelihood of the symbols from equally likely states."""
    transition = A - special.logsumexp(A, axis=1, keepdims=True)
    emission = B - special.logsumexp(B, axis=1, keepdims=True)

    def step(state, pair):
        (symbol,) = pair
        return special.logsumexp(state[:, None] + transition, axis=0) + emission[:, symbol], 0.0

    return special.logsumexp(scan(step, emission[:, 0] * 0 - math.log(len(A)), (symbols,))[0])


def kalman(theta, observations):
    """Log likelihood of a point that moves in the plane, of whose first coordinate each step measures a noisy value."""
    dt, q, r = 0.1, np.exp(theta[0]), np.exp(theta[1])
    F = np.array([[1, 0, dt, 0], [0, 1, 0, dt], [0, 0, 1, 0], [0, 0, 0, 1.0]])
    H = np.array([[1.0, 0, 0, 0]])

    def step(state, pair):
        m, P = state
        m, P = F @ m, F @ P @ F.T + q * np.eye(4) * 0.1
        S = (H @ P @ H.T)[0, 0] + r
        K, error = (P @ H.T)[:, 0] / S, pair[0] - m[0]
        return (m + K * error, P - np.outer(K, K) * S), -0.5 * (np.log(2 * math.pi * S) + error * error / S)

    return np.sum(scan(step, (np.zeros(4) * q, np.eye(4) * q), (observations,))[1])


def gru(W, U, b, sequence):
    def step(h, pair):
        (x,) = pair
        z = sigmoid(x @ W[0] + h @ U[0] + b[0])
        r = sigmoid(x @ W[1] + h @ U[1] + b[1])
        h = (1 - z) * np.tanh(x @ W[2] + (r * h) @ U[2] + b[2]) + z * h
        return h, np.sum(h * h)

    start = np.zeros((sequence.shape[1], U.shape[1]))
    return np.sum(scan(step, start, (sequence,))[1]) / (sequence.shape[0] * start.size)


def gaussian_mixture(alphas, means, icf, x, gamma, m):
    """ADBench's GMM objective, log likelihood plus Wishart prior: Šrajer, Kukelova, Fitzgibbon, arXiv:1807.10129."""
    n, d = x.shape
    k = len(alphas)
    q, below = icf[:, :d], icf[:, d:]
    Q = np.exp(q)
    # `below` holds the strictly lower triangle column by column; slot 0 of `padded` is the zero above it
    padded = np.concatenate([np.zeros((k, 1)), below], axis=1)
    L = padded[:, lower_slots(d)]
    diff = x[:, None, :] - means[None, :, :]
    y = Q * diff + np.einsum("kij,nkj->nki", L, diff)
    terms = alphas + np.sum(q, axis=1) - 0.5 * np.sum(y * y, axis=2)
    likelihood = np.sum(special.logsumexp(terms, axis=1)) - n * special.logsumexp(alphas)
    prior = 0.5 * gamma**2 * (np.sum(Q * Q) + np.sum(below * below)) - m * np.sum(q)
    return -n * d / 2 * math.log(2 * math.pi) + likelihood + prior - k * wishart_constant(d, gamma, m)


def lower_slots(d):
    """(d, d) of 1 + position in the column-by-column strictly lower triangle, 0 elsewhere."""
    slots = [[0] * d for _ in range(d)]
    position = 0
    for column in range(d):
        for row in range(column + 1, d):
            position += 1
            slots[row][column] = position
    return np.array(slots)


def wishart_constant(d, gamma, m):
    """C − log Γ_d((d + m + 1)/2): what the prior's normalisation contributes per component."""
    p = d + m + 1
    log_gamma = 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * (p - i)) for i in range(d))
    return p * d * math.log(gamma / math.sqrt(2)) - log_gamma


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
