"""Record families: what a wording must hold, and the names it draws."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.datasets.edit_background import load_background
from cachemend.datasets.edit_families import FAMILIES
from cachemend.datasets.edit_family import holding_one_another, named_in
from cachemend.repair_core.errors import InputError

from support.edit_items import DIGITS

BOTH = [*FAMILIES.values(), DIGITS]


@pytest.mark.parametrize("family", BOTH, ids=lambda family: family.name)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_draws_are_distinct_names_of_the_rosters(family, seed: int) -> None:  # type: ignore[no-untyped-def]
    names = family.draw(seed)
    assert names == family.draw(seed)
    assert names.subject in family.subjects
    for pair, roster in ((names.alias, family.aliases), (names.value, family.values), (names.note, family.notes)):
        assert set(pair) <= set(roster)
        assert len(set(pair)) == 2
    later = family.draw(seed, names.own)
    assert set(names.own).isdisjoint(later.own)
    rows = names.rows
    for alias, value in ((rows["alias_1"], rows["value_1"]), (rows["alias_2"], rows["value_2"])):
        assert names.value[names.alias.index(alias)] == value


def test_draws_vary_in_everything() -> None:
    drawn = [DIGITS.draw(seed) for seed in range(60)]
    assert {names.new_first for names in drawn} == {True, False}
    assert {names.alias[0] for names in drawn} == {names.alias[1] for names in drawn} == set(DIGITS.aliases)
    assert not any(replace(DIGITS, row_order="old-first").draw(seed).new_first for seed in range(20))
    assert all(replace(DIGITS, row_order="new-first").draw(seed).new_first for seed in range(20))


def test_names_are_not_in_our_own_background() -> None:
    words = set(re.findall(r"\w+", "\n".join(p.document for p in load_background().paragraphs).lower()))
    for family in FAMILIES.values():
        for roster in (family.subjects, family.aliases, family.values, family.notes):
            assert not words & {name.lower() for name in roster}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "Bad Name"}, "lower-case words"),
        ({"row_order": "random"}, "row_order 'random'"),
        ({"direct": "The gauge."}, r"direct needs \{value\} exactly once"),
        ({"direct": "{value} or {value}."}, r"direct needs \{value\} exactly once"),
        ({"derived": "Lane {note}."}, r"derived needs \{alias\} exactly once"),
        ({"derived": "{alias} {value}."}, r"derived holds \{value\}"),
        ({"irrelevant": "Only {alias}."}, r"irrelevant needs \{note\} exactly once"),
        ({"carrier": "{alias_1} {value_1}."}, r"carrier needs \{alias_2\} exactly once"),
        ({"question": "Which {value}?"}, r"question holds \{value\}"),
        ({"question": ""}, "question is empty"),
        ({"question": " What?"}, "question begins or ends with white space"),
        ({"instruction": "About {subject}."}, r"instruction holds \{subject\}"),
        ({"derived": "A.\n \nThe gauge is {alias}."}, "derived holds a blank line"),
        ({"joint": "\n\n"}, "joint holds a blank line"),
        ({"closing": "{"}, "template '{'"),
        ({"closing": "{}"}, "plain names in braces"),
        ({"closing": "{subject:>9}"}, "plain names in braces"),
        ({"subjects": ()}, "subjects needs at least 1"),
        ({"aliases": ("101",)}, "aliases needs at least 2"),
        ({"notes": ()}, "notes needs at least 2"),
        ({"values": ("5678", "56789")}, "name '5678' stands in name '56789'"),
        ({"values": ("5678", "5678")}, "name '5678' stands in name '5678'"),
        ({"values": ("5678", " 9")}, "stray white space"),
        ({"values": ("5678", "")}, "is empty"),
        ({"subjects": ("Gauge",)}, "name 'Gauge' stands in a template"),
    ],
)
def test_a_bad_family_is_one_clear_line(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        replace(DIGITS, **change)
    assert "\n" not in str(error.value)


def test_without_notes_there_is_no_irrelevant_condition() -> None:
    bare = replace(
        DIGITS,
        direct="The gauge of {subject} shows {value}.",
        derived="The active gauge of {subject} is {alias}.",
        irrelevant="",
        notes=(),
    )
    assert bare.conditions == ("direct", "derived")
    assert bare.draw(3).note == ("", "")
    assert DIGITS.conditions == ("direct", "derived", "irrelevant")


def test_too_few_names_for_many_records_is_said() -> None:
    with pytest.raises(InputError, match="aliases holds 10 names, which is too few"):
        DIGITS.draw(1, DIGITS.aliases[1:])


def test_names_are_found_as_words_in_any_case() -> None:
    assert named_in("by the TARN.", ["Fell", "Tarn"]) == "Tarn"
    assert named_in("by the tarns, a_tarn", ["Tarn"]) is None
    assert named_in("see (a.b)", ["a.b"]) == "a.b"
    assert holding_one_another(["Tarnley", "Fell", "tarn"]) == ("tarn", "Tarnley")
    assert holding_one_another(["Tarn", "Fell"]) is None
