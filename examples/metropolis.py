"""Metropolis sampling of the paths of a quantum oscillator (`tg.scan`, `tg.random`), and how an average depends on ω.

A path of n points has the weight exp(-S). Each step proposes to move one point. The derivative of an average is
d<O>/dω = <O><∂S/∂ω> - <O ∂S/∂ω>, where ∂S/∂ω is a gradient of the action. All is Gaussian, so the averages are known.
"""

import time

import numpy as np

import tracegrad as tg

POINTS, SPACING, FREQUENCY = 8, 0.5, 1.0


def action(path, frequency):
    """Kinetic and potential energy of a closed path."""
    velocity = (np.roll(path, -1) - path) / SPACING
    return SPACING * np.sum(0.5 * velocity**2 + 0.5 * frequency**2 * path**2)


def sample(key, frequency, sweeps, width=1.2):
    """Paths after each sweep over all points, (sweeps, POINTS), and the share of proposals that were accepted."""

    def sweep(path, key):
        moves, chances = tg.random.split(key)
        shifts = width * tg.random.uniform(moves, (POINTS,), low=-1.0, high=1.0)
        levels = np.log(tg.random.uniform(chances, (POINTS,)))

        def move(k, carry):
            path, accepted = carry
            proposal = np.where(np.arange(POINTS) == k, path + shifts[k], path)
            accept = levels[k] < action(path, frequency) - action(proposal, frequency)
            return np.where(accept, proposal, path), accepted + accept

        path, accepted = tg.fori_loop(0, POINTS, move, (path, 0))
        return path, (path, accepted)

    _, (paths, accepted) = tg.scan(sweep, np.zeros(POINTS), tg.random.split(key, sweeps))
    return paths, np.mean(accepted) / POINTS


def exact(frequency):
    """<x²> and its derivative by ω: the action is path·A·path / 2."""
    step = np.roll(np.eye(POINTS), 1, axis=0)
    matrix = (2 * np.eye(POINTS) - step - step.T) / SPACING + SPACING * frequency**2 * np.eye(POINTS)
    covariance = np.linalg.inv(matrix)
    return covariance[0, 0], -2 * SPACING * frequency * (covariance @ covariance)[0, 0]


def main(sweeps=40_000):
    run = tg.jit(lambda key, frequency: sample(key, frequency, sweeps))
    run(tg.random.key(1), FREQUENCY)  # compiles
    before = time.perf_counter()
    paths, accepted = run(tg.random.key(0), FREQUENCY)
    seconds = time.perf_counter() - before
    print(f"{sweeps} sweeps over {POINTS} points in {seconds * 1e3:.0f} ms, {100 * accepted:.0f} % accepted")

    slope = tg.jit(tg.vmap(tg.grad(action, argnums=1), in_axes=(0, None)))
    before = time.perf_counter()
    slopes = slope(paths, FREQUENCY)
    first = time.perf_counter() - before
    squares = np.mean(paths**2, axis=1)
    found = np.mean(squares), np.mean(squares) * np.mean(slopes) - np.mean(squares * slopes)
    expected = exact(FREQUENCY)
    print(f"<x²> = {found[0]:.4f} (exactly {expected[0]:.4f}), d<x²>/dω = {found[1]:.3f} (exactly {expected[1]:.3f})")
    print(f"  ∂S/∂ω of all paths took {first * 1e3:.0f} ms, compilation included")
    assert abs(found[0] / expected[0] - 1) < 0.05 and abs(found[1] / expected[1] - 1) < 0.15
    np.testing.assert_allclose(slopes, SPACING * FREQUENCY * np.sum(paths**2, axis=1), rtol=1e-12)
    again, _ = sample(tg.random.key(0), FREQUENCY, 5)  # eagerly: the same random numbers
    np.testing.assert_allclose(again, paths[:5], rtol=1e-12)


if __name__ == "__main__":
    main()
