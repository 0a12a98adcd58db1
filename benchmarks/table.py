"""The measurements as Markdown: times against the best peer, first calls, memory."""

from __future__ import annotations

from benchmarks.measure import Measured
from benchmarks.peers import PEERS
from benchmarks.rows import ROWS, Row

Results = dict[str, list[Measured]]
OURS = "tracegrad"


def best_peer(results: list[Measured], wrong: set[str]) -> Measured | None:
    """The fastest right answer that is not ours."""
    others = [m for m in results if m.peer != OURS and m.samples and not m.failure and m.peer not in wrong]
    return min(others, key=lambda m: m.best, default=None)


def ratio_to_best(results: list[Measured], wrong: set[str]) -> float | None:
    """Our time divided by the best peer's; None if either has no right answer."""
    best, ours = best_peer(results, wrong), one(results, OURS)
    if best is None or ours is None or ours.failure or OURS in wrong:
        return None
    return ours.best / best.best


def one(results: list[Measured], peer: str) -> Measured | None:
    """The measurement of one peer."""
    return next((m for m in results if m.peer == peer), None)


def render(results: Results, wrong: dict[str, set[str]], heading: str) -> str:
    """The whole report. `wrong`: per row, the peers whose numbers disagree. `heading`: the line about the machine."""
    peers = [name for name in PEERS if any(one(row, name) for row in results.values())]
    parts = [
        "# Benchmarks",
        heading,
        "## Value and gradient, µs",
        "The best, and in brackets the median, of all rounds. Ratio: tracegrad's best divided by the best peer's.",
        _times(results, wrong, peers),
        "## First call, s",
        "From a fresh process with empty caches: trace, compile and run, after imports; in brackets with the imports. "
        "*Warm*: tracegrad in a process that finds its cache on disk filled.",
        _first_calls(results, peers),
        "## Peak memory, MB",
        "Highest resident memory of the process, first call included; in brackets the growth since the imports.",
        _memory(results, peers),
        *_notes(results, wrong),
    ]
    return "\n\n".join(parts) + "\n"


def _grid(header: list[str], lines: list[list[str]]) -> str:
    rule = ["---", "---", *["---:"] * (len(header) - 2)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *lines])


def _times(results: Results, wrong: dict[str, set[str]], peers: list[str]) -> str:
    lines = []
    for name, row in results.items():
        cells = [_time(one(row, peer), wrong[name]) for peer in peers]
        best, ratio = best_peer(row, wrong[name]), ratio_to_best(row, wrong[name])
        lines.append([
            f"`{name}`",
            ROWS[name].title,
            *cells,
            PEERS[best.peer].title if best else "–",
            "–" if ratio is None else f"**{ratio:.2f}**",
            _goal(ROWS[name], ratio),
        ])
    return _grid(["row", "workload", *(PEERS[p].title for p in peers), "best peer", "ratio", "goal"], lines)


def _time(measured: Measured | None, wrong: set[str]) -> str:
    if measured is None or measured.failure or not measured.samples:
        return "–"
    text = f"{short(measured.best * 1e6)} ({short(measured.median * 1e6)})"
    return f"WRONG {text}" if measured.peer in wrong else text


def _goal(row: Row, ratio: float | None) -> str:
    if ratio is None:
        return f"≤ {row.goal:g}"
    return f"≤ {row.goal:g} {'✓' if ratio <= row.goal else '✗'}"


def _first_calls(results: Results, peers: list[str]) -> str:
    lines = []
    for name, row in results.items():
        cells = [_first(one(row, peer)) for peer in peers]
        ours = one(row, OURS)
        warm = "–" if ours is None or ours.warm_first is None else f"{ours.warm_first:.3f}"
        lines.append([f"`{name}`", ROWS[name].title, *cells, warm])
    return _grid(["row", "workload", *(PEERS[p].title for p in peers), "warm"], lines)


def _first(measured: Measured | None) -> str:
    if measured is None or not measured.first:
        return "–"
    return f"{min(measured.first):.3f} ({min(measured.total):.2f})"


def _memory(results: Results, peers: list[str]) -> str:
    lines = []
    for name, row in results.items():
        cells = []
        for peer in peers:
            measured = one(row, peer)
            known = measured is not None and measured.peak_kb
            cells.append(f"{measured.peak_kb / 1024:.0f} ({measured.growth_kb / 1024:.0f})" if known else "–")
        lines.append([f"`{name}`", ROWS[name].title, *cells])
    return _grid(["row", "workload", *(PEERS[p].title for p in peers)], lines)


def _notes(results: Results, wrong: dict[str, set[str]]) -> list[str]:
    """What went wrong, one line each."""
    lines = []
    for name, row in results.items():
        for measured in row:
            if measured.failure:
                lines.append(f"- `{name}`, {PEERS[measured.peer].title}: no result: {measured.failure}")
        for peer in sorted(wrong[name]):
            lines.append(f"- `{name}`: WRONG: the numbers of {PEERS[peer].title} disagree with the others")
    return ["## Notes", "\n".join(lines)] if lines else []


def short(number: float) -> str:
    """Three significant digits, never in exponent form."""
    if number >= 100:
        return f"{number:.0f}"
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}"
