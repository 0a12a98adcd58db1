"""Looking inside: `tg.explain(f)` says what was compiled and why, `tg.show(f, *args)` prints a stage of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from tracegrad.errors import ArgumentError
from tracegrad.loop_lines import region_lines
from tracegrad.schedule.report import NestReport
from tracegrad.transforms.autograd import GraphFunction
from tracegrad.transforms.compiled import CompiledFunction
from tracegrad.transforms.entry import Entry
from tracegrad.transforms.program import Program

STAGES = ("trace", "adjoint", "optimized", "schedule", "llvm", "asm")


class Text(str):
    """A string that shows its lines, not its escapes, in the REPL."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def show(function: CompiledFunction, *args: Any, stage: str = "optimized", **kwargs: Any) -> Text:
    """The text of a stage of a compiled function: trace, adjoint, optimized, schedule, llvm or asm.

    In the trace, plain Python loops that repeat the same operations are already rolled into scans.

    With arguments the program for them (compiled now if it is new), without the one used last. Raises ArgumentError
    for another stage, for a function that is not compiled by tracegrad, and where nothing has been compiled yet.
    """
    _check(function)
    return function.show(stage, *args, **kwargs)


def show_entry(entry: Entry, stage: str) -> Text:
    """One stage of one program."""
    if stage not in STAGES:
        raise ArgumentError(f"there is no stage {stage!r}", fix=f"one of {', '.join(STAGES)}")
    parts = [_program_text(program, stage) for program in programs_of(entry)]
    return Text("\n\n".join(parts))


def programs_of(entry: Entry) -> list[Program]:
    """The programs behind an entry: one, or forward and backward where Tensors went in."""
    program = entry.program
    if isinstance(program, GraphFunction):
        return program.programs()
    return [program]


def _program_text(program: Program, stage: str) -> str:
    if stage == "schedule":
        from tracegrad.schedule.printer import print_program

        return print_program(program.stage("schedule"))
    if stage in ("llvm", "asm"):
        return program.listing(stage)
    return str(program.stage(stage))


def kernel_text(kernel: NestReport) -> str:
    """One line on a kernel: its kind, what was fused into it, the bytes it moves, its operations on numbers."""
    counts = Counter(node.name for node in kernel.nodes)
    fused = " ".join(name if n == 1 else f"{name}×{n}" for name, n in counts.items())
    moved = f"{amount(kernel.bytes_read)}B read, {amount(kernel.bytes_written)}B written, {amount(kernel.flops)}flop"
    return f"{kernel.kind}: {fused} | {moved}"


def amount(number: Any) -> str:
    """A number with an SI prefix; one that depends on sizes as the polynomial it is."""
    if not isinstance(number, (int, float)):
        return f"({number}) "
    for prefix, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= factor:
            return f"{number / factor:.3g} {prefix}"
    return f"{number:g} "


@dataclass(frozen=True)
class ProgramReport:
    """One compiled program: for which arguments, which kernels it has, how long each stage took, whether its code came
    from the disk cache, which plain Python loops were rolled into loops and which were not."""

    signature: str
    kernels: tuple[NestReport, ...]
    seconds: dict[str, float]
    calls: int
    guards: int
    cached: bool = False
    loops: tuple[str, ...] = ()

    def __str__(self) -> str:
        stages = ", ".join(f"{name} {1e3 * seconds:.1f} ms" for name, seconds in self.seconds.items())
        lines = [f"  ({self.signature})  {self.calls} calls, {self.guards} guarded values", f"    stages: {stages}"]
        if self.cached:
            lines.append("    its code came from the disk cache")
        lines += [f"    {note}" for note in self.loops]
        for i, kernel in enumerate(self.kernels, 1):
            lines.append(f"    kernel {i}, {kernel_text(kernel)}")
            lines += [f"      {line}" for node in kernel.nodes for line in region_lines(node)]
        return "\n".join(lines)


@dataclass(frozen=True)
class Explanation:
    """What `tg.explain` returns; print it, or read its fields."""

    name: str
    kind: str
    programs: tuple[ProgramReport, ...]
    recompiles: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.kind}({self.name}): {len(self.programs)} programs"]
        lines += map(str, self.programs)
        lines += [f"  compile {i}: {reason}" for i, reason in enumerate(self.recompiles, 1)]
        return "\n".join(lines)

    __repr__ = __str__


def explain(function: CompiledFunction) -> Explanation:
    """Signatures, kernels with what was fused into each, flops and bytes, compile times, reasons for recompiling; plain
    Python loops that were rolled into loops of the program, and why others were not."""
    _check(function)
    reports = []
    for entries in function.entries.values():
        firsts = {id(entry.program): entry for entry in reversed(entries)}  # others have the program of one of these
        for entry in reversed(firsts.values()):
            graph = entry.recording.graph
            calls = sum(e.calls for e in entries if e.program is entry.program)
            for program in programs_of(entry):
                reports.append(
                    ProgramReport(
                        ", ".join(str(v.type) for v in graph.inputs)
                        + (f" where {entry.sizes}" if entry.sizes is not None else ""),
                        tuple(program.stage("report")),
                        dict(program.seconds),
                        calls,
                        len(entry.recording.guards),
                        program.cached,
                        entry.recording.loops,
                    )
                )
    return Explanation(function.__name__, function.kind, tuple(reports), tuple(function.recompiles))


def _check(function: Any) -> None:
    if not isinstance(function, CompiledFunction):
        raise ArgumentError(
            f"a function compiled by tracegrad is needed here, not a {type(function).__name__}",
            fix="decorate it with @tg.jit, tg.grad or tg.value_and_grad first",
        )
