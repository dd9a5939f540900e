import copy
from pathlib import Path

import pytest
import torch
from transformers import DynamicCache

from cachemend.repair_core import (
    Deletion,
    InputError,
    LoadedModel,
    RepairContext,
    RepairedCache,
    RowState,
    Tokens,
    allocate,
    load_model,
    prefill,
    refresh,
    repair,
    repair_batch,
    repair_budget,
    replay,
    shift,
)
from cachemend.repair_core.allocators import names
from cachemend.repair_core.caches import Rows, clone_rows, read_rows
from cachemend.repair_core.invariants import caches_equal

from support.tiny_checkpoint import save_tiny

TEXT = (
    "The baker opened the shop before the sun came up. ",
    "A red bicycle leaned against the wall. ",
    "Two children counted the boats on the river. ",
    "The gardener carried water to the old roses. ",
    "Music drifted from an open window. ",
)
QUERY = "Where was the red bicycle?"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"))))


def _deletion(loaded: LoadedModel, first: str = TEXT[0]) -> Deletion:
    def ids(text: str) -> list[int]:
        return loaded.tokenizer(text, add_special_tokens=False)["input_ids"]

    return Deletion(prefix_ids=ids("<s><u>" + first), deleted_ids=ids(TEXT[2]), suffix_ids=ids("".join(TEXT[1:]) * 3))


@pytest.mark.parametrize("allocator", names())
@pytest.mark.parametrize("budget", [0, 5, 33.3, 100, Tokens(9)])
def test_one_call_is_the_steps_by_hand(loaded: LoadedModel, allocator: str, budget: object) -> None:
    model, deletion = loaded.model, _deletion(loaded)
    done = repair(model, loaded.tokenizer, deletion, QUERY, budget, allocator=allocator)  # type: ignore[arg-type]
    dirty = prefill(model, deletion.original_ids)
    context = RepairContext(model, loaded.tokenizer, deletion, QUERY, dirty=dirty)
    positions = allocate(allocator, context, budget)  # type: ignore[arg-type]
    by_hand = refresh(model, shift(model, dirty, deletion), deletion.edited_ids, positions)
    assert done.positions.tolist() == positions.tolist()
    assert len(positions) == repair_budget(deletion.suffix_length, budget)  # type: ignore[arg-type]
    assert caches_equal(read_rows(done.cache), read_rows(by_hand))
    assert set(done.timings) == {"prefill", "shift", "signal", "allocate", "refresh"}
    assert [u for run in done.intervals for u in range(*run)] == positions.tolist()


def test_budget_ends_are_shift_and_replay(loaded: LoadedModel) -> None:
    model, deletion = loaded.model, _deletion(loaded)
    dirty = prefill(model, deletion.original_ids)
    before = clone_rows(read_rows(dirty))
    none = repair(model, loaded.tokenizer, deletion, QUERY, 0, cache=dirty)
    assert caches_equal(read_rows(none.cache), read_rows(shift(model, dirty, deletion)))
    every = repair(model, loaded.tokenizer, deletion, QUERY, 100, cache=dirty)
    replayed = read_rows(replay(model, dirty, deletion))
    for ours, theirs in zip(read_rows(every.cache), replayed, strict=True):
        assert torch.allclose(ours.keys, theirs.keys, atol=1e-4)
        assert torch.allclose(ours.values, theirs.values, atol=1e-4)
    assert caches_equal(read_rows(dirty), before), "the cache passed in is not modified"
    assert "prefill" not in every.timings


def test_a_repaired_cache_never_passes_for_a_clean_one(loaded: LoadedModel) -> None:
    model, deletion = loaded.model, _deletion(loaded)
    cache = repair(model, loaded.tokenizer, deletion, QUERY, 10).cache
    counts = cache.counts()
    fresh = repair_budget(deletion.suffix_length, 10)
    assert counts["valid"] + counts["refreshed"] == deletion.prefix_length + fresh
    assert counts["stale"] == deletion.suffix_length - fresh
    ids, at = deletion.edited_ids, int((cache.row_states[0] == RowState.STALE).nonzero()[0]) + 1
    again = Deletion(prefix_ids=ids[:at], deleted_ids=ids[at : at + 3], suffix_ids=ids[at + 3 :])
    for second in (
        shift(model, cache, again),
        replay(model, cache, again),
        repair(model, loaded.tokenizer, again, QUERY, 100, cache=cache).cache,
    ):
        assert not second.is_clean
        assert torch.equal(second.row_states[:, :at], cache.row_states[:, :at])
    copied = copy.deepcopy(cache)
    assert isinstance(copied, RepairedCache)
    assert not copied.is_clean
    copied.batch_repeat_interleave(2)
    assert copied.row_states.shape[0] == 2
    assert isinstance(cache, DynamicCache)


def test_the_repaired_cache_goes_on_in_generate(loaded: LoadedModel) -> None:
    model, deletion = loaded.model, _deletion(loaded)
    cache = repair(model, loaded.tokenizer, deletion, QUERY, 100).cache
    query = loaded.tokenizer(QUERY, add_special_tokens=False)["input_ids"]
    prompt = torch.tensor([[*deletion.edited_ids, *query]])
    options = {"attention_mask": torch.ones_like(prompt), "max_new_tokens": 8, "do_sample": False}
    plain = model.generate(prompt, **options)  # type: ignore[operator]
    repaired = model.generate(prompt, past_key_values=cache, **options)  # type: ignore[operator]
    assert plain.tolist() == repaired.tolist()
    assert int((cache.row_states == RowState.VALID).sum()) == len(deletion.edited_ids)


def test_a_batch_repairs_each_sequence_like_alone(loaded: LoadedModel) -> None:
    model = loaded.model
    one = _deletion(loaded)
    swapped = Deletion(
        prefix_ids=one.prefix_ids[::-1], deleted_ids=one.deleted_ids, suffix_ids=one.suffix_ids[7:] + one.suffix_ids[:7]
    )
    queries = [QUERY, "Who carried water?"]
    together = repair_batch(model, loaded.tokenizer, [one, swapped], queries, 20)
    assert together[0].positions.tolist() != together[1].positions.tolist()
    for index, (deletion, query) in enumerate(zip([one, swapped], queries, strict=True)):
        alone = repair(model, loaded.tokenizer, deletion, query, 20)
        assert together[index].positions.tolist() == alone.positions.tolist()
        ours = [Rows(k[index : index + 1], v[index : index + 1]) for k, v in read_rows(together[index].cache)]
        for a, b in zip(ours, read_rows(alone.cache), strict=True):
            assert torch.allclose(a.keys, b.keys, atol=1e-4)
            assert torch.allclose(a.values, b.values, atol=1e-4)
    short = Deletion(prefix_ids=one.prefix_ids[1:], deleted_ids=one.deleted_ids, suffix_ids=one.suffix_ids)
    with pytest.raises(InputError, match="share prefix"):
        repair_batch(model, loaded.tokenizer, [one, short], queries, 20)
    with pytest.raises(InputError, match="as many queries"):
        repair_batch(model, loaded.tokenizer, [one, swapped], queries[:1], 20)


def test_edges_of_a_context(loaded: LoadedModel) -> None:
    model, deletion = loaded.model, _deletion(loaded)
    at_start = Deletion(prefix_ids=(), deleted_ids=deletion.prefix_ids, suffix_ids=deletion.suffix_ids)
    done = repair(model, loaded.tokenizer, at_start, QUERY, 100)
    clean = read_rows(prefill(model, at_start.edited_ids))
    assert all(torch.allclose(a.keys, b.keys, atol=1e-4) for a, b in zip(read_rows(done.cache), clean, strict=True))
    at_end = Deletion(prefix_ids=deletion.prefix_ids, deleted_ids=deletion.suffix_ids, suffix_ids=())
    done = repair(model, loaded.tokenizer, at_end, QUERY, 50)
    assert done.positions.size == 0
    assert done.cache.is_clean
    with pytest.raises(InputError, match="nothing is left"):
        Deletion(prefix_ids=(), deleted_ids=(1,), suffix_ids=())
    with pytest.raises(InputError, match="whole numbers"):
        Deletion(prefix_ids=(1.7,), deleted_ids=(1,), suffix_ids=())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="token id 10000 is outside the model's vocabulary of"):
        prefill(model, [1, 10_000])
    with pytest.raises(InputError, match="is a tuple"):
        shift(model, (), deletion)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="deleted_ids is empty"):
        Deletion(prefix_ids=(1,), deleted_ids=(), suffix_ids=(2,))


def test_shared_signals_are_timed_once(loaded: LoadedModel) -> None:
    context = RepairContext(loaded.model, loaded.tokenizer, _deletion(loaded), QUERY)
    allocate("sur", context, 5)
    first = dict(context.timings)
    allocate("sur", context, 20)
    allocate("dense-tokens", context, 20)
    assert context.timings == first
    assert set(first) == {"units", "embeddings"}


def test_selection_is_query_directed(loaded: LoadedModel) -> None:
    deletion = _deletion(loaded)
    contexts = [
        RepairContext(loaded.model, loaded.tokenizer, deletion, query)
        for query in (QUERY, "Who carried water to the old roses?")
    ]
    one, two = (allocate("sur", context, 10).tolist() for context in contexts)
    assert one != two
    assert "bicycle" in loaded.tokenizer.decode([deletion.edited_ids[u] for u in one])


def test_save_folder_without_weights_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no weights"):
        load_model(str(tmp_path))


@pytest.mark.parametrize("allocator", ["prophetkv", "cache-craft", "cacheblend", "cachetune", "clean-state-oracle"])
def test_the_order_of_a_batch_changes_no_choice(loaded: LoadedModel, allocator: str) -> None:
    edit = _deletion(loaded)
    other = Deletion(
        prefix_ids=edit.prefix_ids, deleted_ids=edit.deleted_ids[::-1], suffix_ids=tuple(edit.suffix_ids)[::-1]
    )
    both = [edit, other]
    queries = [QUERY, TEXT[2]]
    forward = repair_batch(loaded.model, loaded.tokenizer, both, queries, 20, allocator=allocator)
    backward = repair_batch(loaded.model, loaded.tokenizer, both[::-1], queries[::-1], 20, allocator=allocator)
    alone = [
        repair(loaded.model, loaded.tokenizer, edit, query, 20, allocator=allocator)
        for edit, query in zip(both, queries, strict=True)
    ]
    for one, two, three in zip(forward, backward[::-1], alone, strict=True):
        assert one.positions.tolist() == two.positions.tolist() == three.positions.tolist()
    if allocator != "cache-craft":  # there, both follow the distance to the deleted text
        assert forward[0].positions.tolist() != forward[1].positions.tolist()
