"""What a model's configuration says about attention and positions, and which of it is unsupported."""

from typing import Any, NamedTuple

import torch
from torch import nn

from cachemend.repair_core.errors import Refused
from cachemend.repair_core.forward import base_model, cache_argument, model_lock, takes
from cachemend.repair_core.placement import check_placement
from cachemend.repair_core.quantized import check_quantization

LENGTH_DEPENDENT_ROPE = ("dynamic", "longrope")
KNOWN_LAYER_TYPES = ("full_attention", "sliding_attention", "chunked_attention")
# They ignore a ready-made mask and read scattered positions as several packed sequences.
REFUSED_ATTENTION = ("flash", "paged")


class Window(NamedTuple):
    """A limited view of one layer: query u sees keys `first(u)` to u.

    Attributes:
        size: tokens.
        chunked: the view starts at the last multiple of `size` instead of `size` tokens back.
    """

    size: int
    chunked: bool = False

    def first(self, positions: torch.Tensor) -> torch.Tensor:
        """The earliest visible key of each query position; may be negative."""
        return positions - positions % self.size if self.chunked else positions - self.size + 1


def text_config(model: nn.Module) -> Any:
    """The configuration of the decoder (a multimodal model keeps it one level down)."""
    config: Any = base_model(model).config
    return config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config


def layer_windows(model: nn.Module) -> tuple[Window | None, ...]:
    """The window of every layer, None for full attention.

    Raises:
        Refused: a kind of attention layer this package cannot mask (linear, ...).
    """
    config = text_config(model)
    types = getattr(config, "layer_types", None)
    # Under the lock: a proof of the model shrinks its windows for a moment.
    with model_lock(model):
        sliding, chunk = (getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size"))
    if types is None:
        types = [_only_type(sliding, chunk)] * config.num_hidden_layers
    unknown = sorted(set(types) - set(KNOWN_LAYER_TYPES))
    if unknown:
        raise Refused(
            f"model type {config.model_type!r} has layers of type {', '.join(unknown)}; "
            f"supported: {', '.join(KNOWN_LAYER_TYPES)}"
        )
    windows = {
        "full_attention": None,
        "sliding_attention": Window(sliding) if sliding else None,
        "chunked_attention": Window(chunk, chunked=True) if chunk else None,
    }
    return tuple(windows[kind] for kind in types)


def _only_type(sliding: int | None, chunk: int | None) -> str:
    return "sliding_attention" if sliding else "chunked_attention" if chunk else "full_attention"


def caches_latents(model: nn.Module) -> bool:
    """Whether attention expands what is cached into the keys and values it reads (latent attention)."""
    return bool(getattr(text_config(model), "kv_lora_rank", None))


class HeadWidths(NamedTuple):
    """Numbers of a head's key (and query) and of its value, as attention reads them; the widest of all layers."""

    key: int
    value: int


def head_widths(model: nn.Module) -> HeadWidths | None:
    """The widths that the configuration states; None where it states none."""
    config = text_config(model)
    if caches_latents(model):
        return HeadWidths(int(config.qk_nope_head_dim + config.qk_rope_head_dim), int(config.v_head_dim))
    stated = [getattr(config, name, None) or 0 for name in ("head_dim", "global_head_dim")]
    if not any(stated) and getattr(config, "num_attention_heads", None):
        stated = [config.hidden_size // config.num_attention_heads]
    return HeadWidths(max(stated), max(stated)) if any(stated) else None


def rope_types(model: nn.Module) -> tuple[str, ...]:
    """The rotary scaling types in use, e.g. ``("default",)``; several where layer types differ."""
    parameters = getattr(text_config(model), "rope_parameters", None) or {}
    if "rope_type" in parameters:
        return (parameters["rope_type"],)
    nested = [value for value in parameters.values() if isinstance(value, dict)]
    return tuple(value.get("rope_type", "default") for value in nested)


def check_capability(model: nn.Module) -> None:
    """Refuse what repair cannot handle, before any work starts.

    Raises:
        Refused: names the unsupported part: another kind of model than a decoder that takes positions and a cache,
            layers that are not attention or share their keys, attention that this package cannot replace or that
            depends on the cache's length, offloaded weights, a quantisation that was not checked.
    """
    config, base = text_config(model), base_model(model)
    kind = f"model type {getattr(config, 'model_type', type(model).__name__)!r}"
    if getattr(base.config, "is_encoder_decoder", False):
        raise Refused(f"{kind} is an encoder-decoder; repair needs a decoder-only model")
    if not hasattr(config, "num_hidden_layers"):
        raise Refused(f"{kind} names no num_hidden_layers; repair needs a decoder-only model")
    layer_windows(model)
    if getattr(model, "_is_stateful", False):
        raise Refused(f"{kind} keeps a recurrent state, which cannot be refreshed row by row")
    if getattr(config, "num_kv_shared_layers", 0):
        raise Refused(f"{kind} shares keys between layers (num_kv_shared_layers); not supported")
    if getattr(config, "attn_temperature_tuning", False):
        raise Refused(f"{kind} scales attention by cache length (attn_temperature_tuning)")
    if not takes(base, "position_ids") or not takes(base, cache_argument(base)):
        raise Refused(f"{kind}: its forward takes no position_ids or no cache, so rows cannot be placed")
    if not getattr(model, "_supports_attention_backend", False):
        raise Refused(f"{kind} computes attention in its own way, outside the transformers attention interface")
    check_attention(str(getattr(config, "_attn_implementation", "")))
    if getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
        raise Refused("the adapter puts virtual tokens before the context (prompt learning); not supported")
    check_placement(model)
    check_quantization(model)


def check_attention(implementation: str) -> None:
    """Refuse an attention implementation that a refresh cannot run on.

    Raises:
        Refused: names it.
    """
    if any(part in implementation for part in REFUSED_ATTENTION):
        raise Refused(
            f"attention implementation {implementation!r} takes no mask over scattered positions; load the model "
            'with attn_implementation="sdpa" or "eager"'
        )


def check_shift(model: nn.Module) -> None:
    """Refuse Shift where a key's rotation depends on the length of the context.

    Raises:
        Refused: names the rotary setting.
    """
    bad = [kind for kind in rope_types(model) if kind in LENGTH_DEPENDENT_ROPE]
    if bad:
        raise Refused(
            f"rope_type {bad[0]!r} changes its frequencies with the context length, so cached keys cannot be "
            "rotated to new positions; re-prefill instead"
        )
