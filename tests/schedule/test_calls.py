"""Library kernels and calls into Python."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.special

from tests.schedule.graphs import GraphBuilder, assert_same, scheduled
from tracegrad.schedule.loops import Call, Loop, LoopProgram


def calls(program: LoopProgram) -> list[Call]:
    return [s for s in program.body if isinstance(s, Call)]


def test_transposes_of_stored_matrices_are_options() -> None:
    f = GraphBuilder()
    a, b = f.input((20, 30), name="a"), f.input((40, 20), name="b")
    product = f("matmul", f("transpose", a, axes=(1, 0)), f("transpose", f("exp", b), axes=(1, 0)))
    program = scheduled(f.graph(product))
    (call,) = calls(program)
    assert (call.attrs["a_transposed"], call.attrs["b_transposed"]) == (True, True)
    rng = np.random.default_rng(0)
    values = rng.standard_normal((20, 30)), rng.standard_normal((40, 20))
    assert_same(program, values, [values[0].T @ np.exp(values[1]).T])


@pytest.mark.parametrize("transposed", [False, True])
def test_operands_of_another_dtype_are_converted_for_a_call(transposed: bool) -> None:
    f = GraphBuilder()
    a, b = f.input((20, 30) if transposed else (30, 20), np.float32, name="a"), f.input((20, 40), name="b")
    program = scheduled(f.graph(f("matmul", f("transpose", a, axes=(1, 0)) if transposed else a, b)))
    assert [type(s) for s in program.body] == [Loop, Call]
    rng = np.random.default_rng(0)
    values = rng.standard_normal(a.type.shape).astype(np.float32), rng.standard_normal((20, 40))
    assert_same(program, values, [(values[0].T if transposed else values[0]) @ values[1]])


def test_other_views_are_copied_for_a_call() -> None:
    f = GraphBuilder()
    a, b = f.input((60, 30), name="a"), f.input((30, 20), name="b")
    every_other = f("slice", a, start=(0, 0), size=(30, 30), step=(2, 1))
    program = scheduled(f.graph(f("matmul", every_other, b)))
    assert [type(s) for s in program.body] == [Loop, Call]
    rng = np.random.default_rng(0)
    values = rng.standard_normal((60, 30)), rng.standard_normal((30, 20))
    assert_same(program, values, [values[0][::2] @ values[1]])


@pytest.mark.parametrize(
    "shapes", [((7,), (7,)), ((9, 7), (7,)), ((7,), (7, 9)), ((1, 50), (50, 50)), ((50, 3), (3, 3))]
)
def test_thin_products_are_loops(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    f = GraphBuilder()
    a, b = f.input(shapes[0]), f.input(shapes[1])
    program = scheduled(f.graph(f("matmul", a, b)))
    assert not calls(program)
    rng = np.random.default_rng(0)
    values = rng.standard_normal(shapes[0]), rng.standard_normal(shapes[1])
    assert_same(program, values, [values[0] @ values[1]])


@pytest.mark.parametrize("dtype", [np.int64, bool])
def test_products_of_dtypes_without_blas_are_loops(dtype: type) -> None:
    f = GraphBuilder()
    a, b = f.input((20, 30), dtype), f.input((30, 20), dtype)
    program = scheduled(f.graph(f("matmul", a, b)))
    assert not calls(program)
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, (20, 30)).astype(dtype), rng.integers(0, 2, (30, 20)).astype(dtype)
    assert_same(program, values, [values[0] @ values[1]])


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64, np.float16])
def test_dtypes_without_loops_run_in_python(dtype: type) -> None:
    f = GraphBuilder()
    z = f.input((12,), dtype)
    program = scheduled(f.graph(f("multiply", z, z), f("transpose", z, axes=(0,))))
    assert [c.kernel for c in calls(program)] == ["host", "host"]
    value = np.linspace(0, 1, 12).astype(dtype)
    assert_same(program, [value], [value * value, value])


def test_operations_without_lowering_run_in_python_between_loops() -> None:
    f = GraphBuilder()
    x = f.input((12,))
    y = f("exp", f("gammaln", f("add", x, f.constant(1.0))))
    program = scheduled(f.graph(y, f.sum(y)))
    assert [type(s) for s in program.body if isinstance(s, (Loop, Call))] == [Loop, Call, Loop]
    values = np.arange(1.0, 13.0)
    expected = np.exp(scipy.special.gammaln(values + 1.0))
    assert_same(program, [values], [expected, expected.sum()])


def test_host_functions_are_not_closures() -> None:
    f = GraphBuilder()
    program = scheduled(f.graph(f("gammaln", f.input((3,)))))
    (call,) = calls(program)
    assert "<locals>" not in type(call.attrs["function"]).__qualname__
    assert pickle.dumps(type(call.attrs["function"]))


def test_an_index_out_of_range_is_an_index_error() -> None:
    f = GraphBuilder()
    x, i = f.input((5, 2)), f.input((3,), np.int64)
    program = scheduled(f.graph(f("gather", x, i)))
    value = np.arange(10.0).reshape(5, 2)
    assert_same(program, [value, np.array([-5, 4, 0])], [value[[-5, 4, 0]]])
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 5"):
        assert_same(program, [value, np.array([0, 5, 1])], [value])
