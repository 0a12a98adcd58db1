"""The noise of a sensor and of the motion it follows, from the likelihood that a Kalman filter computes (`tg.scan`)."""

import time

import numpy as np
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import tracegrad as tg

DT = 0.1
MOTION = np.array([[1.0, DT], [0.0, 1.0]])
NOISE = np.array([[DT**3 / 3, DT**2 / 2], [DT**2 / 2, DT]])
PRIOR = 10.0 * np.eye(2)


def negative_log_likelihood(theta, observations):
    """theta: logarithms of the variances of acceleration and of the sensor; observations: positions, one per step."""
    motion, sensor = np.exp(theta[0]) * NOISE, np.exp(theta[1])

    def step(state, y):
        mean, covariance = state
        mean, covariance = MOTION @ mean, MOTION @ covariance @ MOTION.T + motion
        surprise, variance = y - mean[0], covariance[0, 0] + sensor
        gain = covariance[:, 0] / variance
        state = mean + gain * surprise, covariance - np.outer(gain, gain) * variance
        return state, 0.5 * (np.log(2 * np.pi * variance) + surprise**2 / variance)

    return np.sum(tg.scan(step, (np.zeros(2), PRIOR), observations)[1])


def as_one_gaussian(theta, observations):
    """The same by the joint distribution of all observations, without a filter."""
    n = len(observations)
    transition = [np.eye(2)]
    for _ in range(n):
        transition.append(MOTION @ transition[-1])
    state, covariances = PRIOR, []
    for _ in range(n):
        state = MOTION @ state @ MOTION.T + np.exp(theta[0]) * NOISE
        covariances.append(state)
    joint = np.array([[(transition[abs(i - j)] @ covariances[min(i, j)])[0, 0] for j in range(n)] for i in range(n)])
    return -multivariate_normal(np.zeros(n), joint + np.exp(theta[1]) * np.eye(n)).logpdf(observations)


def simulate(n, acceleration=0.5, sensor=0.3, seed=0):
    rng = np.random.default_rng(seed)
    state, root = np.zeros(2), np.linalg.cholesky(NOISE) * np.sqrt(acceleration)
    observations = []
    for _ in range(n):
        state = MOTION @ state + root @ rng.standard_normal(2)
        observations.append(state[0] + np.sqrt(sensor) * rng.standard_normal())
    return np.array(observations)


def main(n=1000):
    observations = simulate(n)
    objective = tg.value_and_grad(negative_log_likelihood)
    start = np.zeros(2)
    objective(start, observations)  # compiles
    before = time.perf_counter()
    found = minimize(objective, start, args=(observations,), jac=True, method="BFGS")
    seconds = time.perf_counter() - before
    print(f"{n} observations, {found.nfev} values and gradients in {seconds * 1e3:.1f} ms")
    print(f"variances: acceleration {np.exp(found.x[0]):.2f} (0.5), sensor {np.exp(found.x[1]):.3f} (0.3)")

    few = observations[:60]
    value, gradient = objective(found.x, few)
    steps = 1e-5 * np.eye(2)
    slopes = [(as_one_gaussian(found.x + d, few) - as_one_gaussian(found.x - d, few)) / 2e-5 for d in steps]
    error = abs(value - as_one_gaussian(found.x, few)), np.max(np.abs(gradient - slopes))
    print(f"difference from the joint Gaussian of 60 observations: value {error[0]:.1e}, gradient {error[1]:.1e}")
    assert error[0] < 1e-9 and error[1] < 1e-5


if __name__ == "__main__":
    main()
