"""Rows side by side: which loops are turned so, and that the numbers stay (against NumPy and eager mode)."""

import numpy as np
import pytest

import tracegrad as tg
from tests.schedule.graphs import scheduled
from tests.schedule.patterns import value_and_grad_graph
from tracegrad.schedule.evaluate import evaluate


def mixture(scales, triangles, x):
    """Distances of the rows of x, by triangles of their own, to nothing; their soft minimum, and a row of each."""
    y = scales * x[:, None, :] + np.einsum("kij,nkj->nki", triangles, x[:, None, :] - scales)
    terms = -0.5 * np.sum(y * y, axis=2)
    largest = np.max(terms, axis=1, keepdims=True)
    return np.sum(np.log(np.sum(np.exp(terms - largest), axis=1)) + largest[:, 0]), terms


def data(n, k=3, d=9, dtype=float):
    rng = np.random.default_rng(n)
    return tuple((rng.standard_normal(s) / 3).astype(dtype) for s in ((k, d), (k, d, d), (n, d)))


def in_lanes(program):
    return any(b.name.endswith("_lanes") for b in program.buffers)


def value(*args):
    return mixture(*args)[0]


def test_narrow_products_run_side_by_side():
    n, tol = 37, 1e-10
    args = data(n, k=2)
    graph = value_and_grad_graph(value, (0, 1, 2), args)
    program = scheduled(graph)
    assert in_lanes(program)
    leaves = [tg.tensor(a, requires_grad=True) for a in args]
    eager = value(*leaves)
    eager.backward()
    expected = [mixture(*args)[0], *(leaf.grad.numpy() for leaf in leaves)]
    for found, wanted in zip(evaluate(program, args), expected, strict=True):
        assert np.allclose(found, wanted, rtol=tol, atol=tol)
    f = tg.value_and_grad(mixture, argnums=(0, 1, 2), has_aux=True)
    (number, terms), gradients = f(*args)
    for found, wanted in zip((number, *gradients), expected, strict=True):
        assert np.allclose(found, wanted, rtol=tol, atol=tol)
    for odd in (np.nan, np.inf, 0.0):
        x = args[2].copy()
        x[[0, 8, n - 1], 1] = odd  # in the first lane, the next block, the remainder
        (number, terms), gradients = f(args[0], args[1], x)
        with np.errstate(all="ignore"):
            value_there, terms_there = mixture(args[0], args[1], x)
        assert np.allclose(number, value_there, rtol=tol, equal_nan=True)
        assert np.allclose(terms, terms_there, rtol=tol, atol=tol, equal_nan=True)


@pytest.mark.parametrize("n, d", [(31, 9), (40, 16)], ids=["few rows", "wide rows"])
def test_others_do_not(n, d):
    assert not in_lanes(scheduled(value_and_grad_graph(value, (0, 1), data(n, d=d))))


def test_any_number_of_rows():
    f = tg.value_and_grad(value, argnums=(1, 2))
    for n in (33, 47, 3, 64):
        args = data(n, dtype=np.float32)
        leaves = [tg.tensor(a, requires_grad=True) for a in args]
        value(*leaves).backward()
        number, gradients = f(*args)
        assert np.isclose(number, value(*args), rtol=1e-4)
        for found, leaf in zip(gradients, leaves[1:], strict=True):
            assert np.allclose(found, leaf.grad.numpy(), rtol=1e-3, atol=1e-3)
    assert len(f.entries) == 2
