"""Samples of elementwise operations: tables of domains, from which shapes, dtypes, strides, special values follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.samples import Sample, values

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1.5e308, -1.5e308, 1.0, -1.0, 0.5, -2.0])

with np.errstate(over="ignore"):
    SPECIAL32 = SPECIAL.astype(np.float32)

# Unary operations on floats: where they are smooth, and whether they take complex values.
UNARY: dict[str, tuple[float, float, bool]] = {
    "positive": (-2, 2, True), "negative": (-2, 2, True), "absolute": (0.1, 2, True), "sign": (0.1, 2, True),
    "square": (-2, 2, True), "reciprocal": (0.3, 2, True), "sqrt": (0.1, 3, True), "cbrt": (0.1, 3, False),
    "exp": (-2, 2, True), "exp2": (-2, 2, True), "expm1": (-2, 2, True), "log": (0.1, 3, True),
    "log2": (0.1, 3, True),
    "log10": (0.1, 3, True), "log1p": (-0.8, 3, True), "sin": (-4, 4, True), "cos": (-4, 4, True),
    "tan": (-1.3, 1.3, True),
    "arcsin": (-0.9, 0.9, True), "arccos": (-0.9, 0.9, True), "arctan": (-3, 3, True), "sinh": (-2, 2, True),
    "cosh": (-2, 2, True), "tanh": (-2, 2, True), "arcsinh": (-3, 3, True), "arccosh": (1.1, 4, True),
    "arctanh": (-0.9, 0.9, True), "deg2rad": (-180, 180, False), "rad2deg": (-4, 4, False), "floor": (0.1, 0.9, False),
    "ceil": (0.1, 0.9, False), "trunc": (0.1, 0.9, False), "rint": (0.1, 0.4, False), "erf": (-2, 2, True),
    "erfc": (-2, 2, True), "expit": (-4, 4, False), "conjugate": (-2, 2, True), "real": (-2, 2, True),
    "imag": (-2, 2, True), "stop_gradient": (-2, 2, True), "clone": (-2, 2, True),
}  # fmt: skip
# Operations without a derivative, and the kinds of dtype they take.
PREDICATES_1 = {
    "isnan": "fcib", "isinf": "fcib", "isfinite": "fcib", "signbit": "fi", "logical_not": "fcib", "invert": "ib",
}  # fmt: skip
PREDICATES_2 = {
    "equal": "fcib", "not_equal": "fcib", "less": "fcib", "less_equal": "fcib", "greater": "fcib",
    "greater_equal": "fcib", "logical_and": "fcib", "logical_or": "fcib", "logical_xor": "fcib", "bitwise_and": "ib",
    "bitwise_or": "ib", "bitwise_xor": "ib",
}  # fmt: skip
# Binary operations: the domains of both operands, and whether they take complex values.
BINARY: dict[str, tuple[tuple[float, float], tuple[float, float], bool]] = {
    "add": ((-2, 2), (-2, 2), True), "subtract": ((-2, 2), (-2, 2), True), "multiply": ((-2, 2), (-2, 2), True),
    "zero_multiply": ((0.1, 2), (-2, 2), True), "divide": ((-2, 2), (0.3, 2), True),
    "floor_divide": ((2.1, 2.9), (0.9, 0.99), False), "remainder": ((2.1, 2.7), (-0.99, -0.95), False),
    "fmod": ((-2.7, -2.1), (0.95, 0.99), False), "power": ((0.2, 2), (-2, 3), True),
    "maximum": ((-2, 2), (-2, 2), False), "minimum": ((-2, 2), (-2, 2), False), "fmax": ((-2, 2), (-2, 2), False),
    "fmin": ((-2, 2), (-2, 2), False), "logaddexp": ((-3, 3), (-3, 3), False), "logaddexp2": ((-3, 3), (-3, 3), False),
    "hypot": ((0.1, 2), (0.1, 2), False), "arctan2": ((0.1, 2), (-2, 2), False),
    "copysign": ((0.1, 2), (-2, -0.1), False),
    "heaviside": ((0.1, 2), (-1, 1), False),
}  # fmt: skip
# Operations that turn integers into floats, so that integer operands add nothing to the samples of floats.
FLOAT_ONLY = {"erf", "erfc", "expit", "logaddexp", "logaddexp2", "hypot", "arctan2", "copysign", "heaviside"}


def _strided(x: np.ndarray) -> np.ndarray:
    """The same numbers in memory with gaps, backwards."""
    wide = np.repeat(x[..., ::-1], 2, axis=-1)
    return wide[..., ::-2]


def _unary(name: str) -> list[Sample]:
    low, high, has_complex = UNARY[name]
    x = values((2, 3), low, high)
    samples = [
        Sample((x,)),
        Sample((values((), low, high),)),
        Sample((values((4,), low, high, np.float32),)),
        Sample((_strided(values((2, 3), low, high)),), id="strided"),
        Sample((values((2, 3), low, high).T,), id="transposed"),
        Sample((values((1,), low, high),)),
        Sample((np.zeros((0, 3)),)),
        Sample((SPECIAL,), smooth=False, id="special"),
        Sample((SPECIAL32,), smooth=False, id="special32"),
    ]
    if name not in ("imag", "real", "conjugate", "stop_gradient", "clone"):
        samples.append(Sample((values((3,), low, high, np.float16),), smooth=False))
        samples += [Sample((np.array([1, 2, 3], dtype),), smooth=False) for dtype in (np.int64, np.int32, np.uint8)]
    if has_complex:
        z = values((2, 2), low, high) + 1j * values((2, 2), 0.1, 0.9, seed=1)
        samples += [Sample((z,)), Sample((z.astype(np.complex64),), smooth=False)]
    return samples


def _of_kind(kind: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if kind == "f":
        return rng.choice(SPECIAL, (3, 4))
    if kind == "c":
        return rng.choice([0, 1, 1j, -1 + 2j, np.nan], (3, 4))
    if kind == "b":
        return rng.random((3, 4)) < 0.5
    return rng.integers(-3, 4, (3, 4))


def _predicate_1(name: str) -> list[Sample]:
    kinds = PREDICATES_1[name]
    return [Sample((_of_kind(kind, 0),)) for kind in kinds] + [Sample((_of_kind(kinds[0], 0)[0, 0],))]


def _predicate_2(name: str) -> list[Sample]:
    samples = []
    for kind in PREDICATES_2[name]:
        a, b = _of_kind(kind, 0), _of_kind(kind, 1)
        samples += [Sample((a, b)), Sample((a, b[0])), Sample((a[:, :1], b[::-1]), id=f"strided-{kind}")]
    if "f" in PREDICATES_2[name]:
        samples += [
            Sample((SPECIAL32, 0)), Sample((_of_kind("f", 0), _of_kind("i", 1))),
            Sample((0.5, _of_kind("f", 1))), Sample((np.zeros((0, 2)), 1.0)),
        ]  # fmt: skip
    return samples


def _binary(name: str) -> list[Sample]:
    first, second, has_complex = BINARY[name]

    def a(shape: tuple[int, ...], dtype: Any = float) -> Any:
        return values(shape, *first, dtype)

    def b(shape: tuple[int, ...], dtype: Any = float) -> Any:
        return values(shape, *second, dtype, seed=7)

    samples = [
        Sample((a((2, 3)), b((2, 3)))),
        Sample((a((2, 1)), b((3,)))),
        Sample((a(()), b((2, 2)))),
        Sample((a((2, 2)), b(()))),
        Sample((a((3,), np.float32), b((3,), np.float32))),
        Sample((a((3,), np.float32), b((2, 1)))),
        Sample((a((3,), np.float32), float(b(())))),
        Sample((float(a(())), b((3,), np.float32))),
        Sample((_strided(a((2, 3))), b((3, 2)).T), id="strided"),
        Sample((a((1,)), b((0,)))),
        Sample((SPECIAL[:, None], SPECIAL), smooth=False, id="special"),
        Sample((SPECIAL32, 0.0), smooth=False, id="special32"),
    ]
    i, j = np.array([3, -7, 5, 0]), np.array([2, 3, -2, 1])
    if name == "power":
        j = np.abs(j)
        base = np.array([-2.0, 0.5, 0.0, 3.0])
        samples += [Sample((base, 2)), Sample((base, 3.0)), Sample((base, np.array([0, 1, 2, 3]))), Sample((base, 0))]
    samples.append(Sample((a((4,)), j), smooth=name in ("add", "multiply")))
    if name not in FLOAT_ONLY:
        samples += [
            Sample((i, j), smooth=False), Sample((i.astype(np.int8), j.astype(np.int32)), smooth=False),
            Sample((i % 4 == 3, j), smooth=False), Sample((i.astype(np.float32), 3), smooth=False),
        ]  # fmt: skip
    if has_complex:
        z, w = a((2,)) + 0.5j * b((2,)), b((2, 2)) + 0.25j
        samples += [Sample((z, w)), Sample((a((2,)), w)), Sample((w, b(())))]
    return samples


def _shifts() -> list[Sample]:
    return [Sample((np.array([1, -5, 9]), np.array([0, 2, 3]))), Sample((np.array([1, 5], np.uint8), 2))]


def _where() -> list[Sample]:
    condition = np.array([[True, False, True], [False, False, True]])
    x, y = values((2, 3)), values((2, 3), seed=1)
    return [
        Sample((condition, x, y)), Sample((condition[0], x[:, :1], y)), Sample((np.array(True), x, 0.0)),
        Sample((condition, x.astype(np.float32), 0)), Sample((condition, np.arange(3), np.float32(2))),
        Sample((condition, x, 1j)), Sample((condition[:, ::-1], SPECIAL[:3], 0.0), smooth=False, id="special"),
    ]  # fmt: skip


def _clip() -> list[Sample]:
    x = values((2, 3))
    return [
        Sample((x, -0.5, 0.5)), Sample((x, np.array([-1.0, -0.3, 0.2]), np.array([[0.5], [0.7]]))),
        Sample((x, 0.5, -0.5), id="crossed"), Sample((np.arange(6), 1, 4), smooth=False),
        Sample((x.astype(np.float32), 0, 1.0)), Sample((SPECIAL, -1.0, np.inf), smooth=False, id="special"),
    ]  # fmt: skip


def _cast() -> list[Sample]:
    x = values((2, 3), 0, 9)
    samples = [Sample((x,), {"dtype": np.dtype(d)}) for d in (np.float32, np.int64, np.uint8, np.complex128, bool)]
    samples += [Sample((np.array([0, 1, 2]),), {"dtype": np.dtype(d)}) for d in (float, np.float32, np.int8, bool)]
    samples += [Sample((y,), {"dtype": np.dtype(float)}) for y in (x + 1j, x.astype(np.float32))]
    return [Sample(s.args, s.attrs, smooth=s.attrs["dtype"].itemsize >= 8) for s in samples]


def _python_number() -> list[Sample]:
    return [Sample((np.array(3),))]


SAMPLES: dict[str, Callable[[], list[Sample]]] = {
    **{name: (lambda name=name: _unary(name)) for name in UNARY},
    **{name: (lambda name=name: _binary(name)) for name in BINARY},
    **{name: (lambda name=name: _predicate_1(name)) for name in PREDICATES_1},
    **{name: (lambda name=name: _predicate_2(name)) for name in PREDICATES_2},
    "left_shift": _shifts, "right_shift": _shifts, "where": _where, "clip": _clip, "cast": _cast,
    "python_number": _python_number,
}  # fmt: skip
