"""LoopPrograms as readable pseudo-Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tracegrad.ir.index import Bound, Index
from tracegrad.ir.types import Type
from tracegrad.schedule.loops import (
    Apply,
    Buffer,
    Call,
    Cast,
    Check,
    Declare,
    Expr,
    Fill,
    FromIndex,
    Let,
    Literal,
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

_INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/", "power": "**", "equal": "==",
    "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "floor_divide": "//",
    "remainder": "%", "logical_and": "and", "logical_or": "or", "bitwise_and": "&", "bitwise_or": "|",
}  # fmt: skip
_AUGMENTED = {"add": "+=", "multiply": "*=", "logical_or": "|=", "logical_and": "&="}


def print_program(program: LoopProgram) -> str:
    """The program, one statement a line, with its buffers first."""
    inputs = ", ".join(f"{b.name}: {_type(b)}" for b in map(program.buffer, program.inputs))
    lines = [f"def {program.name}({inputs}):"]
    for b in program.buffers:
        if b.role != "input" or b.alias:
            source = f"{b.alias} as " if b.alias else ""
            lines.append(f"    {b.name} = {b.role} {source}{_type(b)}")
    lines.extend("    " + line for line, _ in print_lines(program.body))
    lines.append(f"    return {', '.join(program.outputs)}")
    return "\n".join(lines) + "\n"


def print_lines(statements: Iterable[Stmt]) -> Iterator[tuple[str, Stmt]]:
    """Each line of the text with the statement it shows."""
    for s in statements:
        yield print_statement(s), s
        if isinstance(s, Loop):
            for line, inner in print_lines(s.body):
                yield "    " + line, inner
        elif isinstance(s, Call) and (region := region_of(s)) is not None:
            for body in region.bodies:
                for line in print_program(body).splitlines():
                    yield "    " + line, s


def print_statement(s: Stmt) -> str:
    """One statement; of a loop only its head."""
    match s:
        case Let(name, value):
            return f"{name} = {expr(value)}"
        case Store(buffer, index, value):
            return f"{buffer}{subscript(index)} = {expr(value)}"
        case Declare(name, combine, dtype):
            return f"{name} = {dtype}.identity({combine})"
        case Update(name, combine, value):
            return _update(name, combine, value)
        case Fill(buffer, combine):
            return f"{buffer}[...] = identity({combine})"
        case UpdateAt(buffer, index, combine, value):
            return _update(buffer + subscript(index), combine, value)
        case Check(name, index, extent, axis, start, step, _):
            place = "" if (start, step) == (0, 1) else f", start={start}, step={step}"
            return f"{name} = check({expr(index)}, {extent}, axis={axis}{place})"
        case Loop(var, extent, _, kind, reduced):
            note = f"  # {kind}" + (f", reduces {', '.join(reduced)}" if reduced else "")
            return f"for {var} in range({extent}):" + (note if kind != "serial" else "")
        case Call(kernel, inputs, outputs, attrs, _):
            region = region_of(s)
            attrs = attrs if region is None else region.node.attrs
            options = [f"{k}={_attr(v)}" for k, v in attrs.items() if v is not False]
            return f"{', '.join(outputs)} = {kernel}({', '.join([*inputs, *options])})"
    raise TypeError(f"not a statement: {s!r}")


def _update(target: str, combine: str, value: Expr) -> str:
    if combine in _AUGMENTED:
        return f"{target} {_AUGMENTED[combine]} {expr(value)}"
    return f"{target} = {combine}({target}, {expr(value)})"


def expr(e: Expr, nested: bool = False) -> str:
    """A scalar expression; in parentheses where it stands inside another and needs them."""
    text, compound = _expr(e)
    return f"({text})" if compound and nested else text


def _expr(e: Expr) -> tuple[str, bool]:
    match e:
        case Literal(value, _):
            return str(value), False
        case Name(name, _):
            return name, False
        case Read(buffer, index, _, when, fill):
            text = buffer + subscript(index)
            return (f"{text} if {bounds(when)} else {fill}", True) if when else (text, False)
        case FromIndex(index, dtype):
            return f"{dtype}({index_text(index)})", False
        case Apply("where", (c, a, b), _):
            return f"{expr(a, True)} if {expr(c, True)} else {expr(b, True)}", True
        case Apply(op, (a, b), _) if op in _INFIX:
            return f"{expr(a, True)} {_INFIX[op]} {expr(b, True)}", True
        case Apply("negative", (a,), _):
            return f"-{expr(a, True)}", True
        case Apply(op, args, _):
            return f"{op}({', '.join(map(expr, args))})", False
        case Cast(arg, dtype):
            return f"{dtype}({expr(arg)})", False
        case Where(when, inside, outside, _):
            return f"{expr(inside, True)} if {bounds(when)} else {expr(outside, True)}", True
    raise TypeError(f"not an expression: {e!r}")


def bounds(when: tuple[Bound, ...]) -> str:
    return " and ".join(map(str, when))


def subscript(index: tuple[Index | Value, ...]) -> str:
    return f"[{', '.join(map(index_text, index))}]"


def index_text(index: Index | Value) -> str:
    return index.name if isinstance(index, Value) else str(index)


def _type(b: Buffer) -> str:
    return str(Type(b.dtype, b.shape))


def _attr(value: object) -> str:
    node = getattr(value, "node", None)
    return node.name if node is not None else str(value)
