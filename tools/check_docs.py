"""Checks the documents: relative links and anchors lead somewhere, and the code in them runs.

Links: every `[text](target)` and `![text](target)` of every Markdown file in the repository, code blocks aside; a
target with a `#anchor` into a Markdown file must be one of its headings. Links with a scheme (https:, mailto:) are not
followed.

Code: the ```python blocks of README.md run in order in one namespace, as a newcomer would type them. Blocks with `>>>`
prompts, in README.md and in every other document, are checked as doctests. A block preceded by the line
`<!-- not run -->` is left alone, for code that is meant to fail or to be typed elsewhere.

    python tools/check_docs.py [--links | --code] [file ...]

Exit status 1 if anything is wrong, with one line for each fault.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SKIP_MARK = "<!-- not run -->"
SKIPPED_FOLDERS = {".git", ".venv", ".venv-bench", "node_modules", "build", "dist"}

_FENCE = re.compile(r"^(```+|~~~+)\s*(\S*)")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+(?:\([^()]*\))?)(?:\s+\"[^\"]*\")?\)")
_SCHEME = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*:")


@dataclass(frozen=True)
class Block:
    """A fenced code block: `line` is the first line of `text`, counted from 1."""

    language: str
    line: int
    text: str
    run: bool


@dataclass(frozen=True)
class Page:
    """A Markdown file split into code blocks and the (line number, text) pairs outside them."""

    path: Path
    prose: tuple[tuple[int, str], ...]
    blocks: tuple[Block, ...]


def read_page(path: Path) -> Page:
    """Splits a Markdown file; an unclosed fence runs to the end, as renderers treat it."""
    prose: list[tuple[int, str]] = []
    blocks: list[Block] = []
    fence, language, start, body, run = "", "", 0, [], True
    previous = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = _FENCE.match(line.strip())
        if fence:
            if line.strip() == fence:
                blocks.append(Block(language, start, "\n".join(body) + "\n", run))
                fence = ""
            else:
                body.append(line)
        elif match:
            fence, language = match.group(1), match.group(2)
            start, body, run = number + 1, [], previous.strip() != SKIP_MARK
        else:
            prose.append((number, line))
        if line.strip():
            previous = line
    if fence:
        blocks.append(Block(language, start, "\n".join(body) + "\n", run))
    return Page(path, tuple(prose), tuple(blocks))


def anchors(page: Page) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    found: dict[str, int] = {}
    names = set()
    for _, line in page.prose:
        if not re.match(r"#{1,6}\s", line):
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip()).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        seen = found.get(slug, 0)
        found[slug] = seen + 1
        names.add(slug if not seen else f"{slug}-{seen}")
    return names


def link_faults(page: Page) -> Iterator[str]:
    """One message for each relative link of the page that leads nowhere."""
    for number, line in page.prose:
        for target in _LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if _SCHEME.match(target):
                continue
            file, _, anchor = target.partition("#")
            where = (page.path.parent / file).resolve() if file else page.path
            if not where.exists():
                yield f"{shown(page.path)}:{number}: link to {target}: no such file"
            elif anchor and where.suffix == ".md" and anchor not in anchors(read_page(where)):
                yield f"{shown(page.path)}:{number}: link to {target}: no such heading"


def code_faults(page: Page) -> Iterator[str]:
    """Runs the page's code in one namespace; one message for each block that fails."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in page.blocks:
        if not block.run or block.language not in ("python", "pycon", "py"):
            continue
        where = f"{shown(page.path)}:{block.line}"
        if ">>>" in block.text:
            yield from _doctest_faults(block, where, namespace)
        elif page.path == ROOT / "README.md":
            # blank lines in front keep the line numbers of tracebacks those of the page
            source = "\n" * (block.line - 1) + block.text
            try:
                exec(compile(source, str(page.path), "exec"), namespace)
            except Exception:
                yield f"{where}: the code raises\n{traceback.format_exc()}"


def _doctest_faults(block: Block, where: str, namespace: dict[str, object]) -> Iterator[str]:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(block.text, namespace, where, where, block.line - 1)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=flags).run(test, out=said.append, clear_globs=False)
    namespace.update(test.globs)
    if said:
        yield "".join(said)


def pages(names: list[str]) -> list[Page]:
    """The named files, or every Markdown file of the repository."""
    if names:
        return [read_page(Path(name).resolve()) for name in names]
    found = []
    for folder, below, files in os.walk(ROOT):
        below[:] = sorted(d for d in below if d not in SKIPPED_FOLDERS)
        found += [Path(folder) / name for name in sorted(files) if name.endswith(".md")]
    return [read_page(path) for path in found]


def shown(path: Path) -> str:
    """The path as printed: relative to the repository if it is inside."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="check links and code of the Markdown documents")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--links", action="store_true", help="only the links")
    parser.add_argument("--code", action="store_true", help="only the code")
    options = parser.parse_args(arguments)
    found = pages(options.files)
    faults: list[str] = []
    if not options.code:
        faults += [fault for page in found for fault in link_faults(page)]
    if not options.links:
        os.environ.setdefault("MPLBACKEND", "Agg")  # plots are drawn, no window opens
        with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):  # files the code writes go there
            faults += [fault for page in found for fault in code_faults(page)]
    for fault in faults:
        print(fault, file=sys.stderr)
    blocks = sum(block.run and block.language.startswith("py") for page in found for block in page.blocks)
    print(f"{len(found)} documents, {blocks} Python blocks, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
