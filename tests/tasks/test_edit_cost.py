"""What is timed, and what the rows of the times say."""

import pytest

from cachemend.repair_core import InputError, LoadedModel, load_model
from cachemend.tasks import edit_cost
from cachemend.tasks.edit_cost import CostArm, CostCase, time_costs

from support.tiny_checkpoint import save_tiny


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"))))


def test_every_line_is_timed_with_the_others(loaded: LoadedModel) -> None:
    arm = CostArm(ks=(4, 16), executors=("packed", "interval"))
    rows = time_costs(loaded, CostCase(case_id="c", length=120), arm, "sdpa", repeats=3)
    told = [(row["what"], row["executor"], row["k"], row["copy"]) for row in rows]
    assert told == [
        ("re-prefill", "none", None, False),
        *(
            ("refresh", executor, k, copy)
            for executor in ("packed", "interval")
            for k in (4, 16)
            for copy in (True, False)
        ),
    ]
    for row in rows:
        assert 0 < row["seconds_low"] <= row["seconds_median"] <= row["seconds_high"]
        assert (row["n_warmup"], row["n_timed"], row["n_tokens"], row["span"]) == (3, 3, 120, 3)
    assert rows[0]["token_layer_ratio"] is None
    assert rows[1]["token_layer_ratio"] == pytest.approx(120 / 7)
    assert rows[0]["floor_seconds"] is None
    floors = {(row["executor"], row["k"], row["copy"]): row["floor_seconds"] for row in rows[1:]}
    assert min(floors.values()) > 0
    assert all(floors[key] == floors["packed", key[1], True] for key in floors), "a floor has no copy and no executor"


def test_an_edit_in_place_is_timed_without_a_copy(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bool, int]] = []
    real = edit_cost.refresh

    def watched(model, cache, ids, positions, *rest, **options):  # type: ignore[no-untyped-def]
        seen.append((options.get("in_place", False), id(cache)))
        return real(model, cache, ids, positions, *rest, **options)

    monkeypatch.setattr(edit_cost, "refresh", watched)
    arm = CostArm(ks=(4,), executors=("packed",))
    time_costs(loaded, CostCase(case_id="c", length=60), arm, "sdpa", repeats=3)
    assert {in_place for in_place, _ in seen} == {True, False}
    assert len(set(seen)) == 2, "what is repaired in place is never what is copied from"


def test_the_timed_edit_keeps_its_length_and_changes_every_token_of_its_span() -> None:
    edit = CostCase(case_id="c", length=100).replacement(50)
    changed = [i for i, (a, b) in enumerate(zip(edit.original_ids, edit.edited_ids, strict=True)) if a != b]
    assert changed == [30, 31, 32]


def test_more_positions_than_there_are_is_named(loaded: LoadedModel) -> None:
    with pytest.raises(InputError, match="k = 90"):
        time_costs(loaded, CostCase(case_id="c", length=100), CostArm(ks=(90,), executors=("packed",)), "sdpa")
