"""Scans whose steps are independent: whether and into how many chunks of steps they are cut, and what memory it takes.

Every chunk has memory of its own for what a step needs and, but for the first, for the sums that its steps add to.
"""

from __future__ import annotations

from tracegrad.emit.cost import cost
from tracegrad.emit.parallel import GRAIN, MAX_CHUNKS, may_be_parallel
from tracegrad.ir.dims import DimLike, product
from tracegrad.schedule.independent import SUM
from tracegrad.schedule.loops import Buffer, Loop, Region

MEMORY = 1 << 26  # bytes that the chunks of a loop may take together for their steps
SHORT = 8  # steps; loops with fewer are better left to the parallel nests in them


def work_and_grain(region: Region) -> tuple[DimLike, DimLike]:
    """The cost of a scan and of its smallest chunk, which grows with the sums a chunk sets and adds."""
    body = region.bodies[0]
    work = region.node.attrs["length"] * (cost(body.body, {b.name: b for b in body.buffers}) + 1)
    return work, GRAIN + 8 * sum((product(b.shape) for b in sums(region)), start=0)


def sums(region: Region) -> list[Buffer]:
    """The carries of an independent scan that are sums."""
    body = region.bodies[0]
    return [body.buffer(name) for name, kind in zip(body.inputs, region.independent or ()) if kind == SUM]


def most_chunks(region: Region, memory: DimLike) -> int:
    """A bound on the number of chunks, from what is known before the program runs; 1 for a loop that is not cut.
    `memory`: the bytes a step needs."""
    if region.independent is None:
        return 1
    length = region.node.attrs["length"]
    work, grain = work_and_grain(region)
    most = MAX_CHUNKS
    if isinstance(length, int):
        if length < SHORT and _has_parallel_nests(region):
            return 1
        most = min(most, length)
    if isinstance(work, int) and isinstance(grain, int):
        most = min(most, work // grain)
    if isinstance(memory, int):
        most = min(most, MEMORY // max(memory, 1))
    return max(most, 1)


def _has_parallel_nests(region: Region) -> bool:
    for body in region.bodies:
        buffers = {b.name: b for b in body.buffers}
        if any(isinstance(s, Loop) and may_be_parallel(s, buffers) for s in body.body):
            return True
    return False
