"""What the tests of the autograd contract are made of."""

from __future__ import annotations

import numpy as np

import tracegrad as tg


def leaf(values, dtype=float, **kwargs):
    return tg.tensor(np.asarray(values, dtype), requires_grad=True, **kwargs)


def numbers(tensor):
    return None if tensor is None else tensor.detach().numpy().tolist()


def as_array(tensor):
    return tensor.detach().numpy()


def function(forward, backward=None, **members):
    """A Function class named F1 with these static methods."""
    methods = {"forward": staticmethod(forward)}
    if backward is not None:
        methods["backward"] = staticmethod(backward)
    return type("F1", (tg.Function,), {**methods, **{k: staticmethod(v) for k, v in members.items()}})


def double(ctx, x, *rest):
    return x * 2


def saving(ctx, x):
    ctx.save_for_backward(x)
    return x * x


class Square(tg.Function):
    """x², which saves x."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]
