"""A model that computes the same with its heads in another order."""

import copy

import torch
from torch import nn


def permuted_heads(model: nn.Module) -> nn.Module:
    """The same function with its key/value heads, and the query heads of each, in another order."""
    other = copy.deepcopy(model)
    config = model.config
    dim, groups, heads = config.head_dim, config.num_key_value_heads, config.num_attention_heads  # type: ignore[union-attr]
    order = torch.arange(heads).view(groups, -1).flip(0, 1)
    with torch.no_grad():
        for layer in other.model.layers:  # type: ignore[union-attr]
            attention = layer.self_attn
            rows = (order.flatten()[:, None] * dim + torch.arange(dim)).flatten()
            shared = (torch.arange(groups).flip(0)[:, None] * dim + torch.arange(dim)).flatten()
            attention.q_proj.weight.copy_(attention.q_proj.weight[rows])
            attention.k_proj.weight.copy_(attention.k_proj.weight[shared])
            attention.v_proj.weight.copy_(attention.v_proj.weight[shared])
            attention.o_proj.weight.copy_(attention.o_proj.weight[:, rows])
    return other
