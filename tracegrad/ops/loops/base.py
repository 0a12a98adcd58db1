"""What loops and branches share: types that are those of the bodies, and a run that is given the bodies to call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tracegrad.errors import AutogradError
from tracegrad.function import Operation
from tracegrad.ir.graph import Node, Var
from tracegrad.ir.interpret import NO_SIZES, interpret
from tracegrad.ir.types import Type
from tracegrad.tensor import Tensor

Body = Callable[[Sequence[Any]], tuple[Any, ...]]


class Region(Operation):
    """An operation with bodies. Its nodes are made by recording; `apply` has no meaning for it."""

    @staticmethod
    def infer(*types: Type, **attrs: Any) -> Type:
        raise AutogradError("the types of a loop or branch are those of its bodies")

    @classmethod
    def run(
        cls, node: Node, inputs: Sequence[Any], bodies: Sequence[Body], sizes: Mapping[str, int]
    ) -> tuple[Any, ...]:
        """The results of the node for these inputs; `bodies` run the node's bodies, by whatever means."""
        raise NotImplementedError

    @staticmethod
    def inner_sizes(node: Node, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Mapping[str, int]:
        """The sizes that hold in the bodies of a node with these inputs."""
        return sizes

    @classmethod
    def run_bodies(cls, node: Node, inputs: Sequence[Any], sizes: Mapping[str, int] = NO_SIZES) -> tuple[Any, ...]:
        """The results by the interpreter."""

        def runner(body: Any) -> Body:
            return lambda args: interpret(body, args, sizes)

        return cls.run(node, inputs, [runner(body) for body in node.bodies], sizes)

    @staticmethod
    def backward_symbolic(
        node: Node,
        inputs: tuple[Tensor, ...],
        outputs: tuple[Tensor, ...],
        needs: tuple[bool, ...],
        cotangents: tuple[Tensor | None, ...],
    ) -> tuple[Any, ...]:
        """Cotangents of the inputs, by nodes of the same kinds."""
        from tracegrad.passes.loop_adjoint import backward_of

        return backward_of(node)(node, inputs, outputs, needs, cotangents)

    @staticmethod
    def batch_symbolic(node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: Any) -> Any:
        """The outputs for all rows of a batch, by nodes of the same kinds; None where only row by row will do."""
        from tracegrad.passes.batching_loops import rule_of

        return rule_of(node)(node, tensors, flags, size)


def type_faults(what: str, values: Sequence[Var], expected: Sequence[Type]) -> Iterator[str]:
    """What is wrong with the types of some of a node's values."""
    if [v.type for v in values] != list(expected):
        wanted = ", ".join(map(str, expected))
        yield f"the {what} should have the types ({wanted})"


def types_of(values: Sequence[Var]) -> tuple[Type, ...]:
    return tuple(v.type for v in values)
