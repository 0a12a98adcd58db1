"""What a loop or branch does, as lines of text: its steps, what it carries and where, what it moves in each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tracegrad.emit.scratch import SMALL
from tracegrad.ir.dims import DimLike, symbols
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ops.loops import Region
from tracegrad.ops.loops.scan import body_parts
from tracegrad.schedule.independent import independent_carries


def region_lines(node: Node, depth: int = 0) -> list[str]:
    """The lines for a node with bodies, those of loops inside further in; none for other nodes."""
    if not node.bodies or not issubclass(node.op, Region):
        return []
    indent = "  " * depth
    lines = [indent + line for line in _DESCRIPTIONS[node.name](node)]
    if node.location is not None and node.name != "sized":
        lines[0] += f"   # {node.location}"
    inner = [n for body in node.bodies for n in body.nodes if n.bodies]
    return lines + [line for n in inner for line in region_lines(n, depth + (node.name != "sized"))]


def _scan(node: Node) -> list[str]:
    body, length = body_parts(node), node.attrs["length"]
    computed = not isinstance(length, int) and any(name.startswith(("steps", "tape")) for name in symbols(length))
    count = "as many steps as computed at run time" if computed else f"{length} steps"
    order = ", last first" if node.attrs["reverse"] else ""
    if independent_carries(node) is not None:
        order = ", independent of each other"
    unroll = f", {node.attrs['unroll']} at once" if node.attrs["unroll"] > 1 else ""
    moved = f"reads {_bytes(body.xs)}, writes {_bytes(body.ys)} for all steps"
    return [
        f"scan: {count}{order}{unroll}; {_carried(body.carry)}",
        f"  each step {moved}, computes {_work(node.bodies[0])}",
    ]


def _while(node: Node) -> list[str]:
    carry = node.bodies[1].inputs[: node.attrs["n_carry"]]
    return [
        f"while: as long as {_work(node.bodies[0])} says so; {_carried(carry)}",
        f"  each step computes {_work(node.bodies[1])}",
    ]


def _cond(node: Node) -> list[str]:
    what = f"one of {len(node.bodies)} branches" if len(node.bodies) > 1 else "its body"
    return [f"cond: computes {what}: " + "; or ".join(map(_work, node.bodies))]


def _sized(node: Node) -> list[str]:
    return [f"with a size that is computed at run time, {node.attrs['symbol']}:"]


_DESCRIPTIONS: dict[str, Any] = {"scan": _scan, "while": _while, "cond": _cond, "sized": _sized}


def _carried(carry: Sequence[Var]) -> str:
    """How much is carried, and where: values of up to SMALL bytes live on the stack, most of them in registers."""
    if not carry:
        return "carries nothing"
    small = [v for v in carry if isinstance(size := _size((v,)), int) and size <= SMALL]
    large = [v for v in carry if v not in small]
    places = [f"{_bytes(small)} in registers or on the stack"] if small else []
    return "carries " + ", ".join([*places, *([f"{_bytes(large)} in buffers"] if large else [])])


def _size(values: Sequence[Var]) -> DimLike:
    return sum((v.type.size * v.type.dtype.itemsize for v in values), start=0)


def _bytes(values: Sequence[Var]) -> str:
    size = _size(values)
    return f"{size} B" if isinstance(size, int) else f"({size}) B"


def _work(body: Graph) -> str:
    counts = Counter(n.name for n in body.nodes if n.name != "constant")
    return " ".join(name if n == 1 else f"{name}×{n}" for name, n in counts.items()) or "nothing"
