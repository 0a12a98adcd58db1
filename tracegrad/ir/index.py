"""Index expressions: which element of an operand an operation reads for an element of its result."""

from __future__ import annotations

from typing import TypeAlias

from tracegrad.ir.dims import DimLike
from tracegrad.records import record


@record
class Affine:
    """`offset + sum(coefficient * variable)`; variables are loop variables, by name."""

    terms: tuple[tuple[str, DimLike], ...] = ()
    offset: DimLike = 0

    def __add__(self, other: Affine | DimLike) -> Affine:
        if not isinstance(other, Affine):
            return Affine(self.terms, self.offset + other)
        sums = dict(self.terms)
        for name, coefficient in other.terms:
            sums[name] = sums.get(name, 0) + coefficient
        return Affine(tuple((n, c) for n, c in sorted(sums.items()) if c != 0), self.offset + other.offset)

    def __sub__(self, other: Affine | DimLike) -> Affine:
        return self + (other * -1 if isinstance(other, Affine) else -other)

    def __mul__(self, factor: DimLike) -> Affine:
        return Affine(tuple((n, c * factor) for n, c in self.terms if factor != 0), self.offset * factor)

    def __str__(self) -> str:
        parts = [n if c == 1 else f"{c}*{n}" for n, c in self.terms]
        if self.offset != 0 or not parts:
            parts.append(str(self.offset))
        return " + ".join(parts).replace("+ -", "- ")


def variable(name: str) -> Affine:
    """The index that is the loop variable `name`."""
    return Affine(((name, 1),))


def constant(value: DimLike) -> Affine:
    """The index that is the same everywhere."""
    return Affine((), value)


@record
class Quotient:
    """`affine // divisor`, read only where a Bound says that it divides exactly."""

    affine: Affine
    divisor: int

    def __str__(self) -> str:
        return f"({self.affine}) // {self.divisor}"


Index: TypeAlias = Affine | Quotient


@record
class Bound:
    """A condition on loop variables: `affine >= 0`, `affine == 0` or `affine % modulus == 0`."""

    affine: Affine
    relation: str = ">="  # ">=", "==", "%"
    modulus: int = 1

    def __str__(self) -> str:
        return f"({self.affine}) % {self.modulus} == 0" if self.relation == "%" else f"{self.affine} {self.relation} 0"


@record
class Piece:
    """Where `when` holds, an element of the result is the element `index` of input number `operand`."""

    operand: int
    index: tuple[Index, ...]
    when: tuple[Bound, ...] = ()
