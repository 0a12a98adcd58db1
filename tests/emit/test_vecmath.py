"""vecmath against mpmath and NumPy: accuracy, special values, thresholds, and that the loops are vectorised."""

from __future__ import annotations

import itertools
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import numpy as np
import pytest
import scipy.special
from llvmlite import ir

from tests.emit.vecmath_kernels import NAMES, kernels
from tracegrad.emit import vecmath

MP = mpmath.mp.clone()
MP.prec = 140  # bits; more where a case asks for it
DTYPES = [np.float64, np.float32]
INF, NAN = np.inf, np.nan


@dataclass(frozen=True)
class Case:
    """The exact function, ranges to sample (each a tuple of one range per argument), and the stated largest error.

    A range (a, b) is uniform; ("log2", a, b) is 2**uniform(a, b) with both signs; ("+log2", a, b) positive only.
    """

    exact: Callable
    ranges: tuple
    ulp: float  # docs/vecmath.md, float64 and float32
    ulp_single: float


def log1pexp(a, b):
    return max(a, b) + MP.log1p(MP.exp(-abs(a - b)))


def quantile(p):
    """The standard normal quantile: Newton's steps from SciPy's value, on the side where no digits are lost."""
    tail = min(p, 1 - p)
    x = MP.mpf(float(scipy.special.ndtri(float(tail))))
    for _ in range(4):
        x -= (MP.ncdf(x) - tail) / MP.npdf(x)
    return x if p < 0.5 else -x


WIDE = ("log2", -1074, 1023)
ANGLES = (((-10, 10),), ((-1e5, 1e5),), (("log2", -1074, 30),))
UNIT = (((-1, 1),), (("log2", -1074, 0),), ((0.49, 0.51),), ((0.99, 1),))
POSITIVE = ((("+log2", -1074, 1023.99),), ((0.4, 2.1),), ((0.95, 1.05),))
HYPERBOLIC = (((-710.4, 710.4),), ((-1, 1),), (("log2", -1074, 6),), ((17, 20),))
PLANE = (((-3, 3), (-3, 3)), (WIDE, WIDE), (("log2", -3, 3), ("log2", -3, 3)))

CASES = {
    "exp": Case(MP.exp, (((-746, 710),), ((-1, 1),), ((-1e-3, 1e-3),)), 0.95, 0.95),
    "expm1": Case(MP.expm1, (((-60, 710),), ((-1, 1),), (("log2", -1074, 0),), ((-0.1, 0.1),)), 1.1, 1.2),
    "exp2": Case(lambda x: MP.power(2, x), (((-1075, 1024),), ((-1, 1),)), 0.95, 0.95),
    "log": Case(MP.log, POSITIVE, 0.9, 0.9),
    "log1p": Case(MP.log1p, (((-0.9999, 3),), (("log2", -1074, -1),), (("+log2", -1, 1023.9),)), 0.9, 0.9),
    "log2": Case(lambda x: MP.log(x, 2), POSITIVE, 0.85, 0.85),
    "log10": Case(MP.log10, POSITIVE, 0.8, 0.8),
    "sin": Case(MP.sin, ANGLES, 0.85, 0.6),
    "cos": Case(MP.cos, ANGLES, 0.85, 0.6),
    "tan": Case(MP.tan, ANGLES, 1.0, 0.6),
    "sinh": Case(MP.sinh, HYPERBOLIC, 0.95, 0.95),
    "cosh": Case(MP.cosh, HYPERBOLIC, 0.8, 0.8),
    "tanh": Case(MP.tanh, (((-23, 23),), ((-1, 1),), (("log2", -1074, 0),)), 1.1, 1.1),
    "arcsin": Case(MP.asin, UNIT, 0.7, 0.7),
    "arccos": Case(MP.acos, UNIT, 0.7, 0.7),
    "arctan": Case(MP.atan, (((-3, 3),), (WIDE,), ((0.4, 0.45),), ((2.3, 2.5),)), 0.95, 0.95),
    "arcsinh": Case(MP.asinh, (((-5, 5),), (WIDE,), ((-0.6, 0.6),)), 1.2, 1.3),
    "arccosh": Case(MP.acosh, (((1, 5),), (("+log2", 0, 1023.9),), ((1, 1.1),)), 0.95, 0.95),
    "arctanh": Case(MP.atanh, UNIT, 0.95, 0.95),
    "arctan2": Case(MP.atan2, PLANE, 1.3, 1.3),
    "sqrt": Case(MP.sqrt, POSITIVE, 0.5, 0.5),
    "cbrt": Case(lambda x: MP.sign(x) * MP.cbrt(abs(x)), (((-9, 9),), (WIDE,)), 0.51, 0.51),
    "pow": Case(
        MP.power,
        (
            ((0, 10), (-10, 10)),
            ((0.5, 2), (-700, 700)),
            (("+log2", -1074, 1023.9), (-1, 1)),
            ((0.9999, 1.0001), (-1e6, 1e6)),
        ),
        0.9,
        0.6,
    ),
    "erf": Case(MP.erf, (((-6, 6),), ((-1.1, 1.1),), (("log2", -1074, 0),)), 1.1, 1.6),
    "erfc": Case(
        lambda x: MP.erfc(x) if x < 1e3 else MP.zero, (((-6, 27),), ((-1, 1),), (("log2", -60, 1),)), 1.8, 0.7
    ),
    "expit": Case(lambda x: 1 / (1 + MP.exp(-x)), (((-745, 40),), ((-5, 5),), (("log2", -60, 5),)), 0.8, 0.8),
    # where log1p(exp(-|a - b|)) does not cancel against a negative maximum; see test_logaddexp_cancels
    "logaddexp": Case(log1pexp, (((0, 30), (0, 30)), (("+log2", -30, 9), ("+log2", -30, 9))), 1.7, 1.7),
    "hypot": Case(MP.hypot, PLANE, 0.51, 0.51),
    "ndtri": Case(quantile, (((1e-6, 1),), ((0.4, 0.6),), (("+log2", -1074, -1),)), 4.5, 0.6),
}


def sample(spec: tuple, count: int, rng: np.random.Generator, dtype: type) -> np.ndarray:
    if isinstance(spec[0], str):
        kind, low, high = spec
        if dtype is np.float32:
            low, high = max(low, -149), min(high, 127.9)
        values = np.exp2(rng.uniform(low, high, count))
        if kind == "log2":
            values *= rng.choice([-1.0, 1.0], count)
    else:
        values = rng.uniform(*spec, count)
    return values.astype(dtype)


def exactly(name: str, *args: np.floating) -> mpmath.mpf:
    return CASES[name].exact(*(MP.mpf(float(a)) for a in args))


def ulps(got: np.floating, exact: mpmath.mpf, dtype: type) -> float:
    """Error in units of the last place of the exact value; a result beyond the largest number must be infinite."""
    info = np.finfo(dtype)
    limit = MP.ldexp(1, info.maxexp) - MP.ldexp(1, info.maxexp - info.nmant - 2)
    if abs(exact) >= limit:
        return 0.0 if np.isinf(got) and (got > 0) == (exact > 0) else INF
    if not np.isfinite(got):
        return INF
    smallest = MP.mpf(float(info.smallest_subnormal))
    spacing = max(MP.ldexp(1, MP.frexp(exact)[1] - info.nmant - 1), smallest) if exact else smallest
    return float(abs(MP.mpf(float(got)) - exact) / spacing)


def worst(name: str, dtype: type, *args: np.ndarray) -> tuple[float, tuple]:
    got = kernels(dtype)(name, *args)
    return max((ulps(g, exactly(name, *point), dtype), point) for g, *point in zip(got, *args))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_error_stays_below_what_the_documentation_states(name: str, dtype: type):
    case, rng = CASES[name], np.random.default_rng(7)
    bound = case.ulp if dtype is np.float64 else case.ulp_single
    for spec in case.ranges:
        with np.errstate(over="ignore"):
            args = [sample(s, 127, rng, dtype) for s in spec]
        if dtype is np.float32:
            args = [np.where(np.isinf(a), dtype(1), a) for a in args]
        error, point = worst(name, dtype, *args)
        assert error <= bound, f"{error} ulp at {point}"


SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 5e-324, -5e-324, 1e-310, -1e-310, 1e-40, -1e-40, 1e-20, -1e-20, 0.5, -0.5, 1.0]
SPECIAL += [
    -1.0,
    1.5,
    -1.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    22.0,
    -37.0,
    88.8,
    -104.0,
    710.0,
    -746.0,
    1023.5,
    -1074.5,
    1e9,
    1.1e9,
]
SPECIAL += [-1.1e9, 1e22, -1e22, 3e38, -3e38, 1e300, -1e300, 1.7976931348623157e308, -1.7976931348623157e308]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_special_values(name: str, dtype: type):
    """NaN, infinities and zeros with their sign as NumPy and SciPy; the finite nonzero rest against mpmath."""
    reference = getattr(np, name, None) or getattr(scipy.special, name)
    arity = 2 if name in ("arctan2", "hypot", "logaddexp", "pow") else 1
    with np.errstate(all="ignore"):
        points = np.array(list(itertools.product(SPECIAL, repeat=arity))).astype(dtype)
        columns = [np.ascontiguousarray(column) for column in points.T]
        expected = reference(*columns)
    got = kernels(dtype)(name, *columns)
    bound = max(CASES[name].ulp, CASES[name].ulp_single, 1.5)
    for point, g, e in zip(points, got, expected):
        ordinary = np.isfinite(point).all() and np.isfinite(e) and e != 0
        if name in ("pow", "arctan2", "logaddexp"):  # mpmath has no -0, and logaddexp cancels for negative arguments
            ordinary = ordinary and min(point) > 0
        if ordinary:
            assert ulps(g, exactly(name, *point), dtype) <= bound, (point, g, e)
        elif np.isfinite(e) and e != 0:
            np.testing.assert_array_max_ulp(g, e, 2)
        elif e == 0 and name in ("erfc", "expit"):  # SciPy flushes some subnormal results
            assert ulps(g, exactly(name, *point), dtype) <= bound if np.isfinite(point).all() else g == 0, (point, g, e)
        else:
            same = np.isnan(g) if np.isnan(e) else g == e and np.signbit(g) == np.signbit(e)
            assert same, (point, g, e)


# C99, Annex F.10.4.4
POW_TABLE = [
    (0.0, -3.0, INF), (-0.0, -3.0, -INF), (0.0, -2.0, INF), (-0.0, -2.0, INF), (0.0, -0.5, INF), (-0.0, -0.5, INF),
    (0.0, -INF, INF), (-0.0, -INF, INF), (0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (0.0, 2.0, 0.0), (-0.0, 2.5, 0.0),
    (-1.0, INF, 1.0), (-1.0, -INF, 1.0), (1.0, NAN, 1.0), (1.0, -INF, 1.0), (NAN, 0.0, 1.0), (NAN, -0.0, 1.0),
    (INF, 0.0, 1.0), (-5.0, 0.5, NAN), (-5.0, -1.5, NAN), (0.5, -INF, INF), (-0.5, -INF, INF), (1.5, -INF, 0.0),
    (-1.5, -INF, 0.0), (0.5, INF, 0.0), (-0.5, INF, 0.0), (1.5, INF, INF), (-1.5, INF, INF), (-INF, -3.0, -0.0),
    (-INF, -2.0, 0.0), (-INF, -0.5, 0.0), (-INF, 3.0, -INF), (-INF, 2.0, INF), (-INF, 0.5, INF), (INF, -0.5, 0.0),
    (INF, 0.5, INF), (NAN, 1.0, NAN), (2.0, NAN, NAN), (-2.0, 3.0, -8.0), (-2.0, -3.0, -0.125), (-2.0, 4.0, 16.0),
    (-1.0, 9007199254740993.0, 1.0), (-1.0, 8388607.0, -1.0),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_pow_table(dtype: type):
    x, y, expected = (np.array(column, dtype) for column in zip(*POW_TABLE))
    np.testing.assert_array_equal(kernels(dtype)("pow", x, y), expected)
    zero = expected == 0
    assert (np.signbit(kernels(dtype)("pow", x, y)) == np.signbit(expected))[zero].all()


def test_overflow_and_underflow_thresholds():
    """The last argument with a finite (nonzero) result and the one after it, from mpmath."""
    run = kernels(np.float64)
    largest, smallest = MP.mpf(float(np.finfo(float).max)), MP.mpf(5e-324)
    for name, inverse in (("exp", MP.log), ("expm1", MP.log1p), ("sinh", MP.asinh), ("cosh", MP.acosh)):
        edge = float(inverse(largest))
        around = np.array([np.nextafter(edge, 0), edge, np.nextafter(edge, INF)])
        exact = [exactly(name, x) <= largest for x in around]
        np.testing.assert_array_equal(np.isfinite(run(name, around)), exact)
    edge = float(MP.log(smallest / 2))
    around = np.array([np.nextafter(edge, 0), np.nextafter(edge, -INF)])
    np.testing.assert_array_equal(run("exp", around) > 0, [exactly("exp", x) > smallest / 2 for x in around])
    np.testing.assert_array_equal(run("exp2", [1023.9999999999999, 1024.0, -1074.0, -1075.0]) > 0, [1, 1, 1, 0])
    assert run("exp2", 1024.0) == INF and np.isfinite(run("exp2", 1023.9999999999999))


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_cases(dtype: type):
    run, info = kernels(dtype), np.finfo(dtype)
    powers = np.arange(info.minexp - info.nmant, info.maxexp)
    np.testing.assert_array_equal(run("exp2", powers), np.ldexp(dtype(1), powers))
    np.testing.assert_array_equal(run("log2", np.ldexp(dtype(1), powers)), powers)
    roots = np.arange(-250, 251)
    np.testing.assert_array_equal(run("cbrt", roots**3), roots)
    values = np.random.default_rng(0).uniform(-5, 5, 1000).astype(dtype)
    assert (abs(run("pow", values, 2.0) - values * values) <= np.spacing(values * values)).mean() == 1
    np.testing.assert_array_equal(run("pow", np.arange(1.0, 16.0), 3.0), np.arange(1.0, 16.0) ** 3)
    np.testing.assert_array_equal(run("hypot", [3.0, 5.0, 8.0], [4.0, 12.0, 15.0]), [5.0, 13.0, 17.0])


def test_log10_of_powers_of_ten():
    exponents = np.arange(-307, 309)
    np.testing.assert_array_equal(kernels(np.float64)("log10", [float(f"1e{k}") for k in exponents]), exponents)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_huge_arguments(name: str, dtype: type):
    """Payne and Hanek's reduction, alone and beside small arguments in the same vector."""
    rng = np.random.default_rng(3)
    huge = sample(("log2", 29, 1023.9), 200, rng, dtype)
    hardest = 6381956970095103.0 * 2.0**797 if dtype is np.float64 else np.ldexp(16367173.0, 72)
    huge[:4] = [1e22, -1e22, hardest, -hardest] if dtype is np.float64 else [1e22, -1e22, hardest, 3e38]
    mixed = np.where(rng.random(200) < 0.1, huge, sample((-10, 10), 200, rng, dtype))
    with MP.workprec(1300):
        for args in (huge, mixed):
            error, point = worst(name, dtype, args)
            assert error <= (1.8 if dtype is np.float64 else 0.7), f"{error} ulp at {point}"


def test_logaddexp_cancels():
    """Where the result is near 0 because the maximum is negative, the error is that of the larger operand."""
    rng = np.random.default_rng(5)
    a, b = rng.uniform(-2, 0, 300), rng.uniform(-2, 0, 300)
    for got, x, y in zip(kernels(np.float64)("logaddexp", a, b), a, b):
        assert abs(got - exactly("logaddexp", x, y)) <= 1.1 * np.spacing(max(abs(x), abs(y), 1.0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_vector_and_remainder_give_the_same_bits(name: str, dtype: type):
    rng = np.random.default_rng(11)
    run = kernels(dtype)
    args = [sample(s, 83, rng, dtype) for s in CASES[name].ranges[0]]
    whole = run(name, *args)
    single = np.concatenate([run(name, *(a[i : i + 1] for a in args)) for i in range(83)])
    np.testing.assert_array_equal(whole.view(np.uint8), single.view(np.uint8))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="reads x86 assembly")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_innermost_loop_is_vectorised(name: str, dtype: type):
    """Packed arithmetic in a loop without calls; sin, cos and tan call the vector variant of the huge reduction."""
    packed = re.compile(r"v?(add|mul|sub|div|sqrt|fn?m(add|sub)\d+)p[sd]\b")
    loops = [loop for loop in kernels(dtype).loops(name) if any(packed.match(line) for line in loop)]
    assert loops, "no loop with packed arithmetic"
    for loop in loops:
        calls = sum(line.startswith("call") for line in loop)
        assert calls == (1 if name in ("sin", "cos", "tan") else 0)
        assert not any(re.match(r"v?(div|sqrt|fmadd\d+)s[sd]\b", line) for line in loop), (
            "scalar arithmetic in the loop"
        )


def test_wrong_use_is_refused():
    module = ir.Module()
    kinds = [ir.DoubleType(), ir.FloatType(), ir.IntType(64)]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    double, single, integer = function.args
    with pytest.raises(KeyError):
        vecmath.emit("gamma", builder, double)
    for bad in ((double, double), (integer,), ()):
        with pytest.raises(TypeError, match="vecmath sin takes 1"):
            vecmath.emit("sin", builder, *bad)
    with pytest.raises(TypeError, match="vecmath pow takes 2"):
        vecmath.emit("pow", builder, double, single)


def test_helpers_are_created_once():
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.DoubleType()]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    first, second = (vecmath.emit("sin", builder, function.args[0]) for _ in range(2))
    vecmath.emit("cos", builder, function.args[0])
    assert first.callee is second.callee
    assert [f.name for f in module.functions].count("tg_vecmath_sin_f64") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("arctan2", "hypot", "logaddexp", "pow")])
def test_all_float32_inputs(name: str):
    """Every float32 against NumPy's or SciPy's float64 function, in chunks."""
    reference = getattr(np, name, None) or getattr(scipy.special, name)
    run, bound = kernels(np.float32), CASES[name].ulp_single + 0.01
    for start in range(0, 1 << 32, 1 << 22):
        x = np.arange(start, start + (1 << 22), dtype=np.uint32).view(np.float32)
        got = run.run(name, x)
        with np.errstate(all="ignore"):
            exact = reference(x.astype(np.float64))
            expected = exact.astype(np.float32)
            finite = np.isfinite(expected)
            error = abs(got[finite].astype(np.float64) - exact[finite]) / np.spacing(abs(expected[finite]))
        assert error.max(initial=0) <= bound, (error.max(), x[finite][error.argmax()])
        assert ((got == expected) | (np.isnan(got) & np.isnan(expected)))[~finite].all()
        zero = (x == 0) & ~np.isnan(expected)  # a NaN's sign means nothing
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))
