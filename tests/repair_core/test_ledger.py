"""What a cache knows of its rows over many edits, against a simulation of what every row was computed from."""

import copy
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cachemend.repair_core import Deletion, Refused, RepairedCache, RowState, prefill, refresh, replay, shift
from cachemend.repair_core.caches import read_rows
from cachemend.repair_core.edits import Change, Edits
from cachemend.repair_core.invariants import caches_equal

from oracles import edits as oracle
from support.tiny_models import VOCABULARY, Tiny, build

IDS = np.random.default_rng(5).integers(3, VOCABULARY, 60).tolist()


@cache
def _model(layers: int = 4) -> torch.nn.Module:
    return build(Tiny("ledger", "llama", {"num_hidden_layers": layers}))


def cut(ids: list[int], start: int, stop: int) -> Deletion:
    return Deletion(prefix_ids=ids[:start], deleted_ids=ids[start:stop], suffix_ids=ids[stop:])


def worst(a: list, b: list) -> float:
    """max|difference| / max|reference|, over layers, keys and values."""
    return max(
        float((x - y).abs().max() / y.abs().max()) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True)
    )


class Twin:
    """A real cache and its simulation, which take the same steps."""

    def __init__(self, length: int, model: torch.nn.Module) -> None:
        self.model, self.ids = model, list(range(3, 3 + length))
        self.next_id = 3 + length
        self.simulation = oracle.LedgerSimulation(self.ids)
        self.cache: RepairedCache = refresh(model, prefill(model, self.ids), self.ids, range(length))

    def new(self, count: int) -> list[int]:
        """Tokens that never occurred before: a row is then clean only if it read what it should."""
        self.next_id += count
        return list(range(self.next_id - count, self.next_id))

    def edit(self, changes: list[tuple[int, int, list[int]]], how: str) -> None:
        edit = Edits(
            original_ids=tuple(self.ids), changes=[Change(start=a, stop=b, replacement_ids=n) for a, b, n in changes]
        )
        before = self.simulation.missing()
        if how == "replay" and any(i < edit.prefix_length for i in before):
            with pytest.raises(Refused):
                replay(self.model, self.cache, edit)
            return
        self.ids = list(edit.edited_ids)
        self.simulation.edit(changes)
        if how == "replay":
            self.cache = replay(self.model, self.cache, edit)
            self.simulation.refresh(list(range(edit.prefix_length, len(self.ids))))
        else:
            self.cache = shift(self.model, self.cache, edit)

    def refresh(self, chosen: list[int], in_place: bool) -> None:
        positions = sorted({*chosen, *self.simulation.missing()})
        self.cache = refresh(self.model, self.cache, self.ids, positions, in_place=in_place)
        self.simulation.refresh(positions)

    def append(self, count: int) -> None:
        more = self.new(count)
        if self.simulation.missing():
            with pytest.raises(Refused):
                self.model(torch.tensor([more]), cache=self.cache)
            return
        with torch.no_grad():
            self.model(torch.tensor([more]), cache=self.cache)
        self.ids += more
        self.simulation.append(more)

    def crop(self, count: int) -> None:
        self.cache.crop(-count)
        self.ids = self.ids[:-count]
        self.simulation.crop(len(self.ids))

    def check(self) -> None:
        rows = self.simulation.rows
        listed = self.cache.row_states.shape[1]  # rows appended since are not listed yet
        states = [RowState(s).name.lower() for s in self.cache.row_states[0].tolist()]
        assert states == [row.state for row in rows][:listed]
        assert self.cache.edits_missed[0].tolist() == [row.missed for row in rows][:listed]
        assert self.cache.worst_staleness() == max(row.missed for row in rows)
        assert self.cache.is_clean == all(row.state == oracle.VALID for row in rows)
        assert self.cache.edits_missed.dtype == torch.int32
        valid = [i for i, row in enumerate(rows) if row.state == oracle.VALID]
        assert valid == list(range(len(valid)))
        truth = self.simulation.clean()
        assert all(rows[i].content == truth[i] for i in valid), "a valid row is what a prefill computes"
        ours, clean = read_rows(self.cache), read_rows(prefill(self.model, self.ids))
        if valid:
            part = [[[t[:, :, : len(valid)] for t in layer] for layer in which] for which in (ours, clean)]
            assert worst(*part) <= 1e-4


@st.composite
def changes_of(draw: st.DrawFn, length: int) -> list[tuple[int, int, int]]:
    """Spans and numbers of new tokens."""
    cuts = sorted(draw(st.lists(st.integers(0, length), min_size=2, max_size=4)))
    out: list[tuple[int, int, int]] = []
    for start, stop in zip(cuts[::2], cuts[1::2], strict=False):
        stop, count = min(stop, start + 3), draw(st.integers(0, 2))
        if (stop > start or count) and (not out or start > out[-1][1]):
            out.append((start, stop, count))
    left = length + sum(count - (stop - start) for start, stop, count in out)
    return out if out and left > 0 else [(length, length, 1)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_the_ledger_equals_a_simulation(data: st.DataObject) -> None:
    twin = Twin(data.draw(st.integers(2, 10)), _model(2))
    for _ in range(data.draw(st.integers(1, 6))):
        step = data.draw(st.sampled_from(("shift", "shift", "replay", "refresh", "refresh", "append", "crop")))
        length = len(twin.ids)
        if step in ("shift", "replay"):
            spans = data.draw(changes_of(length))
            twin.edit([(a, b, twin.new(count)) for a, b, count in spans], step)
        elif step == "refresh":
            chosen = data.draw(st.lists(st.integers(0, length - 1), unique=True, max_size=length))
            twin.refresh(chosen, data.draw(st.booleans()))
        elif step == "append":
            twin.append(data.draw(st.integers(1, 2)))
        elif length > 1:
            twin.crop(data.draw(st.integers(1, min(2, length - 1))))
        twin.check()
    twin.refresh(list(range(len(twin.ids))), in_place=True)
    twin.check()
    assert twin.cache.is_clean


def test_two_deletions_then_everything_refreshed_is_a_fresh_prefill() -> None:
    model = _model()
    first = cut(IDS, 10, 17)
    once = refresh(model, shift(model, prefill(model, IDS), first), first.edited_ids, [12, 13, 30])
    for second in (cut(list(first.edited_ids), 25, 31), cut(list(first.edited_ids), 4, 6)):
        start, ids = min(10, second.prefix_length), second.edited_ids
        twice = shift(model, once, second)
        clean = read_rows(prefill(model, ids))
        assert worst(read_rows(twice), clean) > 1e-2, "both deletions left something stale"
        done = refresh(model, twice, ids, range(start, len(ids)))
        assert done.is_clean
        assert done.worst_staleness() == 0
        assert worst(read_rows(done), clean) <= 1e-4


def test_rows_carry_what_they_missed() -> None:
    model = _model()
    first = cut(IDS, 10, 17)
    cache = refresh(model, shift(model, prefill(model, IDS), first), first.edited_ids, [12, 13, 30])
    second = cut(list(first.edited_ids), 25, 31)
    twice = shift(model, cache, second)
    # Rows 12 and 13 were refreshed and lie before the second deletion; row 30 was cut away with it.
    assert twice.edits_missed[0].tolist() == [0] * 10 + [1, 1, 0, 0] + [1] * 11 + [2] * 22
    assert twice.row_states[0, 12:14].tolist() == [RowState.REFRESHED] * 2
    partly = refresh(model, twice, second.edited_ids, [10, 11, 40])
    assert partly.row_states[0, :14].tolist() == [RowState.VALID] * 12 + [RowState.REFRESHED] * 2
    assert partly.edits_missed[0, 38:42].tolist() == [2, 2, 0, 2]
    assert partly.row_states[0, 40] == RowState.REFRESHED
    assert partly.worst_staleness() == 2
    third = shift(model, partly, cut(list(second.edited_ids), 0, 3))
    assert third.worst_staleness() == 3
    assert third.counts()["stale"] == len(second.edited_ids) - 3


def test_replay_keeps_what_is_known_of_the_prefix() -> None:
    model = _model()
    first = cut(IDS, 10, 17)
    stale = shift(model, prefill(model, IDS), first)
    second = cut(list(first.edited_ids), 25, 31)
    replayed = replay(model, stale, second)
    assert replayed.row_states[0].tolist() == (
        [RowState.VALID] * 10 + [RowState.STALE] * 15 + [RowState.REFRESHED] * 22
    )
    assert replayed.edits_missed[0].tolist() == [0] * 10 + [1] * 15 + [0] * 22
    by_hand = refresh(model, shift(model, stale, second), second.edited_ids, range(25, 47), executor="interval")
    assert worst(read_rows(replayed), read_rows(by_hand)) <= 1e-5
    early = cut(list(first.edited_ids), 6, 12)
    assert replay(model, stale, early).is_clean
    assert worst(read_rows(replay(model, stale, early)), read_rows(prefill(model, early.edited_ids))) <= 1e-4


def test_sequences_of_a_batch_have_their_own_ledger() -> None:
    model = _model()
    ids = [IDS, IDS[::-1]]
    edits = [cut(row, 10, 17) for row in ids]
    edited = [e.edited_ids for e in edits]
    cache = refresh(model, shift(model, prefill(model, ids), edits[0]), edited, [[10, 11, 30], [10, 20, 21]])
    states, missed = cache.row_states.clone(), cache.edits_missed.clone()
    assert states[0].tolist() != states[1].tolist()
    for change, order in (
        (lambda c: c.batch_repeat_interleave(2), [0, 0, 1, 1]),
        (lambda c: c.batch_select_indices(torch.tensor([1])), [1]),
        (lambda c: c.reorder_cache(torch.tensor([1, 0])), [1, 0]),
    ):
        copied = copy.deepcopy(cache)
        change(copied)
        assert torch.equal(copied.row_states, states[order])
        assert torch.equal(copied.edits_missed, missed[order])
        second = cut(list(edited[0]), 30, 33)
        again = shift(model, copied, second)
        assert torch.equal(again.row_states[:, :30], states[order][:, :30])
        assert torch.equal(again.edits_missed[:, 30:], missed[order][:, 33:] + 1)
    # Rows appended to a batch are valid in those sequences whose rows all are.
    chosen = [list(range(10, 53)), [5, 10, *range(12, 53)]]
    mixed = refresh(model, shift(model, prefill(model, ids), edits[0]), edited, chosen)
    with torch.no_grad():
        model(torch.tensor([[5, 6], [7, 8]]), cache=mixed)
    out = refresh(model, mixed, [[*edited[0], 5, 6], [*edited[1], 7, 8]], [])
    assert out.row_states[0].tolist() == [RowState.VALID] * 55
    assert out.row_states[1].tolist() == [RowState.VALID] * 11 + [RowState.STALE] + [RowState.REFRESHED] * 43


def test_an_edit_leaves_the_repaired_cache_alone() -> None:
    model = _model()
    first = cut(IDS, 10, 17)
    cache = refresh(model, shift(model, prefill(model, IDS), first), first.edited_ids, [12])
    kept, ledger = copy.deepcopy(cache), copy.deepcopy(cache.ledger)
    second = cut(list(first.edited_ids), 11, 13)
    shift(model, cache, second)
    replay(model, cache, second)
    refresh(model, cache, first.edited_ids, [11, 20])
    assert caches_equal(read_rows(cache), read_rows(kept))
    assert torch.equal(cache.row_states, ledger.row_states)
    assert torch.equal(cache.edits_missed, ledger.edits_missed)
