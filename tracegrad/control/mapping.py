"""`map`: a loop whose steps do not depend on each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracegrad.control.counted import scan


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """`f(x)` for each x along the first axis of `xs` (an array, or a tree of arrays), stacked. As jax.lax.map."""
    return scan(lambda carry, x: (carry, f(x)), None, xs)[1]
