"""Policies beside the deletion engine, and what they share with it."""

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from cachemend.repair_core import (
    Change,
    Choice,
    Deletion,
    Edits,
    InputError,
    RepairContext,
    Replacement,
    StaleContext,
    Tokens,
    allocate,
    choose,
    prefill,
    refresh,
)
from cachemend.repair_core.allocators.cacheblend import shallow_deviation
from cachemend.repair_core.caches import plain_cache, read_rows
from cachemend.repair_core.invariants import caches_equal
from cachemend.repair_core.policies import (
    DIAGNOSTICS,
    POLICIES,
    Policy,
    diagnostic_names,
    get_policy,
    policy_names,
    register,
)

from oracles import edit_policies as oracle
from support.permuted_heads import permuted_heads
from support.tiny_models import BY_NAME, FIXED_POSITIONS, MATRIX, VOCABULARY, Tiny, build

IDS = np.random.default_rng(9).integers(3, VOCABULARY, 60).tolist()
IN_PLACE = Replacement(original_ids=IDS, start=14, stop=17, replacement_ids=[7, 8, 9])
SAME = Edits(original_ids=tuple(IDS), changes=[Change(start=14, stop=17, replacement_ids=[7, 8, 9])])
LONGER = Replacement(original_ids=IDS, start=14, stop=17, replacement_ids=[7, 8, 9, 10, 11])
SHORTER = Replacement(original_ids=IDS, start=14, stop=17, replacement_ids=[7])
QUERY = (5, 6, 7, 8)


def _context(edit: object, model: nn.Module, query: tuple[int, ...] = QUERY) -> StaleContext:
    return StaleContext(model, None, edit, "", query_ids=query, case_id="case")  # type: ignore[arg-type]


@cache
def _model(name: str) -> nn.Module:
    return build(BY_NAME[name])


def test_the_policies_are_those_of_the_tables() -> None:
    assert (
        policy_names()
        == POLICIES
        == (
            "edit-local",
            "edit-local-boundary",
            "structural",
            "attention",
            "cacheblend",
            "random",
            "sur",
            "edit-local-sur",
            "edit-to-carrier",
            "two-stage",
        )
    )
    diagnostics = ("causal-oracle", "causal-oracle-screened", "carrier-window", "span-to-carrier")
    assert diagnostic_names() == DIAGNOSTICS == diagnostics
    own = {name for name in (*POLICIES, *DIAGNOSTICS) if get_policy(name).own_length}
    assert own == {"edit-local-boundary", "edit-to-carrier", "span-to-carrier"}
    assert all(get_policy(name).name == name for name in (*POLICIES, *DIAGNOSTICS))
    assert {get_policy(name).deployable for name in POLICIES} == {True}
    assert {get_policy(name).deployable for name in DIAGNOSTICS} == {False}
    with pytest.raises(ValueError, match="registered twice"):

        @register
        class Again(Policy):
            name = "edit-local"

            def select(self, context: StaleContext, k: int) -> Choice:
                raise AssertionError


@pytest.mark.parametrize("edit", [IN_PLACE, LONGER, SHORTER], ids=["in-place", "longer", "shorter"])
@pytest.mark.parametrize("name", ["edit-local", "attention", "cacheblend", "random", "two-stage"])
def test_every_replacement_gets_exactly_k(name: str, edit: Replacement) -> None:
    context = _context(edit, _model("llama"))
    for k in (0, 1, 2, 9, edit.pool.size):
        chosen = choose(name, context, k)
        assert len(chosen.positions) == k
        assert set(chosen.positions) <= set(edit.pool)
        assert chosen.n_topup == 0


@pytest.mark.parametrize("tiny", [*MATRIX, *FIXED_POSITIONS], ids=lambda tiny: tiny.name)
def test_attention_and_cacheblend_are_those_of_the_deletion_engine(tiny: Tiny) -> None:
    model = build(tiny)
    context, engine = _context(IN_PLACE, model), RepairContext(model, None, SAME, "", query_ids=QUERY)  # type: ignore[arg-type]
    for policy, allocator, scores in (
        ("attention", "prophetkv", context.query_attention.mean),
        ("cacheblend", "cacheblend", shallow_deviation(context)),
    ):
        other = engine.query_attention.mean if policy == "attention" else shallow_deviation(engine)
        assert np.array_equal(scores[17:], other[17:])
        for k in (1, 8, 20, 42):
            ours = choose(policy, context, k).positions.tolist()
            # The allocator may take the last token too; the pool never holds it.
            theirs = [i for i in allocate(allocator, engine, Tokens(k)).tolist() if i != 59]
            assert len(theirs) >= k - 1
            assert set(theirs) <= set(ours)
    if tiny in MATRIX:
        stale = [(rows.keys, rows.values) for rows in read_rows(prefill(model, IDS))]
        attention = oracle.attention_scores(model, stale, QUERY)
        deviation = oracle.cacheblend_scores(model, IDS, IN_PLACE.edited_ids)
        ours = context.query_attention.mean, shallow_deviation(context)
        for found, expected in zip(ours, (attention, deviation), strict=True):
            assert np.abs(found[17:] - expected[17:]).max() <= 1e-5 * max(1.0, expected[17:].max())


@pytest.mark.parametrize("name", ["llama", "gemma3", "deepseek-v3"])
def test_two_stage_looks_again_at_the_repaired_cache(name: str) -> None:
    model = _model(name)
    context = _context(IN_PLACE, model)
    rows = [(r.keys.clone(), r.values.clone()) for r in read_rows(context.dirty)]
    for k in (1, 8, 15):
        expected = oracle.two_stage(model, rows, IN_PLACE.edited_ids, QUERY, 14, 17, -(-k // 2), k // 2)
        assert choose("two-stage", context, k).positions.tolist() == sorted([*expected.first, *expected.second])
    assert caches_equal(read_rows(context.dirty), read_rows(plain_cache(read_rows(prefill(model, IDS)))))
    assert context.shifted.counts()["missing"] == 3, "choosing repairs a copy"
    # What was refreshed already comes out the same when it is refreshed again with the rest.
    chosen = choose("two-stage", context, 15).positions
    where = sorted({14, 15, 16, *chosen.tolist()})
    once = refresh(model, context.shifted, IN_PLACE.edited_ids, where)
    assert caches_equal(read_rows(once), read_rows(refresh(model, once, IN_PLACE.edited_ids, where)))


@pytest.mark.parametrize("name", ["attention", "cacheblend", "two-stage"])
def test_the_order_of_heads_changes_nothing(name: str) -> None:
    plain, permuted = (_context(IN_PLACE, m) for m in (_model("llama"), permuted_heads(_model("llama"))))
    assert not torch.equal(read_rows(plain.dirty)[0].keys, read_rows(permuted.dirty)[0].keys)
    for k in (1, 9, 30):
        assert choose(name, plain, k).positions.tolist() == choose(name, permuted, k).positions.tolist()


def test_a_deletion_has_policies_too() -> None:
    edit = Deletion(prefix_ids=IDS[:14], deleted_ids=IDS[14:17], suffix_ids=IDS[17:])
    context = _context(edit, _model("llama"))
    assert choose("edit-local", context, 4).positions.tolist() == [14, 15, 16, 17]
    engine = RepairContext(_model("llama"), None, edit, "", query_ids=QUERY)  # type: ignore[arg-type]
    ours, theirs = choose("attention", context, 9).positions, allocate("prophetkv", engine, Tokens(9))
    assert set(theirs) - {56} <= set(ours)
    several = Edits(original_ids=tuple(IDS), changes=[Change(start=3, stop=4), Change(start=20, stop=22)])
    with pytest.raises(InputError, match="changes several places"):
        choose("edit-local", _context(several, _model("llama")), 3)
