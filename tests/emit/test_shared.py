"""The functions all programs share, as the package holds them: IR that was written out beforehand."""

from pathlib import Path

import pytest

from tracegrad.emit import runtime
from tracegrad.emit.codegen import compile_quickly
from tracegrad.emit.layout import OBJECTS
from tracegrad.emit.shared import shared_text


def test_the_file_is_what_the_code_writes():
    written = Path(runtime.SHARED).read_text(encoding="utf-8")
    if not written.startswith(OBJECTS):
        pytest.skip("objects of this Python look otherwise, so the file is not used")
    assert written == shared_text(), "run: python -m tracegrad.emit.shared"


def test_without_a_file_that_fits_the_text_is_made(tmp_path, monkeypatch):
    expected = shared_text()
    other = tmp_path / "other.ll"
    for name, text in (("missing.ll", None), ("other.ll", "; where objects are larger\n")):
        if text is not None:
            other.write_text(text)
        monkeypatch.setattr(runtime, "SHARED", str(tmp_path / name))
        assert runtime._shared_text() == expected
    library = compile_quickly(expected, "runtime")
    assert all(library.address(name) for name in ("call", "acquire", "release", "parallel"))
