"""Random graphs over all loop meanings, with inputs for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.schedule.graphs import GraphBuilder
from tracegrad.ir.graph import Graph, Var

UNARY = ("negative", "tanh", "square", "sin", "absolute", "expit")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
SIZES = (1, 2, 3, 4, 5, 9, 10, 11)


class RandomGraph:
    """A few inputs, then nodes on randomly chosen values; arrays stay small."""

    def __init__(self, seed: int, nodes: int):
        self.rng = np.random.default_rng(seed)
        self.builder = GraphBuilder()
        self.values: list[Var] = []
        self.args: list[np.ndarray] = []
        dims = [int(d) for d in self.rng.choice(SIZES, 3)]
        for _ in range(int(self.rng.integers(1, 4))):
            shape = tuple(int(d) for d in self.rng.choice(dims, self.rng.integers(0, 4)))
            self.values.append(self.builder.input(shape))
            self.args.append(self.rng.uniform(-1, 1, shape))
        kinds = [
            self.unary, self.binary, self.binary, self.reduction, self.reduction, self.slice, self.unslice,
            self.transpose, self.reshape, self.concatenate, self.matmul, self.gather, self.scatter, self.broadcast,
            self.where, self.arg, self.iota, self.update,
        ]  # fmt: skip
        while len(self.builder.nodes) < nodes:
            out = kinds[int(self.rng.integers(len(kinds)))]()
            if out is not None and int(out.type.size) <= 400:
                self.values.append(out)

    def graph(self) -> tuple[Graph, list[np.ndarray]]:
        count = int(self.rng.integers(1, 4))
        outputs = [self.values[-1], *(self.pick() for _ in range(count - 1))]
        return self.builder.graph(*outputs, name="random"), self.args

    def pick(self) -> Var:
        """A value, a late one with higher probability."""
        position = int(len(self.values) * self.rng.random() ** 0.5)
        return self.values[min(position, len(self.values) - 1)]

    def pick_with(self, least: int) -> Var | None:
        found = [v for v in self.values if v.type.ndim >= least]
        return found[int(self.rng.integers(len(found)))] if found else None

    def unary(self) -> Var:
        return self.builder(str(self.rng.choice(UNARY)), self.pick())

    def partner(self, x: Var) -> Var | None:
        def fits(v: Var) -> bool:
            pairs = zip(reversed(v.type.shape), reversed(x.type.shape))
            return all(a == b or 1 in (a, b) for a, b in pairs)

        found = [v for v in self.values if fits(v)]
        return found[int(self.rng.integers(len(found)))]

    def binary(self) -> Var | None:
        x = self.pick()
        return self.builder(str(self.rng.choice(BINARY)), x, self.partner(x))

    def where(self) -> Var | None:
        x = self.pick()
        y = self.partner(x)
        return self.builder("where", self.builder("less", x, y), x, y)

    def axes(self, x: Var) -> tuple[int, ...]:
        return tuple(a for a in range(x.type.ndim) if self.rng.random() < 0.5)

    def reduction(self) -> Var:
        x = self.pick()
        keepdims = bool(self.rng.random() < 0.5)
        name = str(self.rng.choice(["sum", "sum", "max", "min", "prod"]))
        if x.type.size == 0:
            name = "sum"  # the others have no value there
        attrs: dict[str, Any] = {"dtype": x.type.dtype} if name in ("sum", "prod") else {}
        return self.builder(name, x, axis=self.axes(x), keepdims=keepdims, **attrs)

    def arg(self) -> Var | None:
        x = self.pick_with(1)
        if x is None or x.type.size == 0:
            return None
        axis = int(self.rng.integers(x.type.ndim))
        found = self.builder(
            str(self.rng.choice(["argmax", "argmin"])), x, axis=(axis,), keepdims=bool(self.rng.random() < 0.5)
        )
        return self.builder("cast", found, dtype=np.dtype(float))

    def slice(self) -> Var | None:
        x = self.pick_with(1)
        if x is None:
            return None
        parts = [self.part(int(d)) for d in x.type.shape]
        start, size, step = (tuple(p[k] for p in parts) for k in range(3))
        return self.builder("slice", x, start=start, size=size, step=step)

    def part(self, extent: int) -> tuple[int, int, int]:
        step = int(self.rng.choice([1, 1, 1, 2, 3, -1, -2]))
        size = int(self.rng.integers(1, extent // abs(step) + 1)) if extent >= abs(step) else 1
        if extent == 0 or self.rng.random() < 0.03:
            size = 0
        reach = max(size - 1, 0) * abs(step)
        low = int(self.rng.integers(0, max(extent - reach, 1)))
        return (low if step > 0 else low + reach), size, step

    def unslice(self) -> Var:
        x = self.pick()
        shape, start, step = [], [], []
        for d in x.type.shape:
            stride = int(self.rng.choice([1, 1, 2, -1, -2]))
            before, after = (int(k) for k in self.rng.integers(0, 3, 2))
            reach = max(int(d) - 1, 0) * abs(stride)
            shape.append(before + reach + 1 + after)
            start.append(before if stride > 0 else before + reach)
            step.append(stride)
        fill = float(self.rng.integers(0, 2))
        return self.builder("unslice", x, shape=tuple(shape), start=tuple(start), step=tuple(step), fill=fill)

    def update(self) -> Var | None:
        x = self.pick_with(1)
        if x is None:
            return None
        parts = [self.part(int(d)) for d in x.type.shape]
        start, size, step = (tuple(p[k] for p in parts) for k in range(3))
        value = self.builder("slice", self.unary_of(x), start=start, size=size, step=step)
        return self.builder("slice_update", x, value, start=start, step=step)

    def unary_of(self, x: Var) -> Var:
        return self.builder("negative", x)

    def transpose(self) -> Var:
        x = self.pick()
        return self.builder("transpose", x, axes=tuple(int(a) for a in self.rng.permutation(x.type.ndim)))

    def reshape(self) -> Var:
        x = self.pick()
        size = int(x.type.size)
        options: list[tuple[int, ...]] = [(size,), (*x.type.shape, 1), (1, *x.type.shape)]
        options += [(d, size // d) for d in range(2, 8) if size and size % d == 0]
        options += [(size // d, 1, d) for d in range(2, 8) if size and size % d == 0]
        return self.builder("reshape", x, shape=options[int(self.rng.integers(len(options)))])

    def broadcast(self) -> Var:
        x = self.pick()
        stretched = tuple(3 if d == 1 else d for d in x.type.shape)
        return self.builder("broadcast_to", x, shape=(int(self.rng.integers(1, 4)), *stretched))

    def concatenate(self) -> Var | None:
        x = self.pick_with(1)
        if x is None:
            return None
        axis = int(self.rng.integers(x.type.ndim))

        def fits(v: Var) -> bool:
            return (
                v.type.ndim == x.type.ndim
                and v.type.dtype == x.type.dtype
                and all(a == b or i == axis for i, (a, b) in enumerate(zip(v.type.shape, x.type.shape)))
            )

        found = [v for v in self.values if fits(v)]
        return self.builder("concatenate", x, found[int(self.rng.integers(len(found)))], x, axis=axis)

    def matmul(self) -> Var | None:
        a = self.pick_with(1)
        if a is None:
            return None
        found = [v for v in self.values if v.type.ndim and v.type.shape[max(v.type.ndim - 2, 0)] == a.type.shape[-1]]
        found = [
            v for v in found if all(
                p == q or 1 in (p, q) for p, q in zip(reversed(v.type.shape[:-2]), reversed(a.type.shape[:-2]))
            )
        ]  # fmt: skip
        return self.builder("matmul", a, found[int(self.rng.integers(len(found)))]) if found else None

    def indices(self, extent: int, shape: tuple[int, ...]) -> Var:
        self.args.append(self.rng.integers(-extent, extent, shape))
        return self.builder.input(shape, np.int64)

    def gather(self) -> Var | None:
        x = self.pick_with(1)
        if x is None or 0 in x.type.shape:
            return None
        depth = int(self.rng.integers(1, x.type.ndim + 1))
        shape = tuple(int(d) for d in self.rng.choice(SIZES[:4], self.rng.integers(0, 3)))
        return self.builder("gather", x, *(self.indices(int(d), shape) for d in x.type.shape[:depth]))

    def scatter(self) -> Var | None:
        x = self.pick_with(1)
        if x is None:
            return None
        lead = int(self.rng.integers(0, x.type.ndim + 1))
        sizes = tuple(int(d) for d in self.rng.choice(SIZES[1:5], self.rng.integers(1, 3)))
        found = [self.indices(d, tuple(map(int, x.type.shape[:lead]))) for d in sizes]
        return self.builder("scatter_add", x, *found, shape=(*sizes, *x.type.shape[lead:]))

    def iota(self) -> Var | None:
        x = self.pick_with(1)
        if x is None:
            return None
        axis = int(self.rng.integers(x.type.ndim))
        start, step = int(self.rng.integers(-2, 3)), int(self.rng.integers(1, 3))
        values = self.builder("iota", shape=x.type.shape, axis=axis, start=start, step=step, dtype=np.dtype(float))
        return self.builder("multiply", x, values)
