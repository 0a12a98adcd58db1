"""A gated recurrent unit on a sequence (`tg.scan` over a dict of parameters), trained to continue a wave."""

import time

import numpy as np
from scipy.optimize import minimize

import tracegrad as tg

SHAPES = {"x": (3, 1, 16), "h": (3, 16, 16), "b": (3, 16), "out": (16,)}  # of the three gates


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def cell(p, h, x):
    """Cho et al. (2014): reset gate r, update gate u, candidate c."""
    r = sigmoid(x @ p["x"][0] + h @ p["h"][0] + p["b"][0])
    u = sigmoid(x @ p["x"][1] + h @ p["h"][1] + p["b"][1])
    c = np.tanh(x @ p["x"][2] + r * (h @ p["h"][2]) + p["b"][2])
    return u * h + (1 - u) * c


def loss(p, xs, targets):
    """Mean squared error of the prediction after each element; xs is (n, 1)."""

    def step(h, x):
        h = cell(p, h, x)
        return h, h @ p["out"]

    _, predicted = tg.scan(step, np.zeros(16), xs)
    return np.mean((predicted - targets) ** 2)


def loss_by_numpy(p, xs, targets):
    """The same as a Python loop, for numbers of any dtype."""
    h, total = np.zeros(16), 0.0
    for x, target in zip(xs, targets):
        h = cell(p, h, x)
        total = total + (h @ p["out"] - target) ** 2
    return total / len(xs)


def unpack(flat):
    parts = np.split(flat, np.cumsum([np.prod(s) for s in SHAPES.values()])[:-1])
    return {name: part.reshape(shape) for (name, shape), part in zip(SHAPES.items(), parts)}


def main(n=300, iterations=60):
    wave = np.sin(0.2 * np.arange(n + 1)) * np.cos(0.031 * np.arange(n + 1))
    xs, targets = wave[:-1, None], wave[1:]
    rng = np.random.default_rng(0)
    start = 0.3 * rng.standard_normal(sum(int(np.prod(s)) for s in SHAPES.values()))
    objective = tg.value_and_grad(loss)

    def flat(x):
        value, gradient = objective(unpack(x), xs, targets)
        return value, np.concatenate([gradient[name].ravel() for name in SHAPES])

    first, gradient = flat(start)
    direction = rng.standard_normal(len(start))
    # the derivative along a direction from one complex step: exact to rounding, and without a tape
    reference = loss_by_numpy(unpack(start + 1e-30j * direction), xs, targets)
    errors = abs(first - reference.real) / first, abs(gradient @ direction - reference.imag / 1e-30) / abs(first)
    print(f"difference from a NumPy loop: value {errors[0]:.1e}, derivative {errors[1]:.1e}")
    assert max(errors) < 1e-10

    before = time.perf_counter()
    loss(unpack(start), xs, targets)
    eager = time.perf_counter() - before
    before = time.perf_counter()
    flat(start)
    once = time.perf_counter() - before
    print(f"{n} elements: value and {len(start)} derivatives in {once * 1e3:.2f} ms, eager value {eager * 1e3:.1f} ms")
    found = minimize(flat, start, jac=True, method="L-BFGS-B", options={"maxiter": iterations})
    print(f"mean squared error {first:.3f} before, {found.fun:.5f} after {found.nit} iterations of L-BFGS")
    assert found.fun < 0.02 * first


if __name__ == "__main__":
    main()
