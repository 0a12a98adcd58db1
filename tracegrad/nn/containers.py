"""Modules that hold other modules or parameters."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tracegrad.errors import ArgumentError, ModuleTypeError, TracegradIndexError
from tracegrad.nn.module import Module
from tracegrad.nn.parameter import Parameter
from tracegrad.tensor import Tensor


def _position(index: Any, count: int, what: str) -> int:
    """A position, which may count from the end. Raises TracegradIndexError."""
    number = operator.index(index)
    if not -count <= number < count:
        raise TracegradIndexError(f"index {number} is out of range for a {what} of {count}")
    return number % count


class _Numbered(Module):
    """Children named "0", "1", … in order."""

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __getitem__(self, index: Any) -> Any:
        children = list(self._modules.items())
        if isinstance(index, slice):
            return self._part(children[index])
        return children[_position(index, len(children), type(self).__name__)][1]

    def _part(self, children: list[tuple[str, Module]]) -> Any:
        raise NotImplementedError

    def __setitem__(self, index: Any, module: Module) -> None:
        names = list(self._modules)
        setattr(self, names[_position(index, len(names), type(self).__name__)], module)

    def __delitem__(self, index: Any) -> None:
        kept = list(self._modules.values())
        if isinstance(index, slice):
            del kept[index]
        else:
            del kept[_position(index, len(kept), type(self).__name__)]
        self._renumber(kept)

    def _renumber(self, modules: Iterable[Module]) -> None:
        modules = list(modules)
        self._modules.clear()
        for number, module in enumerate(modules):
            self.add_module(str(number), module)

    def append(self, module: Module) -> Any:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Put a module before position `index`."""
        if not isinstance(module, Module):
            raise ModuleTypeError(f"{type(module).__name__} is not a Module subclass")
        modules = list(self)
        if not -len(modules) <= index <= len(modules):
            raise TracegradIndexError(f"index {index} is out of range for a {type(self).__name__} of {len(modules)}")
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add several modules at the end."""
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, index: int = -1) -> Module:
        """Take a module out."""
        module = self[index]
        del self[index]
        return module


class Sequential(_Numbered):
    """Modules called one after the other: Sequential(first, second, …), or over an OrderedDict of named ones."""

    def __init__(self, *args: Any):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for number, module in enumerate(args):
                self.add_module(str(number), module)

    def _part(self, children: list[tuple[str, Module]]) -> Sequential:
        return type(self)(OrderedDict(children))

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)
        chosen = names[index] if isinstance(index, slice) else [names[_position(index, len(names), "Sequential")]]
        for name in chosen:
            del self._modules[name]
        if all(name.isdecimal() for name in self._modules):
            self._renumber(self._modules.values())

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            return NotImplemented
        return Sequential(*self, *other)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list of modules; it has no forward."""

    def __init__(self, modules: Iterable[Module] | None = None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _part(self, children: list[tuple[str, Module]]) -> ModuleList:
        return type(self)(module for _, module in children)

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """Equal neighbours are printed once: (0-2): 3 x ReLU()."""
        runs: list[tuple[int, int, str]] = []
        for number, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], number, text)
            else:
                runs.append((number, number, text))
        if not runs:
            return f"{type(self).__name__}()"
        lines = [
            f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            for first, last, text in runs
        ]
        inner = "\n".join(lines).replace("\n", "\n  ")
        return f"{type(self).__name__}(\n  {inner}\n)"


class ModuleDict(Module):
    """A dict from names to modules; it has no forward."""

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add or replace modules."""
        for name, module in modules.items() if isinstance(modules, Mapping) else modules:
            self[name] = module

    def __getitem__(self, name: str) -> Module:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __delitem__(self, name: str) -> None:
        del self._modules[name]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, name: str) -> bool:
        return name in self._modules

    def keys(self) -> Iterable[str]:
        return self._modules.keys()

    def values(self) -> Iterable[Module]:
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Module]]:
        return self._modules.items()

    def pop(self, name: str) -> Module:
        """Take a module out."""
        return self._modules.pop(name)

    def clear(self) -> None:
        """Take all modules out."""
        self._modules.clear()


def _as_parameter(value: Any) -> Parameter:
    if isinstance(value, Parameter):
        return value
    if not isinstance(value, Tensor):
        raise ModuleTypeError(
            f"{type(value).__name__} is neither a Parameter nor a Tensor", fix="wrap it: nn.Parameter(value)"
        )
    return Parameter(value)


def _described(name: str, parameter: Parameter) -> str:
    sizes = "x".join(map(str, parameter.shape))
    return f"({name}): Parameter containing: [{parameter.dtype} of size {sizes}]"


class ParameterList(Module):
    """A list of parameters; Tensors put into it become parameters."""

    _parameters: dict[str, Parameter]  # type: ignore[assignment]

    def __init__(self, values: Iterable[Any] | None = None):
        super().__init__()
        if values is not None:
            self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Add a parameter at the end."""
        self.register_parameter(str(len(self)), _as_parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add several parameters at the end."""
        if isinstance(values, Tensor):
            raise ArgumentError("extend takes several parameters, not one Tensor", fix="use append")
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._parameters.values())

    def __getitem__(self, index: Any) -> Any:
        values = list(self)
        if isinstance(index, slice):
            return type(self)(values[index])
        return values[_position(index, len(values), "ParameterList")]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._parameters[str(_position(index, len(self), "ParameterList"))] = _as_parameter(value)

    def extra_repr(self) -> str:
        return "\n".join(_described(name, p) for name, p in self._parameters.items())


class ParameterDict(Module):
    """A dict from names to parameters; Tensors put into it become parameters."""

    _parameters: dict[str, Parameter]  # type: ignore[assignment]

    def __init__(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None):
        super().__init__()
        if parameters is not None:
            self.update(parameters)

    def update(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """Add or replace parameters."""
        for name, value in parameters.items() if isinstance(parameters, Mapping) else parameters:
            self[name] = value

    def __getitem__(self, name: str) -> Parameter:
        return self._parameters[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.register_parameter(name, _as_parameter(value))

    def __delitem__(self, name: str) -> None:
        del self._parameters[name]

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __contains__(self, name: str) -> bool:
        return name in self._parameters

    def keys(self) -> Iterable[str]:
        return self._parameters.keys()

    def values(self) -> Iterable[Parameter]:
        return self._parameters.values()

    def items(self) -> Iterable[tuple[str, Parameter]]:
        return self._parameters.items()

    def pop(self, name: str) -> Parameter:
        """Take a parameter out."""
        return self._parameters.pop(name)

    def clear(self) -> None:
        """Take all parameters out."""
        self._parameters.clear()

    def extra_repr(self) -> str:
        return "\n".join(_described(name, p) for name, p in self._parameters.items())
