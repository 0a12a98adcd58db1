"""The autograd of eager Tensors under PyTorch's names: `Function`, `grad`, `backward`, `gradcheck`, modes and hooks.

Names are looked up on first use, since `tracegrad.function` needs `tracegrad.autograd.node` while it loads.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "Function": "tracegrad.function",
    "backward": "tracegrad.autograd.api",
    "grad": "tracegrad.autograd.api",
    "gradcheck": "tracegrad.autograd.check",
    "gradgradcheck": "tracegrad.autograd.check",
    "detect_anomaly": "tracegrad.autograd.modes",
    "set_detect_anomaly": "tracegrad.autograd.modes",
    "inference_mode": "tracegrad.autograd.modes",
    "is_inference_mode_enabled": "tracegrad.autograd.modes",
    "no_grad": "tracegrad.state",
    "enable_grad": "tracegrad.state",
    "set_grad_enabled": "tracegrad.state",
    "is_grad_enabled": "tracegrad.state",
    "function": "",
    "forward_ad": "",
    "graph": "",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not home:
        return importlib.import_module(f"{__name__}.{name}")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})


if TYPE_CHECKING:
    from tracegrad.autograd import forward_ad, function, graph
    from tracegrad.autograd.api import backward, grad
    from tracegrad.autograd.check import gradcheck, gradgradcheck
    from tracegrad.autograd.modes import (
        detect_anomaly,
        inference_mode,
        is_inference_mode_enabled,
        set_detect_anomaly,
    )
    from tracegrad.function import Function
    from tracegrad.state import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
