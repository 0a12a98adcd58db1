"""Computes the polynomial coefficients of tracegrad.emit.vecmath and writes them as literals.

    python tools/vecmath_coefficients.py > tracegrad/emit/vecmath/coefficients.py

Each polynomial is the minimax fit, by Remez's second algorithm in 50-digit arithmetic, of `target` on
`interval`, where the error is multiplied by `weight` so that it is the relative error of the function
that the polynomial serves. The smallest degree whose error is below the bound is taken. Bounds leave the error
well below half a unit in the last place of the format: what remains is rounding.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp

mp.mp.dps = 50
Real = Callable[[mp.mpf], mp.mpf]


@dataclass(frozen=True)
class Fit:
    """One polynomial: what it stands for, where, and how exact it has to be (log2 of the weighted error)."""

    name: str
    formula: str
    target: Real
    weight: Real
    interval: tuple[mp.mpf, mp.mpf]
    bound: int
    single: bool = False  # coefficients rounded to float32


def solve_on(points: list[mp.mpf], fit: Fit, degree: int) -> tuple[list[mp.mpf], mp.mpf]:
    """Coefficients whose weighted error takes the values +e, -e, +e, ... on `points`, and e."""
    size = degree + 2
    matrix, right = mp.matrix(size, size), mp.matrix(size, 1)
    for i, x in enumerate(points):
        for j in range(degree + 1):
            matrix[i, j] = x**j
        matrix[i, degree + 1] = (-1) ** i / fit.weight(x)
        right[i] = fit.target(x)
    solution = mp.lu_solve(matrix, right)
    return [solution[j] for j in range(degree + 1)], abs(solution[degree + 1])


def extrema(grid: list[mp.mpf], errors: list[mp.mpf], count: int) -> list[int]:
    """Indices of `count` alternating extrema of the sampled error, the largest ones kept."""
    runs: list[int] = []
    for i, e in enumerate(errors):
        if runs and (errors[runs[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[runs[-1]]):
                runs[-1] = i
        else:
            runs.append(i)
    while len(runs) > count:
        if len(runs) - count == 1:
            runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
        else:
            k = min(range(len(runs) - 1), key=lambda k: abs(errors[runs[k]]) + abs(errors[runs[k + 1]]))
            del runs[k : k + 2]
    return runs


def remez(fit: Fit, degree: int) -> tuple[list[mp.mpf], mp.mpf]:
    """Minimax coefficients, lowest power first, and the largest weighted error on a fine grid."""
    low, high = fit.interval
    samples = 24 * (degree + 2)
    grid = [low + (high - low) * (1 - mp.cos(mp.pi * (i + mp.mpf(1) / 2) / samples)) / 2 for i in range(samples)]
    values = [fit.target(x) for x in grid]
    weights = [fit.weight(x) for x in grid]
    chosen = [(2 * k + 1) * samples // (2 * (degree + 2)) for k in range(degree + 2)]
    for _ in range(30):
        coefficients, level = solve_on([grid[i] for i in chosen], fit, degree)
        errors = [(mp.polyval(coefficients[::-1], x) - v) * w for x, v, w in zip(grid, values, weights, strict=True)]
        worst = max(abs(e) for e in errors)
        if worst <= level * mp.mpf("1.02"):
            break
        fresh = extrema(grid, errors, degree + 2)
        if len(fresh) < degree + 2 or fresh == chosen:
            break
        chosen = fresh
    return coefficients, worst


def smallest(fit: Fit) -> tuple[list[mp.mpf], mp.mpf]:
    for degree in range(1, 40):
        coefficients, worst = remez(fit, degree)
        if worst < mp.mpf(2) ** fit.bound:
            return coefficients, worst
    raise SystemExit(f"{fit.name}: no degree below 40 reaches 2**{fit.bound}")


def series(first: int, term: Callable[[int], mp.mpf]) -> Real:
    """Power series in z, from z**0, with coefficient term(first + k): exact where the closed form cancels."""

    def value(z: mp.mpf) -> mp.mpf:
        total, power, k = mp.mpf(0), mp.mpf(1), first
        while k - first < 400:
            step = term(k) * power
            total += step
            if abs(step) < mp.mpf(10) ** -55:
                break
            power *= z
            k += 1
        return total

    return value


def one_over_factorial(n: int) -> mp.mpf:
    return 1 / mp.factorial(n)


def asin_term(k: int) -> mp.mpf:
    return mp.binomial(2 * k, k) / (mp.mpf(4) ** k * (2 * k + 1))


def tanh_term(k: int) -> mp.mpf:
    """Of x**(2k - 1) in the series of tanh."""
    return mp.mpf(4) ** k * (mp.mpf(4) ** k - 1) * mp.bernoulli(2 * k) / mp.factorial(2 * k)


def tanh_weight(z: mp.mpf) -> mp.mpf:
    return z * mp.sqrt(z) / mp.tanh(mp.sqrt(z)) if z > 0 else z


LN2 = mp.log(2)
HALF_LN2 = LN2 / 2 * mp.mpf("1.001")
S2 = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2
QUARTER = (mp.pi / 4 * mp.mpf("1.0001")) ** 2
TAN8 = mp.tan(mp.pi / 8) ** 2
ERF_END = mp.mpf("5.95")
ERFC_CENTRE = mp.mpf(4)


def erf_rate_rest(x: mp.mpf) -> mp.mpf:
    """(-log(erfc(x))/x - 2/sqrt(pi))/x."""
    return (-mp.log(mp.erfc(x)) / x - 2 / mp.sqrt(mp.pi)) / x if x > 0 else 2 / mp.pi


def erf_weight(x: mp.mpf) -> mp.mpf:
    """Relative error of erf(x) = -expm1(-x*(2/sqrt(pi) + x*rest)) for an absolute error of rest."""
    return x * x * mp.erfc(x) / mp.erf(x) if x > 0 else mp.mpf(10) ** -30


def erfc_argument(t: mp.mpf) -> mp.mpf:
    return ERFC_CENTRE * (1 + t) / (1 - t)


def erfc_scaled(x: mp.mpf) -> mp.mpf:
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def erfc_shape(t: mp.mpf) -> mp.mpf:
    """((1 + 2x) exp(x*x) erfc(x) - 1)/(1 + t), with x from t = (x - 4)/(x + 4)."""
    if t == -1:
        return 4 * (1 - 1 / mp.sqrt(mp.pi))
    return (erfc_scaled(erfc_argument(t)) - 1) / (1 + t)


def erfc_weight(t: mp.mpf) -> mp.mpf:
    return (1 + t) / erfc_scaled(erfc_argument(t))


def erf_over_root(z: mp.mpf) -> mp.mpf:
    return mp.erf(mp.sqrt(z)) / mp.sqrt(z) if z > 0 else 2 / mp.sqrt(mp.pi)


def erfc_end(x: float) -> mp.mpf:
    return (x - ERFC_CENTRE) / (x + ERFC_CENTRE)


def fits() -> list[Fit]:
    exp_range, quarter = (-HALF_LN2, HALF_LN2), (mp.mpf(0), QUARTER)
    rows: list[tuple[str, str, Real, Real, tuple[mp.mpf, mp.mpf], int | None, int | None]] = [
        (
            "EXP",
            "(exp(r) - 1 - r)/r**2",
            series(2, one_over_factorial),
            lambda r: r * r / mp.exp(r),
            exp_range,
            -57,
            -28,
        ),
        (
            "EXP2",
            "(2**r - 1 - r*log(2))/r**2",
            series(2, lambda n: LN2**n / mp.factorial(n)),
            lambda r: r * r / 2**r,
            (-mp.mpf("0.5"), mp.mpf("0.5")),
            -57,
            -28,
        ),
        (
            "SINH",
            "(sinh(r) - r)/r**3 in z = r**2",
            series(1, lambda k: one_over_factorial(2 * k + 1)),
            lambda z: z,
            (mp.mpf(0), HALF_LN2**2),
            -58,
            -29,
        ),
        (
            "COSH",
            "(cosh(r) - 1)/r**2 in z = r**2",
            series(1, lambda k: one_over_factorial(2 * k)),
            lambda z: z,
            (mp.mpf(0), HALF_LN2**2),
            -58,
            -29,
        ),
        (
            "TANH",
            "(tanh(x) - x)/x**3 in z = x**2",
            series(2, tanh_term),
            tanh_weight,
            (mp.mpf(0), mp.mpf(1)),
            None,
            -28,
        ),
        (
            "LOG",
            "(log((1+s)/(1-s)) - 2*s)/s**3 in z = s**2",
            series(1, lambda k: mp.mpf(2) / (2 * k + 1)),
            lambda z: z / 2,
            (mp.mpf(0), S2),
            -59,
            -30,
        ),
        (
            "LOG_WIDE",
            "the same for s <= 1/3",
            series(1, lambda k: mp.mpf(2) / (2 * k + 1)),
            lambda z: z / 2,
            (mp.mpf(0), mp.mpf(1) / 9),
            -58,
            -29,
        ),
        (
            "LOG_POW_S",
            "the same, for the powers of float32",
            series(1, lambda k: mp.mpf(2) / (2 * k + 1)),
            lambda z: z / 2,
            (mp.mpf(0), S2),
            -40,
            None,
        ),
        (
            "LOG_TAIL",
            "(log((1+s)/(1-s)) - 2*s - s**3*2/3)/s**5 in z = s**2",
            series(2, lambda k: mp.mpf(2) / (2 * k + 1)),
            lambda z: z * z / 2,
            (mp.mpf(0), S2),
            -68,
            None,
        ),
        (
            "SIN",
            "(sin(r) - r)/r**3 in z = r**2",
            series(1, lambda k: (-1) ** k * one_over_factorial(2 * k + 1)),
            lambda z: z,
            quarter,
            -57,
            -29,
        ),
        (
            "COS",
            "(cos(r) - 1 + z/2)/z**2 in z = r**2",
            series(2, lambda k: (-1) ** k * one_over_factorial(2 * k)),
            lambda z: z * z / mp.cos(mp.sqrt(z)),
            quarter,
            -57,
            -29,
        ),
        (
            "ATAN",
            "(atan(t) - t)/t**3 in z = t**2",
            series(1, lambda k: mp.mpf((-1) ** k) / (2 * k + 1)),
            lambda z: z,
            (mp.mpf(0), TAN8),
            -57,
            -29,
        ),
        (
            "ASIN",
            "(asin(s) - s)/s**3 in z = s**2",
            series(1, asin_term),
            lambda z: z,
            (mp.mpf(0), mp.mpf("0.25")),
            -57,
            -29,
        ),
        (
            "CBRT",
            "m**(-1/3), the start of an iteration",
            lambda m: 1 / mp.cbrt(m),
            mp.cbrt,
            (mp.mpf(1), mp.mpf(2)),
            -13,
            None,
        ),
        ("ERF", "(-log(erfc(x))/x - 2/sqrt(pi))/x", erf_rate_rest, erf_weight, (mp.mpf(0), mp.mpf(4)), None, -28),
        (
            "ERF_NEAR",
            "erf(x)/x - 1 in z = x**2",
            lambda z: erf_over_root(z) - 1,
            lambda z: 1 / erf_over_root(z),
            (mp.mpf(0), mp.mpf(1)),
            -56,
            None,
        ),
        (
            "ERF_FAR",
            "-log(erfc(x))",
            lambda x: -mp.log(mp.erfc(x)),
            lambda x: mp.erfc(x) / mp.erf(x),
            (mp.mpf(1), ERF_END),
            -56,
            None,
        ),
        (
            "ERFC",
            "((1 + 2*x)*exp(x**2)*erfc(x) - 1)/(1 + t) in t = (x - 4)/(x + 4)",
            erfc_shape,
            erfc_weight,
            (mp.mpf(-1), erfc_end(27.5)),
            -56,
            -29,
        ),
    ]
    double = [Fit(*row[:5], row[5]) for row in rows if row[5] is not None]
    single = [Fit(row[0] + "_S", *row[1:5], row[6], single=True) for row in rows if row[6] is not None]
    return double + single


def rounded(value: mp.mpf, single: bool) -> float:
    """The nearest float64, or float32 for `single`."""
    nearest = float(mp.mpf(value))
    return struct.unpack("f", struct.pack("f", nearest))[0] if single else nearest


def main() -> None:
    print('"""Polynomial coefficients, lowest power first; written by tools/vecmath_coefficients.py."""')
    for fit in fits():
        coefficients, worst = smallest(fit)
        low, high = fit.interval
        print(f"\n# {fit.formula} on [{mp.nstr(low, 6)}, {mp.nstr(high, 6)}], error 2**{mp.nstr(mp.log(worst, 2), 4)}")
        print(f"{fit.name} = (")
        for c in coefficients:
            print(f"    {rounded(c, fit.single)!r},")
        print(")")
        print(f"{fit.name}: degree {len(coefficients) - 1}", file=sys.stderr)


if __name__ == "__main__":
    main()
