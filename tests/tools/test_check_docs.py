"""The document checker finds what it is for: dead links, dead anchors, code that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_docs


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setattr(check_docs, "ROOT", tmp_path)

    def write_page(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write_page


def faults(path: Path) -> list[str]:
    page = check_docs.read_page(path)
    return [*check_docs.link_faults(page), *check_docs.code_faults(page)]


def test_good_links_pass(write):
    write("docs/b.md", "# The `x` of it\n\n## Two words, and a comma\n")
    page = write(
        "a.md", "[b](docs/b.md) [c](docs/b.md#two-words-and-a-comma) [d](docs/b.md#the-x-of-it) [e](https://x.y/z)"
    )
    assert faults(page) == []


@pytest.mark.parametrize("link", ["missing.md", "a.md#nothing", "#nothing", "docs/"])
def test_dead_links_are_named(write, link):
    page = write("a.md", f"# Title\n\nsee [this]({link})\n")
    (fault,) = faults(page)
    assert fault.startswith("a.md:3") and link in fault


def test_links_in_code_are_not_links(write):
    assert faults(write("a.md", "`[x](nowhere)`\n\n```text\n[x](nowhere)\n```\n")) == []


def test_readme_blocks_share_a_namespace_and_failures_name_the_line(write):
    page = write("README.md", "```python\nx = 3\n```\n\n```python\nassert x == 3\nassert x == 4, 'not four'\n```\n")
    (fault,) = faults(page)
    assert "README.md:6" in fault and "line 7" in fault and "not four" in fault


def test_plain_blocks_of_other_pages_do_not_run(write):
    assert faults(write("other.md", "```python\nraise SystemError\n```\n")) == []


def test_blocks_marked_as_not_run(write):
    assert faults(write("README.md", "<!-- not run -->\n```python\nraise SystemError\n```\n")) == []


@pytest.mark.parametrize("name", ["README.md", "docs/page.md"])
def test_doctests_are_compared(write, name):
    good, bad = ">>> 1 + 1\n2\n", ">>> 2 + 2\n5\n"
    assert faults(write(name, f"```pycon\n{good}```\n")) == []
    (fault,) = faults(write(name, f"text\n\n```pycon\n{bad}```\n"))
    assert "Expected:" in fault and "5" in fault


def test_exit_status(write, capsys):
    assert check_docs.main([str(write("fine.md", "# fine\n"))]) == 0
    assert check_docs.main([str(write("bad.md", "[x](gone.md)\n"))]) == 1
    assert "gone.md" in capsys.readouterr().err
