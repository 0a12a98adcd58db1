"""Fill the generated blocks of ARCHITECTURE.md: one function at each door of the road.

    python tools/architecture.py            rewrite the blocks
    python tools/architecture.py --check    exit 1 if they are not what the code prints now
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import numpy as np

import tracegrad as tg

DOCUMENT = Path(__file__).resolve().parent.parent / "ARCHITECTURE.md"
BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n```\w*\n).*?(```\n<!-- end -->)", re.DOTALL)


def loss(w, X, y):
    z = X @ w
    return np.mean(np.logaddexp(0.0, z) - y * z)


def stages() -> dict[str, str]:
    """The text of each stage of `loss` with its gradient, for a 200 × 20 matrix."""
    vg = tg.value_and_grad(loss)
    vg(np.ones(20), np.ones((200, 20)), np.zeros(200))
    texts = {name: str(vg.show(name)).rstrip() + "\n" for name in ("trace", "adjoint", "optimized", "schedule")}
    return {"source": inspect.getsource(loss), **texts}


def filled(document: str) -> str:
    """The document with every generated block replaced."""
    texts = stages()
    return BLOCK.sub(lambda m: m[1] + texts[m[2]] + m[3], document)


def main() -> int:
    document = DOCUMENT.read_text()
    new = filled(document)
    if "--check" in sys.argv:
        if new != document:
            print("ARCHITECTURE.md is out of date: run python tools/architecture.py", file=sys.stderr)
        return int(new != document)
    DOCUMENT.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
