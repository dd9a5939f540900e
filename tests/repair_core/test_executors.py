"""One matrix over architectures and executors."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
import torch

from cachemend.repair_core import Deletion, InputError, RowState, prefill, refresh, replay, shift
from cachemend.repair_core.caches import Rows, clone_rows, read_rows
from cachemend.repair_core.executors import REPAIRING
from cachemend.repair_core.invariants import caches_equal, changed_rows

from support.tiny_models import MATRIX, VOCABULARY, Tiny, build

IDS = np.random.default_rng(0).integers(3, VOCABULARY, 90).tolist()
DELETION = Deletion(prefix_ids=IDS[:20], deleted_ids=IDS[20:31], suffix_ids=IDS[31:])
LENGTH = len(DELETION.edited_ids)
# Several intervals, one at the very start of the suffix, one at its end; gaps wider and narrower than the window.
POSITIONS = [20, 21, 24, 40, 41, 42, 55, 56, 70, 78]


@cache
def _model(name: str) -> torch.nn.Module:
    return build(next(t for t in MATRIX if t.name == name))


@cache
def _state(name: str) -> tuple:
    model = _model(name)
    dirty = prefill(model, DELETION.original_ids)
    return dirty, shift(model, dirty, DELETION), read_rows(prefill(model, DELETION.edited_ids))


def relative(a: list[Rows], b: list[Rows]) -> list[float]:
    """max|difference| / max|reference| per layer, the larger of keys and values."""
    return [
        max(float((x - y).abs().max() / y.abs().max()) for x, y in zip(p, q, strict=True))
        for p, q in zip(a, b, strict=True)
    ]


matrix = pytest.mark.parametrize("tiny", MATRIX, ids=lambda t: t.name)
executors = pytest.mark.parametrize("executor", REPAIRING)


@matrix
def test_the_model_is_really_stateful(tiny: Tiny) -> None:
    _, shifted, clean = _state(tiny.name)
    staleness = relative(read_rows(shifted), clean)
    assert staleness[0] <= 1e-5, "layer 0 after Shift equals a clean prefill's"
    assert min(staleness[1:]) >= 1e-2
    if tiny.window is not None:
        assert tiny.window + 20 < LENGTH, "the window is crossed"


@matrix
@executors
def test_executors_agree_and_leave_the_rest_alone(tiny: Tiny, executor: str) -> None:
    _, shifted, clean = _state(tiny.name)
    model, before = _model(tiny.name), clone_rows(read_rows(shifted))
    expected = read_rows(refresh(model, shifted, DELETION.edited_ids, POSITIONS, executor="interval"))
    out = refresh(model, shifted, DELETION.edited_ids, POSITIONS, executor=executor)
    assert max(relative(read_rows(out), expected)) <= 1e-4
    assert caches_equal(read_rows(shifted), before), "the input cache is not modified"
    assert set(changed_rows(before, read_rows(out))) <= set(POSITIONS)
    assert max(relative(read_rows(out), clean)) > 1e-2, "a partial refresh is not the clean cache"
    states = out.row_states[0].tolist()
    # The first two positions follow the valid prefix directly, so what they read is valid and so are they.
    assert [i for i, s in enumerate(states) if s == RowState.VALID] == list(range(22))
    assert [i for i, s in enumerate(states) if s == RowState.REFRESHED] == POSITIONS[2:]
    assert not out.is_clean


@matrix
@executors
def test_refreshing_everything_is_a_fresh_prefill(tiny: Tiny, executor: str) -> None:
    _, shifted, clean = _state(tiny.name)
    out = refresh(_model(tiny.name), shifted, DELETION.edited_ids, range(20, LENGTH), executor=executor)
    assert max(relative(read_rows(out), clean)) <= 1e-4
    assert out.is_clean


@matrix
def test_replay_is_a_fresh_prefill(tiny: Tiny) -> None:
    dirty, _, clean = _state(tiny.name)
    assert max(relative(read_rows(replay(_model(tiny.name), dirty, DELETION)), clean)) <= 1e-4


@matrix
def test_a_mask_that_shows_the_future_is_caught(tiny: Tiny) -> None:
    _, shifted, _ = _state(tiny.name)
    model = _model(tiny.name)
    expected = read_rows(refresh(model, shifted, DELETION.edited_ids, POSITIONS, executor="interval"))
    wrong = read_rows(refresh(model, shifted, DELETION.edited_ids, POSITIONS, executor="bottom-right"))
    assert max(relative(wrong, expected)) > 1e-3


@matrix
@executors
def test_batches_refresh_each_sequence_like_alone(tiny: Tiny, executor: str) -> None:
    model = _model(tiny.name)
    rng = np.random.default_rng(7)
    rows = [rng.integers(3, VOCABULARY, 60).tolist() for _ in range(3)]
    edits = [Deletion(prefix_ids=r[:10], deleted_ids=r[10:15], suffix_ids=r[15:]) for r in rows]
    dirty = prefill(model, [e.original_ids for e in edits])
    shifted = shift(model, dirty, edits[0])
    positions = [sorted(rng.choice(np.arange(10, 55), 7, replace=False).tolist()) for _ in rows]
    edited = [e.edited_ids for e in edits]
    together = read_rows(refresh(model, shifted, edited, positions, executor=executor))
    shared = read_rows(refresh(model, shifted, edited, positions[0], executor=executor))
    for i in range(3):
        alone = shift(model, prefill(model, edits[i].original_ids), edits[i])
        for batch, where in ((together, positions[i]), (shared, positions[0])):
            expected = read_rows(refresh(model, alone, edited[i], where, executor="interval"))
            ours = [Rows(k[i : i + 1], v[i : i + 1]) for k, v in batch]
            assert max(relative(ours, expected)) <= 1e-4


@executors
def test_in_place_writes_into_the_given_cache(executor: str) -> None:
    model = _model("llama")
    dirty = prefill(model, DELETION.original_ids)
    shifted = shift(model, dirty, DELETION)
    expected = read_rows(refresh(model, shifted, DELETION.edited_ids, POSITIONS, executor=executor))
    pointer = shifted.layers[0].keys.data_ptr()
    out = refresh(model, shifted, DELETION.edited_ids, POSITIONS, executor=executor, in_place=True)
    assert out is shifted
    assert shifted.layers[0].keys.data_ptr() == pointer
    assert caches_equal(read_rows(shifted), expected)


@executors
def test_no_positions_is_a_copy(executor: str) -> None:
    _, shifted, _ = _state("llama")
    out = refresh(_model("llama"), shifted, DELETION.edited_ids, [], executor=executor)
    assert out is not shifted
    assert caches_equal(read_rows(out), read_rows(shifted))


def test_low_precision_stays_near_the_reference() -> None:
    model = build(MATRIX[0], dtype=torch.bfloat16)
    shifted = shift(model, prefill(model, DELETION.original_ids), DELETION)
    outs = {e: read_rows(refresh(model, shifted, DELETION.edited_ids, POSITIONS, executor=e)) for e in REPAIRING}
    for rows in outs.values():
        assert max(relative(rows, outs["interval"])) <= 0.1


def test_the_attention_choice_is_restored() -> None:
    model = _model("gemma3")
    before = model.config._attn_implementation
    _, shifted, _ = _state("gemma3")
    refresh(model, shifted, DELETION.edited_ids, POSITIONS)
    assert model.config._attn_implementation == before
    with pytest.raises(InputError):
        refresh(model, shifted, DELETION.edited_ids[:-1], POSITIONS)
    assert model.config._attn_implementation == before


def test_two_partial_refreshes_are_not_a_clean_cache() -> None:
    _, shifted, clean = _state("llama")
    model, ids = _model("llama"), DELETION.edited_ids
    later = refresh(model, shifted, ids, range(50, LENGTH))
    both = refresh(model, later, ids, range(20, 50))
    assert max(relative(read_rows(both), clean)) > 1e-2
    assert not both.is_clean
    assert both.counts()["refreshed"] == LENGTH - 50
    in_order = refresh(model, refresh(model, shifted, ids, range(20, 50)), ids, range(50, LENGTH))
    assert max(relative(read_rows(in_order), clean)) <= 1e-4
    assert in_order.is_clean


def test_rows_appended_to_a_stale_cache_are_not_valid() -> None:
    _, shifted, _ = _state("llama")
    model, ids = _model("llama"), DELETION.edited_ids
    cache = refresh(model, shifted, ids, [30])
    more = [5, 6, 7]
    model(torch.tensor([more]), cache=cache)
    out = refresh(model, cache, [*ids, *more], range(20, LENGTH))
    assert out.row_states.shape[1] == LENGTH + 3
    assert out.row_states[0, -3:].tolist() == [RowState.REFRESHED] * 3
    assert not out.is_clean
    out.crop(-3)
    assert out.row_states.shape[1] == LENGTH
    assert out.is_clean


def test_other_threads_wait_for_a_refresh() -> None:
    _, shifted, clean = _state("llama")
    model, ids = _model("llama"), DELETION.edited_ids
    with ThreadPoolExecutor(4) as pool:
        refreshed = [pool.submit(refresh, model, shifted, ids, POSITIONS) for _ in range(20)]
        prefilled = [pool.submit(prefill, model, ids) for _ in range(20)]
    expected = read_rows(refresh(model, shifted, ids, POSITIONS))
    assert all(caches_equal(read_rows(f.result()), expected) for f in refreshed)
    assert all(caches_equal(read_rows(f.result()), clean) for f in prefilled)


def test_replay_of_a_batch_takes_one_deletion_each() -> None:
    model = _model("llama")
    other = Deletion(prefix_ids=IDS[20:40], deleted_ids=IDS[:11], suffix_ids=IDS[31:][::-1])
    both = replay(model, prefill(model, [DELETION.original_ids, other.original_ids]), [DELETION, other])
    for i, edit in enumerate((DELETION, other)):
        alone = read_rows(prefill(model, edit.edited_ids))
        assert max(relative([Rows(k[i : i + 1], v[i : i + 1]) for k, v in read_rows(both)], alone)) <= 1e-4
    with pytest.raises(InputError, match="one edit for each"):
        replay(model, prefill(model, [DELETION.original_ids, other.original_ids]), DELETION)
    with pytest.raises(InputError, match="holds 79 rows"):
        replay(model, prefill(model, DELETION.edited_ids), DELETION)


def test_unmarked_caches_become_unknown() -> None:
    model = _model("llama")
    out = refresh(model, prefill(model, DELETION.edited_ids), DELETION.edited_ids, [30])
    assert out.counts()["unknown"] == LENGTH - 1
    assert not out.is_clean


def test_bad_input_is_named() -> None:
    _, shifted, _ = _state("llama")
    model, ids = _model("llama"), DELETION.edited_ids
    with pytest.raises(InputError, match="did you mean 'packed'"):
        refresh(model, shifted, ids, POSITIONS, executor="pack")
    with pytest.raises(InputError, match="attention backend"):
        refresh(model, shifted, ids, POSITIONS, attention="flash9")
    with pytest.raises(InputError, match="rows 0 to 78"):
        refresh(model, shifted, ids, [79])
    with pytest.raises(InputError, match="holds 79 rows; the context before the edit has 90 tokens"):
        shift(model, refresh(model, shifted, ids, POSITIONS), DELETION)
