"""`python -m benchmarks`: measures, prints the table, writes benchmarks/results.md and results.png."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import sys
import time
from pathlib import Path

from benchmarks import measure, plot, table
from benchmarks.peers import Peer
from benchmarks.rows import ROWS, Row

HERE = Path(__file__).parent
# load average above which other work disturbs the figures
BUSY = 0.7


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="tracegrad beside its peers, in one run")
    parser.add_argument("--rows", help=f"comma-separated, of {','.join(ROWS)}")
    parser.add_argument("--peers", help="comma-separated, of tracegrad,jax,torch,torchc,autograd")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (7)")
    parser.add_argument("--quick", action="store_true", help="short rounds, one process each, no torch.compile")
    parser.add_argument(
        "--torchc",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="torch.compile (on unless --quick; it takes minutes)",
    )
    parser.add_argument("--output", type=Path, help="where the table goes; without it a full run writes results.md")
    parser.add_argument("--json", type=Path, help="raw measurements")
    return parser.parse_args()


def chosen_rows(names: str | None) -> list[Row]:
    """The rows asked for; all of them without names."""
    if names is None:
        return list(ROWS.values())
    unknown = [name for name in names.split(",") if name not in ROWS]
    if unknown:
        raise ValueError(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    return [ROWS[name] for name in names.split(",")]


def machine_line(results: table.Results, load: float) -> str:
    """Processor, interpreter and the versions that were measured; and whether the machine was busy."""
    versions = {m.peer: m.hello["version"] for row in results.values() for m in row if m.hello}
    peers = ", ".join(f"{peer} {version}" for peer, version in versions.items() if peer != "torchc")
    day = time.strftime("%Y-%m-%d")
    machine = f"{cpu_name()}, {os.cpu_count()} cores; {platform.system()}"
    busy = f" **Measured on a busy machine (load {load:.1f}): take no figure literally.**" if load > BUSY else ""
    return f"{machine}, Python {platform.python_version()}; {peers}; {day}.{busy}"


def cpu_name() -> str:
    """What the processor calls itself."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def progress(text: str) -> None:
    """One line on a terminal, overwritten; silent elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def measure_rows(rows: list[Row], peers: list[Peer], plan: measure.Plan) -> tuple[table.Results, bool]:
    """Every row; Ctrl-C ends it with those that are there. Returns also whether all are."""
    results: table.Results = {}
    try:
        for row in rows:
            start = time.perf_counter()
            results[row.name] = measure.measure_row(row, peers, plan, progress)
            progress("")
            print(f"{row.name}: measured in {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        progress("")
        print("interrupted: the table has the rows measured until now", file=sys.stderr)
    return results, len(results) == len(rows)


def main() -> int:
    """Returns 1 if tracegrad gave a wrong answer."""
    opts = options()
    with_torchc = not opts.quick if opts.torchc is None else opts.torchc
    plan = measure.Plan(rounds=opts.rounds, python=os.environ.get("BENCH_PYTHON") or sys.executable)
    if opts.quick:
        plan = dataclasses.replace(plan, rounds=min(opts.rounds, 3), seconds=0.05, processes=1)
    try:
        rows, peers = chosen_rows(opts.rows), measure.known_peers(opts.peers, with_torchc)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    load = os.getloadavg()[0]
    results, whole = measure_rows(rows, peers, plan)
    wrong = {name: measure.disagreements(ROWS[name], row) for name, row in results.items()}
    text = table.render(results, wrong, machine_line(results, load))
    print(text)
    full = whole and not (opts.rows or opts.peers or opts.quick or not with_torchc)
    output = opts.output or (HERE / "results.md" if full else None)
    if output:
        save(output, text, results, wrong)
    if opts.json:
        raw = {name: [dataclasses.asdict(m) for m in row] for name, row in results.items()}
        opts.json.write_text(json.dumps(raw, indent=1))
    return int(any("tracegrad" in names for names in wrong.values()))


def save(output: Path, text: str, results: table.Results, wrong: dict[str, set[str]]) -> None:
    """The table, and beside it the picture if matplotlib is installed."""
    try:
        picture = output.with_suffix(".png")
        plot.save(results, wrong, picture)
        text += f"\n![times relative to the fastest]({picture.name})\n"
    except ImportError:
        print("matplotlib is not installed: no picture", file=sys.stderr)
    output.write_text(text, encoding="utf-8")
    print(f"written: {output}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
