"""Golden files: cases of one text before and one after, side by side in one file.

    === what the case shows
    graph f(…) … (before)
    ---
    graph f(…) … (after)

With `--bless` (or TRACEGRAD_BLESS=1) the second part of each case is rewritten with what the code prints now; read the
difference before committing it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Case:
    """One case of a golden file; `id` is what pytest shows."""

    path: Path
    title: str
    before: str
    after: str

    @property
    def id(self) -> str:
        return f"{self.path.stem}: {self.title}"


def cases(path: Path) -> list[Case]:
    """The cases of one golden file, in order."""
    found = []
    for block in re.split(r"^=== ", path.read_text(), flags=re.MULTILINE)[1:]:
        title, _, rest = block.partition("\n")
        before, _, after = rest.partition("\n---\n")
        found.append(Case(path, title.strip(), before.strip() + "\n", after.strip() + "\n"))
    return found


def check(case: Case, produced: str) -> None:
    """Assert that the code prints the case's second part, or rewrite it when blessing."""
    if os.environ.get("TRACEGRAD_BLESS", "") not in ("", "0"):
        bless(case, produced)
        return
    assert produced.strip() == case.after.strip(), f"{case.id}: run pytest with --bless if the new text is right"


def bless(case: Case, produced: str) -> None:
    """Rewrite the second part of one case in its file."""
    text = case.path.read_text()
    header = text[: text.index("=== ")]
    blocks = []
    for one in cases(case.path):
        after = produced if one.title == case.title else one.after
        blocks.append(f"=== {one.title}\n{one.before.strip()}\n---\n{after.strip()}\n")
    case.path.write_text(header + "\n".join(blocks))
