"""NumPy's functions that write into their first argument: casts, and what NumPy refuses. Eager and compiled."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.ops.functions import assert_same
from tracegrad.errors import DTypeError

I, F = np.array([5, 0, -3, 7]), np.array([0.7, -1.7, 2.7, 0.4])
HOLES = np.array([1.0, np.nan, np.inf, -np.inf])


@pytest.fixture(params=["eager", "compiled"])
def mode(request: pytest.FixtureRequest):
    with tg.eager() if request.param == "eager" else contextlib.nullcontext(), np.errstate(all="ignore"):
        yield request.param


def after(write: Any, *args: Any) -> Any:
    """What `write` leaves in its first argument."""
    write(*args)
    return args[0]


def check(write: Any, *args: Any) -> None:
    """Like NumPy: what a compiled function returns, and what eager Tensors are left with."""
    expected = after(write, *copy.deepcopy(args))
    assert_same(tg.jit(lambda *given: after(write, *given))(*copy.deepcopy(args)), expected)
    tensors = [tg.tensor(a.copy()) if isinstance(a, np.ndarray) else a for a in args]
    assert_same(after(write, *tensors), expected)


@pytest.mark.parametrize("ufunc", [np.add, np.subtract])
@pytest.mark.parametrize("target", [I, I.astype("i4"), I.astype("u1"), F, I > 0], ids=lambda a: str(a.dtype))
def test_at_casts_as_numpy(ufunc: np.ufunc, target: np.ndarray, mode: str):
    def write(a: Any, b: Any) -> None:
        ufunc.at(a, [0, 0, 1, -1], b)

    for values in (F, I, I.astype("u1"), I.astype("u8"), F.astype("f4"), I > 0, -0.7, 3):
        if not (ufunc is np.subtract and target.dtype == bool and np.asarray(values).dtype == bool):
            check(write, target, values)


def test_at_of_masks_slices_and_rows(mode: str):
    matrix = np.arange(12).reshape(4, 3)
    check(lambda a, b: np.add.at(a, a > 4, b), matrix, -0.6)
    check(lambda a, b: np.add.at(a, (slice(None), [0, 0]), b), matrix, F[:, None] * [1.0, -1.0])
    check(lambda a, b: np.subtract.at(a, [3, 3], b), matrix, F[:3])
    check(lambda a, b: np.add.at(a, 1, b), matrix, F[:3])


def test_gradient_of_subtract_at():
    def loss(x: Any) -> Any:
        y = x * 1.0
        np.subtract.at(y, [0, 0, 2], x[:3])
        return np.sum(y**2)

    y = F - np.array([F[0] + F[1], 0, F[2], 0])
    wanted = 2 * y - 2 * np.array([y[0], y[0], y[2], 0])
    np.testing.assert_allclose(tg.grad(loss)(F), wanted)


@pytest.mark.parametrize(
    "values", [1.7, F, np.float64(2), [1.5, 2.0, 3.0, 4.0], F * 1j], ids=lambda v: type(v).__name__
)
def test_copyto_refuses_other_kinds(values: Any, mode: str):
    def write(a: Any, b: Any) -> None:
        np.copyto(a, b)

    with pytest.raises(TypeError):
        write(I.copy(), values)
    with pytest.raises(DTypeError, match=r"np.copyto of .* into an array of int64") as caught:
        tg.jit(lambda a: after(write, a, values))(I.copy())
    assert "astype('int64')" in str(caught.value)
    with pytest.raises(DTypeError):
        write(tg.tensor(I.copy()), values)


def test_copyto_casts_what_numpy_casts(mode: str):
    for target, values in (
        (I.astype("i4"), I), (I.astype("u1"), 3), (F.astype("f4"), F), (F.astype("f4"), 0.1), (F, I), (F, True),
    ):  # fmt: skip
        check(np.copyto, target, values)
    check(lambda a, b: np.copyto(a, b, casting="unsafe"), I, F)
    check(lambda a, b: np.copyto(a, b, where=[True, False, True, False]), F, I)
    with pytest.raises(DTypeError, match="casting='safe'"):
        np.copyto(tg.tensor(F.astype("f4")), F, casting="safe")


def test_putmask_casts_safely(mode: str):
    mask = [True, False, True, False]
    for target, values in ((I, 1.7), (F, I), (F.astype("f4"), 0.1), (I, [1.5, 2.5])):
        check(lambda a, b: np.putmask(a, mask, b), target, values)
    with pytest.raises(DTypeError, match="putmask"):
        np.putmask(tg.tensor(I.copy()), mask, F)


def test_nan_to_num_in_place(mode: str):
    check(lambda a: np.nan_to_num(a, copy=False), HOLES)
    check(lambda a: np.nan_to_num(a, copy=False), np.array([1 + 1j, complex(np.nan, 2), complex(3, np.inf)]))
    check(lambda a: np.nan_to_num(a[1:3], copy=False, nan=7.0, posinf=8), HOLES)
    check(lambda a: np.nan_to_num(a, copy=False), I)
    x = tg.tensor(HOLES.copy())
    assert np.nan_to_num(x, copy=False) is x
    assert_same(np.nan_to_num(tg.tensor(HOLES)), np.nan_to_num(HOLES))


def test_gradient_of_nan_to_num_in_place(mode: str):
    def loss(x: Any) -> Any:
        y = x * 2.0
        np.nan_to_num(y, copy=False)
        return np.sum(y[:2] ** 2)

    np.testing.assert_allclose(tg.grad(loss)(np.array([3.0, np.nan, 1.0])), [24, 0, 0])
