"""The numerical controls on one case: what is built anew, what is compared with what, and how failures are recorded."""

import hashlib
import re
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
from cachemend.tasks.numerics import bounding, building
from cachemend.tasks.numerics.arms import PATHS, RE_PREFILL, PathArm, sur_arms
from cachemend.tasks.numerics.bounding import PROBED_ROWS, bound_case, spread
from cachemend.tasks.numerics.finishing import finished
from cachemend.tasks.numerics.probing import probe_case
from cachemend.tasks.numerics.repeating import cells_of, repeat_case
from cachemend.tasks.numerics.works import BOUND, PROBES, REPEATS
from cachemend.tasks.work import Measured, get_work
from cachemend.warehouse.schemas import TABLES
from cachemend.warehouse.validate import validated

from support.numeric_rows import bound_row, probe_row, repeat_row
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


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_probe_that_sees_other_rows_is_no_result(
    folder: str, case: NiahCase, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(folder, dtype=dtype)
    (right,) = bound_case(model, case, sur_arms((20.0,), ("packed",)), "sdpa")
    assert right.row["outcome"] == "ok"

    def stale(chosen: np.ndarray) -> np.ndarray:
        return np.setdiff1d(np.arange(chosen[0], case.n_tokens), chosen)[:PROBED_ROWS]

    monkeypatch.setattr(bounding, "spread", stale)
    (measured,) = bound_case(model, case, sur_arms((20.0,), ("packed",)), "sdpa")
    row = measured.row
    assert row["outcome"] == "case_error"
    limit = {"float32": 0.001, "bfloat16": 0.1, "float16": 0.0125}[dtype]
    assert row["reproduced"] > limit
    assert row["error"] == (
        "the probe does not see what the refresh saw: fresh keys or values are "
        f"{row['reproduced']:.3g} from the cached ones in layer 1, more than {limit}"
    )
    assert "n_probed" not in row, "it says nothing of the bound"
    _is_valid("bound_records", bound_row(), measured)


@pytest.fixture(scope="module")
def overflowing(folder: str) -> LoadedModel:
    """FP16 weights that make the last layer's queries greater than any FP16 number; keys and values stay finite."""
    low = load_model(folder, dtype="float16")
    with torch.no_grad():
        low.model.model.layers[1].self_attn.q_proj.weight.mul_(torch.finfo(torch.float16).max / 2)
    return low


def _is_valid(table: str, row: dict[str, Any], found: Measured) -> None:
    """The table takes what was found; columns that it leaves out are NULL, as in a written record."""
    measured = {c.name for c in TABLES[table].columns if c.nullable and c.name not in ("stratum", "length", "budget")}
    validated(TABLES[table], [row | dict.fromkeys(measured) | found.row])


def test_answers_that_are_no_numbers_are_failures(overflowing: LoadedModel, case: NiahCase) -> None:
    rows = repeat_case(overflowing, case, PATHS, "sdpa", 2)
    assert len(rows) == 12
    for found in rows:
        assert (found.row["outcome"], found.row["error"]) == ("case_error", "gold_nll is not finite")
        assert found.row["gold_nll"] is None
        _is_valid("repeat_records", repeat_row(), found)


def test_probes_that_are_no_numbers_are_failures(overflowing: LoadedModel, case: NiahCase) -> None:
    for found in probe_case(overflowing, case, SUR, "sdpa"):
        assert found.row["outcome"] == "case_error"
        assert found.row["error"] == (
            f"FloatingPointError: {found.arm.executor} refresh: its rows or the query's logits are not finite"
        )
        _is_valid("probe_records", probe_row(), found)


def test_bounds_that_are_no_numbers_are_failures(
    overflowing: LoadedModel, loaded: LoadedModel, case: NiahCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = bound_case(overflowing, case, sur_arms((20.0,), ("packed",)), "sdpa")
    assert found.row["outcome"] == "case_error"
    assert re.fullmatch(r"error or bound is not finite at \d+ of 192 probed rows", found.row["error"])
    assert found.row["reproduced"] < 0.0125
    _is_valid("bound_records", bound_row(), found)

    def planted(*arguments: Any) -> Any:
        probe = probe_residual(*arguments)
        probe.found.bound[1, 2, 3] = np.inf
        return probe

    probe_residual = bounding.probe_residual
    monkeypatch.setattr(bounding, "probe_residual", planted)
    (found,) = bound_case(loaded, case, sur_arms((20.0,), ("packed",)), "sdpa")
    assert found.row["error"] == f"error or bound is not finite at 1 of {2 * 6 * PROBED_ROWS} probed rows"
    _is_valid("bound_records", bound_row(), found)


def test_a_difference_from_nothing_is_a_failure() -> None:
    row = {"kv_relative_l2": float("inf"), "kv_max_abs": 1.0, "n_positions": 3, "outcome": "ok"}
    told = {"outcome": "case_error", "error": "kv_relative_l2 is not finite"}
    assert finished(row) == {"kv_relative_l2": None, "kv_max_abs": 1.0, "n_positions": 3, **told}
    assert finished(row, "it broke")["error"] == "it broke; kv_relative_l2 is not finite"
    assert finished({"kv_max_abs": 1.0, "outcome": "ok"}) == {"kv_max_abs": 1.0, "outcome": "ok"}


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
