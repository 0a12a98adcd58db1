"""The walk from a function to all that its code can read: what `trace.environment` compares before each call.

Names are taken from code objects: globals, closure cells and defaults of each function, and of each object on the way
the attributes that some code names. What Python calls without a name (`__len__`, `__iter__`) counts as named, and so
do strings that are identifiers (`getattr(x, "k")`). Of installed packages the code is not walked.
"""

from __future__ import annotations

import builtins
import contextvars
import functools
import inspect
import io
import operator
import os
import sys
import sysconfig
import threading
import types
import weakref
from collections import abc, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad.errors import is_internal
from tracegrad.tensor import Tensor
from tracegrad.trace.codes import BY_STRING, code_names, identifiers, loaded_globals, modules_named

if TYPE_CHECKING:
    from tracegrad.trace.environment import Environment

MISSING = object()
_ATOMS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, np.ufunc)
_LIBRARIES = {"tracegrad", "numpy", "scipy"}
_INSTALLED = tuple(path + os.sep for path in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
_CONTAINERS = (dict, list, tuple, set, frozenset)
_COLLECTIONS = (abc.Mapping, abc.Set, abc.Sequence, abc.ValuesView, abc.ItemsView, deque, bytearray, memoryview)
_BOUND = (types.BuiltinMethodType, type([].__len__))
_GETTERS = (operator.attrgetter, operator.itemgetter, operator.methodcaller)
_FUNCTIONS = (types.FunctionType, staticmethod, classmethod, property)
_MODULE_TABLES = (
    "_parameters", "_buffers", "_modules", "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks",
    "_backward_hooks",
)  # fmt: skip
_WHOLE_OBJECTS = {"__dict__", "vars", "asdict", "astuple", "replace", "fields", "copy", "deepcopy"}
_SETTINGS = {"geterr": np.geterr, "get_printoptions": np.get_printoptions}
_CONSTRUCTORS = ("__init__", "__new__", "__post_init__")
_NAMED_ONLY = (["tracegrad", "nn"], ["abc"], ["typing"], ["enum"])  # classes whose own code calls little of others
_UNNAMED = {"__repr__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__del__", "__init_subclass__"}


class Collector:
    """Walks from a function through everything its code names, and fills an Environment."""

    def __init__(self, environment: Environment):
        self.environment = environment
        self.names: set[str] = set()
        self.asked: set[str] = set()  # names that code asks for without relying on them
        self.seen: set[int] = set()
        self.called: set[int] = set()  # classes that code names, and so may call
        self.named: set[tuple[int, frozenset[str]]] = set()  # modules, and names that were looked up in them
        self.objects: list[Any] = []
        self.tensors: list[Tensor] = []

    def collect(self, *roots: Any, lookups: Sequence[Any] = ()) -> None:
        """Walk from the function, static arguments, and what was looked up by names that no code has."""
        for root in roots:
            self.visit(root)
        for lookup in lookups:
            if isinstance(lookup, types.FunctionType):
                self._names_of(lookup)
            elif not isinstance(lookup[0], Tensor):
                self._looked_up(*lookup)
        # Attribute names grow while functions are found, so objects are walked until nothing new turns up.
        done: set[tuple[int, str]] = set()
        progress = True
        while progress:
            progress = False
            for owner in list(self.objects):
                there = _attribute_names(owner)
                for name in sorted((self.names if _answers(owner) else self.names & there) | (self.asked - there)):
                    if (id(owner), name) not in done and (name not in _CONSTRUCTORS or id(owner) in self.called):
                        done.add((id(owner), name))
                        progress = True
                        self._attribute(owner, name)
                if not self.names.isdisjoint(_WHOLE_OBJECTS) and (id(owner), "") not in done:
                    done.add((id(owner), ""))
                    progress = self._whole(owner) or progress
        for tensor in self.tensors if "requires_grad" in self.names else ():
            self.environment.watch_attribute(tensor, "requires_grad")
        for array in self.environment.arrays.values() if "flags" in self.names else ():
            self.environment.watch_state(functools.partial(_flags, array))

    def _looked_up(self, owner: Any, name: str) -> None:
        """An attribute, or a key of a namespace, that code asked for by a name made at run time."""
        if isinstance(owner, types.ModuleType):
            owner = owner.__dict__
        if isinstance(owner, dict):
            self.environment.watch_item(owner, name)
            self.visit(owner.get(name))
            return
        if not hasattr(owner, name):
            self.asked.add(name)
        self.names.add(name)
        self.visit(owner)

    def visit(self, value: Any) -> None:
        if issubclass(type(value), type):
            self.called.update(map(id, value.__mro__))
        if id(value) in self.seen or (issubclass(type(value), _ATOMS) and not hasattr(value, "__dict__")):
            return
        self.seen.add(id(value))
        environment = self.environment
        if disguised(value):
            self.visit(object.__getattribute__(value, "__dict__") if type(value).__dictoffset__ else None)
            self._class(type(value))
        elif isinstance(value, np.ndarray):
            environment.arrays[id(value)] = value
            if hasattr(value, "__dict__"):
                self.objects.append(value)
        elif isinstance(value, Tensor):
            self.tensors.append(value)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.ModuleType):
            self.objects.append(value)
        elif isinstance(value, types.MethodType):
            self.visit(value.__func__)
            self.visit(value.__self__)
        elif isinstance(value, _BOUND):
            self.visit(value.__self__)
        elif isinstance(value, functools.partial):
            for name in ("func", "args"):
                environment.watch_attribute(value, name)
            for part in (value.func, value.args, value.keywords):
                self.visit(part)
        elif isinstance(value, (staticmethod, classmethod, property)):
            self.visit(getattr(value, "__func__", None) or getattr(value, "fget", None))
        elif isinstance(value, _CONTAINERS):
            self._container(value)
        elif library(type(value).__module__) and callable(_own(value, "__wrapped__")):
            self.visit(value.__wrapped__)  # a decorated function
        elif hasattr(type(value), "trace_structure"):  # an optimizer, which reads its numbers afresh in each call
            environment.watch_attribute(value, "trace_structure")
            for hook in value.step_hooks:
                self.visit(hook)
        elif str(type(value).__module__).startswith("numpy.random"):
            environment.generators.append(value)
        elif isinstance(value, type):
            self._class(value)
        elif not str(type(value).__module__).startswith("tracegrad.") or _own(value, "_parameters") is not None:
            self._object(value)

    def _object(self, value: Any) -> None:
        """An instance: the attributes that code names, and for what the standard library has, all it contains."""
        cls = type(value)
        if library(cls.__module__) and not cls.__module__.startswith("tracegrad.nn"):
            self._of_library(value)
            return
        self.objects.append(value)
        if id(cls) not in self.seen:
            self._class(cls)
        if not isinstance(value, Exception) and hasattr(value, "__dict__"):
            self.environment.watch_attribute(value, "__class__")
        self.names.add("forward" if hasattr(cls, "forward") else "__call__")
        if _own(value, "_parameters") is not None:
            self._nn_module(value)

    def _of_library(self, value: Any) -> None:
        environment = self.environment
        if isinstance(value, os._Environ):
            self._container(value._data)
        elif isinstance(value, _COLLECTIONS) and _standard(type(value).__module__) and not isinstance(value, range):
            self._container(value)
        elif isinstance(value, _GETTERS):
            arguments: Any = value.__reduce__()[1]
            self.names.update(part for a in arguments if isinstance(a, str) for part in a.split("."))
        elif isinstance(value, weakref.ref):
            environment.watch_state(value)
            self.visit(value())
        elif isinstance(value, contextvars.ContextVar):
            environment.watch_state(functools.partial(value.get, None))
            self.visit(value.get(None))
        elif isinstance(value, (io.StringIO, io.BytesIO)):
            environment.watch_state(value.getvalue)
        elif type(type(value)).__name__ == "PyCSimpleType":  # a number of ctypes
            environment.watch_attribute(value, "value")
        elif hasattr(value, "__dict__"):
            self.objects.append(value)

    def _class(self, cls: type) -> None:
        """A class and those it inherits from: attributes that code names, and functions that are called unnamed."""
        calls = False  # whether a library's code may call what the class overrides
        for each in cls.__mro__[:-1]:
            if library(each.__module__):
                calls = calls or each.__module__.split(".")[:2] not in _NAMED_ONLY
                continue
            if each is not cls and id(each) in self.seen:
                continue
            self.seen.add(id(each))
            self.objects.append(each)
            called = (n for n, v in each.__dict__.items() if isinstance(v, _FUNCTIONS) and n[:2] == "__")
            self.names.update(set(called) - _UNNAMED)
        if calls:
            self.names.update(n for n, v in cls.__dict__.items() if isinstance(v, _FUNCTIONS))
        if type(cls) is not type and not library(type(cls).__module__):
            self.visit(type(cls))

    def _function(self, function: types.FunctionType) -> None:
        for value in vars(function).values():
            if isinstance(value, types.MappingProxyType):  # the registry of functools.singledispatch
                self._container(value)
        if is_internal(function.__code__) or library(function.__module__):
            wrapped = getattr(function, "__wrapped__", None)
            if wrapped is not None:
                self.visit(wrapped)
            return
        environment, code = self.environment, function.__code__
        environment.watch_attribute(function, "__code__")
        if code in environment.running:
            return
        environment.codes.append(code)
        for name in ("__defaults__", "__kwdefaults__"):
            value = getattr(function, name)
            if value:
                environment.watch_attribute(function, name)
                self.visit(value)
        for cell in function.__closure__ or ():
            environment.watch_cell(cell)
            self.visit(cell_value(cell))
        if vars(function).keys() - {"__wrapped__"}:
            self.objects.append(function)
        self._names_of(function)

    def _names_of(self, function: types.FunctionType) -> None:
        """What the code of a function names."""
        code = function.__code__
        names, strings = set(code_names(code)), set(identifiers(code))
        self.names |= names | strings
        if not names.isdisjoint({"hasattr", "getattr"}):
            self.asked |= strings
        if "AttributeError" in names:
            self.asked |= names
        for name in names & _SETTINGS.keys():
            self.environment.watch_state(_as_text(_SETTINGS[name]))
        scope: Any = function.__globals__
        for name in sorted(loaded_globals(code) | (strings if names & BY_STRING else set())):
            found: Any = scope
            if name not in scope and name in vars(builtins):
                self.environment.watch_item(scope, name)
                found = vars(builtins)
            if name in found or "NameError" in names:
                self.environment.watch_item(found, name)
            value = found.get(name)
            if not issubclass(type(value), types.ModuleType):
                self.visit(value)
                continue
            self._module(value, frozenset(names | strings if "getattr" in names else names))
            if not library(value.__name__):
                self.visit(value)
        for name in sorted(modules_named(code, names, scope.get("__package__"))):
            self.environment.watch_item(sys.modules, name)
            self._module(sys.modules[name], frozenset(names))

    def _module(self, module: types.ModuleType, names: frozenset[str]) -> None:
        """The attributes of a module that some code names, and those of modules among them."""
        if (id(module), names) in self.named:
            return
        self.named.add((id(module), names))
        for name in sorted(names & module.__dict__.keys()):
            self._of_module(module, name)
            if issubclass(type(module.__dict__[name]), types.ModuleType):
                self._module(module.__dict__[name], names)
        if module is os and "getenv" in names:
            self.visit(os.environ)

    def _of_module(self, module: types.ModuleType, name: str) -> None:
        """An attribute of a module; what those of libraries contain is not looked at."""
        value = module.__dict__[name]
        self.environment.watch_item(module.__dict__, name)
        if not library(module.__name__) or value is os.environ:
            self.visit(value)

    def _nn_module(self, module: Any) -> None:
        """What it holds, and where code of ours runs it, which is not walked, its settings."""
        ours = any(c.__module__.startswith("tracegrad.nn.") for c in type(module).__mro__ if c.__name__ != "Module")
        if ours:
            self._container(module.__dict__)
        for name in () if ours else _MODULE_TABLES:
            self._attribute(module, name)

    def _container(self, value: Any) -> None:
        if not isinstance(value, tuple):
            self.environment.watch_container(value)
        for item in (*value.keys(), *value.values()) if isinstance(value, abc.Mapping) else value:
            self.visit(item)
        if type(value) not in _CONTAINERS and (hasattr(value, "__dict__") or not library(type(value).__module__)):
            self.objects.append(value)
            if id(type(value)) not in self.seen:
                self._class(type(value))

    def _whole(self, owner: Any) -> bool:
        """Watch all attributes of an object, whose code lists them."""
        namespace = getattr(owner, "__dict__", None)
        if not isinstance(namespace, dict) or isinstance(owner, (types.ModuleType, types.FunctionType)):
            return False
        self.visit(namespace)
        return True

    def _attribute(self, owner: Any, name: str) -> None:
        environment = self.environment
        if isinstance(owner, types.ModuleType) and name in owner.__dict__:
            self._of_module(owner, name)
            return
        namespace = getattr(owner, "__dict__", None)
        found = isinstance(namespace, dict) and name in namespace
        if found and not isinstance(owner, threading.local):
            environment.watch_item(namespace, name)
            self.visit(namespace[name])
            return
        if not isinstance(owner, (type, threading.local)) and not _is_slot(owner, name):
            if isinstance(namespace, dict):  # on the class, which is walked itself; the instance may get its own
                environment.watch_item(namespace, name)
            if library(type(owner).__module__):
                self._property(owner, name)
            return
        value = getattr(owner, name, MISSING)
        if value is MISSING and name not in self.asked and not _answers(owner):
            return  # what a descriptor does on the class itself, as in enum
        environment._attributes.append((owner, name, value))
        self.visit(value)
        if isinstance(owner, type):
            self.visit(inspect.getattr_static(owner, name, None))

    def _property(self, owner: Any, name: str) -> None:
        """What a property of a library's object gives, if it gives the same each time."""
        if not isinstance(getattr(type(owner), name, None), property):
            return
        value = getattr(owner, name, None)
        if value is getattr(owner, name, None):
            self.environment.watch_attribute(owner, name)
            self.visit(value)


def disguised(value: Any) -> bool:
    """Whether a user's `__getattribute__` answers for all attributes, so that nothing must be asked of the object."""
    return type(type(value).__getattribute__) is types.FunctionType


def _answers(owner: Any) -> bool:
    """Whether a user's `__getattr__` answers for what an object or its class may get of its own later."""
    found = inspect.getattr_static(owner if isinstance(owner, type) else type(owner), "__getattr__", None)
    return isinstance(found, types.FunctionType) and not library(found.__module__)


def _own(value: Any, name: str) -> Any:
    """What the instance itself has under a name; a `__getattr__` of the user's is not asked."""
    namespace = getattr(value, "__dict__", None)
    return namespace.get(name) if isinstance(namespace, dict) else None


def cell_value(cell: Any) -> Any:
    """What is in a cell of a closure; MISSING if nothing is."""
    try:
        return cell.cell_contents
    except ValueError:  # an empty cell
        return MISSING


def _as_text(read: Callable[[], Any]) -> Callable[[], str]:
    def text() -> str:
        return str(read())

    return text


def _is_slot(owner: Any, name: str) -> bool:
    return isinstance(getattr(type(owner), name, None), (types.MemberDescriptorType, types.GetSetDescriptorType))


def _flags(array: np.ndarray) -> int:
    return array.flags.num


def _attribute_names(owner: Any) -> set[str]:
    names: set[str] = set()
    if isinstance(owner, type):
        for cls in owner.__mro__[:-1]:
            if not library(cls.__module__):
                names.update(cls.__dict__)
        return names - {"__dict__", "__weakref__"}
    names.update(getattr(owner, "__dict__", ()))
    for cls in () if isinstance(owner, (types.ModuleType, types.FunctionType)) else type(owner).__mro__[:-1]:
        if not library(cls.__module__):
            names.update(n for n in cls.__dict__ if n[:2] != "__")
        elif library(type(owner).__module__):
            names.update(n for n, v in cls.__dict__.items() if isinstance(v, property))
    return names


@functools.cache
def library(module: Any) -> bool:
    """Modules whose contents do not change under a program: the standard library's, installed packages', our own."""
    name = module or "builtins"
    if not isinstance(name, str):  # classes of Cython's
        return True
    if name.split(".")[0] in _LIBRARIES or _standard(name):
        return True
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    return file.startswith(_INSTALLED)


def _standard(module: str) -> bool:
    """Modules that come with Python."""
    top = module.split(".")[0]
    return top in sys.stdlib_module_names and top != "__main__"
