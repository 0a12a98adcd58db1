"""User Functions that leave tracegrad (`.numpy()`, SciPy code, a C library): nodes that call back into Python.

The forward node returns, beside what the user's forward returns, the Tensors it saved, and a number under which the
attributes of its ctx are found again. The table of these is bounded; where an entry has gone, forward runs once more.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.autograd.custom import run_forward
from tracegrad.autograd.user_node import FunctionContext, backward_of, check_kind, checked_gradients
from tracegrad.errors import AutogradError, ShapeError, UnsupportedError
from tracegrad.function import Operation
from tracegrad.ir.graph import Node, Var
from tracegrad.ir.types import Type
from tracegrad.ops.call import CallRecord, RebuiltContext, Ref, as_tensor_or_traced, check_shape, replaced
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor

MAX_CONTEXTS = 256
_INTERNAL = {"needs_input_grad", "_to_save", "_dirty", "_non_differentiable", "_materialize", "_for_forward"}
_HANDLE = Type(np.dtype(np.int64))


class HostContext(FunctionContext):
    """The ctx of a forward that runs on real numbers while a program runs."""

    def __init__(self, needs: tuple[bool, ...]):
        self._begin_context(needs)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self._to_save

    def attributes(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in _INTERNAL}


class HostForward:
    """Runs a user's forward on ndarrays. `arguments` has None in the places of the arrays, `positions` says which, and
    `needs` of which a gradient may be wanted."""

    def __init__(
        self, function: Any, arguments: Sequence[Any], kwargs: Mapping[str, Any], positions: Sequence[int],
        needs: tuple[bool, ...],
    ):  # fmt: skip
        self.function, self.arguments, self.kwargs, self.positions = function, arguments, kwargs, positions
        self.needs = needs  # as ctx tells; the Tensors forward is given have no history, so that np.asarray takes them
        self.output_types: tuple[Type, ...] = ()
        self.outputs: tuple[int | None, ...] = ()
        self.saved: tuple[Any, ...] = ()
        self.others: tuple[Any, ...] = ()  # outputs that are no Tensors, with Refs for Tensors in them
        self.has_attributes = self.materialize = self.guarded = False
        self._contexts: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._handles = itertools.count(1)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<{self.function.__name__}.forward>"

    def run(self, arrays: Sequence[Any]) -> tuple[HostContext, tuple[Tensor, ...], Any]:
        """The user's forward now: its ctx, the Tensors it was given, and what it returned."""
        tensors = tuple(Tensor._wrap(np.array(a)) for a in arrays)
        arguments = list(self.arguments)
        for position, tensor in zip(self.positions, tensors, strict=True):
            arguments[position] = tensor
        context = HostContext(self.needs)
        with setting(trace=None, grad_enabled=False, function_body=False):
            result = run_forward(self.function, context, tuple(arguments), self.kwargs)
        return context, tensors, result

    def learn(self, arrays: Sequence[Any], guarded: bool) -> tuple[Any, tuple[Any, ...], tuple[np.ndarray, ...]]:
        """The first run: fixes what is returned and saved, and of which types.

        What forward returned; the same as Tensors and what is none, with Refs for Tensors in that; the node's results.
        If `guarded`, a result tells whether what is no Tensor is again what it was; else another one is an error.
        """
        context, tensors, result = self.run(arrays)
        if context._dirty:
            raise dirty_in_trace(self.function)
        values = _returned(result)
        positions = itertools.count()
        self.outputs = tuple(next(positions) if isinstance(v, Tensor) else None for v in values)
        extra = itertools.count(sum(p is not None for p in self.outputs))
        self.saved = tuple(_saved_ref(s, tensors, extra) for s in context._to_save)
        values = tuple([v if isinstance(v, Tensor) else self._with_refs(v, extra) for v in values])
        self.others = tuple([v for v in values if not isinstance(v, Tensor)])
        self.has_attributes, self.materialize = bool(context.attributes()), context._materialize
        self.guarded = guarded and any(v is not None for v in self.others)
        results = self._results(context, _returned(result))
        self.output_types = tuple(Type(r.dtype, r.shape) for r in results)
        plain = {id(t) for t in context._non_differentiable}
        self.plain = tuple(id(v) in plain for v in values if isinstance(v, Tensor))
        return result, values, results

    @staticmethod
    def _with_refs(value: Any, extra: Any) -> Any:
        return replaced(value, Tensor, lambda _: Ref(True, next(extra)))

    def _results(self, context: HostContext, values: tuple[Any, ...]) -> tuple[np.ndarray, ...]:
        results = [np.array(v._value()) for v in values if isinstance(v, Tensor)]
        results += [
            np.array(t._value() if isinstance(t, Tensor) else t)
            for t, ref in zip(context._to_save, self.saved, strict=True)
            if isinstance(ref, Ref) and ref.output
        ]
        others = [v for v in values if not isinstance(v, Tensor)]
        extra = itertools.count(len(results))
        for value in others:
            replaced(value, Tensor, lambda t: results.append(np.array(t._value())))
        same = alike(tuple([self._with_refs(v, extra) for v in others]), self.others)
        if self.guarded:
            results.append(np.array(same))
        elif not same:
            raise UnsupportedError(
                f"{self.function.__name__}.forward, which runs in Python within a loop, returns beside Tensors a value "
                "that differs from step to step",
                fix="return it as a Tensor: tg.tensor(value)",
            )
        results.append(np.array(self._keep(context.attributes()), dtype=np.int64))
        return tuple(results)

    def _keep(self, attributes: dict[str, Any]) -> int:
        if not attributes:
            return 0
        with self._lock:
            handle = next(self._handles)
            self._contexts[handle] = attributes
            while len(self._contexts) > MAX_CONTEXTS:
                self._contexts.popitem(last=False)
        return handle

    def attributes_of(self, handle: int, arrays: Sequence[Any]) -> dict[str, Any]:
        """The ctx attributes of the run that returned `handle`; of a repeated run where they are gone."""
        if not self.has_attributes:
            return {}
        with self._lock:
            found = self._contexts.get(handle)
        return self.run(arrays)[0].attributes() if found is None else found

    def __call__(self, *arrays: Any) -> tuple[np.ndarray, ...]:
        context, _, result = self.run(arrays)
        values = _returned(result)
        if len(values) != len(self.outputs) or len(context._to_save) != len(self.saved):
            raise AutogradError(
                f"{self.function.__name__}.forward returned {len(values)} values and saved {len(context._to_save)}; "
                f"when it was recorded it was {len(self.outputs)} and {len(self.saved)}",
                fix="return and save the same number of values in each call, or call it outside compiled functions",
            )
        results = self._results(context, values)
        for found, expected in zip(results, self.output_types, strict=True):
            if (found.dtype, found.shape) != (expected.dtype, expected.shape):
                raise ShapeError(
                    f"{self.function.__name__}.forward gave {found.dtype}{list(found.shape)}; when it was recorded it "
                    f"was {expected.dtype}{list(expected.shape)}",
                    fix="its results must have shapes and dtypes that depend on those of its inputs alone",
                )
        return results

    def record(self) -> CallRecord:
        arguments: list[int | None] = [None] * len(self.arguments)
        for i, position in enumerate(self.positions):
            arguments[position] = i
        return CallRecord(
            self.function, tuple(arguments), self.outputs, self.saved, {}, self.materialize, tuple(self.arguments),
            self.kwargs,
        )  # fmt: skip


def alike(a: Any, b: Any) -> bool:
    """Whether two values of Python's are equal in type and bits. Raises UnsupportedError for objects of other kinds."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(alike, a.values(), b.values()))
    if isinstance(a, (float, complex, np.ndarray, np.generic)):
        a, b = np.asarray(a), np.asarray(b)
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, (int, str, bytes, np.dtype, slice, range, Ref)):
        return bool(a == b)
    raise UnsupportedError(
        f"forward of a Function, which runs in Python in each call, returns a new {type(a).__name__} each time; a "
        "compiled function cannot pass it on",
        fix="return Tensors, numbers, strings, or lists, tuples and dicts of them",
    )


def _returned(result: Any) -> tuple[Any, ...]:
    from tracegrad.autograd.custom import _as_output

    return tuple(map(_as_output, result)) if isinstance(result, tuple) else (_as_output(result, alone=True),)


def _saved_ref(saved: Any, tensors: tuple[Tensor, ...], extra: Any) -> Any:
    if saved is None:
        return None
    for i, tensor in enumerate(tensors):
        if tensor is saved:
            return Ref(False, i)
    return Ref(True, next(extra))


def dirty_in_trace(function: Any) -> AutogradError:
    return AutogradError(
        f"{function.__name__} marks an input as dirty, which compiled functions do not support",
        fix="let forward return a new value instead of modifying its input",
    )


class HostCall(Operation):
    """A user's forward run in Python. Outputs: what it returned, what it saved, and the handle of its ctx."""

    name = "host_call"
    pure = False

    @staticmethod
    def infer(*types: Type, function: HostForward) -> tuple[Type, ...]:
        return function.output_types

    @staticmethod
    def forward(*arrays: np.ndarray, function: HostForward) -> tuple[np.ndarray, ...]:
        return function(*arrays)

    @staticmethod
    def backward_symbolic(
        node: Node,
        inputs: tuple[Tensor, ...],
        outputs: tuple[Tensor, ...],
        needs: tuple[bool, ...],
        cotangents: tuple[Tensor | None, ...],
    ) -> tuple[Any, ...]:
        forward: HostForward = node.attrs["function"]
        n_outputs = sum(p is not None for p in forward.outputs)
        if any(g is not None for g in cotangents[n_outputs:]):
            raise twice(forward.function)
        record = forward.record()
        return emit_host_backward(HostBackward(record, forward), inputs, outputs, needs, cotangents)

    @staticmethod
    def forward_symbolic(node: Node, inputs: Any, outputs: Any, tangents: Any) -> Any:
        from tracegrad.ops.function_rules import tangents_of_call

        return tangents_of_call(node.attrs["function"].record(), node, inputs, outputs, tangents)

    @staticmethod
    def batch_symbolic(node: Node, tensors: Any, flags: tuple[bool, ...], size: Any) -> Any:
        from tracegrad.ops.function_rules import batched_function

        return batched_function(node.attrs["function"].record(), node, tensors, flags, size)


class HostBackward:
    """Runs a user's backward on ndarrays: the node's inputs and outputs, then the cotangents that are there."""

    def __init__(self, record: CallRecord, forward: HostForward | None):
        self.record, self.forward = record, forward
        self.needs: tuple[bool, ...] = ()
        self.given: tuple[bool, ...] = ()
        self.input_types: tuple[Type, ...] = ()
        self.types: tuple[Type, ...] = ()

    def __repr__(self) -> str:
        return f"<{self.record.function.__name__}.backward>"

    @property
    def output_types(self) -> tuple[Type, ...]:
        needed = zip(self.input_types, self.needs, strict=True)
        return tuple(Type(t.dtype, t.shape) for t, n in needed if n)

    def __call__(self, *arrays: Any) -> tuple[np.ndarray, ...]:
        record = self.record
        n_inputs, n_values = len(self.input_types), len(self.input_types) + len(self.types)
        tensors = [Tensor._wrap(np.array(a)) for a in arrays]
        inputs, outputs, rest = tensors[:n_inputs], tensors[n_inputs:n_values], iter(tensors[n_values:])
        cotangents = [next(rest) if given else None for given in self.given]
        wanted = tuple(p is not None and self.needs[p] for p in record.arguments)
        context = RebuiltContext(record, lambda r: outputs[r.position] if r.output else inputs[r.position], wanted)
        if self.forward is not None:
            handle = int(outputs[-1]._array)
            for name, value in self.forward.attributes_of(handle, [t._array for t in inputs]).items():
                setattr(context, name, value)
        received = [
            None if p is None else _array_cotangent(cotangents[p], self.types[p], outputs[p], record.materialize)
            for p in record.outputs
        ]
        with setting(trace=None, grad_enabled=False, function_body=False):
            result = backward_of(record.function)(context, *received)
        found = checked_gradients(record.name, result, record.tensor_inputs, [True if w else None for w in wanted])
        return self._fitted(found, inputs)

    def _fitted(self, found: tuple[Any, ...], inputs: list[Tensor]) -> tuple[np.ndarray, ...]:
        from tracegrad.ops.cotangent import fit

        results: list[Any] = [None] * len(inputs)
        for i, (position, g) in enumerate(zip(self.record.arguments, found, strict=True)):
            if position is not None and g is not None:
                check_shape(self.record.name, i, g.shape, inputs[position].shape)
                check_kind(self.record.name, i, g.dtype, inputs[position].dtype)
                with setting(trace=None, grad_enabled=False):
                    results[position] = np.array(fit(g, inputs[position].type)._value())
        return tuple(
            np.zeros(x.shape, x.dtype) if g is None else g
            for x, g, needed in zip(inputs, results, self.needs, strict=True)
            if needed
        )


def _array_cotangent(g: Tensor | None, type: Type, like: Tensor, materialize: bool) -> Tensor | None:
    return g if g is not None or not materialize else Tensor._wrap(np.zeros(like.shape, type.dtype))


class HostBackwardCall(Operation):
    """A user's backward run in Python."""

    name = "host_backward"
    pure = False

    @staticmethod
    def infer(*types: Type, function: HostBackward) -> tuple[Type, ...]:
        return function.output_types

    @staticmethod
    def forward(*arrays: np.ndarray, function: HostBackward) -> tuple[np.ndarray, ...]:
        return function(*arrays)

    @staticmethod
    def backward_symbolic(node: Node, *rest: Any) -> tuple[Any, ...]:
        raise twice(node.attrs["function"].record.function)


def twice(function: Any) -> AutogradError:
    return AutogradError(
        f"trying to differentiate twice through {function.__name__}, which leaves tracegrad (.numpy(), SciPy code, …) "
        "on its way",
        fix="write its forward and backward in NumPy functions of Tensors, without .numpy() and np.asarray",
    )


def emit_host_backward(
    backward: HostBackward, inputs: Any, outputs: Any, needs: tuple[bool, ...], cotangents: Sequence[Any]
) -> tuple[Any, ...]:
    """Record the backward as a node of the active trace; one cotangent per input of the forward node."""
    trace = state.trace
    assert trace is not None
    backward.needs, backward.given = needs, tuple(g is not None for g in cotangents)
    backward.input_types, backward.types = tuple(x.type for x in inputs), tuple(x.type for x in outputs)
    values: list[Var] = [x._var for x in (*inputs, *outputs)]
    values += [trace.lift(as_tensor_or_traced(g)) for g in cotangents if g is not None]
    results = iter(
        trace.emit(HostBackwardCall, tuple(values), backward.output_types, {"function": backward}, (), trace.location)
    )
    return tuple(next(results) if needed else None for needed in needs)


def host_backward_of_call(
    record: CallRecord, inputs: Any, outputs: Any, needs: tuple[bool, ...], cotangents: Sequence[Any]
) -> tuple[Any, ...]:
    """The backward of a traced forward that itself leaves tracegrad; one cotangent per argument of forward."""
    n_outputs = sum(p is not None for p in record.outputs)
    given = [g if i < n_outputs else None for i, g in enumerate(cotangents)]
    found = emit_host_backward(HostBackward(record, None), inputs, outputs, needs, given)
    return tuple(None if p is None else found[p] for p in record.arguments)
