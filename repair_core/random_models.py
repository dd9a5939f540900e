"""Models of a published shape with random weights: what runs fast does not depend on what was learned.

Nothing is downloaded. The sizes are those of the checkpoints' own configurations; only the longest context is raised
where it would cut a benchmark short, which changes no operation under default rotary positions.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from cachemend.repair_core.errors import InputError, nearest

PREFIX = "random:"
SEED = 0
_GIB = 2**30
_LONGEST = 40_960

_QWEN3 = {
    "model_type": "qwen3",
    "vocab_size": 151_936,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
}
_LLAMA = {
    "model_type": "llama",
    "vocab_size": 49_152,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100_000.0},
    "tie_word_embeddings": True,
}


def _sizes(hidden: int, intermediate: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        **more,
    }


SHAPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "tiny": {**_LLAMA, **_sizes(64, 128, 2, 4, num_key_value_heads=2, head_dim=16)},
        "smollm2-135m": {**_LLAMA, **_sizes(576, 1536, 30, 9)},
        "qwen3-0.6b": {**_QWEN3, **_sizes(1024, 3072, 28, 16, tie_word_embeddings=True)},
        "qwen3-1.7b": {**_QWEN3, **_sizes(2048, 6144, 28, 16, tie_word_embeddings=True)},
        "qwen3-4b": {**_QWEN3, **_sizes(2560, 9728, 36, 32, tie_word_embeddings=True)},
        "qwen3-8b": {**_QWEN3, **_sizes(4096, 12_288, 36, 32, tie_word_embeddings=False)},
    }
)
"""Configuration keys by name."""


def is_random(model: str) -> bool:
    """Whether a model's name asks for random weights, as "random:qwen3-8b" does."""
    return model.startswith(PREFIX)


def random_dtype(name: str) -> torch.dtype:
    """The precision of random weights: that of the published checkpoints, BF16, where `name` is "auto"."""
    found: torch.dtype = getattr(torch, "bfloat16" if name == "auto" else name)
    return found


def shape_config(shape: str) -> Any:
    """The transformers configuration of a shape.

    Raises:
        InputError: there is none of that name.
    """
    if shape not in SHAPES:
        raise InputError(f"shape {shape!r} is unknown; {nearest(shape, SHAPES)}")
    keys = dict(SHAPES[shape])
    return AutoConfig.for_model(keys.pop("model_type"), max_position_embeddings=_LONGEST, use_cache=True, **keys)


def shape_bytes(shape: str, dtype: torch.dtype) -> int:
    """Bytes of the weights of a shape, tied ones once; allocates none of them."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(shape_config(shape))
    return sum(p.numel() for p in model.parameters()) * torch.empty((), dtype=dtype).element_size()


def build_random(shape: str, dtype: torch.dtype, device: torch.device) -> nn.Module:
    """A model of a shape with random weights, the same on every call, in evaluation mode.

    Raises:
        InputError: an unknown shape, or weights that do not fit the memory that is free on `device`.
    """
    config = shape_config(shape)
    require_room(shape, shape_bytes(shape, dtype), dtype, device)
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), _default_dtype(dtype), torch.device(device):
        torch.manual_seed(SEED)
        model: nn.Module = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return model.eval()


def require_room(shape: str, needed: int, dtype: torch.dtype, device: torch.device) -> None:
    """Raise InputError unless `needed` bytes of weights are free on `device`."""
    free = free_bytes(device)
    if needed > free:
        fitting = [name for name in SHAPES if shape_bytes(name, dtype) <= free]
        smaller = f"; shapes that fit: {', '.join(fitting)}" if fitting else ""
        raise InputError(
            f"shape {shape!r} needs {needed / _GIB:.1f} GiB for its weights in {str(dtype).removeprefix('torch.')}, "
            f"and {free / _GIB:.1f} GiB are free on {device}{smaller}"
        )


def free_bytes(device: torch.device) -> int:
    """Bytes that can be allocated on `device` now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        import psutil
    except ImportError:
        # The GPU check needs no more than a model does; what the system's caches hold counts as taken then.
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(psutil.virtual_memory().available)


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
