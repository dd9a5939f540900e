"""LoRA adapters, wrapped and merged; prompt learning is refused."""

import numpy as np
import pytest

from cachemend.repair_core import Deletion, Refused, answer, prefill, refresh, shift
from cachemend.repair_core.caches import read_rows

from support.capability_matrix import difference
from support.tiny_models import BY_NAME, VOCABULARY, build

peft = pytest.importorskip("peft", reason="peft is not installed")

IDS = np.random.default_rng(0).integers(3, VOCABULARY, 60).tolist()
EDIT = Deletion(prefix_ids=IDS[:14], deleted_ids=IDS[14:20], suffix_ids=IDS[20:])


def test_a_wrapped_adapter_repairs_like_the_merged_model() -> None:
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "k_proj", "v_proj"], init_lora_weights=False)
    wrapped = peft.get_peft_model(build(BY_NAME["llama"]), config).eval()
    plain = read_rows(prefill(build(BY_NAME["llama"]), EDIT.edited_ids))
    stale = shift(wrapped, prefill(wrapped, EDIT.original_ids), EDIT)
    packed, interval = (
        refresh(wrapped, stale, EDIT.edited_ids, [14, 18, 30, 31, 50], executor=name) for name in ("packed", "interval")
    )
    assert difference(read_rows(packed), read_rows(interval)) <= 1e-4
    clean = read_rows(prefill(wrapped, EDIT.edited_ids))
    assert difference(read_rows(refresh(wrapped, stale, EDIT.edited_ids, range(14, 54))), clean) <= 1e-4
    assert difference(plain, clean) > 0.1, "the adapter does something"
    said = answer(wrapped, packed, [5, 9, 77], max_new_tokens=6).ids
    merged = wrapped.merge_and_unload()
    stale = shift(merged, prefill(merged, EDIT.original_ids), EDIT)
    alone = refresh(merged, stale, EDIT.edited_ids, [14, 18, 30, 31, 50])
    assert difference(read_rows(packed), read_rows(alone)) <= 1e-4
    assert answer(merged, alone, [5, 9, 77], max_new_tokens=6).ids == said


def test_virtual_tokens_are_refused() -> None:
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    with pytest.raises(Refused, match="virtual tokens"):
        prefill(peft.get_peft_model(build(BY_NAME["llama"]), config), IDS)
