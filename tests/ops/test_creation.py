"""New Tensors: shapes, dtypes, requires_grad, what is shared and what is copied, and what a trace makes of them."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import ArgumentError, AutogradError, DTypeError
from tracegrad.ops.creation import from_numpy


def test_sizes_one_by_one_or_as_a_tuple():
    for made in (tg.zeros(2, 3), tg.zeros((2, 3)), tg.zeros([2, 3]), tg.zeros(shape=(2, 3))):
        assert made.shape == (2, 3) and made.dtype == np.float64 and not made.requires_grad
    assert tg.ones(2, dtype=np.float32, requires_grad=True).requires_grad
    assert tg.full((2,), 3).dtype == np.int64 and tg.full((2,), 1.5).tolist() == [1.5, 1.5]
    assert tg.eye(2).tolist() == [[1, 0], [0, 1]]
    assert tg.arange(3).tolist() == [0, 1, 2] and tg.arange(1, 2, 0.5).tolist() == [1, 1.5]
    assert tg.linspace(0, 1, 3).tolist() == [0, 0.5, 1]
    assert tg.zeros_like(tg.ones(2, dtype=np.float32)).dtype == np.float32
    with pytest.raises(ArgumentError, match="shape is missing"):
        tg.zeros()


def test_tensor_copies_and_as_tensor_shares():
    array = np.array([1.0, 2.0])
    copied, shared, also = tg.tensor(array), tg.as_tensor(array), from_numpy(array)
    array[0] = 5
    assert (copied.tolist(), shared.tolist(), also.tolist()) == ([1, 2], [5, 2], [5, 2])
    assert tg.as_tensor(shared) is shared
    assert tg.as_tensor([1, 2], dtype=np.float32).dtype == np.float32


def test_dtype_of_python_numbers_and_foreign_byte_order():
    assert tg.tensor(1.5).dtype == np.float64 and tg.tensor([1, 2]).dtype == np.int64
    assert tg.tensor([True]).dtype == bool and tg.tensor(1j).dtype == np.complex128
    swapped = np.array([1.0, 2.0]).astype(">f8")
    assert tg.tensor(swapped).dtype == np.dtype("<f8") and tg.as_tensor(swapped).tolist() == [1, 2]


def test_refusals():
    with pytest.raises(AutogradError, match="gradient of this Tensor would be lost"):
        tg.tensor(tg.ones(2, requires_grad=True))
    with pytest.raises(AutogradError, match="cannot require gradients"):
        tg.tensor([1, 2], requires_grad=True)
    with pytest.raises(DTypeError, match="not a dtype"):
        tg.zeros(2, dtype="nonsense")
    with pytest.raises(DTypeError):
        tg.tensor([object()])
    with pytest.raises(ArgumentError, match="from_numpy"):
        from_numpy([1.0])


def test_random_numbers_repeat_after_manual_seed():
    tg.manual_seed(3)
    first = [tg.rand(2, 2), tg.randn(3), tg.randint(0, 9, (4,)), tg.randperm(5)]
    tg.manual_seed(3)
    again = [tg.rand(2, 2), tg.randn(3), tg.randint(0, 9, (4,)), tg.randperm(5)]
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert sorted(first[3].tolist()) == [0, 1, 2, 3, 4]
    assert ((first[0].numpy() >= 0) & (first[0].numpy() < 1)).all()
    assert tg.randn(2, requires_grad=True).requires_grad


def test_constants_inside_compiled_functions():
    f = tg.value_and_grad(lambda x: np.sum(x * tg.arange(3) + tg.ones(3) * tg.full((3,), x[0]) + np.zeros_like(x)))
    value, gradient = f(np.array([1.0, 2.0, 3.0]))
    assert value == 8 + 3
    np.testing.assert_array_equal(gradient, [3, 1, 2])


def test_constants_as_results_of_compiled_functions():
    results = tg.jit(lambda x: (x, tg.arange(4), tg.ones((2, 2)), tg.full((), 3)))(np.ones(4))
    for found, expected in zip(results, (np.ones(4), np.arange(4), np.ones((2, 2)), 3), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_linspace_between_differentiated_ends():
    f = tg.grad(lambda ends: np.sum(np.linspace(ends[0], ends[1], 5) * np.arange(5)))
    # Number i is a (1 - i/4) + b i/4; the sums over i times i are 10 - 7.5 and 30/4.
    np.testing.assert_allclose(f(np.array([2.0, 7.0])), [2.5, 7.5])


def test_linspace_ends_are_exact():
    low, high = 0.1, 0.7
    for num in (2, 3, 7, 50):
        found = np.linspace(tg.tensor(low), tg.tensor(high), num).tolist()
        assert (found[0], found[-1], len(found)) == (low, high, num)
    assert np.linspace(tg.tensor(1.0), tg.tensor(2.0), 1).tolist() == [1]
    assert np.linspace(tg.tensor(1.0), tg.tensor(2.0), 0).tolist() == []
    values, step = np.linspace(tg.tensor(1.0), tg.tensor(2.0), 3, retstep=True)
    assert values.tolist() == [1, 1.5, 2] and float(step) == 0.5
