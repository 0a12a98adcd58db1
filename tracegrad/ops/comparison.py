"""Comparisons, logic and bits: operations whose results have no derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ShapeError
from tracegrad.ir.lowering import Elementwise
from tracegrad.numpy_protocols import implements
from tracegrad.ops.base import ElementwiseOperation, broadcast_shapes


class Predicate(ElementwiseOperation):
    """An operation to bools or integers; nothing differentiable comes out of it."""

    differentiable = False


class Comparison(Predicate):
    """A relation of two numbers; exact between integers, whatever their dtypes."""


class Equal(Comparison):
    name = "equal"
    ufunc = np.equal
    lower = Elementwise("equal")


class NotEqual(Comparison):
    name = "not_equal"
    ufunc = np.not_equal
    lower = Elementwise("not_equal")


class Less(Comparison):
    name = "less"
    ufunc = np.less
    lower = Elementwise("less")


class LessEqual(Comparison):
    name = "less_equal"
    ufunc = np.less_equal
    lower = Elementwise("less_equal")


class Greater(Comparison):
    name = "greater"
    ufunc = np.greater
    lower = Elementwise("greater")


class GreaterEqual(Comparison):
    name = "greater_equal"
    ufunc = np.greater_equal
    lower = Elementwise("greater_equal")


class LogicalAnd(Predicate):
    name = "logical_and"
    ufunc = np.logical_and
    lower = Elementwise("logical_and")


class LogicalOr(Predicate):
    name = "logical_or"
    ufunc = np.logical_or
    lower = Elementwise("logical_or")


class LogicalXor(Predicate):
    name = "logical_xor"
    ufunc = np.logical_xor
    lower = Elementwise("logical_xor")


class LogicalNot(Predicate):
    name = "logical_not"
    ufunc = np.logical_not
    lower = Elementwise("logical_not")


class BitwiseAnd(Predicate):
    name = "bitwise_and"
    ufunc = np.bitwise_and
    lower = Elementwise("bitwise_and")


class BitwiseOr(Predicate):
    name = "bitwise_or"
    ufunc = np.bitwise_or
    lower = Elementwise("bitwise_or")


class BitwiseXor(Predicate):
    name = "bitwise_xor"
    ufunc = np.bitwise_xor
    lower = Elementwise("bitwise_xor")


class Invert(Predicate):
    name = "invert"
    ufunc = np.invert
    lower = Elementwise("invert")


class LeftShift(Predicate):
    name = "left_shift"
    ufunc = np.left_shift
    lower = Elementwise("left_shift")


class RightShift(Predicate):
    name = "right_shift"
    ufunc = np.right_shift
    lower = Elementwise("right_shift")


class IsNan(Predicate):
    name = "isnan"
    ufunc = np.isnan
    lower = Elementwise("isnan")


class IsInf(Predicate):
    name = "isinf"
    ufunc = np.isinf
    lower = Elementwise("isinf")


class IsFinite(Predicate):
    name = "isfinite"
    ufunc = np.isfinite
    lower = Elementwise("isfinite")


class SignBit(Predicate):
    name = "signbit"
    ufunc = np.signbit
    lower = Elementwise("signbit")


equal = implements(np.equal)(Equal.apply)
not_equal = implements(np.not_equal)(NotEqual.apply)
less = implements(np.less)(Less.apply)
less_equal = implements(np.less_equal)(LessEqual.apply)
greater = implements(np.greater)(Greater.apply)
greater_equal = implements(np.greater_equal)(GreaterEqual.apply)
logical_and = implements(np.logical_and)(LogicalAnd.apply)
logical_or = implements(np.logical_or)(LogicalOr.apply)
logical_xor = implements(np.logical_xor)(LogicalXor.apply)
logical_not = implements(np.logical_not)(LogicalNot.apply)
bitwise_and = implements(np.bitwise_and)(BitwiseAnd.apply)
bitwise_or = implements(np.bitwise_or)(BitwiseOr.apply)
bitwise_xor = implements(np.bitwise_xor)(BitwiseXor.apply)
invert = bitwise_not = implements(np.invert)(Invert.apply)
left_shift = implements(np.left_shift)(LeftShift.apply)
right_shift = implements(np.right_shift)(RightShift.apply)
isnan = implements(np.isnan)(IsNan.apply)
isinf = implements(np.isinf)(IsInf.apply)
isfinite = implements(np.isfinite)(IsFinite.apply)
signbit = implements(np.signbit)(SignBit.apply)


@implements(np.isposinf)
def isposinf(x: Any) -> Any:
    return Equal.apply(x, np.inf)


@implements(np.isneginf)
def isneginf(x: Any) -> Any:
    return Equal.apply(x, -np.inf)


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether `|a - b| <= atol + rtol * |b|`, elementwise; equal infinities are close."""
    from tracegrad.ops.arithmetic import absolute, add, multiply, subtract

    with np.errstate(invalid="ignore"):
        distance, allowed = absolute(subtract(a, b)), add(atol, multiply(rtol, absolute(b)))
    close = LogicalOr.apply(LogicalAnd.apply(LessEqual.apply(distance, allowed), IsFinite.apply(b)), Equal.apply(a, b))
    return LogicalOr.apply(close, LogicalAnd.apply(IsNan.apply(a), IsNan.apply(b))) if equal_nan else close


@implements(np.allclose)
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close: a Python bool, so a decision of the trace."""
    from tracegrad.ops.reduction import all

    return bool(all(isclose(a, b, rtol, atol, equal_nan)))


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Whether shapes and all elements are equal: a Python bool, so a decision of the trace."""
    from tracegrad.ops.reduction import all

    if np.shape(a1) != np.shape(a2):
        return False
    same = Equal.apply(a1, a2)
    if equal_nan:
        same = LogicalOr.apply(same, LogicalAnd.apply(IsNan.apply(a1), IsNan.apply(a2)))
    return bool(all(same))


@implements(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> bool:
    """Whether all elements are equal once shapes are broadcast: a decision, as array_equal."""
    from tracegrad.ops.reduction import all

    try:
        broadcast_shapes(np.shape(a1), np.shape(a2))
    except ShapeError:
        return False
    return bool(all(Equal.apply(a1, a2)))


@implements(np.iscomplex)
def iscomplex(x: Any) -> Any:
    """Where the imaginary part is not 0."""
    return NotEqual.apply(np.imag(x), 0)


@implements(np.isreal)
def isreal(x: Any) -> Any:
    """Where the imaginary part is 0."""
    return Equal.apply(np.imag(x), 0)


@implements(np.isin)
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Any:
    """Where an element is one of others."""
    from tracegrad.ops.operands import operand
    from tracegrad.ops.reduction import any
    from tracegrad.ops.shape import expand_dims, ravel

    found = any(Equal.apply(expand_dims(operand(element), -1), ravel(test_elements)), axis=-1)
    return LogicalNot.apply(found) if invert else found
