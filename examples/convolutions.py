"""A small convolutional network on handwritten digits: the same training, operation by operation and compiled.

The whole step — zeroing gradients, the model with batch norm and dropout, backward, the optimizer's update — is one
compiled program. Data: the digits that ship with scikit-learn; a quarter is held out.
"""

import time

import numpy as np
from sklearn.datasets import load_digits

import tracegrad as tg
from tracegrad import nn


class Network(nn.Module):
    """Two convolutions with batch norm, pooling, dropout and a linear layer."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(64, 10))

    def forward(self, x):
        return self.head(self.features(x))


def train(images, digits, batches, compiled):
    """The trained model and the losses."""
    tg.manual_seed(0)
    model = Network()
    optimizer = tg.optim.Adam(model.parameters(), lr=3e-3)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = tg.jit(step) if compiled else step
    losses, start = [], None
    for rows in batches:
        losses.append(run(tg.tensor(images[rows]), tg.tensor(digits[rows])).item())
        start = start or time.perf_counter()  # the first step compiles
    each = (time.perf_counter() - start) / max(len(batches) - 1, 1)
    how = "compiled" if compiled else "eager"
    print(f"{how:9} loss {losses[0]:.4f} -> {losses[-1]:.4f}, {each * 1e3:.2f} ms a step")
    return model, losses


def main(steps=300, size=32):
    rng = np.random.default_rng(0)
    images, digits = load_digits(return_X_y=True)
    images = images.reshape(-1, 1, 8, 8) / 8 - 1
    held_out, rest = np.split(rng.permutation(len(images)), [len(images) // 4])
    batches = [rng.choice(rest, size) for _ in range(steps)]
    _, eager = train(images, digits, batches, compiled=False)
    model, compiled = train(images, digits, batches, compiled=True)
    # Rounding grows from step to step, so the losses agree most closely at first.
    np.testing.assert_allclose(compiled[:50], eager[:50], rtol=1e-8)
    np.testing.assert_allclose(compiled, eager, rtol=1e-2, atol=1e-3)
    model.eval()
    with tg.no_grad():
        scores = tg.jit(model)(tg.tensor(images[held_out]))
    right = np.mean(np.argmax(scores.numpy(), axis=1) == digits[held_out])
    print(f"held-out accuracy {right:.1%}")
    assert right > 0.9 or steps < 300


if __name__ == "__main__":
    main()
