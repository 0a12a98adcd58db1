"""Random programs in plain NumPy: the same text runs on ndarrays, on Tensors, traced and compiled.

`random_program(seed)` writes a program statement by statement and runs each with NumPy at once, so that the next one
can be chosen to fit: logarithms of positive numbers, products of matrices that match, values between -30 and 30.
What jumps (comparisons, rounding, positions of extremes) is applied to `exact` values only: arguments that have at most
been moved, whose bits are the same however a program is run. So results may be compared with a tolerance.
"""

from __future__ import annotations

import linecache
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LIMIT = 30.0
MAX_SIZE = 3000


@dataclass(frozen=True)
class Program:
    """`program(*args)` returns a tuple of arrays, `loss(*args)` one float number that depends on all float ones.

    `argnums` are the positions of the float arguments; `rtol` is how far two ways to run it may differ, relative to the
    largest value of an array or 1.
    """

    seed: int
    source: str
    args: tuple[Any, ...]
    argnums: tuple[int, ...]
    rtol: float
    namespace: dict[str, Any] = field(repr=False, default_factory=dict)

    @property
    def function(self) -> Callable[..., tuple[Any, ...]]:
        return self._compiled()["program"]

    @property
    def loss(self) -> Callable[..., Any]:
        return self._compiled()["loss"]

    def _compiled(self) -> dict[str, Any]:
        if not self.namespace:
            file = f"<random program {self.seed}>"
            linecache.cache[file] = (len(self.source), None, self.source.splitlines(True), file)
            self.namespace["np"] = np
            exec(compile(self.source, file, "exec"), self.namespace)
        return self.namespace

    def __str__(self) -> str:
        return f"# random_program({self.seed})\n{self.source}"


def assert_close(program: Program, found: Any, expected: Any, what: str = "") -> None:
    """Assert that two results agree in dtype, in shape and, up to the program's tolerance, in value."""
    a, b = np.asarray(found), np.asarray(expected)
    where = f"{what or 'results'} of\n{program}"
    assert a.dtype == b.dtype, f"dtype {a.dtype} is not {b.dtype}: {where}"
    assert a.shape == b.shape, f"shape {a.shape} is not {b.shape}: {where}"
    if b.dtype.kind in "biu":
        np.testing.assert_array_equal(a, b, err_msg=where)
    else:
        scale = max(1.0, float(np.max(np.abs(b), initial=0.0)))
        np.testing.assert_allclose(a, b, rtol=program.rtol, atol=program.rtol * scale, err_msg=where)


@dataclass
class Value:
    """A variable of the program being written: its name, what it is in this run, and whether its bits are certain."""

    name: str
    given: Any
    exact: bool
    used: bool = False

    def __post_init__(self) -> None:
        self.array = np.asarray(self.given)

    @property
    def plain(self) -> bool:
        """Whether it is a Python number, which is for operators only: np.sin of one is a float64 like any other."""
        return type(self.given) in (int, float)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def floating(self) -> bool:
        return self.array.dtype.kind == "f"

    def within(self, low: float, high: float) -> bool:
        return bool(self.array.size) and self.floating and self.array.min() > low and self.array.max() < high


class Writer:
    """Chooses statements and runs them. A maker returns the text of an expression and whether it is exact, or None."""

    def __init__(self, seed: int):
        self.choice = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.sizes = self._sizes()
        self.values: list[Value] = []
        self.arguments: list[Value] = []
        self.lines: list[str] = []

    def _sizes(self) -> list[int]:
        kind = self.choice.random()
        if kind < 0.06:
            return [0, 1, self.choice.choice((2, 3))]
        if kind < 0.2:
            return [self.choice.choice((17, 33, 40)), self.choice.choice((1, 3, 8))]
        return [self.choice.choice((1, 2, 3, 4, 5, 7)) for _ in range(3)]

    # ---- choosing ----

    def pick(self, wanted: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """A value that fits and is no Python number, later ones more often; None if there is none."""
        return self.operand(lambda v: not v.plain and wanted(v))

    def operand(self, wanted: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """As `pick`, Python numbers included."""
        found = [v for v in self.values if wanted(v)]
        if not found:
            return None
        return self.choice.choices(found, weights=range(2, len(found) + 2))[0]

    def floats(self, wanted: Callable[[Value], bool] = lambda v: True) -> Value | None:
        return self.pick(lambda v: v.floating and wanted(v))

    def smooth(self, value: Value) -> bool:
        """Whether a kink may be put here: a gradient that flips needs an improbable coincidence in float64 only."""
        return value.exact or value.array.dtype == np.float64

    def number(self) -> str:
        return str(self.choice.choice((2, 3, 0.5, -1.5, 1.25, 0.3, -0.7, 1, 4.0, 1 / 3)))

    def axis(self, value: Value) -> int:
        axis = self.choice.randrange(len(value.shape))
        return axis - len(value.shape) if self.choice.random() < 0.3 else axis

    # ---- writing ----

    def argument(self) -> None:
        name, kind = f"x{len(self.arguments)}", self.choice.random()
        number = round(self.choice.uniform(-2, 2), 3) if kind < 0.08 and self.arguments else None
        self.arguments.append(Value(name, self._array(kind) if number is None else number, True))
        self.values.append(self.arguments[-1])

    def _array(self, kind: float) -> np.ndarray:
        ndim = self.choice.choices((0, 1, 2, 3), weights=(1, 4, 5, 2))[0]
        shape = tuple(self.choice.choice(self.sizes) for _ in range(ndim))
        if 0.08 <= kind < 0.14 and self.arguments:
            return np.asarray(self.numbers.integers(-4, 5, shape))
        if 0.14 <= kind < 0.18 and self.arguments:
            return np.asarray(self.numbers.integers(0, 2, shape).astype(bool))
        array = np.asarray(self.numbers.uniform(-2, 2, shape))
        if 0.18 <= kind < 0.38:
            array = array.astype(np.float32)
        layout = self.choice.random()
        if ndim and layout < 0.08:
            return np.flip(np.flip(array).copy())
        return np.asfortranarray(array) if ndim > 1 and layout < 0.16 else array

    def statement(self, makers: list[Callable[[Writer], tuple[str, bool] | None]]) -> bool:
        """Write one statement; whether one was found."""
        for _ in range(20):
            made = self.choice.choice(makers)(self)
            if made is None:
                continue
            text, exact = made
            result = self.run(text)
            if result is None:
                continue
            array = np.asarray(result)
            if array.dtype.kind == "f" and array.size and np.max(np.abs(array)) > LIMIT / 3:
                factor = float(f"{2 / np.max(np.abs(array)):.2g}")
                text, exact = f"{factor} * ({text})", False
                result = self.run(text)
                if result is None:
                    continue
            name = f"v{len(self.lines)}"
            for value in self.values:
                if value.name in _names(text):
                    value.used = True
            self.lines.append(f"{name} = {text}")
            self.values.append(Value(name, result, exact))
            return True
        return False

    def run(self, text: str) -> Any:
        """What an expression gives; None where it is of no use here."""
        env = {v.name: v.given for v in self.values}
        try:
            with np.errstate(divide="raise", over="raise", invalid="raise"):
                result = eval(text, {"np": np}, env)
        except (FloatingPointError, OverflowError):
            return None
        array = np.asarray(result)
        useful = array.dtype.kind in "biuf" and array.size <= MAX_SIZE and array.ndim <= 4 and array.itemsize != 2
        if not useful or not np.all(np.isfinite(array)) or (array.dtype.kind in "iu" and np.any(np.abs(array) > 1e6)):
            return None
        return result


def _names(text: str) -> set[str]:
    return set(re.findall(r"\b[vx]\d+\b", text))


def random_program(seed: int, length: int | None = None) -> Program:
    """The program of that number. It has `length` statements (3 to 14 by itself)."""
    from tests.random_statements import MAKERS

    writer = Writer(seed)
    for _ in range(writer.choice.choice((1, 2, 2, 3, 4))):
        writer.argument()
    for _ in range(length or writer.choice.randrange(3, 15)):
        writer.statement(MAKERS)
    return _finished(seed, writer)


def _finished(seed: int, writer: Writer) -> Program:
    results = [v for v in writer.values if not v.used and not v.plain and v not in writer.arguments]
    if not any(v.floating for v in results):
        results.append(next(v for v in reversed(writer.values) if v.floating and not v.plain))
    names = ", ".join(v.name for v in writer.arguments)
    body = [*writer.lines, f"return ({', '.join(v.name for v in results)},)"]
    terms = " + ".join(f"np.sum(np.sin(0.7 * r[{i}] + 0.3))" for i, v in enumerate(results) if v.floating)
    source = "\n".join(
        [f"def program({names}):", *(f"    {line}" for line in body), ""]
        + [f"def loss({names}):", f"    r = program({names})", f"    return {terms}", ""]
    )
    args = tuple(v.given for v in writer.arguments)
    argnums = tuple(i for i, v in enumerate(writer.arguments) if v.floating)
    narrow = any(v.array.dtype == np.float32 for v in writer.values)
    return Program(seed, source, args, argnums, 2e-3 if narrow else 1e-9)
