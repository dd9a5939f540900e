"""Effects of single clean rows, against a transplant into a whole copy of the cache for every position."""

import numpy as np
import pytest
import torch
from torch import nn

from cachemend.repair_core import InputError, Replacement, StaleContext, prefill, refresh, shift
from cachemend.repair_core import transplant as transplant_module
from cachemend.repair_core.caches import read_rows
from cachemend.repair_core.intervals import Interval
from cachemend.repair_core.policies import Truth, diagnose
from cachemend.repair_core.transplant import causal_effects, set_effects, transplant

from oracles import edit_policies as oracle
from support.tiny_models import BY_NAME, VOCABULARY, build

IDS = np.random.default_rng(6).integers(3, VOCABULARY, 40).tolist()
IN_PLACE = Replacement(original_ids=IDS, start=10, stop=13, replacement_ids=[7, 8, 9])
LONGER = Replacement(original_ids=IDS, start=10, stop=13, replacement_ids=[7, 8, 9, 10])
QUERY, OLD, NEW = (5, 6, 7), (20, 21), (30, 31, 32)


def _both(model: nn.Module, edit: Replacement = IN_PLACE) -> tuple[StaleContext, Truth]:
    context = StaleContext(model, None, edit, "", query_ids=QUERY, case_id="c")  # type: ignore[arg-type]
    clean = prefill(model, edit.edited_ids)
    return context, Truth(clean=clean, query_ids=QUERY, old_ids=OLD, new_ids=NEW, carrier=Interval(20, 24))


def _brute_force(model: nn.Module, edit: Replacement, truth: Truth, positions: list[int]) -> np.ndarray:
    base = refresh(model, shift(model, prefill(model, IDS), edit), edit.edited_ids, range(*edit.span))
    rows, clean = ([(r.keys, r.values) for r in read_rows(cache)] for cache in (base, truth.clean))
    return np.array(oracle.causal_effects(model, rows, clean, positions, QUERY, OLD, NEW))


# Full, sliding with soft-caps, latent.
@pytest.mark.parametrize("name", ["llama", "gemma2", "deepseek-v3"])
def test_effects_equal_exhaustive_transplants(name: str) -> None:
    model = build(BY_NAME[name])
    context, truth = _both(model)
    pool = IN_PLACE.pool.tolist()
    expected = _brute_force(model, IN_PLACE, truth, pool)
    ours = causal_effects(context, truth, pool)
    assert ours.dtype == np.float64
    np.testing.assert_allclose(ours, expected, atol=1e-4)
    assert np.abs(expected).max() > 1e-2
    for k in (1, 5, 12):
        kth = np.sort(expected)[::-1]
        if kth[k - 1] - kth[k] > 2e-4:
            chosen = diagnose("causal-oracle", context, truth, k).positions.tolist()
            assert chosen == sorted(pool[i] for i in np.argsort(-expected)[:k])


def test_effects_after_a_longer_replacement() -> None:
    model = build(BY_NAME["llama"])
    context, truth = _both(model, LONGER)
    some = LONGER.pool.tolist()[::5]
    np.testing.assert_allclose(
        causal_effects(context, truth, some), _brute_force(model, LONGER, truth, some), atol=1e-4
    )


def test_what_is_measured_once_is_kept_and_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(BY_NAME["llama"])
    context, truth = _both(model)
    whole = causal_effects(context, truth, IN_PLACE.pool)
    known = len(truth.margins)
    assert known == IN_PLACE.pool.size + 1
    monkeypatch.setattr(transplant_module, "answer_deltas", None)
    assert causal_effects(context, truth, IN_PLACE.pool[::-1]).tolist() == whole[::-1].tolist()
    monkeypatch.undo()
    monkeypatch.setattr(transplant_module, "TOGETHER", 3)
    _, fresh = _both(model)
    np.testing.assert_allclose(causal_effects(context, fresh, IN_PLACE.pool), whole, atol=1e-5)


def test_everything_clean_has_the_margin_of_the_clean_cache() -> None:
    model = build(BY_NAME["llama"])
    context, truth = _both(model)
    everything = set_effects(context, truth, [range(10, 40)])[0] + truth.margins[()]
    clean = [(r.keys, r.values) for r in read_rows(truth.clean)]
    assert everything == pytest.approx(oracle.margin(model, clean, QUERY, OLD, NEW), abs=1e-4)


def test_a_screen_keeps_the_best_blocks() -> None:
    model = build(BY_NAME["llama"])
    ids = np.random.default_rng(8).integers(3, VOCABULARY, 150).tolist()
    edit = Replacement(original_ids=ids, start=10, stop=13, replacement_ids=[7, 8, 9])
    context, truth = _both(model, edit)
    chosen = diagnose("causal-oracle-screened", context, truth, 4).positions
    blocks = [edit.pool[at : at + 16] for at in range(0, edit.pool.size, 16)]
    assert len(blocks) == 9
    effects = set_effects(context, truth, blocks)
    passed = np.concatenate([blocks[i] for i in np.argsort(-effects)[:2]])
    assert len(truth.margins) == 1 + 9 + 32, "only what passed is tried position by position"
    assert set(chosen) <= set(passed)
    single = causal_effects(context, truth, passed)
    assert set(chosen) == set(passed[np.argsort(-single)[:4]])
    # Where every block passes, it is the oracle.
    every = diagnose("causal-oracle-screened", context, truth, 40).positions
    assert every.tolist() == diagnose("causal-oracle", context, truth, 40).positions.tolist()


def test_transplanted_rows_are_those_of_the_clean_cache() -> None:
    model = build(BY_NAME["llama"])
    _, truth = _both(model)
    clean = read_rows(truth.clean)
    delta = transplant(clean, [3, 20])
    for ours, rows in zip(delta.rows, clean, strict=True):
        assert all(torch.equal(x, y[:, :, [3, 20]]) for x, y in zip(ours, rows, strict=True))
    with pytest.raises(InputError, match="sorted and unique"):
        transplant(clean, [20, 3])


def test_bad_truths_are_named() -> None:
    model = build(BY_NAME["llama"])
    context, truth = _both(model)
    good = {"clean": truth.clean, "query_ids": QUERY, "old_ids": OLD, "new_ids": NEW, "carrier": (3, 5)}
    for change, line in (
        ({"query_ids": ()}, "query_ids is empty"),
        ({"new_ids": ()}, "new_ids is empty"),
        ({"carrier": (5, 5)}, r"carrier 5\.\.5 is no span"),
    ):
        with pytest.raises(InputError, match=line):
            Truth(**{**good, **change})
    with pytest.raises(InputError, match=r"carrier 3\.\.41 ends behind the context; it holds 40 tokens"):
        diagnose("carrier-window", context, Truth(**{**good, "carrier": (3, 41)}), 4)
