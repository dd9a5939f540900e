"""Rotary frequencies that depend on the context's length stay those of the whole context."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from cachemend.repair_core import Deletion, Refused, Replacement, answer, prefill, refresh, replay
from cachemend.repair_core.attention_reading import read_attention
from cachemend.repair_core.caches import Rows, read_rows
from cachemend.repair_core.executors import REPAIRING
from cachemend.repair_core.pinning import check_same_frequencies, pinned_frequencies
from cachemend.repair_core.signals.dirty_replay import deleted_mass
from cachemend.repair_core.signals.hidden_norms import hidden_norms
from cachemend.repair_core.signals.query_attention import query_attention

from support.capability_matrix import difference
from support.tiny_models import BY_NAME, SWITCH, VOCABULARY, build

IDS = np.random.default_rng(0).integers(3, VOCABULARY, 2 * SWITCH).tolist()
OLD = [*IDS[:5], 7, *IDS[6:]]
names = pytest.mark.parametrize("name", ["phi3-longrope", "llama-dynamic"])


@names
@pytest.mark.parametrize("executor", REPAIRING)
def test_rows_below_the_switch_length_are_rotated_like_those_above(name: str, executor: str) -> None:
    model = build(BY_NAME[name])
    stale = prefill(model, OLD)
    # The first rows of a refresh are the clean ones: what they read is clean.
    out = read_rows(refresh(model, stale, IDS, range(5, SWITCH - 10), executor=executor))
    clean = read_rows(prefill(model, IDS))
    part = [[Rows(k[:, :, : SWITCH - 10], v[:, :, : SWITCH - 10]) for k, v in rows] for rows in (out, clean)]
    assert difference(*part) <= 1e-4


@names
def test_the_length_of_an_earlier_context_is_forgotten(name: str) -> None:
    used, fresh = build(BY_NAME[name]), build(BY_NAME[name])
    prefill(used, IDS)
    part = IDS[: SWITCH + 5]
    assert difference(read_rows(prefill(used, part)), read_rows(prefill(fresh, part))) == 0


@names
def test_the_switch_length_really_matters(name: str) -> None:
    short, long = (read_rows(prefill(build(BY_NAME[name]), ids)) for ids in (IDS[: SWITCH - 5], IDS))
    assert not torch.allclose(short[0].keys, long[0].keys[:, :, : SWITCH - 5], atol=1e-2)


@names
def test_replay_keeps_rows_only_under_the_same_rotation(name: str) -> None:
    model = build(BY_NAME[name])
    across = Deletion(prefix_ids=IDS[:10], deleted_ids=IDS[10:50], suffix_ids=IDS[50:])
    with pytest.raises(Refused, match=r"rotates a context of 80 tokens otherwise than one of 40"):
        replay(model, prefill(model, across.original_ids), across)
    within = Deletion(prefix_ids=IDS[:10], deleted_ids=IDS[10:15], suffix_ids=IDS[15:35])
    out = read_rows(replay(model, prefill(model, within.original_ids), within))
    assert difference(out, read_rows(prefill(model, within.edited_ids))) <= 1e-5


PART = IDS[: SWITCH + 5]
QUERY = IDS[:7]


def _replayed(model: nn.Module) -> np.ndarray:
    edit = Replacement(original_ids=PART, start=5, stop=6, replacement_ids=[7])
    return np.asarray(read_rows(replay(model, prefill(model, PART), edit))[-1].keys)


def _read(model: nn.Module, see: list[np.ndarray]) -> np.ndarray:
    cache = prefill(model, PART)
    return read_attention(
        model, cache, torch.tensor(PART), np.arange(3, 9), lambda reading: see.append(np.asarray(reading.query))
    )


def _queries(model: nn.Module) -> np.ndarray:
    seen: list[np.ndarray] = []
    # What is read anew at a row is what stands there.
    assert np.max(_read(model, seen)) <= 1e-4
    return np.stack(seen)


WORK: dict[str, Callable[[nn.Module], np.ndarray]] = {
    "answer": lambda model: answer(model, prefill(model, PART), QUERY, 4, continuations=[[5, 6]]).logits,
    "query-attention": lambda model: query_attention(model, prefill(model, PART), QUERY).norm,
    "dirty-replay": lambda model: deleted_mass(
        model, prefill(model, PART), Deletion(prefix_ids=PART[:9], deleted_ids=PART[9:12], suffix_ids=PART[12:])
    ),
    "hidden-norms": lambda model: hidden_norms(model, PART),
    "replay": _replayed,
    "reading": _queries,
}


def _stock_forward(model: nn.Module, length: int) -> None:
    with torch.no_grad():
        model(input_ids=torch.tensor([IDS[:length]]))


@names
@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("between", [len(IDS), 3])
def test_no_work_on_a_context_depends_on_what_ran_before(name: str, work: str, between: int) -> None:
    model = build(BY_NAME[name])
    first = WORK[work](model)
    # Another context, by this package and by the model alone, longer or below the switch length.
    prefill(model, IDS[:between])
    assert np.array_equal(first, WORK[work](model))
    _stock_forward(model, between)
    assert np.array_equal(first, WORK[work](model))


@names
def test_the_query_is_rotated_like_the_context_before_it(name: str) -> None:
    # An answer is what one forward of context and query gives with the frequencies of the context alone.
    model = build(BY_NAME[name])
    context = IDS[: SWITCH - 3]
    said = answer(model, prefill(model, context), QUERY, 1).logits
    with torch.no_grad(), pinned_frequencies(model, len(context)):
        whole = model(input_ids=torch.tensor([[*context, *QUERY]])).logits[0, -1]
    np.testing.assert_allclose(said, whole.numpy(), atol=1e-4)


@names
def test_a_model_is_left_with_the_frequencies_it_had(name: str) -> None:
    def state() -> list[torch.Tensor]:
        return [buffer for path, buffer in model.named_buffers() if "inv_freq" in path]

    model = build(BY_NAME[name])
    for length in (SWITCH // 2, SWITCH + 30):
        _stock_forward(model, length)
        before, numbers = state(), [buffer.clone() for buffer in state()]
        prefill(model, IDS)
        answer(model, prefill(model, PART), QUERY, 2)
        check_same_frequencies(model, 10, 11)
        assert all(a is b for a, b in zip(state(), before, strict=True)), "a captured graph reads their addresses"
        assert all(torch.equal(a, b) for a, b in zip(state(), numbers, strict=True))
        alone = build(BY_NAME[name])
        for each in (alone, model):
            _stock_forward(each, length)
        assert torch.equal(state()[0], next(b for path, b in alone.named_buffers() if "inv_freq" in path))
