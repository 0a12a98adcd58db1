"""One process, one peer, one row: `python -m benchmarks.worker PEER ROW`.

Speaks JSON lines on standard output. At first, unasked: import time, time and checksums of the first call, memory.
Then, for each line `SECONDS` on standard input, one round of about that length: the seconds per call of short batches.
At the end of input: the peak memory.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import math
import os
import resource
import sys
import time
from typing import Any

import numpy as np

from benchmarks.peers import PEERS, Run
from benchmarks.rows import ROWS

# long enough for the clock, short enough that the best batch was not interrupted on a busy machine
BATCH = 2e-3


def peak_kb() -> int:
    """The highest resident memory of this process so far, in kB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak


def reset_peak() -> None:
    """Forgets the peak reached while importing, where the system (Linux) can."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def checksums(result: tuple[Any, Any]) -> dict[str, Any]:
    """The value; for each gradient its sum of absolute values and product with fixed weights (finds permutations)."""
    value, gradients = result
    arrays = [np.asarray(g) for g in gradients]
    return {
        "value": float(value),
        "abs": [float(np.abs(g.astype(float)).sum()) for g in arrays],
        "weighted": [float(np.cos(np.arange(g.size)) @ g.astype(float).ravel()) for g in arrays],
    }


def warm_up(run: Run, seconds: float) -> int:
    """Calls for a while, at least three times; returns how many calls a batch needs to last BATCH seconds."""
    fastest, calls, start = math.inf, 0, time.perf_counter()
    while calls < 3 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        run()
        fastest = min(fastest, time.perf_counter() - before)
        calls += 1
    return max(1, round(BATCH / fastest))


def one_round(run: Run, calls: int, seconds: float) -> list[float]:
    """Seconds per call of successive batches, for about `seconds`."""
    samples, end = [], time.perf_counter() + seconds
    while not samples or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(calls):
            run()
        samples.append((time.perf_counter() - start) / calls)
    return samples


def version_of(package: str) -> str:
    """The installed version, or what the module says when it runs from a source tree."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return str(getattr(importlib.import_module(package), "__version__", "source tree"))


def serve(peer_name: str, row_name: str, say: Any) -> None:
    """The life of a worker."""
    peer, row = PEERS[peer_name], ROWS[row_name]
    start = time.perf_counter()
    peer.load()
    import_s = time.perf_counter() - start
    reset_peak()
    base = peak_kb()
    run = peer.prepare(row, row.inputs())
    start = time.perf_counter()
    result = run()
    first_s = time.perf_counter() - start
    say(
        version=version_of(peer.package),
        import_s=import_s,
        first_s=first_s,
        base_kb=base,
        first_peak_kb=peak_kb(),
        **checksums(result),
    )
    del result
    calls = None
    for line in sys.stdin:
        seconds = float(line)
        calls = calls or warm_up(run, seconds)
        say(samples=one_round(run, calls, seconds))
    say(peak_kb=peak_kb())


def main() -> None:
    """Keeps standard output for the protocol: what libraries print goes to standard error."""
    protocol = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**message: Any) -> None:
        protocol.write(json.dumps(message) + "\n")
        protocol.flush()

    serve(sys.argv[1], sys.argv[2], say)


if __name__ == "__main__":
    main()
