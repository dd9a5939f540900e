"""Settings of an edit-repair run: defaults, the arms that follow from them, and bad ones."""

from itertools import permutations
from pathlib import Path

import pytest
from pydantic import ValidationError

from cachemend.datasets.edit_build import SEEDS_PER_CANDIDATE
from cachemend.datasets.edit_rosters import EDIT_ROSTERS, EDIT_SEQUENCE_ROSTERS
from cachemend.datasets.edit_spec import EditRoster, EditSequenceRoster
from cachemend.flows.edit_config import STUDIES, EditRepairConfig, largest_seed
from cachemend.flows.overrides import as_assignments, build_config
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.policies import DIAGNOSTICS, POLICIES

from support.tiny_checkpoint import save_tiny


def test_all_policies_at_every_k_and_one_causal_oracle() -> None:
    names = [arm.name for arm in EditRepairConfig().arms()]
    assert names[:3] == ["stale", "span", "clean"]
    assert {"edit-local@8", "edit-local@64", "edit-local-boundary", "causal-oracle-screened@32"} <= set(names)
    assert not any(name.startswith("causal-oracle@") for name in names)
    exact = {arm.policy for arm in EditRepairConfig(screen=False).arms()}
    assert exact == {"stale", "span", "clean", *POLICIES, *DIAGNOSTICS} - {"causal-oracle-screened"}
    assert len(names) == len(set(names))


def test_a_chosen_policy_replaces_them() -> None:
    config = build_config(EditRepairConfig, assignments=["policies=edit-local,causal-oracle", "k=4,32"])
    assert [arm.name for arm in config.arms()[3:]] == [
        "edit-local@4",
        "edit-local@32",
        "causal-oracle@4",
        "causal-oracle@32",
    ]
    assert config.operator_arms()[0].name == "transplant:edit-local@4"
    assert {arm.policy for arm in config.sequence_arms(2)} == {"span", "edit-local"}
    assert {arm.mode for arm in config.sequence_arms(2)} == {"at-once", "successive"}
    assert {arm.mode for arm in config.sequence_arms(10)} == {"successive", "successive-limit"}


def test_rosters_follow_the_model_and_the_study() -> None:
    config = EditRepairConfig()
    assert [roster.name for roster in config.rosters("main")] == ["embedded-dev", "embedded"]
    assert [roster.name for roster in config.rosters("severity")] == ["embedded-dev", "embedded-severity"]
    assert [roster.name for roster in config.sequence_rosters()] == ["embedded-sequences-dev", "embedded-sequences"]
    splits = {roster.name: roster.split for roster in config.rosters("main")}
    assert splits == {"embedded-dev": "dev", "embedded": "held-out"}
    assert "paper" in [roster.name for roster in EditRepairConfig(model="Qwen/Qwen3-8B").rosters("main")]
    shifted = EditRepairConfig(seed=7, length=900, families=("dog-name",)).rosters("main")
    assert [roster.n_tokens for roster in shifted] == [900, 900]
    assert [len(roster.families) for roster in shifted] == [1, 1]
    assert len({roster.first_seed for roster in shifted}) == 2


def test_no_seed_brings_two_rosters_to_the_same_items() -> None:
    def seeds(roster: EditRoster | EditSequenceRoster, shift: int) -> range:
        contexts = roster.max_candidates if isinstance(roster, EditRoster) else roster.cases_per_size * 3
        return range(roster.first_seed + shift, roster.first_seed + shift + contexts * SEEDS_PER_CANDIDATE)

    every = [*EDIT_ROSTERS.values(), *EDIT_SEQUENCE_ROSTERS.values()]
    for one, other in permutations(every, 2):
        a, b = seeds(one, largest_seed()), seeds(other, 0)
        assert a.stop <= b.start or b.stop <= a.start, (one.name, other.name)
    assert EditRepairConfig(seed=largest_seed()).rosters("main")
    with pytest.raises(ValidationError, match="too large"):
        EditRepairConfig(seed=largest_seed() + 1)


def test_studies() -> None:
    assert EditRepairConfig().studies == STUDIES
    assert EditRepairConfig(study="cost").studies == ("cost",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("study=everything", "study"),
        ("policies=edit-locl", "edit-local"),
        ("policies=edit-local,edit-local", "twice"),
        ("families=nobody", "nobody"),
        ("cases=embeded", "embedded"),
        ("k=0", "k"),
        ("k=true", "config key 'k': input should be a valid integer, not True"),
        ("k=[8, true]", "config key 'k': input should be a valid integer, not True"),
        ("k=8.0", "config key 'k': input should be a valid integer, not 8.0"),
        ("k=8,-1", "config key 'k': input should be greater than or equal to 1, not -1"),
        ("lengths=true", "config key 'lengths': input should be a valid integer, not True"),
        ("staleness_limit=true", "config key 'staleness_limit': input should be a valid integer, not True"),
        ("staleness_limit=4.0", "config key 'staleness_limit': input should be a valid integer, not 4.0"),
        ("length=true", "config key 'length'"),
        ("seed=true", "config key 'seed'"),
        ("workers=true", "config key 'workers'"),
        ("min_gap=true", "config key 'min_gap': input should be a number, not True"),
        ("spot_check=true", "config key 'spot_check': input should be a number, not True"),
        ("spot_check=1.5", "config key 'spot_check': input should be less than or equal to 1, not 1.5"),
        ("spot_check=.nan", "config key 'spot_check'"),
        ("k=[]", "k is an empty list"),
        ("min_gap=-1", "min_gap"),
        ("min_gap=.inf", "min_gap"),
        ("min_gap=.nan", "min_gap"),
        ("seed=1000000", "seed 1000000 is too large"),
        ("tokenizers=smollm2-135m,smollm2-135m", "twice"),
        (
            "executor=packd",
            "executor 'packd' is unknown; did you mean 'packed'. known: direct, interval, one-shot, packed$",
        ),
        ("alpha=1", "alpha"),
    ],
)
def test_bad_values_are_named_in_one_line(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told.replace("[", r"\[")) as caught:
        build_config(EditRepairConfig, assignments=[text])
    assert "\n" not in str(caught.value)


def test_a_context_the_model_cannot_hold_is_named(tmp_path: Path) -> None:
    model = str(save_tiny(tmp_path / "short", context=500))
    with pytest.raises(InputError, match="holds 500"):
        EditRepairConfig(model=model, study="main").check_model()
    with pytest.raises(InputError, match="length 600 exceeds"):
        EditRepairConfig(model=model, study="cost", lengths=(600,)).check_model()
    with pytest.raises(InputError, match="k 400 exceeds"):
        EditRepairConfig(model=model, study="cost", lengths=(450,), k=(400,)).check_model()
    EditRepairConfig(model=model, study="cost").check_model()
    assert EditRepairConfig(model=model, study="cost").cost_lengths() == (500,)


@pytest.mark.parametrize("study", ["main", "operators", "all"])
def test_a_k_beyond_what_is_downstream_is_named(study: str) -> None:
    # At the latest place 40 % stand before the edit, which has 6 tokens at most; the last token is in no pool.
    told = "k 1254 exceeds the 1253 positions that are downstream of every edit of cases 'embedded-dev', whose contexts"
    with pytest.raises(InputError, match=told):
        EditRepairConfig(study=study, k=(8, 1254)).check_model()
    with pytest.raises(InputError, match="k 64 exceeds the 53 positions"):
        EditRepairConfig(study=study, length=100).check_model()
    with pytest.raises(InputError, match="k 8 exceeds the 0 positions"):
        EditRepairConfig(study=study, length=9, k=(8,)).check_model()
    EditRepairConfig(study="main", k=(8, 1253)).check_model()


def test_severity_needs_room_for_its_one_k() -> None:
    with pytest.raises(InputError, match=r"k 1254 exceeds the 1253 positions .* of cases 'embedded-dev'"):
        EditRepairConfig(study="severity", k=(8, 1254)).check_model()
    EditRepairConfig(study="severity", k=(32, 1254)).check_model()


@pytest.mark.parametrize(
    ("assignments", "told"),
    [
        (["study=sequences", "policies=random,causal-oracle"], "['causal-oracle']"),
        (["study=all", "policies=carrier-window,causal-oracle"], "['carrier-window', 'causal-oracle']"),
    ],
)
def test_what_knows_the_truth_is_refused_for_several_edits(assignments: list[str], told: str) -> None:
    with pytest.raises(InputError) as caught:
        build_config(EditRepairConfig, assignments=assignments)
    assert str(caught.value) == (
        f"policies {told} know the truth of one edit and cannot run in study 'sequences'; give deployable ones"
    )
    assert build_config(EditRepairConfig, assignments=["policies=random,causal-oracle"]).policies is not None


def test_a_spot_check_needs_repairs_to_look_at() -> None:
    with pytest.raises(ValidationError, match=r"spot_check 0\.5 is for the repairs of study 'main'"):
        EditRepairConfig(study="cost", spot_check=0.5)


def test_a_last_edit_of_many_needs_room_for_the_primary_k() -> None:
    # The last of several records stands at 92 % of the context: 168 tokens of 2,100, less the edit and the last token.
    told = r"k 162 exceeds the 161 positions .* the last edit of cases 'embedded-sequences-dev', .* have 2100 tokens"
    for study in ("sequences", "all"):
        with pytest.raises(InputError, match=told):
            EditRepairConfig(study=study, k=(8, 162)).check_model()
        EditRepairConfig(study=study, k=(8, 161)).check_model()
        EditRepairConfig(study=study, k=(32, 162)).check_model()
    with pytest.raises(InputError, match="k 32 exceeds the 25 positions"):
        EditRepairConfig(study="sequences", length=400).check_model()
    # The policy sets its own length.
    EditRepairConfig(study="sequences", length=400, policies=("edit-local-boundary",)).check_model()


def test_a_length_is_not_for_what_is_timed() -> None:
    with pytest.raises(InputError, match="length 3 is for contexts of edits; study 'cost' takes lengths"):
        build_config(EditRepairConfig, assignments=["study=cost", "length=3"])
    assert build_config(EditRepairConfig, assignments=["study=all", "length=3000"]).length == 3000


def test_settings_survive_the_way_through_a_command_line() -> None:
    config = EditRepairConfig(study="main", k=(8, 32), cases=("paper",), min_gap=0.5, screen=False)
    assert build_config(EditRepairConfig, assignments=as_assignments(config)) == config


@pytest.mark.parametrize(
    ("assignment", "line"),
    [
        ("executor=bottom-right", "executor 'bottom-right' repairs nothing"),
        ("background=/nowhere.json", "background '/nowhere.json' is no file"),
    ],
)
def test_what_cannot_be_run_is_said_before_any_work(assignment: str, line: str) -> None:
    with pytest.raises(InputError, match=line):
        build_config(EditRepairConfig, assignments=[assignment])
