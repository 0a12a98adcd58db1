"""The contract of user Functions, eager; the same with recording in tests/trace."""

import numpy as np
import pytest

import tracegrad as tg
from tests.autograd.functions import as_array as numbers
from tests.autograd.functions import double, function, leaf, saving

# ---- what backward returns -------------------------------------------------------------------------------------------


def test_extra_trailing_nones_are_dropped():
    x = leaf([1.0])
    function(double, lambda ctx, g: (g * 2, None, None)).apply(x).sum().backward()
    assert numbers(x.grad).tolist() == [2.0]


def test_wrong_number_of_gradients():
    f = function(lambda ctx, x, y, z: x * 2, lambda ctx, g: (g, g))
    with pytest.raises(RuntimeError, match=r"F1Backward returned an incorrect number of .* \(expected 3, got 2\)"):
        f.apply(leaf([1.0]), leaf([1.0]), leaf([1.0])).sum().backward()


def test_a_list_is_one_value():
    f = function(lambda ctx, x, y: x * 2, lambda ctx, g: [g, g])
    with pytest.raises(RuntimeError, match="expected 2, got 1"):
        f.apply(leaf([1.0]), leaf([1.0])).sum().backward()


def test_what_is_no_tensor_gets_none():
    f = function(lambda ctx, a, b, x: x * 2, lambda ctx, g: (None, None, g, None))
    x = leaf([1.0])
    f.apply(1, "two", x).sum().backward()
    f = function(lambda ctx, x, y, n: x * n, lambda ctx, g: (g, g, g))
    with pytest.raises(RuntimeError, match="different than None at position 3, but the corresponding forward input"):
        f.apply(x, x, 5).sum().backward()


def test_wrong_type():
    with pytest.raises(RuntimeError, match=r"expected Variable or None \(got float\)"):
        function(double, lambda ctx, g: 3.0).apply(leaf([1.0])).sum().backward()


def test_a_larger_gradient_is_summed_to_the_input():
    x = leaf([1.0, 2.0, 3.0])
    function(double, lambda ctx, g: tg.ones(4, 3)).apply(x).sum().backward()
    assert numbers(x.grad).tolist() == [4.0, 4.0, 4.0]


@pytest.mark.parametrize("shape", [(2,), (1,)])
def test_a_gradient_of_another_shape(shape):
    f = function(double, lambda ctx, g: tg.ones(*shape))
    message = rf"F1Backward returned an invalid gradient at index 0 - got \[{shape[0]}\] but expected .* \[3\]"
    with pytest.raises(RuntimeError, match=message):
        f.apply(leaf([1.0, 2.0, 3.0])).sum().backward()


def test_the_gradient_gets_the_dtype_of_the_input():
    x = tg.tensor([1.0], dtype="f4", requires_grad=True)
    function(double, lambda ctx, g: tg.tensor([3.0])).apply(x).sum().backward()
    assert x.grad.dtype == np.float32


def test_arrays_are_taken_as_gradients():
    x = leaf([1.0])
    function(double, lambda ctx, g: np.array([3.0])).apply(x).sum().backward()
    assert numbers(x.grad).tolist() == [3.0]


def test_gradients_nobody_needs_are_ignored_and_none_leaves_grad_alone():
    x, c = leaf([1.0]), tg.tensor([1.0])
    function(lambda ctx, x, c: x * c, lambda ctx, g: (None, g)).apply(x, c).sum().backward()
    assert x.grad is None and c.grad is None


def test_missing_backward_and_both_names():
    with pytest.raises(NotImplementedError, match="You must implement either the backward or vjp method"):
        function(double).apply(leaf([1.0])).sum().backward()
    f = function(double, lambda ctx, g: g, vjp=lambda ctx, g: g)
    with pytest.raises(RuntimeError, match="both 'backward' and 'vjp'"):
        f.apply(leaf([1.0])).sum().backward()


def test_vjp_is_another_name_for_backward():
    x = leaf([1.0])
    function(double, vjp=lambda ctx, g: g * 2).apply(x).sum().backward()
    assert numbers(x.grad).tolist() == [2.0]


# ---- ctx -------------------------------------------------------------------------------------------------------------


def test_needs_input_grad_has_one_entry_per_argument_in_both_methods():
    seen = []

    def forward(ctx, a, b, n=1, m=2):
        seen.append(ctx.needs_input_grad)
        return a * n + b * m

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g, None, None, None

    function(forward, backward).apply(leaf([1.0]), tg.tensor([1.0]), m=5).sum().backward()
    assert seen == [(True, False, False, False)] * 2


def test_keyword_arguments():
    x = leaf([1.0])
    y = function(lambda ctx, x, y, n=2: x * n + y, lambda ctx, g: (g * 3, g, None)).apply(x, y=x, n=3)
    y.sum().backward()
    assert numbers(y).tolist() == [4.0] and numbers(x.grad).tolist() == [4.0]


def test_a_keyword_only_tensor_that_requires_grad_is_refused():
    with pytest.raises(TypeError, match="keyword-only argument 'w'"):
        function(lambda ctx, x, *, w: x * w, lambda ctx, g: g).apply(leaf([1.0]), w=leaf([2.0]))


def test_the_same_tensor_twice_accumulates_both():
    x = leaf([2.0])
    function(lambda ctx, a, b: a * b, lambda ctx, g: (g * 10, g * 1)).apply(x, x).sum().backward()
    assert numbers(x.grad).tolist() == [11.0]


def test_save_for_backward_takes_tensors_and_none():
    f = function(lambda ctx, x: (ctx.save_for_backward(3), x)[1], lambda ctx, g: g)
    with pytest.raises(TypeError, match="save_for_backward can only save variables, but argument 0 is of type int"):
        f.apply(leaf([1.0]))

    def forward(ctx, x):
        ctx.save_for_backward(None, x)
        return x * 2

    def backward(ctx, g):
        nothing, _ = ctx.saved_tensors
        assert nothing is None
        return g * 2

    function(forward, backward).apply(leaf([1.0])).sum().backward()


def test_saved_tensors_are_checked_and_freed():
    x = leaf([2.0])
    f = function(saving, lambda ctx, g: 2 * g * ctx.saved_tensors[0])
    y = x * 1
    z = f.apply(y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"(?s)modified by an inplace operation.*F1Backward"):
        z.backward()
    z = f.apply(x)
    z.sum().backward(retain_graph=True)
    z.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        z.grad_fn.saved_tensors


def test_attributes_live_on_ctx_and_on_grad_fn():
    def forward(ctx, x):
        ctx.edges, ctx.name_of, ctx.run = "mine", [1], 3  # names that a node might use itself
        return x * 2

    y = function(forward, lambda ctx, g: g * (2 if (ctx.edges, ctx.run) == ("mine", 3) else 0)).apply(leaf([1.0]))
    assert y.grad_fn.edges == "mine" and type(y.grad_fn).__name__ == "F1Backward"
    assert repr(y).endswith("grad_fn=<F1Backward>)")
    y.sum().backward()


def test_missing_gradients_arrive_as_zeros_or_none():
    received = []

    def forward(materialize):
        def run(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x * 2, x * 3, (x * 0).astype(int), "text"

        return run

    def backward(ctx, *grads):
        received.append([None if g is None else g.tolist() for g in grads])
        return grads[0]

    for materialize in (True, False):
        a, _, n, text = function(forward(materialize), backward).apply(leaf([1.0]))
        assert text == "text" and not n.requires_grad
        a.sum().backward()
    assert received == [[[1.0], [0.0], [0], None], [[1.0], None, None, None]]


def test_mark_non_differentiable():
    def forward(ctx, x):
        y = x * 2
        ctx.mark_non_differentiable(y)
        return y, x * 3

    x = leaf([1.0])
    a, b = function(forward, lambda ctx, ga, gb: gb * 3).apply(x)
    assert not a.requires_grad and b.requires_grad
    b.sum().backward()
    assert numbers(x.grad).tolist() == [3.0]


def test_an_input_returned_as_it_is_becomes_a_view():
    x = leaf([1.0]) * 1
    y = function(lambda ctx, x: x, lambda ctx, g: g * 5).apply(x)
    assert y is not x and np.shares_memory(numbers(x), numbers(y)) and y.grad_fn.name() == "F1Backward"
    with pytest.raises(RuntimeError, match="is being modified inplace"):
        y.add_(1)


def test_forward_sees_the_very_tensors_and_records_nothing():
    seen = []

    def forward(ctx, x):
        seen.extend([x, (x * 2).requires_grad])
        return x * 2

    x = leaf([1.0])
    function(forward, lambda ctx, g: g).apply(x)
    assert seen[0] is x and seen[1] is False


def test_numbers_and_arrays_that_forward_returns_become_tensors():
    x = leaf([1.0, 2.0])
    y = function(lambda ctx, x: np.sum(x.numpy()), lambda ctx, g: g * tg.ones(2)).apply(x)
    z = function(lambda ctx, x: float(x.sum()), lambda ctx, g: g * tg.ones(2)).apply(x)
    (y + z).backward()
    assert float(y) == float(z) == 3.0 and numbers(x.grad).tolist() == [2.0, 2.0]


def test_arrays_alone_give_arrays():
    class Softplus(tg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return np.logaddexp(0.0, x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g / (1.0 + np.exp(-x))

    a = np.linspace(-1, 1, 5)
    assert type(Softplus.apply(a)) is np.ndarray and np.allclose(Softplus.apply(a), np.log1p(np.exp(a)))
    assert tg.gradcheck(Softplus.apply, a) and tg.gradgradcheck(Softplus.apply, a)


def test_without_gradients_nothing_is_kept():
    y = function(saving, lambda ctx, g: g).apply(tg.tensor([1.0]))
    assert y.grad_fn is None and not y.requires_grad
    with tg.no_grad():
        assert not function(saving, lambda ctx, g: g).apply(leaf([1.0])).requires_grad


def test_calling_an_instance_is_explained():
    with pytest.raises(RuntimeError, match="Legacy autograd function with non-static forward method is deprecated"):
        function(double)()(leaf([1.0]))
