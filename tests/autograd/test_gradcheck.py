"""gradcheck and gradgradcheck: what they accept, find and report."""

import numpy as np
import pytest

import tracegrad as tg
from tests.autograd.functions import Square, leaf


class Wrong(Square):
    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


@pytest.mark.parametrize("fast_mode", [False, True])
def test_right_derivatives_pass(fast_mode):
    x, y = leaf([1.0, 2.0]), leaf([[3.0], [4.0]])
    assert tg.gradcheck(lambda x, y: (np.sin(x) * y, (x**y).sum()), (x, y), fast_mode=fast_mode)
    assert tg.gradgradcheck(lambda x, y: np.sin(x) * y, (x, y), fast_mode=fast_mode)


def test_plain_functions_of_arrays():
    def energy(x):
        return np.sum(np.log1p(x**2) * np.cos(x))

    assert tg.gradcheck(energy, np.linspace(-1, 1, 5)) and tg.gradgradcheck(energy, np.linspace(-1, 1, 5))
    assert tg.gradcheck(lambda x, n: x**n, (np.array([1.0, 2.0]), 3))


def test_a_mismatch_shows_both_jacobians_and_the_worst_entry():
    with pytest.raises(tg.errors.GradcheckError) as caught:
        tg.gradcheck(Wrong.apply, leaf([1.0, 3.0]))
    text = str(caught.value)
    assert isinstance(caught.value, RuntimeError)
    assert "Jacobian mismatch for output 0 with respect to input 0" in text
    assert "numerical:[[2. 0.]\n [0. 6.]]" in text and "analytical:[[1. 0.]\n [0. 3.]]" in text
    assert "d output[1] / d input[1]: numerical 6" in text and "WrongBackward" in text


def test_fast_mode_prints_scalars_then_both_jacobians_and_the_difference():
    with pytest.raises(RuntimeError) as caught:
        tg.gradcheck(Wrong.apply, leaf([1.0, 3.0]), fast_mode=True)
    text = str(caught.value)
    assert "in fast mode" in text and "The max per-element difference (slow mode) is: 3.0" in text
    assert "[[1. 0.]\n [0. 3.]]" in text


def test_raise_exception_false_turns_only_its_own_error_into_false():
    assert tg.gradcheck(Wrong.apply, leaf([1.0]), raise_exception=False) is False
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        tg.gradcheck(Square.apply, tg.tensor([1.0]), raise_exception=False)
    with pytest.raises(RuntimeError, match="The 0th input has a dimension with stride 0"):
        tg.gradcheck(lambda x: x * 2, tg.tensor([1.0]).expand(3).requires_grad_(), raise_exception=False)


def test_changing_output_shape():
    calls = []

    def unstable(x):
        calls.append(1)
        return x[: 1 + len(calls) % 2]

    with pytest.raises(AssertionError):
        tg.gradcheck(unstable, leaf([1.0, 2.0]), raise_exception=False)


def test_single_precision_warns():
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision"):
        tg.gradcheck(lambda x: x * 2, leaf([1.0], "f4"), atol=1e-1, rtol=1e-1, eps=1e-2)


def test_shapes_and_dtypes_of_what_arrives():
    class Random(Square):
        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0] * (1 + 1e-5 * np.random.rand())

    with pytest.raises(RuntimeError, match=r"Backward is not reentrant.*tolerance for nondeterminism was 0\.0"):
        tg.gradcheck(Random.apply, leaf([1.0]))
    assert tg.gradcheck(Random.apply, leaf([1.0]), nondet_tol=1e-2)


def test_backward_that_ignores_its_gradient():
    class Ignores(tg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 if np.any(g.numpy()) else g + 1

    with pytest.raises(RuntimeError, match="backward not multiplied by grad_output"):
        tg.gradcheck(Ignores.apply, leaf([1.0]))


def test_undefined_gradients():
    class Two(tg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            if a is None or b is None:
                raise RuntimeError("cannot cope")
            return a * 2 + b * 3

    # The full check needs each output alone as well, which this backward refuses.
    with pytest.raises(RuntimeError, match=r"cannot cope|Expected backward function to handle undefined output grads"):
        tg.gradcheck(Two.apply, leaf([1.0]))

    class One(tg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if g is None:
                raise RuntimeError("cannot cope")
            return g * 2

    with pytest.raises(RuntimeError, match="Expected backward function to handle undefined output grads"):
        tg.gradcheck(One.apply, leaf([1.0]))
    assert tg.gradcheck(One.apply, leaf([1.0]), check_undefined_grad=False)

    class Multiplies(One):
        @staticmethod
        def backward(ctx, g):
            return 3 * None if g is None else g * 2

    with pytest.raises(TypeError):
        tg.gradcheck(Multiplies.apply, leaf([1.0]))


def test_a_lost_history_is_found():
    with pytest.raises(RuntimeError, match="Numerical gradient for function expected to be zero"):
        tg.gradcheck(lambda x: x.detach() * 2, leaf([1.0]))
    assert tg.gradcheck(lambda x: tg.tensor([3.0]), leaf([1.0]))


def test_complex_gradients_follow_the_convention():
    z, w = leaf([1 + 2j, 3 - 1j], complex), leaf([0.5 - 1j], complex)
    assert tg.gradcheck(lambda z, w: z * w, (z, w))
    assert tg.gradcheck(lambda z: (z * np.conj(z)).real, z)
    assert tg.gradcheck(lambda z, w: np.exp(z) / w, (z, w), fast_mode=True)

    class NotConjugated(Square):
        pass

    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        tg.gradcheck(NotConjugated.apply, z)


def test_batched_gradients_are_compared():
    assert tg.gradcheck(lambda x: np.exp(x) * x, leaf([1.0, 2.0]), check_batched_grad=True)


def test_gradgradcheck_finds_a_backward_with_a_wrong_derivative():
    class CutsOff(Square):
        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0].detach()

    x = leaf([1.0, 2.0])
    assert tg.gradcheck(CutsOff.apply, x)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        tg.gradgradcheck(CutsOff.apply, x)
    assert tg.gradgradcheck(CutsOff.apply, x, raise_exception=False) is False


def test_gradgradcheck_with_given_and_non_contiguous_cotangents():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    assert tg.gradgradcheck(lambda x: x**3, x, leaf(np.ones((2, 2))))
    assert tg.gradgradcheck(lambda x: x**3, x, gen_non_contig_grad_outputs=True)


def test_compiled_functions():
    assert tg.gradcheck(tg.jit(lambda x: np.sin(x) * x), leaf([1.0, 2.0]))


# ---- forward mode ----------------------------------------------------------------------------------------------------


class WrongTangent(tg.autograd.Function):
    """x² with a right backward and a jvp that is half of what it should be."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return tangent * x


@pytest.mark.parametrize("fast_mode", [False, True])
def test_forward_mode_is_compared_with_differences(fast_mode):
    x = tg.tensor([0.5, -1.0, 2.0], requires_grad=True)
    y = tg.tensor([1.5, 1.0, 3.0], requires_grad=True)
    z = tg.tensor([1.0 + 2.0j, -0.5j], requires_grad=True)

    def function(x, y):
        return np.sin(x) * y, np.sum(x * y), x > 0

    options = {"check_forward_ad": True, "check_batched_forward_grad": True, "check_batched_grad": True}
    assert tg.gradcheck(function, (x, y), fast_mode=fast_mode, **options)
    assert tg.gradcheck(lambda z: z * z * np.conj(z), (z,), fast_mode=fast_mode, **options)
    assert tg.gradcheck(WrongTangent.apply, (x,), fast_mode=fast_mode)
    with pytest.raises(tg.errors.GradcheckError, match="Jacobian computed with forward mode mismatch for output 0"):
        tg.gradcheck(WrongTangent.apply, (x,), fast_mode=fast_mode, check_forward_ad=True)
    assert not tg.gradcheck(WrongTangent.apply, (x,), check_forward_ad=True, raise_exception=False)
    with pytest.raises(tg.errors.GradcheckError, match="forward mode"):
        tg.gradcheck(WrongTangent.apply, (x,), check_forward_ad=True, check_backward_ad=False)


def test_options_that_contradict_each_other():
    x = tg.tensor([1.0], requires_grad=True)
    for options in (
        {"check_backward_ad": False},
        {"check_batched_forward_grad": True},
        {"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True},
    ):
        with pytest.raises(TypeError, match="check_"):
            tg.gradcheck(lambda x: x * 2, (x,), **options)


def test_tangents_that_cannot_be_batched():
    x = tg.tensor([1.0, 2.0], requires_grad=True)

    def decides(x):
        return x * 2 if np.sum(x).item() > 0 else x

    assert tg.gradcheck(decides, (x,), check_forward_ad=True)
    with pytest.raises(tg.errors.GradcheckError, match="While computing batched tangents"):
        tg.gradcheck(branching(decides), (x,), check_forward_ad=True, check_batched_forward_grad=True)


def branching(function):
    """The function with a Python decision on what varies from row to row in forward mode: the tangent."""

    def run(x):
        return function(x) + WithDecision.apply(x)

    return run


class WithDecision(tg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g

    @staticmethod
    def jvp(ctx, tangent):
        return tangent if np.sum(tangent) > 100 else tangent * 1


def test_gradgradcheck_forward_over_reverse():
    x = tg.tensor([0.5, -1.0], requires_grad=True)
    assert tg.gradgradcheck(lambda x: np.exp(x) * x, (x,), check_fwd_over_rev=True)
    assert tg.gradgradcheck(lambda x: np.exp(x) * x, (x,), check_fwd_over_rev=True, check_rev_over_rev=False)
