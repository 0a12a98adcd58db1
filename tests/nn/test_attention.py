"""Attention against loops over heads in NumPy."""

import numpy as np
import pytest
from scipy.special import softmax

import tracegrad as tg
import tracegrad.nn.functional as F
from tests.nn.checks import check, check_module, filled, numbers, shapes, values
from tracegrad import nn


def attended(q, k, v, added=0.0, scale=None):
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale) + added
    weights = softmax(scores, axis=-1)
    return weights @ v, weights


def of_heads(module, q, k, v, added=None):
    """(N, L, E) queries, keys and values: output and weights (N, heads, L, S), by the definition."""
    e, heads = module.embed_dim, module.num_heads
    state = {name: numbers(p) for name, p in module.named_parameters()}
    if "in_proj_weight" in state:
        w = np.split(state["in_proj_weight"], 3)
    else:
        w = [state[f"{name}_proj_weight"] for name in "qkv"]
    b = np.split(state.get("in_proj_bias", np.zeros(3 * e)), 3)
    q, k, v = (x @ weight.T + bias for x, weight, bias in zip((q, k, v), w, b, strict=True))
    outs, weights = [], []
    for h in range(heads):
        part = slice(h * e // heads, (h + 1) * e // heads)
        out, weight = attended(q[..., part], k[..., part], v[..., part], 0.0 if added is None else added[:, h])
        outs.append(out)
        weights.append(weight)
    out = np.concatenate(outs, -1) @ state["out_proj.weight"].T + state.get("out_proj.bias", 0.0)
    return out, np.stack(weights, 1)


def test_scaled_dot_product_attention():
    q, k, v = values(2, 3, 4, 5), values(2, 3, 6, 5), values(2, 3, 6, 7)
    found = numbers(F.scaled_dot_product_attention(q, k, tg.tensor(v)))
    np.testing.assert_allclose(found, attended(q, k, v)[0], rtol=1e-12)
    added = values(4, 6)
    found = numbers(F.scaled_dot_product_attention(q, k, tg.tensor(v), added, scale=0.3))
    np.testing.assert_allclose(found, attended(q, k, v, added, 0.3)[0], rtol=1e-12)
    mask = values(4, 6, seed=2) > -1
    found = numbers(F.scaled_dot_product_attention(q, k, tg.tensor(v), mask))
    np.testing.assert_allclose(found, attended(q, k, v, np.where(mask, 0, -np.inf))[0], rtol=1e-12)
    causal = np.where(np.tri(4, 6), 0, -np.inf)
    found = numbers(F.scaled_dot_product_attention(q, k, tg.tensor(v), is_causal=True))
    np.testing.assert_allclose(found, attended(q, k, v, causal)[0], rtol=1e-12)
    with pytest.raises(TypeError, match="attn_mask or is_causal, not both"):
        F.scaled_dot_product_attention(q, k, tg.tensor(v), mask, is_causal=True)
    with pytest.raises(ValueError, match=r"query \(2, 3, 4, 5\), key \(2, 3, 6, 4\)"):
        F.scaled_dot_product_attention(q, k[..., :4], tg.tensor(v))


def test_grouped_queries_share_keys_and_values():
    q, k, v = values(2, 4, 3, 5), values(2, 2, 3, 5), values(2, 2, 3, 5, seed=1)
    found = numbers(F.scaled_dot_product_attention(q, k, tg.tensor(v), enable_gqa=True))
    np.testing.assert_allclose(found, attended(q, k.repeat(2, 1), v.repeat(2, 1))[0], rtol=1e-12)


def test_derivatives_of_attention():
    check(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        *(values(3, 2, seed=i) for i in range(3)),
    )


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"kdim": 3, "vdim": 5}], ids=str)
@pytest.mark.parametrize("batch_first", [False, True])
def test_values(options, batch_first):
    module = filled(nn.MultiheadAttention(4, 2, batch_first=batch_first, **options))
    q, k, v = values(2, 5, 4), values(2, 6, options.get("kdim", 4)), values(2, 6, options.get("vdim", 4), seed=3)
    args = [x if batch_first else np.swapaxes(x, 0, 1) for x in (q, k, v)]
    mask, padding = values(5, 6, seed=1) > 0.5, np.arange(6) >= np.array([[4], [5]])
    added = np.zeros((2, 2, 5, 6))
    for masks in ({}, {"attn_mask": mask}, {"attn_mask": mask, "key_padding_mask": padding}):
        if "attn_mask" in masks:
            added = added + np.where(mask, -np.inf, 0)
        if "key_padding_mask" in masks:
            added = added + np.where(padding, -np.inf, 0)[:, None, None]
        expected, weights = of_heads(module, q, k, v, added)
        out, averaged = module(*map(tg.tensor, args), **masks)
        np.testing.assert_allclose(numbers(out) if batch_first else np.swapaxes(numbers(out), 0, 1), expected)
        np.testing.assert_allclose(numbers(averaged), weights.mean(1))
        each = module(*map(tg.tensor, args), **masks, average_attn_weights=False)[1]
        np.testing.assert_allclose(numbers(each), weights)
    assert module(*map(tg.tensor, args), need_weights=False)[1] is None
    alone, weights = module(*(tg.tensor(x[0]) for x in (q, k, v)))
    np.testing.assert_allclose(numbers(alone), of_heads(module, q, k, v)[0][0])
    assert weights.shape == (5, 6)


def test_masks_of_floats_and_one_per_head():
    module = filled(nn.MultiheadAttention(4, 2, batch_first=True))
    x, added, padding = values(2, 3, 4), values(4, 3, 3), values(2, 3)
    out = module(*[tg.tensor(x)] * 3, attn_mask=tg.tensor(added), key_padding_mask=tg.tensor(padding))[0]
    total = added.reshape(2, 2, 3, 3) + padding[:, None, None]
    np.testing.assert_allclose(numbers(out), of_heads(module, x, x, x, total)[0])


def test_additional_keys_and_values():
    module = filled(nn.MultiheadAttention(4, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True))
    x = values(1, 3, 4)
    state = {name: numbers(p) for name, p in module.named_parameters()}
    w, b = np.split(state["in_proj_weight"], 3), np.split(state["in_proj_bias"], 3)
    q, k, v = (x[0] @ weight.T + bias for weight, bias in zip(w, b, strict=True))
    k, v = (np.concatenate([y, state[name][0], np.zeros((1, 4))]) for y, name in ((k, "bias_k"), (v, "bias_v")))
    heads = [attended(q[:, s], k[:, s], v[:, s])[0] for s in (slice(0, 2), slice(2, 4))]
    expected = np.concatenate(heads, 1) @ state["out_proj.weight"].T + state["out_proj.bias"]
    out, weights = module(*[tg.tensor(x)] * 3)
    np.testing.assert_allclose(numbers(out)[0], expected)
    assert weights.shape == (1, 3, 5)


def test_derivatives():
    module = filled(nn.MultiheadAttention(2, 1, add_bias_kv=True))
    check_module(module, *(values(2, 1, 2, seed=i) for i in range(3)), second=False)


def test_dropout_acts_on_the_weights_while_training():
    tg.manual_seed(0)
    module = nn.MultiheadAttention(4, 2, dropout=0.5)
    x = tg.tensor(values(3, 2, 4))
    assert (numbers(module(x, x, x)[1]) != numbers(module(x, x, x)[1])).any()
    module.eval()
    np.testing.assert_allclose(numbers(module(x, x, x)[1]).sum(-1), 1)


def test_states_starting_values_and_repr():
    tg.manual_seed(0)
    module = nn.MultiheadAttention(6, 2)
    assert shapes(module) == {
        "in_proj_weight": (18, 6), "in_proj_bias": (18,), "out_proj.weight": (6, 6), "out_proj.bias": (6,),
    }  # fmt: skip
    assert np.abs(numbers(module.in_proj_weight)).max() <= (6 / 24) ** 0.5
    assert not numbers(module.in_proj_bias).any() and not numbers(module.out_proj.bias).any()
    assert repr(module) == ("MultiheadAttention(\n  (out_proj): Linear(in_features=6, out_features=6, bias=True)\n)")
    assert list(shapes(nn.MultiheadAttention(4, 2, kdim=3, add_bias_kv=True))) == [
        "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "bias_k", "bias_v", "out_proj.weight",
        "out_proj.bias",
    ]  # fmt: skip


def test_what_does_not_fit():
    module = nn.MultiheadAttention(4, 2)
    x = tg.ones(3, 2, 4)
    with pytest.raises(ValueError, match=r"query \(3, 2, 4\), key \(3, 2, 3\)"):
        module(x, tg.ones(3, 2, 3), x)
    with pytest.raises(ValueError, match=r"attn_mask has shape \(2, 3\)"):
        module(x, x, x, attn_mask=tg.zeros(2, 3))
    with pytest.raises(ValueError, match=r"key_padding_mask has shape \(3, 2\)"):
        module(x, x, x, key_padding_mask=tg.zeros(3, 2))
    with pytest.raises(TypeError, match="there is no attn_mask"):
        module(x, x, x, is_causal=True)
    with pytest.raises(TypeError, match="embed_dim 4 must be a positive multiple of num_heads 3"):
        nn.MultiheadAttention(4, 3)
