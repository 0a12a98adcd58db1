"""Losses against formulas of NumPy and SciPy."""

import math

import numpy as np
import pytest
from scipy.special import expit, log_softmax, rel_entr
from scipy.stats import norm, poisson

import tracegrad as tg
import tracegrad.nn.functional as F
from tests.nn.checks import check, numbers, values
from tracegrad import nn

X, Y = values(4, 3), values(4, 3, seed=1)
P, T = values(4, 3, low=0.05, high=0.95), values(4, 3, seed=1, low=0.05, high=0.95)
SIGNS = np.array([1.0, -1.0, 1.0, -1.0])
COSINE = (X * Y).sum(1) / np.linalg.norm(X, axis=1) / np.linalg.norm(Y, axis=1)
COUNTS = np.array([[0.0, 1.0, 2.0], [3.0, 5.0, 8.0]])


def huber(d, delta):
    return np.where(np.abs(d) <= delta, d**2 / 2, delta * (np.abs(d) - delta / 2))


def positive(x):
    return np.maximum(x, 0)


# Class, its options, arguments, the loss per element.
LOSSES = [
    (nn.MSELoss, {}, (X, Y), (X - Y) ** 2),
    (nn.L1Loss, {}, (X, Y), np.abs(X - Y)),
    (nn.SmoothL1Loss, {"beta": 0.7}, (X, Y), huber(X - Y, 0.7) / 0.7),
    (nn.SmoothL1Loss, {"beta": 0.0}, (X, Y), np.abs(X - Y)),
    (nn.HuberLoss, {"delta": 0.7}, (X, Y), huber(X - Y, 0.7)),
    (nn.BCELoss, {}, (P, T), -T * np.log(P) - (1 - T) * np.log(1 - P)),
    (nn.BCELoss, {"weight": tg.tensor(T[0])}, (P, T), T[0] * (-T * np.log(P) - (1 - T) * np.log(1 - P))),
    (
        nn.BCEWithLogitsLoss,
        {"pos_weight": tg.tensor(P[0])},
        (X, T),
        -P[0] * T * np.log(expit(X)) - (1 - T) * np.log(expit(-X)),
    ),
    (nn.KLDivLoss, {}, (np.log(P), T), rel_entr(T, P)),
    (nn.KLDivLoss, {"log_target": True}, (np.log(P), np.log(T)), rel_entr(T, P)),
    (nn.GaussianNLLLoss, {"full": True}, (X, Y, P), -norm.logpdf(Y, X, np.sqrt(P))),
    (nn.GaussianNLLLoss, {}, (X, Y, P[:, 0]), -norm.logpdf(Y, X, np.sqrt(P[:, :1])) - math.log(2 * math.pi) / 2),
    (nn.CosineEmbeddingLoss, {"margin": 0.1}, (X, Y, SIGNS), np.where(SIGNS > 0, 1 - COSINE, positive(COSINE - 0.1))),
    (nn.MarginRankingLoss, {"margin": 0.2}, (X[:, 0], Y[:, 0], SIGNS), positive(-SIGNS * (X - Y)[:, 0] + 0.2)),
    (nn.HingeEmbeddingLoss, {"margin": 0.5}, (X[:, 0], SIGNS), np.where(SIGNS > 0, X[:, 0], positive(0.5 - X[:, 0]))),
    (nn.SoftMarginLoss, {}, (X[:, 0], SIGNS), np.log1p(np.exp(-SIGNS * X[:, 0]))),
    (
        nn.TripletMarginLoss,
        {"eps": 0.0},
        (X, Y, P),
        positive(np.linalg.norm(X - Y, axis=1) - np.linalg.norm(X - P, axis=1) + 1),
    ),
    (nn.PoissonNLLLoss, {"log_input": False, "eps": 0.0}, (P[:2], COUNTS), P[:2] - COUNTS * np.log(P[:2])),
    (nn.PoissonNLLLoss, {}, (X[:2], COUNTS), np.exp(X[:2]) - COUNTS * X[:2]),
]  # fmt: skip
IDS = [f"{loss.__name__}-{'-'.join(options)}" for loss, options, _, _ in LOSSES]


@pytest.mark.parametrize(("loss", "options", "args", "expected"), LOSSES, ids=IDS)
def test_values_and_reductions(loss, options, args, expected):
    tensors = [tg.tensor(a) for a in args]
    for reduction, reduced in (("none", expected), ("sum", expected.sum()), ("mean", expected.mean())):
        module = loss(**options, reduction=reduction)
        np.testing.assert_allclose(numbers(module(*tensors)), reduced, rtol=1e-9, atol=1e-12)
    assert repr(loss(**options)) == f"{loss.__name__}()"
    with pytest.raises(TypeError, match="reduction must be one of"):
        loss(**options, reduction="median")


def test_derivatives_of_all_in_one_program():
    smooth = [entry for entry in LOSSES if entry[0] not in (nn.CosineEmbeddingLoss, nn.HingeEmbeddingLoss)]

    def together(shift):
        return tuple(loss(**options)(args[0] + shift, *args[1:]) for loss, options, args, _ in smooth)

    check(together, np.array(1e-3))


def test_derivatives_with_respect_to_all_arguments():
    def some(x, y, v):
        return F.gaussian_nll_loss(x, y, v), F.kl_div(x, v), F.mse_loss(x, y, weight=v), F.cross_entropy(x, v)

    check(some, X[:2], Y[:2], P[:2])


def test_the_rest_of_poisson():
    rates = np.exp(X[:2])
    found = numbers(F.poisson_nll_loss(tg.tensor(X[:2]), COUNTS, full=True, reduction="none"))
    exact = -poisson.logpmf(COUNTS, rates)
    large = COUNTS > 1
    np.testing.assert_allclose(found[~large], exact[~large], rtol=1e-12)
    np.testing.assert_allclose(found[large], exact[large], atol=0.05)  # Stirling's formula lacks 1/(12 t)


def test_kl_divergence_of_a_batch():
    expected = rel_entr(T, P).sum() / 4
    np.testing.assert_allclose(numbers(nn.KLDivLoss("batchmean")(tg.tensor(np.log(P)), tg.tensor(T))), expected)
    zero = tg.tensor([0.0, 1.0])
    assert np.isfinite(numbers(F.kl_div(tg.tensor([-1.0, -2.0]), zero))).all()


# ---- classes ------------------------------------------------------------------------------------------------------

LOGITS = values(3, 5, 2)
CLASSES = np.array([[0, 3], [4, 4], [-100, 1]])
WEIGHT = values(5, low=0.1, high=1.0)


def cross_entropy(logits, classes, weight, smoothing, reduction):
    """By a loop over samples; classes of -100 are left out."""
    logs = log_softmax(logits, axis=1)
    losses, used = np.zeros(classes.shape), 0.0
    for place, c in np.ndenumerate(classes):
        if c != -100:
            of_sample = logs[(place[0], slice(None), *place[1:])]
            spread = -(weight * of_sample).sum() / len(weight)
            losses[place] = (1 - smoothing) * -weight[c] * of_sample[c] + smoothing * spread
            used += weight[c]
    return losses if reduction == "none" else losses.sum() / (used if reduction == "mean" else 1)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weight", [np.ones(5), WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_of_classes(smoothing, weight, reduction):
    given = tg.tensor(weight) if weight is WEIGHT else None
    module = nn.CrossEntropyLoss(given, reduction=reduction, label_smoothing=smoothing)
    expected = cross_entropy(LOGITS, CLASSES, weight, smoothing, reduction)
    np.testing.assert_allclose(numbers(module(tg.tensor(LOGITS), tg.tensor(CLASSES))), expected, rtol=1e-12)
    if not smoothing:
        module = nn.NLLLoss(given, reduction=reduction)
        logs = tg.tensor(log_softmax(LOGITS, axis=1))
        np.testing.assert_allclose(numbers(module(logs, tg.tensor(CLASSES))), expected, rtol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_cross_entropy_of_probabilities(smoothing, weight):
    target = values(3, 5, 2, low=0.0, high=1.0)
    mixed = (1 - smoothing) * target + smoothing / 5
    w = 1 if weight is None else weight[:, None]
    losses = -(mixed * log_softmax(LOGITS, axis=1) * w).sum(1)
    given = None if weight is None else tg.tensor(weight)
    for reduction, expected in (("none", losses), ("sum", losses.sum()), ("mean", losses.sum() / 6)):
        module = nn.CrossEntropyLoss(given, reduction=reduction, label_smoothing=smoothing)
        np.testing.assert_allclose(numbers(module(tg.tensor(LOGITS), tg.tensor(target))), expected, rtol=1e-12)


def test_one_sample_and_another_ignored_class():
    logs = log_softmax(LOGITS[0, :, 0])
    np.testing.assert_allclose(numbers(F.cross_entropy(tg.tensor(LOGITS[0, :, 0]), tg.tensor(3))), -logs[3])
    found = F.cross_entropy(tg.tensor(LOGITS[:, :, 0]), tg.tensor([1, 2, 1]), ignore_index=1, reduction="none")
    assert numbers(found)[[0, 2]].tolist() == [0.0, 0.0] and numbers(found)[1] > 0


def test_derivatives_of_classes():
    def both(x, w):
        return F.cross_entropy(x, CLASSES, w, label_smoothing=0.1), F.nll_loss(x, CLASSES, w)

    check(both, LOGITS, WEIGHT)


def test_large_logits():
    x = tg.tensor([[1e4, 0.0, -1e4]], requires_grad=True)
    loss = F.cross_entropy(x, tg.tensor([2]))
    loss.backward()
    assert loss.item() == 2e4 and numbers(x.grad).tolist() == [[1.0, 0.0, -1.0]]
    z = tg.tensor([800.0, -800.0], requires_grad=True)
    F.binary_cross_entropy_with_logits(z, tg.tensor([0.0, 1.0]), reduction="sum").backward()
    assert numbers(z.grad).tolist() == [1.0, -1.0]


@pytest.mark.parametrize("target", [-1, 5])
def test_classes_outside_are_refused_in_both_modes(target):
    x = LOGITS[:, :, 0]
    with pytest.raises(IndexError, match=f"the targets of cross_entropy: {target} is out of range"):
        F.cross_entropy(tg.tensor(x), tg.tensor([0, 1, target]))
    compiled = tg.jit(lambda x, t: F.cross_entropy(x, t))
    compiled(x, np.array([0, 1, 2]))
    with pytest.raises(IndexError):
        compiled(x, np.array([0, 1, target]))


def test_what_does_not_fit():
    x = tg.tensor(X)
    with pytest.raises(
        ValueError, match=r"cross_entropy: an input of shape \(4, 3\) does not fit a target of shape \(3,\)"
    ):
        F.cross_entropy(x, tg.tensor([0, 1, 2]))
    with pytest.raises(TypeError, match="the targets of cross_entropy must be integers, not float64"):
        F.cross_entropy(x, tg.tensor([0.0, 1.0, 2.0, 0.0]))
    with pytest.raises(ValueError, match="a weight for each of 3 classes is needed"):
        F.cross_entropy(x, tg.tensor([0, 1, 2, 0]), tg.ones(2))
    with pytest.warns(UserWarning, match=r"mse_loss: the input has shape \(4, 3\), the target \(3,\)"):
        F.mse_loss(x, tg.ones(3))
    with pytest.raises(ValueError, match=r"binary_cross_entropy: the input has shape \(4, 3\), the target \(3,\)"):
        F.binary_cross_entropy(tg.tensor(P), tg.ones(3))
    with pytest.raises(TypeError, match="probabilities between 0 and 1"):
        F.binary_cross_entropy(x, tg.tensor(T))
    with pytest.raises(TypeError, match="var has negative entries"):
        F.gaussian_nll_loss(x, x, x)
    with pytest.raises(ValueError, match="var has shape"):
        F.gaussian_nll_loss(x, x, tg.ones(2))
    with pytest.raises(TypeError, match="delta must be positive"):
        F.huber_loss(x, x, delta=0)


def test_weights_are_buffers():
    module = nn.CrossEntropyLoss(tg.ones(3))
    assert list(module.state_dict()) == ["weight"] and list(module.parameters()) == []
    assert list(nn.BCEWithLogitsLoss(pos_weight=tg.ones(3)).state_dict()) == ["pos_weight"]
