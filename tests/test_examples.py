"""Every example runs, and the independent check it ends with holds."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SMALLER = {
    "black_scholes": {"n": 20_000},
    "convolutions": {"steps": 30, "size": 16},
    "language_model": {"steps": 20},
}


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_example(name, tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)  # pictures land here
    monkeypatch.setenv("MPLBACKEND", "Agg")
    runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"](**SMALLER.get(name, {}))
    assert capsys.readouterr().out.strip()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["convolutions", "language_model"])
def test_long_training(name):
    """Some hundred steps: the losses of eager and compiled training stay equal."""
    pytest.importorskip("sklearn")
    runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()
