"""Units computed beside relevance change nothing but the time."""

import threading

import numpy as np
import pytest
import torch

from cachemend.repair_core import Deletion, LoadedModel, RepairContext, answer, load_model, prefill, preparing, repair
from cachemend.repair_core.caches import read_rows
from cachemend.repair_core.invariants import caches_equal
from cachemend.repair_core.preparing import prepare_overlapped

from support.tiny_checkpoint import save_tiny

TEXT = "The baker opened the shop before the sun came up. A red bicycle leaned against the wall.\n\nMusic drifted. "


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"))))


@pytest.fixture(scope="module")
def edit(loaded: LoadedModel) -> Deletion:
    ids = loaded.tokenizer(TEXT * 3, add_special_tokens=False)["input_ids"]
    return Deletion(prefix_ids=ids[:10], deleted_ids=ids[10:19], suffix_ids=ids[19:])


@pytest.mark.parametrize("allocator", ["sur", "max-relevance-window", "dense-tokens", "random-units"])
def test_support_cache_and_logits_are_bit_identical(loaded: LoadedModel, edit: Deletion, allocator: str) -> None:
    model, cache = loaded.model, prefill(loaded.model, edit.original_ids)
    serial, beside = (
        repair(
            model, loaded.tokenizer, edit, "Where was the bicycle?", 20, cache=cache, allocator=allocator, overlap=how
        )
        for how in (False, True)
    )
    assert np.array_equal(serial.positions, beside.positions)
    assert serial.intervals == beside.intervals
    assert caches_equal(read_rows(serial.cache), read_rows(beside.cache))
    assert torch.equal(serial.cache.row_states, beside.cache.row_states)
    replies = [answer(model, done.cache, [5, 6, 7], max_new_tokens=4) for done in (serial, beside)]
    assert np.array_equal(replies[0].first, replies[1].first)
    assert replies[0].ids == replies[1].ids
    assert serial.timings.keys() == beside.timings.keys()


def test_units_are_made_on_another_thread_while_relevance_is_made(
    loaded: LoadedModel, edit: Deletion, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = RepairContext(loaded.model, loaded.tokenizer, edit, "bicycle")
    expected = RepairContext(loaded.model, loaded.tokenizer, edit, "bicycle").segmentation
    started, threads = threading.Event(), []
    real = preparing.semantic_units

    def units(*arguments):  # type: ignore[no-untyped-def]
        threads.append(threading.current_thread())
        started.set()
        return real(*arguments)

    def relevance(*_):  # type: ignore[no-untyped-def]
        assert started.wait(10), "units begin while relevance is under way"
        return np.zeros(edit.suffix_length)

    monkeypatch.setattr(preparing, "semantic_units", units)
    monkeypatch.setattr("cachemend.repair_core.context.embedding_relevance", relevance)
    prepare_overlapped(context)
    assert threads[0] is not threading.current_thread()
    assert context.segmentation == expected
    assert context.timings.keys() >= {"units", "embeddings"}


def test_a_failure_of_the_worker_is_raised(
    loaded: LoadedModel, edit: Deletion, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(preparing, "semantic_units", broken)
    with pytest.raises(ZeroDivisionError):
        repair(loaded.model, loaded.tokenizer, edit, "bicycle", 5, overlap=True)
    monkeypatch.undo()
    repair(loaded.model, loaded.tokenizer, edit, "bicycle", 5, overlap=True)
