"""A span replaced by as many tokens or by another number: positions, shift, and how it is found in two texts."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cachemend.repair_core import (
    Change,
    Deletion,
    Edits,
    InputError,
    LoadedModel,
    Refused,
    RepairContext,
    Replacement,
    StaleContext,
    Tokens,
    allocate,
    load_model,
    prefill,
    refresh,
    repair,
    replacement_from_texts,
    shift,
)
from cachemend.repair_core.caches import read_rows
from cachemend.repair_core.invariants import caches_equal
from cachemend.repair_core.replacement import changed_span, downstream_pool, is_in_place

from oracles import edits as oracle
from support.tiny_checkpoint import save_tiny
from support.tiny_models import BY_NAME, FIXED_POSITIONS, Tiny, build

IDS = np.random.default_rng(4).integers(3, 200, 40).tolist()
POSITION_NAMES = ("suffix_positions", "suffix_original_positions", "deleted_positions", "inserted_positions")


@st.composite
def replacements(draw: st.DrawFn) -> Replacement:
    length = draw(st.integers(1, 12))
    start = draw(st.integers(0, length - 1))
    stop = draw(st.integers(start + 1, length))
    new = draw(st.lists(st.integers(100, 120), min_size=1, max_size=5))
    return Replacement(original_ids=range(length), start=start, stop=stop, replacement_ids=new)


@given(replacements())
def test_positions_equal_those_of_an_edited_list(edit: Replacement) -> None:
    expected = oracle.mapping(list(edit.original_ids), [(edit.start, edit.stop, list(edit.replacement_ids))])
    assert list(edit.edited_ids) == expected.edited
    assert edit.prefix_length == expected.prefix_length
    assert list(edit.suffix_ids) == expected.suffix
    assert edit.suffix_length == len(expected.suffix)
    for name in POSITION_NAMES:
        positions = getattr(edit, name)
        assert positions.tolist() == getattr(expected, name)
        assert positions.dtype == np.int64
        assert not positions.flags.writeable
    assert list(range(*edit.span)) == expected.inserted_positions
    assert changed_span(edit) == edit.span
    last = len(expected.edited) - 1
    assert edit.pool.tolist() == [i for i in expected.suffix_positions if i != last]
    assert edit.pool.dtype == np.int64
    assert not edit.pool.flags.writeable
    assert edit.in_place == (len(expected.edited) == len(edit.original_ids))
    assert is_in_place(edit) == edit.in_place


def test_edits_that_keep_every_position_are_in_place() -> None:
    def edits(*changes: tuple[int, int, list[int]]) -> Edits:
        made = [Change(start=a, stop=b, replacement_ids=new) for a, b, new in changes]
        return Edits(original_ids=tuple(range(20)), changes=made)

    assert is_in_place(edits((3, 5, [50, 51]), (9, 10, [52])))
    assert not is_in_place(edits((3, 5, [50]), (9, 9, [51])))
    assert not is_in_place(edits((19, 20, [])))
    assert not is_in_place(Deletion(prefix_ids=[1, 2], deleted_ids=[3], suffix_ids=[]))
    assert changed_span(edits((3, 5, [50, 51, 52]))) == (3, 6)
    assert changed_span(edits((3, 5, []))) == (3, 3)
    for several in (
        edits((3, 5, [50, 51]), (9, 10, [52])),
        edits((3, 5, []), (19, 20, [])),
        edits((3, 4, []), (20, 20, [5])),
    ):
        with pytest.raises(InputError, match="changes several places"):
            changed_span(several)
    assert downstream_pool(edits((3, 5, [50]), (18, 20, [51]))).tolist() == list(range(4, 17))
    assert downstream_pool(edits((3, 5, [50]), (9, 9, [51]))).tolist() == [4, 5, 6, 7, *range(9, 19)]


@pytest.mark.parametrize("tiny", FIXED_POSITIONS, ids=lambda tiny: tiny.name)
def test_an_edit_in_place_moves_nothing_and_asks_for_no_rotation(tiny: Tiny) -> None:
    model = build(tiny)
    cache = prefill(model, IDS)
    edit = Replacement(original_ids=IDS, start=10, stop=13, replacement_ids=[5, 6, 7])
    shifted = shift(model, cache, edit)
    kept = [*range(10), *range(13, 40)]
    for ours, before in zip(read_rows(shifted), read_rows(cache), strict=True):
        for moved, old in zip(ours, before, strict=True):
            assert torch.equal(moved[:, :, kept], old[:, :, kept])
            assert not moved[:, :, 10:13].any()
    assert shifted.counts() == {"valid": 10, "stale": 27, "refreshed": 0, "unknown": 0, "missing": 3}
    longer = Replacement(original_ids=IDS, start=10, stop=13, replacement_ids=[5, 6, 7, 8])
    with pytest.raises(Refused, match=tiny.no_shift):
        shift(model, cache, longer)


def test_a_context_that_grows_at_its_end_keeps_its_rows_only_under_the_same_frequencies() -> None:
    def longer(by: int) -> Replacement:
        return Replacement(original_ids=IDS, start=39, stop=40, replacement_ids=range(5, 6 + by))

    assert shift(build(BY_NAME["gpt2"]), prefill(build(BY_NAME["gpt2"]), IDS), longer(3)).counts()["valid"] == 39
    model = build(BY_NAME["phi3-longrope"])
    with pytest.raises(Refused, match="rotates a context of 40 tokens otherwise than one of 43"):
        shift(model, prefill(model, IDS), longer(3))


@pytest.mark.parametrize("new", [[5, 6, 7], [5], [5, 6, 7, 8, 9]])
def test_shift_and_repair_equal_those_of_the_same_change(new: list[int]) -> None:
    model, ids = build(BY_NAME["llama"]), IDS
    edit = Replacement(original_ids=ids, start=10, stop=13, replacement_ids=new)
    same = Edits(original_ids=tuple(ids), changes=[Change(start=10, stop=13, replacement_ids=new)])
    cache = prefill(model, ids)
    a, b = (shift(model, cache, e) for e in (edit, same))
    assert caches_equal(read_rows(a), read_rows(b))
    assert torch.equal(a.row_states, b.row_states)
    one, two = (
        repair(model, None, e, "", Tokens(7), cache=cache, allocator="cacheblend")  # type: ignore[arg-type]
        for e in (edit, same)
    )
    assert one.positions.tolist() == two.positions.tolist()
    assert caches_equal(read_rows(one.cache), read_rows(two.cache))


def test_a_query_looks_at_the_stale_cache_itself_after_an_edit_in_place() -> None:
    model = build(BY_NAME["llama"])
    edit = Replacement(original_ids=IDS, start=10, stop=13, replacement_ids=[5, 6, 7])
    unread = shift(model, prefill(model, IDS), edit)
    again = Replacement(original_ids=edit.edited_ids, start=20, stop=21, replacement_ids=[8])
    context = StaleContext(model, None, again, "", dirty=unread, query_ids=[5])  # type: ignore[arg-type]
    with pytest.raises(Refused, match="this signal would read rows of inserted tokens"):
        _ = context.query_attention
    read = refresh(model, unread, edit.edited_ids, range(10, 13))
    context = StaleContext(model, None, again, "", dirty=read, query_ids=[5])  # type: ignore[arg-type]
    assert context.query_attention.mean.shape == (40,)
    assert "insertions" not in context.timings
    assert "clean" not in dir(context)
    assert "clean" in dir(RepairContext(model, None, again, ""))  # type: ignore[arg-type]


def test_a_shallow_prefill_has_the_frequencies_of_its_own_context() -> None:
    """Dynamic NTK keeps the frequencies of the longest context it has seen."""
    model = build(BY_NAME["llama-dynamic"])
    edit = Replacement(original_ids=IDS * 2, start=10, stop=13, replacement_ids=[5, 6, 7])
    context = RepairContext(model, None, edit, "", query_ids=range(5, 100))  # type: ignore[arg-type]
    chosen = allocate("cacheblend", context, Tokens(9))
    fresh = RepairContext(model, None, edit, "", dirty=context.dirty, query_ids=range(5, 100))  # type: ignore[arg-type]
    _ = fresh.query_attention
    assert allocate("cacheblend", fresh, Tokens(9)).tolist() == chosen.tolist()
    for ours, clean in zip(fresh.shallow, read_rows(prefill(model, edit.edited_ids)), strict=False):
        for x, y in zip(ours, clean, strict=True):
            assert torch.allclose(x, y, atol=1e-5)


def test_bad_spans_are_named() -> None:
    for start, stop, new, line in (
        (38, 41, [1, 2, 3], r"span 38\.\.41 ends behind the context; original_ids holds 40 tokens"),
        (50, 51, [1], r"span 50\.\.51 ends behind the context"),
        (5, 5, [1], r"span 5\.\.5 is no span of tokens to replace; give 0 <= start < stop"),
        (7, 5, [1], r"span 7\.\.5 is no span"),
        (-1, 5, [1], r"span -1\.\.5 is no span"),
        (5, 6, [], r"replacement_ids of span 5\.\.6 is empty; use Deletion"),
        (5, 7, IDS[5:7], r"span 5\.\.7 is replaced by itself"),
        (1.5, 5, [1], "start of the span must be a token position"),
        (1, 5, [-4], "replacement_ids holds the negative token id -4"),
        (1, 5, ["a"], "replacement_ids must be a flat list of token ids"),
    ):
        with pytest.raises(InputError, match=line) as error:
            Replacement(original_ids=IDS, start=start, stop=stop, replacement_ids=new)  # type: ignore[arg-type]
        assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"))))


TEXT = "<s><u>The gardener carried water to the roses. A red bicycle leaned there.</u>\n<a>"


@pytest.mark.parametrize(
    ("old", "new"),
    [("water", "stones"), ("red bicycle", "blue boat"), (" red", ""), ("A red", "A dark red"), ("roses.", "roses!")],
)
def test_two_texts_give_the_span_that_differs(loaded: LoadedModel, old: str, new: str) -> None:
    tokenizer, after = loaded.tokenizer, TEXT.replace(old, new)
    edit = replacement_from_texts(tokenizer, TEXT, after)
    before_ids, after_ids = (tokenizer(t, add_special_tokens=False)["input_ids"] for t in (TEXT, after))
    assert list(edit.original_ids) == before_ids
    assert list(edit.edited_ids) == after_ids
    grows = len(after_ids) != len(before_ids)
    assert grows or before_ids[edit.start] != after_ids[edit.start]
    assert grows or before_ids[edit.stop - 1] != after_ids[edit.span.stop - 1]
    removed, written = tokenizer.decode(before_ids[edit.start : edit.stop]), tokenizer.decode(edit.replacement_ids)
    assert len(removed) <= len(old) + 12
    assert TEXT.replace(removed, written, 1) == after


def test_texts_without_an_edit_of_their_words_are_named(loaded: LoadedModel) -> None:
    tokenizer = loaded.tokenizer
    with pytest.raises(InputError, match="before and after the edit are equal"):
        replacement_from_texts(tokenizer, TEXT, TEXT)
    for after, token in (
        (TEXT.replace("</u>", "</a>"), "</u>"),
        (TEXT.replace("<a>", ""), "<a>"),
        (TEXT.replace("water", "wa<s>ter"), "<s>"),
    ):
        with pytest.raises(Refused, match=f"touches the special or chat-template token '{token}'"):
            replacement_from_texts(tokenizer, TEXT, after)
    with pytest.raises(InputError, match="has no tokens"):
        replacement_from_texts(tokenizer, "", "water")
    tokenizer.add_tokens(["<think>"])
    tokenizer.chat_template = f"{tokenizer.chat_template}<think>"
    with pytest.raises(Refused, match="token '<think>'"):
        replacement_from_texts(tokenizer, "a <think> b", "a or b")
