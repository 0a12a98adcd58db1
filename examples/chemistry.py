"""A stiff reaction (Robertson's) through an adaptive Rosenbrock solver in a `tg.while_loop`, with its sensitivities."""

import time

import numpy as np
from scipy.integrate import solve_ivp

import tracegrad as tg

RATES, START, T = np.array([0.04, 3e7, 1e4]), np.array([1.0, 0.0, 0.0]), 40.0


def reaction(k, y):
    """A → B, B + B → C + B, B + C → A + C with rates that differ by nine orders of magnitude."""
    first, second, third = k[0] * y[0], k[1] * y[1] ** 2, k[2] * y[1] * y[2]
    return np.stack([third - first, first - third - second, second])


def jacobian(k, y):
    """By y; the columns add up to zero."""
    top = np.stack([-k[0], k[2] * y[2], k[2] * y[1]])
    bottom = np.stack([0 * y[0], 2 * k[1] * y[1], 0 * y[0]])
    return np.stack([top, -top - bottom, bottom])


def solve(k, y0, tolerance=1e-8):
    """The state at T and the number of steps tried, by the method of Shampine and Reichelt (1997), section 3.1."""
    d, e = 1 / (2 + np.sqrt(2)), 6 + np.sqrt(2)

    def step(carry):
        t, h, y, tried = carry
        last = h >= T - t
        h = np.where(last, T - t, h)
        w = np.eye(3) - h * d * jacobian(k, y)
        f0 = reaction(k, y)
        k1 = np.linalg.solve(w, f0)
        f1 = reaction(k, y + h / 2 * k1)
        k2 = np.linalg.solve(w, f1 - k1) + k1
        new = y + h * k2
        k3 = np.linalg.solve(w, reaction(k, new) - e * (k2 - f1) - 2 * (k1 - f0))
        error = h / 6 * (k1 - 2 * k2 + k3)
        # the length of a step is a choice of the method: no derivative goes through it
        size = tg.stop_gradient(np.sqrt(np.mean((error / (tolerance + 1e3 * tolerance * np.abs(y))) ** 2)))
        accepted = size <= 1
        next_h = h * np.clip(0.8 * (size + 1e-12) ** (-1 / 3), 0.2, 5.0)
        return np.where(accepted, np.where(last, T, t + h), t), next_h, np.where(accepted, new, y), tried + 1

    _, _, y, tried = tg.while_loop(lambda carry: carry[0] < T, step, (0.0, 1e-5, y0, 0))
    return y, tried


def reference(k):
    """The concentrations at T by SciPy."""
    slope, matrix = (lambda t, y: reaction(k, y)), (lambda t, y: jacobian(k, y))
    solution = solve_ivp(slope, (0, T), START, method="Radau", jac=matrix, rtol=1e-7, atol=1e-11)
    return solution.y[:, -1]


def main():
    product = tg.value_and_grad(lambda k: (lambda y, tried: (y[2], tried))(*solve(k, START)), has_aux=True)
    product(RATES)  # compiles
    before = time.perf_counter()
    (value, steps), gradient = product(RATES)
    seconds = time.perf_counter() - before
    print(f"{int(steps)} steps: C = {value:.6f} at t = {T:g} and 3 sensitivities in {seconds * 1e3:.1f} ms")
    expected = reference(RATES)[2]
    slopes = [(reference(RATES * (1 + d))[2] - reference(RATES * (1 - d))[2]) / 2e-3 for d in 1e-3 * np.eye(3)]
    errors = abs(value / expected - 1), np.max(np.abs(gradient * RATES / slopes - 1))
    print(f"relative difference from SciPy's Radau: value {errors[0]:.1e}, sensitivities {errors[1]:.1e}")
    assert errors[0] < 1e-3 and errors[1] < 1e-2


if __name__ == "__main__":
    main()
