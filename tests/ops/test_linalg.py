"""Products, einsum, diagonals and norms against NumPy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.ops.derivatives import check_derivatives, gradients
from tests.ops.functions import assert_same, check_function
from tests.ops.samples import values
from tracegrad.errors import ShapeError
from tracegrad.tensor import Tensor

V, W, M, N, T = values((3,)), values((3,), seed=1), values((2, 3)), values((3, 4), seed=1), values((2, 3, 4))
S, Z = values((3, 3)), np.array(1.5)
CV, CM = V + 1j * W, M * (1 - 2j) + 1j

CASES: list[tuple[Any, ...]] = [
    (np.matmul, T, values((4, 2))), (np.matmul, V, V), (np.matmul, CM, N), (np.dot, V, W), (np.dot, M, N),
    (np.dot, M, V), (np.dot, Z, M),
    (np.dot, M, 2.0), (np.dot, T, values((4,))), (np.dot, T, values((5, 4, 2))), (np.vdot, M, M[::-1]),
    (np.vdot, CV, CV * 1j),
    (np.inner, V, W), (np.inner, T, values((2, 4))), (np.inner, Z, V), (np.outer, V, M), (np.outer, Z, V),
    (np.vecdot, T, T[::-1]),
    (np.vecdot, CV, CV[::-1]), (np.linalg.outer, V, W), (np.kron, M, S), (np.kron, V, M), (np.kron, T, V),
    (np.tensordot, T, values((3, 4, 2))),
    (np.tensordot, T, values((4, 2)), 1), (np.tensordot, V, W, 0),
    (np.tensordot, T, values((4, 3, 2)), ([1, 2], [1, 0])),
    (np.tensordot, T, values((2, 2)), (0, 1)), (np.tensordot, M, M, 2), (np.cross, V, W), (np.cross, values((2, 3)), V),
    (np.cross, values((3, 2)), values((3, 2), seed=2), 0, 0, 0), (np.linalg.cross, V, W),
    (np.linalg.multi_dot, [M, N, values((4, 2))]),
    (np.linalg.multi_dot, [V, N, values((4,))]), (np.linalg.multi_dot, [M, N]),
    *((np.linalg.matrix_power, S, n) for n in (0, 1, 2, 5, -2)),
    (np.linalg.matrix_power, values((2, 2, 2)), 3), *((np.diagonal, T, k) for k in (-1, 0, 1, 5)),
    (np.diagonal, T, 1, -1, 0),
    (np.linalg.diagonal, T), (np.trace, T, 1, 1, 2), (np.trace, values((4, 2))), (np.linalg.trace, T),
    *((np.diag, V, k) for k in (-1, 0, 2)),
    *((np.diag, M, k) for k in (-1, 0, 2)), (np.diagflat, M, 1),
    *((f, x, k) for f in (np.tril, np.triu) for x in (M, T, V) for k in (-1, 0, 1)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0].__name__ + repr(c[1:])[:50])
def test_against_numpy(case: tuple[Any, ...]):
    linear = case[0].__name__ in ("tril", "triu", "diagonal", "trace", "diag")
    check_function(case[0], case[1:], order=1 if linear else 2)


def wrapped(x: Any) -> Any:
    """Arrays as Tensors, in lists too."""
    return [*map(wrapped, x)] if isinstance(x, list) else Tensor._wrap(x) if isinstance(x, np.ndarray) else x


def test_trace_of_a_tall_matrix():
    (g,) = gradients(np.trace, [values((4, 2))])
    np.testing.assert_array_equal(g, np.eye(4, 2))


BAD: list[tuple[Any, ...]] = [
    (np.matmul, M, M), (np.matmul, Z, M), (np.matmul, values((2, 2, 3)), values((3, 3, 2))), (np.dot, V, M),
    (np.tensordot, M, M, 1),
    (np.tensordot, M, M, ([0, 1], [0])), (np.diagonal, V), (np.diagonal, M, 0, 1, 1), (np.diag, T),
    (np.cross, values((4,)), V),
    (np.linalg.matrix_power, M, 2), (np.vecdot, V, V[:2]), (np.linalg.multi_dot, [M]),
]  # fmt: skip


@pytest.mark.parametrize("case", BAD, ids=lambda c: c[0].__name__ + repr(c[1:])[:50])
def test_shapes_that_do_not_go_together(case: tuple[Any, ...]):
    function, *args = case
    with pytest.raises(ValueError):
        function(*args)
    with pytest.raises(ShapeError):
        function(*map(wrapped, args))


# ---- einsum -------------------------------------------------------------------------------------------------------

EINSUMS: list[tuple[Any, ...]] = [
    ("ij,jk", M, N), ("ij,jk->ki", M, N), ("ii", S), ("ii->i", S), ("ij->", M), ("ba", M), ("i,i", V, W),
    ("i,j->ij", V, W),
    ("...ij,jk->...ik", values((2, 2, 3)), N), ("bij,bij->b", T, T), ("bij,bkj->bik", T, T), ("ij,j", M, V),
    ("...j,j->...", M, V),
    ("ij,jk,kl->il", M, N, values((4, 2))), ("iij->j", values((2, 2, 3))), ("iii->i", values((2, 2, 2))),
    ("i,i->i", values((1,)), V),
    ("...,...", T, values((3, 4))), ("i...->...", T), ("ij,kl->", M, N), ("b...i,b...i->b...", T, T),
    (" i j , j -> i ", M, V),
    ("aab,bcc,ac->b", values((2, 2, 3)), values((3, 4, 4)), values((2, 4))), ("ij,jk", CM, N), ("i,->i", V, Z),
    ("abcd->bd", values((2, 2, 3, 2))),
    ("ij,jk", M.astype(np.float32), N.astype(np.float32)), (",", Z, Z), ("ij->ji", values((0, 3))),
    ("ij,jk->ik", values((2, 0)), values((0, 3))),
]  # fmt: skip


@pytest.mark.parametrize("case", EINSUMS, ids=lambda c: str(c[0]))
def test_einsum(case: tuple[Any, ...]):
    check_function(np.einsum, case)


def test_einsum_with_lists_of_axes():
    check_function(lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [0, 2]), (M, N))
    check_function(lambda a, b: np.einsum(a, [0, 1], b, [1, 2]), (M, N))
    check_function(lambda a, b: np.einsum(a, [..., 0], b, [0], [...]), (M, V))


def test_einsum_of_two_operands_with_any_subscripts():
    draw, sizes = random.Random(0), dict(zip("ijkl", (2, 3, 4, 1), strict=True))
    for number in range(60):
        left, right = ("".join(draw.sample("ijkl", draw.randint(0, 3))) for _ in range(2))
        used = sorted({*left, *right})
        text = f"{left},{right}->{''.join(draw.sample(used, draw.randint(0, len(used))))}"
        x, y = (values(tuple(sizes[n] for n in labels), seed=number) for labels in (left, right))
        got, expected = np.einsum(text, Tensor._wrap(x), Tensor._wrap(y)).numpy(), np.einsum(text, x, y)
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, atol=1e-12, err_msg=text)
        grads = gradients(lambda a, b, text=text: np.sum(np.sin(np.einsum(text, a, b))), [x, y])
        # The product is linear in each operand: by Euler's theorem both derivatives along themselves are alike.
        along = np.sum(np.cos(expected) * expected)
        np.testing.assert_allclose([np.sum(grads[0] * x), np.sum(grads[1] * y)], along, atol=1e-10, err_msg=text)


def test_einsum_of_integers_and_bools_keeps_their_dtype():
    for x in (np.arange(6).reshape(2, 3).astype(np.int8), np.arange(6).reshape(2, 3) > 2):
        for text, args in (("ij,kj->ik", (x, x)), ("ij->i", (x,)), ("ij,ij->", (x, x))):
            assert_same(np.einsum(text, *map(Tensor._wrap, args)), np.einsum(text, *args))


def random_einsum(choose: random.Random, seed: int) -> tuple[str, list[np.ndarray]]:
    sizes = {c: choose.choice([1, 2, 3]) for c in "abcde"}
    dots = choose.random() < 0.3
    terms, arrays = [], []
    for number in range(choose.randint(1, 4)):
        labels = "".join(choose.choice("abcde") for _ in range(choose.randint(0, 3)))
        shape = [sizes[c] for c in labels]
        if dots and choose.random() < 0.7:
            place = choose.randint(0, len(labels))
            shape[place:place] = choose.choice([(2, 3), (3,), (1, 3), ()])
            labels = labels[:place] + "..." + labels[place:]
        terms.append(labels)
        arrays.append(values(tuple(shape), seed=seed + number))
    used = sorted(set("".join(terms)) - {"."})
    result = "".join(choose.sample(used, choose.randint(0, len(used))))
    return ",".join(terms) + choose.choice(["", "->" + "..." * dots + result]), arrays


@pytest.mark.parametrize("seed", range(20))
def test_random_einsums(seed: int):
    choose = random.Random(seed)
    for number in range(25):
        text, arrays = random_einsum(choose, 100 * seed)
        try:
            expected = np.einsum(text, *arrays)
        except ValueError:
            with pytest.raises(ShapeError):
                np.einsum(text, *map(Tensor._wrap, arrays))
            continue
        assert_same(np.einsum(text, *map(Tensor._wrap, arrays)), expected, 1e-10)
        if number < 2:
            check_derivatives(lambda *x, text=text: np.einsum(text, *x), arrays)


@pytest.mark.parametrize("text", ["ij,jk->iq", "ij,jk->iik", "i,jk", "ijk,jk", "ij,ik", "i1,jk", "ij", "...ij,jk->ik"])
def test_bad_subscripts(text: str):
    with pytest.raises(ValueError):
        np.einsum(text, np.ones((2, 2, 3)), N)
    with pytest.raises(ShapeError):
        np.einsum(text, Tensor._wrap(np.ones((2, 2, 3))), Tensor._wrap(N))


# ---- norms --------------------------------------------------------------------------------------------------------

ORDERS = [None, 1, 2, 3, 2.5, 0.5, -1, -2, np.inf, -np.inf, 0]


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_vector_norms(order: Any):
    singles = V.astype(np.float32)
    for x, axis, keep in ((V, None, False), (M, 1, True), (T, -2, False), (T, (0,), False), (singles, None, True)):
        check_function(np.linalg.norm, (x, order, axis, keep), order=0 if order == 0 or x.dtype == np.float32 else 2)
    check_function(np.linalg.norm, (CV, order), order=0 if order == 0 else 1)
    if order is not None:
        check_function(np.linalg.vector_norm, (T,), {"axis": (0, 2), "ord": order}, order=0)


@pytest.mark.parametrize("order", [None, "fro", 1, -1, np.inf, -np.inf], ids=str)
def test_matrix_norms(order: Any):
    for x, axis, keep in ((M, None, False), (T, (0, 2), True), (T, (2, 1), False), (T, (-1, 0), False)):
        check_function(np.linalg.norm, (x, order, axis, keep) if x is T or order else (x,), order=1)
    check_function(np.linalg.matrix_norm, (T,), {"ord": order or "fro"}, order=1)


@pytest.mark.parametrize("order", [None, 1, 2, 3, 1.5, np.inf], ids=str)
def test_norm_at_zero_has_gradient_zero(order: Any):
    for function in (lambda x: np.linalg.norm(x, order), lambda x: np.linalg.norm(x, order) ** 2):
        (g,) = gradients(function, [np.zeros(3)])
        np.testing.assert_array_equal(g, np.zeros(3))


def test_inf_norm_shares_among_ties():
    (g,) = gradients(lambda x: np.linalg.norm(x, np.inf), [np.array([9.0, 1.0, 9.0, -9.0])])
    np.testing.assert_allclose(g, [1 / 3, 0, 1 / 3, -1 / 3])


def test_p_norm_with_some_zeros():
    (g,) = gradients(lambda x: np.linalg.norm(x, 3), [np.array([0.0, 3.0, 4.0])])
    np.testing.assert_allclose(g, np.array([0, 9, 16]) / 91 ** (2 / 3))
