"""NumPy's floating point warnings: those of the user's own computation, never those of its derivative."""

import warnings

import numpy as np
import pytest

import tracegrad as tg


def root():
    x = tg.tensor([0.0, 4.0], requires_grad=True)
    return x, np.sum(np.sqrt(x))


def test_the_derivative_of_a_root_at_zero_is_infinite_without_a_warning():
    x, y = root()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [np.inf, 0.25])


def test_what_the_user_set_to_raise_raises_in_backward_too():
    _, y = root()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        y.backward()


def test_anomaly_mode_warns():
    with tg.autograd.detect_anomaly(check_nan=False):
        _, y = root()
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            y.backward()


def test_forward_warns_as_numpy():
    x = tg.tensor([0.0], requires_grad=True)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        np.log(x)
