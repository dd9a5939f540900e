import numpy as np
import pytest
import torch
from transformers import DynamicCache

from cachemend.repair_core import Deletion, InputError, Refused, prefill, shift
from cachemend.repair_core import rotary as rotary_module
from cachemend.repair_core.caches import read_rows
from cachemend.repair_core.rotary import cache_rotations
from cachemend.repair_core.rotation import Rotation

from support.tiny_models import BY_NAME, VOCABULARY, Tiny, build

IDS = np.random.default_rng(0).integers(3, VOCABULARY, 40).tolist()
DELETION = Deletion(prefix_ids=IDS[:10], deleted_ids=IDS[10:15], suffix_ids=IDS[15:])


def _key_rotations(name: str) -> list[Rotation]:
    return [layer.keys for layer in cache_rotations(build(BY_NAME[name]))]


def test_the_probe_finds_layouts_partial_dims_and_layers_without_positions() -> None:
    llama = _key_rotations("llama")
    assert {(r.layout, r.tail, r.inv_freq.numel()) for r in llama} == {("half", False, 8)}
    glm = _key_rotations("glm4")
    assert {(r.layout, r.tail, r.inv_freq.numel()) for r in glm} == {("interleaved", False, 4)}
    assert [r.inv_freq is None for r in _key_rotations("smollm3")] == [False] * 3 + [True]
    # Gemma3's sliding and full layers turn at different rates.
    gemma = _key_rotations("gemma3")
    assert not torch.equal(gemma[0].inv_freq, gemma[1].inv_freq)


def test_the_probe_runs_once_per_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(BY_NAME["llama"])
    calls = []
    real = rotary_module._probe
    monkeypatch.setattr(rotary_module, "_probe", lambda m: calls.append(m) or real(m))
    cache_rotations(model)
    cache_rotations(model)
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


@pytest.mark.parametrize("name", ["phi3-longrope", "llama-dynamic", "gpt2", "opt"])
def test_what_cannot_be_moved_is_refused_by_name(name: str) -> None:
    model = build(BY_NAME[name])
    dirty = prefill(model, DELETION.original_ids)
    with pytest.raises(Refused, match=BY_NAME[name].no_shift):
        shift(model, dirty, DELETION)


# One of each rotary setting: scaled, partial, interleaved, by layer type, latent, chunked beside no positions.
@pytest.mark.parametrize(
    "name",
    [
        "llama-llama3",
        "llama-yarn",
        "llama-linear",
        "gpt-neox",
        "glm4",
        "cohere2",
        "olmo3-rope-by-type",
        "deepseek-v3",
        "llama4",
        "ministral3",
    ],
)
def test_a_long_way_is_moved_too(name: str) -> None:
    ids = np.random.default_rng(1).integers(3, VOCABULARY, 330).tolist()
    edit = Deletion(prefix_ids=ids[:5], deleted_ids=ids[5:305], suffix_ids=ids[305:])
    model = build(BY_NAME[name])
    shifted = read_rows(shift(model, prefill(model, edit.original_ids), edit))[0]
    clean = read_rows(prefill(model, edit.edited_ids))[0]
    for ours, fresh in zip(shifted, clean, strict=True):
        assert float((ours - fresh).abs().max() / fresh.abs().max()) <= 5e-5


@pytest.mark.parametrize("name", ["llama", "qwen3-moe", "glm4-moe", "deepseek-v3", "gpt-oss"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_low_precision_finds_the_same_rotations(name: str, dtype: torch.dtype) -> None:
    low, full = (cache_rotations(build(BY_NAME[name], dtype=kind)) for kind in (dtype, torch.float32))
    assert _shapes(low) == _shapes(full)


def test_latent_attention_turns_what_lies_beside_the_latents() -> None:
    model = build(BY_NAME["deepseek-v3"])
    assert {(layer.keys.inv_freq is None, layer.values.inv_freq.numel()) for layer in cache_rotations(model)} == {
        (True, 4)
    }


def test_a_model_that_turns_the_other_way() -> None:
    model = build(Tiny("nanochat", "nanochat", {}))
    assert all((layer.keys.inv_freq < 0).all() for layer in cache_rotations(model))
    shifted = read_rows(shift(model, prefill(model, DELETION.original_ids), DELETION))[0]
    clean = read_rows(prefill(model, DELETION.edited_ids))[0]
    assert torch.allclose(shifted.keys, clean.keys, atol=1e-5)


def test_a_cache_without_layers_or_of_another_length_is_named() -> None:
    model = build(BY_NAME["llama"])
    with pytest.raises(InputError, match="no layers"):
        shift(model, DynamicCache(), DELETION)
    with pytest.raises(InputError, match=r"holds 35 rows; .* 40"):
        shift(model, prefill(model, DELETION.edited_ids), DELETION)


def _shapes(plan: tuple) -> list:
    return [
        (turn.layout, turn.tail, None if turn.inv_freq is None else turn.inv_freq.numel())
        for layer in plan
        for turn in layer
    ]
