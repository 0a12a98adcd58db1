"""Tensors becoming Python numbers and ndarrays: eager as in PyTorch, traced with guards or a named error."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import ArgumentError, AutogradError, LeavesTraceError
from tracegrad.state import setting
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace


def leaving(f: Callable[[Any], Any], x: Any = (1.0, 2.0)) -> LeavesTraceError:
    """The error of `f` under tg.grad."""
    with pytest.raises(LeavesTraceError) as caught:
        tg.grad(f)(np.array(x))
    return caught.value


class TestDifferentiatedValuesStayInTheTrace:
    def test_float_names_the_line_and_the_fix(self):
        error = leaving(lambda x: x[0] * float(x[1]))
        assert "float() turns a value that a gradient is wanted for" in str(error)
        assert "float(x[1])" in str(error)
        assert "leave float() away" in error.fix

    def test_math_function(self):
        assert "write np.sin for math.sin" in leaving(lambda x: math.sin(x[0]) * x[0]).fix

    def test_array_of_values(self):
        assert "write np.stack for np.array" in leaving(lambda x: np.sum(np.array([x[0], x[1]]))).fix

    def test_asarray(self):
        assert "np.asarray" in str(leaving(lambda x: np.sum(np.asarray(x))))

    def test_int_item_tolist_and_complex(self):
        leaving(lambda x: x[0] * int(x[1]))
        leaving(lambda x: x[0] * x[1].item())
        leaving(lambda x: x[0] * x.tolist()[1])
        leaving(lambda x: x[0] * abs(complex(x[1])))

    def test_writing_into_a_plain_array(self):
        def f(x: Any) -> Any:
            z = np.zeros(2)
            z[0] = x[0]
            return np.sum(z)

        assert "np.zeros_like" in leaving(f).fix

    def test_writing_all_of_a_plain_array(self):
        def f(x: Any) -> Any:
            z = np.zeros(2)
            z[:] = x
            return np.sum(z)

        assert "np.zeros_like" in leaving(f).fix

    def test_numpy_constructors_that_do_not_dispatch(self):
        leaving(lambda x: np.sum(np.full(3, x[0])))
        leaving(lambda x: np.float64(x[0]) * x[0])

    def test_plain_arrays_indexed_by_traced_values(self):
        table = np.arange(6.0).reshape(3, 2)
        error = leaving(lambda x: np.sum(x * table[np.argsort(x), 0]))
        assert "tg.tensor(a)[i]" in error.fix
        assert "derivative" not in str(error)
        with pytest.raises(ArgumentError, match=r"tg\.tensor\(a\)\[i\]"):
            tg.grad(lambda x: tg.fori_loop(0, 3, lambda i, c: c + table[i, 0] * x[0], 0.0))(np.ones(2))
        found = tg.grad(lambda x: np.sum(x * tg.tensor(table)[np.argsort(x), 0]))(np.array([2.0, 1.0]))
        np.testing.assert_array_equal(found, [2.0, 0.0])

    def test_integers_have_no_derivative_to_lose(self):
        f = tg.grad(lambda x: x[0] * (1.0 + np.argmax(x).item()) + sum(x[: int(np.argmax(x))]))
        np.testing.assert_array_equal(f(np.array([1.0, 2.0])), [3.0, 0.0])
        np.testing.assert_array_equal(f(np.array([2.0, 1.0])), [1.0, 0.0])

    def test_eager_mode_agrees(self):
        with tg.eager():
            leaving(lambda x: x[0] * float(x[1]))
            leaving(lambda x: np.sum(np.array([x[0], x[1]])))


class TestGuards:
    """A number that Python looks at holds for calls in which it is the same."""

    @pytest.mark.parametrize(
        ("convert", "value", "number"),
        [
            (float, 2.5, 2.5), (int, 2.5, 2.5), (bool, 2.5, True), (lambda x: x.item(), 2.5, 2.5),
            (complex, 2.5, 2.5), (lambda x: range(3)[x], 2, 2), (lambda x: bool(x > 2), 2.5, True),
            (np.asarray, 2.5, 2.5),
        ],
    )  # fmt: skip
    def test_guard_is_recorded(self, convert: Callable[[Any], Any], value: float, number: Any):
        trace = Trace("f")
        with setting(trace=trace):
            x = trace.add_input(Tensor._wrap(np.array(value)).type, "x", np.array(value))
            assert convert(x) == convert(np.array(value))
        assert [n for _, n in trace.guards] == [number]

    def test_other_numbers_take_other_paths(self):
        @tg.grad
        def f(x: Any) -> Any:
            return np.sum(x**2) if x[0] > 0 else np.sum(-x)

        np.testing.assert_array_equal(f(np.array([1.0, 2.0])), [2, 4])
        np.testing.assert_array_equal(f(np.array([-1.0, 2.0])), [-1, -1])
        np.testing.assert_array_equal(f(np.array([3.0, 2.0])), [6, 4])

    def test_number_of_an_argument_that_is_not_differentiated(self):
        f = tg.grad(lambda x, n: np.sum(x ** int(n)))
        np.testing.assert_allclose(f(np.array([2.0]), np.array(3)), [12])
        np.testing.assert_allclose(f(np.array([2.0]), np.array(2)), [4])

    def test_array_would_be_frozen(self):
        with pytest.raises(LeavesTraceError, match="freeze its numbers"):
            tg.jit(lambda x: np.sum(np.asarray(x)))(np.ones(3))


class TestStaticShape:
    def test_len_iteration_and_unpacking(self):
        f = tg.grad(lambda x: sum(row * i for i, row in enumerate(x)) / len(x))
        np.testing.assert_allclose(f(np.ones(4)), np.arange(4) / 4)

        def g(x: Any) -> Any:
            a, b = x
            return a * b

        np.testing.assert_array_equal(tg.grad(g)(np.array([2.0, 3.0])), [3, 2])

    def test_contains(self):
        assert 2 in tg.tensor([1.0, 2.0])
        assert 3 not in tg.tensor([1.0, 2.0])


class TestEager:
    def test_numbers(self):
        x = tg.tensor([[2.5]], requires_grad=True)
        assert (float(x), int(x), bool(x), x.item(), complex(x)) == (2.5, 2, True, 2.5, 2.5)
        assert isinstance(x.item(), float) and not isinstance(x.item(), np.generic)
        assert tg.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
        assert tg.tensor([[1, 2], [3, 4]]).item(1, 0) == 3
        assert tg.tensor([[1, 2], [3, 4]]).item(3) == 4
        assert math.sin(tg.tensor(0.5)) == math.sin(0.5)
        assert [10, 20, 30][tg.tensor(1)] == 20

    def test_several_elements(self):
        for convert in (float, int, lambda x: x.item()):
            with pytest.raises(ArgumentError, match="only Tensors with one element"):
                convert(tg.tensor([1.0, 2.0]))
        with pytest.raises(TypeError):
            [1, 2][tg.tensor(1.0)]
        with pytest.raises(TypeError, match="len"):
            len(tg.tensor(1.0))
        with pytest.raises(TypeError):
            iter(tg.tensor(1.0))

    def test_array_is_a_read_only_view(self):
        x = tg.tensor([1.0, 2.0])
        array = np.asarray(x)
        assert np.shares_memory(array, x.numpy()) and not array.flags.writeable
        copy = np.array(x)
        assert copy.flags.writeable and not np.shares_memory(copy, x.numpy())
        assert np.asarray(x, dtype=np.float32).dtype == np.float32

    def test_array_would_lose_the_gradient(self):
        x = tg.tensor([1.0, 2.0], requires_grad=True)
        with pytest.raises(AutogradError, match="history would be lost"):
            np.asarray(x)
        with pytest.raises(AutogradError, match="history would be lost"):
            np.array([x[0], x[1]])
        np.testing.assert_array_equal(np.asarray(x.detach()), [1, 2])


class TestText:
    def test_numbers_and_decisions_read_from_it_are_guards(self):
        f = tg.jit(lambda x: x[1] * float(f"{x[0]:.3f}") + (1 if format(x[0], ".1f") == "0.5" else 2))
        for first, expected in ((0.5, 2.0), (1.5, 5.0), (0.5, 2.0)):
            assert f(np.array([first, 2.0])) == expected
        assert tg.jit(lambda x: x * {"2.0": 3.0}[f"{x:.1f}"])(2.0) == 6.0

    def test_numbers_read_from_it_would_lose_the_derivative(self):
        leaving(lambda x: x[1] * float(f"{x[0]:.3f}"))
        leaving(lambda x: x[1] * int(f"{x[0]:.0f}"))
        with tg.eager():
            leaving(lambda x: x[1] * float(f"{x[0]:.3f}"))

    def test_messages_do_not_record_anew(self):
        f = tg.jit(lambda x: (x * 2, print(f"{x:.3f}", f"x is {x:.3f}"))[0])
        assert [f(v) for v in (1.0, 2.0, 3.0)] == [2.0, 4.0, 6.0]
        assert "1 programs" in repr(f)
