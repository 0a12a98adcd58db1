"""Composition of index maps, against enumeration."""

from __future__ import annotations

import itertools

import pytest

from tracegrad.ir.dims import symbol
from tracegrad.ir.index import Affine, Bound, Index, Quotient, constant, variable
from tracegrad.schedule.maps import decide, divides, linear, simplify_bounds, split, substitute, substitute_bound
from tracegrad.schedule.views import reshaped

i, j = variable("i"), variable("j")
n = symbol("n")


def value(index: Index, **at: int) -> float:
    affine = index.affine if isinstance(index, Quotient) else index
    total = affine.offset + sum(c * at[name] for name, c in affine.terms)
    return total / (index.divisor if isinstance(index, Quotient) else 1)


@pytest.mark.parametrize(
    "outer", [i, i * 2 + 3, i * -4 + j * 6, Quotient(i * 3 + 1, 2), Quotient(i + j, 3), constant(5)]
)
@pytest.mark.parametrize("inner", [i + 2, j * 3 - i, Quotient(j * 5 - 1, 2), Quotient(i, 4), constant(7)])
def test_substitution_is_composition(outer: Index, inner: Index) -> None:
    composed = substitute(outer, {"i": inner})
    for a, b in itertools.product(range(-3, 4), repeat=2):
        assert value(composed, i=a, j=b) == pytest.approx(value(outer, i=value(inner, i=a, j=b), j=b))


@pytest.mark.parametrize("relation", [">=", "==", "%"])
def test_conditions_on_a_quotient(relation: str) -> None:
    bound = Bound(i * 2 - 4, relation, 3)
    composed = substitute_bound(bound, {"i": Quotient(j, 2)})
    for b in range(-12, 13, 2):
        assert holds(composed, j=b) == holds(bound, i=b // 2)


def holds(bound: Bound, **at: int) -> bool:
    v = value(bound.affine, **at)
    return v % bound.modulus == 0 if bound.relation == "%" else v == 0 if bound.relation == "==" else v >= 0


@pytest.mark.parametrize(
    "affine", [i + 1, i - 1, i * -1 + 4, i * -1 + 3, i - j, i * 2 - j + 4, constant(-1), i * 4 + 8]
)
@pytest.mark.parametrize("relation", [">=", "==", "%"])
def test_decisions_hold_for_all_iterations(affine: Affine, relation: str) -> None:
    bound = Bound(affine, relation, 4)
    verdict = decide(bound, {"i": 5, "j": 4})
    found = {holds(bound, i=a, j=b) for a in range(5) for b in range(4)}
    assert verdict is None or found == {verdict}
    if relation == ">=":
        assert (verdict is None) == (len(found) == 2)


def test_decisions_on_symbols() -> None:
    assert decide(Bound(i * -1 + (n - 1)), {"i": n}) is True
    assert decide(Bound(i * -1 + (n - 2)), {"i": n}) is None
    assert decide(Bound(i - n), {"i": n}) is False
    assert simplify_bounds([Bound(i), Bound(i - 1), Bound(i - 1)], {"i": n}) == (Bound(i - 1),)
    assert simplify_bounds([Bound(i * -1 - 1)], {"i": n}) is None


def test_divides_needs_every_coefficient() -> None:
    assert divides(3, n * 6 + 9)
    assert not divides(3, n * 6 + 8)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (6,)])
def test_linear_is_the_position_in_c_order(shape: tuple[int, ...]) -> None:
    names = [variable(f"v{axis}") for axis in range(len(shape))]
    position = linear(names, shape)
    for number, at in enumerate(itertools.product(*map(range, shape))):
        assert value(position, **{f"v{axis}": a for axis, a in enumerate(at)}) == number


def test_split_is_divmod() -> None:
    parts = split(i * 12 + j + 3, 12, {"i": 5, "j": 9})
    assert parts is not None
    for a, b in itertools.product(range(5), range(9)):
        assert (value(parts[0], i=a), value(parts[1], i=a, j=b)) == divmod(12 * a + b + 3, 12)
    assert split(i * 12 + j + 4, 12, {"i": 5, "j": 9}) is None
    assert split(i * n + j, n, {"i": 5, "j": n}) == (i, j)


def test_reshapes_that_are_affine() -> None:
    extents = {"i": 4, "j": 6}
    assert reshaped((i, j), (4, 6), (24,), extents) == (i * 6 + j,)
    assert reshaped((i * 6 + j,), (24,), (4, 6), extents) == (i, j)
    assert reshaped((constant(0), i, j), (1, 4, 6), (4, 6, 1), extents) == (i, j, constant(0))
    assert reshaped((i,), (24,), (4, 6), {"i": 24}) is None
    assert reshaped((i, j), (n, 6), (n * 6,), {"i": n, "j": 6}) == (i * 6 + j,)
