"""`while`: a loop that runs as long as a condition on its carry holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.ir.graph import Node
from tracegrad.ir.types import Type
from tracegrad.ops.loops.base import Body, Region, type_faults, types_of

COUNT = Type(np.dtype(np.int64))


class While(Region):
    """`while condition(carry, first invariants): carry = body(carry, other invariants)`.

    Inputs: carry, the condition's `n_condition` invariants, the body's; outputs: final carry, and how many times the
    body ran, from which the adjoint makes a scan of that length. Bodies: condition (one bool), body.
    """

    name = "while"

    @staticmethod
    def check_bodies(node: Node) -> Iterator[str]:
        if len(node.bodies) != 2:
            yield f"a while has a condition and a body, not {len(node.bodies)} bodies"
            return
        condition, body = node.bodies
        n_carry, end = node.attrs["n_carry"], node.attrs["n_carry"] + node.attrs["n_condition"]
        carry = types_of(node.inputs[:n_carry])
        yield from type_faults("inputs of the condition", condition.inputs, types_of(node.inputs[:end]))
        yield from type_faults("results of the condition", condition.outputs, [Type(np.dtype(bool))])
        yield from type_faults("inputs of the body", body.inputs, (*carry, *types_of(node.inputs[end:])))
        yield from type_faults("results of the body", body.outputs, carry)
        yield from type_faults("outputs", node.outputs, (*carry, COUNT))

    @classmethod
    def run(
        cls, node: Node, inputs: Sequence[Any], bodies: Sequence[Body], sizes: Mapping[str, int]
    ) -> tuple[Any, ...]:
        condition, body = bodies
        n_carry, end = node.attrs["n_carry"], node.attrs["n_carry"] + node.attrs["n_condition"]
        carry, asked, invariants = tuple(inputs[:n_carry]), tuple(inputs[n_carry:end]), tuple(inputs[end:])
        count = 0
        while condition((*carry, *asked))[0]:
            carry = tuple(body((*carry, *invariants)))
            count += 1
        return (*carry, np.asarray(count, np.int64))
