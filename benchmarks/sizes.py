"""`python -m benchmarks.sizes`: programs for all sizes beside those for one, in one process, by turns.

A program whose sizes are symbols should be within 10 % of the one for fixed sizes where arrays are large. Rows compute
a value and its gradient. With `--cpu` the time is that of the processor, for a machine that others use too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tracegrad as tg
from tracegrad.scipy import special

WITHIN = 1.10


def chain(x: Any) -> Any:
    return np.sum(np.exp(-x * x) * np.sin(3 * x) + np.sqrt(x * x + 1))


def logistic(w: Any, X: Any, y: Any) -> Any:
    z = X @ w
    return np.mean(np.logaddexp(0.0, z) - y * z)


def norm_gelu(x: Any) -> Any:
    z = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    return np.sum(0.5 * z * (1 + special.erf(z / np.sqrt(2.0))))


def reductions(x: Any) -> Any:
    return np.sum(np.max(x, 1) * np.mean(x, 1)) + np.linalg.norm(x) + np.sum(np.sum(x, 0) ** 2)


def product(x: Any, y: Any) -> Any:
    return np.sum(np.tanh(x @ y))


def stencil(u: Any) -> Any:
    inner = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
    return np.sum(inner**2)


def filtered(x: Any) -> Any:
    def step(carry: Any, v: Any) -> Any:
        carry = 0.9 * carry + np.tanh(v)
        return carry, carry * carry

    return np.sum(tg.scan(step, 0.0, x)[1])


def recurrent(W: Any, xs: Any) -> Any:
    return np.sum(tg.scan(lambda h, x: (np.tanh(W @ h + x), None), xs[0], xs)[0])


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(list(shape)).normal(size=shape)


Row = tuple[Callable[..., Any], tuple[np.ndarray, ...]]
ROWS: dict[str, Row] = {
    "chain 1e6": (chain, (array(1_000_000),)),
    "logistic 1e4x100": (logistic, (array(100), array(10_000, 100), array(10_000))),
    "norm and gelu 1024x1024": (norm_gelu, (array(1024, 1024),)),
    "reductions 1000x1000": (reductions, (array(1000, 1000),)),
    "matmul 512": (product, (array(512, 512), array(512, 512))),
    "stencil 1000x1000": (stencil, (array(1000, 1000),)),
    "scan of numbers 1e5": (filtered, (array(100_000),)),
    "scan of vectors 1000x32": (recurrent, (array(32, 32) / 8, array(1000, 32))),
}


def compare(row: Row, rounds: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds of a call with fixed sizes and with symbols, the best of so many rounds."""
    function, args = row
    compiled = [tg.value_and_grad(function, dynamic=dynamic) for dynamic in (False, True)]
    values = [f(*args)[0] for f in compiled]
    np.testing.assert_allclose(*values, rtol=1e-9)
    started = clock()
    compiled[0](*args)
    calls = max(1, int(0.01 / (clock() - started + 1e-9)))
    best = [np.inf, np.inf]
    for _ in range(rounds):
        for which, f in enumerate(compiled):
            started = clock()
            for _ in range(calls):
                f(*args)
            best[which] = min(best[which], (clock() - started) / calls)
    return best[0], best[1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description="symbolic beside fixed sizes")
    parser.add_argument("--rows", help=f"comma-separated, of {','.join(ROWS)}")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--cpu", action="store_true", help="time of the processor")
    given = parser.parse_args()
    clock = time.process_time if given.cpu else time.perf_counter
    print(f"| {'value and gradient':<24} | fixed, ms | symbolic, ms | ratio |")
    print(f"|{'-' * 26}|----------:|-------------:|------:|")
    for name in given.rows.split(",") if given.rows else ROWS:
        fixed, symbolic = compare(ROWS[name], given.rounds, clock)
        mark = "" if symbolic <= WITHIN * fixed else " **"
        print(
            f"| {name:<24} | {fixed * 1e3:9.3f} | {symbolic * 1e3:12.3f} | {symbolic / fixed:5.2f} |{mark}", flush=True
        )


if __name__ == "__main__":
    main()
