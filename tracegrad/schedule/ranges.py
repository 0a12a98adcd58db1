"""Ranges of loop variables under bounds, for the verifier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from tracegrad.ir.dims import DimLike
from tracegrad.ir.index import Affine, Bound, Index, Quotient
from tracegrad.records import record
from tracegrad.schedule.maps import decide, divides, negative


@record
class Ranges:
    """Extents of the loops around, and the bounds known to hold; `never` if they contradict each other."""

    extents: Mapping[str, DimLike]
    known: tuple[Bound, ...] = field(default=())

    def inside(self, var: str, extent: DimLike) -> Ranges:
        return Ranges({**self.extents, var: extent}, self.known)

    def where(self, when: Iterable[Bound]) -> Ranges:
        return Ranges(self.extents, (*self.known, *when))

    def unless(self, when: tuple[Bound, ...]) -> Ranges:
        """What holds where not all of `when` do: known only for a single inequality."""
        if len(when) == 1 and when[0].relation == ">=":
            return self.where((Bound(when[0].affine * -1 - 1),))
        return self

    def span(self, name: str) -> tuple[int, int] | None:
        """Least and greatest value of a variable under the bounds on it alone; None if the extent is a symbol."""
        extent = self.extents[name]
        if not isinstance(extent, int):
            return None
        low, high = 0, extent - 1
        for bound in self.known:
            if len(bound.affine.terms) != 1 or bound.affine.terms[0][0] != name or bound.relation == "%":
                continue
            c, offset = bound.affine.terms[0][1], bound.affine.offset
            if not isinstance(c, int) or not isinstance(offset, int):
                continue
            if c > 0 or bound.relation == "==":
                low = max(low, -(offset // c)) if c > 0 else low
            if c < 0:
                high = min(high, offset // -c)
            if bound.relation == "==" and offset % c == 0:
                low, high = max(low, -offset // c), min(high, -offset // c)
        return low, high


def range_fault(index: Index, extent: DimLike, ranges: Ranges) -> str:
    """What is wrong with an index, or nothing; bounds over several variables leave it undecided."""
    affine = index.affine if isinstance(index, Quotient) else index
    divisor = index.divisor if isinstance(index, Quotient) else 1
    if divisor < 1:
        return "divides by a number that is not positive"
    variables = {name for name, _ in affine.terms}
    if any(len(b.affine.terms) > 1 and variables & {n for n, _ in b.affine.terms} for b in ranges.known):
        return ""
    spans = {name: ranges.span(name) for name in variables}
    if any(s is None for s in spans.values()) or not isinstance(extent, int):
        return _symbolic_fault(affine, extent, ranges) if divisor == 1 else ""
    if any(s is not None and s[0] > s[1] for s in spans.values()) or _nothing_runs(ranges):
        return ""
    low = high = affine.offset
    for name, c in affine.terms:
        span = spans[name]
        if span is None or not isinstance(c, int):
            return ""
        low = low + min(c * span[0], c * span[1])
        high = high + max(c * span[0], c * span[1])
    if not isinstance(low, int) or not isinstance(high, int):
        return ""
    if divisor > 1 and not _known_to_divide(affine, divisor, ranges):
        return "is not known to be whole here"
    if -(-low // divisor) < 0:
        return f"reaches {-(-low // divisor)}"
    return f"reaches {high // divisor}" if high // divisor >= extent else ""


def _known_to_divide(affine: Affine, divisor: int, ranges: Ranges) -> bool:
    for bound in ranges.known:
        if bound.relation == "%" and bound.modulus % divisor == 0:
            distance = affine - bound.affine
            if all(divides(divisor, c) for c in (*(c for _, c in distance.terms), distance.offset)):
                return True
    return False


def _nothing_runs(ranges: Ranges) -> bool:
    """Whether some loop around has no iterations, or a bound never holds."""
    return any(isinstance(e, int) and e <= 0 for e in ranges.extents.values()) or any(
        decide(b, ranges.extents) is False for b in ranges.known
    )


def _symbolic_fault(affine: Affine, extent: DimLike, ranges: Ranges) -> str:
    """Symbolic sizes: a fault only if the index is out of range for all sizes in all iterations."""
    if decide(Bound(affine), ranges.extents) is False:
        return "is always negative"
    distance = affine * -1 + (extent - 1)
    constant_part = distance.offset if not distance.terms else None
    return "is always too large" if negative(constant_part) else ""
