"""Many edits one after another on one cache: what every row missed, and a re-prefill where a limit asks for it."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.repair_core import InputError, LoadedModel, RowState, Tokens, load_model, prefill, repair
from cachemend.repair_core.caches import RepairedCache, clone_rows, read_rows
from cachemend.repair_core.invariants import caches_equal
from cachemend.repair_core.ledger import Ledger
from cachemend.repair_core.repairing import Repair
from cachemend.repair_core.replacement import Replacement
from cachemend.repair_core.staleness import StalenessLimit

from oracles.edits import LedgerSimulation
from support.tiny_checkpoint import save_tiny

QUERY = "Where was the red bicycle?"
LENGTH = 60
IDS = np.random.default_rng(11).integers(5, 400, LENGTH).tolist()
# Starts of ten spans of two tokens: here and there, some before earlier ones, one twice.
STARTS = [30, 10, 44, 10, 3, 25, 50, 7, 18, 35]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"))))


class Session:
    """A cache that is edited and repaired again and again, and what each of its rows was computed from."""

    def __init__(self, loaded: LoadedModel, **options: Any) -> None:
        self.loaded, self.options = loaded, options
        self.ids, self.names = list(IDS), list(range(LENGTH))
        self.simulation = LedgerSimulation(self.names)
        self.cache = prefill(loaded.model, IDS)
        self.done: list[Repair] = []

    def edit(self, start: int, width: int = 2) -> Repair:
        """Replace two tokens at `start` by `width` tokens that never stood there."""
        new = [(token + 1 + len(self.done)) % 400 + 5 for token in (self.ids[start : start + 2] * width)[:width]]
        edit = Replacement(original_ids=self.ids, start=start, stop=start + 2, replacement_ids=new)
        self.names = [
            *self.names[:start],
            *[1000 + 10 * len(self.done) + i for i in range(width)],
            *self.names[start + 2 :],
        ]
        before, kept = self.cache, clone_rows(read_rows(self.cache))
        done = repair(self.loaded.model, self.loaded.tokenizer, edit, QUERY, cache=before, **self.options)
        assert caches_equal(read_rows(before), kept), "the cache passed in is not modified"
        self.ids, self.cache = list(edit.edited_ids), done.cache
        self.simulation.edit([(start, start + 2, self.names[start : start + width])])
        if done.decision.startswith("re-prefill"):
            self.simulation = LedgerSimulation(self.names)
        else:
            self.simulation.refresh(sorted({*done.positions.tolist(), *range(start, start + width)}))
        self.done.append(done)
        return done

    def worst(self) -> int:
        return max(row.missed for row in self.simulation.rows)

    def check(self) -> None:
        rows = self.simulation.rows
        assert [RowState(s).name.lower() for s in self.cache.row_states[0].tolist()] == [row.state for row in rows]
        assert self.cache.edits_missed[0].tolist() == [row.missed for row in rows]
        assert self.cache.worst_staleness() == self.worst()
        counts = self.cache.counts()
        assert sum(counts.values()) == len(self.ids)
        assert counts["missing"] == counts["unknown"] == 0
        clean, ours = read_rows(prefill(self.loaded.model, self.ids)), read_rows(self.cache)
        valid = counts["valid"]
        for a, b in zip(ours, clean, strict=True):
            for x, y in zip(a, b, strict=True):
                assert (x - y)[:, :, :valid].abs().max() <= 1e-4 * y.abs().max()


@pytest.mark.parametrize("policy", ["edit-local", "attention", "two-stage", "edit-local-boundary"])
def test_ten_successive_edits_keep_the_books(loaded: LoadedModel, policy: str) -> None:
    session = Session(loaded, policy=policy, budget=Tokens(4))
    for start in STARTS:
        session.edit(start)
        session.check()
    if policy != "edit-local-boundary":  # which recomputes everything here: there is no blank line
        assert session.cache.worst_staleness() > 3
        assert {d.decision for d in session.done} == {f"{policy}@4"}
        # Refreshing is local: the stale rows are what no repair has reached since the first edit before them.
        assert session.cache.counts()["stale"] == sum(row.missed > 0 for row in session.simulation.rows)
    else:
        assert session.done[-1].decision == policy
        assert session.cache.counts()["stale"] == 1, "only the context's last token, which no policy chooses"


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 20])
def test_the_cache_is_prefilled_right_when_the_limit_says_so(loaded: LoadedModel, limit: int) -> None:
    session = Session(loaded, policy="edit-local", budget=Tokens(4), staleness_limit=limit)
    forced = []
    for start in STARTS:
        # The same edit without a limit says what would be.
        free = Session(loaded, policy="edit-local", budget=Tokens(4))
        free.ids, free.names, free.cache = list(session.ids), list(session.names), session.cache
        free.done = list(session.done)
        would = free.edit(start).cache.worst_staleness()
        done = session.edit(start)
        session.check()
        forced.append(would > limit)
        assert done.cache.worst_staleness() <= limit
        assert done.cache.is_clean == (would > limit)
        assert done.decision == (f"re-prefill (staleness {would} > {limit})" if would > limit else "edit-local@4")
        if done.cache.is_clean:
            assert caches_equal(read_rows(done.cache), read_rows(prefill(loaded.model, session.ids)))
            assert done.positions.tolist() == [i for i in range(LENGTH) if i not in (start, start + 1)]
            assert done.timings["re-prefill"] > 0
    assert forced == {
        0: [True] * 10,
        20: [False] * 10,
    }.get(limit, forced)
    if 0 < limit < 20:
        assert 0 < sum(forced) < 10
    assert session.cache.row_states.shape == (1, LENGTH)


def test_a_limit_of_edits_that_change_lengths(loaded: LoadedModel) -> None:
    session = Session(loaded, policy="edit-local", budget=Tokens(3), staleness_limit=2)
    for start, width in ((20, 3), (10, 1), (5, 4), (12, 2), (30, 1)):
        session.edit(start, width)
        session.check()
    decisions = [done.decision for done in session.done]
    assert decisions[:3] == ["edit-local@3", "edit-local@3", "re-prefill (staleness 3 > 2)"]
    assert decisions[3:] == ["edit-local@3", "edit-local@3"]


def test_an_allocator_has_the_limit_too(loaded: LoadedModel) -> None:
    session = Session(loaded, budget=5, staleness_limit=1)
    assert [session.edit(start).decision for start in (20, 10, 5)] == [
        "sur@5%",
        "re-prefill (staleness 2 > 1)",
        "sur@5%",
    ]
    session.check()


def test_nothing_stale_is_within_any_limit(loaded: LoadedModel) -> None:
    session = Session(loaded, budget=100, staleness_limit=0)
    done = session.edit(20)
    assert done.decision == "sur@100%"
    assert done.cache.is_clean


@settings(max_examples=40)
@given(st.lists(st.integers(0, 9), min_size=8, max_size=8), st.sets(st.integers(0, 7)), st.integers(0, 9))
def test_the_plan_is_judged_as_the_repair_would_be(missed: list[int], chosen: set[int], limit: int) -> None:
    cache = RepairedCache()
    states = torch.tensor([[RowState.STALE if m else RowState.VALID for m in missed]], dtype=torch.uint8)
    cache.ledger = Ledger(row_states=states, edits_missed=torch.tensor([missed], dtype=torch.int32))
    left = max((m for i, m in enumerate(missed) if i not in chosen), default=0)
    found = StalenessLimit(limit).passed_by(cache, np.array(sorted(chosen), dtype=np.int64))
    assert found == (left if left > limit else None)
    assert cache.edits_missed[0].tolist() == missed


@pytest.mark.parametrize("limit", [-1, 1.5, "3", True, None])
def test_bad_limits_are_named(loaded: LoadedModel, limit: Any) -> None:
    with pytest.raises(InputError, match=f"staleness limit {limit!r}") as caught:
        StalenessLimit(limit)
    assert "\n" not in str(caught.value)
