"""Every scalar operation and cast against NumPy: special values, random values, all dtypes."""

import numpy as np
import pytest

from tests.emit.programs import B1, F8, name, op, program, read
from tracegrad.emit import compile_program
from tracegrad.emit.float_scalars import FLOAT
from tracegrad.emit.int_scalars import INTEGER
from tracegrad.emit.scalars import BOOL
from tracegrad.errors import TracegradError
from tracegrad.ir.index import variable
from tracegrad.ir.threefry import threefry
from tracegrad.schedule.loops import Apply, Cast, Let, Literal, Loop, Store

I = (variable("i"),)
FLOATS = [np.dtype("f4"), np.dtype("f8")]
INTS = [np.dtype(f"{k}{n}") for k in "iu" for n in (1, 2, 4, 8)]
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
LOGIC = ["logical_and", "logical_or", "logical_xor"]
PREDICATES = {"isnan", "isinf", "isfinite", "signbit", "logical_not", *COMPARISONS, *LOGIC}
UNARY_FLOAT = ["negative", "positive", "absolute", "sign", "square", "reciprocal", "rint", "floor", "ceil", "trunc"]
UNARY_FLOAT += ["isnan", "isinf", "isfinite", "signbit", "deg2rad", "rad2deg", "logical_not"]
BINARY_FLOAT = ["add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "fmax", "fmin"]
BINARY_FLOAT += ["copysign", "heaviside", *COMPARISONS, *LOGIC]
UNARY_INT = ["negative", "positive", "absolute", "sign", "square", "reciprocal", "floor", "ceil", "trunc", "invert"]
UNARY_INT += ["isnan", "isinf", "isfinite", "signbit", "logical_not"]
BINARY_INT = ["add", "subtract", "multiply", "floor_divide", "remainder", "fmod", "maximum", "minimum", "fmax", "fmin"]
BINARY_INT += ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", *COMPARISONS, *LOGIC]
UNARY_BOOL = ["logical_not", "invert", "absolute", "isnan", "isinf", "isfinite", "signbit"]
BINARY_BOOL = ["add", "multiply", "maximum", "minimum", "fmax", "fmin", "bitwise_and", "bitwise_or", "bitwise_xor"]
BINARY_BOOL += [*COMPARISONS, *LOGIC]


def values(dtype, rng):
    """Special values of a dtype, each with each, and random ones."""
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        special = [
            0.0,
            0.5,
            1.0,
            1.5,
            2.5,
            3.0,
            7.0,
            np.inf,
            np.nan,
            limits.max,
            limits.tiny,
            limits.smallest_subnormal,
        ]
        special = np.array([*special, *(-v for v in special)], dtype)
        random = (rng.normal(size=(2, 400)) * np.exp(rng.uniform(-8, 8, (2, 400)))).astype(dtype)
    elif dtype.kind == "b":
        special, random = np.array([False, True]), rng.random((2, 9)) > 0.5
    else:
        limits = np.iinfo(dtype)
        special = np.array([0, 1, 2, 3, 7, limits.min, limits.max, limits.max - 1, limits.min + 1], dtype)
        special = np.concatenate([special, (-special[1:5].astype("i8")).astype(dtype)])
        random = rng.integers(limits.min, limits.max, (2, 400), dtype, endpoint=True)
        random[1, ::2] = rng.integers(1, 20, 200)
    x, y = (a.ravel() for a in np.meshgrid(special, special))
    return np.concatenate([x, random[0]]), np.concatenate([y, random[1]])


def run(ops, dtype, arrays):
    """{op: result} by one program that computes all of them."""
    names = ["x", "y", "z"][: len(arrays)]
    size = len(arrays[0])
    results = {o: B1 if o in PREDICATES else dtype for o in ops}
    reads = {o: [read(n, "i", dtype=dtype) for n in names] for o in ops}
    body = [Loop("i", size, (Store(f"out_{o}", I, Apply(o, tuple(reads[o]), results[o])),)) for o in ops]
    p = program(dict.fromkeys(names, (dtype, size)), {f"out_{o}": (r, size) for o, r in results.items()}, *body)
    return dict(zip(ops, compile_program(p)(*arrays)))


def same(found, expected, what, *arrays):
    """Equal bits, but that any NaN is a NaN."""
    assert found.dtype == expected.dtype, what
    equal = (found == expected) | ((found != found) & (expected != expected))
    if found.dtype.kind == "f":
        equal &= (np.signbit(found) == np.signbit(expected)) | np.isnan(expected)
    wrong = np.flatnonzero(~equal)[:5]
    shown = [(*(a[k].item() for a in arrays), found[k].item(), expected[k].item()) for k in wrong]
    assert not len(wrong), f"{what}: (operands, found, NumPy) {shown}"


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_operations(dtype, rng):
    x, y = values(dtype, rng)
    with np.errstate(all="ignore"):
        for o, found in run(UNARY_FLOAT, dtype, [x]).items():
            same(found, getattr(np, o)(x), o, x)
        for o, found in run(BINARY_FLOAT, dtype, [x, y]).items():
            expected = getattr(np, o)(x, y)
            if o in ("fmax", "fmin"):  # NumPy's SIMD loops choose either of two zeros; the first is ours
                both = (x == 0) & (y == 0)
                expected = np.where(both, x, expected)
            same(found, expected, o, x, y)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_maximum_minimum(dtype, rng):
    """NaN wins; of equal operands, the first."""
    x, y = values(dtype, rng)
    found = run(["maximum", "minimum"], dtype, [x, y])
    nan = np.where(np.isnan(x), x, y)
    same(found["maximum"], np.where(np.isnan(x) | np.isnan(y), nan, np.where(x >= y, x, y)), "maximum", x, y)
    same(found["minimum"], np.where(np.isnan(x) | np.isnan(y), nan, np.where(x <= y, x, y)), "minimum", x, y)


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integer_operations(dtype, rng):
    """All of them on the widest and narrowest; on the others those whose code depends on the width."""
    x, y = values(dtype, rng)
    unary, binary = UNARY_INT, BINARY_INT
    if dtype.itemsize in (2, 4):
        unary, binary = (
            ["absolute", "reciprocal"],
            ["multiply", "floor_divide", "remainder", "left_shift", "right_shift"],
        )
    with np.errstate(all="ignore"):
        for o, found in run(unary, dtype, [x]).items():
            same(found, getattr(np, o)(x), o, x)
        for o, found in run(binary, dtype, [x, y]).items():
            same(found, getattr(np, o)(x, y), o, x, y)
        positive = y % np.array(70, dtype)
        positive[positive < 0] = 0
        same(run(["power"], dtype, [x, positive])["power"], np.power(x, positive), "power", x, positive)


def test_bool_operations(rng):
    x, y = values(B1, rng)
    for o, found in run(UNARY_BOOL, B1, [x]).items():
        same(found, getattr(np, o)(x), o, x)
    for o, found in run(BINARY_BOOL, B1, [x, y]).items():
        same(found, getattr(np, o)(x, y), o, x, y)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, B1], ids=str)
def test_clip_and_zero_multiply(dtype, rng):
    x, y = values(dtype, rng)
    z = rng.permutation(x)
    with np.errstate(all="ignore"):
        same(run(["clip"], dtype, [x, y, z])["clip"], np.clip(x, y, z), "clip", x, y, z)
        product = run(["zero_multiply"], dtype, [x, y])["zero_multiply"]
        same(product, np.where(x == 0, np.zeros((), dtype), x * y), "zero_multiply", x, y)


def test_where(rng):
    x, y = values(F8, rng)
    c = rng.random(len(x)) > 0.5
    choice = op("where", read("c", "i", dtype=B1), read("x", "i"), read("y", "i"))
    p = program(
        {"c": (B1, len(x)), "x": (F8, len(x)), "y": (F8, len(x))},
        {"out": (F8, len(x))},
        Loop("i", len(x), (Store("out", I, choice),)),
    )
    same(compile_program(p)(c, x, y)[0], np.where(c, x, y), "where", x, y)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, -1.0])
def test_power_by_a_constant(dtype, exponent, rng):
    x, _ = values(dtype, rng)
    raised = Apply("power", (read("x", "i", dtype=dtype), Literal(exponent, dtype)), dtype)
    p = program({"x": (dtype, len(x))}, {"out": (dtype, len(x))}, Loop("i", len(x), (Store("out", I, raised),)))
    with np.errstate(all="ignore"):
        found, expected = compile_program(p)(x)[0], x ** dtype.type(exponent)
    np.testing.assert_array_max_ulp(found[np.isfinite(found)], expected[np.isfinite(found)], 1)
    same(np.isfinite(found), np.isfinite(expected), "power", x)


@pytest.mark.parametrize("source", [*FLOATS, *INTS, B1], ids=str)
def test_casts(source, rng):
    x, _ = values(source, rng)
    targets = [*FLOATS, *INTS, B1]
    if source.kind == "f":  # C leaves the conversion of numbers out of range open, and NumPy's loops differ in it
        x = x[np.abs(x) < 2**63]
    body = [Loop("i", len(x), (Store(str(t), I, Cast(read("x", "i", dtype=source), t)),)) for t in targets]
    p = program({"x": (source, len(x))}, {str(t): (t, len(x)) for t in targets}, *body)
    with np.errstate(all="ignore"):
        for target, found in zip(targets, compile_program(p)(x)):
            expected, inside = x.astype(target), np.ones(len(x), bool)
            if source.kind == "f" and target.kind in "iu":
                limits = np.iinfo(target)
                inside = (np.trunc(x) >= limits.min) & (np.trunc(x) <= float(limits.max))
            same(found[inside], expected[inside], f"{source} to {target}", x[inside])


def test_nan_and_infinity_as_integers_are_the_smallest():
    x = np.array([np.nan, np.inf, -np.inf, 1e300])
    body = [Loop("i", 4, (Store(t, I, Cast(read("x", "i"), np.dtype(t))),)) for t in ("i8", "i4")]
    p = program({"x": (F8, 4)}, {"i8": ("i8", 4), "i4": ("i4", 4)}, *body)
    wide, narrow = compile_program(p)(x)
    assert set(wide) == {-(2**63)} and set(narrow) == {-(2**31)}


def test_literals_keep_their_bits():
    literals = [0.1, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1.7976931348623157e308]
    for dtype in FLOATS:
        stores = [Store("out", (variable("i") * 0 + k,), Literal(v, dtype)) for k, v in enumerate(literals)]
        p = program({}, {"out": (dtype, len(literals))}, Loop("i", 1, tuple(stores)))
        with np.errstate(all="ignore"):
            same(compile_program(p)()[0], np.array(literals).astype(dtype), "literal")


def test_multiply_and_add_may_fuse_but_nothing_else_changes():
    """x - x is NaN for infinite x, x * 0 keeps NaN and signs: no algebra behind the user's back."""
    x = np.array([np.inf, -np.inf, np.nan, -1.0, 0.0])
    v = read("x", "i")
    zero = Literal(0.0, F8)
    exprs = {"a": op("subtract", v, v), "b": op("multiply", v, zero), "c": op("add", v, zero), "d": op("divide", v, v)}
    body = Loop("i", 5, tuple(Store(n, I, e) for n, e in exprs.items()))
    a, b, c, d = compile_program(program({"x": (F8, 5)}, dict.fromkeys(exprs, (F8, 5)), body))(x)
    with np.errstate(all="ignore"):
        for found, expected in ((a, x - x), (b, x * 0.0), (c, x + 0.0), (d, x / x)):
            same(found, expected, "algebra", x)


def test_unknown_operations_are_refused():
    for dtype in (F8, np.dtype("i4"), B1):
        body = Store("y", I, op("nonsense", read("x", "i", dtype=dtype), dtype=dtype))
        p = program({"x": (dtype, 2)}, {"y": (dtype, 2)}, Loop("i", 2, (body,)))
        with pytest.raises(TracegradError, match="no operation 'nonsense'"):
            compile_program(p)


def test_every_table_entry_is_tested():
    tested = {*UNARY_FLOAT, *BINARY_FLOAT, "maximum", "minimum", "clip", "zero_multiply", "power", "float_power"}
    assert set(FLOAT) <= tested
    assert set(INTEGER) <= {*UNARY_INT, *BINARY_INT, "clip", "zero_multiply", "power", "random_bits"}
    bools = {*BINARY_BOOL, *UNARY_BOOL, "clip", "zero_multiply"}
    assert set(BOOL) <= bools | {"square", "floor", "ceil", "trunc"}


def test_mathematical_functions_come_from_vecmath(rng):
    x = rng.uniform(0.1, 3, 50)
    ops = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh}
    for o, found in run(list(ops), F8, [x]).items():
        np.testing.assert_allclose(found, ops[o](x), rtol=1e-15)
    found = run(["power", "float_power", "arctan2", "hypot"], F8, [x, x[::-1].copy()])
    np.testing.assert_allclose(found["power"], x ** x[::-1], rtol=1e-15)
    np.testing.assert_allclose(found["float_power"], x ** x[::-1], rtol=1e-15)
    np.testing.assert_allclose(found["arctan2"], np.arctan2(x, x[::-1]), rtol=1e-15)
    np.testing.assert_allclose(found["hypot"], np.hypot(x, x[::-1]), rtol=1e-15)


def test_names_hold_values_of_their_dtype(rng):
    x = rng.integers(-5, 5, 20).astype("i2")
    let = Let("wide", Cast(read("x", "i", dtype=np.dtype("i2")), F8))
    halved = Store("y", I, op("multiply", name("wide"), Literal(0.5, F8)))
    p = program({"x": ("i2", 20)}, {"y": (F8, 20)}, Loop("i", 20, (let, halved)))
    np.testing.assert_array_equal(compile_program(p)(x)[0], x * 0.5)


def test_random_bits_are_those_of_the_published_generator(rng):
    """The known answers of Random123 1.14 (kat_vectors, threefry2x32, 20 rounds), and NumPy's arithmetic elsewhere."""
    known = [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ]
    counters, keys, expected = (np.array([a | b << 32 for a, b in column], "u8") for column in zip(*known))
    random = rng.integers(0, 2**64, (2, 100), np.uint64)
    keys, counters = np.concatenate([keys, random[0]]), np.concatenate([counters, random[1]])
    bits = run(["random_bits"], np.dtype("u8"), [keys, counters])["random_bits"]
    np.testing.assert_array_equal(bits[:3], expected)
    np.testing.assert_array_equal(threefry(keys, counters), bits)
