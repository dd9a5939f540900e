"""The arms of one edited item: shared work must not change what any arm answers, and endpoints are exact."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from cachemend.datasets.edit_case import EditCase
from cachemend.repair_core import InputError, LoadedModel, load_model
from cachemend.repair_core import context as context_module
from cachemend.repair_core.policies import DIAGNOSTICS, POLICIES
from cachemend.tasks import edit_case_arms, edit_guards
from cachemend.tasks import run_edit_case as run_module
from cachemend.tasks.edit_arms import EDIT_REFERENCES, EditArm, policy_arms
from cachemend.tasks.run_edit_case import run_edit_case

from oracles import edit_metrics as metrics_oracle
from support.tiny_checkpoint import save_tiny
from support.tiny_edits import retained_cases

# The exhaustive oracle tries every position; once is enough here, and the screened one shares its code.
QUICK = tuple(name for name in (*POLICIES, *DIAGNOSTICS) if name != "causal-oracle")
ARMS = (*EDIT_REFERENCES, *policy_arms(QUICK, (8, 32)), *policy_arms(("edit-local", "random"), (8,), "transplant"))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"), initializer_range=0.2)))


@pytest.fixture(scope="module", autouse=True)
def every_item_is_guarded() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edit_guards, "ONE_IN", 1)
        yield


@pytest.fixture(scope="module")
def case(loaded: LoadedModel) -> EditCase:
    return retained_cases(loaded, 1)[0]


@pytest.fixture(scope="module")
def together(loaded: LoadedModel, case: EditCase) -> dict[str, dict[str, Any]]:
    rows = run_edit_case(loaded, case, ARMS)
    return {arm.name: row for arm, row in zip(ARMS, rows, strict=True) if row is not None}


def _margin(loaded: LoadedModel, context: tuple[int, ...], case: EditCase) -> float:
    """Mean log-probability of the new answer minus the old one's, from plain forwards without any cache."""
    means = []
    for ids in (case.new_ids, case.old_ids):
        with torch.no_grad():
            logits = loaded.model(torch.tensor([[*context, *case.query_ids, *ids]])).logits[0].double()
        scores = logits[-len(ids) - 1 : -1].log_softmax(-1)
        means.append(float(scores.gather(1, torch.tensor(ids)[:, None]).mean()))
    return means[0] - means[1]


def test_stale_recovers_nothing_and_clean_everything(
    loaded: LoadedModel, case: EditCase, together: dict[str, dict[str, Any]]
) -> None:
    assert {row["outcome"] for row in together.values()} == {"ok"}
    assert together["stale"]["margin_recovery"] == 0
    assert together["clean"]["margin_recovery"] == 1
    assert together["clean"]["flip"] is True
    assert all(row["retained"] for row in together.values())
    assert together["stale"]["margin"] == pytest.approx(_margin(loaded, case.original_ids, case), abs=1e-4)
    assert together["clean"]["margin"] == pytest.approx(_margin(loaded, case.edited_ids, case), abs=1e-4)
    assert together["clean"]["kl_to_clean"] == 0
    assert together["clean"]["kl_recovery"] == 1
    assert together["stale"]["kl_recovery"] == 0


def test_every_arm_alone_says_the_same(
    loaded: LoadedModel, case: EditCase, together: dict[str, dict[str, Any]]
) -> None:
    for arm in ARMS:
        (alone,) = run_edit_case(loaded, case, [arm])
        assert alone is not None
        row = together[arm.name]
        for key in ("answer_ids", "positions", "n_topup", "flip", "retained", "token_layers", "outcome"):
            assert row.get(key) == alone.get(key), (arm.name, key)
        for key in ("margin", "margin_stale", "margin_recovery", "kl_to_clean", "tv_to_clean"):
            assert row[key] == pytest.approx(alone[key], abs=2e-3), (arm.name, key)


def test_records_say_what_was_done(case: EditCase, together: dict[str, dict[str, Any]]) -> None:
    start, stop = case.span
    for arm in ARMS:
        row = together[arm.name]
        assert row["margin_recovery"] == pytest.approx(
            metrics_oracle.margin_recovery(row["margin"], row["margin_stale"], row["margin_clean"])
        )
        if arm.operator == "none":
            continue
        assert all(stop <= position < case.n_tokens - 1 for position in row["positions"])
        assert row["n_positions"] == len(set(row["positions"]))
        assert row["token_layers"] == 2 * (stop - start + row["n_positions"])
        assert arm.k is None or row["n_positions"] == arm.k
        for name in ("input_unchanged", "positions_exact", "unselected_bit_identical", "upstream_bit_identical"):
            assert row[name] is True, (arm.name, name)
    assert together["edit-local@8"]["positions"] == list(range(stop, stop + 8))
    assert together["attention@8"]["t_signal"] == together["attention@32"]["t_signal"] > 0
    assert json.loads(together["clean"]["guards"]) == dict.fromkeys(
        ("cached-against-full", "reproduced", "null-content", "undisturbed"), "passed"
    )
    assert sum("guards" in row for row in together.values()) == 1


def test_a_contiguous_set_is_the_same_transplanted(together: dict[str, dict[str, Any]]) -> None:
    assert together["transplant:edit-local@8"]["positions"] == together["edit-local@8"]["positions"]
    assert together["transplant:edit-local@8"]["margin"] == pytest.approx(together["edit-local@8"]["margin"], abs=1e-3)
    assert together["transplant:random@8"]["positions"] == together["random@8"]["positions"]


def test_replayed_positions_must_match(
    loaded: LoadedModel, case: EditCase, together: dict[str, dict[str, Any]]
) -> None:
    recorded = tuple(together["random@8"]["positions"])
    arm = EditArm(policy="random", k=8, operator="transplant", recorded=recorded)
    other = replace(arm, recorded=(*recorded[:-1], recorded[-1] + 1))
    (row,) = run_edit_case(loaded, case, [arm])
    assert row is not None
    assert row["outcome"] == "ok"
    assert row["margin"] == pytest.approx(together["transplant:random@8"]["margin"], abs=1e-4)
    (row,) = run_edit_case(loaded, case, [other])
    assert row is not None
    assert row["outcome"] == "case_error"
    assert "differ from the recorded" in row["error"]


def test_an_item_that_is_not_retained_has_its_references_only(loaded: LoadedModel, case: EditCase) -> None:
    arms = (*EDIT_REFERENCES, EditArm(policy="edit-local", k=8))
    for dropped, gap in ((replace(case, new_answer="Quillon", old_answer="Tarn"), 0.0), (case, 50.0)):
        rows = run_edit_case(loaded, dropped, arms, min_gap=gap)
        assert [row is None for row in rows] == [False, False, False, True]
        assert [row["retained"] for row in rows if row is not None] == [False] * 3
        assert "guards" not in (rows[2] or {})


def test_an_unconditional_arm_is_run_on_an_item_that_is_not_retained_and_says_the_same(
    loaded: LoadedModel, case: EditCase, together: dict[str, dict[str, Any]]
) -> None:
    arm = EditArm(policy="edit-local", k=8, unconditional=True)
    other = EditArm(policy="random", k=8)
    row, missing = run_edit_case(loaded, case, [arm, other], min_gap=50.0)
    assert missing is None
    assert row is not None
    assert (row["retained"], row["outcome"]) == (False, "ok")
    for name in ("positions", "answer_ids", "flip"):
        assert row[name] == together["edit-local@8"][name]
    assert row["margin"] == pytest.approx(together["edit-local@8"]["margin"], abs=2e-3)


def test_a_poison_item_fails_as_a_whole_with_its_reason(loaded: LoadedModel, case: EditCase) -> None:
    rows = run_edit_case(loaded, replace(case, query_ids=(*case.query_ids, 10_000)), ARMS)
    assert len(rows) == len(ARMS)
    for row in rows:
        assert row is not None
        assert row["outcome"] == "case_error"
        assert "10000" in row["error"]
        assert row["new_answer"] == case.new_answer


def test_one_arm_fails_alone(loaded: LoadedModel, case: EditCase) -> None:
    first, failed, last = run_edit_case(
        loaded, case, [EDIT_REFERENCES[1], EditArm(policy="random", k=100_000), EditArm(policy="random", k=8)]
    )
    assert first is not None
    assert failed is not None
    assert last is not None
    assert first["outcome"] == last["outcome"] == "ok"
    assert failed["outcome"] == "refused"
    assert "100000" in failed["error"]


def test_a_broken_invariant_is_not_ok(loaded: LoadedModel, case: EditCase, monkeypatch: pytest.MonkeyPatch) -> None:
    real = edit_case_arms.refresh

    def touches_one_more_row(model, cache, ids, positions, *rest, **options):  # type: ignore[no-untyped-def]
        out = real(model, cache, ids, positions, *rest, **options)
        out.layers[0].keys[:, :, case.span[0] - 1] += 1
        return out

    monkeypatch.setattr(edit_case_arms, "refresh", touches_one_more_row)
    (row,) = run_edit_case(loaded, case, [EditArm(policy="random", k=8)])
    assert row is not None
    assert row["outcome"] == "case_error"
    assert row["error"] == ("broken invariant: input_unchanged, unselected_bit_identical, upstream_bit_identical")
    assert row["margin"] is None


def _labels(loaded: LoadedModel, case: EditCase, *arms: EditArm) -> dict[str, str]:
    """The guards' labels of an item all of whose arms end well."""
    rows = run_edit_case(loaded, case, [*arms, EDIT_REFERENCES[2]])
    assert {row["outcome"] for row in rows if row is not None} == {"ok"}
    clean = rows[-1]
    assert clean is not None
    assert np.isfinite(clean["margin"])
    labels: dict[str, str] = json.loads(clean["guards"])
    return labels


def _failed(labels: dict[str, str]) -> dict[str, str]:
    return {name: label for name, label in labels.items() if label != "passed"}


def _with_a_changed_row(cache: Any, position: int) -> Any:
    """The cache with the values of one row of one layer turned around."""
    cache.layers[-1].values[:, :, position] *= -1
    return cache


def test_a_changed_row_of_the_clean_cache_is_told_by_two_guards(
    loaded: LoadedModel, case: EditCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, last = edit_case_arms.prefill, case.n_tokens - 1
    monkeypatch.setattr(edit_case_arms, "prefill", lambda model, ids: _with_a_changed_row(real(model, ids), last))
    found = _failed(_labels(loaded, case))
    assert set(found) == {"cached-against-full", "reproduced"}
    assert found["cached-against-full"].startswith("failed: log-probabilities of the answer differ by ")
    assert found["reproduced"].startswith("failed: the clean ")


def test_a_changed_row_of_the_stale_cache_is_told(
    loaded: LoadedModel, case: EditCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, last = context_module.prefill, case.n_tokens - 1
    monkeypatch.setattr(context_module, "prefill", lambda model, ids: _with_a_changed_row(real(model, ids), last))
    found = _failed(_labels(loaded, case))
    assert set(found) == {"reproduced"}
    assert found["reproduced"].startswith("failed: the stale ")


def test_a_changed_text_is_told_by_the_answer_it_gives(
    loaded: LoadedModel, case: EditCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = edit_guards.prefill
    for name, ids in (("stale", case.original_ids), ("clean", case.edited_ids)):
        other = tuple(reversed(ids))
        monkeypatch.setattr(
            edit_guards,
            "prefill",
            lambda model, asked, ids=ids, other=other: real(model, other if asked == ids else asked),
        )
        assert _failed(_labels(loaded, case)) == {
            "reproduced": f"failed: the {name} answer is another one the second time"
        }


def test_an_arm_that_changes_a_shared_cache_is_told(
    loaded: LoadedModel, case: EditCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    real_prefill, real_refresh = edit_case_arms.prefill, edit_case_arms.refresh

    def kept(model: Any, ids: Any) -> Any:
        made.append(real_prefill(model, ids))
        return made[-1]

    def damaging(*given: Any, **options: Any) -> Any:
        _with_a_changed_row(made[0], case.n_tokens - 1)
        return real_refresh(*given, **options)

    monkeypatch.setattr(edit_case_arms, "prefill", kept)
    monkeypatch.setattr(edit_case_arms, "refresh", damaging)
    found = _failed(_labels(loaded, case, EditArm(policy="random", k=8)))
    assert set(found) == {"undisturbed"}
    assert found["undisturbed"].startswith("failed: the clean ")


def test_recomputing_under_the_edited_text_is_no_null_content(
    loaded: LoadedModel, case: EditCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = edit_guards.refresh
    monkeypatch.setattr(edit_guards, "refresh", lambda m, c, ids, *r, **o: real(m, c, case.edited_ids, *r, **o))
    found = _failed(_labels(loaded, case, EditArm(policy="random", k=8)))
    assert set(found) == {"null-content"}
    assert found["null-content"].startswith("failed: margins differ by ")


def test_guards_are_known_before_any_arm_runs(
    loaded: LoadedModel, case: EditCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    real_guards, real_refresh = run_module.guard_labels, edit_case_arms.refresh
    monkeypatch.setattr(run_module, "guard_labels", lambda *given: order.append("guards") or real_guards(*given))
    monkeypatch.setattr(
        edit_case_arms, "refresh", lambda *given, **options: order.append("arm") or real_refresh(*given, **options)
    )
    _labels(loaded, case, EditArm(policy="random", k=8), EditArm(policy="edit-local", k=8))
    assert order == ["guards", "arm", "arm"]


@pytest.mark.parametrize(
    ("policy", "k", "operator"),
    [
        ("edit-local", None, "recompute"),
        ("span", 8, "recompute"),
        ("edit-local-boundary", 8, "recompute"),
        ("edit-local", -1, "recompute"),
        ("edit-local", 8, "none"),
        ("stale", None, "recompute"),
        ("nope", 8, "x"),
    ],
)
def test_bad_arms_are_named(policy: str, k: int | None, operator: str) -> None:
    with pytest.raises(InputError, match=policy if k != -1 else "-1"):
        EditArm(policy=policy, k=k, operator=operator)
