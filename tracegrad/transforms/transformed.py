"""What transformations of whole recordings share: recorded once per kind of arguments, transformed, compiled.

Inside another trace the transformed graph is appended to it, so that transformations nest in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any, Protocol

from tracegrad.ir.graph import Graph
from tracegrad.state import state
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace, splice
from tracegrad.transforms.autograd import GraphFunction
from tracegrad.transforms.compiled import CompiledFunction
from tracegrad.transforms.entry import Entry
from tracegrad.transforms.gradient import fit_weak
from tracegrad.transforms.program import Program
from tracegrad.transforms.record import Output, Recording
from tracegrad.transforms.signature import Call, read_call


class Builder(Protocol):
    """How the outputs of a transformed graph become what the user gets."""

    def build(self, output: Output, values: Sequence[Any]) -> Any: ...


class TransformedFunction(CompiledFunction):
    """A compiled function whose program is a transformed recording; subclasses say which in `_transform`."""

    def _transform(self, call: Call, args: tuple[Any, ...], parent: Trace | None) -> tuple[Recording, Graph, Builder]:
        """The recording of the user's function, and a graph of the call's dynamic leaves and then of what was captured.

        The graph's outputs begin with those of the recording; the builder makes the result of all of them.
        """
        raise NotImplementedError

    def _compile(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry:
        recording, graph, builder = self._transform(call, args, None)
        tensors = call.tensors or any(isinstance(c, Tensor) for c in recording.captured)
        linked = tensors and recording.effects.linked
        program = GraphFunction(graph) if linked else Program(recording.graph, graph)
        return Entry(call, recording, program, builder, self.function)  # type: ignore[arg-type]

    def _inline(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        outer = state.trace
        assert outer is not None
        call = read_call(args, kwargs)
        recording, graph, builder = self._transform(call, args, outer)
        inputs = tuple(outer.lift(call.leaves[i]) for i in call.dynamic)
        inputs += tuple(outer.lift(c) for c in recording.captured)
        outputs = splice(outer, graph, tuple(fit_weak(outer, v, t) for v, t in zip(inputs, graph.inputs, strict=True)))
        n_guards = len(recording.guards)
        first = len(recording.graph.outputs) - n_guards
        outer.guards.extend(zip(outputs[first : first + n_guards], recording.guards, strict=True))
        values = [Tensor._traced(outer, v) for v in outputs]
        recording.effects.pass_on(outer, values, call.leaves)
        return builder.build(recording.output, values)


def of_function(function: Callable[..., Any], key: Any, make: Callable[[], Any]) -> Any:
    """What `make` gives, kept on the function itself under `key`, so that programs live and die with it.

    That of a Function's `apply` is kept on its class. Other callables (methods of objects) get a new one each time.
    """
    name = "__tracegrad_transforms__"
    if isinstance(function, (FunctionType, CompiledFunction)):
        table = function.__dict__.setdefault(name, {})
    elif isinstance(function, MethodType) and isinstance(function.__self__, type):
        cls, key = function.__self__, (function.__func__, key)
        if name not in cls.__dict__:
            setattr(cls, name, {})
        table = cls.__dict__[name]
    else:
        return make()
    found = table.get(key)
    if found is None:
        found = table[key] = make()
    return found
