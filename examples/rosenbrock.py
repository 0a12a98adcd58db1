"""Minimise Rosenbrock's function with SciPy and a compiled gradient: `minimize(..., jac=True)` needs nothing else."""

import time

import numpy as np
from scipy.optimize import minimize, rosen_der

import tracegrad as tg


@tg.value_and_grad
def rosen(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def main():
    start_at = np.linspace(-1.5, 1.5, 50)
    rosen(start_at)  # compiles
    before = time.perf_counter()
    found = minimize(rosen, start_at, jac=True, method="L-BFGS-B", options={"maxiter": 2000})
    seconds = time.perf_counter() - before
    print(f"{found.nit} iterations, {found.nfev} values and gradients, {seconds * 1e3:.1f} ms; f = {found.fun:.2e}")

    _, gradient = rosen(start_at)
    error = np.max(np.abs(gradient - rosen_der(start_at))) / np.max(np.abs(gradient))
    print(f"relative difference from scipy.optimize.rosen_der: {error:.1e}")
    print(f"distance from the known minimum (1, ..., 1): {np.max(np.abs(found.x - 1)):.1e}")
    assert error < 1e-13 and np.max(np.abs(found.x - 1)) < 1e-3


if __name__ == "__main__":
    main()
