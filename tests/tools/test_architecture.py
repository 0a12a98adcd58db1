"""The stage texts in ARCHITECTURE.md are what the code prints now."""

import importlib.util
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "architecture.py"


def test_the_document_shows_what_the_stages_print():
    spec = importlib.util.spec_from_file_location("architecture", TOOL)
    architecture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(architecture)
    document = architecture.DOCUMENT.read_text()
    assert architecture.BLOCK.search(document)
    assert architecture.filled(document) == document, "run: python tools/architecture.py"
