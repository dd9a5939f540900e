"""Everything that must be refused, and how to try it: models, weights, adapters' hosts, placements and caches."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import accelerate
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, StaticCache
from transformers.cache_utils import Cache, DynamicCache, QuantizedCache

from cachemend.repair_core import prefill, refresh
from cachemend.repair_core.architecture import check_capability
from cachemend.repair_core.placement import check_device_map
from cachemend.repair_core.proving import prove_refresh

from support.tiny_models import BY_NAME, COMMON, SLIDING, Tiny, build

IDS = list(range(5, 45))


@dataclass(frozen=True)
class Refusal:
    """One thing that is refused.

    Attributes:
        group: heading of the table.
        name: what a user would recognise.
        attempt: does it; must raise.
        named: a part of the message that names the reason.
    """

    group: str
    name: str
    attempt: Callable[[], object]
    named: str


def _shell(kind: str, auto: Any = AutoModelForCausalLM, **overrides: Any) -> nn.Module:
    """A model without weights: what a refusal before any work needs."""
    base = AutoConfig.for_model(kind)
    common = {key: value for key, value in COMMON.items() if hasattr(base, key) and key != "head_dim"}
    with torch.device("meta"):
        return auto.from_config(AutoConfig.for_model(kind, **{**common, **overrides}))


def _llama() -> nn.Module:
    return build(BY_NAME["llama"])


def _stating(method: str, **more: Any) -> nn.Module:
    model = _llama()
    model.config.quantization_config = {"quant_method": method, **more}
    return model


def _doge() -> nn.Module:
    model = build(Tiny("doge", "doge", {}))
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.A.copy_(torch.linspace(-1, 1, layer.self_attn.A.numel()))
    return model


def _dynamic() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(_llama(), {nn.Linear}, dtype=torch.qint8)


def _attending(implementation: str) -> nn.Module:
    # Set directly: the setter wants the kernels, and a model may come with it set.
    model = _llama()
    model.config._attn_implementation = implementation
    return model


def _offloaded() -> nn.Module:
    return accelerate.cpu_offload(_llama(), execution_device=torch.device("cpu"))


def _hooked() -> nn.Module:
    return accelerate.cpu_offload_with_hook(_llama(), execution_device=torch.device("cpu"))[0]


def _placed(places: dict[str, Any]) -> nn.Module:
    model = _llama()
    model.hf_device_map = places
    return model


def _cached(family: str, make: Callable[[Any], Cache]) -> None:
    model = build(BY_NAME[family])
    cache = make(model.config)
    with torch.no_grad():
        model(input_ids=torch.tensor([IDS]), cache=cache)
    refresh(model, cache, IDS, [3])


def _models() -> Iterator[Refusal]:
    def by_check(name: str, named: str, kind: str, **overrides: Any) -> Refusal:
        return Refusal("Models", name, lambda: check_capability(_shell(kind, **overrides)), named)

    def by_proof(name: str, named: str, kind: str, **overrides: Any) -> Refusal:
        return Refusal("Models", name, lambda: prove_refresh(build(Tiny(kind, kind, overrides))), named)

    yield Refusal("Models", "T5", lambda: check_capability(_shell("t5", AutoModelForSeq2SeqLM)), "encoder-decoder")
    yield by_check("BART decoder", "position_ids", "bart", decoder_layers=2)
    yield by_check("Qwen3-Next", "linear_attention", "qwen3_next")
    yield by_check("Falcon-H1", "hybrid", "falcon_h1")
    yield by_check("Mamba", "linear_attention", "mamba")
    yield by_check("Jamba", "linear_attention", "jamba")
    yield by_check("LFM2", "conv", "lfm2", layer_types=["conv", "full_attention"] * 2)
    yield by_check("RWKV", "recurrent state", "rwkv")
    yield by_check("DeepSeek-V3.2", "indexed_attention", "deepseek_v32")
    yield by_check("Llama 4 with temperature tuning", "attn_temperature_tuning", "llama4_text", num_local_experts=2)
    yield by_check("Gemma 3n", "num_kv_shared_layers", "gemma3n_text", num_kv_shared_layers=2)
    yield by_check("BLOOM", "position_ids", "bloom")
    yield by_check("StableLM", "in its own way", "stablelm")
    yield Refusal("Models", "Doge (learned mask)", lambda: prove_refresh(_doge()), "disagree")
    yield by_proof("Nemotron", "cannot run a refresh", "nemotron")
    yield by_proof("Mistral with layer_types", "disagree", "mistral", sliding_window=24, layer_types=SLIDING)


def _weights() -> Iterator[Refusal]:
    def by_method(name: str, named: str, method: str, **more: Any) -> Refusal:
        return Refusal("Weights", name, lambda: check_capability(_stating(method, **more)), named)

    yield by_method("GPTQ", "'gptq'", "gptq")
    yield by_method("AWQ", "'awq'", "awq")
    yield by_method("FP8", "'fp8'", "fp8")
    yield by_method("compressed-tensors", "'compressed-tensors'", "compressed-tensors")
    yield by_method("HQQ", "'hqq'", "hqq")
    yield by_method("bitsandbytes 8 bit", "'bitsandbytes_8bit'", "bitsandbytes", load_in_8bit=True)
    yield Refusal("Weights", "torch dynamic quantization", lambda: check_capability(_dynamic()), "one scale")


def _placements() -> Iterator[Refusal]:
    mixed, disk = {"model.layers.0": 0, "model.layers.1": "cpu"}, {"": "disk"}
    yield Refusal("Placement", "device_map with CPU beside a GPU", lambda: check_device_map(mixed), "cpu")
    yield Refusal("Placement", "device_map with disk", lambda: check_capability(_placed(disk)), "disk")
    yield Refusal("Placement", "accelerate.cpu_offload", lambda: check_capability(_offloaded()), "not on any device")
    yield Refusal(
        "Placement", "accelerate.cpu_offload_with_hook", lambda: check_capability(_hooked()), "cpu_offload_with_hook"
    )


def _attention() -> Iterator[Refusal]:
    for name in ("flash_attention_2", "flash_attention_3", "paged|sdpa"):
        yield Refusal("Attention", name, lambda name=name: prefill(_attending(name), IDS), name.split("|")[0])


def _caches() -> Iterator[Refusal]:
    def by_layer(name: str, family: str, make: Callable[[Any], Cache], layer: str) -> Refusal:
        return Refusal("Caches", name, lambda: _cached(family, make), layer)

    yield by_layer(
        "DynamicCache(config=...) of a sliding model",
        "gemma3",
        lambda config: DynamicCache(config=config),
        "DynamicSlidingWindowLayer",
    )
    yield by_layer("StaticCache", "llama", lambda config: StaticCache(config=config, max_cache_len=64), "StaticLayer")
    yield by_layer(
        "QuantizedCache", "llama", lambda config: QuantizedCache(backend="fp8", config=config), "Fp8QuantizedLayer"
    )


REFUSALS = (*_models(), *_weights(), *_placements(), *_attention(), *_caches())
