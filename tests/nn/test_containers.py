"""Containers: order, names, slices, printing, and that compiled functions notice their changes."""

from collections import OrderedDict

import numpy as np
import pytest

import tracegrad as tg
from tests.nn.checks import check_module, filled, numbers, shapes, values
from tracegrad import nn


def test_sequential_calls_one_after_the_other():
    net = filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    x = values(5, 3)
    hidden = np.tanh(x @ numbers(net[0].weight).T + numbers(net[0].bias))
    np.testing.assert_allclose(numbers(net(x)), hidden @ numbers(net[2].weight).T + numbers(net[2].bias))
    assert list(shapes(net)) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert repr(net[:2]) == ("Sequential(\n  (0): Linear(in_features=3, out_features=4, bias=True)\n  (1): Tanh()\n)")
    check_module(net, x[:2])


def test_what_replaces_a_layer_or_parameter_keeps_its_place():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    net[1], net[0].weight = nn.Tanh(), nn.Parameter(np.ones((4, 3)))
    assert [type(m) for m in net] == [nn.Linear, nn.Tanh, nn.Linear]
    assert [name for name, _ in net.named_parameters()] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    hidden = np.tanh(np.full(4, 3.0) + net[0].bias.detach().numpy())
    expected = hidden @ net[2].weight.detach().numpy().T + net[2].bias.detach().numpy()
    np.testing.assert_allclose(net(tg.ones(3)).detach().numpy(), expected)


def test_sequential_as_a_list():
    a, b, c = nn.ReLU(), nn.Tanh(), nn.Sigmoid()
    net = nn.Sequential(a, b)
    assert len(net) == 2 and list(net) == [a, b] and net[-1] is b and list(net + nn.Sequential(c)) == [a, b, c]
    assert list(net.append(c)) == [a, b, c]
    net[1] = c
    assert list(net) == [a, c, c]
    del net[0]
    assert list(net) == [c, c] and list(net._modules) == ["0", "1"]
    assert list(net.insert(0, b)) == [b, c, c] and net.pop() is c and list(net.extend([a])) == [b, c, a]
    with pytest.raises(IndexError, match="index 3 is out of range for a Sequential of 3"):
        net[3]
    named = nn.Sequential(OrderedDict(first=a, second=b))
    assert named.first is a and list(named[1:]._modules) == ["second"]
    assert repr(nn.Sequential()) == "Sequential()"


def test_module_list():
    layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    layers += [nn.ReLU()]
    assert len(layers) == 4 and len(list(layers.parameters())) == 6 and isinstance(layers[1:], nn.ModuleList)
    assert repr(layers) == (
        "ModuleList(\n  (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)\n  (3): ReLU()\n)"
    )
    assert next(iter(layers[2:] + [nn.Tanh()])) is layers[2]
    del layers[1:3]
    assert [type(m).__name__ for m in layers] == ["Linear", "ReLU"] and list(layers._modules) == ["0", "1"]
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        layers.append(3)
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        layers.insert(0, 3)
    with pytest.raises(NotImplementedError, match="missing the required"):
        layers(1)


def test_module_dict():
    table = nn.ModuleDict({"a": nn.Linear(1, 2), "b": nn.ReLU()})
    assert list(table) == list(table.keys()) == ["a", "b"] and "a" in table and len(table) == 2
    assert [n for n, _ in table.items()] == ["a", "b"] and list(table.values())[1] is table["b"]
    assert list(shapes(table)) == ["a.weight", "a.bias"]
    assert repr(table) == "ModuleDict(\n  (a): Linear(in_features=1, out_features=2, bias=True)\n  (b): ReLU()\n)"
    table.update([("c", nn.Tanh())])
    del table["a"]
    assert isinstance(table.pop("b"), nn.ReLU) and list(table) == ["c"]
    table.clear()
    assert len(table) == 0
    with pytest.raises(KeyError, match="already exists"):
        table["items"] = nn.ReLU()


def test_parameter_list():
    values_ = nn.ParameterList([tg.ones(2), nn.Parameter(tg.zeros(3))])
    assert all(isinstance(p, nn.Parameter) for p in values_) and shapes(values_) == {"0": (2,), "1": (3,)}
    values_.append(tg.ones(1))
    values_ += [tg.ones(4)]
    assert len(values_) == 4 and values_[-1].shape == (4,) and len(values_[1:3]) == 2
    values_[0] = tg.zeros(5)
    assert values_[0].shape == (5,)
    assert repr(nn.ParameterList([tg.ones(2, 3), tg.ones(1)])) == (
        "ParameterList(\n  (0): Parameter containing: [float64 of size 2x3]\n"
        "  (1): Parameter containing: [float64 of size 1]\n)"
    )
    with pytest.raises(TypeError, match="int is neither a Parameter nor a Tensor"):
        values_.append(3)
    with pytest.raises(TypeError, match="extend takes several parameters"):
        values_.extend(tg.ones(2))


def test_parameter_dict():
    table = nn.ParameterDict({"a": tg.ones(2)})
    table["b"] = nn.Parameter(tg.zeros(3))
    assert list(table) == list(table.keys()) == ["a", "b"] and "b" in table and len(table) == 2
    assert shapes(table) == {"a": (2,), "b": (3,)} and next(iter(table.values())) is table["a"]
    assert [n for n, _ in table.items()] == ["a", "b"]
    assert "(a): Parameter containing: [float64 of size 2]" in repr(table)
    del table["a"]
    assert table.pop("b").shape == (3,) and len(table) == 0
    table.update({"c": tg.ones(1)})
    table.clear()
    assert list(table.parameters()) == []


def test_a_compiled_function_notices_every_change():
    net = filled(nn.Sequential(nn.Linear(3, 3), nn.LeakyReLU(0.1)))
    compiled = tg.jit(lambda x: net(x))
    x = values(2, 3)

    def agree():
        np.testing.assert_allclose(numbers(compiled(x)), numbers(net(x)), rtol=1e-12)

    agree()
    net[1].negative_slope = 0.5
    agree()
    net.append(nn.Linear(3, 2))
    agree()
    net[0].weight = nn.Parameter(tg.ones(3, 3))
    agree()
    net[0].bias = None
    agree()
    with tg.no_grad():
        net[2].weight.mul_(2)
    agree()
    handle = net[1].register_forward_hook(lambda module, args, output: output * 3)
    agree()
    handle.remove()
    agree()
    net[1] = nn.Identity()
    agree()
    net.load_state_dict({name: value * 2 for name, value in net.state_dict().items()})
    agree()


def test_modules_as_arguments_of_compiled_functions():
    net = filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))
    x, y = values(5, 3), values(5, 1, seed=1)
    loss = tg.jit(lambda net, x: nn.functional.mse_loss(net(x), y))
    for version in (lambda: nn.functional.mse_loss(net(x), y), lambda: loss(net, x)):
        net.zero_grad()
        version().backward()
        found = [numbers(p.grad) for p in net.parameters()]
        hidden = np.tanh(x @ numbers(net[0].weight).T + numbers(net[0].bias))
        error = 2 * (hidden @ numbers(net[2].weight).T + numbers(net[2].bias) - y) / 5
        np.testing.assert_allclose(found[2], error.T @ hidden, rtol=1e-10)
        back = error @ numbers(net[2].weight) * (1 - hidden**2)
        np.testing.assert_allclose(found[0], back.T @ x, rtol=1e-10)
