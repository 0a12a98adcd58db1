"""When two attributes, nodes or graphs are the same: by type and by bits, up to the names of values.

Python finds 1, 1.0 and True equal, and 0.0 and -0.0, while NaN differs from itself; for a compiler it is the other way
round. Everything that compares attributes (value numbering, equality of graphs) therefore asks here.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from tracegrad.ir.graph import Graph, Node, Var

LARGE = 4096  # elements; above it an array is keyed by identity, since its bytes would have to be copied


def attr_key(value: Any) -> Hashable:
    """A hashable key; equal keys mean equal bits. Large arrays are keyed by identity."""
    kind = type(value)
    if kind is int or kind is str or kind is bool or value is None:
        return kind, value
    if kind is tuple:
        return tuple, tuple(map(attr_key, value))
    if kind is float:
        return kind, struct.pack("<d", value)
    if kind is complex:
        return kind, struct.pack("<dd", value.real, value.imag)
    if isinstance(value, np.ndarray):
        bits: Hashable = value.tobytes() if value.size <= LARGE else id(value)
        return np.ndarray, value.dtype, value.shape, bits
    if isinstance(value, np.generic):
        return kind, value.tobytes()
    if kind is slice:
        return slice, attr_key((value.start, value.stop, value.step))
    try:
        hash(value)
    except TypeError:
        return kind, id(value)
    return kind, value


def attrs_key(attrs: Mapping[str, Any]) -> Hashable:
    """A key of all attributes, whatever their order."""
    if not attrs:
        return ()
    return tuple((name, attr_key(attrs[name])) for name in sorted(attrs))


def attr_equal(a: Any, b: Any) -> bool:
    """Whether two attributes have the same type and bits; arrays of any size are compared by contents."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        same_type = a.dtype == b.dtype and a.shape == b.shape
        return same_type and (a is b or _bits(a) == _bits(b))
    if type(a) is tuple and type(b) is tuple:
        return len(a) == len(b) and all(map(attr_equal, a, b))
    return attr_key(a) == attr_key(b)


def _bits(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def attrs_equal(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether two nodes have the same attributes, by type and bits."""
    return a.keys() == b.keys() and all(attr_equal(value, b[name]) for name, value in a.items())


def equal(a: Graph, b: Graph) -> bool:
    """Whether two graphs are the same up to the names of their values, their own names and locations."""
    if len(a.inputs) != len(b.inputs) or len(a.nodes) != len(b.nodes) or len(a.outputs) != len(b.outputs):
        return False
    image: dict[Var, Var] = {}
    if not all(_match(x, y, image) for x, y in zip(a.inputs, b.inputs, strict=True)):
        return False
    if not all(_equal_nodes(m, n, image) for m, n in zip(a.nodes, b.nodes, strict=True)):
        return False
    return all(image.get(x) is y for x, y in zip(a.outputs, b.outputs, strict=True))


def _match(a: Var, b: Var, image: dict[Var, Var]) -> bool:
    image[a] = b
    return a.type == b.type


def _equal_nodes(a: Node, b: Node, image: dict[Var, Var]) -> bool:
    return (
        a.op is b.op
        and len(a.inputs) == len(b.inputs)
        and len(a.outputs) == len(b.outputs)
        and len(a.bodies) == len(b.bodies)
        and all(image.get(x) is y for x, y in zip(a.inputs, b.inputs, strict=True))
        and attrs_equal(a.attrs, b.attrs)
        and all(map(equal, a.bodies, b.bodies))
        and all(_match(x, y, image) for x, y in zip(a.outputs, b.outputs, strict=True))
    )
