"""Optimizer: parameter groups, state, and a step that runs eagerly or inside a compiled function alike.

A step reads `p.grad` and modifies parameters and state in place with ordinary operations. State consists of eager
Tensors, which a trace captures; numbers such as the learning rate are read afresh in each call of a compiled function.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from tracegrad.autograd.hooks import HookTable, RemovableHandle
from tracegrad.errors import OptimizerTypeError, OptimizerValueError
from tracegrad.ops.casting import astype
from tracegrad.optim.step_hooks import with_hooks
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor

Group = dict[str, Any]
# One parameter with its gradient, already negated for `maximize`, and its state.
Item = tuple[Tensor, Any, dict[str, Any]]


class Optimizer:
    """Base class. A subclass passes its `defaults` and implements `_update(group, items)`.

    params: an iterable of leaf Tensors, of (name, Tensor) pairs as `module.named_parameters()` gives, or of dicts with
    "params" and hyper-parameters of that group. Names are kept in the groups, as "param_names".
    Raises OptimizerTypeError or OptimizerValueError for what cannot be optimised.
    """

    handles_complex: ClassVar[bool] = False
    # Numbers whose being zero decides what is computed, so that a compiled step depends on it.
    switches: ClassVar[tuple[str, ...]] = ("weight_decay", "momentum", "dampening", "lr_decay")

    in_step = False  # so that a step that calls that of its base class runs the hooks once

    def __init__(self, params: Any, defaults: Mapping[str, Any]):
        self.defaults = dict(defaults)
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self.has_stepped = False
        self._generation = 0  # rises when parameters or Tensors of the state are added or replaced
        self.step_pre_hooks, self.step_post_hooks = HookTable(), HookTable()
        if isinstance(params, (Tensor, np.ndarray)):
            raise OptimizerTypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got one {type(params).__name__}",
                fix="pass a list: [w, b], or model.parameters()",
            )
        groups = list(params)
        if not groups:
            raise OptimizerValueError(
                "optimizer got an empty parameter list",
                fix="pass model.parameters() of a model that has some; a generator can be used up only once",
            )
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    # ---- groups ----------------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: Group) -> None:
        """Another group: a dict with "params" and the hyper-parameters that differ from the defaults."""
        if not isinstance(param_group, dict):
            raise OptimizerTypeError(f"param_group must be a dict, but got {type(param_group).__name__}")
        if "params" not in param_group:
            raise OptimizerValueError('a parameter group needs an entry "params"')
        params = param_group["params"]
        if isinstance(params, (set, frozenset)):
            raise OptimizerTypeError(
                "optimizer parameters need to be organized in ordered collections, but a set has no order",
                fix="pass a list",
            )
        group = {**param_group, **with_names([params] if isinstance(params, Tensor) else list(params))}
        for p in group["params"]:
            self._check_parameter(p)
        if any(("param_names" in group) is not ("param_names" in g) for g in self.param_groups):
            raise OptimizerValueError(
                "all optimizer param groups should be with names, or all without",
                fix="give (name, Tensor) pairs everywhere, or nowhere",
            )
        known = {id(p) for g in self.param_groups for p in g["params"]}
        ids = [id(p) for p in group["params"]]
        if len(set(ids)) < len(ids):
            raise OptimizerValueError(
                "optimizer contains a parameter group with duplicate parameters", fix="list each parameter once"
            )
        if known & set(ids):
            raise OptimizerValueError(
                "some parameters appear in more than one parameter group", fix="list each parameter in one group"
            )
        for name, value in self.defaults.items():
            group.setdefault(name, value)
        self._check_group(group)
        self.param_groups.append(group)
        self._generation += 1

    def _check_parameter(self, p: Any) -> None:
        if not isinstance(p, Tensor):
            raise OptimizerTypeError(
                f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}",
                fix="make it one: tg.tensor(array, requires_grad=True)",
            )
        if not p.is_leaf:
            raise OptimizerValueError(
                "can't optimize a non-leaf Tensor, which is computed from others",
                fix="optimize the Tensors it is computed from, or x.detach().requires_grad_()",
            )
        if p.dtype.kind not in ("fc" if self.handles_complex else "f"):
            raise OptimizerTypeError(f"{type(self).__name__} does not work on parameters of dtype {p.dtype}")

    def _check_group(self, group: Group) -> None:
        """Raise OptimizerValueError for hyper-parameters out of range; subclasses extend it."""
        require_non_negative(group, "lr", "eps", "weight_decay", "momentum", "lr_decay", "momentum_decay")
        for i, beta in enumerate(group.get("betas", ())):
            if not isinstance(beta, Tensor) and not 0.0 <= beta < 1.0:
                raise OptimizerValueError(f"Invalid beta parameter at index {i}: {beta}", fix="choose it in [0, 1)")

    # ---- stepping --------------------------------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zero."""
        for p in chain.from_iterable(g["params"] for g in self.param_groups):
            if set_to_none:  # without a look at it, on which a compiled step would depend
                p.grad = None
                continue
            gradient = p.grad
            if gradient is not None:
                gradient.detach_()
                gradient.zero_()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = with_hooks(cls.step)  # type: ignore[method-assign]

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) before each step; it may return other (args, kwargs) for the step.

        The optimizer is the first of the args. In a compiled function hooks run while it is recorded, as its code does.
        """
        return RemovableHandle(self.step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) after each step."""
        return RemovableHandle(self.step_post_hooks, hook)

    @with_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Modify every parameter that has a gradient; `closure`, if given, computes loss and gradients first."""
        self.has_stepped = True
        loss = None
        if closure is not None:
            with setting(grad_enabled=True):
                loss = closure()
        with setting(grad_enabled=False):
            for group in self.param_groups:
                items = self._items(group)
                if items:
                    self._update(group, items)
        return loss

    def _items(self, group: Group) -> list[Item]:
        items = []
        for p in group["params"]:
            gradient = p.grad
            if gradient is not None:
                items.append((p, -gradient if group.get("maximize") else gradient, self.state[p]))
        return items

    def _update(self, group: Group, items: Sequence[Item]) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no method _update(group, items)")

    def _number(self, group: Group, name: str, position: int | None = None) -> Any:
        """A hyper-parameter: the Python number, or in a trace a value that each call reads from the group again."""
        value = group[name] if position is None else group[name][position]
        trace = state.trace
        if trace is None or isinstance(value, Tensor):
            return value
        index = next(i for i, g in enumerate(self.param_groups) if g is group)

        def current() -> float:
            found = self.param_groups[index][name]
            return found if position is None else found[position]

        return trace.live_number(current)

    def _zeros(self, own: dict[str, Any], p: Tensor, *names: str, value: float = 0.0) -> tuple[Tensor, ...]:
        """The named state Tensors of a parameter, of its shape and dtype, made where they are missing."""
        return tuple(self._state(own, name, np.full(p.shape, value, p.dtype)) for name in names)

    def _step_count(self, own: dict[str, Any], start: float = 0.0) -> Tensor:
        """The number of steps as a float64 Tensor, counted up by this one."""
        count = self._state(own, "step", np.array(start))
        count.add_(1.0)
        return count

    def _state(self, own: dict[str, Any], name: str, initial: np.ndarray) -> Tensor:
        found = own.get(name)
        if found is None:
            found = own[name] = Tensor._wrap(initial)
            self._generation += 1
        return found

    @property
    def step_hooks(self) -> tuple[Any, ...]:
        """The hooks around a step, those before it and then those after it."""
        return (*self.step_pre_hooks.values(), None, *self.step_post_hooks.values())

    @property
    def trace_structure(self) -> tuple[Any, ...]:
        """What a compiled step depends on and does not read afresh: trace/environment.py compares it at each call."""
        structure: list[Any] = [self._generation, len(self.param_groups), *self.step_hooks]
        for group in self.param_groups:
            for name, value in group.items():
                if name in self.switches and isinstance(value, (int, float)):
                    structure.append(value == 0)
                elif value is None or isinstance(value, (bool, str, Tensor)):
                    structure.append(value)
        return tuple(structure)

    # ---- saving ----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """{"state": {number of a parameter: its state}, "param_groups": [...]}, parameters numbered in order."""
        numbers = {id(p): i for i, p in enumerate(chain.from_iterable(g["params"] for g in self.param_groups))}
        return {
            "state": {numbers[id(p)]: dict(own) for p, own in self.state.items() if own and id(p) in numbers},
            "param_groups": [{**g, "params": [numbers[id(p)] for p in g["params"]]} for g in self.param_groups],
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over hyper-parameters and state. Raises OptimizerValueError where the groups do not fit."""
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise OptimizerValueError(
                f"loaded state dict has {len(saved)} parameter groups, this optimizer has {len(self.param_groups)}"
            )
        for ours, theirs in zip(self.param_groups, saved, strict=True):
            if len(ours["params"]) != len(theirs["params"]):
                raise OptimizerValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group: "
                    f"{len(theirs['params'])} parameters, not {len(ours['params'])}"
                )
        by_number = {
            number: p
            for ours, theirs in zip(self.param_groups, saved, strict=True)
            for number, p in zip(theirs["params"], ours["params"], strict=True)
        }
        found = {by_number[int(k)]: self._loaded(by_number[int(k)], own) for k, own in state_dict["state"].items()}
        for ours, theirs in zip(self.param_groups, saved, strict=True):
            names = {} if "param_names" not in ours else {"param_names": ours["param_names"]}
            params = ours["params"]
            ours.clear()
            ours.update({**names, **theirs, "params": params})
        self.state = defaultdict(dict, found)
        self._generation += 1

    def _loaded(self, p: Tensor, own: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of a parameter's state; what has the parameter's shape gets its dtype."""
        out: dict[str, Any] = {}
        for name, value in own.items():
            if isinstance(value, (Tensor, np.ndarray)):
                array = np.array(value._value() if isinstance(value, Tensor) else value)
                if name not in ("step", "mu_product") and array.shape == p.shape and array.dtype.kind == "f":
                    array = array.astype(p.dtype)
                elif array.ndim and array.shape != p.shape:
                    raise OptimizerValueError(
                        f"the state {name!r} has shape {array.shape}, its parameter has shape {tuple(p.shape)}"
                    )
                value = Tensor._wrap(array)
            elif name == "step" and isinstance(value, (int, float)):
                value = Tensor._wrap(np.array(float(value)))
            out[name] = value
        return out

    def __repr__(self) -> str:
        lines = []
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return f"{type(self).__name__} (\n" + "\n".join(lines) + "\n)"


def with_names(params: list[Any]) -> Group:
    """The parameters of a group, and their names where they are given as pairs. Raises OptimizerValueError."""
    named = [isinstance(p, tuple) and len(p) == 2 for p in params]
    if not any(named):
        return {"params": params}
    if not all(named):
        raise OptimizerValueError(
            "all optimizer params should be with/without names: some names are missing",
            fix="pass model.named_parameters(), or Tensors alone",
        )
    return {"params": [p for _, p in params], "param_names": [name for name, _ in params]}


def require_non_negative(group: Mapping[str, Any], *names: str) -> None:
    """Raise OptimizerValueError where one of these hyper-parameters is negative or no number."""
    for name in names:
        value = group.get(name)
        if value is None or isinstance(value, Tensor):
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
            raise OptimizerTypeError(f"{name} is a number, not {type(value).__name__}")
        if not value >= 0:
            what = {"lr": "learning rate", "eps": "epsilon value"}.get(name, f"{name} value")
            raise OptimizerValueError(f"Invalid {what}: {value}", fix=f"choose {name} >= 0")


def scalar(value: Any, p: Tensor) -> Any:
    """A number that was computed, in the dtype of the parameter; Python numbers take part as they are."""
    return astype(value, p.dtype) if isinstance(value, Tensor) else value


def assign(x: Tensor, value: Any) -> Any:
    """Write a new value into the memory of `x`; the value comes back."""
    x.copy_(value)
    return x


def parameters_of(groups: Iterable[Group]) -> list[Tensor]:
    """All parameters of the groups, in order."""
    return list(chain.from_iterable(g["params"] for g in groups))
