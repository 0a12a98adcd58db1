"""Dimensions: integers, or polynomials over named symbols.

A dimension that is known is a plain `int`; one that is not is a `Dim`, a polynomial with integer coefficients over
atoms. An atom is a symbol ("n") or a floor division whose operands are dimensions themselves. Polynomials are kept in
a canonical order, so equal dimensions compare equal and hash alike, and a result without symbols is an `int` again.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np

from tracegrad.records import record

Atom: TypeAlias = "str | tuple[DimLike, DimLike]"
Monomial: TypeAlias = tuple[Atom, ...]
DimLike: TypeAlias = "int | Dim"


@record
class Dim:
    """A polynomial over symbols: `terms` maps a sorted product of atoms to its coefficient."""

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: DimLike) -> DimLike:
        if not isinstance(other, _SIZES):
            return NotImplemented  # a Tensor computes with it
        return _collect((*_terms(self), *_terms(other)))

    __radd__ = __add__

    def __neg__(self) -> DimLike:
        return self * -1

    def __sub__(self, other: DimLike) -> DimLike:
        if not isinstance(other, _SIZES):
            return NotImplemented
        return self + (-other)

    def __rsub__(self, other: DimLike) -> DimLike:
        if not isinstance(other, _SIZES):
            return NotImplemented
        return -self + other

    def __mul__(self, other: DimLike) -> DimLike:
        if not isinstance(other, _SIZES):
            return NotImplemented
        return _collect((tuple(sorted(a + b, key=_atom_key)), x * y) for a, x in _terms(self) for b, y in _terms(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: DimLike) -> DimLike:
        if not isinstance(other, _SIZES):
            return NotImplemented
        return floordiv(self, other)

    def __rfloordiv__(self, other: DimLike) -> DimLike:
        if not isinstance(other, _SIZES):
            return NotImplemented
        return floordiv(other, self)

    def symbols(self) -> frozenset[str]:
        """The names this dimension depends on."""
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                if isinstance(atom, str):
                    found.add(atom)
                else:
                    found.update(*(symbols(part) for part in atom))
        return frozenset(found)

    def __str__(self) -> str:
        text = ""
        for monomial, coefficient in self.terms:
            factors = "*".join(a if isinstance(a, str) else f"floordiv({a[0]}, {a[1]})" for a in monomial)
            size = abs(coefficient)
            term = str(size) if not factors else factors if size == 1 else f"{size}*{factors}"
            text += ("-" if coefficient < 0 else "+") + term
        return text.removeprefix("+")

    __repr__ = __str__


_SIZES = (int, Dim, np.integer)


def symbol(name: str) -> Dim:
    """The dimension that is the symbol `name` alone."""
    return Dim((((name,), 1),))


def symbols(dim: DimLike) -> frozenset[str]:
    """The names `dim` depends on; none for an integer."""
    return dim.symbols() if isinstance(dim, Dim) else frozenset()


def floordiv(a: DimLike, b: DimLike) -> DimLike:
    """`a // b`: exact where every coefficient divides, else an atom of its own."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if a == b:
        return 1
    if isinstance(b, int) and all(c % b == 0 for _, c in _terms(a)):
        return _collect((m, c // b) for m, c in _terms(a))
    quotient = _exact_quotient(a, b)
    return quotient if quotient is not None else Dim(((((a, b),), 1),))


def _exact_quotient(a: DimLike, b: DimLike) -> DimLike | None:
    """`a // b` where `b` is one monomial that divides each of `a`'s; None elsewhere."""
    divisor = _terms(b)
    if len(divisor) != 1:
        return None
    ((atoms, coefficient),) = divisor
    out = []
    for monomial, c in _terms(a):
        rest = list(monomial)
        for atom in atoms:
            if atom not in rest:
                return None
            rest.remove(atom)
        if c % coefficient:
            return None
        out.append((tuple(rest), c // coefficient))
    return _collect(out)


def product(dims: Iterable[DimLike]) -> DimLike:
    """The product of `dims`; 1 for none."""
    out: DimLike = 1
    for dim in dims:
        out = out * dim
    return out


def evaluate(dim: DimLike, sizes: Mapping[str, int]) -> int:
    """The integer `dim` is when each symbol has its value in `sizes`."""
    if isinstance(dim, int):
        return dim
    total = 0
    for monomial, coefficient in dim.terms:
        value = coefficient
        for atom in monomial:
            value *= sizes[atom] if isinstance(atom, str) else evaluate(atom[0], sizes) // evaluate(atom[1], sizes)
        total += value
    return total


def substitute(dim: DimLike, values: Mapping[str, DimLike]) -> DimLike:
    """`dim` with symbols replaced by other dimensions; symbols absent from `values` stay."""
    if isinstance(dim, int):
        return dim
    total: DimLike = 0
    for monomial, coefficient in dim.terms:
        value: DimLike = coefficient
        for atom in monomial:
            value = value * (
                values.get(atom, symbol(atom))
                if isinstance(atom, str)
                else floordiv(substitute(atom[0], values), substitute(atom[1], values))
            )
        total = total + value
    return total


def parse(text: str) -> DimLike:
    """The dimension that prints as `text`. Raises ValueError on anything else."""
    if not re.fullmatch(r"[\w\s+*(),-]+", text):
        raise ValueError(f"not a dimension: {text!r}")
    names = {n: symbol(n) for n in re.findall(r"[A-Za-z_]\w*", text) if n != "floordiv"}
    try:
        value: DimLike = eval(text, {"__builtins__": {}}, {**names, "floordiv": floordiv})
    except (SyntaxError, TypeError, NameError) as error:
        raise ValueError(f"not a dimension: {text!r}") from error
    return value


def _terms(dim: DimLike) -> tuple[tuple[Monomial, int], ...]:
    return dim.terms if isinstance(dim, Dim) else (((), int(dim)),)


def _collect(terms: Iterable[tuple[Monomial, int]]) -> DimLike:
    sums: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, 0) + coefficient
    kept = [(m, c) for m, c in sums.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    return Dim(tuple(sorted(kept, key=_term_key)))


@functools.cache
def _atom_key(atom: Atom) -> tuple[bool, str]:
    return (not isinstance(atom, str), str(atom))


def _term_key(term: tuple[Monomial, int]) -> tuple[int, list[tuple[bool, str]]]:
    return (-len(term[0]), [_atom_key(a) for a in term[0]])
