"""Programs: a recorded graph, optimised, scheduled and compiled, with what a call needs around it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ShapeError
from tracegrad.ir.graph import Graph
from tracegrad.ir.interpret import interpret
from tracegrad.ir.types import Type
from tracegrad.tensor import Tensor


class Program:
    """One graph made executable. Stages are computed when first needed and kept for `show`.

    Calling it takes one array (or number) per graph input and gives one ndarray per output; arrays of any layout and
    byte order are accepted, those that are not native and C-contiguous are copied.
    """

    def __init__(self, trace: Graph, graph: Graph | None = None):
        self.stages: dict[str, Any] = {"trace": trace, "adjoint": graph if graph is not None else trace}
        self.seconds: dict[str, float] = {}
        self.types: tuple[Type, ...] = tuple(v.type for v in self.graph.inputs)
        self.executable: Any = None

    @property
    def graph(self) -> Graph:
        """The graph before optimisation: what the interpreter runs."""
        return self.stages["adjoint"]

    def stage(self, name: str) -> Any:
        """The product of a stage: trace, adjoint, optimized, schedule, report or executable."""
        if name not in self.stages:
            self._build()
        return self.stages[name]

    def _build(self) -> None:
        from tracegrad.emit import compile_program
        from tracegrad.passes.pipeline import optimize
        from tracegrad.schedule import schedule_with_report

        start = time.perf_counter()
        self.stages["optimized"] = optimized = optimize(self.graph)
        optimised = time.perf_counter()
        self.stages["schedule"], self.stages["report"] = schedule_with_report(optimized)
        scheduled = time.perf_counter()
        self.stages["executable"] = self.executable = compile_program(self.stages["schedule"])
        self.seconds |= {
            "optimize": optimised - start,
            "schedule": scheduled - optimised,
            "compile": time.perf_counter() - scheduled,
        }

    def __call__(self, *args: Any) -> tuple[np.ndarray, ...]:
        if self.executable is None:
            self._build()
        return self.executable(*map(self._conform, args, self.types))

    def interpret(self, *args: Any) -> tuple[np.ndarray, ...]:
        """The same, by the interpreter."""
        plain = [a._value() if isinstance(a, Tensor) else a for a in args]
        inputs = [np.asarray(a).item() if t.weak else np.asarray(a) for a, t in zip(plain, self.types, strict=True)]
        return tuple(map(np.asarray, interpret(self.graph, inputs)))

    def _conform(self, value: Any, type: Type) -> np.ndarray:
        array = np.asarray(value._array if isinstance(value, Tensor) else value, dtype=type.dtype, order="C")
        if not array.flags.aligned:
            array = array.copy()
        if array.shape != type.shape:
            raise ShapeError(
                f"an array captured by the compiled function changed its shape from {type.shape} to {array.shape}"
            )
        return array


def run_results(results: Sequence[np.ndarray]) -> list[Any]:
    """0-d arrays as NumPy's scalars, as NumPy's own functions return them."""
    return [r if r.ndim else r[()] for r in results]
