"""Integers of few bits in compiled code: they wrap where NumPy's do, and no later."""

import numpy as np
import pytest

import tracegrad as tg

BYTES = np.array([0, 1, 2, 3, 127, 128, 129, 200, 255], np.uint8)


def same_as_numpy(f, *args):
    found, expected = np.asarray(tg.jit(f)(*args)), np.asarray(f(*args))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "f",
    [
        lambda a: -a / 2,
        lambda a: 0.5 * -a,
        lambda a: 3.0 / -(a | 1),
        lambda a: np.trunc(-np.square(a) / 2.0),
        lambda a: (-a) * np.float32(3),
        lambda a: (-a) / -2.0,
        lambda a: np.abs(-a) * 2.0,
        lambda a: np.square(np.abs(a)) / 2,
        lambda a: 5.0 - (-a),
        lambda a: 5.0 + (-a),
        lambda a: (a * a) * 0.5,
        lambda a: (a + a) / 4,
        lambda a: np.power(a, 2) / 4,
        lambda a: -(a * 2.0),
    ],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint32, np.int16, np.int64])
def test_what_wraps_before_it_widens(f, dtype):
    with np.errstate(all="ignore"):
        same_as_numpy(f, BYTES.astype(dtype))


def test_a_sum_in_a_written_slice_has_the_dtype_of_the_whole():
    def f(x, v, w):
        a, b = np.copy(x), np.zeros_like(v, shape=9)
        a[1::2] = w
        b[1::2] = v
        return a + b

    v, w = np.array([100, 1, -100, 127], np.int8), np.array([100, 2, -100, 1], np.int8)
    same_as_numpy(f, np.arange(9, dtype=np.int16), v, w)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_negative_powers_of_integers_are_refused(dtype):
    a, b = np.array([2, 3, -1], np.int32), np.array([1, 0, 2], dtype)

    def scanned(a, b):
        return tg.scan(lambda carry, x: (carry + x, x**b), np.int64(0) * a, np.stack([a, a]))[1]

    functions = [np.power, lambda a, b: np.sum(a**b) * 0.5, lambda a, b: 2**b, lambda a, b: (a > 0) ** b]
    for f in functions:
        same_as_numpy(f, a, b)
        with pytest.raises(ValueError, match="Integers to negative integer powers are not allowed"):
            tg.jit(f)(a, -b)
    np.testing.assert_array_equal(tg.jit(scanned)(a, b), [a**b, a**b])
    with pytest.raises(ValueError, match="Integers to negative integer powers are not allowed"):
        tg.jit(scanned)(a, -b)


def test_powers_of_integers_that_cannot_be_negative():
    for a in (np.array([2, 3, -1]), np.array([2, 3, 250], np.uint8)):
        for exponent in (0, 1, 3, np.int64(3), np.uint8(5), np.array([0, 2, 3], np.uint8)):
            same_as_numpy(lambda a, e=exponent: a**e, a)


def test_powers_of_integers_side_by_side():
    a, b = np.array([[2, 3], [4, -5]]), np.array([[2, 0], [1, 3]])
    np.testing.assert_array_equal(tg.vmap(np.power)(a, b), a**b)
    np.testing.assert_array_equal(tg.jit(tg.vmap(np.power))(a, b), a**b)


@pytest.mark.parametrize("compare", [np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal])
def test_uint64_compared_with_signed_integers(compare):
    a, b = np.array([2**53, -1, 5]), np.array([2**53 + 1, 2**64 - 1, 5], np.uint64)
    for signed in (a, a.astype(np.int8)):
        same_as_numpy(compare, signed, b)
        same_as_numpy(compare, b, signed)
