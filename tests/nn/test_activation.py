"""Activations: values against formulas of NumPy and SciPy, derivatives, kinks, printing."""

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats

import tracegrad as tg
import tracegrad.nn.functional as F
from tests.nn.checks import check, numbers, values
from tracegrad import nn

POINTS = np.array([-30.0, -7.0, -3.5, -2.0, -1.2, -0.4, -1e-9, 1e-9, 0.3, 0.9, 1.7, 2.5, 3.5, 6.5, 25.0])
SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def positive(x):
    return np.maximum(x, 0)


# Layer, its repr, what it computes.
LAYERS = [
    (nn.ReLU(), "ReLU()", positive),
    (nn.ReLU6(), "ReLU6()", lambda x: np.clip(x, 0, 6)),
    (nn.LeakyReLU(0.2), "LeakyReLU(negative_slope=0.2)", lambda x: positive(x) - 0.2 * positive(-x)),
    (nn.RReLU(0.1, 0.3).eval(), "RReLU(lower=0.1, upper=0.3)", lambda x: positive(x) - 0.2 * positive(-x)),
    (nn.ELU(1.5), "ELU(alpha=1.5)", lambda x: positive(x) + 1.5 * (np.exp(-positive(-x)) - 1)),
    (nn.CELU(1.5), "CELU(alpha=1.5)", lambda x: positive(x) + 1.5 * (np.exp(-positive(-x) / 1.5) - 1)),
    (nn.SELU(), "SELU()", lambda x: SELU_SCALE * (positive(x) + SELU_ALPHA * (np.exp(-positive(-x)) - 1))),
    (nn.GELU(), "GELU(approximate='none')", lambda x: x * scipy.stats.norm.cdf(x)),
    (
        nn.GELU("tanh"),
        "GELU(approximate='tanh')",
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    (nn.SiLU(), "SiLU()", lambda x: x * scipy.special.expit(x)),
    (nn.Mish(), "Mish()", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    (nn.Sigmoid(), "Sigmoid()", scipy.special.expit),
    (nn.LogSigmoid(), "LogSigmoid()", scipy.special.log_expit),
    (nn.Tanh(), "Tanh()", np.tanh),
    (nn.Tanhshrink(), "Tanhshrink()", lambda x: x - np.tanh(x)),
    (nn.Softsign(), "Softsign()", lambda x: x / (1 + np.abs(x))),
    (
        nn.Softplus(2.0, 10.0),
        "Softplus(beta=2.0, threshold=10.0)",
        lambda x: np.where(x > 5, x, np.log1p(np.exp(2 * x)) / 2),
    ),
    (nn.Softshrink(0.6), "Softshrink(0.6)", lambda x: np.sign(x) * positive(np.abs(x) - 0.6)),
    (nn.Hardshrink(0.6), "Hardshrink(0.6)", lambda x: x * (np.abs(x) > 0.6)),
    (nn.Hardtanh(-2.5, 1.5), "Hardtanh(min_val=-2.5, max_val=1.5)", lambda x: np.clip(x, -2.5, 1.5)),
    (nn.Hardsigmoid(), "Hardsigmoid()", lambda x: np.clip(x + 3, 0, 6) / 6),
    (nn.Hardswish(), "Hardswish()", lambda x: x * np.clip(x + 3, 0, 6) / 6),
    (nn.Threshold(0.5, 7.0), "Threshold(threshold=0.5, value=7.0)", lambda x: np.where(x > 0.5, x, 7.0)),
]
IDS = [text for _, text, _ in LAYERS]


@pytest.mark.parametrize(("layer", "text", "formula"), LAYERS, ids=IDS)
def test_values_and_repr(layer, text, formula):
    np.testing.assert_allclose(numbers(layer(tg.tensor(POINTS))), formula(POINTS), rtol=1e-8, atol=1e-12)
    assert repr(layer) == text
    low = layer(tg.tensor(POINTS.astype(np.float32)))
    assert low.dtype == np.float32
    with np.errstate(over="raise", invalid="raise"):
        layer(tg.tensor(np.array([-800.0, 800.0])))  # nothing overflows on the way


def test_derivatives_of_all_in_one_program():
    def together(x):
        return tuple(layer(x) for layer, _, _ in LAYERS)

    check(together, POINTS[2:-1] + 1e-3)


@pytest.mark.parametrize("function", [F.relu, F.elu, F.hardtanh, F.gelu, F.leaky_relu, F.softshrink, F.hardshrink])
def test_nan_stays_nan(function):
    assert np.isnan(numbers(function(tg.tensor([np.nan, 1.0])))).tolist() == [True, False]
    assert np.isnan(np.asarray(tg.jit(function)(np.array([np.nan, 1.0])))).tolist() == [True, False]


@pytest.mark.parametrize(
    ("function", "kink", "slope"),
    [
        (F.relu, 0, 0), (F.relu6, 6, 0), (F.hardtanh, 1, 0), (F.hardtanh, -1, 0), (F.leaky_relu, 0, 0.01),
        (F.elu, 0, 1), (F.hardsigmoid, 3, 0), (F.softsign, 0, 1), (F.softshrink, 0.5, 0),
    ],
)  # fmt: skip
def test_slopes_at_kinks(function, kink, slope):
    x = tg.tensor(float(kink), requires_grad=True)
    function(x).backward()
    assert x.grad.item() == slope
    assert float(tg.grad(lambda x: function(x))(float(kink))) == slope


def test_in_place():
    x = tg.tensor([-1.0, 2.0], requires_grad=True)
    y = x * 1.0
    z = nn.ReLU(inplace=True)(y)
    assert z is y and numbers(y).tolist() == [0.0, 2.0]
    z.sum().backward()
    assert numbers(x.grad).tolist() == [0.0, 1.0]
    assert repr(nn.ELU(inplace=True)) == "ELU(alpha=1.0, inplace=True)"
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        nn.SiLU(inplace=True)(x)


def test_prelu_has_one_slope_or_one_per_channel():
    x = values(2, 3, 2)
    many = nn.PReLU(3, init=0.3)
    assert repr(many) == "PReLU(num_parameters=3)" and numbers(many.weight).tolist() == [0.3] * 3
    with tg.no_grad():
        many.weight.copy_([0.1, 0.2, 0.3])
    slopes = np.array([0.1, 0.2, 0.3])[None, :, None]
    np.testing.assert_allclose(numbers(many(tg.tensor(x))), np.where(x > 0, x, slopes * x))
    check(lambda x, w, v: (F.prelu(x, w), F.prelu(x, v)), x, np.array([0.1, 0.2, 0.3]), np.array([0.4]))
    with pytest.raises(ValueError, match=r"prelu: 3 slopes for an input of shape \(2, 4\)"):
        many(tg.ones(2, 4))


def test_glu():
    x = values(2, 4)
    np.testing.assert_allclose(numbers(nn.GLU()(tg.tensor(x))), x[:, :2] * scipy.special.expit(x[:, 2:]))
    with pytest.raises(ValueError, match="odd size 3"):
        F.glu(tg.ones(2, 3))


@pytest.mark.parametrize(
    ("layer", "formula"),
    [
        (nn.Softmax, scipy.special.softmax),
        (nn.LogSoftmax, scipy.special.log_softmax),
        (nn.Softmin, lambda x, axis: scipy.special.softmax(-x, axis)),
    ],
)
def test_along_an_axis(layer, formula):
    x = values(2, 3, 2)
    for dim in (0, 1, -1):
        np.testing.assert_allclose(numbers(layer(dim)(tg.tensor(x))), formula(x, axis=dim), rtol=1e-12)
    assert repr(layer(dim=1)) == f"{layer.__name__}(dim=1)"
    assert np.isfinite(numbers(layer(0)(tg.tensor([1e4, -1e4])))).all()
    with pytest.warns(UserWarning, match="without dim= is ambiguous; axis 1 is taken"):
        layer()(tg.ones(2, 3))
    with pytest.raises(TypeError, match="takes floats, not int64"):
        layer(0)(tg.tensor([1, 2]))
    check(layer(1), x)


def test_gumbel_softmax_is_one_hot_with_the_gradient_of_the_soft_one():
    tg.manual_seed(0)
    logits = tg.tensor(values(5, 3), requires_grad=True)
    hard = F.gumbel_softmax(logits, tau=0.5, hard=True)
    assert sorted(np.unique(numbers(hard))) == [0.0, 1.0] and numbers(hard).sum(1).tolist() == [1.0] * 5
    (hard * values(5, 3, seed=1)).sum().backward()
    assert np.abs(numbers(logits.grad)).max() > 0
    soft = F.gumbel_softmax(tg.tensor(np.tile(np.log([0.2, 0.3, 0.5]), (20000, 1))))
    shares = np.bincount(numbers(soft).argmax(1), minlength=3) / 20000  # the Gumbel-max trick
    np.testing.assert_allclose(shares, [0.2, 0.3, 0.5], atol=0.02)


def test_settings_that_make_no_sense():
    for call in (
        lambda: F.hardtanh(tg.ones(2), 1, -1),
        lambda: F.softshrink(tg.ones(2), -1),
        lambda: F.gelu(tg.ones(2), "erf"),
    ):
        with pytest.raises(TypeError):
            call()
