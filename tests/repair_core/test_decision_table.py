"""Decision tables: JSON and back, what is refused, and features read off hand-made documents."""

import codecs
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.calibration.policy_table import Observations, derive_table
from cachemend.repair_core import ENGINE_VERSION, InputError, LoadedModel, load_model
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.decision_rules import RE_PREFILL, Action, Evidence, Rule, When
from cachemend.repair_core.decision_table import DecisionTable, Derivation
from cachemend.repair_core.edits import Change, Edits
from cachemend.repair_core.features import NAMED, REACHES, EditFeatures, content_words, edit_features, reach_band
from cachemend.repair_core.policies import DIAGNOSTICS, POLICIES, get_policy
from cachemend.repair_core.replacement import replacement_from_texts

from support.tiny_checkpoint import save_tiny

FIXED = [name for name in POLICIES if not get_policy(name).own_length]
OWN = [name for name in POLICIES if get_policy(name).own_length]
ACTIONS = st.one_of(
    st.builds(lambda p, k: Action(policy=p, k=k), st.sampled_from(FIXED), st.integers(0, 10**6)),
    st.sampled_from([*OWN, RE_PREFILL]).map(lambda p: Action(policy=p)),
)
CELLS = st.builds(EditFeatures, st.sampled_from(NAMED), st.sampled_from(REACHES), st.booleans())
WHENS = st.tuples(st.sampled_from([None, *NAMED]), st.sampled_from([None, *REACHES]), st.sampled_from([None, 0, 1]))
RULES = st.builds(
    lambda when, do, n, mean, low: Rule(
        when=When(named=when[0], reach=when[1], query_overlap=None if when[2] is None else bool(when[2])),
        do=do,
        evidence=Evidence(n=n, mean=mean, low=low),
    ),
    WHENS.filter(lambda when: when != (None, None, None)),
    ACTIONS,
    st.integers(0, 10**6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-2, 2),
)
NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
TABLES = st.builds(
    lambda model, fingerprint, digest, n, rules, otherwise: DecisionTable(
        model=model,
        fingerprint=fingerprint,
        derived_from=Derivation(cohort_digest=digest, n_items=n),
        rules=rules,
        otherwise=otherwise,
    ),
    NAMES,
    st.none() | NAMES,
    NAMES,
    st.integers(0, 9999),
    st.lists(RULES, max_size=6),
    ACTIONS,
)


def table(*rules: Rule, **more: Any) -> DecisionTable:
    derived = Derivation(cohort_digest="abc", n_items=40)
    given = {"model": "tiny", "fingerprint": None, "derived_from": derived, "otherwise": Action(policy=RE_PREFILL)}
    return DecisionTable(**{**given, "rules": rules, **more})


def rule(do: Action, **when: Any) -> Rule:
    return Rule(when=When(**when), do=do, evidence=Evidence(n=30, mean=0.97, low=0.93))


@settings(max_examples=80, deadline=None)
@given(TABLES)
def test_json_and_back_is_the_same_table(one: DecisionTable) -> None:
    text = one.to_json()
    again = DecisionTable.from_json(text)
    assert again == one
    assert again.to_json() == text
    assert set(json.loads(text)) == {
        "version",
        "engine_version",
        "model",
        "fingerprint",
        "derived_from",
        "features",
        "rules",
        "otherwise",
    }
    for stated in json.loads(text)["rules"]:
        assert set(stated) == {"when", "do", "evidence"}
        assert set(stated["do"]) == {"policy", "k"}
        assert stated["when"]


@settings(max_examples=80, deadline=None)
@given(TABLES, CELLS)
def test_the_first_rule_that_matches_decides(one: DecisionTable, cell: EditFeatures) -> None:
    stated = json.loads(one.to_json())
    mine = [r["do"] for r in stated["rules"] if all(getattr(cell, name) == v for name, v in r["when"].items())]
    found = one.decide(cell)
    assert {"policy": found.policy, "k": found.k} == (mine[0] if mine else stated["otherwise"])


@given(ACTIONS)
def test_an_action_is_named_like_its_arm(action: Action) -> None:
    assert Action.of_arm(action.arm) == action


BROKEN = [
    (lambda t: t | {"version": 2}, "has version 2; this release reads version 1"),
    (lambda t: t | {"version": 99, "rules": "elsewhere"}, "has version 99"),
    (lambda t: t | {"engine_version": ENGINE_VERSION + 1}, f"engine version {ENGINE_VERSION + 1}, this is"),
    (lambda t: t | {"features": ["named"]}, r"has features \['named'\]"),
    (lambda t: t | {"surprise": 1}, "surprise"),
    (lambda t: {k: v for k, v in t.items() if k != "version"}, "version"),
    (lambda t: {k: v for k, v in t.items() if k != "otherwise"}, "otherwise"),
    (lambda t: t | {"version": "1"}, "version: Input should be a valid integer"),
    (lambda t: t | {"otherwise": {"policy": "edit-lokal", "k": 8}}, "did you mean 'edit-local'"),
    (lambda t: t | {"otherwise": {"policy": DIAGNOSTICS[0], "k": 8}}, "is a diagnostic"),
    (lambda t: t | {"otherwise": {"policy": "edit-local", "k": None}}, "give a number of positions"),
    (lambda t: t | {"otherwise": {"policy": "edit-local", "k": 8.5}}, "otherwise.k"),
    (lambda t: t | {"otherwise": {"policy": "edit-local", "k": True}}, "otherwise.k"),
    (lambda t: t | {"otherwise": {"policy": RE_PREFILL, "k": 8}}, "sets its own length"),
    (lambda t: t | {"rules": [{**t["rules"][0], "when": {}}]}, "asks for no feature"),
    (lambda t: t | {"rules": [{**t["rules"][0], "when": {"named": "here"}}]}, "cannot be 'here'"),
    (lambda t: t | {"rules": [{**t["rules"][0], "when": {"colour": "red"}}]}, "colour"),
    (lambda t: t | {"rules": [{**t["rules"][0], "evidence": {"n": -1, "mean": 1, "low": 1}}]}, "n=-1"),
    (lambda t: t | {"derived_from": {"cohort_digest": "abc", "n_items": -1}}, "derived_from: n_items -1 is no number"),
    (lambda t: t | {"derived_from": {"cohort_digest": "abc", "n_items": True}}, "derived_from.n_items"),
    (lambda t: t | {"rules": 3}, "rules"),
    (lambda t: [t], "cannot be read"),
    (lambda t: t | {"a\nb": 1}, "a b"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN)
def test_a_table_that_is_wrong_is_told_in_one_line(change: Any, message: str) -> None:
    good = json.loads(table(rule(Action(policy="edit-local", k=8), named="in-block")).to_json())
    with pytest.raises(InputError, match=message) as caught:
        DecisionTable.from_json(json.dumps(change(good)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "nan", "[" * 100_000, '{"version": 1e400}', "\ud800", "null", "[]"])
def test_what_is_no_table_is_told_in_one_line(text: str) -> None:
    with pytest.raises(InputError, match="decision table cannot be read") as caught:
        DecisionTable.from_json(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"rules": [{"when": {"named": "in-block"}}]}, r"rules\[0\] must be of type Rule, not dict"),
        ({"rules": None}, "rules must be of type Sequence, not NoneType"),
        ({"rules": "no"}, r"rules\[0\] must be of type Rule, not str"),
        ({"features": None}, "features must be of type Sequence"),
        ({"otherwise": RE_PREFILL}, "otherwise must be of type Action, not str"),
        ({"otherwise": None}, "otherwise must be of type Action, not NoneType"),
        ({"derived_from": {"cohort_digest": "abc", "n_items": 3}}, "derived_from must be of type Derivation, not dict"),
    ],
)
def test_parts_of_other_types_are_told_when_the_table_is_made(more: dict, message: str) -> None:
    given = {"rules": (rule(Action(policy="edit-local", k=8), named="in-block"),)} | more
    derived = Derivation(cohort_digest="abc", n_items=40)
    stated = {"model": "m", "fingerprint": None, "derived_from": derived, "otherwise": Action(policy=RE_PREFILL)}
    with pytest.raises(InputError, match=message) as caught:
        DecisionTable(**{**stated, **given})
    assert "\n" not in str(caught.value)


def test_parts_of_a_rule_and_a_derivation_have_their_types() -> None:
    good = rule(Action(policy="edit-local", k=8), named="in-block")
    for name, bad in (("when", {"named": "in-block"}), ("do", "edit-local@8"), ("evidence", None)):
        with pytest.raises(InputError, match=f"{name} of a rule must be of type"):
            Rule(**{"when": good.when, "do": good.do, "evidence": good.evidence, name: bad})
    for bad in (-1, True, 1.0, None):
        with pytest.raises(InputError, match=f"n_items {bad!r} is no number of items"):
            Derivation(cohort_digest="abc", n_items=bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="cohort_digest"):
        Derivation(cohort_digest=None, n_items=1)  # type: ignore[arg-type]
    assert Derivation(cohort_digest="abc", n_items=0).n_items == 0


def test_numbers_that_are_not_finite_are_no_evidence() -> None:
    text = table(rule(Action(policy="edit-local", k=8), named="in-block")).to_json()
    for bad in ("NaN", "Infinity", "1e999"):
        with pytest.raises(InputError, match="mean"):
            DecisionTable.from_json(text.replace("0.97", bad))
    with pytest.raises(InputError, match="finite"):
        Evidence(n=3, mean=float("nan"), low=0.0)


def test_files(tmp_path) -> None:  # type: ignore[no-untyped-def]
    one = table(rule(Action(policy="edit-local-boundary"), reach="<=16"))
    path = tmp_path / "policy.json"
    path.write_text(one.to_json(), encoding="utf-8")
    assert DecisionTable.load(path) == DecisionTable.load(str(path)) == one
    path.write_bytes(codecs.BOM_UTF8 + one.to_json().encode())
    assert DecisionTable.load(path) == one
    for text in ("[" * 100_000, '{"version": ' * 100_000):
        path.write_text(text)
        with pytest.raises(InputError, match="decision table cannot be read") as caught:
            DecisionTable.load(path)
        assert "\n" not in str(caught.value)
    path.write_bytes(b"\xff\xfe{")
    for what, reason in ((path, "no UTF-8"), (tmp_path / "absent.json", "No such file"), (tmp_path, "directory")):
        with pytest.raises(InputError, match=reason) as caught:
            DecisionTable.load(what)
        assert "\n" not in str(caught.value)


def test_a_derived_table_becomes_a_policy() -> None:
    near, far = EditFeatures("in-block", "<=16", True), EditFeatures("beyond", "more", True)
    rows = [
        (f"{cell.named}-{i}", cell, arm, tokens, recovered)
        for cell, reached in ((near, 0.97), (far, 0.1))
        for i in range(25)
        for arm, tokens, recovered in (
            ("edit-local@8", 8, reached),
            ("edit-local@32", 32, reached),
            ("re-prefill", 99, 1),
        )
    ]
    cases, cells, arms, tokens, recovery = zip(*rows, strict=True)
    choices = derive_table(
        Observations(cases=cases, items=cases, cells=cells, arms=arms, tokens=tokens, recovery=recovery)
    )
    rules = [
        Rule(
            when=When(**choice.cell._asdict()),  # type: ignore[attr-defined]
            do=Action.of_arm(choice.arm),
            evidence=Evidence(n=choice.n, mean=choice.mean, low=choice.low),
        )
        for choice in choices
    ]
    policy = DecisionTable.from_json(table(*rules).to_json())
    assert [policy.decide(cell).arm for cell in (near, far)] == ["edit-local@8", "re-prefill"]
    assert policy.decide(EditFeatures("nowhere", "none", False)).arm == "re-prefill"


@pytest.mark.parametrize("arm", ["edit-local", "edit-local@", "edit-local@-1", "edit-local@1.5", "edit-local@²", "@3"])
def test_arms_that_name_no_action(arm: str) -> None:
    with pytest.raises(InputError):
        Action.of_arm(arm)


def test_bands_of_a_distance() -> None:
    found = [reach_band(n) for n in (0, 16, 17, 32, 33, 64, 65, 9999)]
    assert found == ["<=16", "<=16", "<=32", "<=32", "<=64", "<=64", "more", "more"]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"))))


FILLER = "The baker opened the shop before the sun came up. Music drifted from an open window.\n\n"
RECORD = "The route in use for Brunholt is {}.\n"
ROWS = "Drivers:\nOn the amber route, the driver is Marlow.\nOn the falcon route, the driver is Quill.\n\n"
QUERY = "Who is the driver of the Brunholt delivery?"


def context(loaded: LoadedModel, head: str, tail: str, query: str = QUERY, new: str = "falcon") -> StaleContext:
    edit = replacement_from_texts(loaded.tokenizer, head.format("amber") + tail, head.format(new) + tail)
    return StaleContext(loaded.model, loaded.tokenizer, edit, query)


def test_where_the_new_words_are_named(loaded: LoadedModel) -> None:
    for tail, named in (
        (ROWS + FILLER, "in-block"),
        ("\n" + FILLER + ROWS, "beyond"),
        ("\n" + FILLER * 2, "nowhere"),
        ("\n" + FILLER + ROWS.replace("falcon", "falconry"), "nowhere"),
    ):
        found = context(loaded, FILLER + RECORD, tail)
        features = edit_features(found)
        assert features.named == named
        assert (features.reach == "none") == (named == "nowhere")
        # Text and edit alone: no cache was made, no model ran.
        assert set(found.timings) <= {"text", "units"}


def test_reach_ends_with_the_unit_that_names_them(loaded: LoadedModel) -> None:
    for gap in range(4):
        tail = "\n" + FILLER * gap + ROWS + FILLER
        found = context(loaded, FILLER + RECORD, tail)
        edit = found.deletion
        text, spans = found.edited_text
        at = text.index("falcon", spans[edit.suffix_positions[0]].start)
        line_end = text.index("\n", at) + 1
        tokens = sum(1 for start, _ in spans[edit.suffix_positions[0] :] if start < line_end)
        assert edit_features(found).reach == reach_band(tokens)


def test_the_query_is_about_the_edits_own_block_or_not(loaded: LoadedModel) -> None:
    elsewhere = FILLER + "Brunholt lies on the river.\n\n"
    mine = RECORD + ROWS
    for query, head, tail, overlap in (
        (QUERY, FILLER + RECORD, ROWS, True),
        ("What is the harbour of Tessel?", FILLER + RECORD, ROWS + FILLER, False),
        ("Where does Brunholt lie?", elsewhere + "A route here is {}.\n", ROWS, False),
        ("WHERE DOES BRUNHOLT LIE?", elsewhere + mine, FILLER, True),
        ("Who is it, and what was the one that is there?", RECORD, ROWS, False),
        ("", RECORD, ROWS, False),
        ("Who sold amber?", RECORD, FILLER, False),  # the block holds the new text, not the old
        ("Who sold falcon?", RECORD, FILLER, True),
        ("Where does the music drift from?", RECORD + "\n", FILLER, False),
    ):
        assert edit_features(context(loaded, head, tail, query)).query_overlap is overlap, (query, head)
    assert content_words("Which Driver's van is it?") == {"driver", "van"}


def test_several_places_have_no_cell(loaded: LoadedModel) -> None:
    ids = tuple(loaded.tokenizer(FILLER, add_special_tokens=False)["input_ids"])
    changes = [Change(start=2, stop=3, replacement_ids=[50]), Change(start=7, stop=8, replacement_ids=[51])]
    with pytest.raises(InputError, match="several places"):
        edit_features(StaleContext(loaded.model, loaded.tokenizer, Edits(original_ids=ids, changes=changes), QUERY))
