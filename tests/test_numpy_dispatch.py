"""Plain NumPy code on Tensors: what NumPy gives for ndarrays, eager and traced, with NumPy's keyword arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.autograd.node import type_of
from tracegrad.errors import (
    ArgumentError,
    DTypeError,
    LeavesTraceError,
    ShapeError,
    TracegradError,
    UnsupportedError,
)
from tracegrad.ir.interpret import interpret
from tracegrad.state import setting
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace

X = np.array([[1.5, -2.25, 3.0], [0.5, 2.0, -0.75]])
MASK = np.array([[True, False, True], [False, True, True]])
I = np.array([[3, -1, 2], [7, 0, 5]])

CALLS: dict[str, Callable[[Any], Any]] = {
    # operators
    "arithmetic": lambda x: (2 - x) * x / 3 + x**2 - -x + +x,
    "floor and remainder": lambda x: (x // 0.7) + (x % 0.7) + (5 // x) + (5 % x),
    "divmod": lambda x: divmod(x, 0.4)[0] + divmod(3, x)[1],
    "powers": lambda x: x**3 + x**0 + x**1 + x**-1 + 2**x + abs(x) ** 0.5 + abs(x) ** 1.5,
    "comparisons": lambda x: (x > 0) & (x <= 2) | (x == 3) ^ (x != 0.5) | ~(x >= 1) & (x < 1),
    "reflected array": lambda x: X + x - X * x,
    "NumPy scalar": lambda x: np.float64(2) * x + np.float32(1),
    "list operand": lambda x: x + [1, 2, 3],
    "round": lambda x: x.round() + x.round(1) + np.round(x, 2),
    "matmul": lambda x: x @ x.T,
    # reductions and their arguments
    "sum": lambda x: np.sum(x),
    "sum axis": lambda x: np.sum(x, axis=-1, keepdims=True),
    "sum axes": lambda x: np.sum(x, (0, 1)),
    "sum dtype": lambda x: np.sum(x, dtype=np.float32),
    "sum initial where": lambda x: np.sum(x, axis=0, initial=10, where=MASK),
    "sum of comparison": lambda x: np.sum(x > 0),
    "prod": lambda x: np.prod(x, axis=1, initial=2, where=MASK),
    "mean": lambda x: np.mean(x, axis=0),
    "mean where": lambda x: np.mean(x, axis=1, where=MASK),
    "mean float32": lambda x: np.mean(x.astype(np.float32)),
    "mean float16": lambda x: np.mean(x.astype(np.float16), axis=1),
    "mean of integers": lambda x: np.mean(x.astype(int)),
    "astype as a function": lambda x: np.astype(x, np.float32, copy=False) * np.astype(x > 0, int),
    "mean of bools": lambda x: (x > 0).mean(),
    "var": lambda x: np.var(x, axis=0, ddof=1),
    "var where": lambda x: np.var(x, where=MASK),
    "var correction": lambda x: np.var(x, correction=1),
    "std": lambda x: np.std(x, axis=1, keepdims=True),
    "std of float32": lambda x: x.astype(np.float32).std(),
    "var of float16": lambda x: x.astype(np.float16).var(),
    "max": lambda x: np.max(x, axis=0) + x.max(),
    "max initial": lambda x: np.max(x, axis=1, initial=1.0),
    "max where": lambda x: np.max(x, axis=1, where=MASK, initial=-np.inf),
    "min": lambda x: np.min(x, axis=(0, 1), keepdims=True) + np.amin(x),
    "any all": lambda x: np.any(x > 2, axis=0) | np.all(x > -1, axis=0),
    "any where": lambda x: np.any(x > 0, axis=1, where=~MASK),
    "argmax": lambda x: np.argmax(x) + x.argmin(axis=1),
    "argmax keepdims": lambda x: np.argmax(x, keepdims=True) + np.argmin(x, axis=0, keepdims=True),
    "nan reductions": lambda x: (
        np.nansum(y := np.where(MASK, x, np.nan), 1) + np.nanmean(y, axis=1) + np.nanmax(y, 1) + np.nanmin(y, axis=1)
        + np.nanprod(y, 1) + np.nanvar(y, 1, ddof=1) + np.nanstd(y, 1)
    ),
    "nanmax of none": lambda x: np.nanmax(np.where(x > 5, x, np.nan), axis=0) + np.nanmin(x / 0 - x / 0),
    "initial takes the dtype": lambda x: (
        np.sum(i := x.astype(int), 1, initial=-0.5) + np.prod(i, 1, initial=0.5) + np.max(i, 1, initial=0.7)
        + np.min(i, axis=1, where=i > 0, initial=2.7)
    ),
    "number of elements": lambda x: (
        (y := x.astype("f4")).sum(0) / y.size + np.maximum(y.size, y) + np.ones(3, "f4") * y.size + y.size**y
        + np.where(y > 0, y.size, y)
    ),
    "float32 stays": lambda x: np.percentile(y := x.astype("f4"), 30) + np.gradient(y, axis=0) + np.nanquantile(y, 0.2),
    "nanmax of integers": lambda x: np.nanmax(x.astype(int), axis=0),
    "count_nonzero": lambda x: np.count_nonzero(x > 0, axis=1),
    "ptp": lambda x: np.ptp(x, axis=1),
    # elementwise functions
    "maximum": lambda x: np.maximum(x, 0) + np.minimum(x, X[:, :1]) + np.fmax(x, np.nan) + np.fmin(1, x),
    "clip": lambda x: np.clip(x, -1, 1) + x.clip(min=0) + x.clip(max=1) + np.clip(x, None, 2) + np.clip(x, 0, X),
    "where": lambda x: np.where(x > 0, x, 0) + np.where(MASK, 1, x) + np.where(x, 1.0, 2.0),
    "exp family": lambda x: np.exp(x) + np.exp2(x) + np.expm1(x),
    "log family": lambda x: np.log(abs(x)) + np.log2(abs(x)) + np.log10(abs(x)) + np.log1p(abs(x)),
    "logaddexp": lambda x: np.logaddexp(x, 1) + np.logaddexp2(x, X),
    "trigonometric": lambda x: np.sin(x) + np.cos(x) + np.tan(x) + np.arctan(x) + np.arctan2(x, 2) + np.hypot(x, 1),
    "inverse": lambda x: np.arcsin(x / 4) + np.arccos(x / 4) + np.arctanh(x / 4) + np.arccosh(abs(x) + 1),
    "hyperbolic": lambda x: np.sinh(x) + np.cosh(x) + np.tanh(x) + np.arcsinh(x),
    "degrees": lambda x: np.deg2rad(x) + np.rad2deg(x) + np.degrees(x) + np.radians(x),
    "rounding": lambda x: np.floor(x) + np.ceil(x) + np.trunc(x) + np.rint(x) + np.fix(x) + np.round(x, -1),
    "roots": lambda x: np.sqrt(abs(x)) + np.cbrt(x) + np.square(x) + np.reciprocal(x),
    "signs": lambda x: np.sign(x) + np.copysign(x, -X) + np.signbit(x) + np.heaviside(x, 0.5) + np.fabs(x),
    "fmod": lambda x: np.fmod(x, 0.7) + np.float_power(abs(x), 2.5),
    "modf": lambda x: np.modf(x)[0] + np.modf(x)[1],
    "sinc": lambda x: np.sinc(x) + np.sinc(x / 100),
    "sinc complex": lambda x: np.sinc(x + 0.3j) + np.sinc(x / 100 - 0.01j),
    "predicates": lambda x: np.isnan(x) | np.isinf(x) | np.isfinite(x) | np.isposinf(x),
    "logic": lambda x: np.logical_and(x > 0, MASK) | np.logical_xor(x, 0) | np.logical_not(x) | np.logical_or(x, MASK),
    "nan_to_num": lambda x: np.nan_to_num(np.where(MASK, x, np.nan), nan=-1.0) + np.nan_to_num(x / (x - 3) * 0),
    "complex": lambda x: np.real((x + 1j) ** 2) + np.imag(x * 1j) + np.angle(x + 1j) + abs(x + 2j) + np.conj(x),
    "integers": lambda x: (I + x.astype(int)) // 2 + (I << 1) * x.astype(int),
    "isclose": lambda x: np.isclose(x, X + 1e-12),
    # ufunc keyword arguments and methods
    "ufunc dtype": lambda x: np.add(x, 1, dtype=np.float32),
    "reduce": lambda x: np.add.reduce(x) + np.maximum.reduce(x, axis=0) + np.multiply.reduce(x, axis=0),
    "logical reduce": lambda x: np.logical_or.reduce(x > 2) | np.logical_and.reduce(x > -5),
    "outer": lambda x: np.subtract.outer(x, x[0]),
    "accumulate": lambda x: np.add.accumulate(x, axis=1) + np.multiply.accumulate(x, axis=1),
    # creation
    "likes": lambda x: np.zeros_like(x) + np.ones_like(x, dtype=int) + np.full_like(x, 3),
    "like a shape": lambda x: np.full_like(x, 2, shape=(3,)) + np.empty_like(x) * 0,
    "like=": lambda x: np.zeros(3, like=x) + np.ones((2, 3), like=x) + np.full(3, 1.5, like=x) + np.arange(3, like=x),
    "eye": lambda x: np.eye(2, 3, like=x) + np.identity(3, like=x)[0],
    "linspace": lambda x: np.linspace(x[0, 0], x[0, 2], 7) + np.linspace(x[0], x[1], 7, endpoint=False)[:, 0],
    "linspace axis": lambda x: np.linspace(0, x, 4, axis=-1),
    # methods
    "methods": lambda x: x.sum(0) + x.mean(axis=0) + x.prod(0) + x.var(0) + x.std(0) + x.max(0) + x.min(0),
    "shape methods": lambda x: x.reshape(3, 2).T + x.reshape((2, 3)) + x.ravel().reshape(2, -1) + x.flatten()[:3],
    "transpose": lambda x: x.transpose() @ x.swapaxes(0, 1).T + x.transpose(1, 0) @ x.mT.T + x.transpose((1, 0)) @ x,
    "astype": lambda x: x.astype(int) + x.astype("float32") + x.astype(bool),
    "copy real imag": lambda x: x.copy() + x.real + x.imag + x.conj(),
    "cumulative": lambda x: x.cumsum(1) + x.cumprod(axis=0) + x.take([2, 0, 1], axis=1) + x.dot(np.ones((3, 3))),
    "repeat": lambda x: x.repeat(2, axis=0)[::2] + x.diagonal().sum() + x.trace(),
}  # fmt: skip


def numbers(x: Any) -> Any:
    return np.asarray(x._value()) if isinstance(x, Tensor) else np.asarray(x)


@pytest.mark.parametrize("name", CALLS)
def test_eager_gives_what_numpy_gives(name: str):
    call = CALLS[name]
    with np.errstate(all="ignore"):
        expected, found = call(X.copy()), call(Tensor._wrap(X.copy()))
    assert isinstance(found, Tensor)
    assert (found.dtype, found.shape) == (np.asarray(expected).dtype, np.shape(expected))
    np.testing.assert_allclose(numbers(found), expected, rtol=1e-6 if found.dtype.itemsize < 8 else 1e-14, atol=1e-15)


@pytest.mark.parametrize("name", CALLS)
def test_traced_gives_what_numpy_gives_for_other_numbers_too(name: str):
    call = CALLS[name]
    trace = Trace("call")
    with setting(trace=trace), np.errstate(all="ignore"):
        out = call(trace.add_input(type_of(X), "x", X))
        output = trace.lift(out)
    graph, captured = trace.finish((output,))
    for x in (X, X[::-1] * 0.5):
        with np.errstate(all="ignore"):
            expected = call(x.copy())
            (found,) = interpret(graph, [x, *captured])
        assert (found.dtype, found.shape) == (np.asarray(expected).dtype, np.shape(expected))
        np.testing.assert_allclose(found, expected, rtol=1e-6 if found.dtype.itemsize < 8 else 1e-14, atol=1e-15)


@pytest.mark.parametrize("scalar", [2, 2.5, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8, bool, np.complex64])
@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.divide, np.maximum, np.power, np.greater])
def test_python_scalars_promote_as_in_numpy(ufunc: np.ufunc, dtype: Any, scalar: Any):
    x = np.array([1, 0, 2]).astype(dtype)
    for args in ((x, scalar), (scalar, x)):
        with np.errstate(all="ignore"):
            expected = ufunc(*args)
        for record in (False, True):
            with setting(trace=Trace("t") if record else None), np.errstate(all="ignore"):
                found = ufunc(*(Tensor._wrap(a) if isinstance(a, np.ndarray) else a for a in args))
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(numbers(found), expected)


class TestOut:
    def test_tensor_out(self):
        x = tg.tensor(X, requires_grad=True)
        out = tg.tensor(np.ones_like(X))
        assert np.exp(x, where=MASK, out=out) is out
        np.testing.assert_array_equal(out.detach().numpy(), np.where(MASK, np.exp(X), 1))
        out.sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.where(MASK, np.exp(X), 0))

    def test_reduction_with_tensor_out(self):
        out = tg.tensor(np.ones(3))
        assert np.sum(tg.tensor(X), axis=0, out=out) is out
        np.testing.assert_array_equal(out.numpy(), X.sum(0))

    def test_plain_out_of_a_constant(self):
        out = np.zeros((2, 3))
        assert np.add(tg.tensor(X), 1, out=out) is out
        np.testing.assert_array_equal(out, X + 1)

    def test_plain_out_would_lose_the_gradient(self):
        x = tg.tensor(X, requires_grad=True)
        with pytest.raises(LeavesTraceError, match="gradient of the result would be lost"):
            np.add(x, 1, out=np.zeros((2, 3)))
        with pytest.raises(LeavesTraceError, match="gradient of the result would be lost"):
            np.sum(x, axis=0, out=np.zeros(3))

    def test_masks_larger_than_the_operand(self):
        x, mask = tg.tensor(X), np.ones((2, 2, 3), bool)
        for reduce in (np.sum, np.prod, np.max, np.any, np.mean):
            with pytest.raises(ShapeError):
                reduce(x, where=mask, **({"initial": 0} if reduce is np.max else {}))

    def test_complex_numbers_have_no_order(self):
        for f in (
            lambda z: np.interp(z, [0, 1], [0, 1]),
            lambda z: np.quantile(z, 0.5),
            lambda z: np.nanmedian(z * 1j),
        ):
            with pytest.raises(DTypeError, match="no order"):
                f(tg.tensor(X + 1j))

    def test_wrong_shape_and_dtype(self):
        x = tg.tensor(X)
        with pytest.raises(ShapeError, match="out= has shape"):
            np.add(x, 1, out=np.zeros(3))
        with pytest.raises(DTypeError, match="does not fit an out= of dtype int64"):
            np.add(x, 1, out=np.zeros((2, 3), int))

    def test_where_without_out_gives_zeros_for_what_numpy_leaves_undefined(self):
        found = np.add(tg.tensor(X), 1, where=MASK)
        np.testing.assert_array_equal(numbers(found), np.where(MASK, X + 1, 0))


def test_builtin_round():
    found = round(tg.tensor([0.5, 1.26, -2.5]), 1)
    np.testing.assert_array_equal(found.numpy(), [0.5, 1.3, -2.5])
    np.testing.assert_array_equal(round(tg.tensor([0.5, 1.5, -2.5])).numpy(), [0, 2, -2])


class TestBadInput:
    def test_shapes(self):
        with pytest.raises(ValueError, match="broadcast"):
            tg.tensor([1.0, 2.0]) + tg.tensor([1.0, 2.0, 3.0])

    def test_unsupported_function_names_what_is_near(self):
        with pytest.raises(UnsupportedError, match=r"np\.histogram2d"):
            np.histogram2d(tg.tensor([1.0]), tg.tensor([1.0]))
        with pytest.raises(UnsupportedError, match=r"np\.frexp"):
            np.frexp(tg.tensor([1.0]))

    def test_unsupported_ufunc_method(self):
        with pytest.raises(UnsupportedError, match=r"np\.multiply\.reduceat"):
            np.multiply.reduceat(tg.tensor([1.0, 2.0]), [0])

    def test_strings_and_objects(self):
        with pytest.raises(TypeError):
            tg.tensor([1.0]) + "a"
        with pytest.raises(DTypeError):
            tg.tensor(["a"])
        with pytest.raises(DTypeError):
            tg.tensor([1.0]).astype("U3")

    def test_axis(self):
        with pytest.raises(ShapeError, match="axis 2 is out of bounds"):
            np.sum(tg.tensor(X), axis=2)
        with pytest.raises(ShapeError, match="duplicate"):
            np.sum(tg.tensor(X), axis=(0, 0))

    def test_negative_integer_power(self):
        with pytest.raises(TracegradError, match="negative integer powers"):
            tg.tensor([1, 2]) ** -1

    def test_empty_maximum(self):
        with pytest.raises(ValueError, match=r"zero-size|no elements"):
            np.max(tg.tensor(np.zeros((0, 2))), axis=0)
        np.testing.assert_array_equal(numbers(np.max(tg.tensor(np.zeros((0, 2))), axis=0, initial=3)), [3, 3])

    def test_uncastable_dtype_argument(self):
        with pytest.raises(DTypeError, match="cannot take operands"):
            np.add(tg.tensor(X), 1, dtype=np.int32)

    def test_ambiguous_truth(self):
        with pytest.raises(ValueError, match="ambiguous"):
            bool(tg.tensor([1.0, 2.0]) > 0)

    def test_size_of_a_range_cannot_be_a_tensor(self):
        with pytest.raises(ArgumentError, match="arange"):
            tg.arange(tg.tensor(3))
