"""Several edits of one context: which rows there are, and what they say of the cache."""

import pytest

from cachemend.datasets.edit_sequence_case import EditSequenceCase
from cachemend.repair_core import InputError, LoadedModel, answer, load_model, prefill
from cachemend.tasks.edit_sequence_arms import AT_ONCE, LIMITED, SUCCESSIVE, SequenceArm
from cachemend.tasks.run_edit_sequence import run_edit_sequence

from support.tiny_checkpoint import save_tiny
from support.tiny_edits import sequence_case

N = 4


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"), initializer_range=0.2)))


@pytest.fixture(scope="module")
def case(loaded: LoadedModel) -> EditSequenceCase:
    return sequence_case(loaded, 3, N)


def _rows(loaded: LoadedModel, case: EditSequenceCase, arm: SequenceArm) -> dict[tuple[int, int], dict]:
    return {(row["step"], row["probe"]): row for _, row in run_edit_sequence(loaded, case, [arm])}


def test_all_at_once_asks_every_probe_after_the_last_edit(loaded: LoadedModel, case: EditSequenceCase) -> None:
    rows = _rows(loaded, case, SequenceArm(mode=AT_ONCE, policy="edit-local", k=8))
    assert set(rows) == {(N, probe) for probe in range(N)}
    for row in rows.values():
        assert row["outcome"] == "ok"
        assert row["n_edits"] == N
        assert row["n_refreshed_rows"] <= N * 9
        assert row["worst_staleness"] == 1
    assert len({row["n_refreshed_rows"] for row in rows.values()}) == 1


def test_everything_recomputed_is_the_clean_cache(loaded: LoadedModel, case: EditSequenceCase) -> None:
    arm = SequenceArm(mode=LIMITED, policy="edit-local", k=8, staleness_limit=0)
    rows = _rows(loaded, case, arm)
    assert set(rows) == {(step, probe) for step in range(1, N + 1) for probe in range(step)}
    for (step, probe), row in rows.items():
        assert row["re_prefilled"] is True
        assert row["worst_staleness"] == row["n_stale_rows"] == 0
        assert row["margin_recovery"] == pytest.approx(1, abs=1e-3)
        assert row["tv_to_clean"] == pytest.approx(0, abs=1e-5)
        ids = case.replacements[step - 1].edited_ids
        asked = case.probes[probe]
        said = answer(
            loaded.model, prefill(loaded.model, ids), asked.query_ids, 0, continuations=(asked.new_ids, asked.old_ids)
        )
        assert row["margin"] == pytest.approx(said.logprobs[0] - said.logprobs[1], abs=1e-4)


def test_staleness_grows_with_every_edit_and_a_limit_stops_it(loaded: LoadedModel, case: EditSequenceCase) -> None:
    free = _rows(loaded, case, SequenceArm(mode=SUCCESSIVE, policy="edit-local", k=8))
    worst = [free[step, 0]["worst_staleness"] for step in range(1, N + 1)]
    assert worst == [1, 2, 3, 4]
    assert not any(row["re_prefilled"] for row in free.values())
    limited = _rows(loaded, case, SequenceArm(mode=LIMITED, policy="edit-local", k=8, staleness_limit=2))
    assert [limited[step, 0]["re_prefilled"] for step in range(1, N + 1)] == [False, False, True, False]
    assert max(row["worst_staleness"] for row in limited.values()) == 2


def test_a_failing_arm_fails_alone_with_a_row_for_every_question(loaded: LoadedModel, case: EditSequenceCase) -> None:
    good = SequenceArm(mode=SUCCESSIVE, policy="span")
    bad = SequenceArm(mode=SUCCESSIVE, policy="random", k=10_000)
    rows = run_edit_sequence(loaded, case, [bad, good])
    assert [row["outcome"] for arm, row in rows if arm is good] == ["ok"] * 10
    failed = [row for arm, row in rows if arm is bad]
    assert len({(row["step"], row["probe"]) for row in failed}) == len(failed) == 10
    assert {row["outcome"] for row in failed} == {"refused"}


@pytest.mark.parametrize(
    ("mode", "policy", "k", "limit"),
    [
        ("sometimes", "span", None, None),
        (LIMITED, "span", None, None),
        (AT_ONCE, "span", None, 3),
        (AT_ONCE, "span", 8, None),
        (AT_ONCE, "edit-local", None, None),
        (AT_ONCE, "causal-oracle", 8, None),
    ],
)
def test_bad_arms_are_named(mode: str, policy: str, k: int | None, limit: int | None) -> None:
    with pytest.raises(InputError, match=mode if policy == "span" and k is None else policy):
        SequenceArm(mode=mode, policy=policy, k=k, staleness_limit=limit)
