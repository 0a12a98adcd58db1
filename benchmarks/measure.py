"""Runs the workers: fresh processes for first calls, then interleaved rounds, so that noise meets every peer alike."""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers import PEERS, Peer
from benchmarks.rows import Row

ROOT = Path(__file__).resolve().parent.parent
# what a shell may carry: choices of BLAS kernels, which every peer shall make itself, and a ban on cached bytecode,
# which installed packages come with anyway
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONDONTWRITEBYTECODE")


@dataclass(frozen=True)
class Plan:
    """How thoroughly to measure: rounds, fresh processes for first calls, seconds of a round and of a time-out.

    A peer that has spent `patience` seconds on the first calls of a row, or on its rounds, is not asked for more.
    """

    rounds: int = 7
    seconds: float = 0.15
    processes: int = 3
    limit: float = 600.0
    patience: float = 15.0
    python: str = sys.executable


class WorkerFailed(Exception):
    """A worker ended or fell silent; the text is the last line it wrote to standard error."""


@dataclass
class Measured:
    """What one peer did on one row. Times in seconds, memory in kB; `failure` says why there are no numbers."""

    peer: str
    hello: dict[str, Any] = field(default_factory=dict)
    first: list[float] = field(default_factory=list)
    total: list[float] = field(default_factory=list)
    warm_first: float | None = None
    samples: list[float] = field(default_factory=list)
    peak_kb: int = 0
    failure: str = ""

    @property
    def best(self) -> float:
        return min(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def growth_kb(self) -> int:
        return self.peak_kb - self.hello["base_kb"]


class Worker:
    """A worker process with its own empty cache folder, or the one given."""

    def __init__(self, peer: Peer, row: Row, plan: Plan, cache: str) -> None:
        self.limit = plan.limit
        self.spent = 0.0  # seconds in rounds
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 — closed by stop()
        self.process = subprocess.Popen(
            [plan.python, "-m", "benchmarks.worker", peer.name, row.name],
            cwd=ROOT,
            env=environment(peer, cache),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def read(self) -> dict[str, Any]:
        """The next message."""
        ready, _, _ = select.select([self.process.stdout], [], [], self.limit)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            raise WorkerFailed(f"no answer within {self.limit:.0f} s" if not ready else self._last_words())
        return json.loads(line)

    def round(self, seconds: float) -> list[float]:
        """Seconds per call of the batches of one round."""
        start = time.perf_counter()
        try:
            self.process.stdin.write(f"{seconds}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise WorkerFailed(self._last_words()) from None
        samples = self.read()["samples"]
        self.spent += time.perf_counter() - start
        return samples

    def finish(self) -> int:
        """Ends the process; returns its peak memory in kB."""
        self.process.stdin.close()
        peak = self.read()["peak_kb"]
        self.process.wait()
        return peak

    def stop(self) -> None:
        """Ends the process whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.errors.close()

    def _last_words(self) -> str:
        self.process.wait()
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors if line.strip()]
        return lines[-1][:200] if lines else f"exit status {self.process.returncode}"


def environment(peer: Peer, cache: str) -> dict[str, str]:
    """The caller's environment without BLAS choices, with every cache that a peer keeps on disk moved to `cache`."""
    env = {name: text for name, text in os.environ.items() if name not in UNSET}
    env.update(
        BENCH_PEER=peer.name,
        XDG_CACHE_HOME=cache,
        TRACEGRAD_CACHE_DIR=cache,
        TORCHINDUCTOR_CACHE_DIR=cache,
    )
    return env


def measure_row(row: Row, peers: Iterable[Peer], plan: Plan, tell: Callable[[str], None]) -> list[Measured]:
    """All peers on one row: first calls one after another, then rounds in turn."""
    results, workers = [], {}
    with tempfile.TemporaryDirectory(prefix="tracegrad-bench-") as scratch:
        try:
            for peer in (p for p in peers if p.name not in row.without):
                tell(f"{row.name}: {peer.title}: first call")
                measured = Measured(peer.name)
                results.append(measured)
                try:
                    workers[peer.name] = _first_calls(measured, peer, row, plan, scratch)
                except WorkerFailed as failure:
                    measured.failure = str(failure)
            for number in range(plan.rounds):
                tell(f"{row.name}: round {number + 1} of {plan.rounds}")
                for measured in results:
                    _one_round(measured, workers.get(measured.peer), plan)
            for measured in results:
                if not measured.failure:
                    measured.peak_kb = workers[measured.peer].finish()
        finally:
            for worker in workers.values():
                worker.stop()
    return results


def _first_calls(measured: Measured, peer: Peer, row: Row, plan: Plan, scratch: str) -> Worker:
    """First calls in fresh processes with empty caches, then with a filled one; returns the last cold worker, alive."""
    while True:
        cache = tempfile.mkdtemp(dir=scratch)
        worker = Worker(peer, row, plan, cache)
        try:
            measured.hello = hello = worker.read()
            measured.first.append(hello["first_s"])
            measured.total.append(hello["import_s"] + hello["first_s"])
            if len(measured.first) == plan.processes or sum(measured.total) > plan.patience:
                break
            worker.finish()
        except WorkerFailed:
            worker.stop()
            raise
        worker.stop()
    if peer.disk_cache:
        measured.warm_first = _warm_first(peer, row, plan, cache)
    return worker


def _warm_first(peer: Peer, row: Row, plan: Plan, cache: str) -> float:
    """The first call of a process that finds the cache another process has filled."""
    worker = Worker(peer, row, plan, cache)
    try:
        first = worker.read()["first_s"]
        worker.finish()
        return first
    finally:
        worker.stop()


def _one_round(measured: Measured, worker: Worker | None, plan: Plan) -> None:
    if measured.failure or worker is None or worker.spent > plan.patience:
        return
    time.sleep(0.03)  # threads of the previous peer stop spinning
    try:
        measured.samples += worker.round(plan.seconds)
    except WorkerFailed as failure:
        measured.failure = str(failure)


def disagreements(row: Row, results: list[Measured]) -> set[str]:
    """Peers whose value or gradients agree with fewer than half of the others, within the row's tolerance.

    With two peers both are named, as nobody can say which is right.
    """
    present = [m for m in results if m.hello]
    wrong = set()
    for measured in present:
        others = [other for other in present if other is not measured]
        agreeing = sum(_agree(row.rtol, measured.hello, other.hello) for other in others)
        if 2 * agreeing < len(others):
            wrong.add(measured.peer)
    return wrong


def _agree(rtol: float, a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether two sets of checksums agree; a NaN agrees with nothing."""
    if abs(a["value"] - b["value"]) > rtol * abs(b["value"]) or a["value"] != a["value"]:
        return False
    pairs = zip(a["abs"], b["abs"], a["weighted"], b["weighted"], strict=True)
    return all(abs(x - y) <= rtol * y and abs(u - v) <= rtol * y for x, y, u, v in pairs)


def known_peers(names: str | None, torch_compile: bool) -> list[Peer]:
    """The peers asked for, in the table's order; ValueError for an unknown name."""
    chosen = list(PEERS) if names is None else names.split(",")
    unknown = [name for name in chosen if name not in PEERS]
    if unknown:
        raise ValueError(f"no such peer: {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return [peer for peer in PEERS.values() if peer.name in chosen and (torch_compile or peer.name != "torchc")]
