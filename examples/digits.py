"""Train a digit classifier: two layers in plain NumPy, gradients compiled by tracegrad. Run by `make demo`.

Data: the 1,797 handwritten digits of 8×8 pixels that ship with scikit-learn; a quarter is held out.
"""

import contextlib
import time

import numpy as np
from sklearn.datasets import load_digits

import tracegrad as tg


def network(params, images):
    return np.maximum(images @ params["W1"] + params["b1"], 0) @ params["W2"] + params["b2"]


def loss(params, images, labels):
    """Mean cross-entropy; `labels` are one-hot."""
    scores = network(params, images)
    scores = scores - np.max(scores, axis=1, keepdims=True)  # so that exp cannot overflow
    return np.mean(np.log(np.sum(np.exp(scores), axis=1)) - np.sum(scores * labels, axis=1))


def adam(params, grads, state, step, rate=1e-3, decay1=0.9, decay2=0.999):
    """One step of Adam (Kingma and Ba, arXiv:1412.6980), in place."""
    for name, grad in grads.items():
        mean, square = state.setdefault(name, (np.zeros_like(grad), np.zeros_like(grad)))
        mean += (1 - decay1) * (grad - mean)
        square += (1 - decay2) * (grad**2 - square)
        params[name] -= rate * (mean / (1 - decay1**step)) / (np.sqrt(square / (1 - decay2**step)) + 1e-8)


def check(loss_and_grad, params, batch, rng):
    """The compiled gradient against the same code run eagerly, and against a central difference along a random line."""
    compiled = loss_and_grad(params, *batch)[1]
    with tg.eager():
        eager = loss_and_grad(params, *batch)[1]
    line = {name: rng.standard_normal(p.shape) for name, p in params.items()}
    ahead, behind = (loss({k: p + h * line[k] for k, p in params.items()}, *batch) for h in (1e-6, -1e-6))
    slope, difference = sum(np.sum(compiled[k] * line[k]) for k in params), (ahead - behind) / 2e-6
    apart = max(np.max(np.abs(compiled[k] - eager[k])) for k in params)
    print(f"gradient: compiled and eager differ by {apart:.1e}; slope {slope:+.8f}, by differences {difference:+.8f}")
    assert apart < 1e-12 and abs(slope - difference) < 1e-7


def main(epochs=30, size=32):
    rng = np.random.default_rng(0)
    images, digits = load_digits(return_X_y=True)
    images, labels = images / 4 - 2, np.eye(10)[digits]
    held_out, train = np.split(rng.permutation(len(images)), [len(images) // 4])
    params = {"W1": rng.standard_normal((64, 128)) / 8, "b1": np.zeros(128)}
    params |= {"W2": rng.standard_normal((128, 10)) / 11, "b2": np.zeros(10)}
    loss_and_grad = tg.value_and_grad(loss)
    start = time.perf_counter()
    loss_and_grad(params, images[train[:size]], labels[train[:size]])
    print(f"first call, which traces, differentiates and compiles: {time.perf_counter() - start:.2f} s")
    check(loss_and_grad, params, (images[train[:size]], labels[train[:size]]), rng)

    history, state, spent, start = [], {}, 0.0, time.perf_counter()
    for epoch in range(1, epochs + 1):
        for rows in np.split(rng.permutation(train), range(size, len(train), size)):  # the last batch is smaller
            before = time.perf_counter()
            value, grads = loss_and_grad(params, images[rows], labels[rows])
            spent += time.perf_counter() - before
            history.append(float(value))
            adam(params, grads, state, len(history))
        recent = np.mean(history[-40:])
        right = np.mean(np.argmax(network(params, images[held_out]), axis=1) == digits[held_out])
        print(f"\repoch {epoch:2d}/{epochs}  loss {recent:.4f}  held-out accuracy {right:.1%} ", end="", flush=True)
    steps, seconds = len(history), time.perf_counter() - start
    print(f"\n{steps} steps in {seconds:.2f} s; loss and gradient take {spent / steps * 1e6:.0f} µs a step")
    assert right >= 0.97, f"held-out accuracy {right:.1%} is below 97 %"
    with contextlib.suppress(ImportError):  # without matplotlib there is no picture
        import matplotlib.pyplot as plt

        plt.semilogy(history)
        plt.gca().set(xlabel="step", ylabel="training loss")
        plt.savefig("digits_loss.png", dpi=120)
        print("loss drawn in digits_loss.png")


if __name__ == "__main__":
    main()
