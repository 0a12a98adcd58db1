"""Argument reduction modulo pi/2 for |x| > 2**30, for sin, cos and tan.

A loop over sin must vectorise although the reduction of a huge argument takes a table of 1,200 bits of 2/pi. So the
scalar code calls `tg_vecmath_reduce_huge`, unconditionally, and that call carries the attribute
"vector-function-abi-variant": the loop vectoriser replaces it by our variants for 2, 4, 8 and 16 lanes, which test
whether any lane is huge at all and return at once if none is. Where one is, each lane is reduced on its own.

One value comes back, so that sin and cos of the same x share one call: the reduced argument r, |r| <= pi/4, with the
quadrant q in exponent bits that are constant for every possible r (2**-63 < |r| < 1).
"""

from __future__ import annotations

from llvmlite import ir

from tracegrad.emit.vecmath.scalar import DOUBLE, Bits, Real, fma
from tracegrad.emit.vecmath.variants import declare_variants, keep, pure_function

LARGEST = 2.0**30
SYMBOL = "tg_vecmath_reduce_huge"
LANES = (2, 4, 8, 16)
QUADRANT_SHIFT = 58
NAN_BITS = 0x7FF8000000000000

# 64 zero bits, then the first 1,216 bits of 2/pi after the binary point
TWO_OVER_PI_WORDS = (
    0x0000000000000000,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
)

I1, I64, I128 = ir.IntType(1), ir.IntType(64), ir.IntType(128)


def reduced_huge(x: Real) -> tuple[Bits, Real]:
    """Quadrant and reduced argument of x, meaningful where |x| > LARGEST (nan for infinities and nan)."""
    call = x.builder.call(reducer(x.builder.module), [x.value])
    declare_variants(call, SYMBOL, 1, LANES)
    bits = Bits(x.builder, x.builder.bitcast(call, I64))
    return (bits >> QUADRANT_SHIFT) ^ 3, (bits | (3 << QUADRANT_SHIFT)).real()


def reducer(module: ir.Module) -> ir.Function:
    """The scalar function of the module, created with its vector variants on first use."""
    existing = module.globals.get(SYMBOL)
    if existing is not None:
        return existing
    scalar = pure_function(module, SYMBOL, DOUBLE.type, 1)
    scalar_body(scalar)
    shared = lanes_function(module, scalar)
    variants = []
    for lanes in LANES:
        variant = pure_function(module, f"{SYMBOL}_v{lanes}", ir.VectorType(DOUBLE.type, lanes), 1)
        vector_body(variant, shared, lanes)
        variants.append(variant)
    keep(module, variants)
    return scalar


def scalar_body(function: ir.Function) -> None:
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    bits = builder.bitcast(function.args[0], I64)
    magnitude = builder.and_(bits, I64(DOUBLE.sign_mask - 1))
    limit = Real(builder, DOUBLE.type(LARGEST)).bits().value
    with builder.if_then(builder.icmp_unsigned("<=", magnitude, limit), likely=True):
        builder.ret(DOUBLE.type(0.0))
    with builder.if_then(builder.icmp_unsigned(">=", magnitude, I64(0x7FF0000000000000)), likely=False):
        builder.ret(builder.bitcast(I64(NAN_BITS), DOUBLE.type))
    builder.ret(builder.bitcast(payne_hanek(builder, bits, magnitude), DOUBLE.type))


def payne_hanek(builder: ir.IRBuilder, bits: ir.Value, magnitude: ir.Value) -> ir.Value:
    """Bits of the reduced argument with the quadrant in place (Payne and Hanek, SIGNUM Newsletter 18, 1983)."""
    b = builder
    # |x| = significand * 2**(exponent - 1075)
    significand = b.or_(b.and_(magnitude, I64((1 << 52) - 1)), I64(1 << 52))
    exponent = b.lshr(magnitude, I64(52))
    start = b.add(exponent, I64(64 - 1075 - 2))  # the first bit of the table that matters
    quadrant, fraction = turns(b, window(b, start), significand)
    # the nearest multiple of pi/2 is taken, so the fraction of a quadrant is signed
    negative = b.icmp_signed("<", fraction, I128(0))
    quadrant = b.add(quadrant, b.zext(negative, I64))
    fraction = b.select(negative, b.neg(fraction), fraction)
    ctlz = b.module.declare_intrinsic("llvm.ctlz", [I128], ir.FunctionType(I128, [I128, I1]))
    leading = b.call(ctlz, [fraction, I1(1)])
    fraction = b.shl(fraction, leading)
    high = b.sitofp(b.trunc(b.lshr(fraction, I128(75)), I64), DOUBLE.type)  # 53 bits
    low = b.sitofp(b.trunc(b.and_(b.lshr(fraction, I128(22)), I128((1 << 53) - 1)), I64), DOUBLE.type)
    value = times_half_pi(Real(b, high), Real(b, low) * 2.0**-53)
    power = b.shl(b.sub(I64(1023 - 53), b.trunc(leading, I64)), I64(52))
    angle = (value * Bits(b, power).real()).bits().value
    flip = b.xor(b.and_(bits, I64(DOUBLE.sign_mask)), b.select(negative, I64(DOUBLE.sign_mask), I64(0)))
    # for negative x the quadrant counts the other way
    quadrant = b.select(b.icmp_signed("<", bits, I64(0)), b.neg(quadrant), quadrant)
    quadrant = b.shl(b.and_(quadrant, I64(3)), I64(QUADRANT_SHIFT))
    return b.xor(b.xor(angle, flip), quadrant)


def turns(b: ir.IRBuilder, words: list[ir.Value], significand: ir.Value) -> tuple[ir.Value, ir.Value]:
    """significand * words modulo 2**192: its two highest bits, and the 128 that follow."""
    wide = b.zext(significand, I128)
    low = b.mul(b.zext(words[2], I128), wide)
    middle = b.add(b.mul(b.zext(words[1], I128), wide), b.lshr(low, I128(64)))
    high = b.add(b.mul(words[0], significand), b.trunc(b.lshr(middle, I128(64)), I64))
    top = b.or_(b.shl(b.zext(high, I128), I128(64)), b.zext(b.trunc(middle, I64), I128))
    below = b.lshr(b.trunc(low, I64), I64(62))
    return b.lshr(high, I64(62)), b.or_(b.shl(top, I128(2)), b.zext(below, I128))


def window(builder: ir.IRBuilder, start: ir.Value) -> list[ir.Value]:
    """192 bits of the table from bit `start`, as three words."""
    b = builder
    kind = ir.ArrayType(I64, len(TWO_OVER_PI_WORDS))
    table = ir.GlobalVariable(b.module, kind, "tg_vecmath_two_over_pi")
    table.linkage = "internal"
    table.global_constant = True
    table.initializer = ir.Constant(kind, [I64(word) for word in TWO_OVER_PI_WORDS])
    first, shift = b.lshr(start, I64(6)), b.and_(start, I64(63))
    words = [
        b.load(b.gep(table, [b.add(first, I64(i))], inbounds=True, source_etype=I64), typ=I64, align=8)
        for i in range(4)
    ]
    funnel = b.module.declare_intrinsic("llvm.fshl", [I64], ir.FunctionType(I64, [I64] * 3))
    return [b.call(funnel, [words[i], words[i + 1], shift]) for i in range(3)]


def times_half_pi(high: Real, low: Real) -> Real:
    product = high * 1.5707963267948966
    lost = fma(high, 1.5707963267948966, -product)
    return product + (lost + fma(low, 1.5707963267948966, high * 6.123233995736766e-17))


def lanes_function(module: ir.Module, scalar: ir.Function) -> ir.Function:
    """Reduces `count` numbers in memory, in place; the variants share it."""
    pointer = ir.PointerType()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer, I64]), name=f"{SYMBOL}_lanes")
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    entry, loop, done = (function.append_basic_block(name) for name in ("entry", "lane", "done"))
    b = ir.IRBuilder(entry)
    b.branch(loop)
    b.position_at_end(loop)
    index = b.phi(I64)
    place = b.gep(function.args[0], [index], inbounds=True, source_etype=DOUBLE.type)
    b.store(b.call(scalar, [b.load(place, typ=DOUBLE.type)]), place)
    following = b.add(index, I64(1))
    index.add_incoming(I64(0), entry)
    index.add_incoming(following, loop)
    b.cbranch(b.icmp_unsigned("==", following, function.args[1]), done, loop)
    ir.IRBuilder(done).ret_void()
    return function


def vector_body(function: ir.Function, lanes_reducer: ir.Function, lanes: int) -> None:
    kind = function.args[0].type
    b = ir.IRBuilder(function.append_basic_block("entry"))
    x = function.args[0]
    not_small = b.or_(
        b.fcmp_unordered(">", x, ir.Constant(kind, [LARGEST] * lanes)),
        b.fcmp_ordered("<", x, ir.Constant(kind, [-LARGEST] * lanes)),
    )
    signature = ir.FunctionType(I1, [not_small.type])
    any_of = b.module.declare_intrinsic(f"llvm.vector.reduce.or.v{lanes}i1", (), signature)
    with b.if_then(b.not_(b.call(any_of, [not_small])), likely=True):
        b.ret(ir.Constant(kind, [0.0] * lanes))
    place = b.alloca(kind)
    b.store(x, place)
    b.call(lanes_reducer, [place, I64(lanes)])
    b.ret(b.load(place, typ=kind))
