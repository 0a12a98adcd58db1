"""Shape functions against NumPy, in many forms of their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.functions import check_function
from tests.ops.samples import values
from tracegrad.errors import ShapeError, UnsupportedError
from tracegrad.tensor import Tensor

V, M, T = values((3,)), values((2, 3)), values((2, 3, 4))
E0, Z = values((0, 3)), np.array(1.5)

CASES: list[tuple[Any, ...]] = [
    (np.reshape, M, 6), (np.reshape, M, (3, 2)), (np.reshape, M, (-1, 2)), (np.reshape, M, (3, 2), "F"),
    (np.reshape, T, (4, -1), "F"), (np.reshape, E0, (3, 0)), (np.reshape, Z, (1, 1)),
    (np.reshape, M, [np.int64(3), -1]),
    (np.reshape, M, np.array([3, 2])), (np.ravel, T), (np.ravel, T, "F"), (np.ravel, E0), (np.ravel, Z),
    (np.transpose, T), (np.transpose, T, (1, 2, 0)), (np.transpose, T, (-1, 0, 1)), (np.transpose, V),
    (np.transpose, Z),
    (np.swapaxes, T, 0, -1), (np.swapaxes, M, 0, 0), (np.moveaxis, T, 0, 2), (np.moveaxis, T, [0, 1], [-1, 0]),
    (np.moveaxis, T, (2, 0), (0, 1)), (np.rollaxis, T, 2), (np.rollaxis, T, 0, 3), (np.rollaxis, T, 1, 1),
    (np.rollaxis, T, -1, 1),
    (np.expand_dims, M, 0), (np.expand_dims, M, (0, -1)), (np.expand_dims, M, (1, 2)), (np.expand_dims, Z, 0),
    (np.squeeze, values((1, 3, 1))), (np.squeeze, values((1, 3, 1)), 0), (np.squeeze, values((1, 3, 1)), (0, -1)),
    (np.squeeze, values((1, 1))), (np.broadcast_to, V, (2, 3)), (np.broadcast_to, Z, (2, 1)), (np.broadcast_to, V, 3),
    (np.broadcast_to, values((2, 1)), (0, 2, 5)), (np.atleast_1d, Z), (np.atleast_1d, M), (np.atleast_2d, V),
    (np.atleast_2d, Z, M),
    (np.atleast_3d, Z), (np.atleast_3d, V), (np.atleast_3d, M), (np.atleast_3d, T), (np.flip, T), (np.flip, T, 1),
    (np.flip, T, (0, -1)), (np.flip, E0), (np.fliplr, M), (np.flipud, V), (np.matrix_transpose, T),
    (np.linalg.matrix_transpose, M),
    *((np.rot90, M, k) for k in range(-1, 5)), (np.rot90, T, 1, (2, 0)), (np.rot90, T, -1, (1, 2)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0].__name__ + repr(c[2:]))
def test_against_numpy(case: tuple[Any, ...]):
    check_function(case[0], case[1:], order=1)


def test_broadcast_arrays_gives_a_tuple_of_common_shape():
    check_function(np.broadcast_arrays, (V, values((2, 1)), Z))


def test_questions_about_the_shape():
    x = Tensor._wrap(T)
    assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1)) == ((2, 3, 4), 3, 24, 3)


BAD = [
    (np.reshape, M, (4, 2)), (np.reshape, M, (-1, -1)), (np.reshape, M, (4, -1)), (np.reshape, E0, (-1, 0)),
    (np.transpose, M, (0, 0)), (np.transpose, M, (0,)), (np.transpose, M, (0, 2)), (np.squeeze, M, 0),
    (np.broadcast_to, V, (2, 2)),
    (np.broadcast_to, M, (3,)), (np.moveaxis, M, 0, 5), (np.moveaxis, T, (0, 0), (1, 2)), (np.flip, M, 2),
    (np.fliplr, V),
    (np.rot90, M, 1, (0, 0)), (np.expand_dims, M, (0, 0)), (np.rollaxis, M, 0, 4), (np.matrix_transpose, V),
]  # fmt: skip


@pytest.mark.parametrize("case", BAD, ids=lambda c: c[0].__name__ + repr(c[2:]))
def test_bad_shapes_are_errors_in_numpy_and_here(case: tuple[Any, ...]):
    function, x, *rest = case
    with pytest.raises((ValueError, IndexError)):
        function(x, *rest)
    with pytest.raises(ShapeError):
        function(Tensor._wrap(x), *rest)


def test_memory_order_is_refused():
    with pytest.raises(UnsupportedError, match="order='A'"):
        np.ravel(Tensor._wrap(M), "A")
