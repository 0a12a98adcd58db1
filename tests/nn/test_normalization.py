"""Normalisation layers against their formulas; running statistics, eagerly and in compiled functions."""

import copy

import numpy as np
import pytest

import tracegrad as tg
import tracegrad.nn.functional as F
from tests.nn.checks import check, check_module, filled, numbers, shapes, values
from tracegrad import nn


def normalized(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize(
    ("layer", "shape"), [(nn.BatchNorm1d, (6, 3)), (nn.BatchNorm1d, (4, 3, 5)), (nn.BatchNorm2d, (4, 3, 2, 5))]
)
def test_batch_norm_while_training_and_afterwards(layer, shape):
    bn = filled(layer(3, momentum=0.3))
    axes = (0, *range(2, len(shape)))
    along = (1, 3, *(1,) * (len(shape) - 2))
    w, b = (numbers(p).reshape(along) for p in (bn.weight, bn.bias))
    mean, var = np.zeros(3), np.ones(3)
    for seed in range(3):
        x = values(*shape, seed=seed)
        np.testing.assert_allclose(numbers(bn(tg.tensor(x))), normalized(x, axes) * w + b, rtol=1e-10)
        mean = 0.7 * mean + 0.3 * x.mean(axes)
        var = 0.7 * var + 0.3 * x.var(axes, ddof=1)
    np.testing.assert_allclose(numbers(bn.running_mean), mean, rtol=1e-12)
    np.testing.assert_allclose(numbers(bn.running_var), var, rtol=1e-12)
    assert bn.num_batches_tracked.item() == 3 and not bn.running_mean.requires_grad
    bn.eval()
    expected = (x - mean.reshape(along)) / np.sqrt(var.reshape(along) + 1e-5) * w + b
    np.testing.assert_allclose(numbers(bn(tg.tensor(x))), expected, rtol=1e-10)
    assert bn.num_batches_tracked.item() == 3


def test_a_compiled_function_updates_the_statistics_and_notices_the_mode():
    eager = filled(nn.BatchNorm1d(3))
    bn = copy.deepcopy(eager)
    compiled = tg.jit(lambda x: bn(x))
    for seed in range(3):
        x = values(6, 3, seed=seed)
        results = [eager(tg.tensor(x)), compiled(tg.tensor(x))]
        for module, result in zip((eager, bn), results, strict=True):
            module.zero_grad()
            (result * values(6, 3, seed=9)).sum().backward()
        np.testing.assert_allclose(numbers(results[1]), numbers(results[0]), rtol=1e-12)
        np.testing.assert_allclose(numbers(bn.weight.grad), numbers(eager.weight.grad), rtol=1e-10)
        for name, value in eager.state_dict().items():
            np.testing.assert_allclose(numbers(bn.state_dict()[name]), numbers(value), rtol=1e-12)
        assert not bn.running_var.requires_grad
    eager.eval(), bn.eval()
    np.testing.assert_allclose(numbers(compiled(tg.tensor(x))), numbers(eager(tg.tensor(x))), rtol=1e-12)


def test_plain_averages_without_a_momentum():
    bn = nn.BatchNorm1d(3, momentum=None)
    batches = [values(6, 3, seed=seed) for seed in range(4)]
    for x in batches:
        bn(tg.tensor(x))
    np.testing.assert_allclose(numbers(bn.running_mean), np.mean([x.mean(0) for x in batches], 0), atol=1e-12)
    np.testing.assert_allclose(numbers(bn.running_var), np.mean([x.var(0, ddof=1) for x in batches], 0))


def test_batch_norm_without_running_statistics():
    bn = nn.BatchNorm2d(3, affine=False, track_running_stats=False).eval()
    x = values(4, 3, 2, 5)
    np.testing.assert_allclose(numbers(bn(tg.tensor(x))), normalized(x, (0, 2, 3)), rtol=1e-10)
    assert shapes(bn) == {}


def test_derivatives_of_batch_norm():
    def both(x, w, b):
        mean, var = np.array([0.1, -0.2]), np.array([0.5, 1.5])
        return F.batch_norm(x, None, None, w, b, training=True), F.batch_norm(x, mean, var, w, b)

    check(both, values(4, 2, 2), values(2), values(2, seed=1))


def test_states_and_reprs():
    bn = nn.BatchNorm1d(3)
    assert shapes(bn) == {
        "weight": (3,), "bias": (3,), "running_mean": (3,), "running_var": (3,), "num_batches_tracked": (),
    }  # fmt: skip
    assert repr(bn) == "BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)"
    assert repr(nn.LayerNorm(3)) == "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)"
    assert repr(nn.RMSNorm((2, 3))) == "RMSNorm((2, 3), eps=None, elementwise_affine=True)"
    assert repr(nn.GroupNorm(2, 6)) == "GroupNorm(2, 6, eps=1e-05, affine=True, bias=True)"
    assert shapes(nn.LayerNorm((2, 3), bias=False)) == {"weight": (2, 3)}
    assert shapes(nn.RMSNorm(3, elementwise_affine=False)) == {}
    bn(tg.tensor(values(4, 3)))
    bn.reset_parameters()
    assert numbers(bn.running_mean).tolist() == [0.0] * 3 and bn.num_batches_tracked.item() == 0


def test_layer_norm():
    layer = filled(nn.LayerNorm((3, 2)))
    x = values(4, 3, 2)
    expected = normalized(x, (1, 2)) * numbers(layer.weight) + numbers(layer.bias)
    np.testing.assert_allclose(numbers(layer(tg.tensor(x))), expected, rtol=1e-10)
    check_module(layer, x[:2])


def test_rms_norm():
    layer = filled(nn.RMSNorm(3, eps=1e-3))
    x = values(4, 3)
    expected = x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-3) * numbers(layer.weight)
    np.testing.assert_allclose(numbers(layer(tg.tensor(x))), expected, rtol=1e-12)
    assert np.isfinite(numbers(nn.RMSNorm(3)(tg.zeros(2, 3)))).all()
    check_module(layer, x[:2])


def test_group_norm_and_instance_norm():
    layer = filled(nn.GroupNorm(2, 4))
    x = values(3, 4, 5)
    groups = normalized(x.reshape(3, 2, 2, 5), (2, 3)).reshape(3, 4, 5)
    expected = groups * numbers(layer.weight)[:, None] + numbers(layer.bias)[:, None]
    np.testing.assert_allclose(numbers(layer(tg.tensor(x))), expected, rtol=1e-10)
    np.testing.assert_allclose(numbers(F.instance_norm(tg.tensor(x))), normalized(x, (2,)), rtol=1e-10)
    check_module(layer, x[:2, :, :2])


def test_a_constant_input_has_finite_derivatives():
    for function in (lambda x: F.layer_norm(x, (3,)), lambda x: F.batch_norm(x, None, None, training=True)):
        x = tg.ones(2, 3, requires_grad=True)
        y = function(x)
        (y * values(2, 3)).sum().backward()
        assert not numbers(y).any() and np.isfinite(numbers(x.grad)).all()


def test_what_does_not_fit():
    with pytest.raises(ValueError, match="more than 1 value per channel is needed while training"):
        nn.BatchNorm1d(3)(tg.ones(1, 3))
    with pytest.raises(ValueError, match=r"BatchNorm2d takes an input of 4 dimensions, \(N, C, H, W\)"):
        nn.BatchNorm2d(3)(tg.ones(4, 3))
    with pytest.raises(ValueError, match=r"running_mean has shape \(3,\), the input 2 channels"):
        nn.BatchNorm1d(3)(tg.ones(4, 2))
    with pytest.raises(ValueError, match=r"layer_norm: the last axes of an input of shape \(4, 2\)"):
        nn.LayerNorm(3)(tg.ones(4, 2))
    with pytest.raises(ValueError, match="for 2 equal groups"):
        F.group_norm(tg.ones(4, 3), 2)
    with pytest.raises(TypeError, match="GroupNorm: 3 channels do not make 2 equal groups"):
        nn.GroupNorm(2, 3)
    with pytest.raises(TypeError, match="layer_norm takes floats, not int64"):
        nn.LayerNorm(3)(np.ones((2, 3), int))
