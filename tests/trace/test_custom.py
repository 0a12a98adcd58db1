"""User Functions in traced and compiled functions: their bodies and derivatives, and what backward may return."""

import numpy as np
import pytest

import tracegrad as tg
from tests.trace.functions import A, Cube, HalfHostCube, HostCube, gradient, traced
from tracegrad.autograd.function import once_differentiable
from tracegrad.ir.graph import Graph
from tracegrad.ir.interpret import interpret
from tracegrad.ir.verify import verify
from tracegrad.ops.call import Call
from tracegrad.passes.adjoint import adjoint
from tracegrad.trace.custom import inline_calls


@pytest.mark.parametrize("function", [Cube, HostCube, HalfHostCube])
def test_value_and_gradient_by_the_interpreter(function):
    graph, captured = traced(lambda x: (function.apply(x, 2.0) * x).sum(), A)
    assert np.allclose(interpret(graph, [A, *captured])[0], np.sum(2 * A**4))
    assert np.allclose(gradient(graph, captured, A), 8 * A**3)


@pytest.mark.parametrize("function", [Cube, HostCube, HalfHostCube])
def test_compiled_equals_eager_for_new_arguments(function):
    f = tg.value_and_grad(lambda x: (function.apply(x, 2.0) * x).sum())
    for a in (A, A + 1, A * -2):
        value, g = f(a)
        assert np.allclose(value, np.sum(2 * a**4)) and np.allclose(g, 8 * a**3)
        with tg.eager():
            eager_value, eager_g = f(a)
        assert np.allclose(value, eager_value) and np.allclose(g, eager_g)


@pytest.mark.parametrize("function", [Cube, HostCube])
def test_a_jitted_function_takes_part_in_eager_autograd(function):
    x = tg.tensor(A, requires_grad=True)
    tg.jit(lambda x: function.apply(x) * 2)(x).sum().backward()
    assert np.allclose(x.grad.numpy(), 6 * A**2)


def test_a_call_is_one_node_with_a_body():
    graph, _ = traced(lambda x: Cube.apply(x).sum(), A)
    (call,) = [n for n in graph.nodes if n.op is Call]
    assert call.bodies[0].name == "Cube" and len(call.outputs) == 2
    assert call.location.line == test_a_call_is_one_node_with_a_body.__code__.co_firstlineno + 1


def test_second_derivative_through_values_that_forward_kept():
    graph, captured = traced(lambda x: Cube.apply(x).sum(), A)
    first, _ = adjoint(graph, [0], [0])
    second, _ = adjoint(Graph(first.inputs, first.nodes, (first.outputs[1],), "g"), [0], [0])
    for g in (second, inline_calls(second)):
        verify(g)
        assert np.allclose(interpret(g, [A, *captured, np.array(1.0), np.ones(3)])[1], 6 * A)
    nested = tg.grad(lambda x: tg.grad(lambda x: Cube.apply(x).sum())(x).sum())
    assert np.allclose(nested(A), 6 * A)


@pytest.mark.parametrize("function", [HostCube, HalfHostCube])
def test_second_derivative_through_python_is_an_error(function):
    with pytest.raises(RuntimeError, match=f"differentiate twice through {function.__name__}"):
        tg.grad(lambda x: tg.grad(lambda x: function.apply(x).sum())(x).sum())(A)


def test_nested_functions_are_inlined_to_the_bottom():
    class Outer(tg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.y = y = Cube.apply(x)
            return Cube.apply(y)

        @staticmethod
        def backward(ctx, g):
            return g * 9 * ctx.y**2 * np.cbrt(ctx.y) ** 2

    graph, captured = traced(lambda x: Outer.apply(x).sum(), A)
    assert np.allclose(gradient(graph, captured, A), 9 * A**8)
    assert all(not n.bodies for n in inline_calls(graph).nodes)


def test_several_outputs_one_of_them_fixed_and_one_without_gradient():
    seen = []

    class Several(tg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            step = x * 5
            ctx.mark_non_differentiable(step)
            return x * x, "label", step, x * 3

        @staticmethod
        def backward(ctx, a, label, step, b):
            seen.append((label, step.shape))
            return 2 * a * ctx.saved_tensors[0] + 3 * b

    def f(x):
        square, label, step, triple = Several.apply(x)
        seen.append(label)
        return (square + triple + step * 1000).sum()

    value, g = tg.value_and_grad(f)(A)
    assert np.allclose(value, np.sum(A**2 + 3 * A + 5000 * A)) and np.allclose(g, 2 * A + 3)
    assert "label" in seen and (None, (3,)) in seen


def test_missing_gradients_are_zeros_or_none():
    seen = []

    def make(materialize):
        class Two(tg.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.set_materialize_grads(materialize)
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, a, b):
                seen.append(b is None)
                return a * 2

        return Two

    for materialize in (True, False):
        g = tg.grad(lambda x: make(materialize).apply(x)[0].sum())(A)
        assert np.allclose(g, 2)
    assert seen == [False, True]


def test_needs_input_grad_in_backward():
    seen = []

    class Product(tg.Function):
        @staticmethod
        def forward(ctx, a, b, n):
            ctx.save_for_backward(a, b)
            return a * b * n

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            seen.append(ctx.needs_input_grad)
            return g * b * 2, None if not ctx.needs_input_grad[1] else g * a * 2, None

    g = tg.grad(lambda a, b: Product.apply(a, b, 2).sum())(A, A + 1)
    assert seen == [(True, False, False)] and np.allclose(g, 2 * (A + 1))


@pytest.mark.parametrize("function", [Cube, HostCube])
def test_the_same_value_twice(function):
    class Sum(tg.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g * 10, g

    assert np.allclose(tg.grad(lambda x: Sum.apply(x, x).sum())(A), 11)


def test_checks_of_what_backward_returns():
    def with_backward(backward):
        members = {"forward": staticmethod(lambda ctx, x, n: x * n), "backward": staticmethod(backward)}
        return type("F1", (tg.Function,), members)

    for backward, error, text in (
        (lambda ctx, g: g, RuntimeError, r"F1Backward returned an incorrect number of gradients \(expected 2, got 1\)"),
        (lambda ctx, g: (g, g), RuntimeError, "different than None at position 2"),
        (lambda ctx, g: (2.0, None), RuntimeError, r"expected Variable or None \(got float\)"),
        (lambda ctx, g: (g[:2], None), RuntimeError, r"invalid gradient at index 0 - got \[2\] but expected .*\[3\]"),
    ):
        with pytest.raises(error, match=text):
            tg.grad(lambda x: with_backward(backward).apply(x, 2).sum())(A)
    summed = with_backward(lambda ctx, g: (g + np.zeros((4, 3)), None))
    assert np.allclose(tg.grad(lambda x: summed.apply(x, 2).sum())(A), 4)


def test_missing_backward():
    class Forward(tg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    assert np.allclose(tg.jit(Forward.apply)(A), 2 * A)
    with pytest.raises(NotImplementedError, match="either the backward or vjp"):
        tg.grad(lambda x: Forward.apply(x).sum())(A)


def test_setup_context_and_keyword_arguments():
    class Power(tg.Function):
        @staticmethod
        def forward(x, n):
            return x**n

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.n = inputs
            ctx.save_for_backward(x, output)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * ctx.n * y / x, None

    assert np.allclose(tg.grad(lambda x: Power.apply(x, n=3).sum())(A), 3 * A**2)


def test_once_differentiable():
    class Once(tg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    assert np.allclose(tg.grad(lambda x: Once.apply(x).sum())(A), 2 * A)
    with pytest.raises(RuntimeError, match="trying to differentiate twice a function that was marked with @once"):
        tg.grad(lambda x: tg.grad(lambda x: Once.apply(x).sum())(x).sum())(A)


def test_a_decision_on_a_value_inside_forward_is_guarded():
    class Choice(tg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.factor = 2.0 if x.sum() > 0 else -3.0
            return x * ctx.factor

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor

    f = tg.value_and_grad(lambda x: Choice.apply(x).sum())
    for a, factor in ((A, 2.0), (-A, -3.0), (A + 1, 2.0)):
        value, g = f(a)
        assert np.allclose(value, factor * a.sum()) and np.allclose(g, factor)


def test_arrays_from_outside_are_read_afresh_in_forward_and_backward():
    weights = A.copy()

    class Weighted(tg.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.w = w
            return x * w

        @staticmethod
        def backward(ctx, g):
            return g * ctx.w, None

    class Closure(Weighted):
        @staticmethod
        def backward(ctx, g):
            return g * weights, None

    for function in (Weighted, Closure):
        f = tg.value_and_grad(lambda x: function.apply(x, weights).sum())
        for factor in (1.0, 2.0, 5.0):
            weights[:] = factor * A
            value, g = f(np.ones(3))
            assert np.allclose(value, weights.sum()) and np.allclose(g, weights)


def test_arrays_that_backward_makes_are_constants():
    class Ones(tg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * np.full(3, 2.0)

    assert np.allclose(tg.grad(lambda x: Ones.apply(x).sum())(A), 2)
