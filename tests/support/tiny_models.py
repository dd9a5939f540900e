"""Tiny random models, one per architecture family that repair claims to support."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

VOCABULARY = 211
COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
}
MOE = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
SLIDING = ["sliding_attention", "full_attention"] * 2


@dataclass(frozen=True)
class Tiny:
    """One entry of the matrix.

    Attributes:
        name: unique.
        model_type: as in transformers.
        overrides: configuration keys beside `COMMON`.
        window: tokens that the limited layers see, sliding or in chunks; None where every layer is full.
        no_shift: what the refusal of Shift says; None where keys can be moved.
    """

    name: str
    model_type: str
    overrides: dict[str, Any]
    window: int | None = None
    no_shift: str | None = None


def rope(kind: str, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10_000.0, **more}}


BY_TYPE = {
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
        "full_attention": {
            "rope_type": "yarn",
            "rope_theta": 500_000.0,
            "factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    }
}
LATENT = {
    "num_key_value_heads": 6,
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 12,
    "v_head_dim": 10,
    "head_dim": 8,
    "first_k_dense_replace": 1,
    "n_shared_experts": 1,
}
# The tests' contexts cross the length at which the long factors come in, in the middle of what is refreshed.
SWITCH = 40
LONG_ROPE = {
    "original_max_position_embeddings": SWITCH,
    **rope("longrope", short_factor=[1.0] * 8, long_factor=[2.0] * 8, original_max_position_embeddings=SWITCH),
}

MATRIX = (
    Tiny("llama", "llama", {}),
    Tiny(
        "llama-llama3",
        "llama",
        rope(
            "llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=64,
        ),
    ),
    Tiny("llama-yarn", "llama", rope("yarn", factor=4.0, original_max_position_embeddings=64)),
    Tiny("llama-linear", "llama", rope("linear", factor=2.0)),
    Tiny("qwen2", "qwen2", {}),
    Tiny("qwen3", "qwen3", {}),
    Tiny("mistral", "mistral", {"sliding_window": 24}, window=24),
    Tiny("mixtral", "mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}),
    Tiny("qwen3-moe", "qwen3_moe", {**MOE, "num_experts": 4, "decoder_sparse_step": 1}),
    Tiny(
        "glm4-moe",
        "glm4_moe",
        {
            **MOE,
            "n_routed_experts": 4,
            "n_shared_experts": 1,
            "first_k_dense_replace": 1,
            "n_group": 1,
            "topk_group": 1,
            "partial_rotary_factor": 0.5,
        },
    ),
    Tiny("glm4", "glm4", {"partial_rotary_factor": 0.5}),
    Tiny("smollm3", "smollm3", {"no_rope_layers": [1, 1, 1, 0]}),
    Tiny(
        "gemma2",
        "gemma2",
        {"sliding_window": 24, "layer_types": SLIDING, "query_pre_attn_scalar": 16},
        window=24,
    ),
    Tiny("gemma3", "gemma3_text", {"sliding_window": 24, "layer_types": SLIDING}, window=24),
    Tiny(
        "gpt-oss",
        "gpt_oss",
        {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": 24,
            "layer_types": SLIDING,
            **rope("yarn", factor=4.0, original_max_position_embeddings=64, truncate=False),
        },
        window=24,
    ),
    Tiny("phi3", "phi3", {"hidden_size": 96}),
    Tiny("olmo2", "olmo2", {}),
    Tiny("olmo3", "olmo3", {"sliding_window": 24, "layer_types": SLIDING}, window=24),
    Tiny("olmo3-rope-by-type", "olmo3", {"sliding_window": 24, "layer_types": SLIDING, **BY_TYPE}, window=24),
    Tiny("cohere2", "cohere2", {"hidden_size": 96, "sliding_window": 24, "layer_types": SLIDING}, window=24),
    Tiny(
        "ministral3",
        "ministral3",
        rope(
            "yarn",
            factor=4.0,
            original_max_position_embeddings=32,
            beta_fast=32.0,
            beta_slow=1.0,
            mscale=1.0,
            mscale_all_dim=1.0,
            llama_4_scaling_beta=0.1,
        ),
    ),
    Tiny("gpt-neox", "gpt_neox", {"hidden_size": 96}),
    Tiny("deepseek-v3", "deepseek_v3", {**MOE, **LATENT, "n_routed_experts": 4, "n_group": 1, "topk_group": 1}),
    Tiny(
        "llama4",
        "llama4_text",
        {
            "intermediate_size_mlp": 96,
            "num_local_experts": 4,
            "attention_chunk_size": 24,
            "attn_temperature_tuning": False,
        },
        window=24,
    ),
)

# Refresh works on these; their keys cannot be moved.
FIXED_POSITIONS = (
    Tiny("gpt2", "gpt2", {}, no_shift="keys of layer 0"),
    Tiny("opt", "opt", {"word_embed_proj_dim": 48, "ffn_dim": 96}, no_shift="keys of layer 0"),
    Tiny("phi3-longrope", "phi3", {"hidden_size": 96, **LONG_ROPE}, no_shift="rope_type 'longrope'"),
    Tiny(
        "llama-dynamic",
        "llama",
        {**rope("dynamic", factor=2.0), "max_position_embeddings": SWITCH},
        no_shift="rope_type 'dynamic'",
    ),
)
BY_NAME = {tiny.name: tiny for tiny in (*MATRIX, *FIXED_POSITIONS)}


def build(tiny: Tiny, seed: int = 0, dtype: torch.dtype = torch.float32) -> nn.Module:
    """A random model whose attention matters: weights large enough that earlier tokens change later rows."""
    config = AutoConfig.for_model(tiny.model_type, **{**COMMON, **tiny.overrides})
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim >= 2:
                noise = torch.randn(parameter.shape, generator=generator) * (1.5 / parameter.shape[-1] ** 0.5)
                parameter.copy_(noise)
            elif "sinks" in name or "bias" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return model.eval()
