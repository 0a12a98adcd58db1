"""Starting values: ranges, moments, structure, and that nothing is recorded."""

import math

import numpy as np
import pytest
import scipy.stats

import tracegrad as tg
from tests.nn.checks import numbers
from tracegrad import nn
from tracegrad.nn import init


@pytest.fixture(autouse=True)
def _seed():
    tg.manual_seed(0)


def parameter(*shape):
    return nn.Parameter(tg.full(shape, 9.0))


def test_they_write_in_place_without_history_and_return_the_parameter():
    for function in (
        init.uniform_,
        init.normal_,
        init.zeros_,
        init.ones_,
        init.eye_,
        init.orthogonal_,
        init.xavier_normal_,
    ):
        p = parameter(3, 3)
        assert function(p) is p and p.is_leaf and p.requires_grad and (numbers(p) != 9).any()


def test_constants():
    assert numbers(init.zeros_(parameter(2))).tolist() == [0, 0] and numbers(init.ones_(parameter(2))).tolist() == [
        1,
        1,
    ]
    assert numbers(init.constant_(parameter(2), 0.5)).tolist() == [0.5, 0.5]
    np.testing.assert_array_equal(numbers(init.eye_(parameter(2, 3))), np.eye(2, 3))
    kernel = numbers(init.dirac_(parameter(4, 2, 3), groups=2))
    x = np.random.default_rng(0).normal(size=(1, 4, 5))
    np.testing.assert_array_equal(numbers(nn.functional.conv1d(x, tg.tensor(kernel), padding=1, groups=2)), x)


@pytest.mark.parametrize(
    ("fill", "distribution"),
    [
        (lambda p: init.uniform_(p, -2, 3), scipy.stats.uniform(-2, 5)),
        (lambda p: init.normal_(p, 1, 2), scipy.stats.norm(1, 2)),
        (lambda p: init.trunc_normal_(p, 0.5, 2, -1, 3), scipy.stats.truncnorm(-0.75, 1.25, 0.5, 2)),
        (lambda p: init.xavier_uniform_(p, 2), scipy.stats.uniform(-0.4, 0.8)),
        (lambda p: init.xavier_normal_(p), scipy.stats.norm(0, math.sqrt(2 / 150))),
        (lambda p: init.kaiming_uniform_(p, nonlinearity="relu"), scipy.stats.uniform(-0.1 * 6**0.5, 0.2 * 6**0.5)),
        (lambda p: init.kaiming_normal_(p, a=1, mode="fan_out"), scipy.stats.norm(0, 50**-0.5)),
    ],
    ids=["uniform", "normal", "trunc_normal", "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal"],
)
def test_distributions(fill, distribution):
    """A Kolmogorov-Smirnov test; the seed is fixed, so it passes or fails for good. fan_in is 100, fan_out 50."""
    sample = numbers(fill(parameter(50, 100))).ravel()
    assert scipy.stats.kstest(sample, distribution.cdf).pvalue > 0.01


def test_complex_parameters_get_both_parts():
    layer = nn.Linear(100, 50, dtype=complex)
    w = numbers(layer.weight)
    assert np.abs(w.real).max() <= 0.1 and np.abs(w.imag).max() <= 0.1 and (w.real != w.imag).all()
    z = numbers(init.normal_(nn.Parameter(tg.zeros(5000, dtype=complex)), 1j, 2.0))
    np.testing.assert_allclose([z.mean(), z.var()], [1j, 4], atol=0.15)
    assert layer(tg.ones(2, 100)).dtype == complex


def test_fans_count_the_kernel():
    assert init.fans(parameter(6, 4, 3, 2)) == (24, 36)
    bound = math.sqrt(3) * math.sqrt(2) / math.sqrt(24)
    assert bound * 0.9 < np.abs(numbers(init.kaiming_uniform_(parameter(6, 4, 3, 2)))).max() <= bound
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        init.xavier_uniform_(parameter(3))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (4, 2, 3)])
def test_orthogonal(shape):
    q = numbers(init.orthogonal_(parameter(*shape), gain=2)).reshape(shape[0], -1) / 2
    small = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
    np.testing.assert_allclose(small, np.eye(min(q.shape)), atol=1e-12)


def test_sparse():
    w = numbers(init.sparse_(parameter(10, 4), 0.3, std=1.0))
    assert ((w == 0).sum(0) == 3).all()


def test_gains():
    assert init.calculate_gain("tanh") == 5 / 3 and init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("leaky_relu", 0.5) == math.sqrt(2 / 1.25) and init.calculate_gain("conv2d") == 1
    assert init.calculate_gain("selu") == 0.75
    with pytest.raises(TypeError, match="no gain is known for the nonlinearity 'cubic'"):
        init.calculate_gain("cubic")
    with pytest.raises(TypeError, match="mode must be"):
        init.kaiming_normal_(parameter(2, 2), mode="fan")


def test_the_seed_decides():
    tg.manual_seed(5)
    first = numbers(nn.Linear(3, 4).weight)
    tg.manual_seed(5)
    np.testing.assert_array_equal(numbers(nn.Linear(3, 4).weight), first)
