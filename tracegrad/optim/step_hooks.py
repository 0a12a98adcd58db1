"""Hooks around the step of an optimizer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tracegrad.errors import OptimizerTypeError


def with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A method `step` of an optimizer, with its hooks around it."""

    @functools.wraps(step)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        self = args[0]
        if self.in_step or not (self.step_pre_hooks or self.step_post_hooks):
            return step(*args, **kwargs)
        self.in_step = True
        try:
            for hook in list(self.step_pre_hooks.values()):
                result = hook(self, args, kwargs)
                if result is None:
                    continue
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise OptimizerTypeError(
                        f"a step pre-hook must return None or a tuple of (args, kwargs), but returned {result!r}"
                    )
                args, kwargs = result
            out = step(*args, **kwargs)
            for hook in list(self.step_post_hooks.values()):
                hook(self, args, kwargs)
        finally:
            self.in_step = False
        return out

    return hooked
