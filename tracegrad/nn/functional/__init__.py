"""The functions that layers are made of, under the names of torch.nn.functional.

They take and return Tensors (ndarrays are accepted), eagerly and in traced functions, and can be differentiated twice.
"""

from tracegrad.nn.functional.activation import (
    celu,
    elu,
    gelu,
    glu,
    gumbel_softmax,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    rrelu,
    selu,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
    threshold,
)
from tracegrad.nn.functional.attention import scaled_dot_product_attention
from tracegrad.nn.functional.classification import cross_entropy, nll_loss
from tracegrad.nn.functional.conv import conv1d, conv2d, conv_transpose1d, conv_transpose2d
from tracegrad.nn.functional.distance import cosine_similarity, normalize, pairwise_distance
from tracegrad.nn.functional.dropout import alpha_dropout, dropout, dropout1d, dropout2d
from tracegrad.nn.functional.linear import bilinear, embedding, linear, one_hot
from tracegrad.nn.functional.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
    triplet_margin_loss,
)
from tracegrad.nn.functional.normalization import batch_norm, group_norm, instance_norm, layer_norm, rms_norm
from tracegrad.nn.functional.padding import pad
from tracegrad.nn.functional.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    avg_pool1d,
    avg_pool2d,
    max_pool1d,
    max_pool2d,
)

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d", "alpha_dropout",
    "avg_pool1d", "avg_pool2d", "batch_norm", "bilinear", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "celu", "conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d", "cosine_embedding_loss", "cosine_similarity",
    "cross_entropy", "dropout", "dropout1d", "dropout2d", "elu", "embedding", "gaussian_nll_loss", "gelu", "glu",
    "group_norm", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hinge_embedding_loss",
    "huber_loss", "instance_norm", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear", "log_softmax",
    "logsigmoid", "margin_ranking_loss", "max_pool1d", "max_pool2d", "mish", "mse_loss", "nll_loss", "normalize",
    "one_hot", "pad", "pairwise_distance", "poisson_nll_loss", "prelu", "relu", "relu6", "rms_norm", "rrelu",
    "scaled_dot_product_attention", "selu", "sigmoid", "silu", "smooth_l1_loss", "soft_margin_loss", "softmax",
    "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold", "triplet_margin_loss",
]  # fmt: skip
