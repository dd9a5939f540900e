"""Spot checks: who is sampled, and that a fault planted in a repaired cache shows."""

import hashlib
import math
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.repair_core import Deletion, InputError, Refused, prefill, refresh, shift
from cachemend.repair_core.caches import clone_rows, plain_cache, read_rows
from cachemend.repair_core.edits import Change, Edits
from cachemend.repair_core.invariants import caches_equal
from cachemend.repair_core.spot_checking import sampled, spot_check

from support.tiny_models import BY_NAME, VOCABULARY, build

IDS = np.random.default_rng(3).integers(3, VOCABULARY, 40).tolist()
QUERY = [5, 17, 9]


@cache
def _model() -> torch.nn.Module:
    return build(BY_NAME["llama"])


@given(st.text(max_size=20), st.integers(-5, 10**9))
def test_the_ends_take_none_and_all(case_id: str, seed: int) -> None:
    assert not sampled(case_id, 0, seed)
    assert sampled(case_id, 1, seed)


@settings(max_examples=30)
@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 99))
def test_a_larger_fraction_keeps_who_was_sampled(a: float, b: float, seed: int) -> None:
    small, large = sorted((a, b))
    cases = [f"case-{i}" for i in range(60)]
    assert {c for c in cases if sampled(c, small, seed)} <= {c for c in cases if sampled(c, large, seed)}


def test_the_share_is_the_fraction_and_the_seed_decides_who() -> None:
    cases = [f"case-{i}" for i in range(4000)]
    first, second = ({c for c in cases if sampled(c, 0.25, seed)} for seed in (1, 2))
    for taken in (first, second):
        assert abs(len(taken) - 1000) < 4 * math.sqrt(4000 * 0.25 * 0.75)
    # Independent draws share a quarter of a quarter.
    assert abs(len(first & second) - 250) < 4 * math.sqrt(250)


def test_the_draw_is_sha256_of_seed_and_case_id() -> None:
    for case_id in ("a", "b", "ü|3", ""):
        number = int(hashlib.sha256(f"7|{case_id}".encode()).hexdigest()[:16], 16) / 2**64
        assert sampled(case_id, number + 1e-9, 7)
        assert not sampled(case_id, number - 1e-9, 7)


@pytest.mark.parametrize("fraction", [-0.01, 1.01, math.nan, math.inf])
def test_a_fraction_outside_0_to_1_is_named(fraction: float) -> None:
    with pytest.raises(InputError, match=f"fraction {fraction} is outside 0 to 1"):
        sampled("a", fraction, 0)


def test_a_clean_cache_is_at_distance_zero_and_margins_are_logit_differences() -> None:
    model = _model()
    found = spot_check(model, prefill(model, IDS), IDS, QUERY)
    assert found.tv == 0
    assert found.margin_clean == found.margin_repaired
    with torch.no_grad():
        logits = model(torch.tensor([[*IDS, *QUERY]])).logits[0, -1].double()
    top = logits.topk(2).values
    assert found.margin_clean == pytest.approx(float(top[0] - top[1]), abs=1e-4)


def test_a_repair_is_compared_with_the_prefill_of_the_edited_context() -> None:
    model = _model()
    edit = Edits(original_ids=tuple(IDS), changes=[Change(start=10, stop=12, replacement_ids=[20, 21])])
    dirty = prefill(model, IDS)
    computed = refresh(model, shift(model, dirty, edit), edit.edited_ids, [10, 11])
    whole = refresh(model, shift(model, dirty, edit), edit.edited_ids, range(10, 40))
    partial, full = (spot_check(model, c, edit.edited_ids, QUERY) for c in (computed, whole))
    with torch.no_grad():
        clean = model(torch.tensor([[*edit.edited_ids, *QUERY]])).logits[0, -1].double()
        cached = model(torch.tensor([QUERY]), cache=plain_cache(clone_rows(read_rows(computed))))
    ours = cached.logits[0, -1].double()
    assert full.tv < 1e-4 < partial.tv
    assert partial.tv == pytest.approx(float((clean.softmax(-1) - ours.softmax(-1)).abs().sum() / 2), abs=1e-4)
    said = int(clean.argmax())
    rival = max(float(ours[i]) for i in range(len(ours)) if i != said)
    assert partial.margin_repaired == pytest.approx(float(ours[said]) - rival, abs=1e-3)


def test_corrupted_rows_raise_tv() -> None:
    model = _model()
    good = prefill(model, IDS)
    before = clone_rows(read_rows(good))
    small, large = clone_rows(before), clone_rows(before)
    noise = torch.Generator().manual_seed(0)
    for corrupted, size in ((small, 0.3), (large, 3.0)):
        for keys, values in corrupted:
            keys[:, :, 25:35] += size * torch.randn(keys[:, :, 25:35].shape, generator=noise)
            values[:, :, 25:35] += size * torch.randn(values[:, :, 25:35].shape, generator=noise)
    found = [spot_check(model, plain_cache(rows), IDS, QUERY) for rows in (before, small, large)]
    assert 0 == found[0].tv < 0.01 < found[1].tv < found[2].tv <= 1
    assert len({f.margin_clean for f in found}) == 1, "the reference is the clean cache, whatever the repair"
    assert found[2].margin_repaired < 0
    assert caches_equal(read_rows(good), before), "the cache passed in is not modified"


def test_caches_that_do_not_fit_are_named() -> None:
    model = _model()
    with pytest.raises(InputError, match="holds 1 x 40 rows; the edited context has 1 x 39 tokens"):
        spot_check(model, prefill(model, IDS), IDS[:-1], QUERY)
    with pytest.raises(InputError, match="holds 2 x 40 rows"):
        spot_check(model, prefill(model, [IDS, IDS]), IDS, QUERY)
    with pytest.raises(InputError, match="query_ids is empty"):
        spot_check(model, prefill(model, IDS), IDS, [])
    edit = Edits(original_ids=tuple(IDS), changes=[Change(start=3, stop=3, replacement_ids=[20])])
    with pytest.raises(Refused, match="never computed"):
        spot_check(model, shift(model, prefill(model, IDS), edit), edit.edited_ids, QUERY)
    cut = Deletion(prefix_ids=IDS[:5], deleted_ids=IDS[5:7], suffix_ids=IDS[7:])
    assert spot_check(model, shift(model, prefill(model, IDS), cut), cut.edited_ids, QUERY).tv > 0
