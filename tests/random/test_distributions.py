"""Every distribution: its law, its parameters, its derivatives, and the same numbers in eager and compiled code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats

import tracegrad as tg
from tests.tracing import trace
from tracegrad.errors import ArgumentError, AutogradError
from tracegrad.ir.interpret import interpret

N = 20_000
CONTINUOUS: dict[str, tuple[Callable, scipy.stats.rv_continuous]] = {
    "uniform": (lambda k, s: tg.random.uniform(k, s, low=-2.0, high=3.0), scipy.stats.uniform(-2, 5)),
    "normal": (lambda k, s: tg.random.normal(k, s, loc=1.0, scale=2.0), scipy.stats.norm(1, 2)),
    "lognormal": (lambda k, s: tg.random.lognormal(k, s, scale=0.5), scipy.stats.lognorm(0.5)),
    "exponential": (lambda k, s: tg.random.exponential(k, s, scale=3.0), scipy.stats.expon(scale=3)),
    "gumbel": (lambda k, s: tg.random.gumbel(k, s, loc=1.0), scipy.stats.gumbel_r(1)),
    "logistic": (lambda k, s: tg.random.logistic(k, s, scale=2.0), scipy.stats.logistic(scale=2)),
    "laplace": (lambda k, s: tg.random.laplace(k, s, loc=-1.0), scipy.stats.laplace(-1)),
    "cauchy": (lambda k, s: tg.random.cauchy(k, s), scipy.stats.cauchy()),
    "gamma": (lambda k, s: tg.random.gamma(k, s, alpha=2.5, scale=2.0), scipy.stats.gamma(2.5, scale=2)),
    "gamma below 1": (lambda k, s: tg.random.gamma(k, s, alpha=0.3), scipy.stats.gamma(0.3)),
    "chisquare": (lambda k, s: tg.random.chisquare(k, s, df=3), scipy.stats.chi2(3)),
    "beta": (lambda k, s: tg.random.beta(k, s, a=0.5, b=2.0), scipy.stats.beta(0.5, 2)),
    "dirichlet": (
        lambda k, s: tg.random.dirichlet(k, s, alpha=np.array([1.0, 2.0, 3.0]))[..., 1], scipy.stats.beta(2, 4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTINUOUS)
def test_law(name: str):
    """Kolmogorov and Smirnov's test against SciPy's distribution; the stream is fixed, so chance has no part."""
    drawn = CONTINUOUS[name][0](tg.random.key(1), (N,))
    assert scipy.stats.kstest(drawn._array, CONTINUOUS[name][1].cdf).pvalue > 0.01


@pytest.mark.parametrize("name", CONTINUOUS)
def test_eager_interpreted_and_compiled_numbers_agree(name: str):
    draw = CONTINUOUS[name][0]
    key = tg.random.key(77)
    expected = draw(key, (40, 3))

    def function(key):
        return draw(key, (40, 3))

    graph, inputs = trace(function, [key._array])
    np.testing.assert_array_equal(interpret(graph, inputs)[0], expected)
    found = tg.jit(function)(key)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14)
    if name in ("uniform", "gamma", "beta"):
        np.testing.assert_allclose(found, expected, rtol=3e-16, atol=1e-15)  # one rounding less


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_global_generator_draws_what_its_seed_as_key_draws(name: str):
    by_name = name.split()[0]
    keywords = {"gamma": {"alpha": 1.5}, "chisquare": {"df": 2}, "beta": {"a": 1, "b": 2}}.get(by_name, {})
    if by_name == "dirichlet":
        keywords = {"alpha": [1.0, 2.0]}
    function = getattr(tg.random, by_name)
    tg.manual_seed(4)
    np.testing.assert_array_equal(function((5,), **keywords), function(tg.random.key(4), (5,), **keywords))


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    return scipy.stats.chisquare(counts, probabilities / probabilities.sum() * counts.sum()).pvalue


def test_discrete_laws():
    key, p = tg.random.key(5), np.array([0.1, 0.2, 0.3, 0.4])
    draws = {
        "categorical": tg.random.categorical(key, (N,), logits=np.log(p)),
        "choice": tg.random.choice(key, 4, shape=(N,), p=p),
        "multinomial": tg.multinomial(7 * p, N, replacement=True),
    }
    for name, drawn in draws.items():
        assert chi_square(np.bincount(drawn._array, minlength=4), p) > 0.01, name
    uniform = tg.random.randint(key, (N,), high=10)
    assert chi_square(np.bincount(uniform._array, minlength=10), np.ones(10)) > 0.01
    heads = tg.random.bernoulli(key, (N,), p=0.3)
    assert heads.dtype == bool and abs(np.mean(heads._array) - 0.3) < 4 * np.sqrt(0.21 / N)
    first = np.array([tg.random.permutation(k, 3)._array for k in tg.random.split(key, 3000)])
    orders = np.unique(first @ np.array([9, 3, 1]), return_counts=True)[1]
    assert chi_square(orders, np.ones(6)) > 0.01


def test_without_replacement():
    p = np.array([0.5, 0.5, 0.0, 1.0])
    for seed in range(20):
        chosen = tg.random.choice(tg.random.key(seed), 4, shape=(3,), replace=False, p=p)._array
        assert sorted(chosen) == [0, 1, 3]
        assert sorted(tg.random.choice(tg.random.key(seed), 6, shape=(6,), replace=False)._array) == list(range(6))
        assert sorted(tg.multinomial(p, 3)._array) == [0, 1, 3]
    with pytest.raises(ArgumentError, match="replace=True"):
        tg.random.choice(3, shape=(4,), replace=False)
    with pytest.raises(ArgumentError, match="replacement=True"):
        tg.multinomial(p, 5)


def test_shapes_and_dtypes():
    loc = np.zeros((4, 1))
    assert tg.random.normal(loc=loc, scale=np.ones(3)).shape == (4, 3)
    assert tg.random.normal((2, 4, 3), loc=loc).shape == (2, 4, 3)
    assert tg.random.normal().shape == ()
    assert tg.random.dirichlet(alpha=np.ones((4, 3))).shape == (4, 3)
    assert tg.random.dirichlet((5,), alpha=np.ones(3)).shape == (5, 3)
    assert tg.random.categorical(logits=np.zeros((4, 3))).shape == (4,)
    assert tg.random.categorical(logits=np.zeros((4, 3)), axis=0).shape == (3,)
    assert tg.multinomial(np.ones((5, 3)), 2).shape == (5, 2) == tg.multinomial(np.ones((5, 3)), 2, True).shape
    assert tg.random.permutation(np.arange(12).reshape(4, 3), axis=1).shape == (4, 3)
    for name in CONTINUOUS:
        by_name = name.split()[0]
        if by_name not in ("gamma", "chisquare", "beta", "dirichlet"):
            assert getattr(tg.random, by_name)((2,), dtype=np.float32).dtype == np.float32
    x = tg.zeros(2, 3, dtype=np.float32)
    assert tg.rand_like(x).dtype == tg.randn_like(x).dtype == tg.randint_like(x, 5).dtype == np.float32
    assert tg.randn_like(x).shape == (2, 3) and tg.rand(2, requires_grad=True).requires_grad
    assert tg.bernoulli(x + 1).tolist() == [[1.0] * 3] * 2
    assert tg.normal(np.zeros(3), 2.0).shape == (3,) and tg.normal(0.0, 1.0, (2, 2)).shape == (2, 2)


def test_pathwise_derivatives():
    """d(loc + scale*z) is 1 and z, in both modes."""
    key = tg.random.key(8)
    z = tg.random.normal(key, (3,))._array
    loc, scale = tg.tensor(1.0, requires_grad=True), tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    tg.random.normal(key, (3,), loc=loc, scale=scale).sum().backward()
    assert loc.grad == 3.0
    np.testing.assert_array_equal(scale.grad, z)

    def compiled(loc, scale):
        return np.sum(tg.random.normal(key, (3,), loc=loc, scale=scale))

    gradients = tg.grad(compiled, argnums=(0, 1))(1.0, np.array([1.0, 2.0, 3.0]))
    assert gradients[0] == 3.0
    np.testing.assert_allclose(gradients[1], z, rtol=1e-14)


def test_gradients_that_would_be_lost_are_errors():
    alpha = tg.tensor(2.0, requires_grad=True)
    with pytest.raises(AutogradError, match="no derivative in the parameter 'alpha'"):
        tg.random.gamma((3,), alpha=alpha)
    with pytest.raises(AutogradError, match="no derivative in the parameter 'a'"):
        tg.grad(lambda a: np.sum(tg.random.beta((3,), a=a, b=1.0)))(2.0)
    assert tg.random.gamma((3,), alpha=alpha.detach()).shape == (3,)


def test_gamma_outside_its_range_is_nan():
    drawn = tg.random.gamma(alpha=np.array([-1.0, 0.0, np.nan, np.inf, 1e-5, 1e8]))._array
    assert np.isnan(drawn[:3]).all() and drawn[3] == np.inf and drawn[4] >= 0 and abs(drawn[5] / 1e8 - 1) < 1e-3


def test_in_place_methods():
    def fill(x):
        x = x.clone()
        parts = [
            x.uniform_(-1, 1).clone(), x.normal_(3.0, 2.0).clone(), x.exponential_(2.0).clone(),
            x.log_normal_().clone(), x.bernoulli_(0.3).clone(), x.cauchy_(1.0, 2.0).clone(),
            x.random_(3, 9).clone(), x.random_().clone(),
        ]  # fmt: skip
        return tuple(parts)

    for dtype in (np.float32, np.float64):
        x = tg.zeros(4000, dtype=dtype)
        tg.manual_seed(0)
        expected = fill(x)
        tg.manual_seed(0)
        found = tg.jit(fill)(x)
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == dtype
            np.testing.assert_allclose(a, b, rtol=1e-6 if dtype == np.float32 else 1e-13, atol=2e-15)
        laws = [scipy.stats.uniform(-1, 2), scipy.stats.norm(3, 2), scipy.stats.expon(scale=0.5)]
        for drawn, law in zip(expected[:3], laws, strict=True):
            assert scipy.stats.kstest(drawn._array.astype(float), law.cdf).pvalue > 0.001
        assert set(expected[4].tolist()) == {0.0, 1.0} and set(expected[6].tolist()) == set(range(3, 9))
        assert np.array_equal(np.rint(expected[7]), expected[7]) and np.max(expected[7]._array) > 2**20
