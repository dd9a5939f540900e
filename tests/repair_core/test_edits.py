"""Positions, shift, replay and repair after several changes at once."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cachemend.repair_core import (
    Deletion,
    InputError,
    LoadedModel,
    Refused,
    load_model,
    prefill,
    refresh,
    replay,
    shift,
)
from cachemend.repair_core.allocators import allocate, names
from cachemend.repair_core.answering import answer
from cachemend.repair_core.caches import read_rows
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.edits import Change, Edits
from cachemend.repair_core.invariants import caches_equal
from cachemend.repair_core.repairing import repair, repair_batch
from cachemend.repair_core.shifting import retained_segments

from oracles import edits as oracle
from support.tiny_checkpoint import save_tiny
from support.tiny_models import BY_NAME, VOCABULARY, build

POSITION_NAMES = ("suffix_positions", "suffix_original_positions", "deleted_positions", "inserted_positions")
IDS = np.random.default_rng(3).integers(3, VOCABULARY, 70).tolist()
# A deletion, an insertion, a longer replacement, a shorter one, and one at the very end.
MANY = Edits(
    original_ids=IDS,
    changes=(
        Change(start=12, stop=16),
        Change(start=20, stop=20, replacement_ids=(5, 6, 7)),
        Change(start=30, stop=33, replacement_ids=(8, 9, 10, 11, 12)),
        Change(start=44, stop=50, replacement_ids=(13, 14)),
        Change(start=68, stop=70),
    ),
)
MODELS = ("llama", "glm4", "smollm3", "gemma3")


@cache
def _model(name: str) -> torch.nn.Module:
    return build(BY_NAME[name])


def worst(a: list, b: list) -> float:
    """max|difference| / max|reference|, over layers, keys and values."""
    return max(
        float((x - y).abs().max() / y.abs().max()) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True)
    )


@st.composite
def changed(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int, list[int]]]]:
    """A context of distinct tokens, and changes that do not touch."""
    length = draw(st.integers(1, 14))
    cuts = sorted(draw(st.lists(st.integers(0, length), min_size=2, max_size=8)))
    changes, previous = [], -1
    for start, stop in zip(cuts[::2], cuts[1::2], strict=False):
        new = draw(st.lists(st.integers(100, 120), max_size=3))
        if start > previous and (stop > start or new):
            changes.append((start, stop, new))
            previous = stop
    return list(range(length)), changes or [(length, length, [99])]


def build_edits(original: list[int], changes: list[tuple[int, int, list[int]]]) -> Edits:
    return Edits(
        original_ids=original,  # type: ignore[arg-type]
        changes=[Change(start=a, stop=b, replacement_ids=new) for a, b, new in changes],
    )


@given(changed())
def test_positions_equal_those_of_an_edited_list(case: tuple) -> None:
    original, changes = case
    expected = oracle.mapping(original, changes)
    if not expected.edited:
        with pytest.raises(InputError, match="nothing is left"):
            build_edits(original, changes)
        return
    edit = build_edits(original, changes)
    assert list(edit.edited_ids) == expected.edited
    assert edit.prefix_length == expected.prefix_length
    assert list(edit.suffix_ids) == expected.suffix
    assert edit.suffix_length == len(expected.suffix)
    for name in POSITION_NAMES:
        positions = getattr(edit, name)
        assert positions.tolist() == getattr(expected, name)
        assert positions.dtype == np.int64
        assert not positions.flags.writeable
    moved = {old: old + offset for start, stop, offset in retained_segments(edit) for old in range(start, stop)}
    assert moved == dict(zip(expected.suffix_original_positions, expected.suffix_positions, strict=True))


@given(st.integers(0, 9), st.integers(1, 9), st.integers(0, 9))
def test_a_deletion_is_one_change(prefix: int, deleted: int, suffix: int) -> None:
    if not prefix + suffix:
        return
    ids = list(range(prefix + deleted + suffix))
    deletion = Deletion(
        prefix_ids=ids[:prefix], deleted_ids=ids[prefix : prefix + deleted], suffix_ids=ids[prefix + deleted :]
    )
    same = build_edits(ids, [(prefix, prefix + deleted, [])])
    for name in ("original_ids", "edited_ids", "prefix_length", "suffix_ids", "suffix_length"):
        assert getattr(deletion, name) == getattr(same, name)
    for name in POSITION_NAMES:
        assert getattr(deletion, name).tolist() == getattr(same, name).tolist()
        assert getattr(deletion, name).dtype == np.int64


@pytest.mark.parametrize("name", MODELS)
def test_layer_zero_after_shift_is_a_fresh_prefill(name: str) -> None:
    model, kept = _model(name), [*range(12), *MANY.suffix_positions.tolist()]
    dirty = prefill(model, IDS)
    shifted = shift(model, dirty, MANY)
    clean = read_rows(prefill(model, MANY.edited_ids))
    ours = read_rows(shifted)
    first = [[tensor[:, :, kept] for tensor in rows[0]] for rows in (ours, clean)]
    assert worst(first[:1], first[1:]) <= 1e-5
    for rows, old in zip(ours, read_rows(dirty), strict=True):
        for moved, before in zip(rows, old, strict=True):
            assert torch.equal(moved[:, :, :12], before[:, :, :12])
            assert not moved[:, :, MANY.inserted_positions.tolist()].any()
        assert torch.equal(rows.values[:, :, kept[12:]], old.values[:, :, MANY.suffix_original_positions.tolist()])
    assert shifted.counts() == {
        "valid": 12,
        "stale": MANY.suffix_length,
        "refreshed": 0,
        "unknown": 0,
        "missing": len(MANY.inserted_positions),
    }


@pytest.mark.parametrize("name", MODELS)
def test_everything_recomputed_is_a_fresh_prefill(name: str) -> None:
    model = _model(name)
    dirty, clean = prefill(model, IDS), read_rows(prefill(model, MANY.edited_ids))
    refreshed = refresh(model, shift(model, dirty, MANY), MANY.edited_ids, range(12, len(MANY.edited_ids)))
    assert refreshed.is_clean
    assert worst(read_rows(refreshed), clean) <= 1e-4
    replayed = replay(model, dirty, MANY)
    assert replayed.is_clean
    assert worst(read_rows(replayed), clean) <= 1e-4


def test_missing_rows_are_read_by_nothing() -> None:
    model = _model("llama")
    shifted = shift(model, prefill(model, IDS), MANY)
    inserted = MANY.inserted_positions.tolist()
    for executor in ("packed", "interval", "direct", "one-shot"):
        with pytest.raises(Refused, match=f"never computed .1, the first at position {inserted[-1]}"):
            refresh(model, shifted, MANY.edited_ids, inserted[:-1], executor=executor)
    for positions in ([], [len(MANY.edited_ids) - 1]):
        with pytest.raises(Refused, match=rf"never computed \({len(inserted)}, the first at position {inserted[0]}\)"):
            refresh(model, shifted, MANY.edited_ids, positions)
    with pytest.raises(Refused, match="forward would read"):
        model(torch.tensor([[5]]), cache=shifted)
    with pytest.raises(Refused, match="answer would read"):
        answer(model, shifted, [5])
    late = Deletion(
        prefix_ids=MANY.edited_ids[:40], deleted_ids=MANY.edited_ids[40:41], suffix_ids=MANY.edited_ids[41:]
    )
    with pytest.raises(Refused, match="replay would read"):
        replay(model, shifted, late)
    moved = shift(model, shifted, late)
    assert moved.counts()["missing"] == len(inserted) - sum(i == 40 for i in inserted)
    done = refresh(model, shifted, MANY.edited_ids, inserted)
    assert done.counts()["missing"] == 0
    with torch.no_grad():
        model(torch.tensor([[5]]), cache=done)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"))))


TEXT = "The gardener carried water to the roses. Music drifted from an open window. A red bicycle leaned there. " * 3
QUERY = "Where was the red bicycle?"


@pytest.fixture(scope="module")
def ids(loaded: LoadedModel) -> list[int]:
    return loaded.tokenizer(TEXT, add_special_tokens=False)["input_ids"]


def _many(ids: list[int]) -> Edits:
    return build_edits(ids, [(9, 14, []), (20, 20, [ids[0], ids[1]]), (30, 32, [ids[5], ids[6], ids[7]])])


@pytest.mark.parametrize("allocator", names())
def test_repair_spends_the_budget_on_retained_tokens_only(loaded: LoadedModel, ids: list[int], allocator: str) -> None:
    edit = _many(ids)
    dirty = prefill(loaded.model, ids)
    done = repair(loaded.model, loaded.tokenizer, edit, QUERY, 20, cache=dirty, allocator=allocator)
    assert len(done.positions) == -(-edit.suffix_length // 5)
    assert set(done.positions) <= set(edit.suffix_positions)
    assert done.inserted.tolist() == edit.inserted_positions.tolist()
    where = sorted({*done.positions.tolist(), *edit.inserted_positions.tolist()})
    by_hand = refresh(loaded.model, shift(loaded.model, dirty, edit), edit.edited_ids, where)
    assert caches_equal(read_rows(done.cache), read_rows(by_hand))
    assert torch.equal(done.cache.row_states, by_hand.row_states)


def test_budget_ends_of_several_edits(loaded: LoadedModel, ids: list[int]) -> None:
    edit, model = _many(ids), loaded.model
    every = repair(model, loaded.tokenizer, edit, QUERY, 100)
    assert every.cache.is_clean
    assert worst(read_rows(every.cache), read_rows(prefill(model, edit.edited_ids))) <= 1e-4
    none = repair(model, loaded.tokenizer, edit, QUERY, 0)
    assert none.positions.size == 0
    assert none.cache.counts()["missing"] == 0
    assert none.cache.counts()["stale"] == edit.suffix_length


@pytest.mark.parametrize("allocator", names())
def test_a_deletion_and_its_edits_repair_to_the_same_bits(loaded: LoadedModel, ids: list[int], allocator: str) -> None:
    deletion = Deletion(prefix_ids=ids[:9], deleted_ids=ids[9:14], suffix_ids=ids[14:])
    same = build_edits(ids, [(9, 14, [])])
    dirty = prefill(loaded.model, ids)
    shifted = [shift(loaded.model, dirty, edit) for edit in (deletion, same)]
    assert caches_equal(*(read_rows(cache) for cache in shifted))
    one, two = (
        repair(loaded.model, loaded.tokenizer, edit, QUERY, 10, cache=dirty, allocator=allocator)
        for edit in (deletion, same)
    )
    assert one.positions.tolist() == two.positions.tolist()
    assert caches_equal(read_rows(one.cache), read_rows(two.cache))
    assert torch.equal(one.cache.row_states, two.cache.row_states)


def test_a_batch_of_edits_repairs_each_like_alone(loaded: LoadedModel, ids: list[int]) -> None:
    edits = [_many(ids), _many(ids[7:] + ids[:7])]
    together = repair_batch(loaded.model, loaded.tokenizer, edits, [QUERY, "Who carried water?"], 20)
    for index, (edit, query) in enumerate(zip(edits, [QUERY, "Who carried water?"], strict=True)):
        alone = repair(loaded.model, loaded.tokenizer, edit, query, 20)
        assert together[index].positions.tolist() == alone.positions.tolist()
        ours = [[t[index : index + 1] for t in rows] for rows in read_rows(together[index].cache)]
        assert worst(ours, read_rows(alone.cache)) <= 1e-4
    elsewhere = build_edits(ids, [(9, 14, []), (21, 21, [3, 4]), (30, 32, [5, 6, 7])])
    with pytest.raises(InputError, match="the positions they change"):
        repair_batch(loaded.model, loaded.tokenizer, [edits[0], elsewhere], [QUERY, QUERY], 20)


def test_contexts_with_nothing_retained_behind_the_first_change(loaded: LoadedModel, ids: list[int]) -> None:
    model, end = loaded.model, len(ids)
    for change in ((end, end, ids[:4]), (0, end, ids[:6]), (end - 3, end, ids[:2])):
        edit = build_edits(ids, [change])
        done = repair(model, loaded.tokenizer, edit, QUERY, 50)
        assert done.positions.size == 0
        assert done.cache.is_clean
        assert worst(read_rows(done.cache), read_rows(prefill(model, edit.edited_ids))) <= 1e-4
        assert allocate("sur", RepairContext(model, loaded.tokenizer, edit, QUERY), 100).size == 0


def test_bad_edits_are_named() -> None:
    for changes, line in (
        ([], "changes is empty"),
        ([(0, 71, [])], r"changes\[0\] \(0\.\.71\) ends behind the context; original_ids holds 70"),
        ([(5, 9, []), (9, 9, [1])], r"changes\[1\] \(9\.\.9\) starts before, in or right at the end"),
        ([(5, 9, []), (3, 4, [])], r"changes\[1\] \(3\.\.4\) starts before"),
        ([(5, 5, [])], "replaces tokens by themselves"),
        ([(5, 7, IDS[5:7])], "replaces tokens by themselves"),
        ([(9, 5, [])], "change 9..5 is no span"),
        ([(-1, 5, [])], "change -1..5 is no span"),
        ([(1.5, 5, [])], "start of a change must be a token position"),
        ([(1, 5, [-4])], "negative token id -4"),
        ([(0, 70, [])], "nothing is left"),
    ):
        with pytest.raises(InputError, match=line):
            build_edits(IDS, changes)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="original_ids is empty"):
        build_edits([], [(0, 0, [1])])
    with pytest.raises(InputError, match="is a tuple; give a Change"):
        Edits(original_ids=(1, 2), changes=[(0, 1, ())])  # type: ignore[list-item]
