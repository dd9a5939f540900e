"""The variants of SUR as arms of a case: with a real tokenizer and cache, beside the allocators' arms."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from cachemend.datasets.niah import build_niah
from cachemend.datasets.niah_case import NiahCase
from cachemend.datasets.niah_rosters import PAPER_96
from cachemend.flows.config import ErasingNiahConfig
from cachemend.repair_core import Arm, LoadedModel, RepairContext, answer, load_model, prefill, refresh, shift
from cachemend.repair_core.locality import LOCALITY
from cachemend.repair_core.signals.query_attention import QueryAttention
from cachemend.repair_core.units import build_units
from cachemend.repair_core.variants import VARIANTS, relevance, spend
from cachemend.repair_core.variants.components import by_thresholds
from cachemend.tasks import repair_case
from cachemend.tasks.identity import RunIdentity
from cachemend.tasks.repair_case import run_case

from oracles import units as units_oracle
from support.tiny_checkpoint import save_tiny

ARMS = ErasingNiahConfig(sweep="questions").arms()


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"))))


@pytest.fixture(scope="module")
def case(loaded: LoadedModel) -> NiahCase:
    return build_niah(loaded.tokenizer, replace(PAPER_96, lengths=(320,), cases_per_length=1)).cases[0]


@pytest.fixture(scope="module")
def context(loaded: LoadedModel, case: NiahCase) -> RepairContext:
    return RepairContext(
        loaded.model,
        loaded.tokenizer,
        case.deletion,
        case.query_text,
        query_ids=case.relevance_ids,
        case_id=case.case_id,
    )


def run(loaded: LoadedModel, case: NiahCase, arms: Any) -> list[dict[str, Any]]:
    return run_case(
        loaded, case, arms, executor="packed", attention="sdpa", max_new_tokens=8, score_rule="niah-list-v1"
    )


def test_the_sweep_of_the_questions(loaded: LoadedModel, case: NiahCase) -> None:
    assert len(ARMS) == 4 + 5 * (1 + len(VARIANTS))
    searched = ErasingNiahConfig(sweep="locality").arms()
    assert [arm.name for arm in searched[4:]] == ["sur@0.5", "sur@1", "sur@2", "sur@3", "sur@5", f"{LOCALITY}@100"]
    assert len(ErasingNiahConfig(sweep="complete").arms()) == 88, "the paper's sweep is as it was"
    rows = {arm.name: row for arm, row in zip(ARMS, run(loaded, case, ARMS), strict=True)}
    assert {row["outcome"] for row in rows.values()} == {"ok"}
    for arm in ARMS:
        row = rows[arm.name]
        if arm.budget is None:
            continue
        assert len(row["positions"]) == row["positions_budget"]
        assert all(row[name] for name in ("input_unchanged", "positions_exact", "unselected_bit_identical"))
        if arm.allocator in VARIANTS and VARIANTS[arm.allocator].allowance.__name__ == "suffix_share":
            assert row["positions_budget"] == rows[f"sur@{arm.budget:g}"]["positions_budget"]


@pytest.mark.parametrize("name", ["sur-tail", "windows-4", "sur-two-stage", "sur-min-16"])
def test_an_arm_answers_as_a_cache_repaired_by_hand(
    loaded: LoadedModel, case: NiahCase, context: RepairContext, name: str
) -> None:
    (row,) = run(loaded, case, [Arm(allocator=name, budget=5)])
    positions = spend(name, context, 5).positions
    assert row["positions"] == positions.tolist()
    dirty = prefill(loaded.model, case.deletion.original_ids)
    repaired = refresh(
        loaded.model,
        shift(loaded.model, dirty, case.deletion),
        case.deletion.edited_ids,
        positions,
        executor="interval",
    )
    assert row["answer_ids"] == list(answer(loaded.model, repaired, case.query_ids, 8).ids)


def test_thresholds_are_those_of_the_segmentation(context: RepairContext, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = build_units

    def watched(spans: Any, pieces: Any, *limits: int) -> Any:
        expected = units_oracle.units([tuple(s) for s in spans], [[tuple(p) for p in c] for c in pieces], *limits)
        assert [list(range(u.start, u.stop)) for u in real(spans, pieces, *limits)] == expected
        seen.append(limits)
        return real(spans, pieces, *limits)

    monkeypatch.setattr("cachemend.repair_core.units.build_units", watched)
    for name in ("sur-min-16", "sur-min-32", "sur-max-16", "sur-max-32"):
        spend(name, context, 5)
    assert seen == [(128, 16), (128, 32), (16, 8), (32, 8)]
    own = spend("sur", context, 5).positions - case_prefix(context)
    assert sorted(by_thresholds()(context, own.size).tolist()) == own.tolist(), "SUR's own thresholds are SUR"


def case_prefix(context: RepairContext) -> int:
    return int(context.deletion.suffix_positions[0])


def test_the_second_half_follows_attention_on_the_repaired_cache(
    context: RepairContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget, first = 20, 10
    length, prefix = context.deletion.suffix_length, case_prefix(context)
    sur = spend("sur", context, 100 * (first - 0.5) / length).positions
    assert sur.size == first
    # All attention falls on the last unit that the first half left alone.
    untouched = [
        u for u in context.segmentation.units if not set(range(u.start, u.stop)) & set((sur - prefix).tolist())
    ]
    target = untouched[-1]
    looked: list[torch.Tensor] = []

    def all_on_target(model: Any, cache: Any, query_ids: Any) -> QueryAttention:
        looked.append(cache.layers[0].keys)
        mean = np.zeros(len(context.deletion.edited_ids))
        mean[prefix + target.start : prefix + target.stop] = 0.5
        return QueryAttention(mean, mean)

    monkeypatch.setattr(relevance, "query_attention", all_on_target)
    mine = sorted(VARIANTS["sur-two-stage"].select(context, budget).tolist())
    assert set((sur - prefix).tolist()) <= set(mine)
    rest = sorted(set(mine) - set((sur - prefix).tolist()))
    assert len(rest) == budget - first
    assert set(rest[: target.length]) <= set(range(target.start, target.stop)) or set(
        range(target.start, target.stop)
    ) <= set(rest)
    changed = (looked[0] != context.shifted.layers[0].keys).any(dim=(0, 1, 3)).nonzero().flatten().tolist()
    assert set(changed) <= set(sur.tolist()), "the second look sees the cache repaired at the first half"
    assert all(b > a for a, b in pairwise(mine))


def test_locality_is_a_bound_that_was_reached(
    loaded: LoadedModel, case: NiahCase, context: RepairContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The random model is never right, so right here is: the same answer as the clean cache."""
    (clean,) = run(loaded, case, [Arm(allocator="re-prefill")])
    (shifted,) = run(loaded, case, [Arm(allocator="shift")])
    arm = Arm(allocator=LOCALITY, budget=100.0)
    (never,) = run(loaded, case, [arm])
    assert (never["em"], never["positions"], never["answer_ids"]) == (0.0, [], shifted["answer_ids"])

    monkeypatch.setattr(repair_case, "exact_match", lambda text, gold, rule: float(text == clean["answer"]))
    (found,) = run(loaded, case, [arm])
    assert found["outcome"] == "ok"
    if shifted["answer"] == clean["answer"]:
        assert found["positions"] == []
    else:
        assert found["em"] == 1.0
        assert 0 < len(found["positions"]) == found["positions_budget"] <= case.deletion.suffix_length
        assert found["positions_exact"]


def test_the_identity_of_a_variant_names_no_auxiliary_model() -> None:
    identity = RunIdentity(
        experiment="erasing-niah", cohort_digest="c", model="m", model_fingerprint="f", dtype="float32",
        executor="packed", attention="sdpa", decoding="greedy-8", score_rule="niah-list-v1", engine_version=2,
        auxiliary="target",
    )  # fmt: skip
    keys = {identity.key("case", arm) for arm in ARMS}
    assert len(keys) == len(ARMS)
    assert identity.of("case", Arm(allocator="sur-tail", budget=5))["auxiliary"] is None
    assert identity.of("case", Arm(allocator=LOCALITY, budget=100))["auxiliary"] is None
    assert identity.of("case", Arm(allocator="speccache", budget=5))["auxiliary"] == "target"
