"""Rows that an earlier edit inserted and nobody computed: no signal reads them, and no repair pays for one."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

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
    choose,
    load_model,
    prefill,
    refresh,
    repair,
    repair_batch,
    shift,
)
from cachemend.repair_core import context as context_module
from cachemend.repair_core.allocators import base, names
from cachemend.repair_core.allocators.base import Signal
from cachemend.repair_core.caches import RepairedCache
from cachemend.repair_core.edits import Edit

from support.tiny_checkpoint import save_tiny

IDS = np.random.default_rng(3).integers(3, 200, 60).tolist()
QUERY = (5, 6, 7)
FIRST = Edits(original_ids=tuple(IDS), changes=[Change(start=40, stop=42, replacement_ids=IDS[:6])])
NOW = list(FIRST.edited_ids)
CUT = Deletion(prefix_ids=NOW[:10], deleted_ids=NOW[10:14], suffix_ids=NOW[14:])
SAME_LENGTH = Replacement(original_ids=tuple(NOW), start=10, stop=12, replacement_ids=[7, 8])
INSERTED = Edits(original_ids=tuple(NOW), changes=[Change(start=10, stop=12, replacement_ids=[7, 8, 9])])
BEHIND = Deletion(prefix_ids=NOW[:50], deleted_ids=NOW[50:53], suffix_ids=NOW[53:])
EDITS = pytest.mark.parametrize("edit", [CUT, SAME_LENGTH, INSERTED, BEHIND], ids=["cut", "same", "more", "behind"])
NO_CACHE = {
    Signal.TEXT,
    Signal.UNITS,
    Signal.EMBEDDINGS,
    Signal.SHALLOW_QUERY,
    Signal.AUXILIARY_MODEL,
}
READING = ("prophetkv", "infoflow", "cache-craft", "cacheblend", "cachetune", "clean-state-oracle")
REFUSED = r"would read rows of inserted tokens that were never computed \(6, the first at position \d+\); refresh them"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"))))


@pytest.fixture(scope="module")
def missing(loaded: LoadedModel) -> RepairedCache:
    """The cache after an edit whose six inserted tokens were not computed."""
    return shift(loaded.model, prefill(loaded.model, IDS), FIRST)


def _never(*_: Any, **__: Any) -> Any:
    raise AssertionError("a signal was paid for")


@EDITS
@pytest.mark.parametrize("name", READING)
def test_no_allocator_reads_what_was_never_computed(
    loaded: LoadedModel, missing: RepairedCache, edit: Edit, name: str
) -> None:
    model, tokenizer = loaded.model, loaded.tokenizer
    context = RepairContext(model, tokenizer, edit, "", dirty=missing, query_ids=QUERY)
    with pytest.raises(Refused, match=REFUSED) as caught:
        allocate(name, context, Tokens(5))
    assert "\n" not in str(caught.value)
    computed = refresh(model, missing, NOW, FIRST.inserted_positions)
    assert (
        allocate(name, RepairContext(model, tokenizer, edit, "", dirty=computed, query_ids=QUERY), Tokens(5)).size == 5
    )


def test_the_allocators_of_these_tests_are_all_that_read_a_cache() -> None:
    # A3 looks at a shallow prefill of its own.
    reads = [name for name in names() if set(base.get_allocator(name).signals) - NO_CACHE]
    assert sorted(reads) == sorted((*READING, "a3"))


@pytest.mark.parametrize("name", ["cacheblend", "attention", "two-stage"])
@pytest.mark.parametrize("edit", [CUT, SAME_LENGTH, INSERTED], ids=["cut", "same", "more"])
def test_no_policy_reads_what_was_never_computed(
    loaded: LoadedModel, missing: RepairedCache, edit: Edit, name: str
) -> None:
    with pytest.raises(Refused, match=REFUSED):
        choose(name, StaleContext(loaded.model, loaded.tokenizer, edit, "", dirty=missing, query_ids=QUERY), 5)


@EDITS
@pytest.mark.parametrize(
    "given", [{"allocator": name} for name in names()] + [{"policy": "cacheblend"}, {"policy": "sur"}]
)
def test_a_repair_refuses_before_it_pays_for_a_signal(
    loaded: LoadedModel, missing: RepairedCache, edit: Edit, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "prefill",
        "refresh",
        "embedding_relevance",
        "semantic_units",
        "deleted_mass",
        "query_attention",
        "shallow_prefill",
        "low_pass_strength",
        "hidden_norms",
    ):
        monkeypatch.setattr(context_module, name, _never)
    with pytest.raises(InputError, match=f"^this repair {REFUSED}"):
        repair(loaded.model, loaded.tokenizer, edit, "Which route?", Tokens(5), cache=missing, **given)


def test_a_repair_that_needs_no_such_row_is_done(loaded: LoadedModel, missing: RepairedCache) -> None:
    model, tokenizer = loaded.model, loaded.tokenizer
    # All retained rows, the missing ones among them, are recomputed.
    everything = repair(model, tokenizer, CUT, "Which route?", 100, cache=missing)
    assert everything.cache.is_clean
    again = repair(model, tokenizer, CUT, "Which route?", cache=missing, policy="re-prefill")
    assert again.cache.is_clean
    # The second edit deletes them.
    gone = Deletion(prefix_ids=NOW[:38], deleted_ids=NOW[38:47], suffix_ids=NOW[47:])
    assert repair(model, tokenizer, gone, "Which route?", Tokens(5), cache=missing).positions.size == 5
    with pytest.raises(Refused, match=f"^this repair {REFUSED}"):
        repair(model, tokenizer, BEHIND, "Which route?", 100, cache=missing)


def _forgotten(model: nn.Module, sequences: int) -> RepairedCache:
    """A batch whose last sequence alone lacks the rows of its inserted tokens."""
    cache = shift(model, prefill(model, [IDS] * sequences), FIRST)
    known = refresh(model, cache, [NOW] * sequences, FIRST.inserted_positions)
    known.ledger.row_states[-1] = cache.ledger.row_states[-1]
    return known


@pytest.mark.parametrize("name", names())
def test_one_sequence_of_a_batch_is_enough(loaded: LoadedModel, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = loaded.model, loaded.tokenizer
    cache = _forgotten(model, 2)

    def run(budget: float | Tokens, allocator: str) -> Any:
        return repair_batch(model, tokenizer, [CUT] * 2, ["Which?"] * 2, budget, cache=cache, allocator=allocator)

    whole = run(100, name)
    assert whole[0].cache.is_clean
    monkeypatch.setattr(context_module.StaleContext, "_timed", _never)
    with pytest.raises(Refused, match=f"^this repair {REFUSED}"):
        run(Tokens(5), name)


def test_a_sequence_of_a_batch_is_chosen_as_if_alone(loaded: LoadedModel) -> None:
    model, tokenizer = loaded.model, loaded.tokenizer
    cache = refresh(model, shift(model, prefill(model, [IDS] * 2), FIRST), [NOW] * 2, FIRST.inserted_positions)
    alone = refresh(model, shift(model, prefill(model, IDS), FIRST), NOW, FIRST.inserted_positions)
    for name in READING:
        both = repair_batch(model, tokenizer, [CUT] * 2, ["Which?"] * 2, 20, cache=cache, allocator=name)
        one = repair(model, tokenizer, CUT, "Which?", 20, cache=alone, allocator=name)
        assert all(np.array_equal(each.positions, one.positions) for each in both), name
        assert torch.equal(both[1].cache.row_states[1], one.cache.row_states[0])
