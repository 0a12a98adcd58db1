"""grad and value_and_grad: what goes in, what comes out, nesting. Expected values are written-out mathematics."""

import dataclasses
from collections import namedtuple

import numpy as np
import pytest

import tracegrad as tg

X = np.array([0.5, -1.5, 2.0])


def energy(x):
    return np.sum(np.log1p(x**2) * np.cos(x))


def energy_gradient(x):
    return 2 * x / (1 + x**2) * np.cos(x) - np.log1p(x**2) * np.sin(x)


@pytest.fixture(params=["compiled", "eager"])
def mode(request):
    if request.param == "compiled":
        yield "compiled"
    else:
        with tg.eager():
            yield "eager"


def test_value_and_gradient(mode):
    value, gradient = tg.value_and_grad(energy)(X)
    assert np.isclose(value, np.sum(np.log1p(X**2) * np.cos(X)))
    assert type(gradient) is np.ndarray
    assert np.allclose(gradient, energy_gradient(X))


def test_grad_returns_the_gradient_alone(mode):
    assert np.allclose(tg.grad(energy)(X), energy_gradient(X))


def test_a_decorator_with_and_without_arguments(mode):
    @tg.grad
    def bare(x):
        return np.sum(x * x)

    @tg.value_and_grad(argnums=1)
    def called(a, b):
        return np.sum(a * b * b)

    assert np.allclose(bare(X), 2 * X)
    assert np.allclose(called(X, X)[1], 2 * X * X)


def test_argnums_tuple_and_negative(mode):
    def f(a, b, c):
        return np.sum(a * b) + np.sum(c)

    ga, gb = tg.grad(f, argnums=(0, 1))(X, 2 * X, X)
    assert np.allclose(ga, 2 * X) and np.allclose(gb, X)
    assert np.allclose(tg.grad(f, argnums=-1)(X, X, X), np.ones(3))
    gb, ga = tg.grad(f, argnums=(1, 0))(X, 2 * X, X)
    assert np.allclose(ga, 2 * X) and np.allclose(gb, X)


def test_has_aux(mode):
    def f(x):
        y = x * x
        return np.sum(y), {"y": y, "note": "kept", "count": 3}

    (value, aux), gradient = tg.value_and_grad(f, has_aux=True)(X)
    assert np.isclose(value, np.sum(X * X)) and np.allclose(aux["y"], X * X) and np.allclose(gradient, 2 * X)
    assert aux["note"] == "kept" and aux["count"] == 3 and type(aux["y"]) is np.ndarray
    gradient, aux = tg.grad(f, has_aux=True)(X)
    assert np.allclose(gradient, 2 * X) and np.allclose(aux["y"], X * X)


Point = namedtuple("Point", "a b")


@dataclasses.dataclass
class Parameters:
    w: np.ndarray
    rest: dict


def test_pytrees(mode):
    def f(p):
        return np.sum(p["w"] * p["deep"][0].a) + np.sum(p["deep"][1] ** 2) * p["deep"][0].b

    p = {"w": X, "deep": [Point(2 * X, 3.0), X]}
    g = tg.grad(f)(p)
    assert np.allclose(g["w"], 2 * X) and np.allclose(g["deep"][0].a, X)
    assert np.isclose(g["deep"][0].b, np.sum(X**2)) and np.allclose(g["deep"][1], 6 * X)
    assert isinstance(g["deep"][0], Point)


def test_dataclasses(mode):
    def f(p):
        return np.sum(p.w**2) + np.sum(p.rest["v"])

    g = tg.grad(f)(Parameters(X, {"v": X}))
    assert isinstance(g, Parameters) and np.allclose(g.w, 2 * X) and np.allclose(g.rest["v"], 1)


def test_keyword_arguments_and_static_ones(mode):
    @tg.grad
    def f(x, *, scale, kind="plain"):
        return np.sum(scale * (x if kind == "plain" else x * x))

    assert np.allclose(f(X, scale=2.0), 2)
    assert np.allclose(f(X, scale=2.0, kind="square"), 4 * X)
    assert np.allclose(f(X, scale=3.0), 3)


def test_python_floats_change_without_recompiling():
    f = tg.grad(lambda x, a: np.sum(a * x * x))
    assert np.allclose(f(X, 2.0), 4 * X) and np.allclose(f(X, 3.0), 6 * X)
    assert len(tg.explain(f).programs) == 1


def test_gradient_of_a_python_float(mode):
    assert np.isclose(tg.grad(lambda a: np.sin(a) * a)(0.5), np.cos(0.5) * 0.5 + np.sin(0.5))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_gradient_has_its_arguments_dtype_and_shape(mode, dtype):
    x = np.array([[1.0, 2.0]], dtype)
    b = np.float32(3.0) * np.ones((4, 1), np.float32)
    gx, gb = tg.grad(lambda x, b: np.sum(x * b * 2.0), argnums=(0, 1))(x, b)
    assert gx.dtype == dtype and gx.shape == (1, 2) and np.allclose(gx, 24)
    assert gb.dtype == np.float32 and gb.shape == (4, 1) and np.allclose(gb, 6)


def test_second_order(mode):
    third = tg.grad(lambda x: np.sum(tg.grad(lambda x: np.sum(tg.grad(lambda x: np.sum(x**4))(x)))(x)))
    assert np.allclose(third(X), 24 * X)


def test_gradient_of_a_jitted_function_and_jit_of_a_gradient(mode):
    inner = tg.jit(lambda x: np.sin(x) * x)
    assert np.allclose(tg.grad(lambda x: np.sum(inner(x)))(X), np.cos(X) * X + np.sin(X))
    assert np.allclose(tg.jit(tg.grad(energy))(X), energy_gradient(X))


def test_inner_gradient_uses_outer_variables(mode):
    # d/da of (d/dx sum(a x²)) = 2x, summed
    f = tg.grad(lambda a: np.sum(tg.grad(lambda x: np.sum(a * x * x))(X)))
    assert np.isclose(f(2.0), np.sum(2 * X))


def test_methods(mode):
    class Model:
        def __init__(self, scale):
            self.scale = scale

        @tg.value_and_grad(argnums=1)
        def loss(self, x):
            return np.sum(self.scale * x * x)

    a, b = Model(1.0), Model(3.0)
    assert np.allclose(a.loss(X)[1], 2 * X) and np.allclose(b.loss(X)[1], 6 * X)
    a.scale = 5.0
    assert np.allclose(a.loss(X)[1], 10 * X)


def test_tensors_in_tensors_out(mode):
    value, gradient = tg.value_and_grad(energy)(tg.tensor(X))
    assert isinstance(value, tg.Tensor) and isinstance(gradient, tg.Tensor)
    assert np.allclose(gradient.numpy(), energy_gradient(X))


def test_backward_through_a_jitted_function(mode):
    f = tg.jit(lambda x, w: (np.tanh(x * w), np.sum(w)))
    x, w = tg.tensor(X), tg.tensor(2 * X, requires_grad=True)
    out, total = f(x, w)
    (out.sum() + 3 * total).backward()
    assert np.allclose(w.grad.numpy(), (1 - np.tanh(2 * X * X) ** 2) * X + 3)


def test_double_backward_through_a_jitted_function(mode):
    x = tg.tensor(X, requires_grad=True)
    (g,) = tg.autograd.grad(tg.jit(lambda x: np.sum(x**3))(x), [x], create_graph=True)
    (h,) = tg.autograd.grad(g.sum(), [x])
    assert np.allclose(h.numpy(), 6 * X)


def test_a_gradient_function_inside_eager_autograd(mode):
    x = tg.tensor(X, requires_grad=True)
    g = tg.grad(lambda x: np.sum(x**3))(x)
    (h,) = tg.autograd.grad((g * g).sum(), [x])
    assert np.allclose(h.numpy(), 2 * 3 * X**2 * 6 * X)


def test_captured_tensors_take_part_in_autograd(mode):
    w = tg.tensor(X, requires_grad=True)
    f = tg.jit(lambda x: np.sum(x * w * w))
    f(X).backward()
    assert np.allclose(w.grad.numpy(), 2 * X * X)


def test_stop_gradient_and_no_grad(mode):
    assert np.allclose(tg.grad(lambda x: np.sum(tg.stop_gradient(x) * x))(X), X)

    def f(x):
        with tg.no_grad():
            y = x * x
        return np.sum(y * x)

    assert np.allclose(tg.grad(f)(X), X * X)


def test_unused_arguments_get_zeros_but_a_constant_result_is_an_error(mode):
    ga, gb = tg.grad(lambda a, b: np.sum(a * 2), argnums=(0, 1))(X, X)
    assert np.allclose(ga, 2) and np.array_equal(gb, np.zeros(3))
    with pytest.raises(tg.errors.NonScalarError, match="silently zero"):
        tg.grad(lambda x: np.sum(tg.stop_gradient(x)))(X)
    with pytest.raises(tg.errors.NonScalarError, match="silently zero"):
        tg.grad(lambda x: 3.0)(X)
    assert np.array_equal(tg.grad(lambda x: np.sum(tg.stop_gradient(x)), allow_unused=True)(X), np.zeros(3))


def test_size_zero_and_size_one(mode):
    value, g = tg.value_and_grad(lambda x: np.sum(x * x))(np.zeros((0, 3)))
    assert value == 0 and g.shape == (0, 3)
    value, g = tg.value_and_grad(lambda x: x * x)(np.array([3.0]))
    assert np.allclose(value, [9]) and np.allclose(g, [6])
