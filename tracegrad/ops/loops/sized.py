"""`sized`: a graph with a size that is only known when the program has come there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracegrad.ir.dims import symbols
from tracegrad.ir.graph import Node
from tracegrad.ir.interpret import NO_SIZES, interpret
from tracegrad.ops.loops.base import Body, Region, type_faults, types_of


class Sized(Region):
    """The body, in whose dimensions the attribute `symbol` stands for the first input (not below 0).

    Inputs: the count (0-d int64), the body's inputs. Outputs: the body's, whose shapes do not contain the symbol. So a
    loop of a computed length, and the tape of a `while`, have arrays of that length inside and none outside.
    """

    name = "sized"

    @staticmethod
    def bound_symbols(node: Node) -> frozenset[str]:
        """The symbols that mean something in the body though no input has them."""
        return frozenset({node.attrs["symbol"]})

    @staticmethod
    def check_bodies(node: Node) -> Iterator[str]:
        if len(node.bodies) != 1:
            yield f"a sized has one body, not {len(node.bodies)}"
            return
        (body,) = node.bodies
        if node.inputs[0].type.dtype != "int64" or node.inputs[0].type.shape:
            yield f"the count {node.inputs[0]} is not a 0-d int64"
        yield from type_faults("inputs of the body", body.inputs, types_of(node.inputs[1:]))
        yield from type_faults("results of the body", body.outputs, types_of(node.outputs))
        if any(node.attrs["symbol"] in symbols(d) for v in (*node.inputs, *node.outputs) for d in v.type.shape):
            yield f"the symbol {node.attrs['symbol']} has a meaning inside only"

    @staticmethod
    def inner_sizes(node: Node, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Mapping[str, int]:
        """The sizes that hold in the body."""
        return {**sizes, node.attrs["symbol"]: max(int(inputs[0]), 0)}

    @classmethod
    def run_bodies(cls, node: Node, inputs: Sequence[Any], sizes: Mapping[str, int] = NO_SIZES) -> tuple[Any, ...]:
        return interpret(node.bodies[0], tuple(inputs[1:]), cls.inner_sizes(node, inputs, sizes))

    @classmethod
    def run(
        cls, node: Node, inputs: Sequence[Any], bodies: Sequence[Body], sizes: Mapping[str, int]
    ) -> tuple[Any, ...]:
        return tuple(bodies[0](tuple(inputs[1:])))
