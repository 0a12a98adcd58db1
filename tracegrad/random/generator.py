"""Where random bits come from: a generator, whose counter moves on with every draw, or a key, which stays what it is.

Both name a stream of 64-bit blocks, block i being the Threefry2x32 function of the key and i (`ops/random_bits.py`). A
generator is one eager Tensor, [seed, counter] in uint64, that a draw reads and moves on in place. A traced function
captures it like any other Tensor, so a compiled program draws the very numbers that eager code would draw.
"""

from __future__ import annotations

import contextlib
import operator
import os
import threading
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.ir.dims import DimLike, product
from tracegrad.ops.casting import astype
from tracegrad.ops.comparison import bitwise_not
from tracegrad.ops.creation import Iota, constant, dimension
from tracegrad.ops.operands import as_dim
from tracegrad.ops.random_bits import random_bits
from tracegrad.ops.shape import reshape
from tracegrad.state import state
from tracegrad.tensor import Tensor

_WORD = np.dtype(np.uint64)
_DERIVED = 2**63  # counters from here on make keys out of keys; draws stay below


class Generator:
    """A stream of random numbers: `state` is a Tensor [seed, counter] of uint64, modified in place by every draw."""

    def __init__(self, seed: int | None = None):
        numbers = [entropy() if seed is None else as_seed(seed), 0]
        self.state = Tensor._wrap(np.array(numbers, _WORD))
        self._lock = threading.RLock()

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` from its beginning; the generator itself comes back."""
        self._overwrite(np.array([as_seed(seed), 0], _WORD))
        return self

    def seed(self) -> int:
        """Start a stream that nobody can foresee; returns its seed."""
        seed = entropy()
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed of the stream. Not while a function is traced, where it is a number of each call."""
        return int(self.state[0])

    def get_state(self) -> Tensor:
        """A copy of the state: [seed, number of blocks drawn], uint64."""
        return +self.state

    def set_state(self, new: Any) -> Generator:
        """Go on where `get_state` was called. Raises ShapeError or DTypeError for what is no state."""
        value = new if isinstance(new, Tensor) else np.asarray(new)
        if value.shape != (2,):
            raise ShapeError(f"the state of a generator has shape (2,), not {tuple(value.shape)}", fix=_STATE_FIX)
        if value.dtype != _WORD:
            raise DTypeError(f"the state of a generator has dtype uint64, not {value.dtype}", fix=_STATE_FIX)
        self._overwrite(+value)
        return self

    def _overwrite(self, value: Any) -> None:
        with self._lock:
            self.state.copy_(value)

    def draw(self, shape: tuple[DimLike, ...], blocks: int) -> tuple[Tensor, ...]:
        """The next `blocks` arrays of blocks, each of `shape`."""
        with self._lock:
            drawn = _blocks(self.state[0], self.state[1], shape, blocks)
            count = product(shape) * blocks
            if isinstance(count, int):
                self.state.add_(np.array([0, count], _WORD))
            else:
                self.state.add_(np.array([0, 1], _WORD) * astype(dimension(count), _WORD))
        return drawn

    def __repr__(self) -> str:
        return f"<tracegrad.random.Generator at {id(self):#x}>"


_STATE_FIX = "pass what get_state() returned"
Source: TypeAlias = Generator | Tensor


def entropy() -> int:
    """A seed from the operating system."""
    return int.from_bytes(os.urandom(8), "little")


def as_seed(seed: Any) -> int:
    """A seed as a number below 2**64; negative ones count from there. Raises ArgumentError."""
    try:
        number = operator.index(seed._value().item() if isinstance(seed, Tensor) else seed)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"a seed is an integer, not {seed!r}", fix="pass an int, for example tg.manual_seed(0)"
        ) from error
    if not -(2**63) <= number < 2**64:
        raise ArgumentError(f"the seed {number} does not fit into 64 bits", fix="pass a seed in [-2**63, 2**64)")
    return number % 2**64


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Start the stream that tg.rand, tg.randn, dropout and all others without a generator of their own draw from."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start the global stream from a seed that nobody can foresee; returns it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the global stream."""
    return default_generator.initial_seed()


def get_state() -> Tensor:
    """A copy of the global generator's state, [seed, number of blocks drawn]."""
    return default_generator.get_state()


def set_state(new: Any) -> None:
    """Let the global generator go on where `get_state` was called."""
    default_generator.set_state(new)


@contextlib.contextmanager
def fork_rng() -> Iterator[None]:
    """What is drawn inside the block leaves the global generator as it was."""
    before = get_state()
    try:
        yield
    finally:
        set_state(before)


# ---- keys ------------------------------------------------------------------------------------------------------------


def key(seed: Any) -> Tensor:
    """The key of a seed: a 0-d uint64 Tensor. Equal keys draw equal numbers; use `split` for several draws."""
    if isinstance(seed, Tensor) and seed.is_traced:
        if seed.dtype.kind not in "iu" or seed.ndim:
            raise ArgumentError(f"a seed is one integer, not a Tensor of {seed.dtype} and shape {tuple(seed.shape)}")
        return astype(seed, _WORD)
    return constant(np.array(as_seed(seed), _WORD))


def is_key(value: Any) -> bool:
    """Whether a value is a key."""
    return isinstance(value, Tensor) and value.ndim == 0 and value.dtype == _WORD


def _as_key(value: Any) -> Tensor:
    if not is_key(value):
        raise ArgumentError(
            f"a key is needed here, not {type(value).__name__}", fix="make one: key = tg.random.key(seed)"
        )
    return value


def split(key: Tensor, num: int = 2) -> Tensor:
    """`num` new keys, as a Tensor of shape (num,): `first, second = tg.random.split(key)`."""
    return random_bits(_as_key(key), bitwise_not(_counters((as_dim(num),))))


def fold_in(key: Tensor, data: Any) -> Tensor:
    """A new key out of a key and a number in [0, 2**62), such as the number of a step."""
    number = astype(data, _WORD) if isinstance(data, Tensor) else np.uint64(as_seed(data))
    return random_bits(_as_key(key), number | np.uint64(_DERIVED))


# ---- blocks ----------------------------------------------------------------------------------------------------------


def draw(source: Source, shape: tuple[DimLike, ...], blocks: int = 1) -> tuple[Tensor, ...]:
    """`blocks` Tensors of random uint64 of `shape`, from a generator or a key."""
    if isinstance(source, Generator):
        return source.draw(shape, blocks)
    return _blocks(source, np.uint64(0), shape, blocks)


def _counters(shape: tuple[DimLike, ...]) -> Any:
    """0, 1, 2, … in C order."""
    size = product(shape)
    if state.trace is None:
        return Tensor._wrap(np.arange(size, dtype=_WORD).reshape(shape))
    attrs = {"shape": (size,), "axis": 0, "start": 0, "step": 1, "dtype": _WORD}
    return reshape(state.trace.apply(Iota, (), attrs), shape)


def _blocks(key: Any, start: Any, shape: tuple[DimLike, ...], blocks: int) -> tuple[Tensor, ...]:
    counters = _counters(shape) + start
    out = [random_bits(key, counters)]
    for _ in range(1, blocks):
        size = product(shape)
        counters = counters + (np.uint64(size) if isinstance(size, int) else astype(dimension(size), _WORD))
        out.append(random_bits(key, counters))
    return tuple(out)
