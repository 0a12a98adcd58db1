"""What backward reads survives being overwritten in plain NumPy code.

For a Tensor that somebody made, overwriting what was saved for backward is an error, as in PyTorch. A decorated
function of ndarrays knows nothing of saved values, and recorded it may overwrite what it likes, since values of a graph
never change. So while one runs eagerly `state.keepers` notes which nodes keep values of which memory, and before that
memory is written to they get copies.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad.autograd.forward_ad import copy_tangents
from tracegrad.state import state
from tracegrad.tensor import Tensor

if TYPE_CHECKING:
    from tracegrad.autograd.node import BackwardNode

Keepers = dict[int, list["weakref.ref[BackwardNode]"]]


def owner(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory a view lies in."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def note_kept(node: BackwardNode, values: Iterable[Any]) -> None:
    """Note that the node keeps these Tensors and arrays."""
    for value in values:
        array = value._array if isinstance(value, Tensor) else value
        if isinstance(array, np.ndarray):
            state.keepers.setdefault(id(owner(array)), []).append(weakref.ref(node))


def rescue(x: Tensor) -> None:
    """Before the memory of `x` is written to: give copies to the nodes that keep values of it."""
    if state.keepers is None or x._array is None:
        return
    memory = owner(x._array)
    for reference in state.keepers.pop(id(memory), ()):
        node = reference()
        if node is not None:
            node._copy_kept(memory)


def copied(x: Any, memory: np.ndarray) -> Any:
    """A kept Tensor as a copy without history if it lies in that memory; anything else as it is."""
    if isinstance(x, Tensor) and x._array is not None and owner(x._array) is memory:
        copy = Tensor._wrap(x._array.copy())
        if state.dual is not None:
            copy_tangents(x, copy)
        return copy
    return x
