"""`np`, `special`, `solve_lower` and `scan` of the peer this process measures, for the code in numpy_rows.py.

JAX and autograd ask their users to import NumPy under another name; tracegrad's users import NumPy. A worker process
measures one peer, named by the environment variable BENCH_PEER.
"""

from __future__ import annotations

import os

PEER = os.environ["BENCH_PEER"]

if PEER == "tracegrad":
    import numpy as np

    import tracegrad as tg

    special = tg.scipy.special

    def solve_lower(matrix, rhs):
        return tg.scipy.linalg.solve_triangular(matrix, rhs, lower=True)

    scan = tg.scan

elif PEER == "jax":
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as np
    import jax.scipy.special as special

    def solve_lower(matrix, rhs):
        return jax.scipy.linalg.solve_triangular(matrix, rhs, lower=True)

    scan = jax.lax.scan

elif PEER == "autograd":
    import autograd.numpy as np
    import autograd.scipy.special as special

    def solve_lower(matrix, rhs):
        return np.linalg.solve(matrix, rhs)

elif PEER == "numpy":  # not a peer: the tests check the rows' values with it
    import numpy as np
    import scipy.special as special
    from scipy.linalg import solve_triangular

    def solve_lower(matrix, rhs):
        return solve_triangular(matrix, rhs, lower=True)

else:
    raise ImportError(f"no NumPy namespace for {PEER!r}")

if PEER in ("autograd", "numpy"):

    def scan(body, carry, xs, length=None):
        """`jax.lax.scan` as a Python loop; xs is None or a tuple of arrays, ys are numbers."""
        ys = []
        for t in range(len(xs[0]) if length is None else length):
            carry, y = body(carry, None if xs is None else tuple(x[t] for x in xs))
            ys.append(y)
        return carry, np.array(ys)


__all__ = ["np", "scan", "solve_lower", "special"]
