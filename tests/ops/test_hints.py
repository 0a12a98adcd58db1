"""What errors about values that leave the trace say to write instead: names that exist, for who asked for numbers."""

from __future__ import annotations

import copy
import importlib
import math
import re
from collections.abc import Callable
from math import exp as exponential
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.special
import scipy.stats
from scipy import special
from scipy.interpolate import CubicSpline
from scipy.linalg import expm, solve
from scipy.ndimage import gaussian_filter
from scipy.signal import fftconvolve
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist
from scipy.special import log_softmax, logsumexp, softmax
from scipy.stats import norm

import tracegrad as tg
from tracegrad.errors import TracegradError

X = np.array([1.0, 2.0, 0.5, 3.0])
SPARSE = csr_matrix(np.eye(4))
MASKED = np.ma.masked_array(np.ones(4), [0, 1, 0, 0])


def fix(f: Callable[[Any], Any], transform: Callable[..., Any] = tg.grad) -> str:
    """What the error of `f` says to do; the line it shows is in this file."""
    with pytest.raises(TracegradError) as caught:
        transform(f)(X)
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
    return caught.value.fix


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (lambda x: logsumexp(x), "special.logsumexp"),
        (lambda x: special.logsumexp(x), "special.logsumexp"),
        (lambda x: scipy.special.logsumexp(x), "special.logsumexp"),
        (lambda x: softmax(x)[0], "special.softmax"),
        (lambda x: log_softmax(x)[0], "special.log_softmax"),
        (lambda x: solve(np.eye(4), x)[0], "linalg.solve"),
        (lambda x: expm(np.outer(x, x))[0, 0], "linalg.expm"),
        (lambda x: norm.logpdf(x)[0], "stats.norm.logpdf"),
        (lambda x: scipy.stats.norm.pdf(x)[0], "stats.norm.pdf"),
    ],
)
@pytest.mark.parametrize("eager", [False, True])
def test_functions_that_tracegrad_has_under_the_name_of_scipy(f: Callable[[Any], Any], name: str, eager: bool):
    if eager:
        with tg.eager():
            text = fix(f)
    else:
        text = fix(f)
    assert f"use tracegrad.scipy.{name};" in text
    module, *path = name.split(".")
    found = importlib.import_module(f"tracegrad.scipy.{module}")
    for part in path:
        found = getattr(found, part)


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (lambda x: scipy.integrate.quad(lambda t: t * x[0], 0, 1)[0], "scipy.integrate.quad"),
        (lambda x: CubicSpline(np.arange(4.0), x)(0.5), "scipy.interpolate.CubicSpline"),
        (lambda x: fftconvolve(x, x)[0], "scipy.signal.fftconvolve"),
        (lambda x: cdist(x[:, None], x[:, None])[0, 0], "scipy.spatial.distance.cdist"),
        (lambda x: gaussian_filter(x, 1.0)[0], "scipy.ndimage.gaussian_filter"),
    ],
)
def test_functions_that_tracegrad_does_not_have(f: Callable[[Any], Any], name: str):
    text = fix(f)
    assert f"wrap the call of {name} in a tg.Function" in text
    assert "tracegrad.scipy" not in text
    assert "np.arange" not in text


def test_wrapped_functions_whose_name_no_frame_says():
    text = fix(lambda x: scipy.linalg.lu_factor(np.outer(x, x))[0][0, 0])
    assert "in a tg.Function" in text
    assert "tracegrad.scipy" not in text


def test_sparse_matrices():
    assert "A.toarray()" in fix(lambda x: (SPARSE @ x).sum())


def test_masked_arrays():
    assert "a.filled(value)" in fix(lambda x: (MASKED * x).sum())
    assert ".filled(value)" in fix(lambda x: (x * MASKED).sum())


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda x: math.fsum(x), "write np.sum for math.fsum"),
        (lambda x: math.pow(x[0], 2), "write np.power for math.pow"),
        (lambda x: math.lgamma(x[0]), "write scipy.special.gammaln for math.lgamma"),
        (lambda x: math.log(x[0]) * math.pi, "write np.log for math.log"),
        (lambda x: exponential(x[0]), "write np.exp for exponential of math"),
        (lambda x: np.square([x[0], x[1]]).sum(), "give np.square of a list of values np.stack(values)"),
        (lambda x: np.arange(x[0], x[0] + 3).sum(), "write x + np.arange(n)"),
    ],
)
def test_what_stands_on_the_line(f: Callable[[Any], Any], text: str):
    found = fix(f)
    assert text in found
    for name in re.findall(r"\bnp\.([\w.]+)", found):
        assert hasattr(np, name), found


def test_values_without_a_name_for_what_happened():
    assert "in a tg.Function with its own backward" in fix(lambda x: memoryview(x.__array__())[0])


def test_numbers_in_arange_are_not_what_leaves():
    found = fix(lambda x: float(x[0]) * np.arange(4.0).sum())
    assert "np.arange" not in found


def test_a_copied_value_is_reported_at_the_line_that_copies():
    assert "x.clone()" in fix(lambda x: copy.deepcopy(x).sum())
    assert "x.clone()" in fix(lambda x: copy.deepcopy({"a": [x]})["a"][0].sum())


def test_repeating_a_str():
    with pytest.raises(TypeError, match="to repeat a str"):
        tg.grad(lambda x: "a" * x)(X)
    assert "a" * tg.tensor(3) == "aaa"


def test_only_close_names_are_offered():
    assert "near it" not in fix(lambda x: np.roots(x)[0])
    assert "near it there are: polyval" in fix(lambda x: np.poly(x)[0])


def test_methods_of_ndarray_as_the_function():
    with pytest.raises(tg.errors.ArgumentError, match=r"np\.dot for np\.ndarray\.dot"):
        tg.grad(np.ndarray.dot)
