"""`backward` and `grad`: what users call to start the engine."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.autograd.engine import Wanted, accumulate, checked_inputs, run_backward
from tracegrad.autograd.node import Edge, as_tensor, edge_of
from tracegrad.errors import ArgumentError, AutogradError, NonScalarError, OptionError
from tracegrad.ir.types import Type
from tracegrad.state import state
from tracegrad.tensor import Tensor


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves (or only of `inputs`).

    grad_tensors: one cotangent per tensor, of its shape; may be None for a scalar.
    Raises AutogradError where nothing was recorded, or it was freed by an earlier backward.
    """
    outputs = checked_inputs(tensors)
    seeds = seeds_for(outputs, _as_sequence(grad_tensors, len(outputs)), create_graph)
    roots = _roots(outputs)
    keep = create_graph if retain_graph is None else retain_graph
    if create_graph:
        warnings.warn(
            "backward() with create_graph=True makes a reference cycle between a parameter and its gradient, which "
            "can leak memory; prefer autograd.grad, or reset .grad to None afterwards",
            UserWarning,
            stacklevel=3,
        )
    if inputs is None:
        run_backward(roots, seeds, keep, create_graph)
        return
    targets = checked_inputs(inputs)
    if not targets:
        raise AutogradError("`inputs` argument to `backward()` cannot be empty", fix="leave it out to reach all leaves")
    for target in targets:
        if target.grad_fn is not None and target.requires_grad:
            target.retain_grad()
    wanted = Wanted([node for node, _ in roots], _edges(targets))
    run_backward(roots, seeds, keep, create_graph, wanted)
    former = state.grad_enabled
    state.grad_enabled = create_graph
    try:
        for i, target in enumerate(targets):
            g, wanted.found[i] = wanted.found[i], None
            if g is not None and target.grad_fn is None:
                accumulate(target, g)
    finally:
        state.grad_enabled = former


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of `outputs` with respect to `inputs`, one per input, without touching any `.grad`.

    With `is_grads_batched` each grad_output has one more leading dimension, and so have the results.
    """
    if allow_unused is None:
        allow_unused = materialize_grads
    elif materialize_grads and not allow_unused:
        raise OptionError(
            "materialize_grads=True needs unused inputs to be allowed, but allow_unused=False was passed",
            fix="leave allow_unused out",
        )
    targets, results = checked_inputs(inputs), checked_inputs(outputs)
    if not targets:
        raise AutogradError("`inputs` argument to `grad()` cannot be empty", fix="name what to differentiate for")
    cotangents = _as_sequence(grad_outputs, len(results))
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        return _batched_grad(results, targets, cotangents, keep, create_graph, allow_unused, materialize_grads)
    seeds = seeds_for(results, cotangents, create_graph)
    roots = _roots(results)
    wanted = Wanted([node for node, _ in roots], _edges(targets))
    run_backward(roots, seeds, keep, create_graph, wanted)
    for i, (found, target) in enumerate(zip(wanted.found, targets, strict=True)):
        if found is not None:
            continue
        if not allow_unused:
            raise AutogradError(
                f"the differentiated Tensor at index {i} appears to not have been used in the graph",
                fix="set allow_unused=True to get None for it, or materialize_grads=True to get zeros",
            )
        if materialize_grads:
            from tracegrad.ops.cotangent import zeros

            wanted.found[i] = as_tensor(zeros(target.type))
    return tuple(wanted.found)


def _batched_grad(
    outputs: Any, inputs: Any, cotangents: Any, keep: bool, create_graph: bool, allow_unused: bool, materialize: bool
) -> tuple[Tensor | None, ...]:
    """One run per entry of the leading dimension; the results stacked."""
    sizes = {g.shape[0] for g in cotangents if g is not None}
    if len(sizes) != 1:
        raise ArgumentError(f"is_grads_batched=True needs grad_outputs with one common leading size, got {sizes}")
    (size,) = sizes
    rows = []
    for i in range(size):
        row = [None if g is None else g[i] for g in cotangents]
        retain = keep or i + 1 < size
        rows.append(grad(outputs, inputs, row, retain, create_graph, allow_unused, False, materialize))
    from tracegrad.ops.joining import stack

    return tuple(None if column[0] is None else stack(column) for column in zip(*rows, strict=True))


def _as_sequence(values: Any, count: int) -> Sequence[Any]:
    if values is None:
        return (None,) * count
    sequence = (values,) if isinstance(values, (Tensor, np.ndarray, int, float)) else tuple(values)
    if len(sequence) != count:
        raise AutogradError(f"got {count} tensors and {len(sequence)} gradients", fix="pass one gradient per tensor")
    return sequence


def _roots(outputs: Sequence[Tensor]) -> list[Edge]:
    roots = []
    for i, output in enumerate(outputs):
        edge = edge_of(output)
        if edge is None:
            raise AutogradError(
                f"element {i} of tensors does not require grad and does not have a grad_fn",
                fix="make an input with requires_grad=True, and compute outside no_grad and without detach()",
            )
        roots.append(edge)
    return roots


def _edges(inputs: Sequence[Tensor]) -> list[Edge]:
    edges = []
    for i, value in enumerate(inputs):
        edge = edge_of(value)
        if edge is None:
            raise AutogradError(
                f"one of the differentiated Tensors does not require grad: the one at index {i}",
                fix="make it with requires_grad=True before it is used",
            )
        edges.append(edge)
    return edges


def seeds_for(outputs: Sequence[Tensor], cotangents: Sequence[Any], create_graph: bool) -> list[Tensor]:
    """The cotangents to start from: as given, or ones for scalars."""
    seeds = []
    for i, (output, g) in enumerate(zip(outputs, cotangents, strict=True)):
        if g is None:
            array = output._array
            if array is not None and array.size == 1 and array.dtype.kind == "f":
                seed = np.empty(array.shape, array.dtype)
                seed.fill(1)
                seeds.append(Tensor._wrap(seed))
                continue
            if output.requires_grad and output.size != 1:
                raise NonScalarError(
                    f"grad can be implicitly created only for scalar outputs; this one has shape {output.shape}",
                    fix="reduce it first (`.sum()`, `.mean()`), or pass the gradient to start from",
                )
            if output.requires_grad and output.dtype.kind not in "f":
                raise NonScalarError(
                    f"grad can be implicitly created only for real scalar outputs but got {output.dtype}",
                    fix="take the real part first, or pass the gradient to start from",
                )
            seeds.append(Tensor._wrap(np.ones(output.shape, output.dtype)))
            continue
        if not isinstance(g, Tensor):
            g = Tensor._wrap(np.asarray(g, dtype=output.dtype))
        if g.shape != output.shape:
            raise AutogradError(
                f"Mismatch in shape: grad_output[{i}] has a shape of {tuple(g.shape)} "
                f"and output[{i}] has a shape of {tuple(output.shape)}",
                fix="pass a gradient of exactly the output's shape",
            )
        seeds.append(_cast(g, output.type))
    return seeds


def _cast(g: Tensor, target: Type) -> Tensor:
    if g.dtype == target.dtype:
        return g
    if g.dtype.kind == "c" and target.dtype.kind != "c":
        raise AutogradError(f"for a real output the gradient must be real, got {g.dtype}")
    from tracegrad.ops.cotangent import fit

    return fit(g, target)
