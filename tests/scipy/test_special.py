"""tracegrad.scipy.special against scipy.special: values, dispatch of its ufuncs, derivatives, awkward points."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.special

from tests.ops.derivatives import check_derivatives, gradients
from tests.ops.functions import assert_same, check_function
from tests.ops.samples import values
from tracegrad.errors import ArgumentError, UnsupportedError
from tracegrad.scipy import special
from tracegrad.tensor import Tensor

inf, nan = math.inf, math.nan
AWKWARD = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 1e300, inf, -inf, nan])

# where the function is smooth
UNARY: dict[str, tuple[float, float]] = {
    "erf": (-2, 2), "erfc": (-2, 2), "expit": (-4, 4), "gammaln": (0.5, 4), "gamma": (0.5, 3), "digamma": (0.5, 4),
    "psi": (0.5, 4),
    "log_ndtr": (-5, 2), "ndtr": (-3, 3), "ndtri": (0.1, 0.9), "erfinv": (-0.8, 0.8), "erfcinv": (0.2, 1.8),
    "erfcx": (-1, 3),
    "i0": (-2, 2), "i1": (-2, 2), "i0e": (0.2, 2), "i1e": (0.2, 2), "log_expit": (-4, 4), "logit": (0.05, 0.95),
    "entr": (0.1, 2),
    "expm1": (-1, 1), "log1p": (-0.5, 1),
}  # fmt: skip
BINARY = ("xlogy", "xlog1py", "rel_entr", "kl_div", "beta", "betaln")


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_argument(name: str):
    ours, theirs = getattr(special, name), getattr(scipy.special, name)
    x = values((2, 3), *UNARY[name])
    check_function(ours, (x,), expected=theirs)
    check_function(theirs, (x,))  # a ufunc of SciPy finds its way here
    check_function(ours, (x.astype(np.float32),), expected=theirs, order=0)
    with np.errstate(all="ignore"):
        assert_same(ours(Tensor._wrap(AWKWARD)), theirs(AWKWARD))
        assert_same(ours(AWKWARD), theirs(AWKWARD))


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arguments(name: str):
    ours, theirs = getattr(special, name), getattr(scipy.special, name)
    x, y = values((2, 3), 0.5, 3), values((3,), 0.5, 2, seed=1)
    check_function(theirs, (x, y))
    check_function(ours, (x, y), expected=theirs)
    a, b = (z.ravel() for z in np.meshgrid(AWKWARD, AWKWARD))
    with np.errstate(all="ignore"):
        assert_same(ours(Tensor._wrap(a), Tensor._wrap(b)), theirs(a, b), 1e-11)


def test_polygamma_and_multigammaln():
    x = values((3,), 1.5, 4)
    for n in range(4):
        check_function(
            lambda z, n=n: special.polygamma(n, z), (x,), expected=lambda z, n=n: scipy.special.polygamma(n, z)
        )
    check_function(lambda z: special.multigammaln(z, 3), (x,), expected=lambda z: scipy.special.multigammaln(z, 3))
    with pytest.raises(ArgumentError, match="non-negative integer"):
        special.polygamma(-1, Tensor._wrap(x))


def test_softplus():
    x = values((3,))
    check_function(special.softplus, (x,), expected=lambda z: np.log1p(np.exp(z)))
    assert_same(special.softplus(Tensor._wrap(np.array([800.0, -800.0]))), np.array([800.0, 0.0]))


def test_xlogy_at_zero():
    gx, gy = gradients(special.xlogy, [np.zeros(2), np.array([3.0, 1.0])])
    np.testing.assert_allclose(gx, [math.log(3), 0])
    np.testing.assert_array_equal(gy, [0, 0])
    check_derivatives(special.xlogy, [np.zeros(1), np.array([2.0])])


# ---- over axes ----------------------------------------------------------------------------------------------------

M, T = values((2, 3)), values((2, 3, 2))
OVER_AXES = (special.softmax, special.log_softmax, special.logsumexp)


@pytest.mark.parametrize("function", OVER_AXES, ids=lambda f: f.__name__)
@pytest.mark.parametrize(("x", "axis"), [(M, None), (M, 0), (M, -1), (T, (0, 2)), (T, 1), (M[0], 0)], ids=str)
def test_over_axes(function: Any, x: np.ndarray, axis: Any):
    theirs = getattr(scipy.special, function.__name__)
    check_function(function, (x, axis), expected=theirs)
    check_function(function, (x.astype(np.float32), axis), expected=theirs, order=0)
    assert_same(function(Tensor._wrap(x * 1e3), axis), theirs(x * 1e3, axis))


@pytest.mark.parametrize(
    "x", [[-inf, -inf], [inf, inf], [inf, 1.0], [-inf, 2.0], [nan, 1.0], [800.0, 801.0], [-800.0, -801.0]], ids=str
)
def test_awkward_rows(x: list[float]):
    row = np.array([x, [0.0, 1.0]])
    with np.errstate(all="ignore"):
        for function in OVER_AXES:
            assert_same(function(Tensor._wrap(row), 1), getattr(scipy.special, function.__name__)(row, 1))


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([-inf, -inf], [0, 0]),
        ([inf, inf], [0.5, 0.5]),
        ([inf, 1.0, inf], [0.5, 0, 0.5]),
        ([-inf, 2.0], [0, 1]),
        ([0.0, 0.0], [0.5, 0.5]),
    ],
)
def test_gradient_of_logsumexp_at_infinities(x: list[float], expected: list[float]):
    (g,) = gradients(special.logsumexp, [np.array(x)])
    np.testing.assert_array_equal(g, expected)


def test_gradients_of_softmax_with_masked_entries():
    x = np.array([0.0, -inf, 1.0])
    for function in (special.softmax, lambda z: special.log_softmax(z)[::2]):
        (g,) = gradients(function, [x], [np.arange(1.0, 1.0 + function(Tensor._wrap(x)).shape[0])])
        assert np.isfinite(g).all() and g[1] == 0


def test_logsumexp_with_weights_and_sign():
    b = np.array([1.0, -2.0, 0.5])
    for kwargs in (
        {"b": b},
        {"b": b, "return_sign": True, "axis": 1},
        {"b": np.abs(b), "axis": 1, "keepdims": True},
        {"return_sign": True},
    ):
        check_function(
            special.logsumexp, (M,), kwargs, expected=scipy.special.logsumexp, order=1 if "return_sign" in kwargs else 0
        )
    check_function(
        lambda x, w: special.logsumexp(x, 1, w), (M, np.abs(b)), expected=lambda x, w: scipy.special.logsumexp(x, 1, w)
    )
    zero = np.array([1.0, 0.0])
    assert_same(
        special.logsumexp(Tensor._wrap(np.array([1.0, inf])), b=zero), scipy.special.logsumexp([1.0, inf], b=zero)
    )


def test_logsumexp_of_nothing():
    assert_same(special.logsumexp(Tensor._wrap(np.zeros((0, 2))), 0), np.array([-inf, -inf]))


def test_complex_is_refused():
    with pytest.raises(UnsupportedError, match="complex"):
        special.logsumexp(Tensor._wrap(np.array([1j])))


def test_import_of_the_package_does_not_import_scipy():
    code = "import sys, tracegrad; print('scipy' in sys.modules, tracegrad.scipy.special.__name__)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "tracegrad.scipy.special"]
