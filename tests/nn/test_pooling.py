"""Pooling against loops over windows."""

import numpy as np
import pytest

import tracegrad as tg
import tracegrad.nn.functional as F
from tests.nn.checks import check, numbers, values
from tracegrad import nn


def windows(size, kernel, stride, padding, dilation=1, ceil=False):
    """Per window the places it covers, some of them in the padding."""
    found, start = [], -padding
    while True:
        places = start + dilation * np.arange(kernel)
        if ceil and start >= size:
            break
        if not ceil and places[-1] >= size + padding:
            break
        if ceil and start >= size + padding:
            break
        found.append(places)
        if places[-1] >= size + padding - 1:
            break
        start += stride
    return found


def pooled(x, combine, *settings, **options):
    """`combine(values, places)` over the windows of the last axis, where `places` are all, also in the padding."""
    out = []
    for places in windows(x.shape[-1], *settings, **options):
        inside = places[(places >= 0) & (places < x.shape[-1])]
        out.append(combine(x[..., inside], places))
    return np.stack(out, -1)


CASES = [(2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 1), (4, 3, 2)]


@pytest.mark.parametrize(("kernel", "stride", "padding"), CASES)
@pytest.mark.parametrize("ceil", [False, True])
def test_one_axis(kernel, stride, padding, ceil):
    x = values(2, 3, 10)
    settings = (kernel, stride, padding)
    expected = pooled(x, lambda v, _: v.max(-1), *settings, ceil=ceil)
    np.testing.assert_array_equal(numbers(F.max_pool1d(x, *settings, ceil_mode=ceil)), expected)

    def mean(v, places):  # what lies in the padding counts, what a last window has beyond it does not
        return v.sum(-1) / (places < 10 + padding).sum()

    found = numbers(F.avg_pool1d(x, *settings, ceil_mode=ceil))
    np.testing.assert_allclose(found, pooled(x, mean, *settings, ceil=ceil), rtol=1e-12)
    found = numbers(F.avg_pool1d(x[0], *settings, ceil_mode=ceil, count_include_pad=False))
    np.testing.assert_allclose(found, pooled(x[0], lambda v, _: v.mean(-1), *settings, ceil=ceil), rtol=1e-12)


def test_two_axes_are_one_after_the_other():
    x = values(2, 3, 9, 8)
    found = numbers(F.max_pool2d(tg.tensor(x), (3, 2), (2, 1), (1, 0), (1, 2)))
    rows = pooled(np.swapaxes(x, 2, 3), lambda v, _: v.max(-1), 3, 2, 1)
    np.testing.assert_array_equal(found, pooled(np.swapaxes(rows, 2, 3), lambda v, _: v.max(-1), 2, 1, 0, 2))
    found = numbers(F.avg_pool2d(tg.tensor(x), (3, 2)))
    expected = x.reshape(2, 3, 3, 3, 4, 2).mean((3, 5))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(numbers(F.avg_pool2d(x, (3, 2), divisor_override=2)), expected * 3, rtol=1e-12)


def test_where_the_maxima_lie():
    x = values(2, 3, 7, 6)
    for settings in ((2, 2, 0), (3, 2, 1), (2, 1, 1)):
        top, places = F.max_pool2d(tg.tensor(x), *settings, return_indices=True)
        flat = x.reshape(2, 3, -1)
        np.testing.assert_array_equal(
            np.take_along_axis(flat, numbers(places).reshape(2, 3, -1), 2), numbers(top).reshape(2, 3, -1)
        )
    top, places = F.max_pool1d(tg.tensor(x[:, :, 0]), 3, dilation=2, return_indices=True)
    np.testing.assert_array_equal(np.take_along_axis(x[:, :, 0], numbers(places), 2), numbers(top))


def test_integers_and_infinities_have_maxima():
    assert numbers(F.max_pool1d(tg.tensor([[-5, -3, -4]]), 2, padding=1)).tolist() == [[-5, -3]]
    assert numbers(F.max_pool1d(tg.tensor([[-np.inf, -np.inf, np.nan, 1.0]]), 2)).tolist()[0][0] == -np.inf
    assert np.isnan(numbers(F.max_pool1d(tg.tensor([[0.0, np.nan]]), 2))).all()


def test_equal_maxima_share_the_gradient():
    x = tg.tensor([[1.0, 1.0, 0.0, 2.0]], requires_grad=True)
    F.max_pool1d(x, 2).sum().backward()
    assert numbers(x.grad).tolist() == [[0.5, 0.5, 0.0, 1.0]]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_adaptive_pooling(size):
    x = values(2, 3, 8)
    parts = [x[..., i * 8 // size : -(-(i + 1) * 8 // size)] for i in range(size)]
    np.testing.assert_allclose(numbers(F.adaptive_avg_pool1d(x, size)), np.stack([p.mean(-1) for p in parts], -1))
    np.testing.assert_array_equal(numbers(F.adaptive_max_pool1d(x, size)), np.stack([p.max(-1) for p in parts], -1))


def test_adaptive_pooling_of_two_axes():
    x = values(2, 3, 6, 4)
    np.testing.assert_allclose(numbers(nn.AdaptiveAvgPool2d((2, None))(x)), x.reshape(2, 3, 2, 3, 4).mean(3))
    np.testing.assert_allclose(numbers(nn.AdaptiveAvgPool2d(1)(x)), x.mean((2, 3), keepdims=True))
    np.testing.assert_array_equal(numbers(nn.AdaptiveMaxPool2d((3, 2))(x)), x.reshape(2, 3, 3, 2, 2, 2).max((3, 5)))


def test_derivatives_and_compiled_values():
    def some(x):
        return (
            F.max_pool2d(x, 2, 1, 1),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            F.adaptive_avg_pool2d(x, (2, 1)),
            F.adaptive_max_pool2d(x, 2),
            F.max_pool1d(x[0], 3, 2, ceil_mode=True),
        )

    check(some, values(1, 2, 3, 5))


def test_reprs():
    assert repr(nn.MaxPool2d(2)) == "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"
    assert repr(nn.AvgPool1d(2)) == "AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))"
    assert repr(nn.AvgPool2d(2, 1)) == "AvgPool2d(kernel_size=2, stride=1, padding=0)"
    assert repr(nn.AdaptiveAvgPool2d((1, None))) == "AdaptiveAvgPool2d(output_size=(1, None))"
    assert nn.MaxPool1d(2)(tg.ones(1, 4)).shape == nn.AvgPool1d(2)(tg.ones(1, 4)).shape == (1, 2)
    assert nn.AvgPool2d(2)(tg.ones(1, 4, 4)).shape == (1, 2, 2)
    assert nn.AdaptiveAvgPool1d(3)(tg.ones(1, 4)).shape == nn.AdaptiveMaxPool1d(3)(tg.ones(1, 4)).shape == (1, 3)


def test_what_does_not_fit():
    with pytest.raises(ValueError, match="max_pool2d takes an input of 3 or 4 dimensions"):
        nn.MaxPool2d(2)(tg.ones(2, 2))
    with pytest.raises(ValueError, match="a window that reaches over 5 does not fit"):
        nn.MaxPool1d(5)(tg.ones(1, 4))
    with pytest.raises(TypeError, match="padding 2 exceeds half of the kernel"):
        nn.AvgPool1d(3, padding=2)(tg.ones(1, 4))
