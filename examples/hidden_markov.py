"""The forward algorithm of a hidden Markov model (`tg.scan`), fitted by its gradient.

The derivative of the log-likelihood by the log-probability of an observation is the posterior probability of the state
that made it, so one gradient is what the backward algorithm computes.
"""

import itertools
import time

import numpy as np
from scipy.optimize import minimize

import tracegrad as tg


def log_likelihood(logits, emissions):
    """logits: (k, k) transitions before normalisation; emissions: (n, k) log-probabilities of each observation."""
    k = logits.shape[0]
    transition = np.exp(logits - np.log(np.sum(np.exp(logits), axis=1, keepdims=True)))

    def step(state, emission):
        state = (state @ transition) * np.exp(emission)
        total = np.sum(state)
        return state / total, np.log(total)

    first = np.exp(emissions[0]) / k
    total = np.sum(first)
    _, logs = tg.scan(step, first / total, emissions[1:])
    return np.log(total) + np.sum(logs)


def gaussian(observations, means):
    """Log-densities of unit Gaussians, (n, k)."""
    return -0.5 * (observations[:, None] - means) ** 2 - 0.5 * np.log(2 * np.pi)


def negative(parameters, observations):
    """Of all parameters in one vector: k means, k·k transitions."""
    k = int(np.sqrt(len(parameters)))  # k + k² lies between k² and (k + 1)²
    return -log_likelihood(parameters[k:].reshape(k, k), gaussian(observations, parameters[:k]))


def over_all_paths(logits, emissions):
    """The same by summing over every sequence of states, and the posterior probabilities of the states."""
    n, k = emissions.shape
    transition = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    total, posterior = 0.0, np.zeros((n, k))
    for path in itertools.product(range(k), repeat=n):
        p = np.exp(emissions[range(n), path].sum()) / k * np.prod(transition[path[:-1], path[1:]])
        total += p
        posterior[range(n), path] += p
    return np.log(total), posterior / total


def simulate(n, means, stay=0.95, seed=0):
    rng = np.random.default_rng(seed)
    state, states = 0, []
    for _ in range(n):
        if rng.random() > stay:
            state = rng.integers(len(means))
        states.append(state)
    return np.asarray(means)[states] + rng.standard_normal(n)


def main(n=1000):
    means = np.array([-4.0, 0.0, 4.0])
    observations = simulate(n, means)
    objective = tg.value_and_grad(negative)
    start = np.concatenate([[-1.0, 0.2, 1.0], 2 * np.eye(3).ravel()])
    objective(start, observations)  # compiles
    before = time.perf_counter()
    found = minimize(objective, start, args=(observations,), jac=True, method="BFGS")
    seconds = time.perf_counter() - before
    print(f"{n} observations, {found.nfev} values and gradients in {seconds * 1e3:.1f} ms")
    print(f"means {np.round(np.sort(found.x[:3]), 2)} of {means}")
    assert np.max(np.abs(np.sort(found.x[:3]) - means)) < 0.3

    logits, emissions = found.x[3:].reshape(3, 3), gaussian(observations[:9], found.x[:3])
    value, gradient = tg.value_and_grad(log_likelihood, argnums=1)(logits, emissions)
    expected, posterior = over_all_paths(logits, emissions)
    errors = abs(value - expected), np.max(np.abs(gradient - posterior))
    print(f"difference from the sum over 3⁹ paths: value {errors[0]:.1e}, gradient {errors[1]:.1e}")
    assert max(errors) < 1e-10


if __name__ == "__main__":
    main()
