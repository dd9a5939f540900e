"""Every variant of SUR against a selection made by hand or by brute force over small suffixes."""

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.repair_core import InputError, Tokens, allocate
from cachemend.repair_core.allocators import names
from cachemend.repair_core.allocators.unit_budget import DECAY
from cachemend.repair_core.described_variants import DESCRIBED, read_frozen
from cachemend.repair_core.units import Unit
from cachemend.repair_core.variants import VARIANTS, check_rule, signals_of, spend
from cachemend.repair_core.variants.boundaries import best_windows, equal_blocks
from cachemend.repair_core.variants.components import by_aggregation, by_bonus, relevance_with
from cachemend.repair_core.variants.relevance import rank_sum, z_sum
from cachemend.repair_core.variants.variant import suffix_share
from cachemend.repair_core.variants.windows import by_window, forward, unit_tails

from oracles import allocators as oracle
from support.fixed_context import FixedContext
from support.scored_units import given_context, scored

# These look at the text or run a model; they have tests of their own.
LOADED = ("sur-min-16", "sur-min-32", "sur-max-16", "sur-max-32", "sur-two-stage")
PURE = tuple(name for name in VARIANTS if name not in LOADED)
PERCENTS = (0, 0.1, 2, 5, 33.3, 50, 99.9, 100)


def chosen(name: str, context: FixedContext, budget: int) -> list[int]:
    return sorted(VARIANTS[name].select(context, budget).tolist())  # type: ignore[arg-type]


def ranked(context: FixedContext, scores: Sequence[float] | None = None) -> list[list[int]]:
    """Units as lists of indices, the best first, by a plain sort."""
    r = context.relevance.tolist()
    units = [list(range(u.start, u.stop)) for u in context.segmentation.units]
    if scores is None:
        top = [sorted((r[i] for i in unit), reverse=True)[:4] for unit in units]
        scores = [math.fsum(values) / len(values) for values in top]
    return [units[i] for i in sorted(range(len(units)), key=lambda i: (-scores[i], i))]


def filled(units: Sequence[list[int]], budget: int, window: Callable[[list[int], int], list[int]]) -> list[int]:
    out: list[int] = []
    for unit in units:
        left = budget - len(out)
        out += unit if len(unit) <= left else window(unit, left) if left else []
    return sorted(out)


def closest(context: FixedContext, unit: list[int], decay: float, before: bool, after: bool) -> dict[int, float]:
    """The envelope in closed form: the largest e^(r - r_max) decay^distance over the tokens on the given sides."""
    r = context.relevance
    peak = max(r[i] for i in unit)
    return {
        at: max(
            math.exp(r[i] - peak) * decay ** abs(at - i)
            for i in unit
            if i == at or (before and i < at) or (after and i > at)
        )
        for at in unit
    }


@settings(deadline=None, max_examples=50)
@given(context=scored(), data=st.data())
def test_windows_inside_the_unit(context: FixedContext, data: st.DataObject) -> None:
    budget = data.draw(st.integers(1, len(context.relevance)))
    units = ranked(context)
    assert chosen("sur-head", context, budget) == filled(units, budget, lambda unit, width: unit[:width])
    assert chosen("sur-tail", context, budget) == filled(units, budget, lambda unit, width: unit[-width:])
    decays = {"sur-decay-0": 0.0, "sur-decay-4": math.exp(-1 / 4), "sur-decay-64": math.exp(-1 / 64)}
    sides = {name: (decay, True, False) for name, decay in decays.items()}
    sides |= {"sur-backward": (DECAY, False, True), "sur-symmetric": (DECAY, True, True)}
    for name, shape in sides.items():
        mine = chosen(name, context, budget)
        for unit in units:
            inside = [i for i in mine if i in unit]
            if 0 < len(inside) < len(unit):
                value, width = closest(context, unit, *shape), len(inside)
                sums = [math.fsum(value[i] for i in unit[s : s + width]) for s in range(len(unit) - width + 1)]
                assert inside == list(range(inside[0], inside[0] + width))
                # Powers round otherwise than products, so sums that agree to 1e-9 are ties here.
                assert sums[inside[0] - unit[0]] >= max(sums) - 1e-9
        assert len(mine) == budget


@settings(deadline=None, max_examples=50)
@given(context=scored(), data=st.data())
def test_a_variant_at_surs_own_value_is_sur(context: FixedContext, data: st.DataObject) -> None:
    budget = data.draw(st.integers(1, len(context.relevance)))
    r, units = context.relevance.tolist(), [list(range(u.start, u.stop)) for u in context.segmentation.units]
    expected = oracle.sur(r, units, budget)
    for select in (by_window(forward(DECAY)), by_aggregation(4), by_bonus(0.25)):
        assert sorted(select(context, budget).tolist()) == expected  # type: ignore[arg-type]
    assert chosen("sur-of-prompt", context, budget) == expected
    assert sorted((allocate("sur", context, Tokens(budget)) - 3).tolist()) == expected  # type: ignore[arg-type]
    one = oracle.max_relevance_window(r, budget)
    assert chosen("windows-1", context, budget) == one


@settings(deadline=None, max_examples=50)
@given(context=scored(), percent=st.sampled_from(PERCENTS), name=st.sampled_from(PURE))
def test_exactly_as_many_as_allowed(context: FixedContext, percent: float, name: str) -> None:
    positions, allowance = spend(name, context, percent)  # type: ignore[arg-type]
    assert len(positions) == allowance == VARIANTS[name].allowance(context, percent)  # type: ignore[arg-type]
    assert (np.diff(positions) > 0).all()
    assert all(3 <= u < 3 + len(context.relevance) for u in positions)
    if VARIANTS[name].allowance is suffix_share:
        assert allowance == spend("sur", context, percent).allowance  # type: ignore[arg-type]


@settings(deadline=None, max_examples=50)
@given(
    raw=st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.75, 1.25]), min_size=1, max_size=9),
    count=st.integers(1, 4),
    data=st.data(),
)
def test_local_windows_are_the_best_of_all(raw: list[float], count: int, data: st.DataObject) -> None:
    budget = data.draw(st.integers(1, len(raw)))
    pieces = min(count, budget)
    widths = [budget // pieces + (i < budget % pieces) for i in range(pieces)]
    mine = best_windows(np.array(raw), budget, count).tolist()
    assert mine == sorted(set(mine))
    assert len(mine) == budget
    supports = {
        tuple(taken) for taken in combinations(range(len(raw)), budget) if _is_windows(list(taken), sorted(widths))
    }
    most = max(sum(raw[i] for i in taken) for taken in supports)
    assert tuple(mine) == min(taken for taken in supports if sum(raw[i] for i in taken) == most)


def _is_windows(taken: list[int], widths: list[int]) -> bool:
    """Whether the indices fall into runs of exactly these widths, adjacent ones allowed."""
    if not widths:
        return not taken
    for width in set(widths):
        if taken[:width] == list(range(taken[0], taken[0] + width)) if len(taken) >= width else False:
            rest = [*widths]
            rest.remove(width)
            if _is_windows(taken[width:], rest):
                return True
    return False


def test_local_windows_by_hand() -> None:
    raw = np.array([0.0, 1.0, 0.0, 0.0, 0.5, 1.0, 0.0, 1.0])
    assert best_windows(raw, 4, 1).tolist() == [4, 5, 6, 7]
    assert best_windows(raw, 4, 2).tolist() == [0, 1, 4, 5], "pairs worth 1 and 1.5; of equal ones the earliest"
    assert best_windows(raw, 3, 2).tolist() == [1, 4, 5], "one of two and one of one"
    assert best_windows(raw, 4, 4).tolist() == [1, 4, 5, 7]
    assert best_windows(raw, 2, 4).tolist() == [1, 5]


def test_tails_of_several_units_by_hand() -> None:
    units = (Unit(0, 5), Unit(5, 8), Unit(8, 20))
    assert unit_tails(units, [2, 0, 1], 5, 2).tolist() == [17, 18, 19, 3, 4], "the better unit gets the odd one"
    assert unit_tails(units, [1, 2, 0], 10, 2).tolist() == [5, 6, 7, *range(13, 20)], "what one leaves, the other takes"
    assert sorted(unit_tails(units, [1, 0, 2], 10, 2)) == [*range(8), 18, 19], "two whole, then the tail of the next"
    assert sorted(unit_tails(units, [2, 1, 0], 2, 4)) == [7, 19]
    units = (Unit(0, 1), Unit(1, 11), Unit(11, 21), Unit(21, 31))
    assert sorted(unit_tails(units, [0, 1, 2, 3], 7, 4)) == [0, 9, 10, 19, 20, 29, 30], "the remainder goes out once"


@settings(deadline=None, max_examples=50)
@given(context=scored(), data=st.data(), count=st.sampled_from([2, 4]))
def test_tails_are_even(context: FixedContext, data: st.DataObject, count: int) -> None:
    budget = data.draw(st.integers(1, len(context.relevance)))
    mine = chosen(f"sur-tails-{count}", context, budget)
    units = ranked(context)
    parts = [[i for i in mine if i in unit] for unit in units]
    assert all(part == unit[len(unit) - len(part) :] for part, unit in zip(parts, units, strict=True))
    shares = [len(part) for part, unit in zip(parts[:count], units, strict=False) if len(part) < len(unit)]
    assert max(shares, default=0) - min(shares, default=0) <= 1
    if shares:
        assert not any(parts[count:]), "nothing goes on before the first units are whole"


def test_fixed_blocks() -> None:
    assert [block.length for block in equal_blocks(11, 3)] == [4, 4, 3]
    # Units 0-1, 2-8, 9: three blocks 0-3, 4-6, 7-9 instead. Best block 7-9 (mean 0.5), then 0-3, window around 1.
    context = given_context([0, 1.0, 0, 0, 0, 0, 0, 0.5, 0.5, 0.5], (Unit(0, 2), Unit(2, 9), Unit(9, 10)))
    assert chosen("fixed-blocks", context, 5) == [1, 2, 7, 8, 9]


def test_bonus_counts_only_for_tokens_of_the_query() -> None:
    context = given_context([1.25, 0.5, 1.25, -0.5], (Unit(0, 4),))
    assert relevance_with(context, 0.0).tolist() == [1.0, 0.5, 1.0, -0.5]  # type: ignore[arg-type]
    # Means of four: A (1.25 + 0.25)/2 = 0.75, B 0.875. Without the bonus A falls to 0.625, with 0.5 it rises to 0.875.
    context = given_context([1.25, 0.25, 0.875, 0.875], (Unit(0, 2), Unit(2, 4)))
    assert chosen("sur-bonus-0", context, 2) == [2, 3]
    assert (allocate("sur", context, Tokens(2)) - 3).tolist() == [2, 3]  # type: ignore[arg-type]
    assert chosen("sur-bonus-0.5", context, 2) == [0, 1], "equal scores: the earlier unit"


def test_aggregation_by_hand() -> None:
    # Largest: A. Mean of four: B (0.6). Mean of all: C.
    r = [0.9, 0.0, 0.0, 0.0, 0.0, 0.6, 0.6, 0.6, 0.6, 0.0, 0.0, 0.5, 0.5]
    context = given_context(r, (Unit(0, 5), Unit(5, 11), Unit(11, 13)))
    assert chosen("sur-top-1", context, 5) == [0, 1, 2, 3, 4]
    assert (allocate("sur", context, Tokens(6)) - 3).tolist() == [5, 6, 7, 8, 9, 10]  # type: ignore[arg-type]
    assert chosen("sur-top-all", context, 2) == [11, 12]
    assert chosen("joint-mean-head", context, 4) == [5, 6, 11, 12]


def test_hybrid_scores_by_hand() -> None:
    a, b = np.array([1.0, 3.0]), np.array([10.0, 10.0])
    assert z_sum(a, b).tolist() == [-1.0, 1.0], "a constant score adds nothing"
    assert z_sum(a, np.array([9.0, 5.0])).tolist() == [0.0, 0.0]
    # Ranks 2, 0, 1 and 0, 0, 2: equal scores share the better rank.
    assert rank_sum(np.array([0.0, 2.0, 1.0]), np.array([5.0, 5.0, 1.0])).tolist() == [-2.0, 0.0, -3.0]


@settings(deadline=None, max_examples=50)
@given(context=scored(), data=st.data())
def test_hybrids_without_a_term_in_common_are_sur(context: FixedContext, data: st.DataObject) -> None:
    budget = data.draw(st.integers(1, len(context.relevance)))
    context.query = "zebra"
    scores = [sorted(context.relevance[u.start : u.stop])[-4:] for u in context.segmentation.units]
    means = [float(np.mean(s)) for s in scores]
    # Z-scores are rounded once more than SUR's own scores: where two units nearly tie, the order may differ.
    if all(a == b or abs(a - b) > 1e-3 for a, b in combinations(means, 2)):
        expected = sorted((allocate("sur", context, Tokens(budget)) - 3).tolist())  # type: ignore[arg-type]
        assert chosen("hybrid-rank", context, budget) == expected
        assert chosen("hybrid-z", context, budget) == expected


def test_bridges_by_hand() -> None:
    # A 0-9 best, then C 13-19, then D 60-69; B 10-12 and E 20-59 lie between.
    r = [1.0] * 10 + [0.0] * 3 + [0.9] * 7 + [0.0] * 40 + [0.8] * 10
    context = given_context(r, (Unit(0, 10), Unit(10, 13), Unit(13, 20), Unit(20, 60), Unit(60, 70)))
    assert chosen("sur-bridged", context, 20) == list(range(20)), "A, C and the gap of three"
    assert chosen("sur-bridged", context, 19) == [*range(10), *range(13, 20), 60, 61], "no room for the whole gap"
    assert chosen("sur-bridged", context, 30) == [*range(20), *range(60, 70)], "a gap of 40 is too long"
    assert chosen("sur-bridged", context, 12) == [*range(10), 13, 14]


def test_other_allowances() -> None:
    # 3 tokens before a suffix of 10: 20 % are 2 of the suffix and 3 of the prompt.
    context = given_context([0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.9, 0.9, 0.9], (Unit(0, 4), Unit(4, 7), Unit(7, 10)))
    assert spend("sur", context, 20).allowance == 2  # type: ignore[arg-type]
    assert spend("sur-of-prompt", context, 20).allowance == 3  # type: ignore[arg-type]
    assert spend("joint-mean-head", context, 100).allowance == 10  # type: ignore[arg-type]
    for percent, expected in ((0, []), (20, [7, 8, 9]), (31, [4, 5, 6, 7, 8, 9]), (61, list(range(10)))):
        positions = spend("whole-units", context, percent).positions  # type: ignore[arg-type]
        assert (positions - 3).tolist() == expected
        assert len(spend("matched-tokens", context, percent).positions) == len(expected)  # type: ignore[arg-type]


def test_the_registry_of_the_paper_is_as_it_was() -> None:
    assert len(names()) == 14
    assert not set(names()) & set(VARIANTS)
    assert list(VARIANTS) == [described.name for described in DESCRIBED]
    for described in DESCRIBED:
        own = VARIANTS[described.name].allowance is suffix_share and described.reference == "sur"
        assert described.candidate == own
    frozen = read_frozen().names or ()
    assert set(frozen) <= {described.name for described in DESCRIBED if described.candidate}


def test_unknown_names() -> None:
    with pytest.raises(InputError, match="'sur-tial' is unknown; did you mean 'sur-tail'"):
        check_rule("sur-tial")
    for ask in (lambda: signals_of("nothing"), lambda: spend("nothing", given_context([0.0], (Unit(0, 1),)), 5)):
        with pytest.raises(InputError, match="'nothing' is unknown"):
            ask()
