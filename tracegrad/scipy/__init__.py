"""SciPy's functions, under its names, where SciPy cannot hand Tensors on to tracegrad by itself.

Its modules are imported when first used, so that `import tracegrad` does not import SciPy.
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = ("linalg", "special", "stats")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
