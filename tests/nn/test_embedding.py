"""Embedding and one_hot."""

import numpy as np
import pytest

import tracegrad as tg
import tracegrad.nn.functional as F
from tests.nn.checks import check, filled, numbers, shapes, values
from tracegrad import nn

PLACES = np.array([[0, 2, 1], [2, 2, 0]])


def test_rows_are_read_and_their_gradients_add_up():
    layer = filled(nn.Embedding(4, 3))
    np.testing.assert_array_equal(numbers(layer(tg.tensor(PLACES))), numbers(layer.weight)[PLACES])
    layer(tg.tensor(PLACES)).sum().backward()
    assert numbers(layer.weight.grad)[:, 0].tolist() == [2.0, 1.0, 3.0, 0.0]
    assert shapes(layer) == {"weight": (4, 3)} and repr(layer) == "Embedding(4, 3)"
    check(lambda w: F.embedding(PLACES, w), values(4, 3))


def test_the_padding_row_starts_at_zero_and_stays():
    layer = nn.Embedding(4, 3, padding_idx=-2)
    assert repr(layer) == "Embedding(4, 3, padding_idx=2)" and not numbers(layer.weight)[2].any()
    layer(tg.tensor(PLACES)).sum().backward()
    assert numbers(layer.weight.grad)[:, 0].tolist() == [2.0, 1.0, 0.0, 0.0]
    weight = tg.tensor(values(4, 3), requires_grad=True)
    tg.jit(lambda w: F.embedding(PLACES, w, padding_idx=2).sum())(weight).backward()
    assert numbers(weight.grad)[:, 0].tolist() == [2.0, 1.0, 0.0, 0.0]


def test_long_rows_are_scaled_down_in_place():
    layer = nn.Embedding(3, 2, max_norm=1.0)
    with tg.no_grad():
        layer.weight.copy_([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]])
    layer(tg.tensor([0, 1]))
    np.testing.assert_allclose(numbers(layer.weight), [[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]], rtol=1e-6)


def test_from_pretrained():
    table = values(4, 3)
    frozen = nn.Embedding.from_pretrained(tg.tensor(table))
    np.testing.assert_array_equal(numbers(frozen(tg.tensor([1]))), table[[1]])
    assert not frozen.weight.requires_grad
    assert nn.Embedding.from_pretrained(tg.tensor(table), freeze=False).weight.requires_grad


@pytest.mark.parametrize("place", [-1, 4])
def test_positions_outside_are_refused_in_both_modes(place):
    layer = nn.Embedding(4, 3)
    with pytest.raises(IndexError, match=f"the indices of embedding: {place} is out of range"):
        layer(tg.tensor([0, place]))
    compiled = tg.jit(lambda i: layer(i))
    compiled(np.array([0, 1]))
    with pytest.raises(IndexError):
        compiled(np.array([0, place]))


def test_positions_must_be_integers():
    with pytest.raises(TypeError, match="the indices of embedding must be integers, not float64"):
        nn.Embedding(4, 3)(tg.ones(2))


def test_one_hot():
    classes = np.array([[0, 2], [1, 1]])
    for result in (F.one_hot(tg.tensor(classes), 4), tg.jit(lambda c: F.one_hot(c, 4))(classes)):
        np.testing.assert_array_equal(numbers(result), np.eye(4, dtype=np.int64)[classes])
        assert result.dtype == np.int64
    assert F.one_hot(tg.tensor(classes)).shape == (2, 2, 3)
    with pytest.raises(IndexError, match="the classes of one_hot: 2 is out of range"):
        F.one_hot(tg.tensor(classes), 2)
