"""What all optimizers share: groups, state, what a compiled step notices, errors."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import OptimizerTypeError, OptimizerValueError, UnsupportedError

ALL = ["SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta"]


def parameter(*values: float) -> tg.Tensor:
    return tg.tensor(values, requires_grad=True)


def test_groups_have_their_own_numbers():
    a, b = parameter(1.0, 2.0), parameter(3.0)
    optimizer = tg.optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
    (a.sum() + b.sum()).backward()
    optimizer.step()
    np.testing.assert_allclose(a.detach(), [0.9, 1.9])
    assert b.item() == 2.5
    c = parameter(1.0)
    optimizer.add_param_group({"params": [c], "lr": 1.0})
    c.sum().backward()
    optimizer.step()
    assert c.item() == 0.0


def test_parameters_without_gradient_stay():
    a, b = parameter(1.0), parameter(1.0)
    optimizer = tg.optim.Adam([a, b], lr=0.1)
    a.sum().backward()
    optimizer.step()
    assert b.item() == 1.0 and a.item() != 1.0 and list(optimizer.state) == [a]


def test_zero_grad():
    a = parameter(1.0, 2.0)
    optimizer = tg.optim.SGD([a], lr=0.1)
    a.sum().backward()
    gradient = a.grad
    optimizer.zero_grad(set_to_none=False)
    assert a.grad is gradient and a.grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert a.grad is None


def test_closure_returns_the_loss_and_records_gradients():
    a = parameter(3.0)
    optimizer = tg.optim.SGD([a], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (a * a).sum()
        loss.backward()
        return loss

    with tg.no_grad():
        assert optimizer.step(closure).item() == 9.0
    np.testing.assert_allclose(a.item(), 3.0 - 0.6)


def test_a_step_modifies_in_place_and_counts_versions():
    a = parameter(1.0)
    before, memory = a._version, a._array
    a.sum().backward()
    tg.optim.SGD([a], lr=0.1).step()
    assert a._version == before + 1 and a._array is memory and a.is_leaf and a.requires_grad


@pytest.mark.parametrize("name", ALL)
def test_state_dict_goes_on_where_it_was(name: str):
    def trained(steps: int, optimizer, p) -> list:
        for _ in range(steps):
            optimizer.zero_grad()
            (p**2 * p.detach()).sum().backward()
            optimizer.step()
        return p.tolist()

    options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
    p = parameter(1.0, 2.0)
    optimizer = getattr(tg.optim, name)([p], lr=0.01, **options)
    trained(3, optimizer, p)
    saved = optimizer.state_dict()
    assert set(saved) == {"state", "param_groups"} and saved["param_groups"][0]["params"] == [0]
    q = p.detach().clone().requires_grad_()
    other = getattr(tg.optim, name)([q], lr=0.5)
    other.load_state_dict(saved)
    assert other.param_groups[0]["lr"] == 0.01
    assert trained(3, other, q) == trained(3, optimizer, p)


def test_torch_names_of_the_state():
    p = parameter(1.0)
    p.sum().backward()
    expected = {
        "SGD": {"momentum_buffer"}, "Adam": {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
        "RMSprop": {"step", "square_avg", "momentum_buffer", "grad_avg"}, "Adagrad": {"step", "sum"},
    }  # fmt: skip
    options = {
        "SGD": {"momentum": 0.9}, "Adam": {"amsgrad": True}, "RMSprop": {"momentum": 0.9, "centered": True},
        "Adagrad": {},
    }  # fmt: skip
    for name, keys in expected.items():
        optimizer = getattr(tg.optim, name)([p], lr=0.1, **options[name])
        optimizer.step()
        assert set(optimizer.state_dict()["state"][0]) == keys


def test_decoupled_weight_decay_of_a_group():
    """AdamW is Adam with that option, which a group may have of its own."""
    a, b, c = parameter(2.0), parameter(2.0), parameter(2.0)
    options = {"lr": 0.1, "weight_decay": 0.5}
    whole = tg.optim.Adam([{"params": a, "decoupled_weight_decay": True}, {"params": b}], **options)
    other = tg.optim.AdamW([c], **options)
    (a + b + c).sum().backward()
    whole.step(), other.step()
    np.testing.assert_allclose([a.item(), b.item(), c.item()], [2 * 0.95 - 0.1, 1.9, 2 * 0.95 - 0.1], rtol=1e-7)


def test_repr():
    text = repr(tg.optim.SGD([parameter(1.0)], lr=0.1, momentum=0.9))
    assert text.splitlines() == [
        "SGD (", "Parameter Group 0", "    dampening: 0", "    lr: 0.1", "    maximize: False", "    momentum: 0.9",
        "    nesterov: False", "    weight_decay: 0", ")",
    ]  # fmt: skip


def test_named_parameters():
    a, b = parameter(1.0, 2.0), parameter(3.0)
    optimizer = tg.optim.SGD([("a", a), ("b", b)], lr=0.1)
    (a.sum() + b.sum()).backward()
    optimizer.step()
    assert a.tolist() == [0.9, 1.9]
    saved = optimizer.state_dict()
    assert saved["param_groups"][0]["param_names"] == ["a", "b"] and saved["param_groups"][0]["params"] == [0, 1]
    unnamed = tg.optim.SGD([a, b], lr=0.5).state_dict()
    optimizer.load_state_dict(unnamed)
    assert optimizer.param_groups[0]["param_names"] == ["a", "b"] and optimizer.param_groups[0]["lr"] == 0.5
    with pytest.raises(OptimizerValueError, match="names are missing"):
        tg.optim.SGD([("a", a), b], lr=0.1)
    with pytest.raises(OptimizerValueError, match="with names, or all without"):
        optimizer.add_param_group({"params": [parameter(1.0)]})
    layer = tg.nn.Linear(2, 1)
    assert tg.optim.Adam(layer.named_parameters()).param_groups[0]["param_names"] == ["weight", "bias"]


class Halving(tg.optim.SGD):
    def step(self, closure=None, factor=1.0):
        super().step(closure)
        with tg.no_grad():
            self.param_groups[0]["params"][0].mul_(factor / 2)


@pytest.mark.parametrize("wrap", [lambda f: f, tg.jit])
def test_step_hooks(wrap):
    log, p = [], parameter(4.0)
    optimizer = Halving([p], lr=1.0)
    p.sum().backward()

    def before(o, args, kwargs):
        log.append(("before", o is optimizer, args[0] is optimizer, args[1:], kwargs))
        return args, {"factor": 0.5}

    first = optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(lambda o, args, kwargs: o.param_groups[0]["params"][0].data.add_(10.0))
    optimizer.register_step_post_hook(lambda o, args, kwargs: log.append(("after", args[1:], kwargs)))
    step = wrap(lambda: optimizer.step())
    step()
    assert log == [("before", True, True, (), {}), ("after", (), {"factor": 0.5})]
    assert p.tolist() == [10.75]  # (4 - 1) * 0.5 / 2 + 10
    first.remove()
    step()
    assert p.tolist() == [14.875] and log[2:] == [("after", (), {})]  # (10.75 - 1) / 2 + 10
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(OptimizerTypeError, match="pre-hook must return"):
        step()
    assert p.tolist() == [14.875]


# ---- inside compiled functions ---------------------------------------------------------------------------------------


def compiled_step(p, optimizer):
    @tg.jit
    def step():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        optimizer.step()
        return loss

    return step


def test_a_changed_learning_rate_does_not_compile_again():
    p, q = parameter(1.0, -2.0), parameter(1.0, -2.0)
    ours, eager = tg.optim.Adam([p], lr=0.1), tg.optim.Adam([q], lr=0.1)
    step = compiled_step(p, ours)
    for i in range(6):
        step()
        eager.zero_grad()
        (q * q).sum().backward()
        eager.step()
        for optimizer in (ours, eager):
            optimizer.param_groups[0]["lr"] *= 0.5
            optimizer.param_groups[0]["betas"] = (0.9 - 0.05 * i, 0.999)
        np.testing.assert_allclose(p.detach(), q.detach(), rtol=1e-13)
    assert "1 programs" in repr(step)


def test_what_changes_the_rule_compiles_again():
    p, q = parameter(1.0, -2.0), parameter(1.0, -2.0)
    ours, eager = tg.optim.SGD([p], lr=0.1), tg.optim.SGD([q], lr=0.1)
    step = compiled_step(p, ours)
    for change in ({}, {"weight_decay": 0.1}, {"momentum": 0.9}, {"nesterov": True}, {"maximize": True}):
        for optimizer in (ours, eager):
            optimizer.param_groups[0].update(change)
        step()
        eager.zero_grad()
        (q * q).sum().backward()
        eager.step()
        np.testing.assert_allclose(p.detach(), q.detach(), rtol=1e-13)


def test_a_loaded_state_takes_the_place_of_the_compiled_one():
    p = parameter(1.0, -2.0)
    optimizer = tg.optim.SGD([p], lr=0.1, momentum=0.9)
    step = compiled_step(p, optimizer)
    for _ in range(3):
        step()
    saved = {**optimizer.state_dict(), "state": {0: {"momentum_buffer": tg.tensor([5.0, 7.0])}}}
    optimizer.load_state_dict(saved)
    before = p.detach().numpy().copy()
    step()
    np.testing.assert_allclose(p.detach(), before - 0.1 * (0.9 * np.array([5.0, 7.0]) + 2 * before), rtol=1e-14)


def test_state_made_while_tracing_is_eager():
    p = parameter(1.0)
    optimizer = tg.optim.Adam([p], lr=0.1)
    compiled_step(p, optimizer)()
    assert not any(value.is_traced for value in optimizer.state[p].values())
    assert optimizer.state[p]["step"].item() == 1.0


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_errors():
    p = parameter(1.0)
    with pytest.raises(OptimizerValueError, match="empty parameter list"):
        tg.optim.SGD([], lr=0.1)
    with pytest.raises(OptimizerTypeError, match="iterable of Tensors or dicts"):
        tg.optim.SGD(p, lr=0.1)
    with pytest.raises(OptimizerTypeError, match="can only optimize Tensors, but one of the params is ndarray"):
        tg.optim.SGD([np.ones(2)], lr=0.1)
    with pytest.raises(OptimizerValueError, match="non-leaf"):
        tg.optim.SGD([p * 2], lr=0.1)
    with pytest.raises(OptimizerValueError, match="duplicate parameters"):
        tg.optim.SGD([p, p], lr=0.1)
    with pytest.raises(OptimizerValueError, match="more than one parameter group"):
        tg.optim.SGD([{"params": [p]}, {"params": [p]}], lr=0.1)
    with pytest.raises(OptimizerTypeError, match="a set has no order"):
        tg.optim.SGD([{"params": {p}}], lr=0.1)
    with pytest.raises(OptimizerValueError, match="learning rate: -1"):
        tg.optim.SGD([p], lr=-1)
    with pytest.raises(OptimizerValueError, match="learning rate: nan"):
        tg.optim.Adam([p], lr=float("nan"))
    with pytest.raises(OptimizerTypeError, match="lr is a number, not str"):
        tg.optim.Adam([p], lr="0.1")
    with pytest.raises(OptimizerValueError, match="beta parameter at index 1"):
        tg.optim.Adam([p], betas=(0.9, 1.5))
    with pytest.raises(OptimizerValueError, match="Nesterov momentum requires"):
        tg.optim.SGD([p], lr=0.1, nesterov=True)
    with pytest.raises(OptimizerTypeError, match="dtype complex128"):
        tg.optim.Adam([tg.tensor(1j, requires_grad=True)])
    optimizer = tg.optim.SGD([p], lr=0.1)
    with pytest.raises(OptimizerValueError, match="2 parameter groups, this optimizer has 1"):
        optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0]}, {"params": [1]}]})
    with pytest.raises(OptimizerValueError, match="doesn't match the size"):
        optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]})
    with pytest.raises(OptimizerValueError, match="has shape"):
        optimizer.load_state_dict({"state": {0: {"momentum_buffer": np.ones(3)}}, "param_groups": [{"params": [0]}]})


# ---- LBFGS -----------------------------------------------------------------------------------------------------------


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@pytest.mark.parametrize("size", [2, 10])
def test_lbfgs_finds_the_minimum_of_rosenbrocks_function(size: int):
    x = tg.tensor(np.full(size, -0.5), requires_grad=True)
    options = {"max_iter": 200, "tolerance_grad": 1e-10, "tolerance_change": 1e-14}
    optimizer = tg.optim.LBFGS([x], line_search_fn="strong_wolfe", **options)

    def closure():
        optimizer.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        return loss

    first = optimizer.step(closure)
    assert first.item() == rosenbrock(np.full(size, -0.5))
    np.testing.assert_allclose(x.detach(), np.ones(size), atol=1e-7)
    assert optimizer.state[x]["func_evals"] < 250


def test_lbfgs_on_a_quadratic_without_line_search():
    """After as many independent directions as there are dimensions the estimate is the exact inverse Hessian."""
    A = np.diag([1.0, 2.0, 5.0]) + 0.1
    x = tg.tensor([1.0, -1.0, 2.0], requires_grad=True)
    optimizer = tg.optim.LBFGS([x], lr=1.0, max_iter=60, tolerance_change=1e-15)

    def closure():
        optimizer.zero_grad()
        loss = 0.5 * x @ tg.tensor(A) @ x - x.sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(x.detach(), np.linalg.solve(A, np.ones(3)), atol=1e-6)


def test_lbfgs_without_line_search_evaluates_once_per_iteration():
    """The point after the last one is evaluated by the next step, so two short steps are one long one."""

    def run(*lengths: int):
        x, calls = tg.tensor([1.0, -1.0], requires_grad=True), []
        optimizer = tg.optim.LBFGS([x], lr=0.5)

        def closure():
            calls.append(1)
            optimizer.zero_grad()
            loss = ((x - 3) ** 4).sum() + x.prod()
            loss.backward()
            return loss

        for length in lengths:
            optimizer.param_groups[0]["max_iter"] = length
            optimizer.step(closure)
        return x.tolist(), len(calls)

    assert run(3, 4) == run(7)
    assert run(7)[1] == 7


def test_lbfgs_cannot_be_compiled():
    x = parameter(1.0)
    optimizer = tg.optim.LBFGS([x])
    with pytest.raises(UnsupportedError, match="decides by values"):
        tg.jit(lambda: optimizer.step(lambda: (x * x).sum()))()
    with pytest.raises(OptimizerTypeError, match="needs a closure"):
        optimizer.step()
    with pytest.raises(OptimizerValueError, match="line search"):
        tg.optim.LBFGS([x], line_search_fn="backtracking")
