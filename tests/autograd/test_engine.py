"""backward() and autograd.grad(): values, freeing, errors, re-entrance, threads, depth."""

import gc
import threading
import weakref

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.state import aside


def leaf(values, **kwargs):
    return tg.tensor(np.asarray(values, float), requires_grad=True, **kwargs)


def numbers(t):
    return t.detach().numpy()


def test_gradient_of_a_product():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (x * y).sum().backward()
    assert numbers(x.grad).tolist() == [3.0, 4.0] and numbers(y.grad).tolist() == [1.0, 2.0]


def test_broadcast_operands_get_gradients_of_their_own_shape():
    a, b, c = leaf(np.ones((2, 2))), leaf([[2.0], [3.0]]), leaf(5.0)
    (a * b + c).sum().backward()
    assert numbers(a.grad).tolist() == [[2.0, 2.0], [3.0, 3.0]]
    assert numbers(b.grad).tolist() == [[2.0], [2.0]] and b.grad.shape == (2, 1)
    assert c.grad.shape == () and float(c.grad) == 4.0


def test_operands_of_different_dtypes_get_gradients_of_their_own():
    a, b = tg.tensor([1.0, 2.0], dtype="f4", requires_grad=True), leaf([3.0, 4.0])
    (a * b).sum().backward()
    assert a.grad.dtype == np.float32 and b.grad.dtype == np.float64
    assert numbers(a.grad).tolist() == [3.0, 4.0]


def test_the_same_tensor_as_both_operands_accumulates():
    x = leaf([3.0])
    (x * x).sum().backward()
    assert numbers(x.grad).tolist() == [6.0]


def test_later_gradients_are_added_in_place_to_the_same_object():
    x = leaf([1.0, 2.0])
    (x * 2).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad is first and numbers(first).tolist() == [5.0, 5.0]


def test_with_create_graph_the_accumulated_gradient_is_a_new_object():
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    first = x.grad
    with pytest.warns(UserWarning, match="reference cycle"):
        (x * x).sum().backward(create_graph=True)
    assert x.grad is not first and numbers(x.grad).tolist() == [4.0, 8.0]
    assert numbers(first).tolist() == [2.0, 4.0]


def test_two_leaves_of_one_sum_do_not_share_gradient_memory():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (x + y).backward(tg.tensor([1.0, 1.0]))
    assert not np.shares_memory(numbers(x.grad), numbers(y.grad))


def test_the_seed_gradient_is_not_shared_with_grad():
    x, g = leaf([1.0, 2.0]), tg.tensor([1.0, 2.0])
    (x + 0).backward(g)
    assert not np.shares_memory(numbers(x.grad), numbers(g))


def test_a_gradient_that_a_hook_kept_is_not_written_into():
    x, kept = leaf([1.0, 2.0]), []
    y = x * 2
    y.register_hook(kept.append)
    (y + 1).backward(tg.tensor([1.0, 1.0]))
    (x * 2).backward(tg.tensor([1.0, 1.0]))
    assert numbers(kept[0]).tolist() == [1.0, 1.0]


def test_second_backward_raises_only_if_something_was_saved():
    x = leaf([1.0, 2.0])
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert numbers(x.grad).tolist() == [2.0, 2.0]
    z = (x * x).sum()
    z.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        z.backward()


def test_retain_graph_allows_a_second_backward():
    x = leaf([2.0])
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert numbers(x.grad).tolist() == [8.0]


def test_retain_graph_defaults_to_create_graph():
    x = leaf([2.0])
    y = (x**3).sum()
    (g,) = tg.autograd.grad(y, x, create_graph=True)
    (again,) = tg.autograd.grad(y, x)
    assert numbers(g).tolist() == numbers(again).tolist() == [12.0]


def test_implicit_gradient_needs_one_element():
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    (leaf([[3.0]]) * 2).backward()


def test_nothing_recorded():
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        tg.tensor([1.0]).backward()


def test_gradient_of_the_wrong_shape():
    y = leaf([1.0, 2.0, 3.0]) * 2
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: grad_output\[0\] has a shape of \(2,\) and"):
        y.backward(tg.tensor([1.0, 1.0]))


def test_grad_of_something_that_does_not_require_grad():
    x, c = leaf([1.0]), tg.tensor([1.0])
    with pytest.raises(RuntimeError, match="one of the differentiated Tensors does not require grad"):
        tg.autograd.grad((x * c).sum(), c)


def test_unused_input():
    x, z = leaf([1.0]), leaf([1.0, 2.0])
    y = (x * 2).sum()
    with pytest.raises(RuntimeError, match="at index 1 appears to not have been used in the graph"):
        tg.autograd.grad(y, (x, z), retain_graph=True)
    gx, gz = tg.autograd.grad(y, (x, z), retain_graph=True, allow_unused=True)
    assert numbers(gx).tolist() == [2.0] and gz is None
    _, gz = tg.autograd.grad(y, (x, z), materialize_grads=True)
    assert numbers(gz).tolist() == [0.0, 0.0]


def test_materialize_grads_contradicts_allow_unused_false():
    x = leaf([1.0])
    with pytest.raises(TypeError, match="materialize_grads"):
        tg.autograd.grad((x * 2).sum(), x, allow_unused=False, materialize_grads=True)


def test_grad_leaves_dot_grad_alone_and_reaches_inner_tensors():
    x = leaf([2.0, 3.0])
    y = x * x
    gx, gy = tg.autograd.grad((y * 3).sum(), (x, y))
    assert numbers(gx).tolist() == [12.0, 18.0] and numbers(gy).tolist() == [3.0, 3.0] and x.grad is None


def test_grad_runs_only_what_leads_to_the_inputs():
    x, z = leaf([2.0]), leaf([3.0])
    ran = []
    y, w = x * 2, z * 2
    w.grad_fn.register_prehook(lambda g: ran.append("w"))
    y.grad_fn.register_prehook(lambda g: ran.append("y"))
    tg.autograd.grad((y + w).sum(), x)
    assert ran == ["y"]


def test_backward_with_inputs():
    x, z = leaf([2.0]), leaf([3.0])
    y = x * z
    (y * 2).sum().backward(inputs=[x, y])
    assert numbers(x.grad).tolist() == [6.0] and z.grad is None
    y.retain_grad()
    assert numbers(y.grad).tolist() == [2.0]
    with pytest.raises(RuntimeError, match="`inputs` argument to `backward\\(\\)` cannot be empty"):
        (x * 2).sum().backward(inputs=[])


def test_second_derivative():
    x = leaf([1.0, 2.0])
    (g,) = tg.autograd.grad((x**3).sum(), x, create_graph=True)
    (h,) = tg.autograd.grad(g.sum(), x)
    assert numbers(h).tolist() == [6.0, 12.0]


def test_nodes_run_from_the_latest_recorded_to_the_earliest():
    x = leaf([0.5, 1.0])
    a = x * 2.0
    b = np.sin(x)
    c = a * 3.0
    d = b * c
    e = d + a
    order = []
    for name, t in {"a": a, "b": b, "c": c, "d": d, "e": e}.items():
        t.grad_fn.register_prehook(lambda grads, name=name: order.append(name))
    e.sum().backward()
    assert order == ["e", "d", "c", "b", "a"]
    points = np.array([0.5, 1.0])
    np.testing.assert_allclose(numbers(x.grad), 6 * np.sin(points) + 6 * points * np.cos(points) + 2, rtol=1e-14)


def test_batched_gradients():
    x = leaf([1.0, 2.0, 3.0])
    (rows,) = tg.autograd.grad(x * x, x, tg.tensor(np.eye(3)), is_grads_batched=True)
    assert numbers(rows).tolist() == np.diag([2.0, 4.0, 6.0]).tolist()


def test_several_roots():
    x = leaf([1.0, 2.0])
    tg.autograd.backward([(x * 2).sum(), x * 3], [None, tg.tensor([1.0, 10.0])])
    assert numbers(x.grad).tolist() == [5.0, 32.0]


def test_no_grad_records_nothing_and_enable_grad_does_again():
    x = leaf([1.0])
    with tg.no_grad():
        assert (x * 2).grad_fn is None and not (x * 2).requires_grad
        with tg.enable_grad():
            assert (x * 2).requires_grad
    assert tg.is_grad_enabled()

    @tg.no_grad()
    def double(t):
        return t * 2

    assert not double(x).requires_grad


def test_inference_mode():
    x = leaf([1.0, 2.0])
    with tg.autograd.inference_mode():
        y = x * 2
    assert y.is_inference() and not y.requires_grad
    with (
        tg.autograd.inference_mode(),
        tg.autograd.inference_mode(False),
        pytest.raises(RuntimeError, match="Inference tensors cannot be saved"),
    ):
        x * y


def test_backward_inside_backward():
    class Inner(tg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with tg.enable_grad():
                copy = x.detach().requires_grad_()
                (copy**2).sum().backward()
            return g * copy.grad

    x = leaf([3.0])
    Inner.apply(x).sum().backward()
    assert numbers(x.grad).tolist() == [6.0]


def test_threads_accumulate_into_shared_leaves():
    x = leaf(np.ones(4))
    failures = []

    def work():
        try:
            for _ in range(50):
                (x * 2).sum().backward()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures and numbers(x.grad).tolist() == [400.0] * 4


def test_grad_mode_belongs_to_its_thread():
    seen = []
    with tg.no_grad():
        thread = threading.Thread(target=lambda: seen.append(tg.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_comparing_arrays_gives_arrays():
    a = np.array([1.0, 2.0])
    assert type(tg.ops.elementwise.less(a, 1.5)) is np.ndarray
    assert numbers(leaf(a) < 1.5).tolist() == [True, False]


def test_a_thread_that_ends_with_recording_off_leaves_no_trace():
    threads = [threading.Thread(target=tg.set_grad_enabled, args=(False,)) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    del threads, thread
    assert not aside
    with tg.no_grad():
        assert len(aside) == 1 and not np.sin(leaf([1.0])).requires_grad
    assert not aside and np.sin(leaf([1.0])).requires_grad


def test_chain_of_100_000_operations_builds_runs_and_is_freed():
    x = leaf([1.0])
    y = x
    for _ in range(50_000):
        y = y * 1.0 + 0.5
    reference = weakref.ref(y.grad_fn)
    y.sum().backward()
    assert numbers(x.grad).tolist() == [1.0]
    gc.disable()
    try:
        del y
        assert reference() is None
    finally:
        gc.enable()


def test_wide_sums_accumulate_once_per_use():
    x = leaf([1.0, 2.0])
    total = x * 0
    for _ in range(1000):
        total = total + x
    total.sum().backward()
    assert numbers(x.grad).tolist() == [1000.0, 1000.0]


def test_the_graph_is_freed_without_the_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        x = leaf([1.0, 2.0])
        y = (x.exp() * x).sum()
        references = [weakref.ref(y), weakref.ref(y.grad_fn)]
        y.backward()
        del y
        assert [r() for r in references] == [None, None]
    finally:
        gc.enable()


def test_next_functions_lead_to_the_leaf():
    x = leaf([1.0])
    y = x * 2 + x
    assert y.grad_fn.name() == "AddBackward0"
    (mul, _), (acc, _) = y.grad_fn.next_functions
    assert mul.name() == "MulBackward0" and acc.name() == "AccumulateGrad" and acc.variable is x


def test_integers_never_require_grad():
    x = leaf([1.5, 2.5])
    assert not (x > 2).requires_grad and not x.argmax().requires_grad
    with pytest.raises(RuntimeError, match="floating point and complex dtype"):
        tg.tensor([1, 2], requires_grad=True)
    with pytest.raises(RuntimeError, match="only Tensors of floating point dtype can require gradients"):
        tg.tensor([1, 2]).requires_grad_()


def test_a_step_function_has_a_gradient_of_zeros():
    x = leaf([1.5, 2.5])
    np.floor(x).sum().backward()
    assert numbers(x.grad).tolist() == [0.0, 0.0]


def test_a_leaf_switched_off_before_backward_gets_nothing():
    x = leaf([2.0])
    y = (x * x).sum()
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None


def test_sums_are_not_added_to_once_they_were_handed_on():
    # The cotangent of z is a sum that Add hands on to both u and v, each of which gets another contribution later.
    x, y = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    u, v = x * 1.0, y * 1.0
    a, b = u * 10.0, v * 100.0
    z = u + v
    (z * 2.0 + z * 3.0 + a + b).sum().backward()
    assert numbers(x.grad).tolist() == [15.0, 15.0] and numbers(y.grad).tolist() == [105.0, 105.0]
