"""What every layer has to pass: derivatives to second order by finite differences, and compiled = eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tracegrad as tg
from tracegrad import nn


def values(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Reproducible numbers between `low` and `high`, apart from each other and from kinks."""
    return np.random.default_rng((seed, *shape)).uniform(low, high, shape)


def numbers(x: Any) -> np.ndarray:
    """A Tensor's numbers."""
    return x.detach().numpy() if isinstance(x, tg.Tensor) else np.asarray(x)


def filled(module: nn.Module, seed: int = 1) -> nn.Module:
    """The module with reproducible parameters."""
    with tg.no_grad():
        for number, p in enumerate(module.parameters()):
            p.copy_(values(*p.shape, seed=seed + number, low=-0.8, high=0.8))
    return module


def flat(result: Any) -> list[Any]:
    """The Tensors of a result, which may be nested tuples."""
    if isinstance(result, (tuple, list)):
        return [t for part in result for t in flat(part)]
    return [] if result is None else [result]


def check(
    function: Callable[..., Any], *arrays: np.ndarray, parameters: Sequence[Any] = (), second: bool = True
) -> None:
    """`function` of Tensors over these arrays, which also reads `parameters`: derivatives, and compiled = eager.

    Without `second` (kinks, or much to compile) the second derivative is left out.
    """
    inputs = [tg.tensor(a, requires_grad=True) for a in arrays]
    wanted = [*inputs, *parameters]
    fast = sum(t.size for t in wanted) > 40

    def outputs(*_: Any) -> Any:
        return tuple(flat(function(*inputs)))

    assert tg.gradcheck(outputs, wanted, fast_mode=fast)
    if second:
        assert tg.gradgradcheck(outputs, wanted, fast_mode=fast)
    check_compiled(function, inputs, wanted, second)


def check_compiled(function: Callable[..., Any], inputs: list[Any], wanted: list[Any], second: bool) -> None:
    """The compiled function has the values and derivatives with respect to `wanted` of the eager one."""

    def outputs(*args: Any) -> Any:
        return tuple(flat(function(*args)))

    eager, compiled = (derivatives(version, inputs, wanted, second) for version in (outputs, tg.jit(outputs)))
    for expected, found in zip(eager, compiled, strict=True):
        assert expected.dtype == found.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


def derivatives(function: Callable[..., Any], inputs: list[Any], wanted: list[Any], second: bool) -> list[np.ndarray]:
    """Values, the gradient of a weighted sum of them, and the gradient of a sum of sines of that."""
    found = function(*inputs)
    total = sum((t * values(*t.shape, seed=9, low=0.5, high=1.5)).sum() for t in found)
    options = {"allow_unused": True, "materialize_grads": True}
    first = tg.autograd.grad(total, wanted, create_graph=second, **options)
    results = [*map(numbers, found), *map(numbers, first)]
    if second:
        again = sum((np.sin(g) * values(*g.shape, seed=8)).sum() for g in first)
        linear = not again.requires_grad  # then all second derivatives are zero
        results += (
            [np.zeros(t.shape) for t in wanted] if linear else map(numbers, tg.autograd.grad(again, wanted, **options))
        )
    return results


def check_module(module: nn.Module, *arrays: np.ndarray, second: bool = True) -> None:
    """`check` of a module's call, with respect to its inputs and all its parameters."""
    check(module, *arrays, parameters=list(module.parameters()), second=second)


def shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    """The names and shapes in a module's state."""
    return {name: tuple(value.shape) for name, value in module.state_dict().items()}
