"""tracegrad: a compiler for gradients of NumPy code on CPUs, with PyTorch's autograd semantics in the REPL.

Decorate a function written in NumPy with `tg.value_and_grad`, `tg.grad` or `tg.jit`; it is traced, differentiated
and compiled at its first call. `tg.tensor` makes eager Tensors for trying things out; `with tg.eager():` runs
decorated functions operation by operation.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tracegrad import autograd, errors, ops
from tracegrad.autograd import tensor_methods as _attached
from tracegrad.errors import TracegradError
from tracegrad.function import Function
from tracegrad.ops.creation import tensor  # replaces the submodule of that name as an attribute
from tracegrad.ops.stop import stop_gradient
from tracegrad.state import eager, enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from tracegrad.tensor import Tensor
from tracegrad.transforms.api import grad, jit, value_and_grad

__version__ = "0.1.0"

# Names that are looked up on first use, so that `import tracegrad` costs little more than NumPy.
_HOME = {
    **dict.fromkeys(("gradcheck", "gradgradcheck"), "tracegrad.autograd.check"),
    **dict.fromkeys(("explain", "show"), "tracegrad.inspection"),
    **dict.fromkeys(
        "as_tensor zeros ones full empty eye arange linspace zeros_like ones_like full_like empty_like".split(),
        "tracegrad.ops.creation",
    ),
    **dict.fromkeys("manual_seed seed initial_seed Generator".split(), "tracegrad.random.generator"),
    **dict.fromkeys(
        "rand randn randint randperm rand_like randn_like randint_like bernoulli normal multinomial".split(),
        "tracegrad.random.torch_names",
    ),
    **dict.fromkeys(("save", "load"), "tracegrad.saving"),
    "jvp": "tracegrad.transforms.forward",
    "vjp": "tracegrad.transforms.pullback",
    "vmap": "tracegrad.transforms.vectorize",
    **dict.fromkeys("jacobian jacrev jacfwd hessian hvp".split(), "tracegrad.transforms.jacobian"),
    **dict.fromkeys("stack concatenate where".split(), "numpy"),
    **dict.fromkeys(
        "scan associative_scan checkpoint fori_loop while_loop map cond switch".split(), "tracegrad.control"
    ),
}
_MODULES = ("scipy", "nn", "optim", "random")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"tracegrad.{name}")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'tracegrad' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_MODULES})


if TYPE_CHECKING:
    from tracegrad import nn, optim, random, scipy
    from tracegrad.autograd.check import gradcheck, gradgradcheck
    from tracegrad.control import associative_scan, checkpoint, cond, fori_loop, map, scan, switch, while_loop
    from tracegrad.inspection import explain, show
    from tracegrad.random.generator import manual_seed
    from tracegrad.saving import load, save
    from tracegrad.transforms.forward import jvp
    from tracegrad.transforms.jacobian import hessian, hvp, jacfwd, jacobian, jacrev
    from tracegrad.transforms.pullback import vjp
    from tracegrad.transforms.vectorize import vmap

__all__ = [
    "Function",
    "Tensor",
    "TracegradError",
    "associative_scan",
    "autograd",
    "checkpoint",
    "cond",
    "eager",
    "enable_grad",
    "errors",
    "explain",
    "fori_loop",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "hessian",
    "hvp",
    "is_grad_enabled",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "load",
    "manual_seed",
    "map",
    "nn",
    "no_grad",
    "ops",
    "optim",
    "random",
    "save",
    "scan",
    "scipy",
    "set_grad_enabled",
    "show",
    "stop_gradient",
    "switch",
    "tensor",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]
