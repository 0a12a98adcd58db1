"""The verifier of LoopPrograms. What it holds to be true of every program:

 1. Buffers have distinct names; only constants have values; an alias names a buffer that is none itself, has the same
    role and as many elements. Inputs and outputs name buffers.
 2. A scalar is defined once (Let, Declare or Check) and read only after that, in the same body or one inside it.
 3. Update changes a declared accumulator of the same operation and dtype; a Let is never changed. UpdateAt changes a
    buffer that was filled or stored to before.
 4. Loop variables differ from those of the loops around them; indices and bounds use only variables of loops around.
 5. An index has one part per dimension of its buffer. Each part is in range for all iterations at which the bounds
    around it hold, as far as bounds on single variables decide it; a quotient divides by a positive number.
 6. Every read of an output, temp or local buffer comes after a write to it; inputs and constants are never written,
    but for inputs in whose memory an output lies; every output is written. Local buffers are used inside loops only.
 7. Stored and accumulated values have the dtype of what they go to.
 8. Parallel loops are outermost. What they accumulate in is declared or filled before them and named in `reduced`;
    every other buffer they write, local ones aside, is written and read at an index that is the iteration's own.
 9. Loops of kind "unroll" have a constant extent of at most 8.
10. Calls name buffers that are not local, and kernels that exist; `matmul`, `cumulative` and `recurrence` work in one
    dtype. The programs of a loop or branch are programs for which all this holds too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tracegrad.errors import VerificationError
from tracegrad.ir.dims import product
from tracegrad.ir.index import Bound, Index, Quotient
from tracegrad.records import record
from tracegrad.schedule.live import REGIONS
from tracegrad.schedule.loops import (
    MATRICES,
    Apply,
    Call,
    Cast,
    Check,
    Declare,
    Expr,
    Fill,
    FromIndex,
    Let,
    Loop,
    LoopProgram,
    Name,
    Read,
    Stmt,
    Store,
    Update,
    UpdateAt,
    Value,
    Where,
    region_of,
)
from tracegrad.schedule.parallel import parallel_faults
from tracegrad.schedule.printer import print_lines, print_program
from tracegrad.schedule.ranges import Ranges, range_fault

ONE_DTYPE = ("matmul", "cumulative", "recurrence")
KERNELS = (*ONE_DTYPE, "host", *MATRICES, *REGIONS)
Fault = tuple[Stmt | None, str]


def verify(program: LoopProgram) -> None:
    """Raises VerificationError that shows the program with all faults under their lines, if there are any."""
    found = faults(program)
    if not found:
        return
    by_statement: dict[int, list[str]] = {}
    for statement, message in found:
        by_statement.setdefault(id(statement), []).append(message)
    lines = print_program(program).splitlines()
    head = len(lines) - 1 - sum(1 for _ in print_lines(program.body))
    marked = lines[:head] + [f"    ^ {m}" for m in by_statement.get(id(None), ())]
    for text, (_, statement) in zip(lines[head:-1], print_lines(program.body), strict=True):
        marked.append(text)
        indent = " " * (len(text) - len(text.lstrip()))
        marked += [f"{indent}^ {m}" for m in by_statement.pop(id(statement), ())]
    count = f"{len(found)} faults" if len(found) > 1 else "a fault"
    raise VerificationError(f"{count} in the scheduled program:\n" + "\n".join([*marked, lines[-1]]))


def faults(program: LoopProgram) -> list[Fault]:
    """All faults, each with the statement in whose line it is (None: the head of the program)."""
    verifier = _Verifier(program)
    found: list[Fault] = [(None, m) for m in verifier.head()]
    found += verifier.body(program.body, _Scope({}, Ranges({}), 0))
    found += [
        (None, f"the output {name} is never written")
        for name in dict.fromkeys(program.outputs)
        if (b := verifier.buffers.get(name))
        and b.role == "output"
        and product(b.shape) != 0
        and not verifier.written(name)
    ]
    return found


@record
class _Scope:
    """What is visible in a body: scalars with their definitions, ranges of the loop variables, loops around."""

    scalars: dict[str, Stmt]
    ranges: Ranges
    depth: int


class _Verifier:
    def __init__(self, program: LoopProgram):
        self.program = program
        self.buffers = {b.name: b for b in program.buffers}
        self.defined: set[str] = set()
        self.writes: set[str] = set()
        lying = {self.root(name) for name in program.outputs if name in self.buffers}
        self.overwritten = lying & set(program.inputs)

    def root(self, name: str) -> str:
        return self.buffers[name].alias or name

    def written(self, name: str) -> bool:
        return self.root(name) in self.writes or self.root(name) in self.overwritten

    def head(self) -> Iterator[str]:
        if len(self.buffers) != len(self.program.buffers):
            yield "two buffers have one name"
        for b in self.program.buffers:
            if (b.value is not None) != (b.role == "constant"):
                yield f"{b.name} is {b.role} and has {'a' if b.value is not None else 'no'} value"
            if b.alias:
                base = self.buffers.get(b.alias)
                if base is None or base.alias or base.role != b.role:
                    yield f"{b.name} is an alias of {b.alias}, which does not own memory of that role"
                elif product(base.shape) != product(b.shape):
                    yield f"{b.name} has not as many elements as {b.alias}"
        for name in (*self.program.inputs, *self.program.outputs):
            if name not in self.buffers:
                yield f"there is no buffer {name}"

    # ---- statements -----------------------------------------------------------------------------------------------

    def body(self, statements: Iterable[Stmt], scope: _Scope) -> Iterator[Fault]:
        scope = _Scope(dict(scope.scalars), scope.ranges, scope.depth)
        for s in statements:
            for message in self.statement(s, scope):
                yield s, message
            if isinstance(s, Loop):
                inner = _Scope(scope.scalars, scope.ranges.inside(s.var, s.extent), scope.depth + 1)
                yield from self.body(s.body, inner)
                for message in parallel_faults(s, self.buffers) if s.kind == "parallel" else ():
                    yield s, message

    def statement(self, s: Stmt, scope: _Scope) -> Iterator[str]:
        match s:
            case Let(name, value):
                yield from self.expr(value, scope)
                yield from self.define(name, s, scope)
            case Check(name, index):
                yield from self.expr(index, scope)
                if index.dtype.kind not in "iu":
                    yield "the index to check is not an integer"
                yield from self.define(name, s, scope)
            case Declare(name, _, _):
                yield from self.define(name, s, scope)
            case Update(name, combine, value):
                yield from self.expr(value, scope)
                declared = scope.scalars.get(name)
                if not isinstance(declared, Declare):
                    yield f"{name} is not a declared accumulator here"
                elif declared.combine != combine or declared.dtype != value.dtype:
                    yield f"{name} accumulates {declared.combine} of {declared.dtype}, not {combine} of {value.dtype}"
            case Store(buffer, index, value) | UpdateAt(buffer, index, _, value):
                yield from self.expr(value, scope)
                yield from self.access(buffer, index, (), scope)
                if isinstance(s, UpdateAt) and buffer in self.buffers and not self.written(buffer):
                    yield f"{buffer} is accumulated in before it is filled"
                yield from self.write(buffer, scope)
                if buffer in self.buffers and self.buffers[buffer].dtype != value.dtype:
                    yield f"a value of dtype {value.dtype} goes to {buffer} of dtype {self.buffers[buffer].dtype}"
            case Fill(buffer, _):
                yield from self.write(buffer, scope)
            case Loop(var, extent, _, kind, _):
                if var in scope.ranges.extents:
                    yield f"a loop around this one has the variable {var} too"
                if kind == "unroll" and not (isinstance(extent, int) and extent <= 8):
                    yield f"a loop of extent {extent} cannot be unrolled"
                if kind == "parallel" and scope.depth:
                    yield "a parallel loop stands inside another loop"
            case Call(kernel, inputs, outputs, _, _):
                region = region_of(s)
                for body in region.bodies if region is not None else ():
                    yield from (f"in {body.name}: {message}" for _, message in faults(body))
                if kernel not in KERNELS:
                    yield f"there is no kernel {kernel}"
                for name in inputs:
                    yield from self.read_buffer(name, scope)
                for name in outputs:
                    yield from self.write(name, scope)
                yield from (f"{n} is local" for n in (*inputs, *outputs) if n in self.buffers and self.is_local(n))
                dtypes = {self.buffers[n].dtype for n in (*inputs, *outputs) if n in self.buffers}
                if kernel in ONE_DTYPE and len(dtypes) > 1:
                    yield f"{kernel} gets buffers of dtypes {', '.join(sorted(map(str, dtypes)))}"

    def is_local(self, name: str) -> bool:
        return self.buffers[name].role == "local"

    def define(self, name: str, s: Stmt, scope: _Scope) -> Iterator[str]:
        if name in self.defined:
            yield f"{name} is defined a second time"
        self.defined.add(name)
        scope.scalars[name] = s

    def write(self, buffer: str, scope: _Scope) -> Iterator[str]:
        if buffer not in self.buffers:
            yield f"there is no buffer {buffer}"
            return
        role = self.buffers[buffer].role
        if role in ("input", "constant") and self.root(buffer) not in self.overwritten:
            yield f"{buffer} is {role} and cannot be written"
        if role == "local" and not scope.depth:
            yield f"the local buffer {buffer} is used outside all loops"
        self.writes.add(self.root(buffer))

    def read_buffer(self, buffer: str, scope: _Scope) -> Iterator[str]:
        if buffer not in self.buffers:
            yield f"there is no buffer {buffer}"
        elif self.buffers[buffer].role not in ("input", "constant") and not self.written(buffer):
            yield f"{buffer} is read before anything is written to it"

    # ---- expressions ----------------------------------------------------------------------------------------------

    def expr(self, e: Expr, scope: _Scope) -> Iterator[str]:
        match e:
            case Name(name, dtype):
                definition = scope.scalars.get(name)
                if definition is None:
                    yield f"{name} is not defined here"
                elif (known := _dtype(definition)) is not None and known != dtype:
                    yield f"{name} has dtype {known}, not {dtype}"
            case Read(buffer, index, dtype, when, _):
                yield from self.bounds(when, scope)
                yield from self.read_buffer(buffer, scope)
                yield from self.access(buffer, index, when, scope)
                if buffer in self.buffers and self.buffers[buffer].dtype != dtype:
                    yield f"{buffer} has dtype {self.buffers[buffer].dtype}, not {dtype}"
            case FromIndex(index, _):
                yield from self.variables(index, scope)
            case Apply(_, args, _):
                for a in args:
                    yield from self.expr(a, scope)
            case Cast(arg, _):
                yield from self.expr(arg, scope)
            case Where(when, inside, outside, _):
                yield from self.bounds(when, scope)
                yield from self.expr(inside, _Scope(scope.scalars, scope.ranges.where(when), scope.depth))
                yield from self.expr(outside, _Scope(scope.scalars, scope.ranges.unless(when), scope.depth))
                yield from (
                    f"a branch has dtype {b.dtype}, not {e.dtype}" for b in (inside, outside) if b.dtype != e.dtype
                )

    def bounds(self, when: Iterable[Bound], scope: _Scope) -> Iterator[str]:
        for bound in when:
            yield from self.variables(bound.affine, scope)

    def variables(self, index: Index, scope: _Scope) -> Iterator[str]:
        affine = index.affine if isinstance(index, Quotient) else index
        for name, _ in affine.terms:
            if name not in scope.ranges.extents:
                yield f"{name} is not the variable of a loop around"

    def access(
        self, buffer: str, index: tuple[Index | Value, ...], when: tuple[Bound, ...], scope: _Scope
    ) -> Iterator[str]:
        if buffer not in self.buffers:
            return
        shape = self.buffers[buffer].shape
        if len(index) != len(shape):
            yield f"{buffer} has {len(shape)} dimensions but {len(index)} indices"
            return
        ranges = scope.ranges.where(when)
        for axis, (i, extent) in enumerate(zip(index, shape, strict=True)):
            if isinstance(i, Value):
                if not isinstance(scope.scalars.get(i.name), Check):
                    yield f"the index {i.name} has not been checked here"
                continue
            unknown = list(self.variables(i, scope))
            yield from unknown
            if not unknown and (fault := range_fault(i, extent, ranges)):
                yield f"index {i} of axis {axis} of {buffer}, which has {extent} elements, {fault}"


def _dtype(definition: Stmt) -> object:
    if isinstance(definition, Let):
        return definition.value.dtype
    return definition.dtype if isinstance(definition, Declare) else None


__all__ = ["faults", "verify"]
