"""The numerical controls on one case: what is built anew, what is compared with what, and how failures are recorded."""

import hashlib
from collections import Counter
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest
import torch

from cachemend.datasets.niah import build_niah
from cachemend.datasets.niah_case import NiahCase
from cachemend.datasets.niah_rosters import PAPER_96
from cachemend.repair_core import InputError, LoadedModel, RepairContext, answer, load_model, prefill, replay
from cachemend.repair_core.executors import REPAIRING
from cachemend.repair_core.residual_bound import ResidualBound
from cachemend.tasks.numerics import building
from cachemend.tasks.numerics.arms import PATHS, RE_PREFILL, PathArm, sur_arms
from cachemend.tasks.numerics.bounding import PROBED_ROWS, bound_case, spread
from cachemend.tasks.numerics.probing import probe_case
from cachemend.tasks.numerics.repeating import cells_of, repeat_case
from cachemend.tasks.numerics.works import BOUND, PROBES, REPEATS
from cachemend.tasks.work import get_work

from support.tiny_checkpoint import save_tiny

SUR = sur_arms((20.0,), REPAIRING)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny(tmp_path_factory.mktemp("tiny"), initializer_range=0.2))


@pytest.fixture(scope="module")
def loaded(folder: str) -> LoadedModel:
    return load_model(folder)


@pytest.fixture(scope="module")
def case(loaded: LoadedModel) -> NiahCase:
    return build_niah(loaded.tokenizer, replace(PAPER_96, lengths=(320,), cases_per_length=1)).cases[0]


def test_each_path_is_built_three_times_and_one_cache_decoded_three_times(
    loaded: LoadedModel, case: NiahCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: Counter[str] = Counter()

    class Counting(RepairContext):
        @cached_property
        def dirty(self):  # type: ignore[no-untyped-def]
            counts["dirty"] += 1
            return super().dirty

        @cached_property
        def clean(self):  # type: ignore[no-untyped-def]
            counts["clean"] += 1
            return super().clean

    monkeypatch.setattr(building, "RepairContext", Counting)
    arms = (*PATHS, *SUR)
    rows = repeat_case(loaded, case, arms, "sdpa", 6)
    assert counts == {"dirty": 3, "clean": 3}
    found = Counter((arm.name, row["cache"], row["repeat"]) for arm, row in rows)
    assert found == {(arm.name, cell["cache"], cell["repeat"]): 1 for arm in arms for cell in cells_of(arm)}
    assert len(rows) == 3 * len(arms) + 3
    with torch.no_grad():
        ids = torch.tensor([case.query_ids])
        positions = torch.arange(case.n_tokens, case.n_tokens + ids.shape[1])[None]
        clean = prefill(loaded.model, case.deletion.edited_ids)
        logits = loaded.model(input_ids=ids, past_key_values=clean, position_ids=positions).logits[0, -1].float()
    again = answer(loaded.model, prefill(loaded.model, case.deletion.edited_ids), case.query_ids, 1)
    assert again.logits.dtype == np.float32
    assert again.logits == pytest.approx(logits.numpy(), rel=1e-4, abs=1e-4)
    whole = hashlib.sha256(again.logits.tobytes()).hexdigest()
    for arm, row in rows:
        assert row["outcome"] == "ok"
        assert row["argmax"] == row["answer_ids"][0]
        assert len(row["answer_ids"]) == 6
        if arm == RE_PREFILL:
            assert row["argmax"] == int(logits.argmax())
            # Equal bytes on a CPU, where nothing is left to chance.
            assert row["logits_sha256"] == whole
    said = {arm.path: row["logits_sha256"] for arm, row in rows}
    assert said["shift"] != said["re-prefill"]


def test_a_build_that_fails_is_its_own_failure(
    loaded: LoadedModel, case: NiahCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = iter(range(3))

    def second_breaks(*arguments: Any) -> Any:
        if next(turns) == 1:
            raise RuntimeError("no replay today")
        return replay(*arguments)

    monkeypatch.setattr(building, "replay", second_breaks)
    rows = repeat_case(loaded, case, PATHS, "sdpa", 2)
    failed = [(arm.path, row) for arm, row in rows if row["outcome"] != "ok"]
    error = "RuntimeError: no replay today"
    assert failed == [("replay", {"cache": "built", "repeat": 2, "outcome": "case_error", "error": error})]
    assert len(rows) == 12


def test_a_lost_case_fails_in_every_cell(case: NiahCase) -> None:
    lost = REPEATS.failed(case, RE_PREFILL, "worker_died", "gone")
    assert [(row["cache"], row["repeat"]) for _, row in lost] == [
        (c["cache"], c["repeat"]) for c in cells_of(RE_PREFILL)
    ]
    assert {row["outcome"] for _, row in lost} == {"worker_died"}
    assert BOUND.failed(case, SUR[0], "worker_died", "gone") == [(SUR[0], {"outcome": "worker_died", "error": "gone"})]
    assert get_work("executor-probes") is PROBES


def test_executors_in_fp32(loaded: LoadedModel, case: NiahCase) -> None:
    rows = {arm.executor: row for arm, row in probe_case(loaded, case, SUR, "sdpa")}
    assert rows.keys() == set(REPAIRING)
    for executor, row in rows.items():
        assert row["outcome"] == "ok"
        assert row["n_positions"] == -(-case.deletion.suffix_length * 20 // 100)
        assert "budget_n" not in row
        assert ("argmax_agreement" in row) == (executor != "interval")
        if executor != "interval":
            assert row["argmax_agreement"] == 1
            assert row["first_argmax_same"] is True
            assert row["logits_relative_l2"] < 1e-4
            assert row["kv_relative_l2"] < 1e-4


def test_executors_in_bf16_beside_fp32(folder: str, case: NiahCase) -> None:
    low = load_model(folder, dtype="bfloat16")
    rows = {arm.executor: row for arm, row in probe_case(low, case, SUR, "sdpa")}
    packed = rows["packed"]
    assert packed["budget_largest_ratio"] == 1
    for row in rows.values():
        assert row["outcome"] == "ok"
        # Two layers' keys and values and the logits, maximum and RMS of each.
        assert row["budget_n"] == 2 * (2 * 2 + 1)
        assert (row["budget_n_over"] > 0) == (row["budget_largest_ratio"] > 2)
        assert 1e-4 < row["fp32_kv_relative_l2"] < 0.1
    assert packed["kv_relative_l2"] <= packed["fp32_kv_relative_l2"] + rows["interval"]["fp32_kv_relative_l2"]


def test_both_sides_of_the_bound_at_spread_rows(loaded: LoadedModel, case: NiahCase) -> None:
    (measured,) = bound_case(loaded, case, sur_arms((20.0,), ("packed",)), "sdpa")
    row = measured.row
    assert row["outcome"] == "ok"
    assert row["n_probed"] == 2 * 6 * PROBED_ROWS
    lists = ("layer", "head", "position", "error_norm", "value_term", "bound_measured", "bound", "violated")
    assert {len(row[name]) for name in lists} == {row["n_probed"]}
    assert len(set(zip(row["layer"], row["head"], row["position"], strict=True))) == row["n_probed"]
    assert max(row["violated"]) == 0
    assert row["reproduced"] < 1e-3


def test_a_violation_is_no_result(loaded: LoadedModel, case: NiahCase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ResidualBound, "violated", property(lambda self: self.error == self.error.max()))
    (measured,) = bound_case(loaded, case, sur_arms((20.0,), ("packed",)), "sdpa")
    assert measured.row["outcome"] == "case_error"
    assert measured.row["error"] == f"the error exceeds the bound at 1 of {2 * 6 * PROBED_ROWS} probed rows"
    assert sum(measured.row["violated"]) == 1


def test_rows_are_spread_over_all_positions() -> None:
    assert spread(np.arange(5)).tolist() == [0, 1, 2, 3, 4]
    chosen = spread(np.arange(100, 1000))
    assert len(set(chosen.tolist())) == PROBED_ROWS
    assert chosen[[0, -1]].tolist() == [100, 999]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"path": "sur"}, "only references"),
        ({"path": "dirty"}, "path 'dirty'"),
        ({"path": "dense-tokens", "budget": 5.0, "executor": "packed"}, "path 'dense-tokens'"),
        ({"path": "shift", "executor": "packed"}, "only sur has one"),
        ({"path": "sur", "budget": 5.0, "executor": "bottom-right"}, "'bottom-right' repairs nothing"),
    ],
)
def test_arms_that_make_no_sense(given: dict, line: str) -> None:
    with pytest.raises(InputError, match=line):
        PathArm(**given)
