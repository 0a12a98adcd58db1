"""Modes that are rarely on: anomaly detection, hooks on saved Tensors, inference. One flag tells whether any is."""

from __future__ import annotations

import contextlib
import threading
import traceback
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracegrad.errors import AutogradError, is_internal
from tracegrad.state import ModeDecorator, state

if TYPE_CHECKING:
    from tracegrad.autograd.node import BackwardNode, Packed


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.hooks_refused: list[str] = []
        self.saved_hooks: list[saved_tensors_hooks] = []


class Modes:
    """`special` is nonzero while any mode is on in any thread, so that recording an operation asks one question."""

    def __init__(self) -> None:
        self.anomaly = False
        self.check_nan = True
        self.special = 0
        self._local = _OfThread()

    @property
    def hooks_refused(self) -> list[str]:
        """Why hooks on saved Tensors are refused in this thread, where they are."""
        return self._local.hooks_refused

    @property
    def saved_hooks(self) -> list[saved_tensors_hooks]:
        """The pack and unpack hooks of this thread, the innermost last."""
        return self._local.saved_hooks

    def set_anomaly(self, mode: bool, check_nan: bool = True) -> None:
        self.special += bool(mode) - self.anomaly
        self.anomaly, self.check_nan = bool(mode), bool(check_nan)

    def note_forward(self, node: BackwardNode) -> None:
        """Keep where in the user's code the operation was called."""
        frames = [f for f, _ in traceback.walk_stack(None) if not is_internal(f.f_code)]
        stack = traceback.StackSummary.extract(((f, f.f_lineno) for f in reversed(frames)), lookup_lines=False)
        node.metadata["traceback"] = stack


modes = Modes()


class set_detect_anomaly(contextlib.ContextDecorator):
    """Anomaly detection on or off, as a call or a context manager.

    While it is on each operation notes where it was called; a failing backward prints that, and a NaN that a backward
    returns is an error (unless `check_nan` is False).
    """

    def __init__(self, mode: bool, check_nan: bool = True):
        self.former = modes.anomaly, modes.check_nan
        modes.set_anomaly(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        modes.set_anomaly(*self.former)


class detect_anomaly(contextlib.ContextDecorator):
    """Anomaly detection inside the block."""

    def __init__(self, check_nan: bool = True):
        self.check_nan = check_nan
        self.former: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self.former.append((modes.anomaly, modes.check_nan))
        modes.set_anomaly(True, self.check_nan)

    def __exit__(self, *exception: object) -> None:
        modes.set_anomaly(*self.former.pop())


def warn_of_forward(node: BackwardNode) -> None:
    """Say where the operation whose backward failed was called."""
    stack = node.metadata.get("traceback")
    if stack is None:
        text = " No forward pass information available: switch anomaly detection on during the forward pass too."
    else:
        text = " Traceback of forward call that caused the error:\n" + "".join(stack.format())
    warnings.warn(f"Error detected in {node.name()}.{text}", UserWarning, stacklevel=2)


def nan_found(node: BackwardNode, position: int, origin: str) -> AutogradError:
    return AutogradError(
        f"Function {node.name()!r} returned nan values in its {position}th output{origin}",
        fix="the warning above shows the forward call; look for 0/0, inf-inf or a domain error there",
    )


class saved_tensors_hooks(contextlib.ContextDecorator):
    """Inside the block each Tensor saved for backward goes through `pack_hook`, and back through `unpack_hook`.

    pack_hook takes a Tensor and returns anything; unpack_hook takes that and returns a Tensor with the same content.
    In-place modification of a packed Tensor is not detected.
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if modes.hooks_refused:
            raise AutogradError(modes.hooks_refused[-1], fix="leave the block of disable_saved_tensors_hooks first")
        modes.saved_hooks.append(self)
        modes.special += 1

    def __exit__(self, *exception: object) -> None:
        modes.saved_hooks.pop()
        modes.special -= 1

    def pack(self, tensor: Any) -> Packed:
        """The saved form of a Tensor; the hook runs without recording."""
        from tracegrad.autograd.node import Packed, detached
        from tracegrad.state import setting

        given = detached(tensor)
        version = given._version
        with setting(grad_enabled=False):
            packed = self.pack_hook(given)
        if given._version != version:
            raise AutogradError(
                "a saved tensor pack hook is modifying its input in place, which is still in use",
                fix="modify a copy: x.clone()",
            )
        return Packed(packed, self.unpack_hook)


class save_on_cpu(saved_tensors_hooks):
    """Keep what is saved for backward in the memory of the CPU, where everything is: the Tensors themselves."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda"):
        super().__init__(_same, _same)


def _same(tensor: Any) -> Any:
    return tensor


class disable_saved_tensors_hooks(contextlib.ContextDecorator):
    """Inside the block hooks on saved Tensors raise AutogradError with this message; so does the block where some are
    on."""

    def __init__(self, error_message: str):
        self.error_message = error_message

    def __enter__(self) -> None:
        if modes.saved_hooks:
            raise AutogradError(self.error_message, fix="leave the block of saved_tensors_hooks first")
        modes.hooks_refused.append(self.error_message)

    def __exit__(self, *exception: object) -> None:
        modes.hooks_refused.pop()


class inference_mode(ModeDecorator):
    """no_grad whose results can never take part in a recorded operation. `inference_mode(False)` leaves it again."""

    mode: bool
    former: list[tuple[bool, bool]]

    def __new__(cls, mode: Any = True) -> Any:
        self = super().__new__(cls)
        self.mode, self.former = (mode, []) if isinstance(mode, bool) else (True, [])
        return self if isinstance(mode, bool) else self(mode)

    def __enter__(self) -> None:
        self.former.append((state.grad_enabled, state.inference))
        modes.special += 1
        state.inference = self.mode
        state.grad_enabled = not self.mode

    def __exit__(self, *exception: object) -> None:
        modes.special -= 1
        state.grad_enabled, state.inference = self.former.pop()


def is_inference_mode_enabled() -> bool:
    """Whether inference_mode is on in this thread."""
    return state.inference
