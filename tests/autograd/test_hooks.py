"""Hooks: their order, what they may return, how they are removed; anomaly mode; hooks on saved Tensors."""

import warnings

import numpy as np
import pytest

import tracegrad as tg
from tests.autograd.functions import Square, leaf
from tests.autograd.functions import as_array as numbers


def test_order_of_all_hooks():
    order = []
    x = leaf([1.0])
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: order.append("y tensor 1") or g * 10)
    y.register_hook(lambda g: order.append("y tensor 2"))
    y.grad_fn.register_prehook(lambda g: order.append(f"node pre, retained {y.grad.tolist()}"))
    y.grad_fn.register_hook(lambda gi, go: order.append("node post"))
    x.register_hook(lambda g: order.append("x tensor"))
    x.register_post_accumulate_grad_hook(lambda t: order.append(f"x post-accumulate {t.grad.tolist()}"))
    (y * 3).sum().backward()
    assert order == [
        "y tensor 1", "y tensor 2", "node pre, retained [30.0]", "node post", "x tensor",
        "x post-accumulate [60.0]",
    ]  # fmt: skip


def test_a_result_replaces_the_gradient():
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g: g * 100)
    (x * 2).sum().backward()
    assert numbers(x.grad).tolist() == [200.0, 200.0]


def test_node_hooks_can_replace():
    x = leaf([1.0])
    y = x * 2
    y.grad_fn.register_prehook(lambda g: (g[0] * 10,))
    y.grad_fn.register_hook(lambda gi, go: (gi[0] + 1, None))
    y.sum().backward()
    assert numbers(x.grad).tolist() == [21.0]


def test_remove_is_idempotent_and_the_handle_is_a_context_manager():
    x = leaf([1.0])
    seen = []
    handle = x.register_hook(lambda g: seen.append("a"))
    with x.register_hook(lambda g: seen.append("b")):
        (x * 2).sum().backward()
    handle.remove()
    handle.remove()
    (x * 2).sum().backward()
    assert seen == ["a", "b"]


def test_where_hooks_cannot_go():
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        tg.tensor([1.0]).register_hook(print)
    y = leaf([1.0]) * 2
    with pytest.raises(RuntimeError, match="post accumulate grad hooks cannot be registered on non-leaf tensors"):
        y.register_post_accumulate_grad_hook(print)


def test_what_a_hook_may_not_return():
    x = leaf([1.0, 2.0])
    with x.register_hook(lambda g: 3.0), pytest.raises(TypeError, match="expected Variable, but hook returned 'float'"):
        (x * 2).sum().backward()
    with (
        x.register_hook(lambda g: g.sum()),
        pytest.raises(RuntimeError, match="hook '<lambda>' has changed the size of value"),
    ):
        (x * 2).sum().backward()


def test_hooks_run_for_autograd_grad_too():
    x = leaf([1.0])
    x.register_hook(lambda g: g * 7)
    (g,) = tg.autograd.grad((x * 2).sum(), x)
    assert numbers(g).tolist() == [14.0]


def test_hooks_before_an_in_place_change_see_the_old_value():
    seen = []
    x = leaf([1.0])
    y = x * 2
    y.register_hook(lambda g: seen.append(("old", g.tolist())))
    y.mul_(3)
    y.register_hook(lambda g: seen.append(("new", g.tolist())))
    (y * 5).sum().backward()
    assert seen == [("new", [5.0]), ("old", [15.0])]


def test_an_optimiser_step_in_a_post_accumulate_hook():
    w = leaf([1.0])

    def step(p):
        with tg.no_grad():
            p -= 0.1 * p.grad
        p.grad = None

    w.register_post_accumulate_grad_hook(step)
    (w * 2).sum().backward()
    assert np.allclose(numbers(w), 0.8) and w.grad is None


# ---- anomaly mode ----------------------------------------------------------------------------------------------------


def test_anomaly_mode_finds_nan_and_shows_the_forward_call():
    x = leaf([-1.0])
    with tg.autograd.detect_anomaly(), np.errstate(invalid="ignore"):
        y = np.sqrt(x)  # the culprit
        with (
            pytest.warns(UserWarning, match=r"(?s)Error detected in SqrtBackward0. Traceback of .*# the culprit"),
            pytest.raises(RuntimeError, match=r"Function 'SqrtBackward0' returned nan values in its 0th output"),
        ):
            (y * 2).sum().backward()


def test_anomaly_mode_names_the_line_inside_a_compiled_function():
    @tg.jit
    def compiled(x):
        y = x * 2
        return np.sqrt(y).sum()  # the culprit

    with tg.autograd.detect_anomaly():
        y = compiled(leaf([-1.0]))
        message = r"in the compiled function compiled the first NaN comes from `sqrt` at .*test_hooks.py:\d+"
        with (
            pytest.warns(UserWarning, match="Error detected in GraphBackward"),
            pytest.raises(RuntimeError, match=message),
        ):
            y.backward()


def test_anomaly_mode_shows_the_forward_call_of_any_failure():
    class Fails(tg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise ZeroDivisionError("mine")

    with tg.autograd.set_detect_anomaly(True):
        y = Fails.apply(leaf([1.0]))
        with pytest.warns(UserWarning, match="Error detected in FailsBackward"), pytest.raises(ZeroDivisionError):
            y.sum().backward()


def test_check_nan_can_be_left_out_and_the_mode_ends():
    x = leaf([1.0])
    with tg.autograd.detect_anomaly(check_nan=False), warnings.catch_warnings():
        warnings.simplefilter("error")
        (x * np.nan).sum().backward()
    assert np.isnan(numbers(x.grad)).all()
    (x * np.nan).sum().backward()


# ---- hooks on saved Tensors ------------------------------------------------------------------------------------------


def test_saved_tensors_go_through_pack_and_unpack():
    x = leaf([2.0, 3.0])
    packed = []

    def pack(t):
        packed.append(t.tolist())
        return t.numpy().copy()

    with tg.autograd.graph.saved_tensors_hooks(pack, tg.tensor):
        y = (x * x).exp()
    y.sum().backward()
    assert [2.0, 3.0] in packed
    assert np.allclose(numbers(x.grad), 2 * np.array([2.0, 3.0]) * np.exp([4.0, 9.0]))


def test_they_apply_to_user_functions():
    x = leaf([2.0])
    with tg.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), lambda v: tg.tensor(v) * 10):
        y = Square.apply(x)
    y.sum().backward()
    assert numbers(x.grad).tolist() == [40.0]


def test_unpack_must_return_a_tensor():
    x = leaf([2.0])
    with tg.autograd.graph.saved_tensors_hooks(lambda t: 1, lambda v: v):
        y = x * x
    with pytest.raises(TypeError, match="must return a Tensor"):
        y.sum().backward()
