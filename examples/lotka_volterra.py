"""Foxes and hares: gradients through 1000 Runge-Kutta steps (`tg.scan`) and an adaptive solver (`tg.while_loop`).

The loops are compiled as loops: nothing is unrolled, and the adaptive one takes as many steps as the data ask for.
"""

import time

import numpy as np
from scipy.integrate import solve_ivp

import tracegrad as tg

P, Y0, T = np.array([1.1, 0.4, 0.1, 0.4]), np.array([10.0, 10.0]), 10.0

# Dormand & Prince (1980): the stages, and the weights of the fifth-order result and of the error estimate
STAGES = np.array([
    [0, 0, 0, 0, 0, 0],
    [1 / 5, 0, 0, 0, 0, 0],
    [3 / 40, 9 / 40, 0, 0, 0, 0],
    [44 / 45, -56 / 15, 32 / 9, 0, 0, 0],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0],
])  # fmt: skip
RESULT = np.array([35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84])
ERROR = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])


def slope(p, y):
    return np.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]])


def runge_kutta(p, y0, steps=1000):
    """The state at T after equal steps of the classical method."""
    h = T / steps

    def step(y, _):
        a = slope(p, y)
        b = slope(p, y + h / 2 * a)
        c = slope(p, y + h / 2 * b)
        d = slope(p, y + h * c)
        return y + h / 6 * (a + 2 * b + 2 * c + d), None

    return tg.scan(step, y0, None, length=steps)[0]


def adaptive(p, y0, tolerance=1e-9):
    """The state at T; each step is as long as the error estimate allows, and repeated if it was too long."""

    def step(carry):
        t, h, y = carry
        last = h >= T - t
        h = np.where(last, T - t, h)
        slopes = []
        for row in STAGES:
            slopes.append(slope(p, y + h * sum((w * k for w, k in zip(row, slopes) if w), 0 * y)))
        new = y + h * sum(w * k for w, k in zip(RESULT, slopes) if w)
        slopes.append(slope(p, new))
        error = h * sum(w * k for w, k in zip(ERROR, slopes) if w)
        # the length of a step is a choice of the method, not part of the solution: no derivative goes through it
        size = tg.stop_gradient(np.sqrt(np.mean((error / (tolerance * (1 + np.abs(y)))) ** 2)))
        accepted = size <= 1
        next_h = h * np.clip(0.9 * (size + 1e-12) ** -0.2, 0.2, 5.0)
        return np.where(accepted, np.where(last, T, t + h), t), next_h, np.where(accepted, new, y)

    return tg.while_loop(lambda carry: carry[0] < T, step, (0.0, 0.01, y0))[2]


def foxes(solver):
    """Value and gradients of the number of foxes at the end."""
    return tg.value_and_grad(lambda p, y0: solver(p, y0)[1], argnums=(0, 1))


def reference(p, y0):
    """The same number by SciPy."""
    solution = solve_ivp(lambda t, y: slope(p, y), (0, T), y0, method="DOP853", rtol=1e-12, atol=1e-12)
    return solution.y[1, -1]


def main():
    value = reference(P, Y0)
    steps = 1e-5 * np.eye(4)
    slopes = np.array([(reference(P + d, Y0) - reference(P - d, Y0)) / 2e-5 for d in steps])
    for name, solver, accuracy in (("1000 equal steps", runge_kutta, 1e-6), ("adaptive steps", adaptive, 1e-6)):
        function = foxes(solver)
        function(P, Y0)  # compiles
        before = time.perf_counter()
        found, (of_p, of_y) = function(P, Y0)
        seconds = time.perf_counter() - before
        errors = abs(found - value) / abs(value), np.max(np.abs(of_p - slopes)) / np.max(np.abs(slopes))
        print(f"{name}: {found:.6f} foxes, value and {of_p.size + of_y.size} derivatives in {seconds * 1e6:.0f} µs")
        print(f"  relative difference from SciPy: value {errors[0]:.1e}, gradient {errors[1]:.1e}")
        assert max(errors) < accuracy


if __name__ == "__main__":
    main()
