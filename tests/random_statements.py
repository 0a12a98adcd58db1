"""The statements random programs are made of: each maker writes one expression on values that suit it, or None."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tests.random_programs import Value, Writer

Made = tuple[str, bool] | None

_ANYWHERE = ("np.sin({})", "np.cos({})", "np.tanh({})", "np.arctan({})", "-{}", "np.square({})", "{} ** 2", "{} ** 3")
_ANYWHERE += (
    "np.exp(-{} ** 2)",
    "1 / (1 + np.exp(-{}))",
    "np.log1p({} ** 2)",
    "np.sqrt({} ** 2 + 0.5)",
    "np.arcsinh({})",
)
_SMALL = (
    "np.exp({})",
    "np.expm1({})",
    "np.sinh({})",
    "np.cosh({})",
    "np.logaddexp({}, 0.5)",
    "2.0 ** {}",
    "np.exp2({})",
)
_POSITIVE = ("np.log({})", "np.sqrt({})", "1 / {}", "np.reciprocal({})", "{} ** 1.5", "{} ** -0.5", "np.log2({})")
_POSITIVE += ("np.log10({})", "np.cbrt({})", "np.power({}, 0.7)")
_KINKED = ("np.abs({})", "np.maximum({}, 0.137)", "np.minimum({}, 0.25)", "np.clip({}, -0.8, 0.9)", "np.fmax({}, 0)")
_JUMPS = (
    "np.floor({} * 3.7)",
    "np.sign({} - 0.017)",
    "np.rint({} * 1.9)",
    "({} > 0.137)",
    "np.trunc({} * 2.3)",
    "({} != {})",
)


def unary(w: Writer) -> Made:
    x = w.floats()
    if x is None:
        return None
    templates = list(_ANYWHERE)
    if x.within(-3, 2.5):
        templates += _SMALL
    if x.within(0.3, 40):
        templates += 2 * _POSITIVE
    if x.within(-0.9, 0.9):
        templates += ("np.arcsin({})", "np.log1p({})", "np.arctanh({})", "np.tan({})", "np.arccos({})")
    template = w.choice.choice(templates)
    return template.replace("{}", x.name), x.exact and template == "-{}"


def kink(w: Writer) -> Made:
    x = w.floats(w.smooth)
    return None if x is None else (w.choice.choice(_KINKED).replace("{}", x.name), False)


def jump(w: Writer) -> Made:
    x = w.floats(lambda v: v.exact)
    return None if x is None else (w.choice.choice(_JUMPS).replace("{}", x.name), False)


def scalar(w: Writer) -> Made:
    x = w.operand(lambda v: v.array.dtype.kind in "fi")
    if x is None:
        return None
    template = w.choice.choice(
        ("{x} * {c}", "{c} * {x}", "{x} + {c}", "{c} - {x}", "{x} - {c}", "{x} / {c}", "{x} / 3")
    )
    return template.format(x=x.name, c=w.number()), False


def binary(w: Writer) -> Made:
    x, y = w.floats(), w.operand(lambda v: v.array.dtype.kind in "fib")
    if x is None or y is None:
        return None
    names = _aligned(w, x, y)
    if names is None:
        return None
    a, b = names
    templates = ["{a} + {b}", "{a} * {b}", "{b} * {a}", "{a} / (1.5 + {b} * {b})", "np.hypot({a}, {b} + 3.5)"]
    if y.floating:
        templates += ["{a} - {b}", "np.logaddexp({a}, {b})", "np.arctan2({a}, 2.5 + {b} ** 2)"]
        if w.smooth(x) and w.smooth(y) and x is not y:
            templates += ["np.maximum({a}, {b} * 0.9 + 0.013)", "np.minimum({a} - 0.21, {b})"]
    if x.within(0.3, 4) and (y.within(-2, 2) or (y.array.dtype.kind == "b")):
        templates += ["{a} ** {b}"]
    return w.choice.choice(templates).format(a=a, b=b), False


def _aligned(w: Writer, x: Value, y: Value) -> tuple[str, str] | None:
    """The two operands as texts that broadcast, with new axes where they are needed."""
    for a, b in ((x.name, y.name), (x.name, f"{y.name}[..., None]"), (f"{x.name}[:, None]", y.name)):
        shapes = [_shape(t, v) for t, v in ((a, x), (b, y))]
        if None in shapes:
            continue
        try:
            np.broadcast_shapes(*shapes)  # type: ignore[arg-type]
        except ValueError:
            continue
        return a, b
    return None


def _shape(text: str, value: Value) -> tuple[int, ...] | None:
    if text.endswith("[:, None]"):
        return (value.shape[0], 1, *value.shape[1:]) if value.shape else None
    if text.endswith("[..., None]"):
        return (*value.shape, 1) if value.shape else None
    return value.shape


def choice(w: Writer) -> Made:
    x, y = w.floats(), w.operand(lambda v: v.floating)
    decider = w.pick(lambda v: v.exact and v.array.dtype.kind in "fb")
    if x is None or y is None or decider is None:
        return None
    try:
        np.broadcast_shapes(x.shape, y.shape, decider.shape)
    except ValueError:
        return None
    if decider.array.dtype.kind == "b":
        condition = w.choice.choice((decider.name, f"np.logical_not({decider.name})"))
    else:
        condition = w.choice.choice(("{} > 0.137", "({} < 0.4) & ({} > -0.9)", "np.abs({}) >= 0.71")).replace(
            "{}", decider.name
        )
    other = w.choice.choice((y.name, "0.0", "1"))
    return f"np.where({condition}, {x.name}, {other})", False


def reduction(w: Writer) -> Made:
    x = w.floats(lambda v: v.array.size > 0 and bool(v.shape))
    if x is None:
        return None
    names = ["np.sum", "np.mean", "np.sum", "np.var"]
    if x.exact:
        names += ["np.max", "np.min", "np.argmax", "np.any"]
    if x.array.size <= 12 and x.within(-1.8, 1.8):
        names += ["np.prod"]
    name = w.choice.choice(names)
    axes = ["", f", axis={w.axis(x)}"] if name == "np.argmax" else ["", *2 * [f", axis={w.axis(x)}"]]
    if len(x.shape) > 1 and name != "np.argmax":
        axes += [f", axis={tuple(sorted(w.choice.sample(range(len(x.shape)), 2)))}"]
    keep = w.choice.choice(("", "", ", keepdims=True"))
    return f"{name}({x.name}{w.choice.choice(axes)}{keep})", x.exact and name in ("np.max", "np.min")


def sum_of_products(w: Writer) -> Made:
    x = w.floats(lambda v: len(v.shape) > 0)
    y = None if x is None else w.floats(lambda v: v.shape == x.shape)
    if x is None or y is None:
        return None
    return f"np.sum({x.name} * {y.name}, axis={w.axis(x)})", False


def scan(w: Writer) -> Made:
    x = w.floats(lambda v: len(v.shape) > 0)
    return None if x is None else (f"np.cumsum({x.name}, axis={w.axis(x)})", False)


def row_wise(w: Writer) -> Made:
    """Softmax, log-sum-exp and layer norm, written out as people do."""
    x = w.floats(lambda v: len(v.shape) > 0 and v.array.size > 0)
    if x is None:
        return None
    n, axis = x.name, w.axis(x)
    shifted = f"np.exp({n} - np.max({n}, axis={axis}, keepdims=True))" if x.exact else f"np.exp(0.3 * {n})"
    centred = f"({n} - np.mean({n}, axis={axis}, keepdims=True))"
    templates = [f"{shifted} / np.sum({shifted}, axis={axis}, keepdims=True)"]
    templates += [f"np.log(np.sum(np.exp(0.3 * {n}), axis={axis}))"]
    templates += [f"{centred} / np.sqrt(np.var({n}, axis={axis}, keepdims=True) + 0.1)"]
    return w.choice.choice(templates), False


def slicing(w: Writer) -> Made:
    x = w.pick(lambda v: len(v.shape) > 0)
    if x is None:
        return None
    parts = [_slice(w, size) for size in x.shape[: w.choice.randrange(1, len(x.shape) + 1)]]
    if w.choice.random() < 0.15:
        parts.append("...")
    if w.choice.random() < 0.1:
        parts.insert(0, "None")
    return f"{x.name}[{', '.join(parts)}]", x.exact


def _slice(w: Writer, size: int) -> str:
    texts = [":", "::-1", "::2", "1:", ":-1", "::-2", "-2:", ":2", "1:1" if w.choice.random() < 0.1 else ":"]
    if size:
        texts += [str(w.choice.randrange(-size, size)), f"{w.choice.randrange(size)}:", f"{size - 1}::-1"]
    if size > 1:
        texts += [f"{size - 2}::-1", "1::2"]
    return w.choice.choice(texts)


def gathering(w: Writer) -> Made:
    x = w.pick(lambda v: len(v.shape) > 0 and v.shape[0] > 0)
    if x is None:
        return None
    positions = [w.choice.randrange(-x.shape[0], x.shape[0]) for _ in range(w.choice.choice((1, 2, 4)))]
    texts = [
        f"{x.name}[np.array({positions})]",
        f"np.take({x.name}, np.array({positions}), axis=0)",
        f"{x.name}[{positions}]",
    ]
    if len(x.shape) > 1 and x.shape[1]:
        columns = [w.choice.randrange(x.shape[1]) for _ in positions]
        texts += [f"{x.name}[np.array({positions}), np.array({columns})]", f"{x.name}[:, np.array({columns})]"]
    return w.choice.choice(texts), x.exact


def moving(w: Writer) -> Made:
    x = w.pick(lambda v: len(v.shape) > 0)
    if x is None:
        return None
    n, ndim, size = x.name, len(x.shape), x.array.size
    axes = w.choice.sample(range(ndim), ndim)
    texts = [
        f"{n}.T",
        f"np.transpose({n}, {tuple(axes)})",
        f"np.ravel({n})",
        f"{n}.reshape(-1)",
        f"np.flip({n}, {w.axis(x)})",
    ]
    texts += [f"np.expand_dims({n}, {w.choice.randrange(ndim + 1)})", f"np.squeeze({n})", f"{n}.reshape({size}, 1)"]
    texts += [f"np.roll({n}, {w.choice.choice((1, -2))}, axis={w.axis(x)})", f"np.broadcast_to({n}, (2, *{n}.shape))"]
    texts += [
        f"np.tile({n}, 2)",
        f"np.repeat({n}, 2, axis={w.axis(x)})",
        f"np.pad({n}, 1)",
        f"np.swapaxes({n}, 0, {ndim - 1})",
    ]
    texts += [f"{n}.reshape({', '.join(map(str, _factors(size)))})", f"np.moveaxis({n}, 0, -1)", f"np.atleast_2d({n})"]
    if ndim == 2:
        texts += [
            f"np.tril({n})",
            f"np.diagonal({n})",
            f"np.triu({n}, 1)",
            f"np.trace({n})" if size else f"np.tril({n})",
        ]
    text = w.choice.choice(texts)
    return text, x.exact and "trace" not in text


def _factors(size: int) -> tuple[int, ...]:
    for divisor in (3, 2, 5, 7):
        if size % divisor == 0:
            return (divisor, size // divisor)
    return (1, size)


def joining(w: Writer) -> Made:
    x = w.floats(lambda v: len(v.shape) > 0)
    y = None if x is None else w.pick(lambda v: v.shape == x.shape)
    if x is None or y is None:
        return None
    axis = w.axis(x)
    texts = [f"np.concatenate([{x.name}, {y.name}], axis={axis})", f"np.stack([{x.name}, {y.name}], axis={axis})"]
    texts += [
        f"np.concatenate(({y.name}, {x.name}, {x.name}))",
        f"np.hstack([{x.name}, {y.name}])",
        f"np.vstack([{x.name}, {y.name}])",
    ]
    return w.choice.choice(texts), x.exact and y.exact and x.array.dtype == y.array.dtype


def product(w: Writer) -> Made:
    x = w.floats(lambda v: 1 <= len(v.shape) <= 3)
    if x is None:
        return None
    y = w.floats(lambda v: 1 <= len(v.shape) <= 2 and v.shape[0] == x.shape[-1])
    same = w.floats(lambda v: 1 <= len(v.shape) <= 2 and v.shape[-1] == x.shape[-1])
    texts = []
    if y is not None:
        texts += [f"{x.name} @ {y.name}", f"np.dot({x.name}, {y.name})", f"np.matmul({x.name}, {y.name})"]
        if len(x.shape) == len(y.shape) == 2:
            texts += [f"np.einsum('ij,jk->ik', {x.name}, {y.name})", f"np.einsum('ij,jk->ki', {x.name}, {y.name})"]
    if same is not None:
        if len(same.shape) == 2:
            texts += [f"{x.name} @ {same.name}.T", f"np.tensordot({x.name}, {same.name}, axes=(-1, 1))"]
        texts += [f"np.inner({x.name}, {same.name})"]
    if len(x.shape) == 1:
        texts += [f"np.outer({x.name}, {x.name})", f"np.dot({x.name}, {x.name})"]
    return None if not texts else (w.choice.choice(texts), False)


def casting(w: Writer) -> Made:
    x = w.floats()
    if x is None:
        return None
    text = w.choice.choice(("{}.astype(np.float32)", "{}.astype(float)", "{} * np.float32(0.5)", "{} * np.float64(2)"))
    return text.replace("{}", x.name), x.exact and "astype" in text


def repeated(w: Writer) -> Made:
    """What a short Python loop leaves behind."""
    x = w.floats()
    if x is None:
        return None
    text = x.name
    for step in range(w.choice.randrange(2, 5)):
        text = w.choice.choice(
            (f"np.sin({text} + 0.{step + 1})", f"np.tanh(0.9 * {text})", f"({text} + 0.1 * {x.name})")
        )
    return text, False


def creating(w: Writer) -> Made:
    x = w.floats(lambda v: len(v.shape) > 0)
    if x is None:
        return None
    n = x.name
    texts = (
        f"np.ones_like({n}) * {n}",
        f"np.zeros_like({n}) + {n}",
        f"np.arange({n}.shape[-1]) * {n}",
        f"{n} * np.linspace(0.1, 1, {n}.shape[-1])",
    )
    return w.choice.choice(texts), False


MAKERS: list[Callable[[Writer], Made]] = [
    *3 * [unary], *4 * [binary], *2 * [scalar], kink, jump, *2 * [choice], *3 * [reduction], sum_of_products, scan,
    *2 * [row_wise], *3 * [slicing], gathering, *3 * [moving], joining, *2 * [product], casting, repeated, creating,
]  # fmt: skip
