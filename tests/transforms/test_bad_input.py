"""Mistakes: a named error, the user's line, the fix. Nothing silently zero."""

import math

import numpy as np
import pytest
import scipy.special

import tracegrad as tg

X = np.array([0.5, 1.5, 2.5])
# While tracing a value leaves the trace; eagerly it is the Tensor with a history that leaves.
LEAVES = (tg.errors.LeavesTraceError, tg.errors.AutogradError)


def check(error, *words):
    """The message names what is wrong, shows this file's line and a fix."""
    text = str(error.value)
    assert all(word in text for word in words), text
    assert "test_bad_input.py" in text and "Fix:" in text, text


@pytest.fixture(params=["compiled", "eager"])
def mode(request):
    if request.param == "compiled":
        yield
    else:
        with tg.eager():
            yield


def test_np_array_of_traced_elements(mode):
    with pytest.raises(LEAVES) as error:
        tg.grad(lambda x: np.sum(np.array([x[0], x[1]])))(X)
    check(error, "np.stack")


@pytest.mark.parametrize(
    "f, fix",
    [
        (lambda x: np.sum([v**2 for v in x]), "np.stack(values)"),
        (lambda x: np.asarray(x, dtype=float).sum(), "leave np.asarray of a value itself away"),
        (lambda x: np.ones(3).dot(x), "write np.dot(a, x)"),
        (lambda x: np.c_[x, x].sum(), "np.column_stack"),
        (lambda x: np.full(3, x[0]).sum(), "x * np.ones(shape)"),
    ],
)
def test_the_fix_is_for_what_stands_on_the_line(mode, f, fix):
    with pytest.raises(LEAVES) as error:
        tg.grad(f)(X)
    check(error, fix)


def test_float_of_a_differentiated_value(mode):
    with pytest.raises(LEAVES) as error:
        tg.grad(lambda x: float(x[0]) * x[1])(X)
    check(error, "float")


def test_math_sin(mode):
    with pytest.raises(LEAVES) as error:
        tg.grad(lambda x: math.sin(x[0]) * x[1])(X)
    check(error, "np.")


def test_writing_into_a_plain_array(mode):
    def f(x):
        res = np.zeros(3)
        for i in range(3):
            res[i] = x[i] ** 2
        return res.sum()

    with pytest.raises(LEAVES) as error:
        tg.grad(f)(X)
    check(error)


def test_a_scipy_function_in_python_code(mode):
    with pytest.raises(tg.errors.TracegradError) as error:
        tg.grad(lambda x: scipy.special.logsumexp(x))(X)
    check(error)


def test_an_unsupported_numpy_function(mode):
    with pytest.raises(tg.errors.UnsupportedError) as error:
        tg.grad(lambda x: np.sum(np.trim_zeros(x)))(X)
    check(error, "trim_zeros")


def test_shapes_that_do_not_broadcast(mode):
    with pytest.raises(ValueError) as error:
        tg.grad(lambda x: np.sum(x + np.ones(4)))(X)
    if isinstance(error.value, tg.errors.ShapeError):
        check(error, "(3,)", "(4,)")


def test_shapes_that_do_not_broadcast_compiled():
    with pytest.raises(tg.errors.ShapeError) as error:
        tg.grad(lambda x: np.sum(x + np.ones(4)))(X)
    check(error, "(3,)", "(4,)", "np.ones(4)")


def test_a_result_that_is_not_scalar(mode):
    with pytest.raises(tg.errors.NonScalarError, match="scalar") as error:
        tg.grad(lambda x: x * 2)(X)
    check(error, "(3,)")


def test_a_result_that_is_not_real(mode):
    with pytest.raises(tg.errors.NonScalarError) as error:
        tg.grad(lambda x: np.sum(x) * 1j)(X)
    check(error, "complex")


def test_a_tuple_without_has_aux(mode):
    with pytest.raises(tg.errors.NonScalarError) as error:
        tg.grad(lambda x: (np.sum(x), x))(X)
    check(error, "has_aux")


@pytest.mark.parametrize("x", [np.arange(3), 3, True, np.array([True])])
def test_integer_arguments(mode, x):
    with pytest.raises(tg.errors.DTypeError) as error:
        tg.grad(lambda x: np.sum(x * 2.0))(x)
    check(error, "float")


@pytest.mark.parametrize("x", [np.array([1, None], object), np.array(["a"])])
def test_object_and_string_arrays(mode, x):
    with pytest.raises(tg.errors.DTypeError) as error:
        tg.grad(lambda x: np.sum(x))(x)
    check(error, "dtype")


def test_an_argnum_that_is_not_there(mode):
    with pytest.raises(tg.errors.ArgumentError) as error:
        tg.grad(lambda x: np.sum(x), argnums=1)(X)
    check(error, "argnums")


class Model:
    def loss(self, x):
        return np.sum(x**2)

    gradient, hessian, rows = tg.grad(loss), tg.hessian(loss), tg.vmap(loss)
    right = tg.grad(loss, argnums=1)


def test_the_gradient_of_a_method_in_self(mode):
    model = Model()
    for function, word in ((model.gradient, "argnums=1"), (model.hessian, "argnums=1"), (model.rows, "(None, 0)")):
        with pytest.raises(tg.errors.TracegradError) as error:
            function(X)
        check(error, "self", word)
    np.testing.assert_array_equal(model.right(X), 2 * X)


def test_a_layer_made_inside():
    with pytest.raises(tg.errors.UnsupportedError) as error:
        tg.grad(lambda x: tg.nn.Linear(3, 1)(x).sum())(X)
    check(error, "layer", "outside")


def test_something_that_is_not_a_function():
    with pytest.raises(tg.errors.ArgumentError) as error:
        tg.jit(3)
    check(error, "function")


def test_a_traced_value_kept_after_the_call():
    kept = []
    tg.jit(lambda x: (kept.append(x), x * 2)[1])(X)
    with pytest.raises(tg.errors.TracegradError):
        tg.jit(lambda x: x + kept[0])(X)


def test_an_index_out_of_range():
    with pytest.raises(IndexError):
        tg.jit(lambda x: x[5])(X)
    with pytest.raises(IndexError, match="out of bounds"):
        tg.jit(lambda x, i: x[i])(X, np.array([0, 7]))


def test_the_users_exception_comes_out_unchanged(mode):
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tg.grad(f)(X)


@pytest.mark.parametrize(
    ("array", "message"),
    [(np.ma.array([1.0, 2.0], mask=[False, True]), "masked array"), (np.ones((1, 2)).view(np.matrix), r"np\.matrix")],
)
def test_arrays_with_a_meaning_of_their_own_are_refused(array, message):
    total = tg.jit(np.sum)
    for call in (
        lambda: total(array),
        lambda: tg.jit(lambda x: x * array)(1.0),
        lambda: tg.grad(lambda x: np.sum(x * array))(np.ones(2)),
        lambda: tg.tensor(array),
        lambda: tg.as_tensor(array),
        lambda: tg.Tensor(array),
        lambda: tg.ones(2) * array,
        lambda: np.hypot(tg.ones(2), array),
    ):
        with pytest.raises(TypeError, match=message):
            call()
    with tg.eager(), pytest.raises(TypeError, match=message):
        total(array)


def into_row(x):
    rows = np.zeros((2, 3))
    rows[0] = x
    return rows.sum()


def onto_row(x):
    rows = np.zeros((2, 3))
    rows[0] += x
    return rows.sum()


@pytest.mark.parametrize(
    "f",
    [
        into_row,
        onto_row,
        lambda x: x.sum() + float(x[0]),
        lambda x: x.sum() + x[0].item(),
        lambda x: np.array(x.tolist()).sum() + x.sum(),
        lambda x: np.asarray(x).sum(),
        lambda x: np.r_[x, 1.0].sum(),
        lambda x: np.ones(3).dot(x),
    ],
)
def test_no_transform_loses_a_derivative_eagerly(f):
    transforms = (
        tg.grad,
        tg.jacfwd,
        tg.jacrev,
        lambda f: lambda x: tg.jvp(f, (x,), (x,)),
        lambda f: lambda x: tg.vjp(f, x),
    )
    with tg.eager():
        for transform in transforms:
            with pytest.raises(tg.errors.LeavesTraceError) as error:
                transform(f)(X)
            check(error)


def test_symbolic_value_written_into_a_plain_array():
    def f(x):
        row = np.zeros(3)
        row[0] = x[0]
        return row.sum()

    with pytest.raises(tg.errors.SymbolicValueError) as error:
        tg.vmap(f)(np.stack([X, X]))
    check(error)


def test_forward_of_a_function_takes_the_numbers_eagerly_too():
    class Erf(tg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return tg.as_tensor(np.array([math.erf(v) for v in np.asarray(x)]))

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 / math.sqrt(math.pi) * np.exp(-(x**2))

    slope = 2 / math.sqrt(math.pi) * np.exp(-(X**2))
    with tg.eager():
        np.testing.assert_allclose(tg.grad(lambda x: np.sum(Erf.apply(x)))(X), slope)
    x = tg.tensor(X, requires_grad=True)
    Erf.apply(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), slope)


def test_argnums_are_ints():
    with pytest.raises(tg.errors.ArgumentError, match="tuple of ints"):
        tg.grad(lambda x: x, argnums="x")


def test_an_unknown_ufunc_of_scipy_is_not_called_numpys():
    with pytest.raises(tg.errors.UnsupportedError, match="the ufunc jv"):
        tg.grad(lambda x: scipy.special.jv(1.5, x).sum())(X)


def rows(x):
    yield x * 2


async def doubled(x):
    return x * 2


async def doubled_rows(x):
    yield x * 2


@pytest.mark.parametrize(
    "f, kind",
    [
        (rows, "generator"),
        (doubled, "coroutine"),
        (doubled_rows, "async_generator"),
        (lambda x: {"rows": (v * 2 for v in x)}, "generator"),
        (lambda x: map(np.sin, x), "map"),
    ],
)
@pytest.mark.parametrize("transform", [tg.jit, tg.grad, tg.vmap])
@pytest.mark.filterwarnings("error")
def test_functions_that_would_compute_after_their_end(mode, transform, f, kind):
    with pytest.raises(tg.errors.ArgumentError) as error:
        transform(f)(np.stack([X, X]))
    check(error, f"returns a {kind}, which would compute only after")


def test_the_class_of_a_value_inside_is_ours_and_its_dimensions_are_those_outside():
    """What docs/conventions.md says of questions about types."""
    answers = {}

    def f(x, y, n):
        answers.update(array=isinstance(x, np.ndarray), number=isinstance(y, float) or np.isscalar(y))
        answers.update(
            either=isinstance(x, (np.ndarray, tg.Tensor)), scalar=np.ndim(y) == 0, integer=isinstance(n, int)
        )
        return x.sum() * y * n

    tg.grad(f)(X, 2.0, 3)
    assert answers == {"array": False, "number": False, "either": True, "scalar": True, "integer": True}
