"""Iterations to a tolerance (`tg.while_loop`), differentiated: Newton's method and a contraction.

The number of steps depends on the data. The derivatives of the results are known from the implicit function theorem.
"""

import time

import numpy as np

import tracegrad as tg

TOLERANCE = 1e-13


def kepler(mean_anomaly, eccentricity):
    """E with E - e sin E = M, for arrays of orbits, by Newton's method."""

    def step(carry):
        e, _ = carry
        change = (e - eccentricity * np.sin(e) - mean_anomaly) / (1 - eccentricity * np.cos(e))
        return e - change, np.max(np.abs(change))

    return tg.while_loop(lambda carry: carry[1] > TOLERANCE, step, (mean_anomaly + eccentricity, 1.0))[0]


def equilibrium(weights, bias):
    """The x with x = tanh(W x + b), by iteration."""

    def step(carry):
        x, _ = carry
        new = np.tanh(weights @ x + bias)
        return new, np.max(np.abs(new - x))

    return tg.while_loop(lambda carry: carry[1] > TOLERANCE, step, (0.0 * bias, 1.0))[0]


def timed(function, *args):
    function(*args)  # compiles
    before = time.perf_counter()
    result = function(*args)
    return result, (time.perf_counter() - before) * 1e6


def main(orbits=1000, n=50):
    rng = np.random.default_rng(0)
    m, e = rng.uniform(0, 2 * np.pi, orbits), rng.uniform(0, 0.9, orbits)
    anomaly, forward = timed(tg.jit(kepler), m, e)
    (total, (of_m, of_e)), both = timed(tg.value_and_grad(lambda m, e: np.sum(kepler(m, e)), argnums=(0, 1)), m, e)
    slope = 1 / (1 - e * np.cos(anomaly))
    errors = [anomaly - e * np.sin(anomaly) - m, of_m - slope, of_e - np.sin(anomaly) * slope]
    worst = [np.max(np.abs(error)) for error in errors]
    print(f"{orbits} orbits by Newton's method: {forward:.0f} µs, with both gradients {both:.0f} µs")
    print(f"  Kepler's equation holds to {worst[0]:.1e}, its implicit derivatives to {max(worst[1:]):.1e}")
    assert max(worst) < 1e-9 and np.isclose(total, np.sum(anomaly))

    w, b, target = 0.5 * rng.standard_normal((n, n)) / np.sqrt(n), rng.standard_normal(n), rng.standard_normal(n)
    x, forward = timed(tg.jit(equilibrium), w, b)
    objective = tg.value_and_grad(lambda w, b: 0.5 * np.sum((equilibrium(w, b) - target) ** 2), argnums=(0, 1))
    (_, (of_w, of_b)), both = timed(objective, w, b)
    gain = 1 - x**2
    adjoint = gain * np.linalg.solve((np.eye(n) - gain[:, None] * w).T, x - target)
    worst = [np.max(np.abs(np.tanh(w @ x + b) - x)), np.max(np.abs(of_b - adjoint))]
    worst.append(np.max(np.abs(of_w - np.outer(adjoint, x))))
    print(f"equilibrium of {n} units: {forward:.0f} µs, with both gradients {both:.0f} µs")
    print(f"  x = tanh(W x + b) to {worst[0]:.1e}, gradients as by solving for the adjoint to {max(worst[1:]):.1e}")
    assert max(worst) < 1e-9


if __name__ == "__main__":
    main()
