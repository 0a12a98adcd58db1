"""Eager overhead and a training step beside PyTorch and HIPS autograd: `python -m benchmarks.training`.

All peers run in this one process, in turns, and the best of several rounds counts: what matters are the ratios.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np
import torch

import tracegrad as tg

ROUNDS = 9
CHAIN = 100  # operations
BATCH = 32


def best_of_turns(runs: dict[str, Callable[[], Any]], seconds: float = 0.2) -> dict[str, float]:
    """Per run the best mean time of one call, in seconds; the runs take turns."""
    counts = {}
    for name, run in runs.items():
        run()
        start = time.perf_counter()
        run()
        counts[name] = max(1, int(seconds / ROUNDS / (time.perf_counter() - start)))
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                run()
            best[name] = min(best[name], (time.perf_counter() - start) / counts[name])
    return best


def chain(x: Any, sin: Any) -> Any:
    """Small operations, one after the other."""
    for _ in range(CHAIN // 2):
        x = sin(x) * 1.01
    return x.sum()


def eager_chain() -> dict[str, float]:
    """Forward and backward of a chain of small operations, per operation."""
    start = np.linspace(0, 1, 3)
    ours, theirs = tg.tensor(start, requires_grad=True), torch.tensor(start, requires_grad=True)

    def run_ours() -> None:
        ours.grad = None
        chain(ours, np.sin).backward()

    def run_torch() -> None:
        theirs.grad = None
        chain(theirs, torch.sin).backward()

    gradient = autograd.grad(lambda x: anp.sum(chain(x, anp.sin)))
    times = best_of_turns({"tracegrad": run_ours, "torch": run_torch, "autograd": lambda: gradient(start)})
    return {name: seconds / CHAIN for name, seconds in times.items()}


def training_step() -> dict[str, float]:
    """A step of Adam on the digits network: float32, 64-128-10, a batch of 32."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((BATCH, 64)).astype(np.float32)
    digits = rng.integers(0, 10, BATCH)
    theirs = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    ours = tg.nn.Sequential(tg.nn.Linear(64, 128), tg.nn.ReLU(), tg.nn.Linear(128, 10)).to(np.float32)
    ours.load_state_dict({k: tg.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    our_adam = tg.optim.Adam(ours.parameters(), lr=1e-3)
    their_adam = torch.optim.Adam(theirs.parameters(), lr=1e-3)
    inputs, targets = torch.tensor(images), torch.tensor(digits)

    def step(x: Any, y: Any) -> Any:
        our_adam.zero_grad()
        loss = tg.nn.functional.cross_entropy(ours(x), y)
        loss.backward()
        our_adam.step()
        return loss

    compiled = tg.jit(step)

    def run_torch() -> Any:
        their_adam.zero_grad()
        loss = torch.nn.functional.cross_entropy(theirs(inputs), targets)
        loss.backward()
        their_adam.step()
        return loss

    for _ in range(5):
        np.testing.assert_allclose(compiled(tg.tensor(images), tg.tensor(digits)).item(), run_torch().item(), rtol=1e-4)
    return best_of_turns(
        {"tracegrad": lambda: compiled(tg.tensor(images), tg.tensor(digits)), "torch": run_torch}, seconds=1.0
    )


def report(title: str, times: dict[str, float]) -> None:
    """One line: microseconds, and ours divided by each of the others."""
    figures = ", ".join(f"{name} {seconds * 1e6:.1f} µs" for name, seconds in times.items())
    ratios = ", ".join(f"{times['tracegrad'] / times[name]:.2f} of {name}" for name in times if name != "tracegrad")
    print(f"{title}: {figures}; {ratios}")


def main() -> None:
    report("eager operation, forward and backward", eager_chain())
    report("compiled training step of the digits network", training_step())


if __name__ == "__main__":
    main()
