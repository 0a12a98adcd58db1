"""The table of times as a picture: how many times as long each peer takes as the fastest of the row."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers import PEERS
from benchmarks.table import Results, one, short

# one colour for a peer in every picture; tracegrad stands out
COLOURS = {"tracegrad": "#c0392b", "jax": "#4c78a8", "torch": "#f2a541", "torchc": "#8a6fb3", "autograd": "#9aa5ab"}


def save(results: Results, wrong: dict[str, set[str]], path: Path) -> None:
    """Writes a bar chart; ImportError if matplotlib is not installed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [name for name, row in results.items() if any(m.samples for m in row)]
    peers = [name for name in PEERS if any(one(results[row], name) for row in rows)]
    figure, axis = plt.subplots(figsize=(9, 0.9 + 0.17 * len(rows) * (len(peers) + 1.5)), layout="constrained")
    step = 0.84 / max(len(peers), 1)
    for number, peer in enumerate(peers):
        for place, name in enumerate(rows):
            measured = one(results[name], peer)
            if measured is None or measured.failure or not measured.samples or peer in wrong[name]:
                continue
            fastest = min(m.best for m in results[name] if m.samples and m.peer not in wrong[name])
            height = place + (number - (len(peers) - 1) / 2) * step
            times = measured.best / fastest
            label = PEERS[peer].title if peer not in axis.get_legend_handles_labels()[1] else None
            axis.barh(height, times - 0.9, step * 0.92, left=0.9, color=COLOURS[peer], label=label)
            axis.text(times * 1.04, height, f"{short(measured.best * 1e6)} µs", va="center", fontsize=7)
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.margins(y=0.01)
    axis.set_yticks(range(len(rows)), rows)
    axis.invert_yaxis()
    axis.set_xlim(left=0.9, right=axis.get_xlim()[1] * 1.6)
    axis.set_xlabel("time of value and gradient ÷ fastest of the row (log scale)")
    handles, labels = axis.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    axis.legend(unique.values(), unique.keys(), loc="upper center", bbox_to_anchor=(0.5, 1.06), ncols=5, frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
