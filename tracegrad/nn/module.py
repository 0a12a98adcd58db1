"""Module: the base class of everything with parameters, with PyTorch's names, order and checks."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tracegrad.autograd.hooks import HookTable, RemovableHandle
from tracegrad.errors import ModuleAttributeError, ModuleNameError, ModuleStateError, ModuleTypeError
from tracegrad.nn.calling import call_module
from tracegrad.nn.loading import IncompatibleKeys, StateHooks, collect_state, load_state
from tracegrad.nn.parameter import Parameter
from tracegrad.tensor import Tensor


class Module(StateHooks):
    """Derive from it, call `super().__init__()`, assign parameters and modules as attributes, write `forward`."""

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]

    def __init__(self) -> None:
        set_attribute = super().__setattr__
        set_attribute("training", True)
        for name in ("_parameters", "_buffers", "_modules"):
            set_attribute(name, {})
        set_attribute("_non_persistent", set())
        for name in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            set_attribute(name, HookTable())
        set_attribute("_hook_options", {})
        set_attribute("_state_hooks", {})

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function: define it in the class'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call_module(self, args, kwargs)

    # ---- attributes ------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        slots = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in slots:
                raise ModuleAttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, self._parameters)
            self.register_parameter(name, value)
        elif "_parameters" in slots and name in self._parameters:
            if value is not None:
                raise ModuleTypeError(
                    f"cannot assign {type(value).__name__!r} as parameter {name!r} (nn.Parameter or None expected)",
                    fix=f"wrap it: nn.Parameter(value); or write into it under no_grad: self.{name}.copy_(value)",
                )
            self._parameters[name] = None
        elif isinstance(value, Module):
            if "_modules" not in slots:
                raise ModuleAttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, self._modules)
            self._modules[name] = value
        elif "_modules" in slots and name in self._modules:
            if value is not None:
                raise ModuleTypeError(
                    f"cannot assign {type(value).__name__!r} as child module {name!r} (nn.Module or None expected)"
                )
            self._modules[name] = None
        elif "_buffers" in slots and name in self._buffers:
            if value is not None and not isinstance(value, Tensor):
                raise ModuleTypeError(
                    f"cannot assign {type(value).__name__!r} as buffer {name!r} (Tensor or None expected)"
                )
            self._buffers[name] = value
        else:
            super().__setattr__(name, value)

    def _forget(self, name: str, kept: dict[str, Any]) -> None:
        """Take a name out of all tables but one, where what replaces it keeps its place in the order."""
        for table in (self.__dict__, self._parameters, self._buffers, self._modules):
            if table is not kept:
                table.pop(name, None)
        self._non_persistent.discard(name)

    def __getattr__(self, name: str) -> Any:
        slots = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            if table in slots and name in slots[table]:
                return slots[table][name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """A parameter under a name; None keeps an empty slot."""
        if "_parameters" not in self.__dict__:
            raise ModuleAttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name(name, "parameter", self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise ModuleTypeError(
                f"cannot assign {type(param).__name__!r} object to parameter {name!r} (nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ModuleStateError(
                f"cannot assign non-leaf Tensor to parameter {name!r}: parameters are created explicitly",
                fix="compute the value in forward instead",
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """A Tensor that is state but no parameter; with `persistent` it is part of state_dict."""
        if "_buffers" not in self.__dict__:
            raise ModuleAttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise ModuleTypeError(
                f"cannot assign {type(tensor).__name__!r} object to buffer {name!r} (Tensor or None required)"
            )
        self._buffers[name] = tensor
        (self._non_persistent.discard if persistent else self._non_persistent.add)(name)

    def register_module(self, name: str, module: Module | None) -> None:
        """A child module under a name."""
        self.add_module(name, module)

    def add_module(self, name: str, module: Module | None) -> None:
        """A child module under a name."""
        if module is not None and not isinstance(module, Module):
            raise ModuleTypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name(name, "module", self._modules)
        self._modules[name] = module

    def _check_name(self, name: Any, what: str, table: Mapping[str, Any]) -> None:
        if not isinstance(name, str):
            raise ModuleTypeError(f"{what} name should be a string, not {type(name).__name__}")
        if "." in name:
            raise ModuleNameError(f'{what} name can\'t contain ".", got {name!r}')
        if name == "":
            raise ModuleNameError(f'{what} name can\'t be empty string ""')
        if name not in table and hasattr(self, name):
            raise ModuleNameError(f"attribute {name!r} already exists")

    # ---- what it holds ---------------------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, with their dotted names; shared ones once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and all below it."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, shared ones once."""
        seen: set[Module] = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """The modules directly below."""
        return (child for _, child in self.named_children())

    def _named_members(
        self, table: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = self.named_modules(None, prefix, remove_duplicate) if recurse else iter([(prefix, self)])
        for path, module in modules:
            for name, value in getattr(module, table).items():
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with dotted names; shared ones once unless `remove_duplicate` is False."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, shared ones once."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with dotted names, persistent or not."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, shared ones once."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path. Raises AttributeError."""
        module: Module = self
        for name in filter(None, target.split(".")):
            child = getattr(module, name, None)
            if not isinstance(child, Module):
                raise AttributeError(f"{type(module).__name__} has no submodule {name!r}")
            module = child
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path. Raises AttributeError."""
        return self._at_path(target, "_parameters", "parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path. Raises AttributeError."""
        return self._at_path(target, "_buffers", "buffer")

    def _at_path(self, target: str, table: str, what: str) -> Any:
        path, _, name = target.rpartition(".")
        found = getattr(self.get_submodule(path), table).get(name)
        if found is None:
            raise AttributeError(f"{type(self).__name__} has no {what} {target!r}")
        return found

    # ---- state -----------------------------------------------------------------------------------------------------

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> dict[str, Any]:
        """Parameters and persistent buffers by dotted name; every alias of a shared one."""
        return collect_state(self, OrderedDict(), prefix, keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy values into the parameters and buffers, which stay the same objects unless `assign` puts the given in
        their place.

        Raises ModuleStateError for wrong shapes, and with `strict` for missing or unexpected keys.
        """
        return load_state(self, state_dict, strict, assign)

    # ---- modes and conversions -------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Module:
        """Training mode, here and below; the module itself comes back."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Module:
        """Evaluation mode: train(False)."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Whether the parameters require gradients."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zero."""
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad.detach_()
                p.grad.zero_()

    def apply(self, fn: Callable[[Module], Any]) -> Module:
        """Call `fn` on every module, children first; the module itself comes back."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def _apply(self, change: Callable[[np.ndarray], np.ndarray]) -> Module:
        for tensor in itertools.chain(self.parameters(), self.buffers()):
            tensor.data = Tensor._wrap(change(tensor._value()))
            if tensor._meta is not None and tensor._meta.grad is not None:
                tensor._meta.grad = Tensor._wrap(change(tensor._meta.grad._value()))
        return self

    def to(self, *args: Any, dtype: Any = None, **ignored: Any) -> Module:
        """Floating parameters and buffers in another dtype; device names mean the CPU."""
        for arg in args:
            if isinstance(arg, Tensor):
                dtype = arg.dtype
            elif not (isinstance(arg, str) and arg.startswith("cpu")):
                dtype = arg
        if dtype is None:
            return self
        wanted = np.dtype(dtype)
        return self._apply(lambda a: a.astype(wanted) if a.dtype.kind in "fc" else a)

    def float(self) -> Module:
        return self.to(np.float32)

    def double(self) -> Module:
        return self.to(np.float64)

    def half(self) -> Module:
        return self.to(np.float16)

    # ---- hooks -----------------------------------------------------------------------------------------------------

    def _add_hook(self, table: HookTable, hook: Any, prepend: bool, **options: bool) -> RemovableHandle:
        former = dict(table) if prepend else {}
        handle = RemovableHandle(table, hook)
        for key in former:
            table[key] = table.pop(key)
        self._hook_options[handle.id] = options
        return handle

    def register_forward_pre_hook(
        self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """`hook(module, args)` before forward; what it returns replaces the arguments."""
        return self._add_hook(self._forward_pre_hooks, hook, prepend, with_kwargs=with_kwargs)

    def register_forward_hook(
        self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """`hook(module, args, output)` after forward; what it returns replaces the output.

        With `always_call` also where forward raises an exception; `output` is then None.
        """
        return self._add_hook(self._forward_hooks, hook, prepend, with_kwargs=with_kwargs, always_call=always_call)

    def register_full_backward_pre_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_output)` before the gradients of the module's inputs are computed."""
        return self._add_hook(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` once the gradients of the module's inputs are there."""
        return self._add_hook(self._backward_hooks, hook, prepend)

    # ---- printing --------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What the repr says about this module; override it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): {_indented(repr(child))}" for name, child in self._modules.items()]
        name = type(self).__name__
        if len(extra_lines) == 1 and not child_lines:
            return f"{name}({extra_lines[0]})"
        lines = extra_lines + child_lines
        return f"{name}(" + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")
