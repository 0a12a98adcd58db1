"""tracegrad.scipy.stats against scipy.stats: values in and out of the support, awkward parameters, derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats

import tracegrad as tg
from tests.ops.derivatives import check_derivatives
from tracegrad.errors import ArgumentError, ShapeError, UnsupportedError
from tracegrad.scipy import stats

inf, nan = math.inf, math.nan
SHAPES: dict[str, tuple[float, ...]] = {
    "norm": (), "halfnorm": (), "lognorm": (0.7,), "expon": (), "uniform": (), "laplace": (), "logistic": (),
    "cauchy": (), "weibull_min": (1.6,), "pareto": (2.3,), "gamma": (2.4,), "invgamma": (1.7,), "chi2": (3.3,),
    "beta": (1.5, 2.5), "t": (4.2,),
}  # fmt: skip
DISCRETE: dict[str, tuple[float, ...]] = {
    "poisson": (2.5,), "bernoulli": (0.3,), "binom": (5, 0.4), "geom": (0.35,), "nbinom": (3.5, 0.6)
}  # fmt: skip
POINTS = np.array([-inf, -30.0, -1.3, -0.0, 0.0, 0.2, 0.9, 1.0, 1.4, 2.0, 7.0, 30.0, inf, nan])
FUNCTIONS = ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf", "ppf")


def has(name: str, function: str) -> bool:
    return function in ("logpdf", "pdf") or getattr(stats, name).below is not None


@pytest.mark.parametrize("name", SHAPES)
def test_continuous_values(name: str):
    ours, theirs, shapes = getattr(stats, name), getattr(scipy.stats, name), SHAPES[name]
    for function in filter(lambda f: has(name, f), FUNCTIONS):
        points = np.array([-0.1, 0.0, 0.03, 0.5, 0.97, 1.0, 1.1, nan]) if function == "ppf" else POINTS
        for loc, scale in ((0.0, 1.0), (0.3, 2.5), (0.0, 0.0), (0.0, -1.0)):
            with np.errstate(all="ignore"):
                expected = getattr(theirs, function)(points, *shapes, loc, scale)
                np.testing.assert_allclose(
                    getattr(ours, function)(points, *shapes, loc, scale), expected, 1e-11, 1e-15, err_msg=function
                )
    if shapes:
        assert np.isnan(ours.logpdf(0.5, *(-1.0 for _ in shapes)))


@pytest.mark.parametrize("name", SHAPES)
def test_continuous_derivatives(name: str):
    """With respect to the point, the shapes, location and scale; compiled, eager and by finite differences."""
    ours, shapes = getattr(stats, name), SHAPES[name]
    x = np.array([1.25, 1.5, 1.6]) if name not in ("beta", "uniform") else np.array([0.3, 0.5, 0.7])
    parameters = [np.array(v) for v in (*shapes, 0.1, 0.95)]
    functions = [ours.logpdf] + [getattr(ours, f) for f in ("cdf", "logsf") if has(name, f)]

    def together(x: Any, *parameters: Any) -> Any:
        return np.stack([f(x, *parameters) for f in functions])

    check_derivatives(together, (x, *parameters))
    gradient = tg.grad(lambda x: np.sum(ours.logpdf(x, *shapes)))(np.array([-5.0, 0.5]))
    assert np.isfinite(gradient).all()
    assert ours.upper == inf == -ours.lower or gradient[0] == 0  # outside the support


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name: str):
    ours, theirs, parameters = getattr(stats, name), getattr(scipy.stats, name), DISCRETE[name]
    k = np.array([-1.0, 0, 1, 2, 2.5, 3, 5, 6, 40])
    for function in ("logpmf", "pmf"):
        expected = getattr(theirs, function)(k, *parameters, loc=1)
        np.testing.assert_allclose(getattr(ours, function)(k, *parameters, loc=1), expected, 1e-12)
    np.testing.assert_allclose(ours.logpmf(np.arange(4), *parameters), theirs.logpmf(np.arange(4), *parameters), 1e-12)
    assert np.isnan(ours.logpmf(1, *(-0.5 for _ in parameters)))
    *fixed, p = parameters
    counts = np.array([1, 0, 1]) if name == "bernoulli" else np.array([1, 2, 4])
    check_derivatives(lambda p: ours.logpmf(counts, *fixed, p), (np.array(p),))


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_certain_outcomes(p: float):
    for k in (0, 1):
        with np.errstate(all="ignore"):
            assert stats.bernoulli.logpmf(k, p) == scipy.stats.bernoulli.logpmf(k, p)
            assert stats.binom.logpmf(k, 1, p) == scipy.stats.binom.logpmf(k, 1, p)


def test_multivariate_normal():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 3))
    x, mean, cov = rng.standard_normal((2, 4, 3)), rng.standard_normal(3), a @ a.T + np.eye(3)
    ours, theirs = stats.multivariate_normal, scipy.stats.multivariate_normal
    for args in (
        (x, mean, cov),
        (x[0, 0], mean, cov),
        (x, mean),
        (x, mean, 2.0),
        (x, mean, np.diag(cov)),
        (0.3, 0.1, 2.0),
    ):
        np.testing.assert_allclose(ours.logpdf(*args), theirs.logpdf(*args), 1e-12)
    np.testing.assert_allclose(ours.pdf(x, mean, cov), theirs.pdf(x, mean, cov), 1e-12)
    check_derivatives(lambda x, mean, a: ours.logpdf(x, mean, a @ a.T + np.eye(3)), (x[0], mean, a))
    with pytest.raises(ShapeError, match="length 3"):
        ours.logpdf(x[..., :2], mean, cov)
    with pytest.raises(ShapeError, match="one length"):
        ours.logpdf(x, mean[:2], cov)


def test_dirichlet():
    alpha, x = np.array([0.7, 1.5, 2.0]), np.array([[0.2, 0.5], [0.3, 0.1], [0.5, 0.4]])
    np.testing.assert_allclose(stats.dirichlet.logpdf(x, alpha), scipy.stats.dirichlet.logpdf(x, alpha), 1e-13)
    np.testing.assert_allclose(stats.dirichlet.pdf(x[:2], alpha), scipy.stats.dirichlet.pdf(x[:2], alpha), 1e-13)
    check_derivatives(stats.dirichlet.logpdf, (x[:2], alpha))
    with pytest.raises(ShapeError, match="does not fit"):
        stats.dirichlet.logpdf(x, alpha[:1])


def test_a_model_as_users_write_it():
    """The evidence lower bound of a normal model with its parameters by name, compiled and eager."""
    data = np.array([0.3, 1.2, -0.4])

    def bound(mean: Any, log_scale: Any) -> Any:
        return np.sum(stats.norm.logpdf(data, loc=mean, scale=np.exp(log_scale)) + stats.gamma.logpdf(1.3, a=2.0))

    gradient = tg.grad(bound, argnums=(0, 1))
    expected = (np.sum(data), np.sum(data**2 - 1))
    np.testing.assert_allclose(gradient(0.0, 0.0), expected)
    with tg.eager():
        np.testing.assert_allclose(gradient(0.0, 0.0), expected)
    assert isinstance(stats.norm.logpdf(data), np.ndarray)


def test_errors_name_the_parameters():
    with pytest.raises(ArgumentError, match="a is missing"):
        stats.gamma.logpdf(1.0)
    with pytest.raises(ArgumentError, match="takes the parameters loc, scale; not sigma"):
        stats.norm.logpdf(1.0, sigma=2.0)
    with pytest.raises(ArgumentError, match="takes the parameters loc, scale"):
        stats.norm.logpdf(1.0, 0.0, 1.0, 2.0)
    with pytest.raises(UnsupportedError, match=r"gamma\.cdf has no derivative"):
        stats.gamma.cdf(1.0, 2.0)
