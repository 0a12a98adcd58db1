"""Random numbers that are the same stream in eager and compiled code.

    tg.manual_seed(0); x = tg.random.normal((3, 4))          # from the global generator, which moves on
    key = tg.random.key(0); x = tg.random.normal(key, (3, 4))  # from a key: the same numbers each time

The generator is Threefry2x32 with 20 rounds (Salmon et al., SC11), a function of a key and a counter.
"""

from tracegrad.random.distributions import (
    bernoulli,
    beta,
    categorical,
    cauchy,
    chisquare,
    choice,
    dirichlet,
    exponential,
    gamma,
    gumbel,
    laplace,
    logistic,
    lognormal,
    normal,
    permutation,
    randint,
    uniform,
)
from tracegrad.random.generator import (
    Generator,
    default_generator,
    fold_in,
    fork_rng,
    get_state,
    initial_seed,
    key,
    manual_seed,
    seed,
    set_state,
    split,
)

__all__ = [
    "Generator",
    "bernoulli",
    "beta",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "default_generator",
    "dirichlet",
    "exponential",
    "fold_in",
    "fork_rng",
    "gamma",
    "get_state",
    "gumbel",
    "initial_seed",
    "key",
    "laplace",
    "logistic",
    "lognormal",
    "manual_seed",
    "normal",
    "permutation",
    "randint",
    "seed",
    "set_state",
    "split",
    "uniform",
]
