"""Contexts with several edited records: exact tokens, spread, probes that do not depend on other records."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerBase

from cachemend.datasets.cohort import Cohort, read_cohort, write_cohort
from cachemend.datasets.edit_build import EDIT_ROSTERS, EDIT_SEQUENCE_ROSTERS, SEEDS_PER_CANDIDATE, build_edit_sequences
from cachemend.datasets.edit_sequence_case import EditSequenceCase
from cachemend.repair_core.errors import InputError

from support.edit_items import DIGITS, SEQUENCES


@pytest.fixture(scope="module")
def cohort(smol: PreTrainedTokenizerBase) -> Cohort:
    return build_edit_sequences(smol, SEQUENCES)


def read_off(text: str, question: str) -> str:
    subject = re.search(r"gauge of (\w+) show", question)[1]  # type: ignore[index]
    (block,) = [d for d in text.split("\n\n") if d.startswith(f"Log of {subject}")]
    if direct := re.search(r"The gauge shows (\d+)", block):
        return direct[1]
    alias = re.search(r"active gauge is (\d+)", block)[1]  # type: ignore[index]
    (value,) = re.findall(rf"Gauge {alias} shows (\d+)", text)
    return str(value)


def test_each_edit_changes_its_own_answer_only(smol: PreTrainedTokenizerBase, cohort: Cohort) -> None:
    for case in cohort.cases:
        texts = [smol.decode(case.original_ids), *(smol.decode(r.edited_ids) for r in case.replacements)]
        assert texts[-1] == case.context_text
        for step, text in enumerate(texts):
            for number, probe in enumerate(case.probes):
                wanted = probe.new_answer if number < step else probe.old_answer
                assert read_off(text, probe.query_text) == wanted


def test_tokens_are_those_of_the_texts(smol: PreTrainedTokenizerBase, cohort: Cohort) -> None:
    for case in cohort.cases:
        for probe, change in zip(case.probes, case.changes, strict=True):
            query = smol.decode(probe.query_ids)
            for ids in (case.original_ids, case.edited_ids):
                assert tuple(smol(smol.decode(ids) + query)["input_ids"]) == ids + probe.query_ids
            carrier = smol.decode(case.edited_ids[slice(*probe.carrier)])
            assert probe.new_answer in carrier
            assert smol.decode(probe.new_ids).strip() == probe.new_answer
            assert smol.decode(probe.old_ids).strip() == probe.old_answer
            if probe.condition == "direct":
                assert probe.carrier == change[:2]
            else:
                assert probe.carrier.start >= change.stop
                assert probe.old_answer in carrier
            assert "\n\n" not in smol.decode(case.edited_ids[change.stop : probe.block_stop])
        assert case.edits.edited_ids == case.replacements[-1].edited_ids == case.edited_ids


def test_records_spread_over_the_context_families_and_conditions(cohort: Cohort) -> None:
    assert [len(case.changes) for case in cohort.cases] == [2, 4, 2, 4]
    for case in cohort.cases:
        starts = [change.start / case.n_tokens for change in case.changes]
        assert starts[0] < 0.25
        assert starts[-1] > 0.75
        assert all(b - a > 0.5 / len(starts) for a, b in pairwise(starts))
        assert len({(probe.family, probe.condition) for probe in case.probes}) == len(case.probes)
        assert len({probe.query_text for probe in case.probes}) == len(case.probes)
        assert len({a for p in case.probes for a in (p.old_answer, p.new_answer)}) == 2 * len(case.probes)
        assert abs(case.n_tokens - SEQUENCES.n_tokens) <= 130


def test_file_round_trip_and_identity(cohort: Cohort, tmp_path: Path) -> None:
    again = read_cohort(write_cohort(cohort, tmp_path / "sequences.json"), EditSequenceCase)
    assert again == cohort
    case = cohort.cases[0]
    probe = replace(case.probes[0], new_ids=(5,))
    assert replace(case, probes=(probe, *case.probes[1:])).digest != case.digest
    assert cohort.manifest["records"] == [2, 4]
    assert cohort.manifest["split"] == "held-out"


def test_ten_records_in_one_context(smol: PreTrainedTokenizerBase) -> None:
    roster = replace(EDIT_SEQUENCE_ROSTERS["embedded-sequences"], records=(10,), cases_per_size=1)
    (case,) = build_edit_sequences(smol, roster).cases
    assert len(case.changes) == len(case.replacements) == 10
    assert {probe.condition for probe in case.probes} == {"direct", "derived"}


def test_bad_sequences_are_one_clear_line(smol: PreTrainedTokenizerBase, cohort: Cohort) -> None:
    with pytest.raises(InputError, match="family digits: aliases holds 10 names, which is too few"):
        build_edit_sequences(smol, replace(SEQUENCES, families=(DIGITS,), records=(6,)))
    with pytest.raises(InputError, match="too few background documents to stand between the records"):
        build_edit_sequences(smol, replace(SEQUENCES, records=(4,), n_tokens=230))
    for change, message in (
        ({"records": (4, 2)}, "increasing"),
        ({"cases_per_size": 0}, "cases_per_size 0"),
        ({"conditions": ("irrelevant",)}, "'derived', 'direct' or both"),
        ({"split": "x"}, "split 'x'"),
    ):
        with pytest.raises(InputError, match=message):
            replace(SEQUENCES, **change)  # type: ignore[arg-type]
    case = cohort.cases[0]
    with pytest.raises(InputError, match="2 changes and 1 probes must pair"):
        replace(case, probes=case.probes[:1])
    start, stop, ids = case.changes[0]
    with pytest.raises(InputError, match=r"changes\[0\] does not keep its length"):
        replace(case, changes=((start, stop, (*ids, 5)), case.changes[1]))
    with pytest.raises(InputError, match="before, in or right at the end"):
        replace(case, changes=(case.changes[0], case.changes[0]))


def test_sequence_rosters_have_seeds_of_their_own() -> None:
    used = {roster.first_seed // 1_000_000 for roster in (*EDIT_ROSTERS.values(), *EDIT_SEQUENCE_ROSTERS.values())}
    assert len(used) == len(EDIT_ROSTERS) + len(EDIT_SEQUENCE_ROSTERS)
    for name, roster in EDIT_SEQUENCE_ROSTERS.items():
        assert name == roster.name
        assert roster.cases_per_size * len(roster.records) * SEEDS_PER_CANDIDATE < 1_000_000
        assert ("dev" in name) == (roster.split == "dev")
