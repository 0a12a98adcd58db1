"""Recurrent layers against loops in NumPy."""

import numpy as np
import pytest
from scipy.special import expit

import tracegrad as tg
from tests.nn.checks import check_module, filled, numbers, shapes, values
from tracegrad import nn


def rnn(x, h, w, nonlinearity=np.tanh):
    return (nonlinearity(w["weight_ih"] @ x + w["bias_ih"] + w["weight_hh"] @ h[0] + w["bias_hh"]),)


def gru(x, h, w):
    i, j = (np.split(a, 3) for a in (w["weight_ih"] @ x + w["bias_ih"], w["weight_hh"] @ h[0] + w["bias_hh"]))
    r, z = expit(i[0] + j[0]), expit(i[1] + j[1])
    return ((1 - z) * np.tanh(i[2] + r * j[2]) + z * h[0],)


def lstm(x, state, w):
    h, c = state
    i, f, g, o = np.split(w["weight_ih"] @ x + w["bias_ih"] + w["weight_hh"] @ h + w["bias_hh"], 4)
    c = expit(f) * c + expit(i) * np.tanh(g)
    h = expit(o) * np.tanh(c)
    return (w["weight_hr"] @ h if "weight_hr" in w else h), c


def weights(module, suffix):
    found = {n.removesuffix(suffix): numbers(p) for n, p in module.named_parameters() if n.endswith(suffix)}
    for name in ("bias_ih", "bias_hh"):
        found.setdefault(name, 0.0)
    return found


def run(module, step, x, states):
    """The outputs (L, out) of one sample and the final states of all layers, by the definition."""
    finals = []
    for layer in range(module.num_layers):
        outs = []
        for direction in range(2 if module.bidirectional else 1):
            w = weights(module, f"_l{layer}" + "_reverse" * direction)
            state = tuple(s[len(finals)] for s in states)
            found = []
            for row in x[::-1] if direction else x:
                state = step(row, state, w)
                found.append(state[0])
            outs.append(np.stack(found[::-1] if direction else found))
            finals.append(state)
        x = np.concatenate(outs, 1)
    return x, [np.stack(parts) for parts in zip(*finals, strict=True)]


LAYERS = [
    (nn.RNN, rnn, {}), (nn.GRU, gru, {}), (nn.LSTM, lstm, {}), (nn.GRU, gru, {"num_layers": 2, "bidirectional": True}),
    (nn.LSTM, lstm, {"num_layers": 2, "bidirectional": True, "proj_size": 2}), (nn.LSTM, lstm, {"bias": False}),
    (nn.RNN, lambda *a: rnn(*a, lambda v: np.maximum(v, 0)), {"nonlinearity": "relu", "num_layers": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("layer", "step", "options"), LAYERS, ids=lambda v: getattr(v, "__name__", str(v)))
def test_values(layer, step, options):
    module = filled(layer(3, 4, **options))
    x = values(5, 2, 3)
    count = module.num_layers * (2 if module.bidirectional else 1)
    sizes = (options.get("proj_size", 4), 4)[: 2 if layer is nn.LSTM else 1]
    for start in (None, [values(count, 2, size, seed=i) for i, size in enumerate(sizes)]):
        given = start if start is None or len(start) > 1 else start[0]
        out, final = module(tg.tensor(x), given)
        for n in range(2):
            states = [np.zeros((count, size)) if start is None else start[i][:, n] for i, size in enumerate(sizes)]
            expected, ends = run(module, step, x[:, n], states)
            np.testing.assert_allclose(numbers(out)[:, n], expected, atol=1e-12)
            for found, end in zip(final if len(sizes) > 1 else (final,), ends, strict=True):
                np.testing.assert_allclose(numbers(found)[:, n], end, atol=1e-12)


def test_batch_first_and_no_batch_are_the_same_numbers():
    x = values(5, 2, 3)
    for layer in (nn.RNN, nn.GRU, nn.LSTM):
        plain, first = filled(layer(3, 4)), filled(layer(3, 4, batch_first=True))
        out = numbers(plain(tg.tensor(x))[0])
        np.testing.assert_array_equal(numbers(first(tg.tensor(np.swapaxes(x, 0, 1)))[0]), np.swapaxes(out, 0, 1))
        alone, state = plain(tg.tensor(x[:, 0]))
        np.testing.assert_allclose(numbers(alone), out[:, 0], atol=1e-12)
        assert (state[0] if layer is nn.LSTM else state).shape == (1, 4)


@pytest.mark.parametrize(
    ("cell", "step"), [(nn.RNNCell, rnn), (nn.GRUCell, gru), (nn.LSTMCell, lstm)], ids=["rnn", "gru", "lstm"]
)
def test_cells(cell, step):
    module = filled(cell(2, 2))
    pair = cell is nn.LSTMCell
    x, states = values(3, 2), [values(3, 2, seed=i) for i in range(1 + pair)]
    found = module(tg.tensor(x), tuple(states) if pair else states[0])
    for n in range(3):
        expected = step(x[n], [s[n] for s in states], weights(module, ""))
        for part, e in zip(found if pair else (found,), expected, strict=True):
            np.testing.assert_allclose(numbers(part)[n], e, atol=1e-12)
    np.testing.assert_allclose(numbers(flat_first(module(x[0]))), step(x[0], [np.zeros(2)] * 2, weights(module, ""))[0])
    check_module(module, x[:1], second=cell is not nn.RNNCell)
    rows = {"RNNCell": 1, "GRUCell": 3, "LSTMCell": 4}[cell.__name__] * 2
    assert shapes(module) == {
        "weight_ih": (rows, 2), "weight_hh": (rows, 2), "bias_ih": (rows,), "bias_hh": (rows,),
    }  # fmt: skip
    assert repr(module) == f"{cell.__name__}(2, 2)"


def flat_first(result):
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("layer", [nn.RNN, nn.GRU, nn.LSTM])
def test_derivatives(layer):
    check_module(filled(layer(1, 2, bidirectional=layer is nn.RNN)), values(2, 1, 1), second=False)


def test_dropout_acts_between_layers_while_training():
    tg.manual_seed(0)
    module = nn.GRU(3, 4, num_layers=2, dropout=0.5)
    x = tg.tensor(values(5, 2, 3))
    assert (numbers(module(x)[0]) != numbers(module(x)[0])).any()
    module.eval()
    np.testing.assert_array_equal(numbers(module(x)[0]), numbers(module(x)[0]))


def test_states_and_reprs():
    module = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)
    found = shapes(module)
    assert found["weight_ih_l0"] == (16, 3) and found["weight_hh_l0_reverse"] == (16, 4)
    assert found["weight_ih_l1"] == (16, 8) and found["bias_hh_l1_reverse"] == (16,) and len(found) == 16
    assert repr(module) == "LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True)"
    assert repr(nn.RNNCell(1, 2, bias=False, nonlinearity="relu")) == "RNNCell(1, 2, bias=False, nonlinearity=relu)"
    assert np.abs(numbers(module.weight_ih_l0)).max() <= 0.5


def test_what_does_not_fit():
    module = nn.LSTM(3, 4)
    with pytest.raises(ValueError, match=r"LSTM: the last axis of an input of shape \(5, 2, 2\) is not input_size=3"):
        module(tg.ones(5, 2, 2))
    with pytest.raises(ValueError, match=r"the initial state has shape \(1, 1, 4\), it must have \(1, 2, 4\)"):
        module(tg.ones(5, 2, 3), (tg.ones(1, 1, 4), tg.ones(1, 2, 4)))
    with pytest.raises(ValueError, match="LSTM takes an input of 2 or 3 dimensions"):
        module(tg.ones(3))
    with pytest.raises(TypeError, match="proj_size 4 must be smaller"):
        nn.LSTM(3, 4, proj_size=4)
    with pytest.raises(TypeError, match="'tanh' or 'relu', not 'sin'"):
        nn.RNN(3, 4, nonlinearity="sin")
    with pytest.raises(ValueError, match=r"GRUCell: a state has shape \(4,\), it must have \(2, 4\)"):
        nn.GRUCell(3, 4)(tg.ones(2, 3), tg.ones(4))
