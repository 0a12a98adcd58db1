"""How much memory loops and branches need besides their inputs and outputs, known before the program runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracegrad.emit.independent import most_chunks
from tracegrad.ir.dims import DimLike, product
from tracegrad.schedule.loops import LU_KERNELS, Buffer, Call, LoopProgram, Region, calls_lapack, in_place, region_of

if TYPE_CHECKING:
    from tracegrad.emit.buffers import Workspace
    from tracegrad.emit.frame import Unit

ALIGNMENT = 64
SMALL = 512  # bytes; smaller carries and temporaries of a body live on the stack


def scratch_key(call: Call) -> tuple[int, str]:
    """The name of a region's scratch memory among what the workspace holds."""
    return id(call), "scratch"


def bytes_of(buffer: Buffer) -> DimLike:
    return product(buffer.shape) * buffer.dtype.itemsize


def is_small(buffer: Buffer) -> bool:
    """Whether a value of a body lives on the stack."""
    size = bytes_of(buffer)
    return isinstance(size, int) and size <= SMALL


def scratch_size(unit: Unit, call: Call) -> DimLike:
    """The bytes of scratch a call needs, in one piece. A region: second buffers of large carries, then its bodies'
    memory. LU factors: the matrix and the exchanges of its rows.

    A `sized` has memory of a size not known here, which it takes itself.
    """
    if call.kernel in LU_KERNELS and calls_lapack(call, unit.buffers):
        a, out = (unit.buffers[name] for name in (call.inputs[0], call.outputs[0]))
        n = a.shape[-1]
        return rounded(n * n * out.dtype.itemsize + 4 * n)
    region = region_of(call)
    if region is None or call.kernel == "sized":
        return 0
    most = most_chunks_of(unit, region)
    if most == 1:
        return step_bytes(unit, region)
    body = region.bodies[0]
    carries = [body.buffer(name) for name in body.inputs[: region.node.attrs["n_carry"]]]
    own = sum((rounded(bytes_of(c)) for c in carries), start=0)
    return step_bytes(unit, region) * most + own * (most - 1)


def step_bytes(unit: Unit, region: Region) -> DimLike:
    """The same for one thread."""
    total: DimLike = 0
    for size in carry_sizes(region.node.name, region.node.attrs.get("n_carry", 0), region.bodies[-1]):
        total = total + rounded(size)
    for body in (*region.bodies, *([region.plain] if region.plain is not None else [])):
        total = total + body_size(unit, body)
    return total


def most_chunks_of(unit: Unit, region: Region) -> int:
    """Into how many chunks of steps a loop is cut at most."""
    return 1 if region.independent is None else most_chunks(region, step_bytes(unit, region))


def carry_sizes(kernel: str, n_carry: int, body: LoopProgram) -> list[DimLike]:
    """The bytes of each large carry of a loop that has a second buffer: those that are not updated in place."""
    if kernel not in ("scan", "while"):
        return []
    carries = [body.buffer(name) for k, name in enumerate(body.inputs[:n_carry]) if not in_place(body, k, k)]
    return [bytes_of(c) for c in carries if not is_small(c)]


def body_size(unit: Unit, body: LoopProgram) -> DimLike:
    """The bytes that the temporaries of a body take."""
    return workspace_bytes(plan_body(unit, body))


def plan_body(unit: Unit, body: LoopProgram) -> Workspace:
    """The workspace of a body: what does not lie on the stack."""
    from tracegrad.emit.buffers import plan_workspace

    return plan_workspace(unit.body(body), is_small)


def workspace_bytes(workspace: Workspace) -> DimLike:
    """A bound on the size of a workspace that does not need the program to run."""
    total: DimLike = 0
    for slot in workspace.slots:
        fixed = [d for d in slot.sizes if isinstance(d, int)]
        symbolic = [d for d in slot.sizes if not isinstance(d, int)]
        for size in [*symbolic, *([max(fixed)] if fixed else [])]:
            total = total + rounded(size)
    return total


def rounded(size: DimLike) -> DimLike:
    """At least `size`, and for integers a multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT if isinstance(size, int) else size + ALIGNMENT
