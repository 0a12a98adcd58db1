"""scipy.stats for Tensors, arrays and traced values: densities and distribution functions, under SciPy's names.

Arguments and values are SciPy's: `norm.logpdf(x, loc, scale)`, `gamma.cdf(x, a, scale=2.0)`, `poisson.logpmf(k, mu)`.
Outside the support a density is 0 and its logarithm -inf, with derivative 0; parameters that do not make a distribution
give NaN. Formulas: Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions; Johnson, Kemp and Kotz,
Univariate Discrete Distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError, UnsupportedError
from tracegrad.ops.operands import operand
from tracegrad.scipy import linalg
from tracegrad.scipy.special import (
    betaln,
    expit,
    gammaln,
    log_expit,
    log_ndtr,
    ndtr,
    ndtri,
    xlog1py,
    xlogy,
)

__all__ = [
    "bernoulli", "beta", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma", "geom", "halfnorm", "invgamma",
    "laplace", "logistic", "lognorm", "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "t", "uniform",
    "weibull_min",
]  # fmt: skip

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
Formula = Callable[..., Any]


def _bound(names: tuple[str, ...], args: tuple[Any, ...], given: dict[str, Any], what: str) -> list[Any]:
    """The parameters of a call in order: positional ones first, then by name; loc is 0 and scale 1 where not given."""
    values = {"loc": 0.0, "scale": 1.0} | dict(zip(names, args, strict=False)) | given
    wrong = [name for name in given if name not in names[len(args) :]]
    missing = [name for name in names if name not in values]
    if len(args) > len(names) or wrong or missing:
        raise ArgumentError(
            f"{what} takes the parameters {', '.join(names)}"
            + (
                f"; {missing[0]} is missing" if missing else f"; not {wrong[0]}" if wrong else f", not {len(args)} more"
            ),
            fix="give them in this order or by name",
        )
    return [operand(values[name]) for name in names]


@dataclass(frozen=True)
class Continuous:
    """A family with location and scale. All formulas are functions of z = (x - loc) / scale and the shapes.

    Attributes:
        log_density: log f(z, *shapes) inside the support, up to the factor 1 / scale.
        lower, upper: the support.
        closed: whether the formula holds at `lower` itself; else the density is 0 there.
        shapes: names of the shape parameters, all of which must be positive.
        below: P(Z ≤ z), or None where it has no elementary form and no derivative with respect to the shapes.
        above: P(Z > z); without it 1 - below.
        log_below, log_above: their logarithms; without them the logarithms are taken.
        quantile: the inverse of `below` on (0, 1).
    """

    name: str
    log_density: Formula
    lower: float = -math.inf
    upper: float = math.inf
    closed: bool = True
    shapes: tuple[str, ...] = ()
    below: Formula | None = None
    above: Formula | None = None
    log_below: Formula | None = None
    log_above: Formula | None = None
    quantile: Formula | None = None

    def logpdf(self, x: Any, *args: Any, **parameters: Any) -> Any:
        """The logarithm of the density at `x`; the shapes of `x` and of the parameters broadcast."""
        z, shapes, scale = self._standard(x, args, parameters, "logpdf")
        with np.errstate(all="ignore"):
            above = z >= self.lower if self.closed else z > self.lower
            inside = above & (z <= self.upper) | np.isnan(z)
            value = np.where(inside, self.log_density(z, *shapes), -math.inf) - np.log(scale)
            return self._valid(value, shapes, scale)

    def pdf(self, x: Any, *args: Any, **parameters: Any) -> Any:
        """The density at `x`."""
        return np.exp(self.logpdf(x, *args, **parameters))

    def cdf(self, x: Any, *args: Any, **parameters: Any) -> Any:
        """P(X ≤ x)."""
        return self._probability("cdf", self.below, 0.0, 1.0, x, args, parameters)

    def sf(self, x: Any, *args: Any, **parameters: Any) -> Any:
        """P(X > x), accurate where it is small."""
        above = self.above or (self.below and (lambda z, *shapes: 1.0 - self.below(z, *shapes)))  # type: ignore[misc]
        return self._probability("sf", above, 1.0, 0.0, x, args, parameters)

    def logcdf(self, x: Any, *args: Any, **parameters: Any) -> Any:
        """log P(X ≤ x)."""
        below = self.log_below or (self.below and (lambda z, *shapes: np.log(self.below(z, *shapes))))  # type: ignore[misc]
        return self._probability("logcdf", below, -math.inf, 0.0, x, args, parameters)

    def logsf(self, x: Any, *args: Any, **parameters: Any) -> Any:
        """log P(X > x)."""
        if self.log_above is None:
            with np.errstate(divide="ignore"):
                return np.log(self.sf(x, *args, **parameters))
        return self._probability("logsf", self.log_above, 0.0, -math.inf, x, args, parameters)

    def ppf(self, q: Any, *args: Any, **parameters: Any) -> Any:
        """The quantile: the x with P(X ≤ x) = q; NaN for q outside [0, 1]."""
        if self.quantile is None:
            raise self._unsupported("ppf")
        *shapes, loc, scale = _bound((*self.shapes, "loc", "scale"), args, parameters, f"{self.name}.ppf")
        q = operand(q)
        with np.errstate(all="ignore"):
            z = np.where((q >= 0) & (q <= 1), self.quantile(q, *shapes), math.nan)
            return self._valid(z * scale + loc, shapes, scale)

    def _standard(self, x: Any, args: tuple[Any, ...], given: dict[str, Any], what: str) -> tuple[Any, list[Any], Any]:
        *shapes, loc, scale = _bound((*self.shapes, "loc", "scale"), args, given, f"{self.name}.{what}")
        with np.errstate(all="ignore"):
            return (operand(x) - loc) / scale, shapes, scale

    def _valid(self, value: Any, shapes: list[Any], scale: Any) -> Any:
        valid = scale > 0
        for shape in shapes:
            valid = valid & (shape > 0)
        return np.where(valid, value, math.nan)

    def _probability(
        self, what: str, formula: Any, at_lower: float, at_upper: float, x: Any, args: Any, given: dict[str, Any]
    ) -> Any:
        if formula is None:
            raise self._unsupported(what)
        z, shapes, scale = self._standard(x, args, given, what)
        with np.errstate(all="ignore"):
            value = np.where(z <= self.lower, at_lower, np.where(z >= self.upper, at_upper, formula(z, *shapes)))
            return self._valid(value, shapes, scale)

    def _unsupported(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"{self.name}.{what} has no derivative here with respect to its shape parameters",
            fix=f"use {self.name}.logpdf, or a Function of your own around scipy.stats.{self.name}.{what}",
        )


@dataclass(frozen=True)
class Discrete:
    """A family on the integers. Its formulas are functions of k - loc and the parameters.

    Attributes:
        log_mass: log P(K = k) for integers k in the support.
        valid: whether the parameters make a distribution.
        lower, upper: the support; `upper` is a function of the parameters.
    """

    name: str
    parameters: tuple[str, ...]
    log_mass: Formula
    valid: Formula
    lower: int = 0
    upper: Formula | None = None

    def logpmf(self, k: Any, *args: Any, **parameters: Any) -> Any:
        """The logarithm of P(K = k); -inf for k that is no integer or outside the support."""
        *values, loc = _bound((*self.parameters, "loc"), args, parameters, f"{self.name}.logpmf")
        k = operand(k) - loc
        with np.errstate(all="ignore"):
            inside = (k >= self.lower) & (k == np.floor(k))
            if self.upper is not None:
                inside = inside & (k <= self.upper(*values))
            value = np.where(inside | np.isnan(k), self.log_mass(k, *values), -math.inf)
            return np.where(self.valid(*values), value, math.nan)

    def pmf(self, k: Any, *args: Any, **parameters: Any) -> Any:
        """P(K = k)."""
        return np.exp(self.logpmf(k, *args, **parameters))


def _probability(p: Any) -> Any:
    return (p >= 0) & (p <= 1)


norm = Continuous(
    "norm", lambda z: -0.5 * z**2 - _LOG_SQRT_2PI,
    below=ndtr, above=lambda z: ndtr(-z), log_below=log_ndtr, log_above=lambda z: log_ndtr(-z), quantile=ndtri,
)  # fmt: skip
halfnorm = Continuous(
    "halfnorm", lambda z: 0.5 * math.log(2 / math.pi) - 0.5 * z**2, lower=0,
    below=lambda z: 2 * ndtr(z) - 1, above=lambda z: 2 * ndtr(-z), log_above=lambda z: math.log(2) + log_ndtr(-z),
    quantile=lambda q: ndtri((1 + q) / 2),
)  # fmt: skip
lognorm = Continuous(
    "lognorm", lambda z, s: -0.5 * (np.log(z) / s) ** 2 - np.log(z * s) - _LOG_SQRT_2PI, lower=0, closed=False,
    shapes=("s",), below=lambda z, s: ndtr(np.log(z) / s), above=lambda z, s: ndtr(-np.log(z) / s),
    log_below=lambda z, s: log_ndtr(np.log(z) / s), log_above=lambda z, s: log_ndtr(-np.log(z) / s),
    quantile=lambda q, s: np.exp(s * ndtri(q)),
)  # fmt: skip
expon = Continuous(
    "expon", lambda z: -z, lower=0, below=lambda z: -np.expm1(-z), above=lambda z: np.exp(-z), log_above=lambda z: -z,
    quantile=lambda q: -np.log1p(-q),
)  # fmt: skip
uniform = Continuous("uniform", lambda z: 0.0 * z, lower=0, upper=1, below=lambda z: z, quantile=lambda q: q)
laplace = Continuous(
    "laplace", lambda z: -np.abs(z) - math.log(2),
    below=lambda z: np.where(z < 0, 0.5 * np.exp(z), 1 - 0.5 * np.exp(-z)),
    above=lambda z: np.where(z > 0, 0.5 * np.exp(-z), 1 - 0.5 * np.exp(z)),
    log_below=lambda z: np.where(z < 0, z - math.log(2), np.log1p(-0.5 * np.exp(-z))),
    log_above=lambda z: np.where(z > 0, -z - math.log(2), np.log1p(-0.5 * np.exp(z))),
    quantile=lambda q: np.where(q < 0.5, np.log(2 * q), -np.log(2 * (1 - q))),
)  # fmt: skip
logistic = Continuous(
    "logistic", lambda z: -np.abs(z) - 2 * np.log1p(np.exp(-np.abs(z))),
    below=expit, above=lambda z: expit(-z), log_below=log_expit, log_above=lambda z: log_expit(-z),
    quantile=lambda q: np.log(q) - np.log1p(-q),
)  # fmt: skip
cauchy = Continuous(
    "cauchy", lambda z: -math.log(math.pi) - np.log1p(z**2),
    below=lambda z: np.arctan2(1, -z) / math.pi, above=lambda z: np.arctan2(1, z) / math.pi,
    quantile=lambda q: np.where(q < 0.5, -1 / np.tan(math.pi * q), 1 / np.tan(math.pi * (1 - q))),
)  # fmt: skip
weibull_min = Continuous(
    "weibull_min", lambda z, c: np.log(c) + xlogy(c - 1, z) - z**c, lower=0, shapes=("c",),
    below=lambda z, c: -np.expm1(-(z**c)), above=lambda z, c: np.exp(-(z**c)), log_above=lambda z, c: -(z**c),
    quantile=lambda q, c: (-np.log1p(-q)) ** (1 / c),
)  # fmt: skip
pareto = Continuous(
    "pareto", lambda z, b: np.log(b) - (b + 1) * np.log(z), lower=1, shapes=("b",),
    below=lambda z, b: -np.expm1(-b * np.log(z)), above=lambda z, b: z**-b, log_above=lambda z, b: -b * np.log(z),
    quantile=lambda q, b: (1 - q) ** (-1 / b),
)  # fmt: skip
gamma = Continuous("gamma", lambda z, a: xlogy(a - 1, z) - z - gammaln(a), lower=0, shapes=("a",))
invgamma = Continuous(
    "invgamma", lambda z, a: -(a + 1) * np.log(z) - gammaln(a) - 1 / z, lower=0, closed=False, shapes=("a",)
)
chi2 = Continuous(
    "chi2", lambda z, df: xlogy(df / 2 - 1, z) - z / 2 - gammaln(df / 2) - df * (0.5 * math.log(2)), lower=0,
    shapes=("df",),
)  # fmt: skip
beta = Continuous(
    "beta", lambda z, a, b: xlogy(a - 1, z) + xlog1py(b - 1, -z) - betaln(a, b), lower=0, upper=1, shapes=("a", "b")
)
t = Continuous(
    "t", lambda z, df: -betaln(df / 2, 0.5) - 0.5 * np.log(df) - (df + 1) / 2 * np.log1p(z**2 / df), shapes=("df",)
)

poisson = Discrete("poisson", ("mu",), lambda k, mu: xlogy(k, mu) - gammaln(k + 1) - mu, lambda mu: mu >= 0)
bernoulli = Discrete(
    "bernoulli", ("p",), lambda k, p: xlogy(k, p) + xlog1py(1 - k, -p), _probability, upper=lambda p: 1
)
binom = Discrete(
    "binom", ("n", "p"),
    lambda k, n, p: gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + xlogy(k, p) + xlog1py(n - k, -p),
    lambda n, p: (n >= 0) & (n == np.floor(n)) & _probability(p), upper=lambda n, p: n,
)  # fmt: skip
geom = Discrete("geom", ("p",), lambda k, p: xlog1py(k - 1, -p) + np.log(p), lambda p: (p > 0) & (p <= 1), lower=1)
nbinom = Discrete(
    "nbinom", ("n", "p"),
    lambda k, n, p: gammaln(k + n) - gammaln(k + 1) - gammaln(n) + n * np.log(p) + xlog1py(k, -p),
    lambda n, p: (n > 0) & (p > 0) & (p <= 1),
)  # fmt: skip


class multivariate_normal:  # SciPy's name
    """Normal vectors of length d: `mean` has the shape (d,), `cov` the shape (d, d), (d,) for a diagonal, or ()."""

    @staticmethod
    def logpdf(x: Any, mean: Any = None, cov: Any = 1.0) -> Any:
        """The logarithm of the density, of shape (...), of points `x` of shape (..., d), or (...) where d is 1.

        Raises LinAlgError where `cov` is not positive definite and ShapeError where the shapes do not fit.
        """
        x, cov = operand(x), operand(cov)
        mean = np.zeros(cov.shape[:1]) if mean is None else operand(mean)
        d = max([1, *(v.shape[0] for v in (mean, cov) if v.ndim)])
        if mean.ndim > 1 or cov.ndim > 2 or any(s not in (1, d) for v in (mean, cov) for s in v.shape):
            raise ShapeError(
                f"mean of shape {mean.shape} and cov of shape {cov.shape} do not describe vectors of one length",
                fix="give a mean of shape (d,) and a cov of shape (d, d)",
            )
        if d == 1 and (x.ndim == 0 or x.shape[-1] != 1):
            x = x[..., np.newaxis]
        if x.shape[-1:] != (d,):
            raise ShapeError(
                f"points of shape {x.shape} are not vectors of length {d}", fix=f"the last axis has length {d}"
            )
        factor = linalg.cholesky(cov if cov.ndim == 2 else np.eye(d) * cov, lower=True)
        centred = x - mean
        white = linalg.solve_triangular(factor, centred.reshape(-1, d).T, lower=True)
        squares = np.sum(white**2, axis=0).reshape(centred.shape[:-1])
        return -0.5 * squares - np.sum(np.log(np.diagonal(factor))) - d * _LOG_SQRT_2PI

    @classmethod
    def pdf(cls, x: Any, mean: Any = None, cov: Any = 1.0) -> Any:
        """The density of points `x` of shape (..., d)."""
        return np.exp(cls.logpdf(x, mean, cov))


class dirichlet:  # SciPy's name
    """The Dirichlet distribution of vectors that sum to 1, with parameters `alpha` of shape (d,)."""

    @staticmethod
    def logpdf(x: Any, alpha: Any) -> Any:
        """The logarithm of the density, of shape (...), of points `x` of shape (d, ...) or (d - 1, ...).

        The last entry of a point may be left away: it is what is missing to 1.
        """
        x, alpha = operand(x), operand(alpha)
        if x.shape[0] == alpha.shape[0] - 1:
            x = np.concatenate([x, 1 - np.sum(x, axis=0, keepdims=True)])
        if alpha.ndim != 1 or x.shape[0] != alpha.shape[0]:
            raise ShapeError(
                f"alpha of shape {alpha.shape} does not fit points of shape {x.shape}",
                fix="give alpha the shape (d,) and the points the shape (d, ...)",
            )
        constant = gammaln(np.sum(alpha)) - np.sum(gammaln(alpha))
        return constant + np.sum(xlogy((alpha - 1).reshape(-1, *[1] * (x.ndim - 1)), x), axis=0)

    @classmethod
    def pdf(cls, x: Any, alpha: Any) -> Any:
        """The density of points `x` of shape (d, ...)."""
        return np.exp(cls.logpdf(x, alpha))
