"""What is on or off at the moment, per thread: the active trace, gradient recording, eager execution."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracegrad.trace.tracer import Trace


_set = threading.local.__setattr__

# What `grad_enabled` is where recording is off to whoever asks, yet what a trace records may be differentiated by those
# who derive an adjoint from it: forward and backward of users' Functions. False cuts it off from gradients.
UNSTOPPED = 0


class State(threading.local):
    """`trace` records every Function while it is not None; `eager` makes decorated functions run undecorated, and
    `differentiating` says that one of them is running eagerly for its gradient."""

    trace: Trace | None = None
    grad_enabled: bool = True
    inference: bool = False
    function_body: bool = False  # a user Function is being traced: leaving tracegrad makes it a call into Python
    differentiating: bool = False
    in_vmap: bool = False  # a function runs eagerly for one row of many
    dual: Any = None  # the innermost level of dual numbers (autograd/forward_ad)
    numbers: bool = False  # a function of ndarrays runs, whose 0-d values and elements are immutable numbers to it
    unrecorded: bool = False  # recording is off, and there is neither a trace nor are there keepers
    keepers: Any = None  # while such a function runs: which nodes keep values of which memory (autograd/overwritten)
    steps: int | None = None  # how many carries of a loop are kept for its adjoint; None for all
    eager: bool = os.environ.get("TRACEGRAD_EAGER", "") not in ("", "0")

    def __init__(self) -> None:  # runs once in each thread
        self.thread = _Thread()

    def __setattr__(self, name: str, value: Any) -> None:
        _set(self, name, value)
        if name in ("grad_enabled", "trace", "keepers"):
            plain = self.trace is None and self.keepers is None
            _set(self, "unrecorded", plain and not self.grad_enabled)
            if plain and self.grad_enabled:
                aside.discard(id(self.thread))
            else:
                aside.add(id(self.thread))


class _Thread:
    """What stands for a thread in `aside`, and leaves it with the thread."""

    def __del__(self) -> None:
        if aside is not None:  # at exit the module may have been emptied before
            aside.discard(id(self))


# The threads in which a trace is active, recording is off, or kept values are noted. Mostly it is empty, and asking
# that costs an eager operation a tenth of what two attributes of a thread-local object cost.
aside: set[int] = set()
state = State()


@contextlib.contextmanager
def setting(**values: object) -> Iterator[None]:
    """The given attributes of `state` inside the block, their former values after it."""
    former = {name: getattr(state, name) for name in values}
    for name, value in values.items():
        setattr(state, name, value)
    try:
        yield
    finally:
        for name, value in former.items():
            setattr(state, name, value)


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """Inside the block decorated functions run operation by operation: print, pdb and np.errstate work there."""
    with setting(eager=True):
        yield


class ModeDecorator(contextlib.ContextDecorator):
    """A context manager that also decorates functions; of a generator, each of its steps runs inside."""

    def __call__(self, function: Any) -> Any:
        if not inspect.isgeneratorfunction(function):
            return super().__call__(function)

        @functools.wraps(function)
        def steps(*args: Any, **kwargs: Any) -> Any:
            with self._recreate_cm():
                generator = function(*args, **kwargs)
            answer: Any = None
            advance = generator.send
            while True:
                try:
                    with self._recreate_cm():
                        value = advance(answer)
                except StopIteration as end:
                    return end.value
                try:
                    answer, advance = (yield value), generator.send
                except GeneratorExit:
                    with self._recreate_cm():
                        generator.close()
                    raise
                except BaseException as error:
                    answer, advance = error, generator.throw

        return steps


class set_grad_enabled(ModeDecorator):
    """Recording of gradients on or off, as a call, a context manager or a decorator."""

    def __init__(self, mode: bool):
        self.former, self.mode = state.grad_enabled, mode
        state.grad_enabled = mode

    def __enter__(self) -> None:
        state.grad_enabled = self.mode

    def __exit__(self, *exception: object) -> None:
        state.grad_enabled = self.former


class _GradMode(ModeDecorator):
    mode = True
    former: list[bool]

    def __new__(cls, function: Any = None) -> Any:
        self = super().__new__(cls)
        self.former = []
        return self if function is None else self(function)

    def __enter__(self) -> None:
        self.former.append(state.grad_enabled)
        state.grad_enabled = self.mode

    def __exit__(self, *exception: object) -> None:
        state.grad_enabled = self.former.pop()


class no_grad(_GradMode):
    """Operations inside are not recorded; as a context manager or a decorator, with or without parentheses."""

    mode = False


class enable_grad(_GradMode):
    """Operations inside are recorded again, within an outer `no_grad`."""

    mode = True


def is_grad_enabled() -> bool:
    """Whether operations are recorded for `backward` at the moment."""
    return bool(state.grad_enabled)
