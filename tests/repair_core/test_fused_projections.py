from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from cachemend.repair_core.executors.fused_projections import fused_projections

from support.tiny_models import BY_NAME, build

IDS = torch.arange(3, 30)[None]


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "gemma3"])
def test_one_product_gives_what_several_gave(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(BY_NAME[name])
    before = {key: value.clone() for key, value in model.state_dict().items()}
    calls = []
    with torch.no_grad():
        expected = model(IDS).logits
        with fused_projections(model) as groups:
            linear = torch.nn.functional.linear
            monkeypatch.setattr(
                "cachemend.repair_core.executors.fused_projections.linear",
                lambda *arguments: calls.append(1) or linear(*arguments),
            )
            fused = model(IDS).logits
        after = model(IDS).logits
    assert len(groups) == len(calls) == 2 * 4, "qkv and gate-up of four layers, each once a forward"
    assert float((fused - expected).abs().max() / expected.abs().max()) <= 1e-5
    assert torch.equal(after, expected)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert not any("forward" in vars(module) for module in model.modules())


def test_weights_are_held_once() -> None:
    model = build(BY_NAME["llama"])
    with fused_projections(model):
        attention = model.model.layers[0].self_attn
        storages = {
            p.weight.untyped_storage().data_ptr() for p in (attention.q_proj, attention.k_proj, attention.v_proj)
        }
        assert len(storages) == 1


def test_joining_again_moves_nothing() -> None:
    model = build(BY_NAME["qwen2"])
    places = []
    for _ in range(2):
        with fused_projections(model) as groups:
            joined = [t.data_ptr() for group in groups for t in group if t is not None]
        places.append((joined, [p.data_ptr() for p in model.parameters()]))
    assert places[0] == places[1]
    attention = model.model.layers[0].self_attn
    weights = torch.cat([p.weight for p in (attention.q_proj, attention.k_proj, attention.v_proj)])
    assert any(torch.equal(group.weight, weights) for group in groups)
    # One weight elsewhere: the others are joined with it anew.
    attention.k_proj.weight.data = attention.k_proj.weight.detach() + 1
    with torch.no_grad():
        expected = model(IDS).logits
        with fused_projections(model):
            assert float((model(IDS).logits - expected).abs().max() / expected.abs().max()) <= 1e-5


def test_a_joined_model_is_saved_like_any_other(tmp_path: Path) -> None:
    model = build(BY_NAME["qwen2"])
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with fused_projections(model):
        pass
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path).state_dict()
    assert again.keys() == before.keys()
    assert all(torch.equal(again[key], value) for key, value in before.items())
    stored = sum(value.nbytes for value in load_file(tmp_path / "model.safetensors").values())
    assert stored == sum(value.nbytes for value in before.values()), "each view alone, not the storage behind it"


def test_other_modules_are_left_alone() -> None:
    class Scaled(nn.Linear):
        def forward(self, given: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(given)

    model = build(BY_NAME["llama"])
    attention = model.model.layers[0].self_attn
    attention.k_proj.__class__ = Scaled
    model.model.layers[1].mlp.up_proj.register_forward_hook(lambda *_: None)
    with torch.no_grad():
        expected = model(IDS).logits
        with fused_projections(model) as groups:
            assert len(groups) == 2 * 4 - 2
            assert float((model(IDS).logits - expected).abs().max()) <= 1e-4
