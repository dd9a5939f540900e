"""The built edit cases: exact tokenization, one span, positions, distances, order."""

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from cachemend.datasets.cohort import Cohort, read_cohort, write_cohort
from cachemend.datasets.edit_background import load_background
from cachemend.datasets.edit_build import BUILDER_VERSION, EDIT_ROSTERS, SEEDS_PER_CANDIDATE, build_edits
from cachemend.datasets.edit_case import EditCase
from cachemend.datasets.edit_families import FAMILIES
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.replacement import replacement_from_texts

from support.edit_items import ROSTER, small

WIKI = Path(__file__).resolve().parents[2] / "../shared/data/fillers/2wikimultihopqa_corpus.json.gz"


def text_of(tokenizer: PreTrainedTokenizerBase, ids: tuple[int, ...]) -> str:
    return tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)


def ids_of(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[int, ...]:
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def pieces(tokenizer: PreTrainedTokenizerBase, case: EditCase, ids: tuple[int, ...]) -> tuple[str, str, str]:
    """Decoded text before the span, of it and after it."""
    start, stop = case.span
    return text_of(tokenizer, ids[:start]), text_of(tokenizer, ids[start:stop]), text_of(tokenizer, ids[stop:])


def check_tokens(tokenizer: PreTrainedTokenizerBase, case: EditCase) -> None:
    """Texts put together from decoded pieces must tokenize to the case's ids and differ in the span only."""
    before, after = (pieces(tokenizer, case, ids) for ids in (case.original_ids, case.edited_ids))
    assert (before[0], before[2]) == (after[0], after[2])
    assert "".join(after).endswith(case.context_text)
    assert case.new_span_text in after[1]
    assert before[1] == after[1].replace(case.new_span_text, case.old_span_text)
    assert 1 <= case.span.stop - case.span.start <= 6
    query = text_of(tokenizer, case.query_ids)
    # The decoded text may begin with a special token that the tokenizer adds by itself; it is text here.
    assert ids_of(tokenizer, "".join(after) + query) == case.edited_ids + case.query_ids
    assert ids_of(tokenizer, "".join(before) + query) == case.original_ids + case.query_ids
    assert case.query_text in query
    assert ids_of(tokenizer, case.query_text) == case.relevance_ids
    for answer, ids in ((case.old_answer, case.old_ids), (case.new_answer, case.new_ids)):
        assert text_of(tokenizer, ids).strip() == answer
        assert ids_of(tokenizer, query + text_of(tokenizer, ids)) == case.query_ids + ids
    body_special = set(case.edited_ids[slice(*case.span)]) | set(case.edited_ids[slice(*case.carrier)])
    assert body_special.isdisjoint(tokenizer.all_special_ids)


def check_geometry(tokenizer: PreTrainedTokenizerBase, case: EditCase) -> None:
    assert 0.25 <= case.span.start / len(case.original_ids) <= 0.40
    carrier = text_of(tokenizer, case.edited_ids[slice(*case.carrier)])
    block = text_of(tokenizer, case.edited_ids[: case.block_stop]).split("\n\n")[-1]
    rest = text_of(tokenizer, case.edited_ids[case.block_stop :])
    assert case.new_answer in carrier
    assert case.new_span_text in block
    assert rest.startswith("\n\n") or block.endswith("\n\n") or not block.strip()
    if case.condition == "direct":
        assert (case.carrier, case.actual_distance) == (case.span, 0)
        assert case.old_answer not in case.context_text
        return
    assert case.old_answer in carrier
    assert case.actual_distance == case.carrier.start - case.span.stop
    assert (carrier.strip() in block) == (case.distance == 0)
    assert case.context_text.count(carrier.strip()) == 1
    if case.distance:
        assert abs(case.actual_distance - case.distance) <= max(32, case.distance // 10)


def answer_of(text: str, subject: str) -> str:
    """Reads the digits family's record as a person would: the gauge named active, and its row."""
    block = next(d for d in text.split("\n\n") if d.startswith(f"Log of {subject}"))
    if direct := re.search(r"The gauge shows (\d+)", block):
        return direct[1]
    alias = re.search(r"active gauge is (\d+)", block)[1]  # type: ignore[index]
    return re.search(rf"Gauge {alias} shows (\d+)", text)[1]  # type: ignore[index]


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 10**9),
    which=st.sampled_from(["smol", "tiny_chat", "tiny_breaks", "tiny_plain"]),
    style=st.sampled_from(["plain", "chat"]),
    n_tokens=st.integers(900, 1100),
)
def test_every_seed_gives_exact_edits(
    request: pytest.FixtureRequest, seed: int, which: str, style: str, n_tokens: int
) -> None:
    tokenizer = request.getfixturevalue(which)
    cohort = build_edits(tokenizer, small(first_seed=seed, items=1, style=style, n_tokens=n_tokens))
    assert len(cohort.cases) == 5
    for case in cohort.cases:
        if which != "tiny_breaks":  # there ".\n\n" is one token, so a piece may end inside it
            check_geometry(tokenizer, case)
        check_tokens(tokenizer, case)
        subject = re.search(r"gauge of (\w+) show", case.query_text)[1]  # type: ignore[index]
        original = text_of(tokenizer, case.original_ids)
        assert answer_of(case.context_text, subject) == case.new_answer
        expected = case.new_answer if case.condition == "irrelevant" else case.old_answer
        assert answer_of(original, subject) == expected
        assert abs(case.n_tokens - n_tokens) <= 130


def test_the_carrier_stands_as_near_to_its_distance_as_any_place_allows(smol: PreTrainedTokenizerBase) -> None:
    """Brute force: the lookup between any two documents and after any sentence, tokenized each time."""
    cohort = build_edits(smol, small(items=2, distances=(0, 64, 250)))
    by_id = {case.case_id: case for case in cohort.cases}
    for case in cohort.cases:
        if not case.distance:
            continue
        near = by_id[case.case_id.replace(f"-d{case.distance}", "-d0")]
        carrier = text_of(smol, near.edited_ids[slice(*near.carrier)]).strip()
        alone = near.context_text.replace(f" {carrier}", "")
        edit_end = alone.index(f"gauge is {near.new_span_text}") + len(f"gauge is {near.new_span_text}")
        breaks = [m.end() for m in re.finditer("\n\n", alone) if m.end() > edit_end]
        stops = [m.end() for m in re.finditer(r"\. ", alone) if m.end() > breaks[0]]
        found = []
        for at in breaks + stops:
            text = f"{alone[:at].strip()}\n\n{carrier}\n\n{alone[at:]}"
            start = len(ids_of(smol, text[: text.index(carrier)] + "X")) - 1  # line breaks at an end would merge
            found.append(abs(start - len(ids_of(smol, text[:edit_end])) - case.distance))
        assert abs(case.actual_distance - case.distance) == min(found)


def test_at_distance_zero_nothing_shows_that_tiers_were_built(smol: PreTrainedTokenizerBase) -> None:
    main = build_edits(smol, small(distances=(0,)))
    tiers = build_edits(smol, small())
    near = [case for case in tiers.cases if case.distance == 0]
    assert list(main.cases) == near
    assert [case.digest for case in main.cases] == [case.digest for case in near]
    for case in tiers.cases:
        if case.distance:
            twin = next(c for c in near if c.item_id == case.item_id and c.condition == "derived")
            assert case.edited_ids[: case.span.stop] == twin.edited_ids[: case.span.stop]
            assert (case.span, case.query_ids, case.new_ids) == (twin.span, twin.query_ids, twin.new_ids)
            assert sorted(re.findall(r"\w+", case.context_text)) == sorted(re.findall(r"\w+", twin.context_text))


def test_cases_of_an_item_share_background_place_names_and_question(smol: PreTrainedTokenizerBase) -> None:
    cohort = build_edits(smol, small())
    items: dict[str, list[EditCase]] = {}
    for case in cohort.cases:
        items.setdefault(case.item_id, []).append(case)
    for cases in items.values():
        assert len({(c.seed, c.query_ids, c.old_answer, c.new_answer, c.family) for c in cases}) == 1
        near = {c.condition: c for c in cases if c.distance == 0}
        outside = []
        for case in near.values():
            documents = case.context_text.split("\n\n")
            at = next(i for i, d in enumerate(documents) if d.startswith("Log of"))
            outside.append((at, documents[:at] + documents[at + 1 :]))
        assert outside[0] == outside[1] == outside[2]
        depths = [c.span.start / c.n_tokens for c in cases]
        assert max(depths) - min(depths) <= 0.03
        assert near["derived"].context_text == near["irrelevant"].context_text
        assert near["derived"].old_span_text != near["irrelevant"].old_span_text


def test_every_prefix_spreads_over_families_and_conditions(tiny_chat: PreTrainedTokenizerBase) -> None:
    cohort = build_edits(tiny_chat, small(items=6))
    forms = [(case.condition, case.distance) for case in cohort.cases]
    for stop in range(1, len(forms) + 1):
        counts = Counter(forms[:stop])
        assert max(counts.values()) - min(counts[form] for form in ROSTER.forms) <= 1
        families = Counter(case.family for case in cohort.cases[:stop])
        assert max(families.values()) - min(families[f.name] for f in ROSTER.families) <= len(ROSTER.forms)
    assert [case.item_id for case in cohort.cases] == [case.item_id for case in cohort.cases[::5] for _ in range(5)]


def test_the_cohort_holds_all_candidates_and_states_the_expansion(tiny_chat: PreTrainedTokenizerBase) -> None:
    roster = replace(ROSTER, n_items=2, n_candidates=3, expand_by=2, max_candidates=6)
    cohort = build_edits(tiny_chat, roster)
    assert len({case.item_id for case in cohort.cases}) == 6
    assert roster.pools == (3, 5, 6)
    expansion = cohort.manifest["expansion"]
    assert [expansion[k] for k in ("n_items", "n_candidates", "expand_by", "max_candidates")] == [2, 3, 2, 6]
    assert expansion["pools"] == [3, 5, 6]
    first = build_edits(tiny_chat, replace(roster, max_candidates=3))
    assert cohort.cases[:15] == first.cases
    assert cohort.manifest["builder_version"] == BUILDER_VERSION
    assert cohort.manifest["score_rule"] == "flip/1"
    assert cohort.manifest["decoding"] == "greedy-16"
    assert cohort.manifest["families"][0]["carrier"] == ROSTER.families[0].carrier
    assert cohort.manifest["background"]["fingerprint"] == load_background().fingerprint


def documents_of(cohort: Cohort) -> set[str]:
    return {d for case in cohort.cases if case.distance == 0 for d in case.context_text.strip().split("\n\n")}


def test_development_and_held_out_items_share_nothing(smol: PreTrainedTokenizerBase) -> None:
    one = {
        "n_items": 1,
        "n_others": 1,
        "n_candidates": 1,
        "max_candidates": 4,
        "distances": (0,),
        "conditions": ("derived",),
    }
    dev, held_out = (
        build_edits(smol, replace(EDIT_ROSTERS[name], **one))  # type: ignore[arg-type]
        for name in ("embedded-dev", "embedded")
    )
    assert {case.split for case in dev.cases} == {"dev"}
    assert {case.split for case in held_out.cases} == {"held-out"}
    assert documents_of(dev).isdisjoint(documents_of(held_out))
    assert all(case.n_tokens >= 2000 for case in held_out.cases)


def test_no_two_rosters_share_seeds() -> None:
    ranges = sorted(
        (roster.first_seed, roster.first_seed + roster.max_candidates * SEEDS_PER_CANDIDATE)
        for roster in EDIT_ROSTERS.values()
    )
    assert all(stop <= start for (_, stop), (start, _) in pairwise(ranges))
    for name, roster in EDIT_ROSTERS.items():
        assert name == roster.name
        assert ("dev" in name) == (roster.split == "dev")


def test_the_edit_is_the_one_a_user_would_state(smol: PreTrainedTokenizerBase) -> None:
    """`replacement_from_texts` finds the smallest span; the case's span is the whole field around it."""
    for case in build_edits(smol, small(items=1)).cases:
        before, after = (text_of(smol, ids + case.query_ids) for ids in (case.original_ids, case.edited_ids))
        found = replacement_from_texts(smol, before, after)
        assert case.replacement.in_place
        assert case.replacement.span == case.span
        assert case.replacement.edited_ids == case.edited_ids
        assert found.edited_ids == case.edited_ids + case.query_ids
        assert case.span.start <= found.span.start <= found.span.stop <= case.span.stop
        assert case.gold == (case.new_answer,)


def test_file_round_trip(tiny_chat: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    cohort = build_edits(tiny_chat, small(items=1))
    again = read_cohort(write_cohort(cohort, tmp_path / "edits.json"), EditCase)
    assert again == cohort
    assert again.cases[0].replacement == cohort.cases[0].replacement


def test_every_field_reaches_the_digest(tiny_chat: PreTrainedTokenizerBase) -> None:
    case = build_edits(tiny_chat, small(items=1)).cases[1]
    changes = {
        "case_id": "x", "item_id": "x", "split": "held-out", "condition": "direct", "distance": 5,
        "actual_distance": 5, "family": "x", "seed": 5, "carrier": (1, 2), "block_stop": case.block_stop + 1,
        "query_ids": (5,), "relevance_ids": (5,), "query_text": "x", "context_text": "x", "old_span_text": "x",
        "new_span_text": "x", "old_answer": "x", "new_answer": "x", "old_ids": (5,), "new_ids": (5,),
        "span": (case.span.start - 1, case.span.stop),
    }  # fmt: skip
    digests = {replace(case, **{name: value}).digest for name, value in changes.items()}
    longer = {name: (*getattr(case, name), 5) for name in ("original_ids", "edited_ids")}
    digests.add(replace(case, **longer).digest)
    assert set(changes) | set(longer) == set(asdict(case))
    assert len(digests | {case.digest}) == len(changes) + 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"condition": "indirect"}, "condition 'indirect'"),
        ({"split": "test"}, "split 'test'"),
        ({"span": (5, 5)}, "span 5..5 is no range"),
        ({"span": (1, 2)}, "must differ, in the span only"),
        ({"carrier": (0, 10**6)}, "carrier 0..1000000 is no range"),
        ({"block_stop": 1}, "block_stop 1"),
        ({"query_ids": ()}, "query_ids must not be empty"),
    ],
)
def test_a_bad_case_is_refused(tiny_chat: PreTrainedTokenizerBase, change: dict[str, object], message: str) -> None:
    case = build_edits(tiny_chat, small(items=1)).cases[0]
    with pytest.raises(InputError, match=message):
        replace(case, **change)
    with pytest.raises(InputError, match="must differ"):
        replace(case, edited_ids=case.original_ids)


SCRIPT = """
from cachemend.datasets.edit_build import build_edits
from cachemend.repair_core.models import load_tokenizer
from support.edit_items import small
print(build_edits(load_tokenizer("smollm2-135m"), small(items=1, distances=(0,))).digest)
"""


def test_the_same_cohort_in_every_process(smol: PreTrainedTokenizerBase) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": str(Path(__file__).parents[1])}
    out = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == build_edits(smol, small(items=1, distances=(0,))).digest


@pytest.mark.skipif(not WIKI.exists(), reason="the 2Wiki paragraphs are not here")
def test_wikipedia_paragraphs_as_background(smol: PreTrainedTokenizerBase) -> None:
    roster = small(items=2, background=str(WIKI), n_tokens=2500, families=tuple(FAMILIES.values()))
    cohort = build_edits(smol, roster)
    texts = load_background(str(WIKI)).of_split("dev")
    known = {p.document for p in texts}
    for case in cohort.cases:
        check_tokens(smol, case)
        check_geometry(smol, case)
        if case.condition == "direct":
            documents = case.context_text.strip().split("\n\n")
            assert len(set(documents) - known) == 1
    assert cohort.manifest["background"]["name"] == WIKI.name
