"""What a model's configuration says about attention and positions, and which of it is unsupported."""

from typing import Any

from torch import nn

from cachemend.repair_core.errors import Refused
from cachemend.repair_core.forward import base_model

LENGTH_DEPENDENT_ROPE = ("dynamic", "longrope")
KNOWN_LAYER_TYPES = ("full_attention", "sliding_attention")


def text_config(model: nn.Module) -> Any:
    """The configuration of the decoder (a multimodal model keeps it one level down)."""
    config: Any = base_model(model).config
    return config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config


def layer_windows(model: nn.Module) -> tuple[int | None, ...]:
    """Sliding window of every layer in tokens (query u sees keys above u - window), None for full attention.

    Raises:
        Refused: a kind of attention layer this package cannot mask (chunked, linear, ...).
    """
    config = text_config(model)
    window = getattr(config, "sliding_window", None)
    types = getattr(config, "layer_types", None)
    if types is None:
        return (window,) * config.num_hidden_layers
    unknown = sorted(set(types) - set(KNOWN_LAYER_TYPES))
    if unknown:
        raise Refused(
            f"model type {config.model_type!r} has layers of type {', '.join(unknown)}; "
            f"supported: {', '.join(KNOWN_LAYER_TYPES)}"
        )
    return tuple(window if kind == "sliding_attention" else None for kind in types)


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
        Refused: names the unsupported part: encoder-decoder, unknown layer types, chunked attention,
            offloaded weights, attention that depends on the cache's length.
    """
    config = text_config(model)
    kind = getattr(config, "model_type", type(model).__name__)
    if getattr(base_model(model).config, "is_encoder_decoder", False):
        raise Refused(f"model type {kind!r} is an encoder-decoder; repair needs a decoder-only model")
    if not hasattr(config, "num_hidden_layers"):
        raise Refused(f"model type {kind!r} names no num_hidden_layers; repair needs a decoder-only model")
    layer_windows(model)
    if getattr(config, "attention_chunk_size", None):
        raise Refused(f"model type {kind!r} uses chunked attention (attention_chunk_size); not supported")
    if getattr(config, "attn_temperature_tuning", False):
        raise Refused(f"model type {kind!r} scales attention by cache length (attn_temperature_tuning)")
    placement = getattr(model, "hf_device_map", None) or {}
    offloaded = sorted({str(place) for place in placement.values()} & {"cpu", "disk"})
    if offloaded and len(set(placement.values())) > 1:
        raise Refused(f"device_map offloads layers to {', '.join(offloaded)}; put every layer on an accelerator")


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
