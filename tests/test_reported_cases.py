"""Gradients at points where other libraries were reported to be wrong; the comments name the reports.

Values come from mathematics and, at kinks, from docs/conventions.md.
"""

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import TracegradError

inf, array, f32 = np.inf, np.array, np.float32
THIRD = 1 / 3
X = np.random.default_rng(0).standard_normal((2, 3, 4, 5))

# function, arguments, gradient in the first ones
CASES = {
    "pytorch#2421 norm at 0": (np.linalg.norm, [np.zeros(1)], [np.zeros(1)]),
    "HIPS#570 norm**2 at 0": (lambda x: np.linalg.norm(x) ** 2, [np.zeros(3)], [np.zeros(3)]),
    "pytorch#6394 exponent 0": (lambda x: np.sqrt((x - 1) ** 0), [1.0], [0.0]),
    "Theano#4568 ties of max": (np.max, [array([1.0, 1.0])], [array([0.5, 0.5])]),
    "pytorch#41779 ties of norm": (
        lambda x: np.linalg.norm(x, inf), [array([9.0, 9, -9, 1])], [array([THIRD, THIRD, -THIRD, 0])]
    ),
    "HIPS#141 winner twice": (lambda x: np.max(np.concatenate([x, x])), [array([1.0, 3.0])], [array([0.0, 1.0])]),
    "pytorch#27134 0**1": (lambda b, a: a**b, [1.0, 0.0], [0.0]),
    "pytorch#68425 exp overflows": (lambda a: np.where(a <= 0, np.exp(a), 1 + a), [f32(100)], [f32(1)]),
    "tinygrad#12409 sqrt not chosen": (lambda a: np.where(a > 0, np.sqrt(a), 0 * a), [-1.0], [0.0]),
    "pytorch#7002 at the bounds": (lambda a: np.sum(np.clip(a, 0, 1)), [array([0.0, 1.0])], [array([1.0, 1.0])]),
    "Theano#633 x is the bound": (lambda x: np.clip(x, 0, x), [5.0], [1.0]),
    "HIPS#100 abs at 0": (np.abs, [0.0], [0.0]),
    "pytorch#98276 atan2(0, 0)": (np.arctan2, [0.0, 0.0], [0.0, 0.0]),
    "pytorch#98276 underflow": (np.arctan2, [f32(1e-13), f32(5.6843e-14)], [f32(4.2962e12), f32(-7.5579e12)]),
    "pytorch#49724 logaddexp of -inf": (np.logaddexp, [-inf, -inf], [0.0, 0.0]),
    "jax#6811 logsumexp of -inf": (
        lambda x: tg.scipy.special.logsumexp(np.stack([x * 0 - inf, x - inf])), [1.0], [0.0]
    ),
    "pytorch#4320 std of equals": (np.std, [np.ones(4)], [np.zeros(4)]),
    "pytorch#1631 gathered twice": (lambda x: np.sum(x[[0, 0]] * array([0.2, 0.3])), [array([0.1])], [array([0.5])]),
    "pytorch#1787 (1,)*(5,4)": (lambda a, b: np.sum(a * b), [np.ones(1), np.ones((5, 4))], [array([20.0])]),
    "pytorch#1787 (4,1)*(1,4)": (
        lambda a, b: np.sum(a * b), [np.ones((4, 1)), np.ones((1, 4))], [np.full((4, 1), 4.0), np.full((1, 4), 4.0)]
    ),
    "pytorch#1813 1-d to 0-d": (lambda x: np.mean(x**2, 0), [np.arange(5.0)], [np.arange(5.0) * 0.4]),
    "HIPS#384 broadcast_to": (lambda x: np.sum(np.broadcast_to(x, (4, 3))), [np.ones(3)], [np.full(3, 4.0)]),
    "pytorch#15223 size 0": (lambda b, a: np.sum(a + b[:, None]), [np.ones(4), np.ones((4, 0))], [np.zeros(4)]),
    "pytorch#45201 repeat 0": (lambda a: np.sum(np.repeat(a, 0)), [np.ones(10)], [np.zeros(10)]),
    "HIPS#199 float32": (lambda x: np.sum(np.maximum(x, 1)), [f32([0, 2])], [f32([0, 1])]),
    "pytorch#94086 mixed dtypes": (
        lambda x, y: np.mean((x - y) ** 2), [f32([0, 2]), array([1.0, 4.0])], [f32([-1, -2]), array([1.0, 2.0])]
    ),
    "jax#25681 abs at infinity": (np.abs, [complex(inf, 0)], [1 + 0j]),
    "tensorflow#119430 cumprod, one 0": (
        lambda x: np.sum(np.cumprod(x)), [array([0.0, 2, 3])], [array([9.0, 0, 0])]
    ),
    "tensorflow#119430 cumprod, two 0": (
        lambda x: np.sum(np.cumprod(x)), [array([2.0, 0, 0, 3])], [array([1.0, 2, 0, 0])]
    ),
    "pytorch#82644 prod along an axis": (lambda x: np.prod(x, 0), [array([0.0])], [array([1.0])]),
    "HIPS#115 einsum of a diagonal": (lambda a: np.einsum("ii->", a), [np.ones((3, 3))], [np.eye(3)]),
    "HIPS#242 einsum sums axes": (
        lambda x: np.sum(np.einsum("abcd->bd", x) ** 2), [X], [X * 0 + 2 * X.sum((0, 2))[None, :, None, :]]
    ),
    "pytorch#171704 trace of 4x2": (np.trace, [np.ones((4, 2))], [np.eye(4, 2)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gradient(name):
    function, arguments, expected = CASES[name]
    gradient = tg.grad(lambda *args: function(*args), argnums=tuple(range(len(expected))))
    results = [gradient(*arguments)]
    with tg.eager():
        results.append(gradient(*arguments))
    for got in results:
        for g, e in zip(got, expected, strict=True):
            assert g.dtype == np.asarray(e).dtype
            np.testing.assert_allclose(g, e, rtol=1e-4 if g.dtype == f32 else 1e-12, strict=True)


def test_fourth_derivative_at_0():
    """HIPS/autograd#116."""
    derivative = lambda x: np.exp(-(x**2))
    values = []
    for _ in range(4):
        derivative = tg.grad(derivative)
        values.append(derivative(0.0))
    assert values == [0, -2, 0, 12]


def test_second_derivative_of_a_product_with_zeros():
    """pytorch/pytorch#106789."""
    expected = np.zeros((4, 4))
    expected[2, 3] = expected[3, 2] = 6
    np.testing.assert_array_equal(tg.hessian(np.prod)(array([2.0, 3, 0, 0])), expected)


def test_branch_in_a_loop():
    """jax-ml/jax#5900: the derivative of x**4 at 3."""

    def my_pow(x, n):
        def step(c, i):
            return tg.cond(i < n, lambda c: c * x, lambda c: c, c), None

        return tg.scan(step, 1.0, np.arange(10))[0]

    assert tg.grad(my_pow)(3.0, 4) == 108


def test_complex_result_has_no_gradient():
    """HIPS/autograd#361."""
    with pytest.raises(TracegradError, match="complex"):
        tg.value_and_grad(lambda x: x)(1j)


def test_values_of_compiled_code():
    """numba#2919, #2855, #5288, #5848, numexpr#63: no arithmetic is rearranged into another result."""
    assert tg.jit(np.isnan)(array([np.nan, 1.0])).tolist() == [True, False]
    ratio = tg.jit(lambda x, y: (x / y).sum())(np.ones(10**6, np.uint8), f32(255))
    assert ratio == pytest.approx(10**6 / 255, rel=1e-6)
    assert tg.jit(lambda x: np.sum(x - np.mean(x)))(np.arange(10) + 2**60) == 0
    x = np.arange(6)[::2]
    tg.jit(lambda x: +x)(x)[0] = 99
    assert x[0] == 0
    image = np.arange(60.0).reshape(5, 4, 3)
    np.testing.assert_array_equal(tg.jit(lambda i: i[::-1, ::, 0] - 0.25)(image), image[::-1, ::, 0] - 0.25)
