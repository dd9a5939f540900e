import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, StaticCache

from cachemend.repair_core import Deletion, InputError, Refused, prefill, refresh, shift
from cachemend.repair_core import rotary as rotary_module
from cachemend.repair_core.architecture import check_capability
from cachemend.repair_core.rotary import Rotation, rotation_plan

from support.tiny_models import BY_NAME, COMMON, MATRIX, VOCABULARY, Tiny, build, rope

IDS = np.random.default_rng(0).integers(3, VOCABULARY, 40).tolist()
DELETION = Deletion(prefix_ids=IDS[:10], deleted_ids=IDS[10:15], suffix_ids=IDS[15:])


def test_the_probe_finds_layouts_partial_dims_and_layers_without_positions() -> None:
    llama = rotation_plan(build(BY_NAME["llama"]))
    assert {(r.layout, r.tail, r.inv_freq.numel()) for r in llama} == {("half", False, 8)}
    glm = rotation_plan(build(BY_NAME["glm4"]))
    assert {(r.layout, r.tail, r.inv_freq.numel()) for r in glm} == {("interleaved", False, 4)}
    assert [r.inv_freq is None for r in rotation_plan(build(BY_NAME["smollm3"]))] == [False] * 3 + [True]
    # Gemma3's sliding and full layers turn at different rates.
    gemma = rotation_plan(build(BY_NAME["gemma3"]))
    assert not torch.equal(gemma[0].inv_freq, gemma[1].inv_freq)


def test_the_probe_runs_once_per_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(BY_NAME["llama"])
    calls = []
    real = rotary_module._probe
    monkeypatch.setattr(rotary_module, "_probe", lambda m: calls.append(m) or real(m))
    rotation_plan(model)
    rotation_plan(model)
    assert len(calls) == 1


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("tail", [False, True])
def test_rotation_by_hand_in_complex_numbers(layout: str, tail: bool) -> None:
    frequencies = torch.tensor([0.7, 0.01], dtype=torch.float64)
    keys = torch.randn(2, 3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    out = Rotation(frequencies, layout, tail).apply(keys, -5)  # type: ignore[arg-type]
    start = 2 if tail else 0
    part, turned = keys[..., start : start + 4].numpy(), out[..., start : start + 4].numpy()
    first, second = (slice(0, 2), slice(2, 4)) if layout == "half" else (slice(0, 4, 2), slice(1, 4, 2))
    expected = (part[..., first] + 1j * part[..., second]) * np.exp(-5j * frequencies.numpy())
    assert np.allclose(turned[..., first] + 1j * turned[..., second], expected)
    rest = slice(0, 2) if tail else slice(4, 6)
    assert torch.equal(out[..., rest], keys[..., rest])


@pytest.mark.parametrize(
    ("kind", "extra"),
    [
        ("dynamic", {"factor": 2.0}),
        (
            "longrope",
            {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "original_max_position_embeddings": 64},
        ),
    ],
)
def test_length_dependent_rotaries_are_refused_for_shift_by_name(kind: str, extra: dict) -> None:
    model = build(Tiny(kind, "llama", rope(kind, **extra)))
    dirty = prefill(model, DELETION.original_ids)
    with pytest.raises(Refused, match=f"rope_type '{kind}'"):
        shift(model, dirty, DELETION)


def test_absolute_positions_are_refused() -> None:
    config = AutoConfig.for_model("gpt2", vocab_size=VOCABULARY, n_embd=48, n_layer=2, n_head=4, n_positions=256)
    model = AutoModelForCausalLM.from_config(config).eval()
    with pytest.raises(Refused, match="keys of layer 0"):
        rotation_plan(model)


@pytest.mark.parametrize(
    ("kind", "overrides", "named"),
    [
        ("qwen3_next", {"layer_types": ["linear_attention", "full_attention"] * 2}, "linear_attention"),
        ("llama4_text", {"num_local_experts": 2, "layer_types": ["chunked_attention"] * 4}, "chunked"),
    ],
)
def test_unsupported_layers_are_refused_by_name(kind: str, overrides: dict, named: str) -> None:
    class Shell(torch.nn.Module):
        config = AutoConfig.for_model(kind, **{**COMMON, **overrides})

    with pytest.raises(Refused, match=named):
        check_capability(Shell())


def test_an_encoder_decoder_and_offloading_are_refused() -> None:
    class Shell(torch.nn.Module):
        config = AutoConfig.for_model("t5")

    with pytest.raises(Refused, match="encoder-decoder"):
        check_capability(Shell())
    model = build(BY_NAME["llama"])
    model.hf_device_map = {"model.layers.0": 0, "model.layers.1": "disk"}
    with pytest.raises(Refused, match="disk"):
        check_capability(model)


def test_caches_that_lose_rows_are_refused_by_type() -> None:
    tiny = next(t for t in MATRIX if t.name == "gemma3")
    model = build(tiny)
    truncated = DynamicCache(config=model.config)
    model(input_ids=torch.tensor([IDS]), cache=truncated)
    with pytest.raises(Refused, match="DynamicSlidingWindowLayer"):
        refresh(model, truncated, IDS, [3])
    static = StaticCache(config=build(BY_NAME["llama"]).config, max_cache_len=64)
    with pytest.raises(Refused, match="StaticLayer"):
        shift(model, static, DELETION)
    with pytest.raises(InputError, match="no layers"):
        shift(model, DynamicCache(), DELETION)


def test_a_cache_of_another_length_is_named() -> None:
    model = build(BY_NAME["llama"])
    with pytest.raises(InputError, match="holds 35 rows; p \\+ e \\+ s has 40"):
        shift(model, prefill(model, DELETION.edited_ids), DELETION)
