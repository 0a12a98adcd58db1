"""Which functions exist, and how one is placed in a module: a small inlined function, created once and called."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from llvmlite import ir

from tracegrad.emit.vecmath.scalar import Real
from tracegrad.emit.vecmath.variants import declare_variants, lanes_of, with_variants
from tracegrad.records import record

Body = Callable[..., Real]


@record
class Entry:
    """One elementary function.

    `body(*args, single)` computes it; single=True asks for float32's accuracy, so shorter polynomials do. Its arguments
    are float32 then if the body is `native` in both formats, and else float64, the result being rounded.
    """

    name: str
    arity: int
    body: Body
    native: bool


ENTRIES: dict[str, Entry] = {}
INLINED = 8  # calls of one function in a module that are inlined; the others call it
_calls: weakref.WeakKeyDictionary[ir.Function, int] = weakref.WeakKeyDictionary()


def elementary(name: str, arity: int = 1, native: bool = False) -> Callable[[Body], Body]:
    """Registers the decorated body under `name`."""

    def register(body: Body) -> Body:
        ENTRIES[name] = Entry(name, arity, body, native)
        return body

    return register


def helper(module: ir.Module, entry: Entry, kind: ir.Type) -> ir.Function:
    """The module's function for `entry` on `kind`; always inlined, so loops that call it vectorise."""
    single = isinstance(kind, ir.FloatType)
    symbol = f"tg_vecmath_{entry.name}_{'f32' if single else 'f64'}"
    existing = module.globals.get(symbol)
    if existing is not None:
        return existing
    function = ir.Function(module, ir.FunctionType(kind, [kind] * entry.arity), name=symbol)
    function.linkage = "internal"
    function.attributes.add("alwaysinline")
    function.attributes.add("nounwind")
    builder = ir.IRBuilder(function.append_basic_block())
    args = [Real(builder, arg) for arg in function.args]
    if single and not entry.native:
        result = entry.body(*(arg.extended() for arg in args), single=True).truncated()
    else:
        result = entry.body(*args, single=single)
    builder.ret(result.value)
    return function


def emit(name: str, builder: ir.IRBuilder, *args: ir.Value) -> ir.Value:
    """Emits `name` of `args`, all float or all double, at the builder's position; returns the value, of that type.

    The instruction is a call of a function of the same module: an always-inlined one, which a loop vectorises best,
    until there are many calls, whose copies would take LLVM longer than all the rest. Raises KeyError for a name
    outside FUNCTIONS and TypeError for a wrong number or mixture of arguments.
    """
    entry = ENTRIES[name]
    kinds = {str(arg.type) for arg in args}
    if len(args) != entry.arity or len(kinds) != 1 or not isinstance(args[0].type, ir.FloatType | ir.DoubleType):
        raise TypeError(f"vecmath {name} takes {entry.arity} float or double values of one type, not {sorted(kinds)}")
    module, kind = builder.module, args[0].type
    inlined = helper(module, entry, kind)
    calls = _calls[inlined] = _calls.get(inlined, 0) + 1
    if calls <= INLINED:
        return builder.call(inlined, args)
    symbol = f"{inlined.name}_apart"
    call = builder.call(with_variants(module, symbol, inlined, kind, entry.arity), args)
    declare_variants(call, symbol, entry.arity, lanes_of(kind))
    return call
