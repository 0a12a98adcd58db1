"""Plain NumPy code that runs eagerly may overwrite what backward reads, as when it is compiled."""

import numpy as np
import pytest

import tracegrad as tg
from tests.autograd.functions import Square


def softmax(x):
    w = np.exp(x)
    w /= w.sum()
    return (w * x).sum()


def elements(x):
    w = np.tanh(x)
    y = w**2
    w[1] = x[0]
    w[2:] *= 2
    return (y * w).sum()


def out_argument(x):
    w = np.sin(x)
    y = w * w
    np.multiply(w, 2, out=w)
    np.add(w, 1, out=w, where=w > 0)
    return (y + w * x).sum()


def views(x):
    w = x.copy()
    v = w[1:].reshape(3, 1)
    y = v * v
    w *= w[::-1]
    return (y * v).sum() + (v * v).sum()


def several_times(x):
    w = np.exp(x)
    for i in range(4):
        w[i] = w[i] * w[i - 1]
        w += np.sin(w)
    np.sqrt(w, out=w)
    w *= w
    return w.sum()


def own_array(x):
    a = np.ones(4)
    y = x**2 * a
    a += 5
    return (y * a).sum()


@pytest.mark.parametrize("function", [softmax, elements, out_argument, views, several_times, own_array])
def test_plain_code_may_overwrite_what_backward_reads(function):
    x, direction, step = np.array([0.3, -0.7, 1.1, 0.2]), np.array([1.0, 0.5, -0.3, 2.0]), 1e-5
    along = [function(x + s * step * direction) for s in (-1, 0, 1)]
    with tg.eager():
        gradient = tg.grad(function)(x)
        curvature = tg.grad(lambda x: np.sum(tg.grad(function)(x) * direction))(x) @ direction
        slopes = [tg.grad(function)(x + s * step * direction) @ direction for s in (-1, 1)]
    np.testing.assert_allclose(gradient @ direction, (along[2] - along[0]) / (2 * step), rtol=1e-7)
    np.testing.assert_allclose(curvature, (slopes[1] - slopes[0]) / (2 * step), rtol=1e-7)
    np.testing.assert_array_equal(x, [0.3, -0.7, 1.1, 0.2])


def test_a_functions_saved_values_survive_overwriting_in_plain_code():
    def function(x):
        w = np.exp(x)
        y = Square.apply(w)
        w *= 2
        return (y * w).sum()

    x = np.array([0.3, -0.7])
    with tg.eager():
        np.testing.assert_allclose(tg.grad(function)(x), 6 * np.exp(3 * x), rtol=1e-14)


def test_tensors_keep_the_version_check_under_eager():
    with tg.eager(), pytest.raises(RuntimeError, match="modified by an inplace operation"):
        tg.grad(softmax)(tg.tensor([0.3, -0.7], requires_grad=True))


def test_pullbacks_and_rows_of_plain_code_that_overwrites():
    x = np.array([0.3, -0.7, 1.1])
    with tg.eager():
        gradient = tg.grad(softmax)(x)
        _, pull = tg.vjp(softmax, x)
        np.testing.assert_allclose(pull(2.0)[0], 2 * gradient, rtol=1e-14)
        np.testing.assert_allclose(tg.vmap(tg.grad(softmax))(np.stack([x, x])), [gradient, gradient], rtol=1e-14)
