"""Sizes while a function is recorded for many: symbols that know what they are in this call.

A recording with symbolic dimensions is made during a call, so each symbol has a value. User code sees a `Size` where
an int would stand: sums, products and quotients stay symbolic; a comparison takes the decision of this call and leaves
a condition, so that the recording serves only calls that decide alike; and where Python wants the number itself
(`range(n)`, `float(n)`, a format string, a key of a dict) the recording holds for that number alone.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tracegrad.errors import user_location
from tracegrad.ir.dims import Dim, DimLike, evaluate, symbol

LEAST = 2  # what a symbol stands for at least: arrays of size 0 and 1 reduce and broadcast by rules of their own
Bounds = tuple[float, float]
_HOLDS = {">=": operator.ge, "!=": operator.ne, "==": operator.eq}
MAX_POWER = 4  # of sizes, as polynomials
_INTEGERS = (int, np.integer)
_INEXACT = (float, complex, np.inexact)
_NUMBERS = (*_INTEGERS, *_INEXACT)


class Sizes:
    """The values of the symbols in this call, and what the recording takes for granted about them in others.

    least, most: the range of each symbol. conditions: pairs (dim, relation), where the relation to 0 is ">=", "!=" or
    "=="; the last are equations, which whoever records resolves by fewer symbols. `number` makes of a dimension a value
    of the trace, for arithmetic that leaves the integers.
    """

    def __init__(self, values: Mapping[str, int], number: Callable[[Dim], Any]):
        self.values, self.number = dict(values), number
        self.least, self.most = dict.fromkeys(values, LEAST), dict.fromkeys(values, math.inf)
        self.conditions: dict[tuple[Dim, str], None] = {}
        self.consumed: set[str] = set()  # the symbols of which Python took a number
        self.uses: list[str] = []  # and where it did
        self.counts: list[str] | None = None  # of elements that masks select; None where they are to be numbers
        self.outside: dict[int, tuple[DimLike, ...]] = {}  # the shapes of plain arrays from outside, by their ids
        self.open = False

    @contextmanager
    def known(self) -> Iterator[Sizes]:
        """Inside the block, Tensors of this thread have these sizes as their shapes."""
        former, active.sizes = active.sizes, self
        self.open = True
        try:
            yield self
        finally:
            active.sizes, self.open = former, former is self

    def wrap(self, shape: tuple[DimLike, ...]) -> tuple[Any, ...]:
        """A shape as user code sees it."""
        return tuple([self.size(d) if isinstance(d, Dim) else d for d in shape])

    def size(self, dim: DimLike, of_numpy: bool = False) -> Any:
        """A dimension as user code sees it; those of loops whose number of steps is computed stay as they are."""
        if not isinstance(dim, Dim) or not dim.symbols() <= self.values.keys():
            return dim
        return Size(dim.terms, self, of_numpy)

    def count(self, number: int) -> Any:
        """A new symbol for how many elements a mask selects, `number` in this call."""
        assert self.counts is not None
        name = f"count{len(self.counts)}"
        self.counts.append(name)
        self.values[name], self.least[name], self.most[name] = number, LEAST, math.inf
        return self.size(symbol(name))

    def decided_on_counts(self) -> bool:
        """Whether Python took a decision on such a number."""
        names = set(self.counts or ())
        open_ = any(self.least[n] > LEAST or self.most[n] < math.inf for n in names)
        return open_ or bool(names & self.consumed) or any(names & dim.symbols() for dim, _ in self.conditions)

    def serve(self, values: Mapping[str, int]) -> bool:
        """Whether all that was taken for granted holds where the symbols are these."""
        for name, value in values.items():
            if not self.least[name] <= value <= self.most[name]:
                return False
            if name in self.consumed and value != self.values[name]:
                return False
        return all(_HOLDS[relation](evaluate(dim, values), 0) for dim, relation in self.conditions)

    # ---- decisions

    def consume(self, dim: Dim, what: str) -> int:
        """The number `dim` is in this call; the recording holds only where it is the same."""
        value = evaluate(dim, self.values)
        self.consumed.update(dim.symbols())
        location = user_location()
        where = what if location is None else f"{what} at {location}"
        if where not in self.uses:
            self.uses.append(where)
        return value

    def non_negative(self, dim: DimLike) -> bool:
        """Whether `dim >= 0` in this call and all that the recording serves."""
        if not isinstance(dim, Dim):
            return dim >= 0
        low, high = self.bounds(dim)
        if low >= 0 or high < 0:
            return low >= 0
        holds = evaluate(dim, self.values) >= 0
        self._add(dim if holds else -1 - dim, ">=")
        return holds

    def zero(self, dim: DimLike) -> bool:
        """Whether `dim == 0` in this call and all that the recording serves."""
        if not isinstance(dim, Dim):
            return dim == 0
        low, high = self.bounds(dim)
        if low > 0 or high < 0:
            return False
        holds = evaluate(dim, self.values) == 0
        self._add(dim, "==" if holds else "!=")
        return holds

    def require(self, dim: DimLike, least: int) -> bool:
        """Whether `dim >= least` in this call, which becomes a condition if so."""
        if not isinstance(dim, Dim) or not dim.symbols() <= self.values.keys():
            return True  # a loop's own size
        return evaluate(dim, self.values) >= least and self.non_negative(dim - least)

    def _add(self, dim: DimLike, relation: str) -> None:
        if not isinstance(dim, Dim):
            return
        if relation == ">=" and self._narrowed(dim):
            return
        self.conditions[dim, relation] = None

    def _narrowed(self, dim: Dim) -> bool:
        """Whether `dim >= 0` says how large one symbol is at least or at most, which then is noted."""
        slope, offset, name = 0, 0, ""
        for monomial, coefficient in dim.terms:
            if not monomial:
                offset = coefficient
            elif len(monomial) == 1 and isinstance(monomial[0], str) and not name:
                slope, name = coefficient, monomial[0]
            else:
                return False
        if slope > 0:
            self.least[name] = max(self.least[name], -(offset // slope))
        else:
            self.most[name] = min(self.most[name], offset // -slope)
        return True

    def bounds(self, dim: DimLike) -> Bounds:
        """Numbers between which `dim` lies for all sizes the recording serves; infinite where nothing is known."""
        if not isinstance(dim, Dim):
            return dim, dim
        low, high = 0.0, 0.0
        for monomial, coefficient in dim.terms:
            term: Bounds = (coefficient, coefficient)
            for atom in monomial:
                term = _times(
                    term, (self.least[atom], self.most[atom]) if isinstance(atom, str) else self._ratio(*atom)
                )
            low, high = low + term[0], high + term[1]
        return low, high

    def _ratio(self, a: DimLike, b: DimLike) -> Bounds:
        (low, high), (least, most) = self.bounds(a), self.bounds(b)
        if least <= 0:
            return -math.inf, math.inf
        below = low // (least if low < 0 else most) if math.isfinite(low) else low
        above = high // (least if high > 0 else most) if math.isfinite(high) else high
        return below, above


def _times(a: Bounds, b: Bounds) -> Bounds:
    products = [0.0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return min(products), max(products)


class _Active(threading.local):
    sizes: Sizes | None = None


active = _Active()


def values_now() -> Mapping[str, int]:
    """The sizes of the call that is being recorded."""
    return {} if active.sizes is None else active.sizes.values


def plain(value: Any) -> Any:
    """A `Size` as the dimension it is, also within tuples and slices; anything else as it is."""
    if isinstance(value, Size):
        return value.dim
    if type(value) is tuple:
        return tuple([plain(v) for v in value])
    if type(value) is slice:
        return slice(plain(value.start), plain(value.stop), plain(value.step))
    return value


def plain_attributes(attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of a node with dimensions for sizes."""
    return attrs if active.sizes is None else {k: plain(v) for k, v in attrs.items()}


class Size(Dim):
    """A dimension during the recording of a function; see the head of the module. Afterwards it is a plain `Dim`.

    In promotion it counts as a Python int; with `of_numpy` as an np.int64, which `np.prod(x.shape)` is.
    """

    __slots__ = ("_of_numpy", "_sizes")

    _sizes: Sizes
    _of_numpy: bool

    def __init__(self, terms: Any, sizes: Sizes, of_numpy: bool = False):
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "_sizes", sizes)
        object.__setattr__(self, "_of_numpy", of_numpy)

    @property
    def dim(self) -> Dim:
        """The dimension it is."""
        return Dim(self.terms)

    @property
    def number(self) -> Any:
        """A value of the trace that counts as what the size does."""
        number = self._sizes.number(self.dim)
        return number + np.int64(0) if self._of_numpy else number

    # ---- arithmetic that stays symbolic

    def _arithmetic(self, name: str, other: Any) -> Any:
        if isinstance(other, (Dim, *_INTEGERS)):
            of_numpy = self._of_numpy or isinstance(other, np.integer) or getattr(other, "_of_numpy", False)
            return self._sizes.size(getattr(Dim, name)(self.dim, plain(other)), of_numpy)
        if isinstance(other, _INEXACT):
            operation = getattr(operator, name.strip("_").removeprefix("r"))
            return operation(other, self.number) if name.startswith("__r") else operation(self.number, other)
        return NotImplemented

    def __neg__(self) -> Any:
        return self._sizes.size(self.dim * -1, self._of_numpy)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self._sizes.non_negative(self.dim) else -self

    def __mod__(self, other: Any) -> Any:
        if isinstance(other, (Dim, *_INTEGERS)):
            divisor = other if isinstance(other, Dim) else int(other)
            return self - divisor * (self // divisor)
        return self.number % other if isinstance(other, _INEXACT) else NotImplemented

    def __rmod__(self, other: Any) -> Any:
        if isinstance(other, (Dim, *_INTEGERS)):
            number = other if isinstance(other, Dim) else int(other)
            return number - self * (number // self)
        return other % self.number if isinstance(other, _INEXACT) else NotImplemented

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, _INTEGERS) and 0 <= other <= MAX_POWER:
            return math.prod([self] * int(other))
        return self.number**other if isinstance(other, _NUMBERS) else NotImplemented

    def __rpow__(self, other: Any) -> Any:
        return other**self.number if isinstance(other, _NUMBERS) else NotImplemented

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, Size):
            other = other.number
        return self.number / other if isinstance(other, _NUMBERS) or hasattr(other, "_var") else NotImplemented

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.number if isinstance(other, _NUMBERS) else NotImplemented

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        values = [x.number if isinstance(x, Size) else x for x in inputs]
        return getattr(ufunc, method)(*values, **kwargs)

    # ---- decisions

    def __eq__(self, other: object) -> Any:
        if isinstance(other, Dim) and self.terms == other.terms:
            return True
        if not self._sizes.open:
            return False
        if isinstance(other, (float, np.floating)) and float(other).is_integer():
            other = int(other)
        if not isinstance(other, (Dim, *_INTEGERS)):
            return NotImplemented
        return self._sizes.zero(self.dim - plain(other))

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, math.ceil, True, lambda bound: bound - self - 1)

    def __le__(self, other: Any) -> Any:
        return self._compared(other, math.floor, True, lambda bound: bound - self)

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, math.floor, False, lambda bound: self - bound - 1)

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, math.ceil, False, lambda bound: self - bound)

    def _compared(self, other: Any, rounded: Any, less: bool, difference: Callable[[Any], Any]) -> Any:
        """Whether `difference(other)` is not negative; `rounded` makes an integer bound of a float one."""
        if isinstance(other, (float, np.floating)):
            if not math.isfinite(other):
                return not math.isnan(other) and (other > 0) == less
            other = rounded(float(other))
        if not isinstance(other, (Dim, *_INTEGERS)):
            return NotImplemented
        if not self._sizes.open:
            return evaluate(plain(difference(other)), self._sizes.values) >= 0
        return self._sizes.non_negative(plain(difference(other)))

    def __bool__(self) -> bool:
        return not self._sizes.zero(self.dim) if self._sizes.open else evaluate(self, self._sizes.values) != 0

    # ---- the number itself

    def _number(self, what: str) -> int:
        sizes = self._sizes
        return sizes.consume(self.dim, what) if sizes.open else evaluate(self, sizes.values)

    def __index__(self) -> int:
        return self._number("as an integer (range, a static size, int())")

    __int__ = __index__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._number("in an array of NumPy's"), dtype)

    def __float__(self) -> float:
        return float(self._number("float()"))

    def __complex__(self) -> complex:
        return complex(self._number("complex()"))

    def __round__(self, digits: Any = None) -> Any:
        return self

    def __hash__(self) -> int:
        return hash(self._number("as a key (hash)")) if self._sizes.open else hash(self.dim)

    def __str__(self) -> str:
        return str(self._number("as text")) if self._sizes.open else Dim.__str__(self)

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(self._number("as text"), spec)


def _arithmetic_methods() -> None:
    def method(name: str) -> Callable[[Size, Any], Any]:
        def apply(self: Size, other: Any) -> Any:
            return self._arithmetic(name, other)

        apply.__name__ = apply.__qualname__ = name
        return apply

    for operation in ("add", "sub", "mul", "floordiv"):
        for name in (f"__{operation}__", f"__r{operation}__"):
            setattr(Size, name, method(name))


_arithmetic_methods()
