"""Extending autograd: leaves and history, hooks, in-place writes, your own Functions and Modules, eager and compiled.

The tutorial that PyTorch users know, in tracegrad. Each part prints what it finds and asserts it; where code can be
compiled it runs a second time under `tg.jit`, with the same numbers.
"""

import warnings

import numpy as np
from scipy.signal import convolve2d, correlate2d

import tracegrad as tg
from tracegrad import nn
from tracegrad.autograd import Function, gradcheck

MODES = {"eager": lambda function: function, "compiled": tg.jit}


def leaves_and_history():
    """A Tensor that requires a gradient remembers what computed it."""
    a = tg.tensor(2.0, requires_grad=True)
    b = a.exp()
    print(a)  # tensor(2., requires_grad=True)
    print(b)  # tensor(7.3890561, grad_fn=<ExpBackward0>)
    assert np.isclose(b.item(), np.exp(2.0))
    c = tg.tensor(2.0)
    assert c.exp().grad_fn is None, "nothing to differentiate, nothing remembered"


def chain(x, w1, w2, w3):
    l1 = x * w1
    l2 = l1 + w2
    l3 = l1 * w3
    l4 = l2 * l3
    return l4.mean()


def backward_fills_the_leaves():
    for mode, prepare in MODES.items():
        w1, w2, w3 = (tg.tensor(value, requires_grad=True) for value in (2.0, 3.0, 4.0))
        loss = prepare(chain)(tg.ones([2, 2]), w1, w2, w3)
        assert w1.is_leaf and not loss.is_leaf
        loss.backward()
        print(f"{mode}: gradients of the leaves", w1.grad, w2.grad, w3.grad)
        assert [w.grad.item() for w in (w1, w2, w3)] == [28.0, 8.0, 10.0]


def gradients_in_between():
    """Only leaves keep gradients; `retain_grad` and `register_hook` show the others."""
    x = tg.ones(3, requires_grad=True)
    w = tg.rand(3, requires_grad=True)
    y = x * w
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert y.grad is None
    assert "not a leaf" in str(caught[0].message)
    seen = []
    handle = y.register_hook(lambda grad: seen.append(grad.tolist()))
    y.sum().backward()
    handle.remove()
    print("the hook saw", seen)
    assert seen == [[1.0, 1.0, 1.0]]


def in_place():
    """A version counter tells whether a value that backward needs has been overwritten."""
    a = tg.tensor([1.0, 3.0], requires_grad=True)
    b = a + 2
    assert b._version == 0
    b[0] = 100
    assert b._version == 1
    (b * b).mean().backward()
    print("written before its use: gradient", a.grad)
    assert a.grad.tolist() == [0.0, 5.0]

    b = a + 2
    loss = (b * b).mean()
    b[0] = 1000.0
    expect(RuntimeError, "modified by an inplace operation", loss.backward)
    expect(RuntimeError, "a leaf Variable that requires grad", lambda: a.__setitem__(slice(None), 0))


def expect(error, message, action):
    try:
        action()
    except error as found:
        assert message in str(found)
        print(f"{error.__name__}: {str(found).splitlines()[0]}")
    else:
        raise AssertionError(f"no {error.__name__}")


class LinearFunction(Function):
    """x Wᵀ + b with its derivative written by hand."""

    @staticmethod
    def forward(ctx, input, weight, bias=None):
        ctx.save_for_backward(input, weight, bias)
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        input, weight, bias = ctx.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if ctx.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if bias is not None and ctx.needs_input_grad[2]:
            grad_bias = grad_output.sum(0)
        return grad_input, grad_weight, grad_bias


class MulConstant(Function):
    """An argument that is no Tensor gets the gradient None."""

    @staticmethod
    def forward(ctx, tensor, constant):
        ctx.constant = constant
        return tensor * constant

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.constant, None


def functions():
    for mode, prepare in MODES.items():
        linear = prepare(LinearFunction.apply)
        input = tg.tensor([[2.0]], requires_grad=True)
        weight = tg.tensor([[3.0]], requires_grad=True)
        output = linear(input, weight)
        output.backward()
        print(f"{mode}: {output.tolist()}, gradients {input.grad.tolist()} and {weight.grad.tolist()}")
        assert (output.item(), weight.grad.item(), input.grad.item()) == (6.0, 2.0, 3.0)

        x = tg.tensor([1.0, 2.0], requires_grad=True)
        prepare(lambda x: MulConstant.apply(x, 5).sum())(x).backward()
        assert x.grad.tolist() == [5.0, 5.0]

        samples = (tg.rand(2, 7, requires_grad=True), tg.rand(5, 7, requires_grad=True))
        print(f"{mode}: gradcheck", gradcheck(linear, samples, eps=1e-2, check_forward_ad=True))
    larger = (tg.randn(20, 20, requires_grad=True), tg.randn(30, 20, requires_grad=True))
    assert gradcheck(LinearFunction.apply, larger, eps=1e-6, atol=1e-4, fast_mode=True)


class Linear(nn.Module):
    """A layer: what it learns are its Parameters, what it computes is LinearFunction."""

    def __init__(self, input_features, output_features, bias=True):
        super().__init__()
        self.input_features, self.output_features = input_features, output_features
        self.weight = nn.Parameter(tg.empty(output_features, input_features))
        if bias:
            self.bias = nn.Parameter(tg.empty(output_features))
        else:
            self.register_parameter("bias", None)
        self.weight.data.uniform_(-0.1, 0.1)
        if self.bias is not None:
            self.bias.data.uniform_(-0.1, 0.1)

    def forward(self, input):
        return LinearFunction.apply(input, self.weight, self.bias)

    def extra_repr(self):
        return f"in_features={self.input_features}, out_features={self.output_features}, bias={self.bias is not None}"


def modules():
    """The layer learns a line from noiseless samples, by gradient descent."""
    x = np.linspace(-1.0, 1.0, 50)[:, None]
    target = 3.0 * x - 0.5
    for mode, prepare in MODES.items():
        layer = Linear(1, 1)
        print(mode, layer, [name for name, _ in layer.named_parameters()])
        assert repr(layer) == "Linear(in_features=1, out_features=1, bias=True)"
        loss_of = prepare(lambda x, y, layer=layer: ((layer(tg.as_tensor(x)) - y) ** 2).mean())
        for _ in range(300):
            layer.zero_grad()
            loss_of(x, target).backward()
            with tg.no_grad():
                for parameter in layer.parameters():
                    parameter -= 0.3 * parameter.grad
        found = layer.weight.item(), layer.bias.item()
        print(f"{mode}: slope {found[0]:.6f}, offset {found[1]:.6f}")
        assert np.allclose(found, (3.0, -0.5))


class ScipyConv2dFunction(Function):
    """Code that leaves tracegrad: SciPy computes value and derivative."""

    @staticmethod
    def forward(ctx, input, filter):
        ctx.save_for_backward(input, filter)
        return tg.tensor(correlate2d(input.numpy(), filter.numpy(), mode="valid"))

    @staticmethod
    def backward(ctx, grad_output):
        input, filter = ctx.saved_tensors
        grad = grad_output.detach().numpy()
        grad_input = convolve2d(grad, filter.numpy(), mode="full")
        grad_filter = correlate2d(input.numpy(), grad, mode="valid")
        return tg.tensor(grad_input), tg.tensor(grad_filter)


class ScipyConv2d(nn.Module):
    def __init__(self, kh, kw):
        super().__init__()
        self.filter = nn.Parameter(tg.randn(kh, kw))

    def forward(self, input):
        return ScipyConv2dFunction.apply(input, self.filter)


def scipy_inside():
    seed = np.random.default_rng(0).standard_normal((8, 8))
    module = ScipyConv2d(3, 3)
    image = tg.randn(10, 10, requires_grad=True)
    gradients = []
    for mode, prepare in MODES.items():
        image.grad = None
        output = prepare(module)(image)
        output.backward(tg.tensor(seed))
        print(f"{mode}: an image of {tuple(image.shape)} becomes {tuple(output.shape)}")
        gradients.append(image.grad.numpy().copy())
    assert np.array_equal(*gradients)
    assert gradcheck(
        ScipyConv2dFunction.apply, (tg.randn(5, 5, requires_grad=True), tg.randn(3, 3, requires_grad=True))
    )


class Cube(Function):
    """x³ for every transformation: forward without ctx, a rule for forward mode, and one for many rows at once."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * 3 * x**2

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return tangent * 3 * x**2


def transformations():
    x = np.array([1.0, 2.0, -1.0])
    _, tangent = tg.jvp(Cube.apply, (x,), (np.ones(3),))
    assert np.allclose(tangent, 3 * x**2)
    per_row = tg.vmap(tg.grad(lambda row: np.sum(Cube.apply(row))))(np.stack([x, 2 * x]))
    assert np.allclose(per_row, [3 * x**2, 12 * x**2])
    hessian = tg.hessian(lambda x: np.sum(Cube.apply(x)))(x)
    print("second derivatives of Σ x³:", np.diag(hessian))
    assert np.allclose(hessian, np.diag(6 * x))


def main():
    tg.manual_seed(0)
    leaves_and_history()
    backward_fills_the_leaves()
    gradients_in_between()
    in_place()
    functions()
    modules()
    scipy_inside()
    transformations()
    print("every value is as the tutorial says")


if __name__ == "__main__":
    main()
