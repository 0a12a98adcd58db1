"""Module and Parameter: attributes, names, state, hooks, printing."""

import copy
import pickle

import numpy as np
import pytest

import tracegrad as tg
from tracegrad import nn


def numbers(t):
    return t.detach().numpy()


class Scale(nn.Module):
    def __init__(self, a=1):
        super().__init__()
        self.a = a
        self.w = nn.Parameter(tg.ones(2))

    def forward(self, x):
        return x * self.w

    def extra_repr(self):
        return f"a={self.a}"


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Scale(1), Scale(2)
        self.register_buffer("count", tg.tensor([3.0]))
        self.register_buffer("scratch", tg.tensor([4.0]), persistent=False)

    def forward(self, x):
        return self.second(self.first(x))


def test_a_parameter_is_a_leaf_over_the_same_memory():
    t = tg.tensor([1.0, 2.0])
    p = nn.Parameter(t)
    assert p.requires_grad and p.is_leaf and np.shares_memory(numbers(p), numbers(t)) and isinstance(p, tg.Tensor)
    assert repr(nn.Parameter(tg.ones(2))) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert not nn.Parameter(t, requires_grad=False).requires_grad
    assert type(p * 2) is tg.Tensor


def test_parameters_can_be_copied_and_pickled():
    p = nn.Parameter(tg.ones(2))
    for q in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert type(q) is nn.Parameter and q.requires_grad and numbers(q).tolist() == [1.0, 1.0]


def test_an_empty_slot_is_kept_but_listed_nowhere():
    m = nn.Module()
    m.register_parameter("bias", None)
    assert m.bias is None and "bias" in m._parameters
    assert list(m.parameters()) == [] and m.state_dict() == {}
    with pytest.raises(TypeError, match="cannot assign 'Tensor' as parameter 'bias'"):
        m.bias = tg.ones(2)
    m.bias = nn.Parameter(tg.ones(2))
    assert [n for n, _ in m.named_parameters()] == ["bias"]
    m.bias = None
    assert "bias" in m._parameters and m.bias is None


def test_names_are_checked():
    m = Scale()
    for name, text in (("a.b", 'can\'t contain "."'), ("", 'can\'t be empty string ""'), ("forward", "already exists")):
        with pytest.raises(KeyError, match=text):
            m.register_parameter(name, nn.Parameter(tg.ones(1)))
        with pytest.raises(KeyError, match=text):
            m.register_buffer(name, tg.ones(1))
        with pytest.raises(KeyError, match=text):
            m.add_module(name, Scale())


def test_before_init():
    class Early(nn.Module):
        def __init__(self, value):
            self.value = value

    with pytest.raises(AttributeError, match=r"cannot assign parameters before Module.__init__\(\) call"):
        Early(nn.Parameter(tg.ones(1)))
    with pytest.raises(AttributeError, match=r"cannot assign module before Module.__init__\(\) call"):
        Early(Scale())


def test_what_can_be_assigned_over_what():
    m = Pair()
    with pytest.raises(TypeError, match=r"cannot assign 'Tensor' as parameter 'w' \(nn.Parameter or None expected\)"):
        m.first.w = tg.ones(2)
    m.count = tg.tensor([9.0])
    assert numbers(dict(m.named_buffers())["count"]).tolist() == [9.0]
    with pytest.raises(TypeError, match="cannot assign 'int' as buffer 'count'"):
        m.count = 5
    with pytest.raises(TypeError, match="cannot assign 'int' as child module 'first'"):
        m.first = 5
    m.first = None
    assert m.first is None and [n for n, _ in m.named_children()] == ["second"]
    del m.second
    with pytest.raises(AttributeError, match="'Pair' object has no attribute 'second'"):
        m.second


def test_non_persistent_buffers_are_listed_but_not_in_the_state():
    m = Pair()
    assert [n for n, _ in m.named_buffers()] == ["count", "scratch"]
    assert list(m.state_dict()) == ["count", "first.w", "second.w"]


def test_shared_modules_and_parameters():
    m = Pair()
    m.second = m.first
    assert [n for n, _ in m.named_modules()] == ["", "first"]
    assert [n for n, _ in m.named_modules(remove_duplicate=False)] == ["", "first", "second"]
    assert [n for n, _ in m.named_parameters()] == ["first.w"]
    assert [n for n, _ in m.named_parameters(remove_duplicate=False)] == ["first.w", "second.w"]
    assert list(m.state_dict()) == ["count", "first.w", "second.w"]
    m = Pair()
    m.second.w = m.first.w
    assert len(list(m.parameters())) == 1 and len(m.state_dict()) == 3


def test_load_state_dict():
    m, other = Pair(), Pair()
    with tg.no_grad():
        other.first.w.mul_(7)
    kept, version = m.first.w, m.first.w._version
    result = m.load_state_dict(other.state_dict())
    assert repr(result) == "<All keys matched successfully>"
    assert m.first.w is kept and kept._version == version + 1 and numbers(kept).tolist() == [7.0, 7.0]


def test_load_state_dict_reports_what_does_not_fit():
    m = Scale()
    with pytest.raises(RuntimeError) as caught:
        m.load_state_dict({"x": tg.ones(1)})
    text = str(caught.value)
    assert 'Error(s) in loading state_dict for Scale:\n\tMissing key(s) in state_dict: "w".' in text
    assert 'Unexpected key(s) in state_dict: "x"' in text
    result = m.load_state_dict({"x": tg.ones(1)}, strict=False)
    assert result.missing_keys == ["w"] and result.unexpected_keys == ["x"]
    with pytest.raises(RuntimeError, match=r"size mismatch for w: copying a param with shape \(3,\) from checkpoint"):
        m.load_state_dict({"w": tg.ones(3)}, strict=False)


def test_zero_grad():
    m = Scale()
    m(tg.ones(2)).sum().backward()
    kept = m.w.grad
    m.zero_grad(set_to_none=False)
    assert m.w.grad is kept and numbers(kept).tolist() == [0.0, 0.0]
    m.zero_grad()
    assert m.w.grad is None


def test_train_and_eval():
    m = Pair()
    assert m.eval() is m and not m.first.training
    assert m.train() is m and m.second.training
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        m.train("yes")


def test_apply_visits_children_first():
    order = []
    m = Pair()
    assert m.apply(lambda module: order.append(type(module).__name__)) is m
    assert order == ["Scale", "Scale", "Pair"]


def test_hooks_around_forward_and_backward():
    order = []
    m = Scale()

    def say(text):
        return lambda *_: order.append(text)

    m.register_forward_pre_hook(say("pre"))
    m.register_forward_pre_hook(say("first pre"), prepend=True)
    m.register_forward_hook(say("post"))
    m.register_full_backward_pre_hook(say("backward pre"))
    m.register_full_backward_hook(say("backward"))
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    m(x).sum().backward()
    assert order == ["first pre", "pre", "post", "backward pre", "backward"]


def test_hooks_can_replace_arguments_output_and_gradients():
    m = Scale()
    m.register_forward_pre_hook(lambda module, args: args[0] * 10)
    m.register_forward_hook(lambda module, args, output: output + 1)
    m.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 100,))
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    y = m(x)
    assert numbers(y).tolist() == [11.0, 21.0]
    y.sum().backward()
    assert numbers(x.grad).tolist() == [1000.0, 1000.0] and numbers(m.w.grad).tolist() == [10.0, 20.0]


def test_hooks_that_are_called_after_an_exception_too():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    seen = []

    def complaining(module, args, output):
        seen.append("complaining")
        raise RuntimeError("hook")

    module = Fails()
    module.register_forward_hook(lambda m, args, output: seen.append("plain"))
    module.register_forward_hook(complaining, always_call=True)
    module.register_forward_hook(lambda m, args, k, output: seen.append(output), always_call=True, with_kwargs=True)
    with pytest.warns(UserWarning, match="after an exception"), pytest.raises(ValueError, match="no"):
        module(tg.ones(2))
    assert seen == ["complaining", None]


def test_backward_hooks_see_both_gradients_and_can_be_removed():
    seen = []
    m = Scale()
    handle = m.register_full_backward_hook(lambda module, gi, go: seen.append((gi[0].tolist(), go[0].tolist())))
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    (m(x) * 3).sum().backward()
    handle.remove()
    m(x).sum().backward()
    assert seen == [([3.0, 3.0], [3.0, 3.0])]


def test_missing_forward_and_attributes():
    m = nn.Module()
    with pytest.raises(NotImplementedError, match=r'Module \[Module\] is missing the required "forward" function'):
        m(1)
    with pytest.raises(AttributeError, match="'Module' object has no attribute 'zz'"):
        m.zz


def test_repr():
    assert repr(Scale(5)) == "Scale(a=5)"
    assert repr(nn.Module()) == "Module()"
    assert repr(Pair()) == "Pair(\n  (first): Scale(a=1)\n  (second): Scale(a=2)\n)"

    class Outer(Pair):
        def extra_repr(self):
            return "two\nlines"

    assert repr(Outer()) == "Outer(\n  two\n  lines\n  (first): Scale(a=1)\n  (second): Scale(a=2)\n)"


def test_other_dtypes():
    m = Pair().float()
    assert m.first.w.dtype == np.float32 and m.count.dtype == np.float32
    assert m.double().first.w.dtype == np.float64 and m.first.w.requires_grad


def test_a_module_trains():
    m = Scale()
    x, target = tg.tensor([1.0, 2.0]), tg.tensor([3.0, -4.0])
    for _ in range(200):
        m.zero_grad()
        ((m(x) - target) ** 2).sum().backward()
        with tg.no_grad():
            for p in m.parameters():
                p -= 0.1 * p.grad
    assert np.allclose(numbers(m.w), [3.0, -2.0])


def test_modules_can_be_deep_copied():
    m = Pair()
    other = copy.deepcopy(m)
    assert other.first.w is not m.first.w and type(other.first.w) is nn.Parameter
    assert list(other.state_dict()) == list(m.state_dict())


@pytest.mark.parametrize("how", ["eager", "compiled", "step", "grad"])
def test_backward_hooks_fire_in_every_mode(how):
    tg.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    seen = []

    def note(module, grad_input, grad_output):
        seen.append((None if grad_input[0] is None else grad_input[0].sum(), grad_output[0].sum()))

    model[0].register_full_backward_hook(note)
    model[2].register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 3,))
    model[2].register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 2,))
    x = np.random.default_rng(0).normal(size=(3, 4))
    first, last = model[0].weight.detach().numpy(), model[2].weight.detach().numpy()
    active = x @ first.T + model[0].bias.detach().numpy() > 0
    arriving = 6 * (np.ones((3, 2)) @ last) * active  # twice by the one hook, three times by the other

    def step(x):
        model.zero_grad()
        loss = model(x).sum()
        loss.backward()
        return loss

    for _ in range(2):
        if how == "grad":
            found = tg.grad(lambda x: model(x).sum())(x)
            np.testing.assert_allclose(found.detach(), arriving @ first)
            continue
        if how == "step":
            tg.jit(step)(tg.tensor(x))
        else:
            model.zero_grad()
            run = tg.jit(model) if how == "compiled" else model
            run(tg.tensor(x)).sum().backward()
        np.testing.assert_allclose(model[0].weight.grad, arriving.T @ x)
    assert len(seen) == 2
    assert (seen[1][0] is None) is (how != "grad")
    np.testing.assert_allclose(seen[1][1].item() if how != "step" else arriving.sum(), arriving.sum())


# ---- hooks and further state of state_dict ---------------------------------------------------------------------------


class WithState(nn.Module):
    """A parameter, a buffer, and a count that is no Tensor."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(tg.tensor([1.0, 2.0]))
        self.register_buffer("b", tg.tensor([3.0]))
        self.count = 0

    def get_extra_state(self):
        return self.count

    def set_extra_state(self, state):
        self.count = state


def test_extra_state_travels_with_the_state_dict():
    outer, other = nn.Sequential(WithState()), nn.Sequential(WithState())
    outer[0].count = 5
    state = outer.state_dict()
    assert list(state) == ["0.w", "0.b", "0._extra_state"]
    other.load_state_dict(state)
    assert other[0].count == 5
    del state["0._extra_state"]
    with pytest.raises(RuntimeError, match=r"0\._extra_state"):
        other.load_state_dict(state)


def test_hooks_of_state_dict():
    seen = []
    outer = nn.Sequential(WithState())
    inner = outer[0]
    inner.register_state_dict_pre_hook(lambda module, prefix, keep_vars: seen.append((prefix, keep_vars)))
    inner.register_state_dict_post_hook(lambda module, state, prefix, metadata: state.pop(prefix + "b"))
    state = outer.state_dict()
    assert (seen, list(state)) == ([("0.", False)], ["0.w", "0._extra_state"])
    handle = inner.register_load_state_dict_pre_hook(lambda module, state, prefix, *rest: state.pop("old"))
    inner.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.remove("0.b"))
    result = outer.load_state_dict({**state, "old": 1})
    assert (result.missing_keys, result.unexpected_keys) == ([], [])
    handle.remove()
    with pytest.raises(RuntimeError, match=r"Unexpected key.*old"):
        outer.load_state_dict({**state, "old": 1})


def test_loading_by_assignment():
    module = WithState()
    values = {"w": tg.tensor([5.0, 6.0]), "b": tg.tensor([7.0]), "_extra_state": 1}
    module.load_state_dict(values, assign=True)
    assert isinstance(module.w, nn.Parameter) and module.w.requires_grad
    assert module.w.tolist() == [5.0, 6.0]
    assert module.b is values["b"]


def test_parameters_and_buffers_by_path():
    outer = nn.Sequential(WithState())
    assert outer.get_parameter("0.w") is outer[0].w
    assert outer.get_buffer("0.b") is outer[0].b
    with pytest.raises(AttributeError, match="no parameter"):
        outer.get_parameter("0.b")
