"""How each peer turns a row's function and arrays into a call that returns the finished value and gradients.

Nothing heavy is imported here at module level: a worker imports its own peer and no other, so that import times and
memory are that peer's alone.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.rows import Row

Run = Callable[[], tuple[Any, Any]]


@dataclass(frozen=True)
class Peer:
    """`disk_cache`: whether a second process's first call is worth a column.

    `load()` does the imports a first call would otherwise do; `prepare(row, inputs)` returns the call to measure.
    """

    name: str
    title: str
    package: str
    load: Callable[[], None]
    prepare: Callable[[Row, list[Any]], Run]
    disk_cache: bool = False


def _bind_scalars(module: str, row: Row, inputs: list[Any]) -> tuple[Callable[..., Any], list[Any]]:
    """The row's function with its trailing arguments that are not arrays bound as constants, and the arrays."""
    function = importlib.import_module(module).FUNCTIONS[row.name]
    arrays = [a for a in inputs if hasattr(a, "shape")]
    scalars = inputs[len(arrays) :]
    if not scalars:
        return function, arrays

    @functools.wraps(function)
    def bound(*arguments: Any) -> Any:
        return function(*arguments, *scalars)

    return bound, arrays


def _load_tracegrad() -> None:
    for module in ("tracegrad", "optree", "llvmlite.binding", "numba", "scipy.linalg", "scipy.special"):
        importlib.import_module(module)


def _prepare_tracegrad(row: Row, inputs: list[Any]) -> Run:
    import tracegrad as tg

    function, arrays = _bind_scalars("benchmarks.numpy_rows", row, inputs)
    return functools.partial(tg.value_and_grad(function, argnums=row.wrt), *arrays)


def _load_jax() -> None:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    jnp.zeros(1).block_until_ready()  # starts the CPU backend


def _prepare_jax(row: Row, inputs: list[Any]) -> Run:
    import jax

    function, arrays = _bind_scalars("benchmarks.numpy_rows", row, inputs)
    compiled = jax.jit(jax.value_and_grad(function, argnums=row.wrt))
    device_arrays = jax.block_until_ready([jax.numpy.asarray(a) for a in arrays])

    def run() -> Any:
        return jax.block_until_ready(compiled(*device_arrays))

    return run


def _load_torch() -> None:
    import torch  # noqa: F401


def _load_torch_compile() -> None:
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401


def _prepare_torch(row: Row, inputs: list[Any], compiled: bool = False) -> Run:
    import torch

    function, arrays = _bind_scalars("benchmarks.torch_rows", row, inputs)
    tensors = [torch.tensor(a, requires_grad=i in row.wrt) for i, a in enumerate(arrays)]
    leaves = [tensors[i] for i in row.wrt]
    if compiled:
        function = torch.compile(function)

    def run() -> Any:
        value = function(*tensors)
        return value, torch.autograd.grad(value, leaves)

    return run


def _load_autograd() -> None:
    import autograd.numpy
    import autograd.scipy.special  # noqa: F401


def _prepare_autograd(row: Row, inputs: list[Any]) -> Run:
    import autograd

    function, arrays = _bind_scalars("benchmarks.numpy_rows", row, inputs)
    return functools.partial(autograd.value_and_grad(function, row.wrt), *arrays)


PEERS = {
    peer.name: peer
    for peer in [
        Peer("tracegrad", "tracegrad", "tracegrad", _load_tracegrad, _prepare_tracegrad, disk_cache=True),
        Peer("jax", "JAX jit", "jax", _load_jax, _prepare_jax),
        Peer("torch", "torch eager", "torch", _load_torch, _prepare_torch),
        Peer(
            "torchc",
            "torch.compile",
            "torch",
            _load_torch_compile,
            functools.partial(_prepare_torch, compiled=True),
        ),
        Peer("autograd", "HIPS autograd", "autograd", _load_autograd, _prepare_autograd),
    ]
}
