"""The state_dict of a module: collecting it, and loading one, with the hooks on either."""

from __future__ import annotations

import itertools
from collections import OrderedDict, namedtuple
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad.autograd.hooks import HookTable, RemovableHandle
from tracegrad.errors import ModuleStateError, ModuleTypeError
from tracegrad.nn.parameter import Parameter
from tracegrad.state import setting
from tracegrad.tensor import Tensor

if TYPE_CHECKING:
    from tracegrad.nn.module import Module

EXTRA = "_extra_state"


class IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict returns."""

    __slots__ = ()

    def __repr__(self) -> str:
        return super().__repr__() if self.missing_keys or self.unexpected_keys else "<All keys matched successfully>"

    __str__ = __repr__


class StateHooks:
    """What a module has to take part in its state_dict: hooks, and state that is no Tensor."""

    _state_hooks: dict[str, HookTable]

    def get_extra_state(self) -> Any:
        """Override it, and set_extra_state, for what else belongs into the state_dict."""
        raise NotImplementedError(f"{type(self).__name__} has no get_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """What load_state_dict calls with what get_extra_state had returned."""
        raise NotImplementedError(f"{type(self).__name__} has no set_extra_state")

    def _add_state_hook(self, kind: str, hook: Any) -> RemovableHandle:
        return RemovableHandle(self._state_hooks.setdefault(kind, HookTable()), hook)

    def register_state_dict_pre_hook(self, hook: Any) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` before state_dict collects."""
        return self._add_state_hook("state_pre", hook)

    def register_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata)` after it; it may modify the state_dict."""
        return self._add_state_hook("state_post", hook)

    def register_load_state_dict_pre_hook(self, hook: Any) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors)` before loading."""
        return self._add_state_hook("load_pre", hook)

    def register_load_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """`hook(module, incompatible_keys)` after loading; it may modify those lists."""
        return self._add_state_hook("load_post", hook)


def hooks_of(module: Module, kind: str) -> list[Any]:
    """The hooks of that kind on a module, in order."""
    return list(module._state_hooks.get(kind, {}).values())


def _entries(module: Module, prefix: str) -> Iterator[tuple[str, str, Tensor]]:
    """Key, name and value of the module's own parameters and persistent buffers."""
    for name, value in itertools.chain(module._parameters.items(), module._buffers.items()):
        if value is not None and name not in module._non_persistent:
            yield prefix + name, name, value


def _children(module: Module, prefix: str) -> Iterator[tuple[Module, str]]:
    return ((child, f"{prefix}{name}.") for name, child in module._modules.items() if child is not None)


def _has_extra_state(module: Module, method: str) -> bool:
    return getattr(type(module), method) is not getattr(StateHooks, method)


def collect_state(module: Module, found: OrderedDict[str, Any], prefix: str, keep_vars: bool) -> OrderedDict[str, Any]:
    """Add what the module and those below have to `found`."""
    for hook in hooks_of(module, "state_pre"):
        hook(module, prefix, keep_vars)
    for key, _, value in _entries(module, prefix):
        found[key] = value if keep_vars else value.detach()
    if _has_extra_state(module, "get_extra_state"):
        found[prefix + EXTRA] = module.get_extra_state()
    for child, path in _children(module, prefix):
        collect_state(child, found, path, keep_vars)
    for hook in hooks_of(module, "state_post"):
        hook(module, found, prefix, {})
    return found


class _Loading:
    """One run of load_state_dict."""

    def __init__(self, state: Mapping[str, Any], strict: bool, assign: bool):
        self.state, self.strict, self.assign = OrderedDict(state), strict, assign
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.faults: list[str] = []
        self.expected: set[str] = set()

    def load(self, module: Module, prefix: str) -> None:
        """The module's own entries, then those below."""
        for hook in hooks_of(module, "load_pre"):
            hook(module, self.state, prefix, {}, self.strict, self.missing, self.unexpected, self.faults)
        for key, name, target in list(_entries(module, prefix)):
            self.expected.add(key)
            if key in self.state:
                self._load_one(module, key, name, target)
            else:
                self.missing.append(key)
        if _has_extra_state(module, "set_extra_state"):
            self.expected.add(prefix + EXTRA)
            if prefix + EXTRA in self.state:
                module.set_extra_state(self.state[prefix + EXTRA])
            else:
                self.missing.append(prefix + EXTRA)
        for child, path in _children(module, prefix):
            self.load(child, path)

    def _load_one(self, module: Module, key: str, name: str, target: Tensor) -> None:
        value = self.state[key]
        array = value._value() if isinstance(value, Tensor) else np.asarray(value)
        if array.shape != target.shape:
            self.faults.append(
                f"size mismatch for {key}: copying a param with shape {tuple(array.shape)} from checkpoint, "
                f"the shape in current model is {tuple(target.shape)}."
            )
        elif not self.assign:
            target.copy_(array)
        elif isinstance(target, Parameter):
            given = value if isinstance(value, Parameter) else Parameter(value, requires_grad=target.requires_grad)
            setattr(module, name, given)
        else:
            setattr(module, name, value if isinstance(value, Tensor) else Tensor._wrap(array))

    def finish(self, module: Module) -> IncompatibleKeys:
        """Run the hooks after loading, the innermost modules' first, and raise what went wrong."""
        self.unexpected += [k for k in self.state if k not in self.expected]
        keys = IncompatibleKeys(self.missing, self.unexpected)
        self._run_post_hooks(module, keys)
        faults = self.faults
        if self.strict and self.unexpected:
            faults.insert(0, "Unexpected key(s) in state_dict: " + _quoted(self.unexpected) + ". ")
        if self.strict and self.missing:
            faults.insert(0, "Missing key(s) in state_dict: " + _quoted(self.missing) + ". ")
        if faults:
            raise ModuleStateError(
                f"Error(s) in loading state_dict for {type(module).__name__}:\n\t" + "\n\t".join(faults)
            )
        return keys

    def _run_post_hooks(self, module: Module, keys: IncompatibleKeys) -> None:
        for child, _ in _children(module, ""):
            self._run_post_hooks(child, keys)
        for hook in hooks_of(module, "load_post"):
            hook(module, keys)


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{k}"' for k in keys)


def load_state(module: Module, state: Any, strict: bool, assign: bool) -> IncompatibleKeys:
    """What `load_state_dict` does."""
    if not isinstance(state, Mapping):
        raise ModuleTypeError(f"Expected state_dict to be dict-like, got {type(state).__name__}")
    run = _Loading(state, strict, assign)
    with setting(grad_enabled=False):
        run.load(module, "")
    return run.finish(module)
