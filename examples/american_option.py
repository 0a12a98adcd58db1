"""An American put by a binomial tree whose values are overwritten level by level (`tg.fori_loop`), with its greeks."""

import time

import numpy as np
from scipy.special import ndtr

import tracegrad as tg

STRIKE, MATURITY = 100.0, 1.0


def put(spot, rate, volatility, steps=500, american=True):
    """The price by the tree of Cox, Ross and Rubinstein (1979)."""
    dt = MATURITY / steps
    up = np.exp(volatility * np.sqrt(dt))
    chance = (np.exp(rate * dt) - 1 / up) / (up - 1 / up)
    discount = np.exp(-rate * dt)
    position = np.arange(steps + 1)
    values = np.maximum(STRIKE - spot * up ** (2.0 * position - steps), 0.0)

    def level(k, values):
        """The values one level earlier, in place; the last ones mean nothing any more."""
        depth = steps - 1 - k
        held = discount * (chance * values[1:] + (1 - chance) * values[:-1])
        if american:
            held = np.maximum(held, STRIKE - spot * up ** (2.0 * position[:-1] - depth))
        values[:-1] = held
        return values

    return tg.fori_loop(0, steps, level, values)[0]


def by_numpy(spot, rate, volatility, steps=500):
    """The American price by loops over shrinking arrays."""
    dt = MATURITY / steps
    up = np.exp(volatility * np.sqrt(dt))
    chance, discount = (np.exp(rate * dt) - 1 / up) / (up - 1 / up), np.exp(-rate * dt)
    values = np.maximum(STRIKE - spot * up ** np.arange(-steps, steps + 1, 2.0), 0)
    for depth in range(steps - 1, -1, -1):
        exercised = STRIKE - spot * up ** np.arange(-depth, depth + 1, 2.0)
        values = np.maximum(discount * (chance * values[1:] + (1 - chance) * values[:-1]), exercised)
    return values[0]


def european(spot, rate, volatility):
    """The European price in closed form."""
    spread = volatility * np.sqrt(MATURITY)
    d = (np.log(spot / STRIKE) + rate * MATURITY) / spread + spread / 2
    return STRIKE * np.exp(-rate * MATURITY) * ndtr(spread - d) - spot * ndtr(-d)


def main(steps=500):
    market = (95.0, 0.05, 0.3)
    greeks = tg.value_and_grad(lambda s, r, v: put(s, r, v, steps), argnums=(0, 1, 2))
    greeks(*market)  # compiles
    before = time.perf_counter()
    price, found = greeks(*market)
    seconds = time.perf_counter() - before
    before = time.perf_counter()
    expected = by_numpy(*market, steps)
    numpy_seconds = time.perf_counter() - before
    print(f"{steps} steps: price {price:.4f}, delta {found[0]:.4f}, rho {found[1]:.3f}, vega {found[2]:.3f}")
    print(f"  {seconds * 1e3:.2f} ms with three greeks; a NumPy loop takes {numpy_seconds * 1e3:.2f} ms for the price")
    slopes = []
    for k, h in enumerate((1e-5, 1e-7, 1e-7)):
        above, below = ([m + sign * h * (i == k) for i, m in enumerate(market)] for sign in (1, -1))
        slopes.append((by_numpy(*above, steps) - by_numpy(*below, steps)) / (2 * h))
    errors = abs(price - expected), np.max(np.abs(np.array(found) / slopes - 1))
    print(f"difference from the NumPy loop: price {errors[0]:.1e}, greeks (relative) {errors[1]:.1e}")
    assert errors[0] < 1e-9 and errors[1] < 1e-4

    tree, exact = tg.jit(lambda s, r, v: put(s, r, v, steps, american=False))(*market), european(*market)
    print(f"European put {tree:.4f}, Black-Scholes {exact:.4f}")
    assert abs(tree - exact) < 20 / steps


if __name__ == "__main__":
    main()
