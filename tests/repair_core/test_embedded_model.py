"""The same guarantees on real weights: one development case of the embedded model, FP32."""

from dataclasses import replace

import pytest

from cachemend.datasets.niah import build_niah
from cachemend.datasets.niah_case import NiahCase
from cachemend.datasets.niah_rosters import EMBEDDED_DEV
from cachemend.repair_core import (
    LoadedModel,
    RepairContext,
    allocate,
    answer,
    answer_batch,
    load_model,
    prefill,
    refresh,
    shift,
)
from cachemend.repair_core.caches import Rows, read_rows
from cachemend.repair_core.executors import REPAIRING
from cachemend.repair_core.invariants import changed_rows


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load_model("smollm2-135m", dtype="float32")


@pytest.fixture(scope="module")
def case(loaded: LoadedModel) -> NiahCase:
    return build_niah(loaded.tokenizer, replace(EMBEDDED_DEV, lengths=(300,), cases_per_length=1)).cases[0]


def _worst(a: list[Rows], b: list[Rows]) -> float:
    return max(
        float((x - y).abs().max() / y.abs().max()) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True)
    )


def test_executors_agree_and_batches_answer_alike(loaded: LoadedModel, case: NiahCase) -> None:
    model, deletion = loaded.model, case.deletion
    context = RepairContext(model, loaded.tokenizer, deletion, case.query_text, query_ids=case.relevance_ids)
    shifted, clean = context.shifted, prefill(model, deletion.edited_ids)
    assert _worst(read_rows(shifted)[:1], read_rows(clean)[:1]) <= 1e-5
    positions = allocate("dense-tokens", context, 10)
    caches = [refresh(model, shifted, deletion.edited_ids, positions, executor=name) for name in REPAIRING]
    for cache in caches:
        assert _worst(read_rows(cache), read_rows(caches[0])) <= 1e-4
        assert set(changed_rows(read_rows(shifted), read_rows(cache))) <= set(positions.tolist())
    every = refresh(model, shifted, deletion.edited_ids, range(deletion.prefix_length, len(deletion.edited_ids)))
    assert _worst(read_rows(every), read_rows(clean)) <= 1e-4
    arms = [shifted, clean, caches[-1]]
    together = answer_batch(model, arms, case.query_ids, 12, continuations=[case.gold_ids])
    for arm, said in zip(arms, together, strict=True):
        alone = answer(model, arm, case.query_ids, 12, continuations=[case.gold_ids])
        assert said.ids == alone.ids
        assert said.logprobs == pytest.approx(alone.logprobs, abs=1e-4)


def test_sur_finds_the_needed_fact(loaded: LoadedModel, case: NiahCase) -> None:
    """The unit that holds the remaining fact is chosen at 10 %: its value's digits are refreshed."""
    deletion = case.deletion
    dirty = prefill(loaded.model, deletion.original_ids)
    context = RepairContext(loaded.model, loaded.tokenizer, deletion, case.query_text, dirty=dirty)
    chosen = allocate("sur", context, 10).tolist()
    assert case.gold[0] in loaded.tokenizer.decode([deletion.edited_ids[u] for u in chosen])
    assert shift(loaded.model, dirty, deletion).counts()["stale"] == deletion.suffix_length
