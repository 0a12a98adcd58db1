"""Functions of Python and NumPy that stand aside for ours while somebody records, in any thread.

They are found by name in their modules, and put back when the last recording that needs them ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

Functions = Mapping[tuple[Any, str], Any]


class Substitutes:
    """`make` gives the functions by module and name; `original` is what each of them stands for."""

    def __init__(self, make: Callable[[], Functions]):
        self._make = make
        self._lock = threading.Lock()
        self._former: dict[tuple[Any, str], Any] = {}
        self._blocks = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Inside the block, modules have ours."""
        with self._lock:
            self._blocks += 1
            if self._blocks == 1:
                for (module, name), function in self._make().items():
                    self._former[module, name] = getattr(module, name)
                    function.stands_for = self._former[module, name]
                    setattr(module, name, function)
        try:
            yield
        finally:
            with self._lock:
                self._blocks -= 1
                if not self._blocks:
                    for (module, name), function in self._former.items():
                        setattr(module, name, function)
                    self._former.clear()


def original(value: Any) -> Any:
    """What a function of ours stands for, as others see it; anything else as it is."""
    return vars(value).get("stands_for", value) if type(value) is _FUNCTION else value


_FUNCTION = type(original)
