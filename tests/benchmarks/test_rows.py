"""The rows' functions compute what they are named after, on NumPy itself."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from benchmarks.rows import ROWS


@pytest.fixture
def functions(monkeypatch):
    monkeypatch.setenv("BENCH_PEER", "numpy")
    for module in ("benchmarks.namespace", "benchmarks.numpy_rows"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    yield importlib.import_module("benchmarks.numpy_rows").FUNCTIONS
    for module in ("benchmarks.namespace", "benchmarks.numpy_rows"):
        sys.modules.pop(module, None)


def value(functions, name):
    return functions[name](*ROWS[name].inputs())


def test_every_row_has_a_function(functions):
    assert set(functions) == set(ROWS)


@pytest.mark.parametrize("name", ["rosen10", "rosen1e6"])
def test_rosenbrock(functions, name):
    (x,) = ROWS[name].inputs()
    assert value(functions, name) == pytest.approx(optimize.rosen(x), rel=1e-12)


def test_black_scholes(functions):
    spot, strike, years, rate, vol = (a[:1000] for a in ROWS["bs1e6"].inputs())
    d1 = (np.log(spot / strike) + (rate + vol**2 / 2) * years) / (vol * np.sqrt(years))
    call = spot * stats.norm.cdf(d1) - strike * np.exp(-rate * years) * stats.norm.cdf(d1 - vol * np.sqrt(years))
    assert functions["bs1e6"](spot, strike, years, rate, vol) == pytest.approx(call.sum(), rel=1e-12)


def test_logistic(functions):
    w, X, y = ROWS["logreg"].inputs()
    log_p = np.where(y == 1, stats.logistic.logcdf(X @ w), stats.logistic.logsf(X @ w))
    assert value(functions, "logreg") == pytest.approx(-np.mean(log_p), rel=1e-10)


def test_gaussian_process(functions):
    theta, X, y = ROWS["gp200"].inputs()
    squared = ((X[:, None] - X[None]) ** 2).sum(-1)
    K = np.exp(theta[0] - 0.5 * squared * np.exp(theta[1])) + np.exp(theta[2]) * np.eye(len(y))
    density = stats.multivariate_normal(np.zeros(len(y)), K).logpdf(y)
    assert value(functions, "gp200") == pytest.approx(-density - len(y) / 2 * np.log(2 * np.pi), rel=1e-9)


def test_hidden_markov(functions):
    A, B, symbols = ROWS["hmm"].inputs()
    transition, emission = (np.exp(m) / np.exp(m).sum(1, keepdims=True) for m in (A, B))
    state, expected = np.full(8, 1 / 8), 0.0
    for symbol in symbols:
        state = state @ transition * emission[:, symbol]
        expected, state = expected + np.log(state.sum()), state / state.sum()
    assert value(functions, "hmm") == pytest.approx(expected, rel=1e-10)


def test_kalman_gives_the_density_of_all_observations_at_once(functions):
    theta, observations = ROWS["kalman"].inputs()
    n, (q, r) = 30, np.exp(theta)
    F = np.eye(4) + np.diag([0.1, 0.1], 2)
    P, covariance = q * np.eye(4), np.zeros((n, n))
    for t in range(n):
        P = F @ P @ F.T + 0.1 * q * np.eye(4)
        column = P
        for s in range(t, n):
            covariance[s, t] = covariance[t, s] = column[0, 0]
            column = F @ column
    density = stats.multivariate_normal(np.zeros(n), covariance + r * np.eye(n)).logpdf(observations[:n])
    assert functions["kalman"](theta, observations[:n]) == pytest.approx(density, rel=1e-9)


def test_gaussian_mixture_gives_the_published_value(functions):
    assert value(functions, "gmm") == pytest.approx(-25649.6526211973, rel=1e-13)


def test_lotka_volterra_gives_the_solution_of_the_equations(functions):
    p, y0 = ROWS["lv1000"].inputs()

    def slope(t, y):
        return [p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]]

    times = np.linspace(0.01, 10, 1000)
    solution = integrate.solve_ivp(slope, (0, 10), y0, t_eval=times, rtol=1e-10, atol=1e-10)
    assert value(functions, "lv1000") == pytest.approx(np.sum(solution.y**2), rel=1e-6)


def test_lstm_gives_the_published_value(functions):
    assert value(functions, "lstm") == pytest.approx(0.666665179559, rel=1e-11)


def test_float32_rows_stay_float32(functions):
    assert value(functions, "mlp").dtype == value(functions, "lngelu").dtype == np.float32
