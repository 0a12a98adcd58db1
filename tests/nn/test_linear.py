"""Linear, Bilinear, Identity, Flatten, Unflatten."""

import math

import numpy as np
import pytest

import tracegrad as tg
import tracegrad.nn.functional as F
from tests.nn.checks import check_module, filled, numbers, shapes, values
from tracegrad import nn


def test_linear_is_an_affine_map_of_the_last_axis():
    layer = filled(nn.Linear(3, 2))
    x = values(4, 5, 3)
    expected = np.einsum("abi,oi->abo", x, numbers(layer.weight)) + numbers(layer.bias)
    np.testing.assert_allclose(numbers(layer(tg.tensor(x))), expected)
    np.testing.assert_allclose(numbers(layer(x[0, 0])), expected[0, 0])
    assert shapes(layer) == {"weight": (2, 3), "bias": (2,)}
    assert repr(layer) == "Linear(in_features=3, out_features=2, bias=True)"
    check_module(layer, x[0])


def test_linear_without_bias_and_in_single_precision():
    layer = nn.Linear(3, 2, bias=False, dtype=np.float32)
    assert repr(layer) == "Linear(in_features=3, out_features=2, bias=False)"
    assert list(shapes(layer)) == ["weight"] and layer.bias is None
    assert layer(tg.ones(4, 3, dtype=np.float32)).dtype == np.float32


def test_starting_values_lie_within_one_over_the_root_of_the_fan_in():
    tg.manual_seed(0)
    for layer, fan in ((nn.Linear(100, 300), 100), (nn.Bilinear(100, 20, 10), 100)):
        w = numbers(layer.weight)
        assert np.abs(w).max() <= 1 / math.sqrt(fan) and abs(w.mean()) < 0.002
        np.testing.assert_allclose(w.std(), 1 / math.sqrt(3 * fan), rtol=0.02)
        assert np.abs(numbers(layer.bias)).max() <= 1 / math.sqrt(fan)


def test_what_does_not_fit_a_linear_layer():
    layer = nn.Linear(3, 2)
    with pytest.raises(ValueError, match=r"linear: an input of shape \(4,\) does not fit a weight of shape \(2, 3\)"):
        layer(tg.ones(4))
    with pytest.raises(TypeError, match="linear takes floats, not int64"):
        layer(tg.tensor([1, 2, 3]))


def test_bilinear():
    layer = filled(nn.Bilinear(3, 2, 4))
    x, y = values(5, 3), values(5, 2)
    expected = np.einsum("ni,kij,nj->nk", x, numbers(layer.weight), y) + numbers(layer.bias)
    np.testing.assert_allclose(numbers(layer(tg.tensor(x), tg.tensor(y))), expected)
    np.testing.assert_allclose(numbers(layer(x[0], y[0])), expected[0])
    assert shapes(layer) == {"weight": (4, 3, 2), "bias": (4,)}
    assert repr(layer) == "Bilinear(in1_features=3, in2_features=2, out_features=4, bias=True)"
    check_module(layer, x[:2], y[:2])
    with pytest.raises(ValueError, match="bilinear: inputs of shapes"):
        layer(tg.ones(5, 3), tg.ones(4, 2))


def test_shapes_are_changed():
    x = tg.tensor(values(2, 3, 4, 5))
    assert nn.Flatten()(x).shape == (2, 60) and nn.Flatten(0, 2)(x).shape == (24, 5)
    assert nn.Unflatten(1, (3, 1))(x).shape == (2, 3, 1, 4, 5)
    assert nn.Identity(1, b=2)(x) is x
    assert repr(nn.Flatten()) == "Flatten(start_dim=1, end_dim=-1)" and repr(nn.Identity()) == "Identity()"
    assert repr(nn.Unflatten(1, (3, 1))) == "Unflatten(dim=1, unflattened_size=(3, 1))"
    with pytest.raises(TypeError, match="start_dim 2 comes after end_dim 1"):
        nn.Flatten(2, 1)(x)
    check_module(nn.Sequential(nn.Flatten(), nn.Unflatten(1, (3, 2))), values(2, 3, 2))


def test_padding_in_all_modes():
    x = values(2, 3, 4)
    for mode, of_numpy in (("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")):
        expected = np.pad(x, [(0, 0), (1, 0), (2, 1)], mode=of_numpy)
        np.testing.assert_array_equal(numbers(F.pad(tg.tensor(x), (2, 1, 1, 0), mode)), expected)
    expected = np.pad(x, [(0, 0), (0, 0), (0, 2)], constant_values=7.0)[:, 1:, :]
    np.testing.assert_array_equal(numbers(F.pad(tg.tensor(x), (0, 2, -1, 0), value=7.0)), expected)
    with pytest.raises(ValueError, match="can add at most 3 elements to axis 2 of size 4"):
        F.pad(tg.tensor(x), (4, 0), "reflect")
    with pytest.raises(ValueError, match="3 widths"):
        F.pad(tg.tensor(x), (1, 2, 3))


def test_distances():
    x, y = values(4, 3), values(4, 3, seed=1)
    cosine = (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
    np.testing.assert_allclose(numbers(F.cosine_similarity(x, tg.tensor(y))), cosine)
    np.testing.assert_allclose(numbers(F.normalize(tg.tensor(x))), x / np.linalg.norm(x, axis=1, keepdims=True))
    np.testing.assert_allclose(numbers(F.pairwise_distance(x, tg.tensor(y))), np.linalg.norm(x - y + 1e-6, axis=1))
    zero = tg.zeros(2, 3, requires_grad=True)
    F.normalize(zero).sum().backward()
    assert np.isfinite(numbers(zero.grad)).all()
