"""tg.save and tg.load: nested containers of Tensors, arrays and numbers in a file, without pickle.

The file is NumPy's npz (a zip of .npy files, which np.load reads too) with one more entry, tracegrad.json, that says
how the arrays are put together. Loading runs no code from the file. A name that ends with .safetensors means that
format.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy as np

from tracegrad.errors import MissingPackageError, SaveError
from tracegrad.tensor import Tensor

_ENTRY = "tracegrad.json"
_VERSION = 1
_CONTAINERS = {"dict": dict, "OrderedDict": OrderedDict, "list": list, "tuple": tuple}
_WHAT = "Tensors, arrays, numbers, strings, bytes, None, and lists, tuples and dicts of these"


def save(obj: Any, f: Any) -> None:
    """Write `obj` to a path or a binary file: Tensors, arrays, numbers, strings, None, nested in lists, tuples, dicts.

    Tensors keep dtype, shape and requires_grad, not their history; one that stands twice is one again after loading.
    A file that is there is replaced when the new one is complete. Raises SaveError for what cannot be stored.
    """
    if _is_safetensors(f):
        _save_safetensors(obj, os.fspath(f))
        return
    writer = _Writer()
    tree = writer.node(obj, ())
    text = json.dumps({"format": "tracegrad", "version": _VERSION, "object": tree})
    with _target(f) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_ENTRY, text)
        for name, array in writer.arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def load(f: Any) -> Any:
    """What `save` wrote; of another npz file a dict of Tensors. Never unpickles. Raises SaveError."""
    if _is_safetensors(f):
        return _load_safetensors(os.fspath(f))
    try:
        with zipfile.ZipFile(f) as archive:
            return _read(archive)
    except zipfile.BadZipFile as error:
        raise SaveError(
            f"{_name_of(f)} is not a file of tg.save",
            fix="tg.load reads what tg.save, np.savez or safetensors wrote; pickled files are never read",
        ) from error


@contextlib.contextmanager
def _target(f: Any) -> Iterator[IO[bytes]]:
    """The file to write to; a path is replaced at the end, if nothing failed."""
    if hasattr(f, "write"):
        yield f
        return
    path = os.fspath(f)
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path) or ".", prefix=".tracegrad-", delete=False) as file:
        try:
            yield file
        except BaseException:
            file.close()
            os.unlink(file.name)
            raise
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(file.name, 0o666 & ~umask)
    os.replace(file.name, path)


def _name_of(f: Any) -> str:
    return repr(os.fspath(f)) if isinstance(f, (str, os.PathLike)) else "this"


# ---- writing ---------------------------------------------------------------------------------------------------------


class _Writer:
    """Turns an object into a tree for JSON and a table of arrays."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []  # alive until the end, since names go by id
        self._open: set[int] = set()

    def node(self, value: Any, path: tuple[str, ...]) -> Any:
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            return {"int": hex(value)}
        if kind is float:
            return {"float": value.hex()}
        if kind is complex:
            return {"complex": [value.real.hex(), value.imag.hex()]}
        if kind in (dict, OrderedDict, list, tuple):
            return self._container(value, path)
        if kind is bytes:
            return {"bytes": self._array(value, np.frombuffer(value, np.uint8), path)}
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        if isinstance(value, np.generic):
            return {"scalar": self._array(value, np.asarray(value), path)}
        if kind is np.ndarray:
            return {"array": self._array(value, value, path)}
        raise _cannot(f"an object of type {kind.__module__}.{kind.__qualname__}", path, _advice(value))

    def _container(self, value: Any, path: tuple[str, ...]) -> Any:
        if id(value) in self._open:
            raise _cannot("a container that contains itself", path, "break the cycle")
        self._open.add(id(value))
        if isinstance(value, dict):
            parts: Any = [[self._key(k, path), self.node(v, (*path, str(k)))] for k, v in value.items()]
        else:
            parts = [self.node(v, (*path, str(i))) for i, v in enumerate(value)]
        self._open.discard(id(value))
        return {type(value).__name__: parts}

    def _key(self, key: Any, path: tuple[str, ...]) -> Any:
        if isinstance(key, (Tensor, np.ndarray)):
            raise _cannot("a dict with Tensors or arrays as keys", path, "use their names or numbers as keys")
        return self.node(key, path)

    def _tensor(self, value: Tensor, path: tuple[str, ...]) -> Any:
        if value.is_traced:
            raise _cannot(
                "a Tensor of a traced function, which has no numbers yet", path, "return it and save it outside"
            )
        kind = type(value).__name__
        if kind not in ("Tensor", "Parameter"):
            raise _cannot(f"a Tensor of the class {kind}", path, "save x.detach()")
        return {kind: [self._array(value, value._value(), path), value.requires_grad]}

    def _array(self, owner: Any, array: np.ndarray, path: tuple[str, ...]) -> str:
        if array.dtype.hasobject:
            raise _cannot(f"an array of dtype {array.dtype}, which holds Python objects", path, "convert its dtype")
        known = self._names.get(id(owner))
        if known is not None:
            return known
        name = "/".join(path)
        if not re.fullmatch(r"[\w.\- ]+(/[\w.\- ]+)*", name) or ".." in name or name in self.arrays:
            name = f"array {len(self.arrays)}"
        self.arrays[name] = array
        self._names[id(owner)] = name
        self._kept.append(owner)
        return name


def _advice(value: Any) -> str:
    if hasattr(value, "state_dict"):
        return "save its state_dict(), and call load_state_dict on what tg.load returns"
    if isinstance(value, Mapping):
        return "convert it: dict(x)"
    if isinstance(value, tuple):
        return "convert it: tuple(x), or x._asdict()"
    return f"tg.save stores {_WHAT}"


def _cannot(what: str, path: tuple[str, ...], fix: str) -> SaveError:
    where = f" (at {' / '.join(path)})" if path else ""
    return SaveError(f"tg.save cannot store {what}{where}", fix=fix)


# ---- reading ---------------------------------------------------------------------------------------------------------


def _read(archive: zipfile.ZipFile) -> Any:
    names = archive.namelist()
    if _ENTRY not in names:
        if not names or not all(n.endswith(".npy") for n in names):
            pickled = any(n.endswith(".pkl") for n in names)
            raise SaveError(
                f"this file was not written by tg.save{', it is pickled' if pickled else ''}",
                fix="tg.load never unpickles; load it where it comes from and write the arrays with np.savez",
            )
        return {n[:-4]: Tensor._wrap(_entry(archive, n)) for n in names}
    try:
        content = json.loads(archive.read(_ENTRY))
        if content["version"] > _VERSION:
            raise SaveError(
                f"this file has version {content['version']} of the format, this tracegrad knows {_VERSION}",
                fix="load it with a newer tracegrad",
            )
        return _Reader(archive).value(content["object"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, SaveError):
            raise
        raise SaveError(f"this file of tg.save is damaged: {error}") from error


def _entry(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name) as entry:
        try:
            return np.lib.format.read_array(entry, allow_pickle=False)
        except ValueError as error:
            raise SaveError(f"the array {name!r} cannot be read: {error}") from error


class _Reader:
    """Puts the object together again."""

    def __init__(self, archive: zipfile.ZipFile):
        self.archive = archive
        self.made: dict[tuple[str, str], Any] = {}

    def value(self, node: Any) -> Any:
        if node is None or isinstance(node, (bool, str)):
            return node
        ((kind, content),) = node.items()
        match kind:
            case "int":
                return int(content, 16)
            case "float":
                return float.fromhex(content)
            case "complex":
                return complex(*map(float.fromhex, content))
            case "dict" | "OrderedDict":
                return _CONTAINERS[kind]((self.value(k), self.value(v)) for k, v in content)
            case "list" | "tuple":
                return _CONTAINERS[kind](map(self.value, content))
            case "bytes":
                return _entry(self.archive, f"{content}.npy").tobytes()
            case "scalar":
                return _entry(self.archive, f"{content}.npy")[()]
            case "array":
                return self._shared(kind, content)
            case "Tensor" | "Parameter":
                name, requires_grad = content
                out = self._shared(kind, name)
                out.requires_grad = requires_grad
                return out
        raise SaveError(f"this file of tg.save is damaged: it holds a {kind!r}")

    def _shared(self, kind: str, name: str) -> Any:
        found = self.made.get((kind, name))
        if found is None:
            array = _entry(self.archive, f"{name}.npy")
            found = self.made[kind, name] = array if kind == "array" else _as_tensor(array, kind)
        return found


def _as_tensor(array: np.ndarray, kind: str) -> Tensor:
    if kind == "Tensor":
        return Tensor._wrap(array)
    from tracegrad.nn.parameter import Parameter

    return Parameter(Tensor._wrap(array), requires_grad=False)


# ---- safetensors -----------------------------------------------------------------------------------------------------


def _is_safetensors(f: Any) -> bool:
    return isinstance(f, (str, os.PathLike)) and os.fspath(f).endswith(".safetensors")


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise MissingPackageError(
            "files that end with .safetensors need the package safetensors, which is not installed",
            fix="pip install 'tracegrad[io]', or choose a name that ends with .npz",
        ) from error
    return safetensors.numpy


def _save_safetensors(obj: Any, path: str) -> None:
    library = _safetensors()
    if not isinstance(obj, Mapping):
        raise SaveError(
            f"a safetensors file holds a dict of Tensors by name, not a {type(obj).__name__}",
            fix="save a state_dict, or choose a name that ends with .npz",
        )
    arrays = {}
    for name, value in obj.items():
        if not isinstance(name, str) or not isinstance(value, (Tensor, np.ndarray)):
            raise SaveError(
                f"a safetensors file holds Tensors by name, not {name!r}: {type(value).__name__}",
                fix="choose a name that ends with .npz for nested containers and numbers",
            )
        if isinstance(value, Tensor) and value.is_traced:
            raise _cannot("a Tensor of a traced function, which has no numbers yet", (name,), "save it outside")
        arrays[name] = np.ascontiguousarray(value._value() if isinstance(value, Tensor) else value)
    library.save_file(arrays, path)


def _load_safetensors(path: str) -> dict[str, Tensor]:
    return {name: Tensor._wrap(array) for name, array in _safetensors().load_file(path).items()}
