"""User Functions that leave tracegrad: calls into Python from compiled programs."""

import numpy as np
import pytest
from scipy import special

import tracegrad as tg
from tests.trace.functions import A, HostCube, traced
from tracegrad.ops.host_call import MAX_CONTEXTS, HostCall


@pytest.mark.parametrize(
    "leave",
    [
        lambda x: special.gamma(x.numpy()),
        lambda x: special.gamma(np.asarray(x)),
        lambda x: special.gamma(np.array([float(v) for v in x])),
        lambda x: special.gamma(np.array(x.tolist())),
        lambda x: special.gamma(x.detach().numpy()),
    ],
)
def test_ways_to_leave(leave):
    class Gamma(tg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, tg.tensor(y := leave(x)))
            return tg.tensor(y)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y * tg.tensor(special.digamma(x.numpy()))

    f = tg.value_and_grad(lambda x: Gamma.apply(x).sum())
    for a in (A, A + 0.5):
        value, g = f(a)
        assert np.allclose(value, special.gamma(a).sum())
        assert np.allclose(g, special.gamma(a) * special.digamma(a))


def test_host_calls_run_once_per_call():
    f = tg.value_and_grad(lambda x: HostCube.apply(x).sum())
    f(A)
    before = HostCube.calls
    for _ in range(3):
        f(A)
    assert HostCube.calls == before + 3


def test_an_evicted_context_is_computed_again():
    graph, _ = traced(lambda x: HostCube.apply(x).sum(), A)
    (node,) = [n for n in graph.nodes if n.op is HostCall]
    forward = node.attrs["function"]
    _, handle = forward(A)
    for _ in range(MAX_CONTEXTS + 1):
        forward(A + 1)
    assert len(forward._contexts) == MAX_CONTEXTS
    assert np.allclose(forward.attributes_of(int(handle), [A])["slope"], 3 * A**2)


def test_an_exception_in_python_comes_out_with_the_users_line():
    class Fails(tg.Function):
        armed = False

        @staticmethod
        def forward(ctx, x):
            if Fails.armed:
                raise ZeroDivisionError("mine")
            return tg.tensor(x.numpy() * 2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    f = tg.jit(Fails.apply)
    f(A)
    Fails.armed = True
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        f(A)
    assert any(entry.name == "forward" and str(entry.path) == __file__ for entry in caught.traceback)


def test_results_whose_shape_depends_on_values_are_refused():
    class Positive(tg.Function):
        @staticmethod
        def forward(ctx, x):
            a = x.numpy()
            return tg.tensor(a[a > 0])

    f = tg.jit(Positive.apply)
    assert f(A).shape == (3,)
    with pytest.raises(ValueError, match="shapes and dtypes that depend on those of its inputs alone"):
        f(np.array([1.0, -1.0, 2.0]))
