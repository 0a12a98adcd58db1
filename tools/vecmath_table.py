"""Prints the table of docs/vecmath.md: for each function and dtype the largest error seen and the time beside NumPy.

    python -m tools.vecmath_table [--points N] [name ...]

Errors are against extended precision (np.longdouble) where NumPy has the function and longdouble is wider than
float64, on N random points of each range of tests/emit/test_vecmath.py; times are ns per element of 4,096, the best
of many runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import scipy.special

from tests.emit.test_vecmath import CASES, DTYPES, sample, worst
from tests.emit.vecmath_kernels import NAMES, kernels

TYPICAL = {  # the range timed; the others take (-3, 3)
    "log": (0.1, 10), "log2": (0.1, 10), "log10": (0.1, 10), "log1p": (-0.5, 5), "sqrt": (0, 10), "pow": (0.1, 5),
    "arcsin": (-1, 1), "arccos": (-1, 1), "arctanh": (-0.99, 0.99), "arccosh": (1, 10), "ndtri": (0, 1),
}  # fmt: skip


def best_ns(run: Callable[[], object], count: int) -> float:
    times = []
    for _ in range(3000):
        start = time.perf_counter_ns()
        run()
        times.append(time.perf_counter_ns() - start)
    return min(times) / count


def largest_error(name: str, dtype: type, points: int) -> float:
    rng, errors = np.random.default_rng(0), []
    extended = dtype is np.float32 or np.finfo(np.longdouble).nmant > 52
    for spec in CASES[name].ranges:
        with np.errstate(all="ignore"):
            if not (extended and hasattr(np, name)) or name == "logaddexp":
                args = [sample(s, min(points, 4000), rng, dtype) for s in spec]
                keep = np.isfinite(args).all(axis=0)
                errors.append(worst(name, dtype, *(a[keep] for a in args))[0])
                continue
            args = [sample(s, points, rng, dtype) for s in spec]
            exact = getattr(np, name)(*(a.astype(np.longdouble) for a in args))
            ordinary = np.isfinite(exact.astype(dtype)) & np.isfinite(args).all(axis=0)
            got, spacing = kernels(dtype)(name, *args), np.spacing(np.abs(exact).astype(dtype))
            # where rounding went up to the next power of two, the exact value's own spacing is half
            spacing = np.where(
                np.abs(exact).astype(dtype) > np.abs(exact),
                np.spacing(np.nextafter(np.abs(exact).astype(dtype), dtype(0))),
                spacing,
            )
            errors.append(float((np.abs(got - exact) / spacing)[ordinary].max()))
    return max(errors)


def timings(name: str, dtype: type) -> tuple[float, float]:
    rng, arity = np.random.default_rng(1), len(CASES[name].ranges[0])
    args = [rng.uniform(*TYPICAL.get(name, (-3, 3)), 4096).astype(dtype) for _ in range(arity)]
    out, number, run = np.empty(4096, dtype), NAMES.index(name), kernels(dtype).compiled
    reference = getattr(np, name, None) or getattr(scipy.special, name)
    return best_ns(lambda: run(number, args[0], args[-1], out), 4096), best_ns(lambda: reference(*args, out=out), 4096)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=200_000)
    parser.add_argument("names", nargs="*", default=NAMES)
    options = parser.parse_args()
    points = options.points
    for name in options.names:
        row = [f"`{name}`"]
        for dtype in DTYPES:
            ours, numpy = timings(name, dtype)
            row += [f"{largest_error(name, dtype, points):.2f}", f"{ours:.2f}", f"{numpy:.2f}"]
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
