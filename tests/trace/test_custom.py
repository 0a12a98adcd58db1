"""User Functions in traced and compiled functions: bodies, calls into Python, derivatives of both, and errors."""

import gc
import weakref

import numpy as np
import pytest
from scipy import special

import tracegrad as tg
from tracegrad.autograd.function import once_differentiable
from tracegrad.ir.graph import Graph
from tracegrad.ir.interpret import interpret
from tracegrad.ir.types import Type
from tracegrad.ir.verify import verify
from tracegrad.ops.call import Call
from tracegrad.ops.host_call import MAX_CONTEXTS, HostCall
from tracegrad.passes.adjoint import adjoint
from tracegrad.state import setting
from tracegrad.trace.custom import inline_calls
from tracegrad.trace.tracer import Trace

A = np.array([1.0, 2.0, 3.0])


class Cube(tg.Function):
    """Keeps an input, a residual and attributes that hold values."""

    @staticmethod
    def forward(ctx, x, c=1.0):
        square = x * x
        ctx.save_for_backward(x, square, None)
        ctx.c, ctx.kept = c, {"square": [square]}
        return square * x * c

    @staticmethod
    def backward(ctx, g):
        _, square, _ = ctx.saved_tensors
        return g * ctx.c * (square + 2 * ctx.kept["square"][0]), None


class HostCube(tg.Function):
    """Leaves tracegrad on both ways; what backward needs is an attribute of ctx."""

    calls = 0

    @staticmethod
    def forward(ctx, x, c=1.0):
        HostCube.calls += 1
        a = x.numpy()
        ctx.slope = 3 * c * a**2
        return tg.tensor(c * a**3)

    @staticmethod
    def backward(ctx, g):
        return g.numpy() * ctx.slope, None


class HalfHostCube(Cube):
    """Only backward leaves."""

    @staticmethod
    def backward(ctx, g):
        _, square, _ = ctx.saved_tensors
        return tg.tensor(np.asarray(g) * 3 * np.asarray(square) * ctx.c), None


def traced(function, *arrays):
    """The graph of `function` and what it captured."""
    trace = Trace("f")
    inputs = [trace.add_input(Type(a.dtype, a.shape), "x", a) for a in arrays]
    with setting(trace=trace):
        out = (trace.lift(function(*inputs)),)
    graph, captured = trace.finish(out)
    verify(graph)
    return graph, captured


def gradient(graph, captured, *arrays):
    """The gradient of a scalar graph by the interpreter, with calls and without."""
    derived, _ = adjoint(graph, [0], [0])
    verify(derived)
    flat = inline_calls(derived)
    verify(flat)
    assert not any(node.op is Call for node in flat.nodes)
    args = [*arrays, *captured, np.array(1.0)]
    nested, inlined = interpret(derived, args)[1], interpret(flat, args)[1]
    assert np.array_equal(nested, inlined)
    return nested


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
        (lambda ctx, g: (2.0, None), TypeError, r"expected Variable or None \(got float\)"),
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


# ---- calls into Python -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "leave",
    [
        lambda x: special.gamma(x.numpy()),
        lambda x: special.gamma(np.asarray(x)),
        lambda x: special.gamma(np.array([float(v) for v in x])),
        lambda x: special.gamma(np.array(x.tolist())),
        lambda x: special.gamma(x.detach().numpy()),
    ],
)
def test_ways_to_leave(leave):
    class Gamma(tg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, tg.tensor(y := leave(x)))
            return tg.tensor(y)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y * tg.tensor(special.digamma(x.numpy()))

    f = tg.value_and_grad(lambda x: Gamma.apply(x).sum())
    for a in (A, A + 0.5):
        value, g = f(a)
        assert np.allclose(value, special.gamma(a).sum())
        assert np.allclose(g, special.gamma(a) * special.digamma(a))


def test_host_calls_run_once_per_call():
    f = tg.value_and_grad(lambda x: HostCube.apply(x).sum())
    f(A)
    before = HostCube.calls
    for _ in range(3):
        f(A)
    assert HostCube.calls == before + 3


def test_an_evicted_context_is_computed_again():
    graph, _ = traced(lambda x: HostCube.apply(x).sum(), A)
    (node,) = [n for n in graph.nodes if n.op is HostCall]
    forward = node.attrs["function"]
    _, handle = forward(A)
    for _ in range(MAX_CONTEXTS + 1):
        forward(A + 1)
    assert len(forward._contexts) == MAX_CONTEXTS
    assert np.allclose(forward.attributes_of(int(handle), [A])["slope"], 3 * A**2)


def test_an_exception_in_python_comes_out_with_the_users_line():
    class Fails(tg.Function):
        armed = False

        @staticmethod
        def forward(ctx, x):
            if Fails.armed:
                raise ZeroDivisionError("mine")
            return tg.tensor(x.numpy() * 2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    f = tg.jit(Fails.apply)
    f(A)
    Fails.armed = True
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        f(A)
    assert any(entry.name == "forward" and str(entry.path) == __file__ for entry in caught.traceback)


def test_results_whose_shape_depends_on_values_are_refused():
    class Positive(tg.Function):
        @staticmethod
        def forward(ctx, x):
            a = x.numpy()
            return tg.tensor(a[a > 0])

    f = tg.jit(Positive.apply)
    assert f(A).shape == (3,)
    with pytest.raises(ValueError, match="shapes and dtypes that depend on those of its inputs alone"):
        f(np.array([1.0, -1.0, 2.0]))


class Doubled(tg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


@pytest.mark.parametrize("run", [tg.jit, lambda f: f])
def test_dirty_inputs_are_modified(run):
    def f(x, w):
        y = x * w
        z = Doubled.apply(y)
        assert (z * 0).sum() == 0
        return (y * y).sum() + (z * 3).sum()

    x, w = tg.tensor([1.0, 2.0], requires_grad=True), tg.tensor([3.0, 4.0], requires_grad=True)
    out = run(f)(x, w)
    out.backward()
    assert out.item() == 4 * (9 + 64) + 6 * (3 + 8)
    assert x.grad.tolist() == [8 * 1 * 9 + 6 * 3, 8 * 2 * 16 + 6 * 4]


@pytest.mark.parametrize("run", [tg.jit, lambda f: f])
def test_a_dirty_leaf_is_refused(run):
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        run(Doubled.apply)(tg.tensor([1.0, 2.0], requires_grad=True))


def test_modifying_without_marking_is_refused():
    class Silent(Doubled):
        @staticmethod
        def forward(ctx, x):
            return x.mul_(2)

    with pytest.raises(RuntimeError, match="without saying so"):
        tg.jit(lambda x: Silent.apply(x * 1))(A)


def test_functions_of_arrays_alone_run_at_once():
    constant = np.array([4.0])
    f = tg.jit(lambda x: x * Cube.apply(constant))
    assert np.allclose(f(A), 64 * A)


def test_no_reference_to_the_arguments_outlives_a_call():
    f = tg.value_and_grad(lambda x: (Cube.apply(x) + HalfHostCube.apply(x)).sum())
    f(A)
    a = A.copy()
    reference = weakref.ref(a)
    f(a)
    del a
    gc.collect()
    assert reference() is None


# ---- backward() and autograd.grad inside traced functions ------------------------------------------------------------


def own_leaf(x):
    return x.detach().requires_grad_()


def test_backward_inside_a_traced_function():
    @tg.jit
    def f(x):
        leaf = own_leaf(x)
        (leaf * leaf * leaf).sum().backward()
        return leaf.grad

    f(A + 1)
    assert np.allclose(f(A), 3 * A**2)


@pytest.mark.parametrize("function", [Cube, HostCube, HalfHostCube])
def test_autograd_grad_through_functions_inside_a_traced_function(function):
    @tg.jit
    def f(x):
        leaf = own_leaf(x)
        return tg.autograd.grad((function.apply(leaf) * leaf).sum(), leaf)[0]

    f(A + 1)
    assert np.allclose(f(A), 4 * A**3)


def test_second_order_inside_a_traced_function_and_its_limit():
    def f(x, order):
        leaf = own_leaf(x)
        g = Cube.apply(leaf).sum()
        for i in range(order):
            (g,) = tg.autograd.grad(g.sum(), leaf, create_graph=i + 1 < order)
        return g

    assert np.allclose(tg.jit(lambda x: f(x, 2))(A), 6 * A)
    with pytest.raises(RuntimeError, match=r"a third derivative by autograd.grad"):
        tg.jit(lambda x: f(x, 3))(A)
