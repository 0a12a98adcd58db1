"""Functions that are called, yet vectorise: scalar functions that name vector variants of themselves.

A call with the attribute "vector-function-abi-variant" is replaced by a call of the variant for as many lanes as the
loop vectoriser wants.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

I64 = ir.IntType(64)
USED = "llvm.compiler.used"


def pure_function(module: ir.Module, name: str, kind: ir.Type, arity: int) -> ir.Function:
    """A function of `arity` values of `kind` that stays a call, and that LLVM may move and merge."""
    function = ir.Function(module, ir.FunctionType(kind, [kind] * arity), name=name)
    function.linkage = "internal"
    for attribute in ("noinline", "nounwind", "readnone"):
        function.attributes.add(attribute)
    set.add(function.attributes, "willreturn")  # unknown to llvmlite; lets LLVM move and merge the calls
    return function


def declare_variants(call: ir.CallInstr, symbol: str, arity: int, lanes: Sequence[int]) -> None:
    """Tell the vectoriser of the variants `symbol_v2`, `symbol_v4`, … of the called function."""
    variants = ",".join(f"_ZGV_LLVM_N{n}{'v' * arity}_{symbol}({symbol}_v{n})" for n in lanes)
    # llvmlite knows no string attributes on calls, but prints what the set holds
    set.add(call.attributes, f'"vector-function-abi-variant"="{variants}"')


def keep(module: ir.Module, functions: Sequence[ir.Function]) -> None:
    """Lists the functions in llvm.compiler.used: nothing calls variants before the vectoriser does."""
    pointer = ir.PointerType()
    entries = [ir.Constant(pointer, function.get_reference()) for function in functions]
    table = module.globals.get(USED)
    if table is None:
        table = ir.GlobalVariable(module, ir.ArrayType(pointer, 0), USED)
        table.linkage = "appending"
        table.section = "llvm.metadata"
        table.initializer = ir.Constant(table.value_type, [])
    entries = [*table.initializer.constant, *entries]
    table.value_type = ir.ArrayType(pointer, len(entries))
    table.initializer = ir.Constant(table.value_type, entries)


def lanes_of(kind: ir.Type) -> tuple[int, ...]:
    """How many lanes vectors of float or double may have."""
    return (4, 8, 16) if isinstance(kind, ir.FloatType) else (2, 4, 8)


def with_variants(module: ir.Module, symbol: str, inlined: ir.Function, kind: ir.Type, arity: int) -> ir.Function:
    """A function that calls `inlined` and stays a call itself, with its vector variants.

    A variant is a loop over its lanes, which LLVM vectorises once for all its callers.
    """
    existing = module.globals.get(symbol)
    if existing is not None:
        return existing
    scalar = pure_function(module, symbol, kind, arity)
    b = ir.IRBuilder(scalar.append_basic_block())
    b.ret(b.call(inlined, scalar.args))
    variants = []
    for lanes in lanes_of(kind):
        variant = pure_function(module, f"{symbol}_v{lanes}", ir.VectorType(kind, lanes), arity)
        _loop_over_lanes(variant, inlined, kind, lanes)
        variants.append(variant)
    # The scalar one too: LLVM must not drop an argument that is the same in all calls, as the variants keep it.
    keep(module, [scalar, *variants])
    return scalar


def _loop_over_lanes(variant: ir.Function, inlined: ir.Function, kind: ir.Type, lanes: int) -> None:
    entry, loop, done = (variant.append_basic_block(name) for name in ("entry", "lane", "done"))
    b = ir.IRBuilder(entry)
    vector = variant.args[0].type
    *places, out = (b.alloca(vector) for _ in (*variant.args, None))
    for place, arg in zip(places, variant.args, strict=True):
        b.store(arg, place)
    b.branch(loop)
    b.position_at_end(loop)
    index = b.phi(I64)

    def lane(place: ir.Value) -> ir.Value:
        return b.gep(b.bitcast(place, kind.as_pointer()), [index], inbounds=True)

    result = b.call(inlined, [b.load(lane(place), typ=kind) for place in places])
    b.store(result, lane(out))
    following = b.add(index, I64(1))
    index.add_incoming(I64(0), entry)
    index.add_incoming(following, loop)
    b.cbranch(b.icmp_unsigned("==", following, I64(lanes)), done, loop)
    b = ir.IRBuilder(done)
    b.ret(b.load(out, typ=vector))
