"""Training steps of small networks: the same losses, parameters and buffers eagerly and as one compiled program."""

import copy

import numpy as np

import tracegrad as tg
import tracegrad.nn.functional as F
from tests.nn.checks import filled, numbers, values
from tracegrad import nn


def steps(net, loss_of, batches, compiled):
    """Losses of plain gradient descent on these batches."""

    def step(*batch):
        loss = loss_of(net, *batch)
        loss.backward()
        with tg.no_grad():
            for p in net.parameters():
                p.sub_(0.1 * p.grad)
                p.grad = None
        return loss.detach()

    run = tg.jit(step) if compiled else step
    tg.manual_seed(7)
    return [run(*map(tg.tensor, batch)).item() for batch in batches]


def assert_same_training(net, loss_of, batches):
    eager, compiled = net, copy.deepcopy(net)
    losses = steps(eager, loss_of, batches, compiled=False)
    np.testing.assert_allclose(steps(compiled, loss_of, batches, compiled=True), losses, rtol=1e-9)
    for name, value in eager.state_dict().items():
        np.testing.assert_allclose(numbers(compiled.state_dict()[name]), numbers(value), rtol=1e-8, atol=1e-10)
    return losses


def test_a_convolutional_network():
    net = filled(
        nn.Sequential(
            nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2),
            nn.Flatten(), nn.Linear(8, 3),
        )
    )  # fmt: skip
    classes = np.array([0, 1, 2, 1, 0, 2])
    batches = [(values(6, 1, 4, 4, seed=seed) + classes[:, None, None, None], classes) for seed in range(4)]
    assert_same_training(net, lambda net, x, y: F.cross_entropy(net(x), y), batches)


class Block(nn.Module):
    """A causal transformer block over tokens."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(5, 4), nn.Embedding(3, 4)
        self.first, self.second = nn.LayerNorm(4), nn.LayerNorm(4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 4))
        self.head = nn.Linear(4, 5, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(np.arange(3))
        y = self.first(x)
        x = x + self.attention(y, y, y, attn_mask=np.triu(np.ones((3, 3), bool), 1), need_weights=False)[0]
        return self.head(x + self.mlp(self.second(x)))


def test_a_transformer_block():
    tokens = np.array([[0, 1, 2], [3, 4, 0]])
    following = np.array([[1, 2, 3], [4, 0, 1]])

    def loss_of(net, x, y):
        return F.cross_entropy(net(x).reshape(-1, 5), y.reshape(-1))

    losses = assert_same_training(filled(Block()), loss_of, [(tokens, following)] * 4)
    assert losses[-1] < losses[0]


def test_a_recurrent_network():
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(2, 3), nn.Linear(3, 1)

        def forward(self, x):
            return self.head(self.lstm(x)[0][-1])

    x = values(4, 5, 2)
    batches = [(x, x.sum((0, 2))[:, None])] * 3
    losses = assert_same_training(filled(Reader()), lambda net, x, y: F.mse_loss(net(x), y), batches)
    assert losses[-1] < losses[0]


def test_gradients_of_parameters_by_value_and_grad():
    net = filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))
    x, y = values(5, 3), values(5, 1, seed=1)

    def loss(parameters):
        hidden = F.tanh(F.linear(x, parameters["0.weight"], parameters["0.bias"]))
        return F.mse_loss(F.linear(hidden, parameters["2.weight"], parameters["2.bias"]), y)

    state = {name: numbers(p) for name, p in net.named_parameters()}
    value, gradient = tg.value_and_grad(loss)(state)
    F.mse_loss(net(x), y).backward()
    for name, p in net.named_parameters():
        np.testing.assert_allclose(gradient[name], numbers(p.grad), rtol=1e-10)
    np.testing.assert_allclose(value, numbers(F.mse_loss(net(x), y)), rtol=1e-12)
