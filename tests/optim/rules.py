"""The published update rules on NumPy arrays: what the optimizers are compared with. One generator per rule.

Each yields the parameter after every step for the gradients sent in; formulas are those of the papers, not of any code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

Gradient = Callable[[np.ndarray], np.ndarray]


def sgd(p, gradient, lr, momentum=0, dampening=0, weight_decay=0, nesterov=False) -> Iterator[np.ndarray]:
    b = None
    while True:
        d = gradient(p) + weight_decay * p
        b = d if b is None else momentum * b + (1 - dampening) * d
        p = p - lr * (d if momentum == 0 else d + momentum * b if nesterov else b)
        yield p


def adam(
    p, gradient, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, decoupled=False
) -> Iterator[np.ndarray]:
    m = v = largest = np.zeros_like(p)
    b1, b2 = betas
    t = 0
    while True:
        t += 1
        g = gradient(p)
        if decoupled:
            p = p - lr * weight_decay * p
        else:
            g = g + weight_decay * p
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        largest = np.maximum(largest, v)
        second = (largest if amsgrad else v) / (1 - b2**t)
        p = p - lr * (m / (1 - b1**t)) / (np.sqrt(second) + eps)
        yield p


def adamax(p, gradient, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0) -> Iterator[np.ndarray]:
    m = u = np.zeros_like(p)
    t = 0
    while True:
        t += 1
        g = gradient(p) + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        u = np.maximum(betas[1] * u, np.abs(g) + eps)
        p = p - lr / (1 - betas[0] ** t) * m / u
        yield p


def nadam(p, gradient, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3) -> Iterator[np.ndarray]:
    m = v = np.zeros_like(p)
    product, t = 1.0, 0
    while True:
        t += 1
        g = gradient(p) + weight_decay * p
        mu, following = (betas[0] * (1 - 0.5 * 0.96 ** (k * momentum_decay)) for k in (t, t + 1))
        product *= mu
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g**2
        first = following * m / (1 - product * following) + (1 - mu) * g / (1 - product)
        p = p - lr * first / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
        yield p


def radam(p, gradient, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0) -> Iterator[np.ndarray]:
    m = v = np.zeros_like(p)
    b1, b2 = betas
    limit, t = 2 / (1 - b2) - 1, 0
    while True:
        t += 1
        g = gradient(p) + weight_decay * p
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        first = m / (1 - b1**t)
        rho = limit - 2 * t * b2**t / (1 - b2**t)
        if rho > 5:
            r = np.sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho))
            p = p - lr * first * r * np.sqrt(1 - b2**t) / (np.sqrt(v) + eps)
        else:
            p = p - lr * first
        yield p


def rmsprop(p, gradient, lr, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False) -> Iterator[np.ndarray]:
    s = mean = b = np.zeros_like(p)
    while True:
        g = gradient(p) + weight_decay * p
        s, mean = alpha * s + (1 - alpha) * g**2, alpha * mean + (1 - alpha) * g
        size = s - mean**2 if centered else s
        b = momentum * b + g / (np.sqrt(size) + eps)
        p = p - lr * b
        yield p


def adagrad(
    p, gradient, lr, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10
) -> Iterator[np.ndarray]:
    s = np.full_like(p, initial_accumulator_value)
    t = 0
    while True:
        t += 1
        g = gradient(p) + weight_decay * p
        s = s + g**2
        p = p - lr / (1 + (t - 1) * lr_decay) * g / (np.sqrt(s) + eps)
        yield p


def adadelta(p, gradient, lr, rho=0.9, eps=1e-6, weight_decay=0) -> Iterator[np.ndarray]:
    s = a = np.zeros_like(p)
    while True:
        g = gradient(p) + weight_decay * p
        s = rho * s + (1 - rho) * g**2
        change = np.sqrt(a + eps) / np.sqrt(s + eps) * g
        a = rho * a + (1 - rho) * change**2
        p = p - lr * change
        yield p
