"""Rules of text and place, units and draws: each policy against the oracles on generated contexts."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.repair_core import (
    choose,
)
from cachemend.repair_core.caches import plain_cache
from cachemend.repair_core.intervals import Interval
from cachemend.repair_core.policies import (
    POLICIES,
    Truth,
    diagnose,
    get_policy,
)

from oracles import allocators as allocator_oracle
from oracles import edit_policies as oracle
from support.given_edits import Given, given_contexts


def _truth(start: int, stop: int) -> Truth:
    rows = plain_cache([])
    return Truth(clean=rows, query_ids=(1,), old_ids=(2,), new_ids=(3,), carrier=Interval(start, stop))


@given(given_contexts(), st.data())
def test_rules_of_text_and_place_equal_the_oracle(case: tuple, data: st.DataObject) -> None:
    made, texts, a, b = case
    context, n = made.context, len(texts)
    pool = oracle.pool(a, b, n)
    assert context.pool.tolist() == pool
    k = data.draw(st.integers(0, len(pool)))
    assert choose("edit-local", context, k).positions.tolist() == oracle.edit_local(b, n, k)
    assert choose("edit-local-boundary", context).positions.tolist() == oracle.edit_local_boundary(texts, b, n)
    fixed, topup = oracle.structural(texts, b, n, k)
    chosen = choose("structural", context, k)
    assert chosen.n_topup == topup
    assert set(fixed) <= set(chosen.positions)
    assert len(set(chosen.positions) - set(fixed)) == topup
    scores = context.query_attention.mean
    assert choose("attention", context, k).positions.tolist() == oracle.top_k(scores, pool, k)
    if pool:
        carrier = data.draw(st.integers(b, n - 2))
        window = diagnose("carrier-window", context, _truth(carrier, n), k).positions
        assert window.tolist() == oracle.carrier_window(carrier, b, n, k)
        path = diagnose("span-to-carrier", context, _truth(carrier, carrier + 1)).positions
        assert path.tolist() == list(range(b, carrier + 1))


@given(given_contexts(), st.data())
def test_semantic_units_of_the_pool_equal_the_oracle(case: tuple, data: st.DataObject) -> None:
    made, _, _, b = case
    context, size = made.context, made.context.pool.size
    k = data.draw(st.integers(0, size))
    r = context.relevance.tolist()
    units = [[i for i in range(u.start, u.stop) if i < size] for u in context.segmentation.units]
    expected = allocator_oracle.sur(r[:size], [unit for unit in units if unit], k)
    assert (choose("sur", context, k).positions - b).tolist() == expected
    near = -(-k // 2)
    left = [[i - near for i in unit if i >= near] for unit in units]
    rest = allocator_oracle.sur(r[near:size], [unit for unit in left if unit], k - near)
    assert (choose("edit-local-sur", context, k).positions - b).tolist() == [*range(near), *(i + near for i in rest)]


@settings(max_examples=60)
@given(given_contexts(), st.data())
def test_exactly_k_sorted_distinct_positions_of_the_pool(case: tuple, data: st.DataObject) -> None:
    context = case[0].context
    k = data.draw(st.integers(0, context.pool.size))
    for name in POLICIES:
        if name in ("cacheblend", "two-stage"):
            continue
        chosen = choose(name, context, k).positions
        assert chosen.dtype == np.int64
        assert get_policy(name).own_length or len(chosen) == k
        assert (np.diff(chosen) > 0).all()
        assert set(chosen) <= set(context.pool)
        assert choose(name, context, k).positions.tolist() == chosen.tolist()


def test_random_positions_follow_from_the_case_id_alone() -> None:
    context = Given(["word"] * 30, 4, 6).context

    def order(purpose: str) -> list[int]:
        keys = [hashlib.sha256(f"case-1|{purpose}|{i}".encode()).digest() for i in range(23)]
        return [6 + i for i in sorted(range(23), key=keys.__getitem__)]

    for k in (1, 7, 23):
        assert choose("random", context, k).positions.tolist() == sorted(order("position")[:k])
        assert choose("structural", context, k) == (pytest.approx(sorted(order("top-up")[:k])), k)
    context.case_id = "case-2"
    assert choose("random", context, 7).positions.tolist() != sorted(order("position")[:7])
