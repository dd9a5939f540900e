"""The built cases: exact tokenization, lengths, strata, order, drops."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from cachemend.datasets.niah import ROSTERS, DepthPlan, NiahCase, NiahPrompt, NiahRoster, build_niah
from cachemend.datasets.niah_filler import CLAUSES, OPENINGS
from cachemend.repair_core.errors import InputError

LONGEST_SENTENCE = 60  # tokens, under the tiny tokenizers


PROMPT = NiahPrompt(
    instruction="",
    facts=("The access code for {key} is {value}.", "The access code for {key} is {value}."),
    question="What are the access codes for {key} mentioned in the text?",
    answer_prefill="The access codes for {key} mentioned in the text are: ",
)
DEPTHS = DepthPlan(first=(0.05, 0.45), second=(0.55, 0.9))


def small(**changes: object) -> NiahRoster:
    defaults = {"lengths": (300, 500), "cases_per_length": 2, "control_per_length": 1}
    return replace(ROSTERS["embedded"], **{**defaults, "prompt": PROMPT, "depths": DEPTHS, **changes})


def text_of(tokenizer: PreTrainedTokenizerBase, ids: tuple[int, ...]) -> str:
    return tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)


def ids_of(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[int, ...]:
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def check_tokens(tokenizer: PreTrainedTokenizerBase, case: NiahCase) -> None:
    """Both texts, put together from decoded pieces, must tokenize to the case's ids."""
    prefix, deleted, suffix, query = (
        text_of(tokenizer, ids) for ids in (case.prefix_ids, case.deleted_ids, case.suffix_ids, case.query_ids)
    )
    assert deleted == case.deleted_text
    assert ids_of(tokenizer, prefix + suffix + query) == case.prefix_ids + case.suffix_ids + case.query_ids
    assert ids_of(tokenizer, prefix + deleted + suffix + query) == case.deletion.original_ids + case.query_ids
    assert (prefix + suffix).endswith(case.context_text)
    assert query.startswith(case.query_text)
    assert ids_of(tokenizer, case.query_text) == case.relevance_ids
    answer = ids_of(tokenizer, query + text_of(tokenizer, case.gold_ids))
    assert answer == case.query_ids + case.gold_ids
    assert text_of(tokenizer, case.gold_ids).split(", ") == [f"{blank_of(query)}{v}" for v in case.gold]


def blank_of(query: str) -> str:
    return " " if query.endswith(":") else ""


def check_content(tokenizer: PreTrainedTokenizerBase, case: NiahCase) -> None:
    assert 0 < case.length - case.n_tokens + 1 <= LONGEST_SENTENCE
    (kept,) = case.gold
    assert kept in case.context_text
    gone = "".join(c for c in case.deleted_text if c.isdigit())
    assert len(gone) == len(kept)
    assert gone not in case.context_text
    assert gone[0] != kept[0]
    assert "0" not in (gone[0], kept[0])
    assert case.deleted_text[0] == " "
    assert "  " not in case.context_text
    assert "..." not in case.context_text
    suffix, prefix = text_of(tokenizer, case.suffix_ids), text_of(tokenizer, case.prefix_ids)
    if case.stratum == "first-deleted":
        assert kept in suffix
    else:
        assert kept in prefix
        assert not any(c.isdigit() for c in suffix)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**9),
    length=st.integers(260, 700),
    which=st.sampled_from(["smol", "tiny_chat", "tiny_breaks", "tiny_plain"]),
    stratum=st.sampled_from([(1, 0), (1, 1)]),
    prefill=st.sampled_from(["", "The codes for {key} are:", "The codes for {key} are: "]),
)
def test_every_seed_gives_an_exact_deletion(
    request: pytest.FixtureRequest,
    seed: int,
    length: int,
    which: str,
    stratum: tuple[int, int],
    prefill: str,
) -> None:
    tokenizer = request.getfixturevalue(which)
    roster = small(
        lengths=(length,),
        cases_per_length=stratum[0],
        control_per_length=stratum[1],
        first_seed=seed,
        prompt=replace(PROMPT, answer_prefill=prefill),
    )
    for case in build_niah(tokenizer, roster).cases:
        check_tokens(tokenizer, case)
        check_content(tokenizer, case)


def test_plain_rendering_begins_with_the_special_token_and_the_text(tiny_plain: PreTrainedTokenizerBase) -> None:
    case = build_niah(tiny_plain, small()).cases[0]
    assert case.prefix_ids[0] == tiny_plain.bos_token_id
    assert case.context_text[0].isupper()
    assert case.prefix_ids[1:] == ids_of(tiny_plain, case.context_text)[: len(case.prefix_ids) - 1]


def test_plain_can_be_asked_for_although_there_is_a_template(tiny_chat: PreTrainedTokenizerBase) -> None:
    roster = small()
    plain = replace(roster, prompt=replace(roster.prompt, rendering="plain"))
    case = build_niah(tiny_chat, plain).cases[0]
    assert "<u>" not in case.context_text
    assert "<u>" in build_niah(tiny_chat, roster).cases[0].context_text


def test_template_has_reasoning_off_and_a_fixed_date(tiny_chat: PreTrainedTokenizerBase) -> None:
    case = build_niah(tiny_chat, small()).cases[0]
    assert case.context_text.startswith("<s>Today is 26 Jul 2024. <u>")
    assert "<a><think></think>" in text_of(tiny_chat, case.query_ids)


def test_a_longer_context_leaves_less_than_one_sentence_unused(smol: PreTrainedTokenizerBase) -> None:
    costs = [len(ids_of(smol, f" {opening} {clause}.")) for opening in OPENINGS for clause in CLAUSES]
    roster = replace(ROSTERS["paper-96"], lengths=(1024, 4096, 32768), cases_per_length=1)
    for case in build_niah(smol, roster).cases:
        assert 0 <= case.length - case.n_tokens < max(costs) + 3  # a sentence, perhaps behind a blank line
        check_tokens(smol, case)


def test_embedded_rosters(smol: PreTrainedTokenizerBase) -> None:
    cohort, dev = build_niah(smol, ROSTERS["embedded"]), build_niah(smol, ROSTERS["embedded-dev"])
    first = [c for c in cohort.cases if c.stratum == "first-deleted"]
    assert len(first) >= 96
    assert len({c.length for c in first}) >= 3
    assert max(c.length for c in first) <= 1000
    share = sum(len(c.suffix_ids) >= 0.75 * c.n_tokens for c in first) / len(first)
    assert share >= 0.5
    assert cohort.manifest["long_suffix_share"] == share
    assert [c.stratum for c in cohort.cases] == ["first-deleted"] * len(first) + ["second-deleted"] * 24
    assert len(dev.cases) == 24
    assert {c.seed for c in cohort.cases}.isdisjoint(c.seed for c in dev.cases)
    assert len({c.case_id for c in cohort.cases + dev.cases}) == len(cohort.cases) + len(dev.cases)
    assert len({(c.gold, c.deleted_text) for c in cohort.cases + dev.cases}) == len(cohort.cases + dev.cases)
    for case in cohort.cases:
        check_content(smol, case)


def test_paper_roster_is_six_lengths_of_sixteen_first_deleted_cases() -> None:
    roster = ROSTERS["paper-96"]
    assert roster.lengths == tuple(1024 * 2**k for k in range(6))
    assert (roster.cases_per_length, roster.control_per_length) == (16, 0)
    assert (roster.score_rule, roster.max_new_tokens) == ("niah-list-v1", 32)


def test_every_prefix_spreads_over_the_lengths(tiny_chat: PreTrainedTokenizerBase) -> None:
    roster = small(lengths=(300, 400, 500), cases_per_length=3)
    lengths = [case.length for case in build_niah(tiny_chat, roster).cases]
    for stop in range(1, len(lengths) + 1):
        counts = [lengths[:stop].count(length) for length in roster.lengths]
        assert max(counts) - min(counts) <= 1


def test_dropped_candidates_are_counted_with_their_reason(greedy_stop: PreTrainedTokenizerBase) -> None:
    roster = small(cases_per_length=12)
    cohort = build_niah(greedy_stop, roster)
    drops = cohort.manifest["drops"]
    assert len(cohort.cases) == 26
    assert drops
    assert cohort.manifest["n_candidates"] == 26 + len(drops)
    assert {drop["reason"] for drop in drops} == {"a token spans an end of the deleted text"}
    assert {drop["candidate"] for drop in drops}.isdisjoint(case.case_id for case in cohort.cases)
    for case in cohort.cases:
        check_tokens(greedy_stop, case)


def test_models_share_seeds_when_each_excludes_what_another_dropped(
    greedy_stop: PreTrainedTokenizerBase, tiny_plain: PreTrainedTokenizerBase
) -> None:
    roster = small(cases_per_length=12, depths=DEPTHS)
    dropped = {drop["candidate"] for drop in build_niah(greedy_stop, roster).manifest["drops"]}
    alone = build_niah(tiny_plain, roster)
    both = build_niah(tiny_plain, roster, exclude=dropped)
    assert {case.case_id for case in both.cases}.isdisjoint(dropped)
    assert alone.digest != both.digest
    assert {d["candidate"] for d in both.manifest["drops"]} >= dropped & {c.case_id for c in alone.cases}


def test_no_usable_candidate_is_one_clear_line(joins_the: PreTrainedTokenizerBase) -> None:
    with pytest.raises(InputError, match=r"length 300 .* a token spans an end of the deleted text \(20 times\)") as e:
        build_niah(joins_the, small())
    assert "\n" not in str(e.value)


def test_a_length_too_short_for_the_prompt_is_refused(tiny_chat: PreTrainedTokenizerBase) -> None:
    with pytest.raises(InputError, match="exceeds the length"):
        build_niah(tiny_chat, small(lengths=(40,)))


def test_a_tokenizer_without_offsets_is_refused() -> None:
    class Slow(PreTrainedTokenizerBase):
        is_fast = False

    slow = Slow.__new__(Slow)
    slow.name_or_path = "some/model"
    from cachemend.datasets.rendering import encode

    with pytest.raises(InputError, match="fast tokenizer"):
        encode(slow, "text")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": (600, 300)}, "increasing"),
        ({"lengths": ()}, "increasing"),
        ({"cases_per_length": 0}, "at least 1"),
        ({"value_digits": 1}, "outside 2 to 18"),
        ({"score_rule": "niah-list"}, "did you mean 'niah-list-v1'"),
        ({"first_seed": -1}, "at least 0"),
    ],
)
def test_a_bad_roster_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small(**change)


def test_a_bad_wording_or_depth_is_refused() -> None:
    prompt, depths = PROMPT, DEPTHS
    with pytest.raises(InputError, match="rendering 'xml'"):
        replace(prompt, rendering="xml")
    with pytest.raises(InputError, match=r"needs \{key\} and one \{value\}"):
        replace(prompt, facts=(prompt.facts[0], "The {key} is lost."))
    with pytest.raises(InputError, match=r"needs \{key\}$"):
        replace(prompt, question="What?")
    with pytest.raises(InputError, match="begins before"):
        replace(depths, second=(0.2, 0.9))
    with pytest.raises(InputError, match="not a range"):
        replace(depths, first=(0.4, 0.1))


def test_the_gold_answer_goes_on_like_text(smol: PreTrainedTokenizerBase) -> None:
    """Behind a word or a colon it begins with a blank, behind white space it does not."""
    for prefill, lead in (
        ("The codes for {key} are", " "),
        ("The codes for {key}:", " "),
        ("The codes for {key}: ", ""),
    ):
        prompt = replace(ROSTERS["embedded"].prompt, answer_prefill=prefill)
        roster = replace(ROSTERS["embedded-dev"], prompt=prompt, lengths=(300,), cases_per_length=1)
        case = build_niah(smol, roster).cases[0]
        assert smol.decode(case.gold_ids) == lead + case.gold[0]
