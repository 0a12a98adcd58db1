"""Dropout: shares, scaling, modes, whole channels; the same stream of random numbers in both modes."""

import numpy as np
import pytest

import tracegrad as tg
import tracegrad.nn.functional as F
from tests.nn.checks import numbers, values
from tracegrad import nn


def test_the_share_of_zeros_and_the_scale_of_the_rest():
    tg.manual_seed(0)
    x = np.full(20_000, 3.0)
    y = numbers(nn.Dropout(0.3)(tg.tensor(x)))
    assert abs((y == 0).mean() - 0.3) < 0.02
    np.testing.assert_allclose(y[y != 0], 3 / 0.7)


def test_outside_training_it_is_the_identity():
    x = tg.tensor(values(4, 3))
    layer = nn.Dropout().eval()
    assert layer(x) is x and F.dropout(x, 0.5, training=False) is x
    assert not numbers(nn.Dropout(1.0)(x)).any()
    np.testing.assert_array_equal(numbers(nn.Dropout(0.0)(x)), numbers(x))


def test_the_gradient_passes_where_the_value_did():
    tg.manual_seed(0)
    x = tg.ones(50, requires_grad=True)
    y = nn.Dropout(0.5)(x)
    y.sum().backward()
    np.testing.assert_array_equal(numbers(x.grad), numbers(y))
    assert sorted(np.unique(numbers(y))) == [0.0, 2.0]


def test_compiled_functions_draw_the_same_numbers_and_new_ones_in_each_call():
    layer = nn.Dropout(0.5)
    x = np.ones(100)
    compiled = tg.jit(lambda x: layer(x))
    gradient = tg.value_and_grad(lambda x: (layer(x) ** 2).sum())
    tg.manual_seed(3)
    eager = [numbers(layer(tg.tensor(x))) for _ in range(3)]
    tg.manual_seed(3)
    found = [numbers(compiled(x)), numbers(compiled(x)), gradient(x)[1]]
    np.testing.assert_array_equal(found[0], eager[0])
    np.testing.assert_array_equal(found[1], eager[1])
    np.testing.assert_array_equal(found[2], 4 * eager[2])
    assert (eager[0] != eager[1]).any()


def test_a_compiled_function_notices_the_mode_and_the_probability():
    layer = nn.Dropout(1.0)
    compiled = tg.jit(lambda x: layer(x))
    x = np.ones(5)
    assert numbers(compiled(x)).sum() == 0
    layer.eval()
    assert numbers(compiled(x)).sum() == 5
    layer.train()
    assert numbers(compiled(x)).sum() == 0
    layer.p = 0.0
    assert numbers(compiled(x)).sum() == 5


@pytest.mark.parametrize(("layer", "space"), [(nn.Dropout1d, (4,)), (nn.Dropout2d, (4, 2))])
def test_whole_channels(layer, space):
    tg.manual_seed(0)
    y = numbers(layer(0.5)(tg.ones(10, 6, *space))).reshape(10, 6, -1)
    assert (y == y[..., :1]).all() and 0 < (y == 0).mean() < 1
    assert layer(0.5)(tg.ones(6, *space)).shape == (6, *space)


def test_alpha_dropout_keeps_mean_and_variance():
    tg.manual_seed(0)
    x = np.random.default_rng(0).standard_normal(50_000)
    y = numbers(nn.AlphaDropout(0.3)(tg.tensor(x)))
    assert abs(y.mean()) < 0.02 and abs(y.std() - 1) < 0.02
    layer = nn.AlphaDropout(0.3).eval()
    assert (numbers(layer(tg.tensor(x))) == x).all()


def test_in_place_and_repr():
    tg.manual_seed(0)
    x = tg.ones(50)
    assert nn.Dropout(0.5, inplace=True)(x) is x and not numbers(x).all()
    assert repr(nn.Dropout(0.2)) == "Dropout(p=0.2, inplace=False)"
    with pytest.raises(TypeError, match="Dropout: the probability p lies between 0 and 1, got 2"):
        nn.Dropout(2)
