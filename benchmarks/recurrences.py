"""`python -m benchmarks.recurrences`: the examples with loops beside JAX and HIPS autograd, in one process, by turns.

Each peer's program is written as its users would: JAX with `lax.while_loop` and `fori_loop`, which it differentiates
in forward mode where the number of steps depends on the data (reverse mode it refuses: –), autograd with Python loops.
All must agree with tracegrad's value and gradient.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import autograd
import autograd.numpy as anp
import jax
import jax.numpy as jnp
import numpy as np

import tracegrad as tg
from examples import american_option, chemistry, fixed_point, lotka_volterra, metropolis, time_warping

jax.config.update("jax_enable_x64", True)
PEERS = ("tracegrad", "JAX", "autograd")
SLOW = 3.0  # seconds: what takes longer is run once


class Jax:
    """What the programs below need of JAX."""

    xp = jnp
    while_loop = staticmethod(jax.lax.while_loop)
    stop = staticmethod(jax.lax.stop_gradient)

    @staticmethod
    def fori(count: int, body: Callable[..., Any], carry: Any) -> Any:
        return jax.lax.fori_loop(0, count, body, carry)


class Autograd:
    """The same of autograd, whose loops are Python's."""

    xp = anp
    stop = staticmethod(autograd.extend.primitive(lambda x: x))  # without a derivative rule nothing flows back

    @staticmethod
    def while_loop(condition: Callable[..., Any], step: Callable[..., Any], carry: Any) -> Any:
        while condition(carry):
            carry = step(carry)
        return carry

    @staticmethod
    def fori(count: int, body: Callable[..., Any], carry: Any) -> Any:
        for k in range(count):
            carry = body(k, carry)
        return carry


autograd.extend.defvjp(Autograd.stop, lambda _, x: lambda g: anp.zeros_like(g))


def controlled(
    peer: Any, attempt: Callable[..., Any], end: float, first: float, y0: Any, growth: tuple[float, float]
) -> Any:  # fmt: skip
    """Steps of controlled length: `attempt(h, y)` gives the new state and the size of its error."""
    xp = peer.xp

    def step(carry: Any) -> Any:
        t, h, y = carry
        last = h >= end - t
        h = xp.where(last, end - t, h)
        new, error = attempt(h, y)
        size = peer.stop(xp.sqrt(xp.mean(error**2)))
        accepted = size <= 1
        longer = h * xp.clip(growth[0] * (size + 1e-12) ** growth[1], 0.2, 5.0)
        return xp.where(accepted, xp.where(last, end, t + h), t), longer, xp.where(accepted, new, y)

    return peer.while_loop(lambda carry: carry[0] < end, step, (0.0, first, y0))[2]


def adaptive(peer: Any, p: Any, tolerance: float = 1e-9) -> Any:
    xp, tables = peer.xp, lotka_volterra

    def slope(y: Any) -> Any:
        return xp.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]])

    def attempt(h: Any, y: Any) -> Any:
        slopes: list[Any] = []
        for row in tables.STAGES:
            slopes.append(slope(y + h * sum((w * k for w, k in zip(row, slopes) if w), 0 * y)))
        new = y + h * sum(w * k for w, k in zip(tables.RESULT, slopes) if w)
        slopes.append(slope(new))
        error = h * sum(w * k for w, k in zip(tables.ERROR, slopes) if w)
        return new, error / (tolerance * (1 + xp.abs(y)))

    return controlled(peer, attempt, tables.T, 0.01, xp.array(tables.Y0), (0.9, -0.2))[1]


def stiff(peer: Any, k: Any, tolerance: float = 1e-8) -> Any:
    xp, solve = peer.xp, peer.xp.linalg.solve
    d, e = 1 / (2 + np.sqrt(2)), 6 + np.sqrt(2)

    def reaction(y: Any) -> Any:
        first, second, third = k[0] * y[0], k[1] * y[1] ** 2, k[2] * y[1] * y[2]
        return xp.stack([third - first, first - third - second, second])

    def attempt(h: Any, y: Any) -> Any:
        top = xp.stack([-k[0], k[2] * y[2], k[2] * y[1]])
        bottom = xp.stack([0 * y[0], 2 * k[1] * y[1], 0 * y[0]])
        w = xp.eye(3) - h * d * xp.stack([top, -top - bottom, bottom])
        f0 = reaction(y)
        k1 = solve(w, f0)
        f1 = reaction(y + h / 2 * k1)
        k2 = solve(w, f1 - k1) + k1
        new = y + h * k2
        k3 = solve(w, reaction(new) - e * (k2 - f1) - 2 * (k1 - f0))
        return new, h / 6 * (k1 - 2 * k2 + k3) / (tolerance + 1e3 * tolerance * xp.abs(y))

    return controlled(peer, attempt, chemistry.T, 1e-5, xp.array(chemistry.START), (0.8, -1 / 3))[2]


def kepler(peer: Any, m: Any, e: Any) -> Any:
    xp = peer.xp

    def step(carry: Any) -> Any:
        x, _ = carry
        change = (x - e * xp.sin(x) - m) / (1 - e * xp.cos(x))
        return x - change, xp.max(xp.abs(change))

    return xp.sum(peer.while_loop(lambda carry: carry[1] > fixed_point.TOLERANCE, step, (m + e, 1.0))[0])


def option(peer: Any, spot: Any, rate: Any, volatility: Any, steps: int = 500) -> Any:
    xp, strike = peer.xp, american_option.STRIKE
    dt = american_option.MATURITY / steps
    up = xp.exp(volatility * xp.sqrt(dt))
    chance, discount = (xp.exp(rate * dt) - 1 / up) / (up - 1 / up), xp.exp(-rate * dt)
    position = np.arange(steps + 1)

    def level(k: Any, values: Any) -> Any:
        held = discount * (chance * values[1:] + (1 - chance) * values[:-1])
        exercised = strike - spot * up ** (2.0 * position[: len(held)] - (steps - 1 - k))
        held = xp.maximum(held, exercised)
        return held if peer is Autograd else values.at[:-1].set(held)

    return peer.fori(steps, level, xp.maximum(strike - spot * up ** (2.0 * position - steps), 0.0))[0]


def warping(peer: Any, a: Any, b: Any) -> Any:
    n, m = len(a), len(b)
    if peer is Autograd:  # nothing is modified in place there
        above = [0.0] + [np.inf] * m
        for i in range(n):
            row = [np.inf]
            for j in range(m):
                row.append((a[i] - b[j]) ** 2 + anp.minimum(anp.minimum(above[j], above[j + 1]), row[j]))
            above = row
        return above[m]

    def row_of(i: Any, table: Any) -> Any:
        def cell(j: Any, table: Any) -> Any:
            best = jnp.minimum(jnp.minimum(table[i, j], table[i, j + 1]), table[i + 1, j])
            return table.at[i + 1, j + 1].set((a[i] - b[j]) ** 2 + best)

        return jax.lax.fori_loop(0, m, cell, table)

    table = jnp.full((n + 1, m + 1), jnp.inf).at[0, 0].set(0.0)
    return jax.lax.fori_loop(0, n, row_of, table)[n, m]


def walk(peer: Any, shifts: Any, levels: Any) -> Any:
    """The mean square of a Metropolis walk over paths, for random numbers that are given."""
    xp, points = peer.xp, metropolis.POINTS

    def action(path: Any) -> Any:
        velocity = (xp.roll(path, -1) - path) / metropolis.SPACING
        return metropolis.SPACING * xp.sum(0.5 * velocity**2 + 0.5 * path**2)

    def sweep(s: Any, carry: Any) -> Any:
        def move(k: Any, path: Any) -> Any:
            proposal = xp.where(np.arange(points) == k, path + shifts[s, k], path)
            return xp.where(levels[s, k] < action(path) - action(proposal), proposal, path)

        path, total = carry
        path = peer.fori(points, move, path)
        return path, total + xp.mean(path**2)

    return peer.fori(len(shifts), sweep, (xp.zeros(points), 0.0))[1]


class Ours(Jax):
    """tracegrad's loops, for the one program whose example draws its random numbers itself."""

    xp = np
    fori = staticmethod(lambda count, body, carry: tg.fori_loop(0, count, body, carry))


def rows() -> dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...], str]]:
    """By name: tracegrad's program, the peers', the arguments, and how JAX differentiates it."""
    rng = np.random.default_rng(0)
    orbits = rng.uniform(0, 2 * np.pi, 1000), rng.uniform(0, 0.9, 1000)
    a, b = np.sin(np.linspace(0, 6, 120)), np.sin(6 * np.linspace(0, 1, 150) ** 1.5)
    draws = rng.uniform(-1.2, 1.2, (2000, metropolis.POINTS)), np.log(rng.uniform(size=(2000, metropolis.POINTS)))
    return {
        "Dormand-Prince": (
            lambda p: lotka_volterra.adaptive(p, lotka_volterra.Y0)[1], adaptive, (lotka_volterra.P,), "forward",
        ),
        "stiff reaction": (
            lambda k: chemistry.solve(k, chemistry.START)[0][2], stiff, (chemistry.RATES,), "forward",
        ),
        "Kepler by Newton": (lambda m, e: np.sum(fixed_point.kepler(m, e)), kepler, orbits, "no"),
        "American option": (american_option.put, option, (95.0, 0.05, 0.3), "reverse"),
        "time warping": (time_warping.distance, warping, (a, b), "reverse"),
        "Metropolis": (lambda s, v: walk(Ours, s, v), walk, draws, "value"),
    }  # fmt: skip


def programs(name: str) -> dict[str, Callable[[], Any]]:
    """What each peer runs for a row: a call that gives the value and the gradients."""
    ours, theirs, args, mode = rows()[name]
    which = tuple(range(len(args)))

    def in_jax(*args: Any) -> Any:
        return theirs(Jax, *args)

    if mode == "value":
        mine, jitted = tg.jit(ours), jax.jit(in_jax)
        return {
            "tracegrad": lambda: (mine(*args), ()),
            "JAX": lambda: (float(jitted(*args)), ()),
            "autograd": lambda: (theirs(Autograd, *args), ()),
        }
    mine = tg.value_and_grad(ours, argnums=which)
    by_autograd = autograd.value_and_grad(lambda args: theirs(Autograd, *args))
    found = {"tracegrad": lambda: mine(*args)}
    if mode == "reverse":
        reverse = jax.jit(jax.value_and_grad(in_jax, argnums=which))
        found["JAX"] = lambda: jax.block_until_ready(reverse(*args))
    elif mode == "forward":
        forward = jax.jit(lambda *args: (in_jax(*args), jax.jacfwd(in_jax, argnums=which)(*args)))
        found["JAX"] = lambda: jax.block_until_ready(forward(*args))
    return {**found, "autograd": lambda: by_autograd(tuple(map(np.asarray, args)))}


def measure(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, float]]:
    """Per peer the seconds of the first call and of the best one after it; all must give the same."""
    found, expected = {}, None
    calls = {}
    for name, run in runs.items():
        started = time.perf_counter()
        value, gradient = run()
        first = time.perf_counter() - started
        numbers = np.concatenate([np.ravel(np.asarray(g, float)) for g in (value, *gradient)])
        if expected is None:
            expected = numbers
        np.testing.assert_allclose(numbers, expected, rtol=1e-5, atol=1e-8, err_msg=name)
        found[name] = first, first if first > SLOW and name == "autograd" else np.inf
        if np.isinf(found[name][1]):
            started = time.perf_counter()
            run()
            calls[name] = max(1, int(0.05 / (time.perf_counter() - started + 1e-9)))
    for _ in range(rounds):
        for name, count in calls.items():
            started = time.perf_counter()
            for _ in range(count):
                runs[name]()
            found[name] = found[name][0], min(found[name][1], (time.perf_counter() - started) / count)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recurrences", description="loops beside peers")
    parser.add_argument("--rows", help=f"comma-separated, of {', '.join(rows())}")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    print("| value and gradient, ms (first call, s) | tracegrad | JAX | autograd | ratio to the best |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in given.rows.split(",") if given.rows else rows():
        found = measure(programs(name), given.rounds)
        cells = [f"{found[p][1] * 1e3:.3g} ({found[p][0]:.2f})" if p in found else "–" for p in PEERS]
        best = min(found[p][1] for p in found if p != "tracegrad")
        print(f"| {name} | {' | '.join(cells)} | {found['tracegrad'][1] / best:.3f} |", flush=True)


if __name__ == "__main__":
    main()
