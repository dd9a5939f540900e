"""Answers from rows that differ equal answers from whole caches."""

import sys

import numpy as np
import pytest
import torch

from cachemend.repair_core import Deletion, InputError, answer, prefill, refresh, shift
from cachemend.repair_core import shared_rows as shared_rows_module
from cachemend.repair_core.answering import answer_deltas
from cachemend.repair_core.caches import read_rows
from cachemend.repair_core.deltas import delta_of

from support.tiny_models import BY_NAME, build

EDIT = Deletion(prefix_ids=range(5, 25), deleted_ids=range(30, 36), suffix_ids=range(40, 100))
QUERY = (7, 9, 11, 13, 15)
SCORED = ((3, 4, 5), (8,))
SUPPORTS = ((), (20,), (25, 26, 40), (79,), (20, 50, 60), tuple(range(20, 80)))
# Full, sliding, sinks, soft-capped, chunked beside no positions, latent.
FAMILIES = ("llama", "mistral", "gpt-oss", "gemma2", "llama4", "deepseek-v3")


@pytest.mark.parametrize("tile", [None, 3000])
@pytest.mark.parametrize("name", FAMILIES)
def test_equal_answers_from_whole_caches(name: str, tile: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if tile is not None:
        monkeypatch.setattr(shared_rows_module, "TILE", tile)
    model = build(BY_NAME[name])
    shifted = shift(model, prefill(model, EDIT.original_ids), EDIT)
    base = read_rows(shifted)
    before = [(keys.clone(), values.clone()) for keys, values in base]
    caches = [refresh(model, shifted, EDIT.edited_ids, list(support)) for support in SUPPORTS]
    deltas = [delta_of(read_rows(c), np.array(s, dtype=np.int64)) for c, s in zip(caches, SUPPORTS, strict=True)]
    found = answer_deltas(model, base, deltas, QUERY, 12, continuations=SCORED)
    for cache, said in zip(caches, found, strict=True):
        alone = answer(model, cache, QUERY, 12, continuations=SCORED)
        assert said.ids == alone.ids
        assert np.abs(said.first - alone.first).max() < 1e-5
        assert said.logprobs == pytest.approx(alone.logprobs, abs=1e-4)
    assert len({said.logprobs for said in found}) > 3
    assert all(torch.equal(k, a) and torch.equal(v, b) for (k, v), (a, b) in zip(base, before, strict=True))


def test_little_memory_makes_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(BY_NAME["llama"])
    base = read_rows(prefill(model, EDIT.edited_ids))
    deltas = [delta_of(base, np.arange(n)) for n in (4, 0, 9)]
    whole = answer_deltas(model, base, deltas, QUERY, 6)
    monkeypatch.setattr(sys.modules["cachemend.repair_core.answering"], "batch_bytes", lambda device: 1)
    assert [said.ids for said in answer_deltas(model, base, deltas, QUERY, 6)] == [said.ids for said in whole]


def test_an_empty_continuation_is_named() -> None:
    model = build(BY_NAME["llama"])
    base = read_rows(prefill(model, EDIT.edited_ids))
    with pytest.raises(InputError, match="continuation is empty"):
        answer_deltas(model, base, [delta_of(base, np.arange(1))], QUERY, 2, continuations=[()])
