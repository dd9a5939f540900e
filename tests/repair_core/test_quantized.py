"""Quantised weights: those accepted give the interval-wise rows, and why activations must not share a scale."""

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, QuantoConfig, TorchAoConfig

from cachemend.repair_core import Deletion, prefill, refresh, shift
from cachemend.repair_core.caches import read_rows
from cachemend.repair_core.models import fingerprint
from cachemend.repair_core.proving import prove_refresh
from cachemend.repair_core.quantized import ACCEPTED, quantization_method

from support.capability_matrix import difference
from support.tiny_models import VOCABULARY, Tiny, build

IDS = np.random.default_rng(0).integers(3, VOCABULARY, 60).tolist()
EDIT = Deletion(prefix_ids=IDS[:14], deleted_ids=IDS[14:20], suffix_ids=IDS[20:])
# Kernels that work on blocks of weights want widths like these.
WIDE = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 8, "num_key_value_heads": 4}


def _torchao() -> Any:
    from torchao.quantization import Int8WeightOnlyConfig

    return TorchAoConfig(Int8WeightOnlyConfig())


METHODS = {
    "torchao": ("torchao", _torchao, 1e-4),
    "quanto": ("optimum.quanto", lambda: QuantoConfig(weights="int8"), 1e-4),
    # Its kernels differ between few and many rows.
    "bitsandbytes_4bit": (
        "bitsandbytes",
        lambda: BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float32),
        2e-2,
    ),
}


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package.split(".")[0]) is not None


@pytest.mark.parametrize("method", ACCEPTED)
def test_accepted_methods_refresh_like_interval_wise(method: str, tmp_path: Path) -> None:
    package, config, tolerance = METHODS[method]
    if not _installed(package):
        pytest.skip(f"{package} is not installed")
    plain = build(Tiny("wide", "llama", WIDE))
    plain.save_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32, quantization_config=config()).eval()
    assert quantization_method(model) == method
    assert fingerprint(model) != fingerprint(plain)
    prove_refresh(model)
    clean = read_rows(prefill(model, EDIT.edited_ids))
    assert difference(clean, read_rows(prefill(plain, EDIT.edited_ids))) > 1e-3, "the weights are really quantised"
    stale = shift(model, prefill(model, EDIT.original_ids), EDIT)
    packed, interval = (
        read_rows(refresh(model, stale, EDIT.edited_ids, [14, 18, 30, 31, 50], executor=name))
        for name in ("packed", "interval")
    )
    assert difference(packed, interval) <= tolerance
    whole = read_rows(refresh(model, stale, EDIT.edited_ids, range(14, 54)))
    assert difference(whole, clean) <= tolerance
    assert difference(read_rows(stale), clean) > 0.1


def test_one_scale_for_all_rows_makes_a_row_depend_on_its_neighbours() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(16, 16)), {nn.Linear}, torch.qint8)
    rows = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))
    rows[3] *= 20
    assert not torch.equal(layer(rows)[:3], layer(rows[:3]))
