"""All arms of one case: shared work must not change what any arm answers."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from cachemend.datasets.niah import build_niah
from cachemend.datasets.niah_case import NiahCase
from cachemend.datasets.niah_rosters import PAPER_96
from cachemend.repair_core import Arm, LoadedModel, RepairContext, answer, load_model, prefill, shift, sweep_arms
from cachemend.repair_core.allocators import base as registry
from cachemend.repair_core.allocators import names
from cachemend.tasks import case_arms, repair_case
from cachemend.tasks.repair_case import run_case

from oracles import budget as budget_oracle
from oracles import intervals as intervals_oracle
from oracles import stats as stats_oracle
from support.tiny_checkpoint import save_tiny

ARMS = sweep_arms(names(), (2, 20))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"))))


@pytest.fixture(scope="module")
def case(loaded: LoadedModel) -> NiahCase:
    return build_niah(loaded.tokenizer, replace(PAPER_96, lengths=(320,), cases_per_length=1)).cases[0]


@pytest.fixture
def broken_allocator() -> Iterator[str]:
    class Broken(registry.Allocator):
        name = "broken"
        signals = ()

        def select(self, context: RepairContext, budget: int) -> np.ndarray:
            raise RuntimeError("no signal today\nsecond line")

    registry.register(Broken)
    yield "broken"
    del registry._registry["broken"]


def _run(loaded: LoadedModel, case: NiahCase, arms: Any) -> list[dict[str, Any]]:
    return run_case(
        loaded, case, arms, executor="packed", attention="sdpa", max_new_tokens=8, score_rule="niah-list-v1"
    )


def _contexts(case: NiahCase) -> dict[str, tuple[int, ...]]:
    return {"dirty": case.deletion.original_ids, "clean": case.deletion.edited_ids}


def _logprob(loaded: LoadedModel, context: tuple[int, ...], case: NiahCase) -> float:
    """Mean log-probability of the deleted value, from one plain forward without any cache."""
    value = torch.tensor(case.deleted_value_ids)
    with torch.no_grad():
        logits = loaded.model(torch.tensor([[*context, *case.query_ids, *case.deleted_value_ids]])).logits[0].double()
    scores = logits[-len(value) - 1 : -1].log_softmax(-1)
    return float(scores.gather(1, value[:, None]).mean())


def test_every_arm_alone_says_the_same(loaded: LoadedModel, case: NiahCase) -> None:
    together = _run(loaded, case, ARMS)
    for arm, row in zip(ARMS, together, strict=True):
        (alone,) = _run(loaded, case, [arm])
        assert row["outcome"] == alone["outcome"] == "ok"
        for key in ("answer_ids", "positions", "intervals", "em", "parsed", "token_layers", "causal_pairs"):
            assert row[key] == alone[key], (arm.name, key)
        for key in ("gold_nll", "tv_to_clean", "nr_tv", "deleted_logprob", "leakage"):
            assert row[key] == pytest.approx(alone[key], abs=1e-4), (arm.name, key)


def test_records_say_what_was_done(loaded: LoadedModel, case: NiahCase) -> None:
    rows = {arm.name: row for arm, row in zip(ARMS, _run(loaded, case, ARMS), strict=True)}
    suffix = case.deletion.suffix_length
    for arm in ARMS:
        row = rows[arm.name]
        if arm.budget is None:
            continue
        assert len(row["positions"]) == row["positions_budget"] == budget_oracle.budget(suffix, arm.budget)
        runs = [(run["start"], run["stop"]) for run in row["intervals"]]
        assert runs == intervals_oracle.intervals(row["positions"])
        assert row["n_intervals"] == len(runs)
        assert row["token_layers"] == 2 * len(row["positions"])
        assert row["causal_pairs"] == sum(u + 1 for u in row["positions"])
        assert row["input_unchanged"]
        assert row["positions_exact"]
        assert row["unselected_bit_identical"]
    for name in names():
        budgets = [rows[f"{name}@{budget}"]["t_signal"] for budget in (2, 20)]
        assert budgets[0] == budgets[1], name  # every arm is charged the whole signal, whoever computed it
        assert (budgets[0] > 0) == (name != "legolink"), name
    assert rows["prophetkv@2"]["t_signal"] == rows["infoflow@2"]["t_signal"]
    assert rows["re-prefill"]["leakage"] == pytest.approx(0, abs=1e-4)
    assert rows["re-prefill"]["tv_to_clean"] == pytest.approx(0, abs=1e-6)
    assert rows["re-prefill"]["nr_tv"] == pytest.approx(1, abs=1e-5)
    assert rows["dirty"]["nr_tv"] == pytest.approx(0, abs=1e-5)
    assert rows["replay"]["tv_to_clean"] == pytest.approx(0, abs=1e-5)
    dirty = prefill(loaded.model, case.deletion.original_ids)
    stale = answer(loaded.model, shift(loaded.model, dirty, case.deletion), case.query_ids, 8)
    clean = answer(loaded.model, prefill(loaded.model, case.deletion.edited_ids), case.query_ids, 8)
    assert rows["shift"]["answer_ids"] == list(stale.ids)
    leaked = {name: _logprob(loaded, ids, case) for name, ids in _contexts(case).items()}
    assert rows["dirty"]["deleted_logprob"] == pytest.approx(leaked["dirty"], abs=1e-3)
    assert rows["dirty"]["leakage"] == pytest.approx(leaked["dirty"] - leaked["clean"], abs=1e-3)
    assert rows["shift"]["tv_to_clean"] == pytest.approx(stats_oracle.tv(stale.first, clean.first), abs=1e-5)


def test_chunks_of_arms_give_the_same(loaded: LoadedModel, case: NiahCase, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _run(loaded, case, ARMS)
    monkeypatch.setattr(repair_case, "batch_bytes", lambda device: 1)
    for one, two in zip(whole, _run(loaded, case, ARMS), strict=True):
        assert one["answer_ids"] == two["answer_ids"]
        assert one["positions"] == two["positions"]


def test_equal_supports_share_one_refresh(loaded: LoadedModel, case: NiahCase, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = case_arms.refresh
    monkeypatch.setattr(case_arms, "refresh", lambda *a, **k: calls.append(a[3]) or real(*a, **k))
    rows = _run(loaded, case, [Arm(allocator="sur", budget=100.0), Arm(allocator="dense-tokens", budget=100.0)])
    assert len(calls) == 1
    assert rows[0]["answer_ids"] == rows[1]["answer_ids"]
    assert rows[0]["t_refresh"] == rows[1]["t_refresh"]


def test_budgets_that_print_alike_stay_apart(loaded: LoadedModel, case: NiahCase) -> None:
    suffix = case.deletion.suffix_length
    exact = 300 / suffix
    close = [Arm(allocator="dense-tokens", budget=exact * (1 + sign * 1e-9)) for sign in (-1, 1)]
    assert len({arm.name for arm in close}) == 2
    assert [len(row["positions"]) for row in _run(loaded, case, close)] == [3, 4]


def test_one_arm_fails_alone(loaded: LoadedModel, case: NiahCase, broken_allocator: str) -> None:
    arms = [ARMS[1], Arm(allocator=broken_allocator, budget=5.0), ARMS[-1]]
    first, failed, last = _run(loaded, case, arms)
    assert first["outcome"] == last["outcome"] == "ok"
    assert failed == {
        "gold": list(case.gold),
        "outcome": "case_error",
        "error": "RuntimeError: no signal today",
    }


def test_a_poison_case_fails_as_a_whole_with_its_reason(loaded: LoadedModel, case: NiahCase) -> None:
    poison = replace(case, suffix_ids=(*case.suffix_ids[:-1], 10_000))
    rows = _run(loaded, poison, ARMS)
    assert {row["outcome"] for row in rows} == {"case_error"}
    assert all("10000" in row["error"] for row in rows)


def test_unsupported_models_are_refused_per_arm(
    loaded: LoadedModel, case: NiahCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded.model.config, "attn_temperature_tuning", True, raising=False)
    rows = _run(loaded, case, ARMS[:2])
    assert {row["outcome"] for row in rows} == {"refused"}


def test_a_broken_invariant_is_not_ok(loaded: LoadedModel, case: NiahCase, monkeypatch: pytest.MonkeyPatch) -> None:
    real = case_arms.refresh

    def touches_one_more_row(model, cache, ids, positions, *rest, **options):  # type: ignore[no-untyped-def]
        out = real(model, cache, ids, positions, *rest, **options)
        out.layers[0].keys[:, :, case.deletion.prefix_length - 1] += 1
        return out

    monkeypatch.setattr(case_arms, "refresh", touches_one_more_row)
    (row,) = _run(loaded, case, [Arm(allocator="sur", budget=5.0)])
    assert row["outcome"] == "case_error"
    assert row["error"] == "broken invariant: input_unchanged, unselected_bit_identical"
    assert row["em"] is None
