"""Your own rule: a Function with forward and backward, checked by gradcheck, used in compiled code.

The rule here is for x = A⁻¹ b with a tridiagonal A, which SciPy solves in linear time. No derivative of the solver is
needed: with g the gradient with respect to x, the one with respect to b is s = A⁻ᵀ g, and the one with respect to A is
−s xᵀ, of which only the three diagonals are wanted.
"""

import numpy as np
from scipy.linalg import solve_banded

import tracegrad as tg


class SolveTridiagonal(tg.Function):
    """x with A x = b; `bands` (3, n) holds A as scipy.linalg.solve_banded has it: above, on and below the diagonal."""

    @staticmethod
    def forward(ctx, bands, b):
        x = tg.tensor(solve_banded((1, 1), bands.numpy(), b.numpy()))
        ctx.save_for_backward(bands, x)
        return x

    @staticmethod
    def backward(ctx, g):
        bands, x = (t.numpy() for t in ctx.saved_tensors)
        transposed = np.stack([np.roll(bands[2], 1), bands[1], np.roll(bands[0], -1)])
        s = solve_banded((1, 1), transposed, g.numpy())
        grad_bands = np.zeros_like(bands)
        grad_bands[0, 1:] = -s[:-1] * x[1:]
        grad_bands[1] = -s * x
        grad_bands[2, :-1] = -s[1:] * x[:-1]
        return tg.tensor(grad_bands), tg.tensor(s)


@tg.value_and_grad
def misfit(log_k, source, measured):
    """Squared distance of the temperatures in a heated rod of n cells, conductivities exp(log_k) at its n + 1 faces."""
    k = np.exp(log_k)
    zero = np.zeros(1)
    bands = np.stack([np.concatenate([zero, -k[1:-1]]), k[:-1] + k[1:], np.concatenate([-k[1:-1], zero])])
    return np.sum((SolveTridiagonal.apply(bands, source) - measured) ** 2)


def main(n=30):
    rng = np.random.default_rng(0)
    bands = tg.tensor(rng.uniform(-1, 1, (3, 6)) + [[0], [4], [0]], requires_grad=True)
    b = tg.tensor(rng.standard_normal(6), requires_grad=True)
    print("gradcheck:", tg.gradcheck(SolveTridiagonal.apply, (bands, b)))

    source, measured, log_k = np.ones(n), rng.uniform(0, 100, n), 0.1 * rng.standard_normal(n + 1)
    value, gradient = misfit(log_k, source, measured)
    numeric = np.empty(n + 1)
    for i in range(n + 1):
        step = np.where(np.arange(n + 1) == i, 1e-5, 0)
        ahead, behind = misfit(log_k + step, source, measured)[0], misfit(log_k - step, source, measured)[0]
        numeric[i] = (ahead - behind) / 2e-5
    error = np.max(np.abs(gradient - numeric)) / np.max(np.abs(numeric))
    print(f"misfit {value:.3f}; relative difference of the compiled gradient from finite differences: {error:.1e}")
    assert error < 1e-6


if __name__ == "__main__":
    main()
