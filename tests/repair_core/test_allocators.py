from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.repair_core import InputError, Tokens, allocate, repair_budget
from cachemend.repair_core.allocators import get_allocator, names, register
from cachemend.repair_core.allocators.base import Allocator
from cachemend.repair_core.relevance import bm25_unit_scores, embedding_relevance
from cachemend.repair_core.units import Unit

from oracles import allocators as oracle
from oracles import relevance as relevance_oracle
from support.fixed_context import FixedContext

PERCENTS = (0, 0.1, 2, 5, 33.3, 99.9, 100)
WORDS = ("amber", "code", "river", "the", "falcon", "7", "is", "Amber")


@st.composite
def contexts(draw: st.DrawFn, longest: int = 40) -> FixedContext:
    length = draw(st.integers(1, longest))
    # Few distinct values, so that ties are common.
    raw = draw(st.lists(st.sampled_from([-0.5, 0.0, 0.125, 0.25, 0.75, 1.25]), min_size=length, max_size=length))
    cuts = sorted(draw(st.sets(st.integers(1, length))) | {0, length})
    units = tuple(Unit(a, b) for a, b in pairwise(cuts))
    texts = tuple(" ".join(draw(st.lists(st.sampled_from(WORDS), max_size=5))) for _ in units)
    query = " ".join(draw(st.lists(st.sampled_from(WORDS), max_size=5)))
    return FixedContext(np.array(raw), units, texts, query)


def _expected(name: str, context: FixedContext, count: int) -> list[int]:
    r = context.relevance.tolist()
    units = [list(range(u.start, u.stop)) for u in context.segmentation.units]
    if name == "sur":
        return oracle.sur(r, units, count)
    if name == "dense-tokens":
        return oracle.dense_tokens(r, count)
    if name == "max-relevance-window":
        return oracle.max_relevance_window(r, count)
    return oracle.bm25_units(list(context.segmentation.texts), context.query, units, count)


@pytest.mark.parametrize("name", ["sur", "dense-tokens", "max-relevance-window", "bm25-units"])
@given(context=contexts(), percent=st.sampled_from(PERCENTS))
def test_allocators_equal_the_oracle(name: str, context: FixedContext, percent: float) -> None:
    count = repair_budget(len(context.relevance), percent)
    chosen = allocate(name, context, percent)  # type: ignore[arg-type]
    assert (chosen - 3).tolist() == _expected(name, context, count)


@given(context=contexts(), percent=st.sampled_from(PERCENTS))
def test_random_units_are_whole_units_and_one_window(context: FixedContext, percent: float) -> None:
    count = repair_budget(len(context.relevance), percent)
    chosen = (allocate("random-units", context, percent) - 3).tolist()  # type: ignore[arg-type]
    units = [list(range(u.start, u.stop)) for u in context.segmentation.units]
    assert oracle.random_units_valid(units, count, chosen)


@pytest.mark.parametrize("name", names())
@settings(deadline=None, max_examples=40)
@given(length=st.integers(1, 5000), percent=st.sampled_from(PERCENTS), seed=st.integers(0, 2**31))
def test_exactly_b_sorted_unique_suffix_positions(name: str, length: int, percent: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cuts = [0, *range(rng.integers(1, 128), length, 100), length]
    units = tuple(Unit(a, b) for a, b in pairwise(cuts) if a < b)
    texts = tuple(WORDS[i % len(WORDS)] for i in range(len(units)))
    relevance = np.rint(rng.normal(size=length) * 2**20) / 2**20
    chosen = allocate(name, FixedContext(relevance, units, texts, "amber code"), percent)  # type: ignore[arg-type]
    assert len(chosen) == repair_budget(length, percent)
    assert (np.diff(chosen) > 0).all()
    assert all(3 <= u < 3 + length for u in chosen)


def test_sur_by_hand() -> None:
    # Units A = 0..3, B = 4..7, C = 8..9; top-four means .25, .5625 and .6: C first, then B, then A.
    r = np.array([0.25, 0.25, 0.25, 0.25, 0.0, 1.25, 0.5, 0.5, 0.7, 0.5])
    units = (Unit(0, 4), Unit(4, 8), Unit(8, 10))
    context = FixedContext(r, units, ("a", "b", "c"), "")
    assert (allocate("sur", context, Tokens(2)) - 3).tolist() == [8, 9]  # type: ignore[arg-type]
    # Width 1 left for B: the envelope peaks at its token 5 (u = 1) and decays after it.
    assert (allocate("sur", context, Tokens(3)) - 3).tolist() == [5, 8, 9]  # type: ignore[arg-type]
    # Width 2: u = (e^-1.25, 1, e^-1/16, e^-2/16); 5 + 6 beats 4 + 5.
    assert (allocate("sur", context, Tokens(4)) - 3).tolist() == [5, 6, 8, 9]  # type: ignore[arg-type]
    # Width 3 takes the tail of B, width 4 all of it.
    assert (allocate("sur", context, Tokens(5)) - 3).tolist() == [5, 6, 7, 8, 9]  # type: ignore[arg-type]
    assert (allocate("sur", context, Tokens(6)) - 3).tolist() == [4, 5, 6, 7, 8, 9]  # type: ignore[arg-type]


def test_random_units_keep_one_permutation_over_budgets() -> None:
    units = tuple(Unit(i, i + 10) for i in range(0, 200, 10))
    context = FixedContext(np.zeros(200), units, ("x",) * 20, "")
    smaller = set(allocate("random-units", context, 25))  # type: ignore[arg-type]
    larger = set(allocate("random-units", context, 50))  # type: ignore[arg-type]
    assert smaller < larger
    other = FixedContext(np.zeros(200), units, ("x",) * 20, "")
    other.case_id = "case-2"
    assert set(allocate("random-units", other, 25)) != smaller  # type: ignore[arg-type]


@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=6), min_size=1, max_size=6),
    st.lists(st.sampled_from(WORDS), max_size=6),
)
def test_bm25_equals_the_oracle(units: list[list[str]], query: list[str]) -> None:
    texts = [" ".join(words) for words in units]
    expected = oracle.bm25_scores(texts, " ".join(query))
    assert bm25_unit_scores(texts, " ".join(query)) == pytest.approx(expected, abs=1e-12)


def test_relevance_equals_the_oracle() -> None:
    torch.manual_seed(0)
    model = torch.nn.Module()
    table = torch.nn.Embedding(50, 16)
    model.get_input_embeddings = lambda: table  # type: ignore[assignment]
    rng = np.random.default_rng(1)
    suffix, query = rng.integers(0, 50, 3000).tolist(), [3, 7, 7, 49]
    expected = relevance_oracle.relevance(table.weight.detach().double().numpy(), suffix, query)
    ours = embedding_relevance(model, suffix, query)
    assert np.abs(ours - np.array(expected.r)).max() <= 2.0**-20
    # Equal ids score exactly 1 plus the bonus, whatever rounding says.
    assert set(ours[np.isin(suffix, query)].tolist()) == {1.25}


def test_unknown_allocator_names_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'dense-tokens'"):
        get_allocator("dense-token")


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="registered twice"):

        @register
        class Again(Allocator):
            name = "sur"
            signals = ()

            def select(self, context: object, budget: int) -> np.ndarray:  # type: ignore[override]
                raise AssertionError
