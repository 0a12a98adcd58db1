"""`scan`: a loop of known length over carried values, with an array per step read and written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.interpret import concrete
from tracegrad.ir.types import Type
from tracegrad.ops.loops.base import Body, Region, type_faults, types_of
from tracegrad.ops.loops.readings import readings
from tracegrad.records import record


@record
class ScanParts:
    """The values of a scan, or of its body, by what they are for."""

    carry: tuple[Var, ...]
    xs: tuple[Var, ...]
    invariants: tuple[Var, ...]
    final: tuple[Var, ...]
    ys: tuple[Var, ...]


class Scan(Region):
    """`for t in range(length): carry, ys[t] = body(carry, xs[t], invariants)`, backwards if `reverse`.

    Inputs: carry, xs, invariants; outputs: final carry, ys. The body's inputs and outputs are the same for one step.
    attrs: length, reverse, n_carry, n_xs, and unroll, a hint.
    """

    name = "scan"

    @staticmethod
    def check_bodies(node: Node) -> Iterator[str]:
        if len(node.bodies) != 1:
            yield f"a scan has one body, not {len(node.bodies)}"
            return
        length: DimLike = node.attrs["length"]
        mine, body = parts(node), body_parts(node)
        yield from type_faults("carry", mine.carry, types_of(body.carry))
        yield from type_faults("invariants", mine.invariants, types_of(body.invariants))
        yield from type_faults("final carry", mine.final, types_of(body.carry))
        yield from type_faults("carry the body returns", body.final, types_of(body.carry))
        yield from type_faults("xs", mine.xs, [stacked(v.type, length) for v in body.xs])
        yield from type_faults("ys", mine.ys, [stacked(v.type, length) for v in body.ys])

    @classmethod
    def run(
        cls, node: Node, inputs: Sequence[Any], bodies: Sequence[Body], sizes: Mapping[str, int]
    ) -> tuple[Any, ...]:
        (body,) = bodies
        n_carry, n_xs = node.attrs["n_carry"], node.attrs["n_xs"]
        length = concrete(node.attrs["length"], sizes)
        carry, xs = tuple(inputs[:n_carry]), inputs[n_carry : n_carry + n_xs]
        invariants = tuple(inputs[n_carry + n_xs :])
        ys = [np.empty((length, *concrete(v.type.shape, sizes)), v.type.dtype) for v in body_parts(node).ys]
        for t in range(length - 1, -1, -1) if node.attrs["reverse"] else range(length):
            results = body((*carry, *(np.asarray(x[t]) for x in xs), *invariants))
            carry = tuple(results[:n_carry])
            for y, element in zip(ys, results[n_carry:], strict=True):
                y[t] = element
        return (*carry, *ys)


def stacked(element: Type, length: DimLike) -> Type:
    """The type of an array with `length` elements of that type."""
    return Type(element.dtype, (length, *element.shape))


def parts(node: Node) -> ScanParts:
    """A scan's own inputs and outputs."""
    return _parts(node, node.inputs, node.outputs)


def body_parts(node: Node) -> ScanParts:
    """The inputs and outputs of a scan's body."""
    return _parts(node, node.bodies[0].inputs, node.bodies[0].outputs)


def _parts(node: Node, inputs: Sequence[Var], outputs: Sequence[Var]) -> ScanParts:
    n_carry = node.attrs["n_carry"]
    end = n_carry + node.attrs["n_xs"]
    return ScanParts(
        tuple(inputs[:n_carry]), tuple(inputs[n_carry:end]), tuple(inputs[end:]),
        tuple(outputs[:n_carry]), tuple(outputs[n_carry:]),
    )  # fmt: skip


def with_tape(body: Graph, n_carry: int, length: DimLike | None = None, dear: bool = True) -> Graph:
    """The body that also returns, as further ys, what its adjoint is computed from: the carry it was given, and what is
    dearer to compute again than to keep, and what a step reads of large arrays.

    A carry that the body returns as it is needs no tape. Where no adjoint comes, dead code elimination drops it.
    `length` is the number of steps, as far as it is known; without `dear` memory matters more than time.
    """
    taped = with_carries(body, n_carry)
    present = set(taped.outputs[n_carry:])
    kept = dict.fromkeys((*(_kept(body, n_carry, length) if dear else ()), *readings(body, n_carry)))
    return Graph(body.inputs, body.nodes, (*taped.outputs, *(v for v in kept if v not in present)), body.name)


DEAR = 16  # multiplications for each element of a product that is kept
MOST = 8  # times the carry, in elements, may be kept besides it
TAPE = 1 << 23  # elements that may be kept in all steps together besides that
_SOLVERS = frozenset({
    "solve", "inv", "det", "cofactors", "logabsdet", "cholesky", "cholesky_adjoint", "argsort", "host_call",
})  # fmt: skip
_FUNCTIONS = frozenset({
    "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "tanh", "expit", "sin", "cos", "tan", "erf", "power",
    "logaddexp", "sinh", "cosh", "arctan", "arctan2", "gammaln", "digamma",
})  # fmt: skip


def is_dear(node: Node) -> bool:
    """Whether the results of a node of a body are kept for the adjoint rather than computed again.

    Products of matrices, results of LAPACK and of calls into Python; functions that take several times as long as
    storing and loading a number.
    """
    if node.name == "matmul":
        inner = node.inputs[0].type.shape[-1]
        return not isinstance(inner, int) or inner >= DEAR
    return node.name in _SOLVERS or node.name in _FUNCTIONS


def _kept(body: Graph, n_carry: int, length: DimLike | None) -> list[Var]:
    """The results that are kept, as far as they do not take much memory; functions only where it is little."""
    found: list[Var] = []
    carried = sum((v.type.size for v in body.inputs[:n_carry]), start=0)
    little = TAPE // max(length, 1) if isinstance(length, int) else carried
    much = MOST * carried + little
    for node in sorted(filter(is_dear, body.nodes), key=lambda n: n.name in _FUNCTIONS):
        size = sum((v.type.size for v in node.outputs), start=0)
        allowed = little if node.name in _FUNCTIONS else much
        if not isinstance(size, int) or not isinstance(allowed, int) or size <= allowed:
            found += node.outputs
            little, much = little - size, much - size
    return found


def with_carries(body: Graph, n_carry: int) -> Graph:
    """The body that also returns the carry it was given, and of that alone its adjoint is computed."""
    present = set(body.outputs[n_carry:])
    changed = zip(body.inputs[:n_carry], body.outputs[:n_carry], strict=True)
    taped = (v for v, final in changed if v is not final and v not in present)
    return Graph(body.inputs, body.nodes, (*body.outputs, *taped), body.name)


def output_types(body: Graph, n_carry: int, length: DimLike) -> tuple[Type, ...]:
    """The types of a scan's outputs."""
    final = types_of(body.outputs[:n_carry])
    return (*final, *(stacked(v.type, length) for v in body.outputs[n_carry:]))
