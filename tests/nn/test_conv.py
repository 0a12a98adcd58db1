"""Convolutions against scipy.signal.correlate, and transposes against the definition of one."""

import itertools
import math

import numpy as np
import pytest
import scipy.signal

import tracegrad as tg
import tracegrad.nn.functional as F
from tests.nn.checks import check, check_module, filled, numbers, shapes, values
from tracegrad import nn


def correlated(x, w, b, stride=1, padding=0, dilation=1, groups=1):
    """The convolution of neural networks by SciPy, channel by channel; all settings are one number for all axes."""
    n = w.ndim - 2
    spread = np.zeros((*w.shape[:2], *(dilation * (k - 1) + 1 for k in w.shape[2:])))
    spread[(..., *(slice(None, None, dilation),) * n)] = w
    x = np.pad(x, [(0, 0), (0, 0)] + [(padding, padding)] * n)
    per_in, per_out = w.shape[1], w.shape[0] // groups
    rows = []
    for sample in x:
        outs = []
        for o in range(w.shape[0]):
            first = o // per_out * per_in
            parts = (scipy.signal.correlate(sample[first + c], spread[o, c], "valid") for c in range(per_in))
            outs.append(sum(parts)[(slice(None, None, stride),) * n] + b[o])
        rows.append(outs)
    return np.array(rows)


SETTINGS = [
    {}, {"stride": 2}, {"padding": 2}, {"dilation": 2}, {"groups": 2}, {"groups": 4},
    {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}, {"stride": 3, "padding": 1},
]  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize(("space", "kernel"), [((9,), (3,)), ((7, 6), (3, 2)), ((5, 5), (1, 1))])
def test_values(space, kernel, settings):
    x, w, b = values(2, 4, *space), values(4, 4 // settings.get("groups", 1), *kernel), values(4)
    function = F.conv1d if len(space) == 1 else F.conv2d
    expected = correlated(x, w, b, **settings)
    np.testing.assert_allclose(numbers(function(tg.tensor(x), w, b, **settings)), expected, atol=1e-12)
    np.testing.assert_allclose(numbers(function(x[0], w, b, **settings)), expected[0], atol=1e-12)
    low = function(*(tg.tensor(a.astype(np.float32)) for a in (x, w, b)), **settings)
    assert low.dtype == np.float32
    np.testing.assert_allclose(numbers(low), expected, rtol=1e-4, atol=1e-4)


def test_settings_per_axis_and_padding_by_name():
    x, w = values(1, 2, 7, 8), values(3, 2, 3, 2)
    two = numbers(F.conv2d(x, tg.tensor(w), None, (2, 1), (0, 1), (1, 2)))
    spread = np.zeros((3, 2, 3, 3))
    spread[..., ::2] = w
    padded = np.pad(x, [(0, 0), (0, 0), (0, 0), (1, 1)])
    np.testing.assert_allclose(two, correlated(padded, spread, np.zeros(3))[:, :, ::2], atol=1e-12)
    same = numbers(F.conv2d(x, tg.tensor(w), padding="same"))
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (0, 1)])
    np.testing.assert_allclose(same, correlated(padded, w, np.zeros(3)), atol=1e-12)
    assert F.conv2d(x, tg.tensor(w), padding="valid").shape == (1, 3, 5, 7)
    with pytest.raises(TypeError, match="padding='same' is for stride 1 only"):
        F.conv2d(x, tg.tensor(w), stride=2, padding="same")


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv1d(2, 4, 2, stride=2, padding=1, groups=2), nn.Conv2d(2, 2, (2, 3), stride=2, padding=1),
        nn.ConvTranspose1d(2, 2, 2, stride=2), nn.ConvTranspose2d(2, 2, 2, stride=2, padding=1, output_padding=1),
    ],
    ids=lambda m: type(m).__name__,
)  # fmt: skip
def test_derivatives(layer):
    space = (4,) if "1d" in type(layer).__name__ else (3, 4)
    check_module(filled(layer), values(1, 2, *space))


def test_derivatives_of_grouped_and_dilated_convolutions():
    def both(x, w, v):
        return F.conv1d(x, w, dilation=2, groups=2), F.conv_transpose1d(x, v, dilation=2, groups=2)

    check(both, values(1, 4, 5), values(2, 2, 2), values(4, 1, 2))


@pytest.mark.parametrize(
    ("settings", "extra"),
    [({}, 0), ({"stride": 2, "padding": 1}, 1), ({"dilation": 2, "padding": 1}, 0), ({"groups": 2, "stride": 2}, 0)],
    ids=str,
)
def test_a_transpose_is_one(settings, extra):
    """<conv(x), y> = <x, conv_transpose(y)> for all x and y."""
    for space, kernel in (((8,), (3,)), ((8, 6), (3, 2))):
        n = len(space)
        conv, transpose = (F.conv1d, F.conv_transpose1d) if n == 1 else (F.conv2d, F.conv_transpose2d)
        x, w = values(2, 4, *space), values(6, 4 // settings.get("groups", 1), *kernel)
        y = numbers(conv(x, tg.tensor(w), **settings))
        z = values(*y.shape, seed=1)
        missing = []  # the places at the end that no window reaches
        for size, k in zip(space, kernel, strict=True):
            reach = settings.get("dilation", 1) * (k - 1) + 1
            missing.append((size + 2 * settings.get("padding", 0) - reach) % settings.get("stride", 1))
        back = numbers(transpose(z, tg.tensor(w), **settings, output_padding=tuple(missing)))
        assert back.shape == x.shape
        np.testing.assert_allclose((y * z).sum(), (x * back).sum(), rtol=1e-12)


def test_padding_modes():
    x = values(2, 3, 5, 4)
    for mode, of_numpy in (("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")):
        layer = filled(nn.Conv2d(3, 2, 3, padding=(1, 2), padding_mode=mode))
        padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (2, 2)], mode=of_numpy)
        expected = correlated(padded, numbers(layer.weight), numbers(layer.bias))
        np.testing.assert_allclose(numbers(layer(tg.tensor(x))), expected, atol=1e-12)


def test_states_and_reprs():
    layer = nn.Conv2d(4, 6, (3, 2), stride=2, padding=1, groups=2, bias=False)
    assert shapes(layer) == {"weight": (6, 2, 3, 2)}
    assert repr(layer) == "Conv2d(4, 6, kernel_size=(3, 2), stride=(2, 2), padding=(1, 1), groups=2, bias=False)"
    layer = nn.ConvTranspose2d(4, 6, 2, stride=2, output_padding=1, groups=2)
    assert shapes(layer) == {"weight": (4, 3, 2, 2), "bias": (6,)}
    assert repr(layer) == "ConvTranspose2d(4, 6, kernel_size=(2, 2), stride=(2, 2), output_padding=(1, 1), groups=2)"
    assert repr(nn.Conv1d(1, 2, 3, padding="same", padding_mode="circular")) == (
        "Conv1d(1, 2, kernel_size=(3,), stride=(1,), padding=same, padding_mode=circular)"
    )


def test_starting_values():
    tg.manual_seed(0)
    layer = nn.Conv2d(16, 64, 3)
    bound = 1 / math.sqrt(16 * 9)
    assert np.abs(numbers(layer.weight)).max() <= bound and np.abs(numbers(layer.bias)).max() <= bound
    np.testing.assert_allclose(numbers(layer.weight).std(), bound / math.sqrt(3), rtol=0.03)


def test_what_does_not_fit():
    layer = nn.Conv2d(3, 4, 3)
    with pytest.raises(ValueError, match=r"Conv2d\(3, 4, …\) takes an input of 3 or 4 dimensions with 3 channels"):
        layer(tg.ones(1, 2, 5, 5))
    with pytest.raises(ValueError, match=r"Conv2d.*not one of shape \(3, 5\)"):
        layer(tg.ones(3, 5))
    with pytest.raises(ValueError, match=r"a kernel that reaches over \(3, 3\) does not fit into .* size \(2, 5\)"):
        layer(tg.ones(1, 3, 2, 5))
    with pytest.raises(TypeError, match="conv2d takes floats, not int64"):
        layer(np.ones((1, 3, 5, 5), int))
    with pytest.raises(TypeError, match="must be multiples of groups 2"):
        nn.Conv2d(3, 4, 3, groups=2)
    for options in ({"kernel_size": 0}, {"kernel_size": (1, 2, 3)}, {"kernel_size": 2, "stride": 0}):
        with pytest.raises(TypeError, match="integer of at least 1"):
            nn.Conv2d(3, 4, **options)
    with pytest.raises(TypeError, match=r"output_padding \(2, 2\) must be smaller than stride or dilation"):
        nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=2)(tg.ones(1, 3, 2, 2))


def test_a_batch_of_none():
    assert nn.Conv2d(3, 4, 3)(tg.ones(0, 3, 5, 5)).shape == (0, 4, 3, 3)


def test_every_offset_of_a_kernel_sees_its_element():
    x = np.arange(20.0).reshape(1, 1, 4, 5)
    for i, j in itertools.product(range(2), range(3)):
        w = np.zeros((1, 1, 2, 3))
        w[0, 0, i, j] = 1
        np.testing.assert_array_equal(numbers(F.conv2d(tg.tensor(x), w))[0, 0], x[0, 0, i : i + 3, j : j + 3])
