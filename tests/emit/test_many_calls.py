"""Programs that call one elementary function many times: the calls stay calls, vectorise, and give the same bits."""

from __future__ import annotations

import llvmlite.binding
import numpy as np
import pytest

import tracegrad as tg
from tracegrad.emit.vecmath import registry

X = np.concatenate([np.random.default_rng(0).uniform(-3, 3, 400), [0.0, -0.0, np.inf, -np.inf, np.nan, 1e10, 1e300]])
FUNCTIONS = [np.sin, np.exp, np.tanh, np.arctan, lambda x: np.arctan2(x, x + 1)]


def many(x):
    return np.stack([sum(f(x + i * 0.01) for i in range(20)) for f in FUNCTIONS])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.filterwarnings("ignore")
def test_bits_do_not_depend_on_how_a_function_is_called(dtype, monkeypatch):
    found = []
    for inlined in (10**6, 0, registry.INLINED):
        monkeypatch.setattr(registry, "INLINED", inlined)
        found.append(tg.jit(many)(X.astype(dtype)))
    integers = np.int64 if dtype is np.float64 else np.int32
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].view(integers), other.view(integers))


@pytest.mark.parametrize("f", [lambda x: 2.0**x, lambda x: np.hypot(x, 0.3)], ids=["power", "hypot"])
def test_an_argument_that_is_the_same_in_all_calls_stays_one(f, monkeypatch):
    """A scalar function that has lost an argument no longer fits its variants, and LLVM aborts where it vectorises."""
    monkeypatch.setenv("TRACEGRAD_CACHE", "0")
    compiled = tg.jit(lambda x: [np.sum(f(x * i)) for i in range(14)])
    np.testing.assert_allclose(compiled(X[:3]), [np.sum(f(X[:3] * i)) for i in range(14)])
    text = compiled.show("llvm")
    assert "_apart(" in text
    llvmlite.binding.parse_assembly(text).verify()


def test_calls_vectorise_and_are_not_copied(monkeypatch):
    monkeypatch.setenv("TRACEGRAD_CACHE", "0")
    f = tg.jit(lambda x: sum(np.sin(x + i * 0.01) for i in range(30)))  # few enough to stay written out
    f(X[:400])
    text = f.show("llvm")
    calls = [line for line in text.splitlines() if "call" in line and "_apart_v" in line]
    assert len(calls) >= 30 - registry.INLINED
    assert text.count("\n") < 6000
