"""Random plain Python loops, as source text: carries, lists, moving indices, writes, odd ends, inner loops."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import tracegrad as tg

ROWS, COLUMNS = 40, 5
STATES = ("a", "b", "c")


class _Writer:
    inner: str | int

    def __init__(self, seed: int, uneven: bool = False):
        self.random, self.uneven = random.Random(seed), uneven
        self.steps = self.random.randint(17, 24) if uneven else self.random.randint(8, 16)
        if uneven:
            n = self.steps
            self.inner = self.pick("t", "t + 1", f"t, {n}", f"{n} - t", "max(t - 9, 0), t", "t * t % 17", "t, 0, -1")
        else:
            self.inner = self.random.choice((0, 0, 3, 9))
        ways = ((0, 1), (1, 1), (30, -2) if uneven else (2, 2), (36, -2), (20, -1))
        self.start, self.stride = self.random.choice(ways)

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def index(self, inside: bool) -> str:
        moving = self.pick(
            "i", "i", "i + 1", "t", "t + 2", "3", *(("j", "j", "j + 1", "i - 1") if inside else ("i - 1",))
        )
        column = self.pick("0", "1", "4", "-1", *(("j % 5",) if inside else ("t % 5",)))
        return f"x[{moving}, {column}]"

    def term(self, inside: bool) -> str:
        return self.pick(
            *STATES, *STATES, self.index(inside), self.index(inside), "p", "0.3", "2", "i * 0.1", "h[-1]", "h[-2]",
            "np.sum(x[i])", "np.sum(x[t : t + 3, 1])", "buf[t]", "numbers[t % 7]", "h[0]",
        )  # fmt: skip

    def expression(self, inside: bool) -> str:
        a, b, c = (self.term(inside) for _ in range(3))
        return self.pick(
            f"{a} * 0.5 + {b} * 0.2", f"np.tanh({a} * {b}) + 0.1 * {c}", f"np.sin({a}) - {b} / (2.0 + {c} * {c})",
            f"np.maximum({a} * 0.9, {b}) * 0.7", f"0.4 * {a}",
        )  # fmt: skip

    def statement(self, inside: bool) -> list[str]:
        value = self.expression(inside)
        target = self.pick(*STATES)
        kind = self.random.random()
        if kind < 0.62:
            return [f"{target} = {value}"]
        if kind < 0.72:
            return [f"h.append({value})"]
        if kind < 0.84:
            return [f"buf[{self.pick('t + 1', 't', 'j' if inside and self.uneven else 't + 1')}] = {value}"]
        if kind < 0.92:
            condition = self.pick("t == 0", "t == 1", f"t == {self.steps - 1}", "t % 2 == 0")
            return [f"if {condition}:", f"    {target} = {value}"]
        return [f"a, b = b, {value}"]

    def source(self) -> str:
        lines = [line for _ in range(self.random.randint(2, 6)) for line in self.statement(False)]
        if self.inner:
            body = [line for _ in range(self.random.randint(1, 3)) for line in self.statement(True)]
            at = self.random.randint(0, 1) * len(lines)
            lines[at:at] = [f"for j in range({self.inner}):", *(f"    {line}" for line in body)]
        first = self.pick("0.0", "x[0, 0]", "1")
        rest = self.pick("0.0", "h[-1]", "np.sum(np.stack(h) * 0.5)", "np.sum(buf)")
        return "\n".join([
            "def function(x, p):",
            f"    a, b, c = {first}, x[1, 1], p * 0.5",
            "    h = [x[2, 2], x[3, 3]]",
            "    numbers = [0.5, -0.25, 1.5, 0.0, 2.0, -1.0, 0.125]",
            f"    buf = zeros({self.steps + 2})",
            "    buf[0] = x[4, 4]",
            f"    for t in range({self.steps}):",
            f"        i = {self.start} + {self.stride} * t",
            *(f"        {line}" for line in lines),
            "    total = a + 2 * b + 3 * c",
            f"    return total + {rest}",
        ])  # fmt: skip


def random_loop(seed: int, uneven: bool = False) -> tuple[Callable[..., Any], list[Any], str]:
    """A function of a matrix and a number, arguments for it, and its source. With `uneven` it has inner loops of
    different lengths."""
    source = _Writer(seed, uneven).source()
    scope = {"np": np, "zeros": lambda n: tg.zeros(n) + 0.0}
    exec(compile(source, f"<loop {seed}>", "exec"), scope)
    generator = np.random.default_rng(seed)
    return scope["function"], [generator.uniform(-1, 1, (ROWS, COLUMNS)), np.float64(0.6)], source  # type: ignore[return-value]
