import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cachemend.repair_core import (
    Deletion,
    InputError,
    StaleContext,
    answer,
    answer_batch,
    prefill,
    refresh,
    replay,
    shift,
)
from cachemend.repair_core.answering import answer_deltas
from cachemend.repair_core.caches import clone_rows, read_rows
from cachemend.repair_core.diagnostics import normalized_recovery, total_variation
from cachemend.repair_core.invariants import caches_equal

from oracles import stats as oracle
from support.tiny_models import BY_NAME, VOCABULARY, build

IDS = np.random.default_rng(0).integers(3, VOCABULARY, 60).tolist()
DELETION = Deletion(prefix_ids=IDS[:15], deleted_ids=IDS[15:22], suffix_ids=IDS[22:])
QUERY, GOLD = [7, 8, 9], [11, 12, 13, 14]


@pytest.fixture(scope="module", params=["llama", "gemma3", "qwen3-moe"])
def model(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    return build(BY_NAME[request.param])


def test_a_batch_answers_like_each_cache_alone(model) -> None:  # type: ignore[no-untyped-def]
    dirty = prefill(model, DELETION.original_ids)
    shifted = shift(model, dirty, DELETION)
    arms = [refresh(model, shifted, DELETION.edited_ids, range(15, stop)) for stop in (16, 30, 53)]
    caches = [shifted, *arms, prefill(model, DELETION.edited_ids)]
    before = [clone_rows(read_rows(cache)) for cache in caches]
    together = answer_batch(model, caches, QUERY, 20, continuations=[GOLD, GOLD[::-1]])
    for cache, kept, said in zip(caches, before, together, strict=True):
        alone = answer(model, cache, QUERY, 20, continuations=[GOLD, GOLD[::-1]])
        assert said.ids == alone.ids
        assert said.logprobs == pytest.approx(alone.logprobs, abs=1e-4)
        assert total_variation(said.first, alone.first) <= 1e-5
        assert said.decode_seconds is None
        assert alone.decode_seconds is not None
        assert caches_equal(read_rows(cache), kept), "answering leaves the cache alone"
    # The arms really differ, so equality above is not the equality of one answer.
    assert len({said.ids for said in together}) > 1


def test_answers_match_generate(model) -> None:  # type: ignore[no-untyped-def]
    prompt = torch.tensor([[*DELETION.edited_ids, *QUERY]])
    generated = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=12, do_sample=False, eos_token_id=None
    )
    said = answer(model, prefill(model, DELETION.edited_ids), QUERY, 12)
    assert list(said.ids) == generated[0, prompt.shape[1] :].tolist()


def test_memory_limits_split_the_batch(model, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    import sys

    caches = [prefill(model, IDS[i : i + 20]) for i in range(5)]
    whole = answer_batch(model, caches, QUERY, 8)
    monkeypatch.setattr(sys.modules["cachemend.repair_core.answering"], "batch_bytes", lambda device: 1)
    split = answer_batch(model, caches, QUERY, 8)
    assert [a.ids for a in split] == [a.ids for a in whole]
    assert all(a.decode_seconds is not None for a in split)


def test_stop_ids_end_an_answer(model) -> None:  # type: ignore[no-untyped-def]
    cache = prefill(model, IDS)
    free = answer(model, cache, QUERY, 12).ids
    stop = free[4]
    assert answer(model, cache, QUERY, 12, stop_ids=[stop]).ids == free[: free.index(stop) + 1]


def test_bad_input_is_named(model) -> None:  # type: ignore[no-untyped-def]
    caches = [prefill(model, IDS), prefill(model, IDS[:-1])]
    with pytest.raises(InputError, match="equal lengths"):
        answer_batch(model, caches, QUERY)
    with pytest.raises(InputError, match="query_ids is empty"):
        answer(model, caches[0], [])


def test_unknown_token_ids_are_named_before_any_work(model, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    cache, edit = prefill(model, IDS), Deletion(prefix_ids=IDS[:5], deleted_ids=IDS[5:6], suffix_ids=[7, 99_999])
    base = read_rows(cache)
    short = prefill(model, IDS[:8])
    refresh(model, cache, IDS, [3])

    def no_work(*_: object, **__: object) -> None:
        raise AssertionError("the model ran")

    monkeypatch.setattr(model.get_input_embeddings(), "forward", no_work)
    for unknown in (VOCABULARY, 99_999, -1):
        bad = [7, unknown, 8]
        attempts = [
            lambda bad=bad: prefill(model, bad),
            lambda bad=bad: prefill(model, [[7, 8, 9], bad]),
            lambda bad=bad: prefill(model, torch.tensor(bad)),
            lambda bad=bad: refresh(model, cache, [*IDS[:-3], *bad], [3]),
            lambda bad=bad: answer(model, cache, bad),
            lambda bad=bad: answer(model, cache, torch.tensor(bad)),  # type: ignore[arg-type]
            lambda bad=bad: answer(model, cache, QUERY, continuations=[GOLD, bad]),
            lambda bad=bad: answer_deltas(model, base, [], bad),
            lambda bad=bad: StaleContext(model, None, DELETION, "", query_ids=bad).query_ids,  # type: ignore[arg-type]
        ]
        message = f"token id {unknown} is outside the model's vocabulary of {VOCABULARY} tokens; give ids from 0 to"
        for attempt in attempts:
            with pytest.raises(InputError, match=message) as caught:
                attempt()
            assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="token id 99999 is outside"):
        replay(model, short, edit)
    for bad in ([2**70], ["a"], [[1], [1, 2]]):
        with pytest.raises(InputError, match="token ids must be whole numbers"):
            prefill(model, bad)  # type: ignore[arg-type]


distributions = st.lists(st.floats(0.01, 1), min_size=4, max_size=4).map(lambda x: np.array(x) / sum(x))


@given(distributions, distributions, distributions)
def test_distances_equal_the_oracle(p: np.ndarray, q: np.ndarray, dirty: np.ndarray) -> None:
    assert total_variation(p, q) == pytest.approx(oracle.tv(p, q), abs=1e-12)
    expected = oracle.nr_tv(p, q, dirty)
    ours = normalized_recovery(p, q, dirty)
    assert (ours is None) == (expected is None)
    if expected is not None:
        assert ours == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_recovery_is_undefined_where_dirty_is_clean() -> None:
    p = np.array([0.5, 0.5])
    assert normalized_recovery(np.array([0.1, 0.9]), p, p) is None
    # Unclipped: an arm farther away than Dirty is negative. TV .4 against .1 gives 1 - 4.
    assert normalized_recovery(np.array([0.1, 0.9]), p, np.array([0.4, 0.6])) == pytest.approx(-3)
