"""The rosters of the open questions: seeds of their own, and the value where the wording says."""

from dataclasses import replace
from itertools import combinations

import pytest
from transformers import PreTrainedTokenizerBase

from cachemend.datasets.niah import CANDIDATES_PER_CASE, ROSTERS, NiahRoster, build_niah
from cachemend.datasets.niah_questions import WORDINGS

QUESTIONS = [roster for roster in ROSTERS.values() if roster.name.startswith("questions-")]


def seeds(roster: NiahRoster) -> tuple[range, range]:
    """Every seed a roster may try, both strata; a sweep over several lengths uses the same seeds in each."""
    spans = [n * CANDIDATES_PER_CASE for n in (roster.cases_per_length, roster.control_per_length)]
    first = range(roster.first_seed, roster.first_seed + spans[0])
    return first, range(roster.first_seed + 500_000, roster.first_seed + 500_000 + spans[1])


def test_no_two_rosters_share_a_seed() -> None:
    for one, other in combinations(ROSTERS.values(), 2):
        assert not any(set(a) & set(b) for a in seeds(one) for b in seeds(other)), (one.name, other.name)


def test_every_wording_has_both_stages() -> None:
    assert {roster.name for roster in QUESTIONS} == {
        f"questions{stage}-{wording}" for stage in ("", "-dev") for wording in ("before", "after", "around", "real")
    }
    for wording in WORDINGS:
        dev, reported = ROSTERS[f"questions-dev-{wording}"], ROSTERS[f"questions-{wording}"]
        same = {"name": "", "first_seed": 0, "cases_per_length": 1}
        assert replace(dev, **same) == replace(reported, **same), "only the seeds and their number differ"


@pytest.mark.parametrize("fact", range(2))
def test_the_value_stands_where_the_wording_says(fact: int) -> None:
    at = {
        name: (facts[fact].index("{value}"), facts[fact].index("{key}"), facts[fact])
        for name, facts in WORDINGS.items()
    }
    assert at["before"][0] < at["before"][1]
    assert at["after"][1] < at["after"][0]
    assert at["around"][1] < at["around"][0] < at["around"][2].rindex("{key}")
    assert len(at["real"][2].split()) > 15, "as long as an ordinary sentence"


def test_a_case_of_each_wording(smol: PreTrainedTokenizerBase) -> None:
    for roster in QUESTIONS:
        (case,) = build_niah(smol, replace(roster, lengths=(500,), cases_per_length=1)).cases
        first, second = (fact.split("{value}")[0].split("{key}")[0] for fact in roster.prompt.facts)
        assert first.strip() in case.deleted_text
        assert second.strip() in case.context_text
        assert case.gold[0] in case.context_text
        assert case.stratum == "first-deleted"
