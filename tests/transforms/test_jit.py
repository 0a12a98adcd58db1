"""jit: layouts, dtypes, captured values, guards, static arguments. Expected values come from plain NumPy."""

import threading

import numpy as np
import pytest

import tracegrad as tg

X = np.arange(12.0).reshape(3, 4)


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def readonly(x):
    x = x.copy()
    x.flags.writeable = False
    return x


@pytest.mark.parametrize(
    "make",
    [
        lambda: X,
        lambda: np.asfortranarray(X),
        lambda: X[::-1, ::2],
        lambda: X.T,
        lambda: readonly(X),
        lambda: X.astype(">f8"),
        lambda: np.zeros((0, 4)),
        lambda: np.zeros((1, 1)),
        lambda: np.broadcast_to(np.arange(4.0), (3, 4)),
        lambda: X.astype(np.float32),
        lambda: X.astype(np.int32),
        lambda: np.frombuffer(bytes(1) + X.tobytes(), np.uint8)[1:].view(np.float64).reshape(3, 4),
    ],
)
def test_every_layout_gives_numpys_answer(make):
    f = tg.jit(softmax)
    x = make()
    for _ in range(2):
        got = f(x)
        want = softmax(x) if x.size else np.zeros(x.shape)
        assert got.dtype == want.dtype and got.shape == want.shape
        assert np.allclose(got, want, rtol=1e-6 if x.dtype == np.float32 else 1e-12)


def test_overlapping_inputs_and_outputs_of_their_own():
    buffer = np.arange(10.0)
    a, b = tg.jit(lambda a, b: (a + b, a))(buffer[:-1], buffer[1:])
    assert np.array_equal(a, buffer[:-1] + buffer[1:]) and np.array_equal(b, buffer[:-1])
    b[:] = 0
    assert buffer[3] == 3


def test_an_output_twice_and_an_input_as_output():
    f = tg.jit(lambda x: (x, np.exp(x), x))
    x = np.arange(3.0)
    a, b, c = f(x)
    assert a is not x and a is not c and np.array_equal(a, x) and np.allclose(b, np.exp(x))


def test_scalars_come_back_as_numpy_scalars():
    assert type(tg.jit(np.sum)(X)) is np.float64
    assert type(tg.jit(lambda x: np.sum(x) > 3)(X)) is np.bool_


def test_results_that_python_made():
    f = tg.jit(lambda x: {"s": np.sum(x), "n": 3, "label": "a", "none": None, "zeros": np.zeros(2)})
    first = f(X)
    first["zeros"][:] = 1
    second = f(X)
    assert second["n"] == 3 and second["label"] == "a" and second["none"] is None
    assert np.array_equal(second["zeros"], [0, 0])


def test_captured_arrays_are_read_at_call_time():
    w = np.ones(4)
    f = tg.jit(lambda x: x * w)
    assert np.array_equal(f(X), X)
    w[:] = 2
    assert np.array_equal(f(X), 2 * X)


def test_captured_arrays_used_by_plain_numpy():
    w = np.ones(4)
    f = tg.jit(lambda x: x * np.sum(w * w))
    assert np.array_equal(f(X), 4 * X)
    w[:] = 2
    assert np.array_equal(f(X), 16 * X)


def test_rebinding_a_closure_variable_and_a_global_helper():
    scale = 2.0

    def f(x):
        return x * scale

    g = tg.jit(f)
    assert np.array_equal(g(X), 2 * X)
    scale = 3.0
    assert np.array_equal(g(X), 3 * X)


def helper(x):
    return np.sin(x) + 20


def test_a_global_helper_that_is_rebound(monkeypatch):
    f = tg.jit(lambda x: helper(x))
    assert np.isclose(f(np.float64(1.0)), np.sin(1.0) + 20)
    monkeypatch.setitem(globals(), "helper", np.cos)
    assert np.isclose(f(np.float64(1.0)), np.cos(1.0))


def test_defaults_are_watched():
    def f(x, a=2.0):
        return x * a

    g = tg.jit(f)
    assert np.array_equal(g(X), 2 * X)
    f.__defaults__ = (5.0,)
    assert np.array_equal(g(X), 5 * X)


def test_python_decisions_on_values_are_guarded():
    f = tg.jit(lambda x: x * 2 if np.sum(x) > 0 else -x)
    for x in (X + 1, -X - 1, X + 2, -X - 3):
        assert np.array_equal(f(x), x * 2 if np.sum(x) > 0 else -x)
    assert len(tg.explain(f).programs) == 2


def test_an_error_of_the_branch_not_taken():
    """A program raises for a call in which Python would not have taken its branch: it is not that call's program."""

    def head(x, i):
        if x[0] < 3 and np.max(i) < len(x):
            return x[i].sum() * 2
        return x[-1] * 3

    x, inside, outside = np.arange(1.0, 6.0), np.array([1, 3]), np.array([7, 1])
    f = tg.jit(head)
    assert f(x, inside) == 12
    assert f(x, outside) == 15
    assert f(x + 5, outside) == 30
    assert f(x, inside) == 12
    with pytest.raises(IndexError, match="-9"):
        f(x, np.array([-9, 1]))
    gradient = tg.grad(head)
    np.testing.assert_array_equal(gradient(x, inside), [0, 2, 0, 2, 0])
    np.testing.assert_array_equal(gradient(x, outside), [0, 0, 0, 0, 3])
    leaf = tg.tensor(x, requires_grad=True)
    f(leaf, inside).backward()
    f(leaf, outside).backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), [0, 2, 0, 2, 3])

    @tg.jit
    def log_determinant(a):
        return 2 * np.log(np.linalg.cholesky(a).diagonal()).sum() if a[0, 0] > 0 else -np.inf

    assert log_determinant(np.eye(2) * 2) == pytest.approx(2 * np.log(2))
    assert log_determinant(np.eye(2) * -1) == -np.inf
    with pytest.raises(np.linalg.LinAlgError):
        log_determinant(np.array([[1.0, 3.0], [3.0, 1.0]]))


def test_a_loop_of_the_branch_not_taken_that_would_not_end():
    def countdown(n, x):
        if n > 0:
            return tg.while_loop(lambda c: c[0] != 0, lambda c: (c[0] - 1, c[1] * 2), (n, x))[1]
        return -x

    f, gradient = tg.jit(countdown), tg.grad(countdown, argnums=1)
    assert [f(np.array(n), 3.0) for n in (2, 4, -1, 1)] == [12, 48, -3, 6]
    assert [gradient(np.array(n), 3.0) for n in (2, 4, -1)] == [4, 16, -1]


def test_while_on_a_value():
    def f(x):
        while np.max(x) > 1:
            x = x / 2
        return x

    g = tg.jit(f)
    for scale in (1.0, 10.0, 3.0):
        assert np.allclose(g(X * scale), f(X * scale))


def test_guards_keep_zero_signs_and_nan_apart():
    f = tg.jit(lambda x, c: x * (1.0 if np.isnan(c) else 2.0))
    assert f(np.float64(3), float("nan")) == 3 and f(np.float64(3), 1.0) == 6 and f(np.float64(3), float("nan")) == 3


@pytest.mark.filterwarnings("ignore:.*was compiled")
def test_too_many_decisions_run_eagerly_and_stay_right():
    f = tg.jit(lambda x: x * int(np.sum(x)))
    for n in range(20):
        x = np.array([float(n), 1.0])
        assert np.array_equal(f(x), x * (n + 1))


def test_static_arguments_of_other_values_are_other_programs():
    f = tg.jit(lambda x, n: np.sum(x, axis=n))
    assert np.array_equal(f(X, 0), X.sum(0)) and np.array_equal(f(X, 1), X.sum(1)) and np.array_equal(f(X, 0), X.sum(0))
    g = tg.jit(lambda x, flag: x + 1 if flag else x)
    assert np.array_equal(g(X, True), X + 1) and np.array_equal(g(X, 1), X + 1) and np.array_equal(g(X, False), X)


def test_minus_one_and_minus_two_are_different_keys():
    f = tg.jit(lambda x, n: x * n)
    assert np.array_equal(f(X, -1), -X) and np.array_equal(f(X, -2), -2 * X)


def test_python_floats_are_weak_until_a_ufunc_makes_them_numpys():
    def f(x, s):
        return x * np.tanh(s), x * (s * 2 + 1), x * abs(s), x * np.add(s, 1.0), x + np.where(x > 0, s, x)

    x = np.ones(2, np.float32)
    assert [r.dtype for r in tg.jit(f)(x, 0.5)] == [r.dtype for r in f(x, 0.5)]


def test_other_shapes_and_dtypes():
    f = tg.jit(lambda x: np.sum(x * x))
    for x in (np.ones(3), np.ones(4), np.ones((2, 2)), np.ones(3, np.float32), np.ones(3, np.int64), np.ones(())):
        assert f(x) == x.size and f(x).dtype == np.sum(x * x).dtype


def test_negative_zero_as_a_literal():
    f = tg.jit(lambda x: (np.copysign(x, 0.0), np.copysign(x, -0.0)))
    assert f(np.float64(1)) == (1.0, -1.0)


def test_nested_jit_is_one_program():
    inner = tg.jit(lambda x: np.exp(x))
    f = tg.jit(lambda x: inner(x) + inner(2 * x))
    assert np.allclose(f(X / 12), np.exp(X / 12) + np.exp(X / 6))
    assert len(tg.explain(f).programs) == 1 and not tg.explain(inner).programs


def test_a_decorated_function_keeps_its_name_and_doc():
    @tg.jit
    def f(x):
        """Doubled."""
        return 2 * x

    assert f.__name__ == "f" and f.__doc__ == "Doubled." and f.__wrapped__ is f.py_func
    assert "f" in repr(f)


def test_eager_switch_runs_the_same_code():
    seen = []

    @tg.jit
    def f(x):
        seen.append(type(x))
        return x * 2

    f(X), f(X)
    assert len(seen) == 1
    with tg.eager():
        assert np.array_equal(f(X), 2 * X)
    assert len(seen) == 2


def test_print_inside_a_trace_shows_numbers(capsys):
    tg.jit(lambda x: (print(x * 2), x)[1])(np.array([1.5]))
    assert "3." in capsys.readouterr().out


def test_from_several_threads():
    f = tg.value_and_grad(lambda x: np.sum(np.tanh(x) ** 2))
    wrong = []

    def work(seed):
        x = np.random.default_rng(seed).standard_normal(100 + seed % 3)
        for _ in range(50):
            v, g = f(x)
            t = np.tanh(x)
            if not (np.isclose(v, np.sum(t**2)) and np.allclose(g, 2 * t * (1 - t**2))):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


@pytest.mark.parametrize(("function", "expected"), [
    (lambda x: (), ()), (lambda x: {"none": []}, {"none": []}), (lambda x: x[0].shape, ()),
])  # fmt: skip
def test_results_without_arrays(function, expected):
    compiled = tg.jit(function)
    for n in (3, 3, 4, 5):
        assert compiled(np.ones(n)) == expected
    assert tg.jit(lambda x: ())(1.0) == ()
