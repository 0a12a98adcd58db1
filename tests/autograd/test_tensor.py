"""Leaves, .grad, requires_grad, detach, printing, copies, PyTorch's method names."""

import copy
import pickle

import numpy as np
import pytest

import tracegrad as tg
from tests.autograd.functions import as_array as numbers
from tests.autograd.functions import leaf


def test_grad_of_a_non_leaf_warns_and_is_none():
    y = leaf([1.0]) * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
        assert y.grad is None


def test_retain_grad():
    x = leaf([1.0])
    x.retain_grad()
    assert not x.retains_grad
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        tg.tensor([1.0]).retain_grad()
    y = x * 2
    y.retain_grad()
    z = (y * 3).sum()
    z.backward(retain_graph=True)
    z.backward()
    assert y.retains_grad and numbers(y.grad).tolist() == [6.0]


def test_assigned_gradients_are_checked():
    x = leaf([1.0, 2.0, 3.0])
    with pytest.raises(RuntimeError, match=r"attempting to assign a gradient of size \[2\] to a tensor of size \[3\]"):
        x.grad = tg.tensor([1.0, 2.0])
    with pytest.raises(TypeError, match="assigned grad expected to be a Tensor or None but got grad of type int"):
        x.grad = 3
    x.grad = tg.tensor([1.0, 2.0, 3.0])
    x.grad = None
    assert x.grad is None


def test_flags_of_non_leaves_cannot_change():
    y = leaf([1.0]) * 2
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        y.requires_grad_(False)
    assert y.requires_grad_() is y


def test_requires_grad_of_a_leaf_can_be_switched():
    x = tg.tensor([1.0])
    assert x.requires_grad_() is x and x.requires_grad
    x.requires_grad = False
    assert not (x * 2).requires_grad


def test_numpy_refuses_where_a_gradient_would_be_lost():
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
        x.numpy()
    assert np.shares_memory(x.detach().numpy(), x.detach().numpy())
    with tg.no_grad():
        assert x.numpy().tolist() == [1.0, 2.0]
    assert x.numpy(force=True).tolist() == [1.0, 2.0]


def test_asarray_refuses_too():
    with pytest.raises(RuntimeError):
        np.asarray(leaf([1.0]))


def test_detach_shares_memory_and_has_no_history():
    x = leaf([1.0, 2.0])
    d = (x * 2).detach()
    assert d.is_leaf and not d.requires_grad
    e = x.detach()
    e[0] = 9
    assert numbers(x)[0] == 9.0


def test_detach_in_place():
    y = leaf([1.0]) * 2
    assert y.detach_() is y and y.is_leaf and not y.requires_grad
    with pytest.raises(RuntimeError, match="views"):
        (leaf([1.0, 2.0]) * 2)[0].detach_()


def test_detached_for_second_order_after_detach_in_place():
    x = leaf([3.0])
    y = x * x
    z = (y * y).sum()
    y.detach_()
    (g,) = tg.autograd.grad(z, x, create_graph=True)
    (h,) = tg.autograd.grad(g.sum(), x)
    assert numbers(g).tolist() == [108.0] and numbers(h).tolist() == [108.0]


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: tg.tensor([2.0]), "tensor([2.])"),
        (lambda: tg.tensor([2.0], requires_grad=True), "tensor([2.], requires_grad=True)"),
        (lambda: tg.tensor([1.0], requires_grad=True) * 2, "tensor([2.], grad_fn=<MulBackward0>)"),
        (lambda: tg.tensor([1, 2]), "tensor([1, 2])"),
        (lambda: tg.tensor([1.5], dtype="f4"), "tensor([1.5], dtype=float32)"),
        (lambda: tg.tensor(3.0), "tensor(3.)"),
        (lambda: tg.tensor([]), "tensor([])"),
        (lambda: tg.tensor([[1.0, 2.0], [3.0, 4.0]]), "tensor([[1., 2.],\n        [3., 4.]])"),
    ],
)
def test_repr(make, text):
    assert repr(make()) == text


def test_repr_of_a_traced_tensor_shows_its_numbers():
    seen = []

    @tg.jit
    def f(x):
        seen.append(repr(x * 2))
        return x

    f(np.array([1.0, 2.0]))
    assert seen == ["tensor([2., 4.], traced)"]


def test_format_of_one_element():
    assert f"{tg.tensor(2.0):.3f}" == "2.000"


def test_shallow_copies_share_memory_version_gradient_and_history():
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    y = copy.copy(x)
    assert y is not x and y.is_leaf and y.requires_grad and y.grad is x.grad
    with tg.no_grad():
        y[0] = 3.0
    assert x[0].item() == 3.0 and x._version == y._version == 1
    copy.copy(x * 2).sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]
    assert tg.grad(lambda x: copy.copy(x * x).sum())(x).tolist() == [6.0, 4.0]


def test_deepcopy_of_leaves_and_not_of_results():
    x = leaf([1.0, 2.0])
    (x * 2).sum().backward()
    y = copy.deepcopy(x)
    assert y.requires_grad and not np.shares_memory(numbers(x), numbers(y))
    assert numbers(y.grad).tolist() == [2.0, 2.0] and y.grad is not x.grad
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x * 2)


def test_pickle_keeps_requires_grad():
    x = pickle.loads(pickle.dumps(leaf([1.0, 2.0])))
    assert x.requires_grad and numbers(x).tolist() == [1.0, 2.0]
    assert not pickle.loads(pickle.dumps(tg.tensor([1.0]))).requires_grad


def test_clone_copies_and_passes_gradients():
    x = leaf([1.0, 2.0])
    y = x.clone()
    assert not np.shares_memory(numbers(x), numbers(y))
    (y * 3).sum().backward()
    assert numbers(x.grad).tolist() == [3.0, 3.0]


def test_hash_is_by_identity():
    x, y = leaf([1.0]), leaf([1.0])
    assert len({x, y, x}) == 2


@pytest.mark.parametrize(
    "ours, numpy_says",
    [
        (lambda x: x.mm(x.t()), lambda a: a @ a.T),
        (lambda x: x.view(3, 2), lambda a: a.reshape(3, 2)),
        (lambda x: x.view(-1), lambda a: a.reshape(-1)),
        (lambda x: x.unsqueeze(1), lambda a: a[:, None]),
        (lambda x: x.unsqueeze(0).expand(4, -1, 3), lambda a: np.broadcast_to(a, (4, 2, 3))),
        (lambda x: x[0].expand_as(x), lambda a: np.broadcast_to(a[0], (2, 3))),
        (lambda x: x.permute(1, 0), lambda a: a.T),
        (lambda x: x.t().contiguous(), lambda a: a.T),
        (lambda x: x.clamp(2, 4), lambda a: np.clip(a, 2, 4)),
        (lambda x: (x - 3).relu(), lambda a: np.maximum(a - 3, 0)),
        (lambda x: x.sigmoid(), lambda a: 1 / (1 + np.exp(-a))),
        (lambda x: x.exp().log1p().tanh(), lambda a: np.tanh(np.log1p(np.exp(a)))),
        (lambda x: x.add(1).mul(2).sub(x).div(3).pow(2), lambda a: ((2 * (a + 1) - a) / 3) ** 2),
        (lambda x: x.sum(dim=1, keepdim=True), lambda a: a.sum(1, keepdims=True)),
        (lambda x: x.mean(dim=0), lambda a: a.mean(0)),
        (lambda x: x.masked_fill(numbers(x) > 2, 0.0), lambda a: np.where(a > 2, 0, a)),
        (lambda x: x.chunk(2, dim=1)[1], lambda a: a[:, 2:]),
        (lambda x: x.split([1, 2], dim=1)[1], lambda a: a[:, 1:]),
        (lambda x: x.unbind(1)[2], lambda a: a[:, 2]),
        (lambda x: x.neg().abs().sqrt().square(), lambda a: a),
    ],
)
def test_methods_that_pytorch_users_type(ours, numpy_says):
    x = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert np.allclose(numbers(ours(x)), numpy_says(numbers(x)))
    assert tg.gradcheck(ours, leaf([[1.1, 2.2, 3.3], [4.4, 5.5, 6.6]]))


def test_sizes():
    x = tg.zeros(2, 3)
    assert x.size == 6 and x.size() == (2, 3) and x.size(-1) == 3
    assert x.dim() == 2 and x.numel() == 6 and x.shape == (2, 3) and len(x) == 2


def test_new_tensors_have_the_dtype():
    x = tg.tensor([1.0], dtype="f4")
    assert x.new_zeros(2, 3).dtype == np.float32 and x.new_zeros((2, 3)).shape == (2, 3)
    assert numbers(x.new_ones(2)).tolist() == [1.0, 1.0] and numbers(x.new_full((2,), 7)).tolist() == [7.0, 7.0]
    assert x.new_tensor([1, 2]).dtype == np.float32
    assert x.double().dtype == np.float64 and x.to("f8").dtype == np.float64 and x.long().dtype == np.int64
    assert x.type_as(tg.tensor([1.0])).dtype == np.float64


def test_item_and_tolist():
    assert tg.tensor([[2.5]]).item() == 2.5 and tg.tensor([1, 2]).tolist() == [1, 2]
    assert float(leaf(2.0)) == 2.0
