"""What is kept of a compiled program: object code and what surrounds it. Another process can run it as well.

As bytes an image is a line of JSON, the object code, and the constants. It holds no addresses and no
objects: the functions of host calls and the users' lines are given again when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tracegrad.emit.callbacks import HostCall
from tracegrad.emit.interface import Array, IndexCheck, Interface
from tracegrad.ir.dims import DimLike, parse
from tracegrad.ir.graph import Location
from tracegrad.records import record

ALIGN = 64


@record(eq=False)
class Image:
    """A compiled program.

    code:      the object code, with functions `prefix`_run and, where there are `derived` sizes, `prefix`_derive.
    short:     whether a run is too short for letting other threads in.
    libraries: the symbols it needs of `emit.libraries`; `threads` is the number of BLAS's threads its code restores.
    """

    interface: Interface
    prefix: str
    code: bytes
    derived: tuple[DimLike, ...]
    checks: tuple[IndexCheck, ...]
    calls: tuple[HostCall, ...]
    constants: tuple[np.ndarray, ...]
    short: bool
    libraries: tuple[str, ...]
    threads: int | None


def to_bytes(image: Image, place_of: Callable[[Location | None], int], name_of: Callable[[Any], str]) -> bytes:
    """`place_of` gives the number that stands for a location, `name_of` the text for the function of a host
    call."""
    face = image.interface
    header = {
        "name": face.name,
        "prefix": image.prefix,
        "arrays": [_array(a) for a in face.arrays],
        "inputs": face.inputs,
        "outputs": face.outputs,
        "sizes": dict(face.sizes),
        "derived": [_dim(d) for d in image.derived],
        "checks": [(int(c.axis), place_of(c.location)) for c in image.checks],
        "calls": [
            {
                "function": name_of(c.function),
                "inputs": [_array(a) for a in c.inputs],
                "outputs": [_array(a) for a in c.outputs],
                "symbols": dict(c.symbols),
                "location": place_of(c.location),
            }
            for c in image.calls
        ],
        "constants": [(c.dtype.str, c.shape) for c in image.constants],
        "code": len(image.code),
        "short": bool(image.short),
        "libraries": image.libraries,
        "threads": image.threads,
    }
    parts = [json.dumps(header).encode() + b"\n", image.code]
    for constant in image.constants:
        parts += [bytes(-sum(map(len, parts)) % ALIGN), constant.tobytes()]
    return b"".join(parts)


def from_bytes(data: bytes, locations: Sequence[Location | None], function: Callable[[str], Any]) -> Image:
    """The image that was written. `locations` are the places by number, `function` finds that of a host call.

    Raises ValueError, KeyError, IndexError or TypeError for bytes that are no image.
    """
    line, start = data.split(b"\n", 1)[0], data.index(b"\n") + 1
    header = json.loads(line)
    end = start + header["code"]
    face = Interface(
        header["name"],
        tuple(map(_read_array, header["arrays"])),
        tuple(header["inputs"]),
        tuple(header["outputs"]),
        MappingProxyType({name: tuple(where) for name, where in header["sizes"].items()}),
    )
    calls = tuple(
        HostCall(
            function(c["function"]),
            tuple(map(_read_array, c["inputs"])),
            tuple(map(_read_array, c["outputs"])),
            c["symbols"],
            _place(locations, c["location"]),
        )
        for c in header["calls"]
    )
    return Image(
        face,
        header["prefix"],
        data[start:end],
        tuple(map(_read_dim, header["derived"])),
        tuple(IndexCheck(axis, _place(locations, place)) for axis, place in header["checks"]),
        calls,
        _read_constants(data, end, header["constants"]),
        header["short"],
        tuple(header["libraries"]),
        header["threads"],
    )


def _array(array: Array) -> tuple[str, str, list[int | str], str]:
    return array.name, array.dtype.str, [_dim(d) for d in array.shape], array.alias


def _read_array(fields: Any) -> Array:
    name, dtype, shape, alias = fields
    return Array(name, np.dtype(dtype), tuple(map(_read_dim, shape)), alias)


def _dim(dim: DimLike) -> int | str:
    return dim if isinstance(dim, int) else str(dim)


def _read_dim(dim: int | str) -> DimLike:
    return dim if isinstance(dim, int) else parse(dim)


def _place(locations: Sequence[Location | None], number: int) -> Location | None:
    return None if number < 0 else locations[number]


def _read_constants(data: bytes, position: int, kinds: Any) -> tuple[np.ndarray, ...]:
    constants = []
    for dtype, shape in kinds:
        position += -position % ALIGN
        count = int(np.prod(shape, dtype=np.int64))
        constants.append(np.frombuffer(data, dtype, count, position).reshape(shape).copy())
        position += constants[-1].nbytes
    return tuple(constants)
