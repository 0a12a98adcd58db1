"""Programs: a recorded graph, optimised, scheduled and compiled, with what a call needs around it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad.errors import DTypeError, ShapeError
from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Graph
from tracegrad.ir.interpret import interpret
from tracegrad.ir.types import NAME_OF_DTYPE, Type
from tracegrad.tensor import Tensor

if TYPE_CHECKING:
    from tracegrad.emit.executable import Executable


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
        self.cached = False  # whether the executable came from the disk cache

    @property
    def graph(self) -> Graph:
        """The graph before optimisation: what the interpreter runs."""
        return self.stages["adjoint"]

    def stage(self, name: str) -> Any:
        """The product of a stage: trace, adjoint, optimized, schedule, report or executable."""
        if name not in self.stages:
            {"optimized": self._optimize, "executable": self._build}.get(name, self._schedule)()
        return self.stages[name]

    def listing(self, kind: str) -> str:
        """The program's llvm or asm. One that came from the disk cache is compiled for it."""
        executable = self.stage("executable")
        if self.cached:
            executable = self.stages.get("listing") or self._compile()
            self.stages["listing"] = executable
        return executable.llvm() if kind == "llvm" else executable.asm()

    def _optimize(self) -> Graph:
        from tracegrad.passes.pipeline import optimize

        if "optimized" not in self.stages:
            with self._timed("optimize"):
                self.stages["optimized"] = optimize(self.graph)
        return self.stages["optimized"]

    def _schedule(self) -> Any:
        from tracegrad.schedule import schedule_with_report

        if "schedule" not in self.stages:
            optimized = self._optimize()
            with self._timed("schedule"):
                self.stages["schedule"], self.stages["report"] = schedule_with_report(optimized)
        return self.stages["schedule"]

    def _compile(self) -> Executable:
        from tracegrad.emit import compile_program

        schedule = self._schedule()
        with self._timed("compile"):
            return compile_program(schedule)

    def _build(self) -> None:
        """The executable: from the disk cache if it is there, else compiled now and left there."""
        from tracegrad.transforms.stored import find

        check_dtypes(self.graph)
        with self._timed("load"):
            place = find(self.graph, self._optimize)
            found = None if place is None else place.load()
        self.cached = found is not None
        if found is None:
            found = self._compile()
            if place is not None:
                with self._timed("save"):
                    place.save(found)
        self.stages["executable"] = self.executable = found

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start

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
        if array.shape != type.shape and not _fits(array.shape, type.shape):
            raise ShapeError(
                f"an array captured by the compiled function changed its shape from {type.shape} to {array.shape}"
            )
        return array


def check_dtypes(graph: Graph) -> None:
    """Raise DTypeError, at the user's line, where a value has a dtype that compiled code does not have."""
    from tracegrad.transforms.stored import all_nodes

    places = [(v.type.dtype, n.location) for n in all_nodes(graph) for v in (*n.inputs, *n.outputs)]
    places += [(v.type.dtype, None) for v in graph.inputs]
    unknown = [place for place in places if place[0] not in NAME_OF_DTYPE]
    for dtype, location in sorted(unknown, key=lambda place: place[1] is None)[:1]:
        usual = "np.complex128" if dtype.kind == "c" else "np.float64"
        raise DTypeError(
            f"compiled code does not compute in {dtype}",
            fix=f"convert it with .astype({usual}), or call the function under tg.eager()",
            location=location,
        )


def _fits(shape: tuple[int, ...], wanted: tuple[DimLike, ...]) -> bool:
    """Whether a shape is the wanted one up to symbols, which the compiled program compares itself."""
    return len(shape) == len(wanted) and all(not isinstance(w, int) or d == w for d, w in zip(shape, wanted))


def run_results(results: Sequence[np.ndarray]) -> list[Any]:
    """0-d arrays as NumPy's scalars, as NumPy's own functions return them."""
    return [r if r.ndim else r[()] for r in results]
