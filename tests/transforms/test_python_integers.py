"""Python integers beside integer arrays of which the dtype cannot hold them: compared exactly, else refused."""

import operator

import numpy as np
import pytest

import tracegrad as tg

ARRAYS = [
    np.array([0, 1, 44, 100, 255], np.uint8),
    np.array([-128, -1, 0, 44, 127], np.int8),
    np.array([-(2**31), -7, 5, 2**31 - 1], np.int32),
    np.array([-(2**63), -7, 5, 2**63 - 1]),
    np.array([0, 5, 2**63, 2**64 - 1], np.uint64),
]
NUMBERS = [3, 300, -1, -129, 2**31, -(2**63), 2**63 - 1, 2**63, 2**64, -(2**63) - 1]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
ARITHMETIC = [
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.and_, operator.or_,
    operator.xor, np.maximum, np.minimum, np.fmax, np.fmod, divmod,
]  # fmt: skip
dtypes = pytest.mark.parametrize("a", ARRAYS, ids=lambda a: a.dtype.name)


def outcome(f, *args):
    """The arrays a call returns, or the OverflowError it raises."""
    try:
        return f(*args)
    except OverflowError as error:
        return str(error)


def same_outcome(found, expected):
    if isinstance(expected, str) or isinstance(found, str):
        assert isinstance(found, str) and found == expected
    else:
        np.testing.assert_array_equal(found, expected)


def check(f, *args):
    """A function, compiled, does what NumPy does. Returns whether that is an error."""
    with np.errstate(all="ignore"):
        found, expected = outcome(tg.jit(f), *args), outcome(f, *args)
    assert isinstance(found, str) == isinstance(expected, str), found
    if isinstance(expected, str):
        assert found == expected
        return True
    for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(one, other)
    return False


@dtypes
@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda f: f.__name__)
def test_comparisons_are_exact(a, compare):
    assert not check(lambda a: tuple(compare(a, k) for k in NUMBERS), a)
    assert not check(lambda a: tuple(compare(k, a) for k in NUMBERS), a)


@dtypes
def test_a_number_that_is_an_argument(a):
    for number in NUMBERS:
        check(lambda a, k: a < k, a, number)
        check(lambda a, k: a + k, a, number)


def test_comparisons_beside_floats_and_bools():
    for a in (np.array([1.5, 1e30]), np.array([1.5, -3], np.float32), np.array([True, False])):
        for number in (300, -1, 2**31):
            assert not check(lambda a, k=number: (a < k, a == k, k <= a), a)
    assert not check(lambda x: (x < 2**70, x * 2**64, x + 2**63), np.array([1.5, 1e30]))
    assert not check(lambda a: (a / 2**64, 2**63 / a), np.array([3, 5], np.uint8))


def test_choices_by_comparison():
    check(lambda a: np.where(a < 256, 1.0, 0.0), ARRAYS[0])
    check(lambda a: np.logical_and(a, 256), ARRAYS[0])
    check(lambda a: np.isin(a, 300), ARRAYS[0])
    check(lambda a: np.sum(np.where(a > -1, a, 0)), ARRAYS[0].reshape(1, 5))


@dtypes
@pytest.mark.parametrize("f", ARITHMETIC, ids=lambda f: f.__name__)
def test_arithmetic_refuses_what_does_not_fit(a, f):
    for number in NUMBERS:
        check(lambda a, k=number: f(a, k), a)
        check(lambda a, k=number: f(k, a), a | 1)


def test_which_numbers_are_refused():
    u = ARRAYS[0]
    for number in (300, -1, 256, 2**63):
        with pytest.raises(OverflowError):
            tg.jit(lambda a, k: a + k)(u, number)
    with pytest.raises(OverflowError, match="Python integer 300 out of bounds for uint8"):
        tg.jit(lambda a: a**300)(u)
    np.testing.assert_array_equal(tg.jit(lambda a: a + 255)(u), u + 255)


@dtypes
@pytest.mark.parametrize("compiled", [True, False])
def test_bounds_that_do_not_fit_are_absent(a, compiled):
    run = tg.jit if compiled else lambda f: lambda a: np.asarray(f(tg.tensor(a)))
    for low in (None, *NUMBERS):
        for high in (None, *NUMBERS):
            expected, found = outcome(np.clip, a, low, high), outcome(run(lambda a, b=(low, high): np.clip(a, *b)), a)
            same_outcome(found, expected)


@dtypes
@pytest.mark.parametrize("compiled", [True, False])
def test_first_values_and_written_numbers_are_refused(a, compiled):
    def written(a, k):
        a = +a
        a[0] = k
        return a

    def filled(a, k):
        a = +a
        a[...] = k
        return a

    run = tg.jit if compiled else lambda f: lambda a: np.asarray(f(tg.tensor(a)))
    for number in NUMBERS:
        for f in (
            lambda a, k: np.max(a, initial=k),
            lambda a, k: np.min(a, initial=k),
            lambda a, k: np.sum(a, initial=k),
            lambda a, k: np.full_like(a, k),
            written,
            filled,
        ):
            expected, found = outcome(f, a, number), outcome(run(lambda a, f=f, k=number: f(a, k)), a)
            same_outcome(found, expected)


def test_numbers_that_change_in_a_loop():
    def f(a):
        count, total = np.zeros(a.shape, np.int64), a * 0
        for k in range(-40, 400):
            count = count + (a < k) * 2 - (k == a)
        for k in range(200):
            total = total * 3 + (a ^ k)
        return count, total

    check(f, ARRAYS[0])
    check(f, ARRAYS[2])
    check(f, ARRAYS[4])
