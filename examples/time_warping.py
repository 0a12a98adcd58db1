"""Dynamic time warping: a table filled cell by cell (`tg.fori_loop`, writes in place) and its gradient.

How two curves of different speed differ is the cheapest way through the table of their pairwise costs. The gradient
says how to change one curve to be more like the other.
"""

import time

import numpy as np

import tracegrad as tg


def distance(a, b):
    """The cost of the cheapest alignment of the sequences a and b, by squared differences."""
    n, m = len(a), len(b)
    table = np.full((n + 1, m + 1), np.inf)
    table[0, 0] = 0.0

    def row(i, table):
        def cell(j, table):
            best = np.minimum(np.minimum(table[i, j], table[i, j + 1]), table[i + 1, j])
            table[i + 1, j + 1] = (a[i] - b[j]) ** 2 + best
            return table

        return tg.fori_loop(0, m, cell, table)

    return tg.fori_loop(0, n, row, table)[n, m]


def alignment(a, b):
    """By NumPy: the cost, and the pairs of positions on the cheapest path, found by going back through the table."""
    n, m = len(a), len(b)
    table = np.full((n + 1, m + 1), np.inf)
    table[0, 0] = 0
    for i in range(n):
        for j in range(m):
            table[i + 1, j + 1] = (a[i] - b[j]) ** 2 + min(table[i, j], table[i, j + 1], table[i + 1, j])
    pairs, i, j = [], n, m
    while i or j:
        pairs.append((i - 1, j - 1))
        i, j = min(((i - 1, j - 1), (i - 1, j), (i, j - 1)), key=lambda p: table[p])
    return table[n, m], pairs


def main(n=120, m=150):
    rng = np.random.default_rng(0)
    a = np.sin(np.linspace(0, 6, n)) + 0.1 * rng.standard_normal(n)
    b = np.sin(6 * np.linspace(0, 1, m) ** 1.5) + 0.1 * rng.standard_normal(m)
    objective = tg.value_and_grad(distance)
    objective(a, b)  # compiles
    before = time.perf_counter()
    value, gradient = objective(a, b)
    seconds = time.perf_counter() - before
    before = time.perf_counter()
    expected, pairs = alignment(a, b)
    numpy_seconds = time.perf_counter() - before
    slope = np.zeros(n)
    for i, j in pairs:
        slope[i] += 2 * (a[i] - b[j])
    errors = abs(value - expected), np.max(np.abs(gradient - slope))
    print(f"{n} × {m} cells: distance {value:.4f} and its gradient in {seconds * 1e3:.2f} ms")
    print(f"  a Python loop over NumPy arrays takes {numpy_seconds * 1e3:.0f} ms for the value alone")
    print(f"difference from going back along the path: value {errors[0]:.1e}, gradient {errors[1]:.1e}")
    assert max(errors) < 1e-10


if __name__ == "__main__":
    main()
