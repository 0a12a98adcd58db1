"""Index maps under composition: substituting one index into another, and deciding bounds.

A view of a view is one map. Strided placement makes quotients that divide exactly where their Bound holds, so all
arithmetic here is on rationals `affine / divisor` and stays exact there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tracegrad.ir.dims import Dim, DimLike
from tracegrad.ir.index import Affine, Bound, Index, Quotient, constant

Values = Mapping[str, Index]
Extents = Mapping[str, DimLike]
ZERO = constant(0)


def variable_of(index: object) -> str | None:
    """The loop variable that the index is, or None."""
    if type(index) is not Affine or len(index.terms) != 1 or index.offset != 0:
        return None
    ((name, coefficient),) = index.terms
    return name if coefficient == 1 else None


def substitute(index: Index, values: Values) -> Index:
    """`index` with each variable replaced by its index in `values`; absent ones stay."""
    if type(index) is Affine:
        if not index.terms:
            return index
        if (name := variable_of(index)) is not None:
            return values.get(name, index)
        numerator, divisor = _combine(index, values)
        return quotient(numerator, divisor)
    assert isinstance(index, Quotient)
    numerator, divisor = _combine(index.affine, values)
    return quotient(numerator, divisor * index.divisor)


def substitute_bound(bound: Bound, values: Values) -> Bound:
    """The same condition on the replaced variables."""
    numerator, divisor = _combine(bound.affine, values)
    if bound.relation == "%":
        return Bound(numerator, "%", bound.modulus * divisor)
    return Bound(numerator, bound.relation)


def quotient(affine: Affine, divisor: int) -> Index:
    """`affine / divisor`, as an Affine where all coefficients divide."""
    if divisor == 1:
        return affine
    parts = [c for _, c in affine.terms] + [affine.offset]
    if all(divides(divisor, part) for part in parts):
        return Affine(tuple((n, c // divisor) for n, c in affine.terms), affine.offset // divisor)
    return Quotient(affine, divisor)


def divides(divisor: int, dim: DimLike) -> bool:
    """Whether every coefficient of `dim` is a multiple of `divisor`."""
    return all(c % divisor == 0 for _, c in dim.terms) if isinstance(dim, Dim) else dim % divisor == 0


def _combine(affine: Affine, values: Values) -> tuple[Affine, int]:
    if len(affine.terms) == 1:  # nearly always; saves most of the arithmetic
        ((name, c),) = affine.terms
        value = values.get(name)
        if value is None:
            return affine, 1
        if type(value) is Affine:
            return Affine(value.terms if c == 1 else (value * c).terms, value.offset * c + affine.offset), 1
    replaced = [(values.get(name), name, c) for name, c in affine.terms]
    divisor = math.lcm(*(v.divisor for v, _, _ in replaced if isinstance(v, Quotient)), 1)
    total = constant(affine.offset * divisor)
    for value, name, c in replaced:
        if value is None:
            total = total + Affine(((name, c * divisor),))
        elif isinstance(value, Quotient):
            total = total + value.affine * (c * (divisor // value.divisor))
        else:
            total = total + value * (c * divisor)
    return total, divisor


def lower_bound(affine: Affine, extents: Extents) -> DimLike | None:
    """The least value over all iterations; None where a coefficient is symbolic. Zero-size loops have no iterations."""
    total = affine.offset
    for name, c in affine.terms:
        if not isinstance(c, int) or name not in extents:
            return None
        if c < 0:
            total = total + (extents[name] - 1) * c
    return total


def upper_bound(affine: Affine, extents: Extents) -> DimLike | None:
    """The greatest value over all iterations; None where a coefficient is symbolic."""
    least = lower_bound(affine * -1, extents)
    return None if least is None else -least


def nonnegative(dim: DimLike | None) -> bool:
    """Whether `dim >= 0` for every value of its symbols (which are sizes, so at least 0)."""
    if dim is None:
        return False
    if isinstance(dim, Dim):
        return all(c >= 0 for _, c in dim.terms)
    return dim >= 0


def negative(dim: DimLike | None) -> bool:
    """Whether `dim < 0` for every value of its symbols."""
    return dim is not None and nonnegative(-dim - 1)


def simplify_bounds(bounds: Sequence[Bound], extents: Extents) -> tuple[Bound, ...] | None:
    """The bounds that are not always true; None where one is never true."""
    kept: list[Bound] = []
    for bound in bounds:
        verdict = decide(bound, extents)
        if verdict is False:
            return None
        if verdict is None and bound not in kept:
            kept.append(bound)
    return tuple(kept)


def decide(bound: Bound, extents: Extents) -> bool | None:
    """True or False where the bound holds for all or for no iterations, else None."""
    if bound.relation == "%":
        parts = [c for _, c in bound.affine.terms]
        if not all(divides(bound.modulus, c) for c in parts):
            return None
        offset = bound.affine.offset
        return offset % bound.modulus == 0 if isinstance(offset, int) else divides(bound.modulus, offset) or None
    low, high = lower_bound(bound.affine, extents), upper_bound(bound.affine, extents)
    if bound.relation == ">=":
        return True if nonnegative(low) else False if negative(high) else None
    if low == 0 and high == 0:
        return True
    return False if negative(high) or (low is not None and nonnegative(low - 1)) else None


def linear(index: Sequence[Affine], shape: Sequence[DimLike]) -> Affine:
    """The position in C order of a multi-index."""
    total = ZERO
    for i, extent in zip(index, shape, strict=True):
        total = total * extent + i
    return total


def split(affine: Affine, extent: DimLike, extents: Extents) -> tuple[Affine, Affine] | None:
    """`divmod(affine, extent)` where both are affine, else None."""
    high: list[tuple[str, DimLike]] = []
    low: list[tuple[str, DimLike]] = []
    for name, c in affine.terms:
        if c == extent:
            high.append((name, 1))
        elif isinstance(c, int) and isinstance(extent, int) and extent and c % extent == 0:
            high.append((name, c // extent))
        else:
            low.append((name, c))
    if not isinstance(affine.offset, int) or not isinstance(extent, int) or extent == 0:
        carried, rest = (0, affine.offset) if affine.offset == 0 else (None, affine.offset)
    else:
        carried, rest = divmod(affine.offset, extent)
    if carried is None:
        return None
    remainder = Affine(tuple(low), rest)
    top = upper_bound(remainder, extents)
    if not nonnegative(lower_bound(remainder, extents)) or top is None or not nonnegative(extent - 1 - top):
        return None
    return Affine(tuple(high), carried), remainder
