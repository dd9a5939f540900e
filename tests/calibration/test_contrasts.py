"""Paired contrasts against SciPy, exact enumeration, loops and the edit paper's own counts."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wilcoxon
from statsmodels.stats.multitest import multipletests

from cachemend.calibration.contrasts import BANDS, all_pairs, chosen_pairs, contrast

from oracles import edit_metrics
from oracles import stats as oracle

# Quarters are exact in binary: ties in rank are ties.
PAIRS = st.lists(st.tuples(st.integers(-8, 8), st.integers(-8, 8)), min_size=1, max_size=8)


def quarters(pairs: list[tuple[int, int]]) -> tuple[list[float], list[float]]:
    a, b = zip(*pairs, strict=True)
    return [x / 4 for x in a], [x / 4 for x in b]


@settings(max_examples=25, deadline=None)
@given(PAIRS)
def test_p_against_exact_enumeration(pairs: list[tuple[int, int]]) -> None:
    a, b = quarters(pairs)
    assert contrast(a, b).p == pytest.approx(edit_metrics.wilcoxon_pratt([x - y for x, y in zip(a, b, strict=True)]))


@pytest.mark.parametrize("n_zeros", [0, 9])
def test_p_against_scipy_at_the_papers_sizes(n_zeros: int) -> None:
    rng = np.random.default_rng(n_zeros)
    a, b = rng.normal(0.2, 1, 75), rng.normal(0, 1, 75)
    b[:n_zeros] = a[:n_zeros]
    assert contrast(a, b).p == pytest.approx(wilcoxon(a, b, zero_method="pratt").pvalue)


def test_items_without_a_difference_are_ranked() -> None:
    """Three zeros take ranks 1 to 3: 7 of 32 sums of ranks 4 to 8 are at most 4 + 5; of 1 to 5, 5 are at most 3."""
    a = [0.0, 0.0, 0.0, -0.25, -0.5, 0.75, 1.0, 1.25]
    assert contrast(a, np.zeros(8)).p == pytest.approx(14 / 32)
    assert contrast(a[3:], np.zeros(5)).p == pytest.approx(10 / 32)


def test_equal_arms() -> None:
    found = contrast([0.3, 0.9], [0.3, 0.9])
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)
    assert [tally[1:] for tally in found.tallies] == [(0, 2, 0)] * 3


@settings(max_examples=8, deadline=None)
@given(PAIRS)
def test_interval_and_tallies_against_loops(pairs: list[tuple[int, int]]) -> None:
    a, b = quarters(pairs)
    differences = sorted(x - y for x, y in zip(a, b, strict=True))
    draws = np.random.default_rng(20260928).integers(0, len(pairs), size=(10_000, len(pairs)))
    band = oracle.percentile_bootstrap_mean(differences, draws=draws.tolist())
    found = contrast(a, b)
    assert (found.difference, found.low, found.high) == pytest.approx(band, abs=1e-9)
    for tally in found.tallies:
        assert tally[1:] == edit_metrics.win_tie_loss(a, b, tally.band)


def test_bands_are_the_papers_and_their_edge_is_a_tie() -> None:
    assert BANDS == (0.05, 0.01, 0.10)
    found = contrast([0.05, -0.05, 0.01, 0.1, 0.07, -0.2, 0.0], np.zeros(7))
    assert [tuple(tally) for tally in found.tallies] == [(0.05, 2, 4, 1), (0.01, 3, 2, 2), (0.10, 0, 6, 1)]
    assert found.primary == found.tallies[0]


def test_swapping_the_arms_swaps_wins_and_losses() -> None:
    rng = np.random.default_rng(7)
    a, b = rng.random(40), rng.random(40)
    one, other = contrast(a, b), contrast(b, a)
    assert one.difference == pytest.approx(-other.difference)
    assert one.p == pytest.approx(other.p)
    assert [(t.wins, t.losses) for t in one.tallies] == [(t.losses, t.wins) for t in other.tallies]


def test_the_order_of_items_changes_nothing() -> None:
    rng = np.random.default_rng(8)
    values = {name: rng.random(40) for name in "abc"}
    order = rng.permutation(40)
    assert all_pairs(values) == all_pairs({name: arm[order] for name, arm in values.items()})


def test_pairing_is_kept() -> None:
    """A constant advantage on items that differ widely is certain when paired."""
    b = np.random.default_rng(9).normal(0, 10, 40)
    found = contrast(b + 0.5, b)
    assert (found.low, found.high) == (pytest.approx(0.5), pytest.approx(0.5))
    assert found.primary[1:] == (40, 0, 0)


def test_fifteen_pairs_of_six_policies_are_one_family() -> None:
    rng = np.random.default_rng(10)
    names = ("edit-local", "structural", "attention", "cacheblend", "random", "causal-oracle")
    values = {name: rng.normal(0.1 * place, 1, 30) for place, name in enumerate(names)}
    found = all_pairs(values)
    assert [(pair.a, pair.b) for pair in found] == list(combinations(names, 2))
    assert {pair.family_size for pair in found} == {15}
    raw = [contrast(values[a], values[b]) for a, b in combinations(names, 2)]
    assert [pair.contrast for pair in found] == raw
    assert [pair.p_holm for pair in found] == pytest.approx(multipletests([c.p for c in raw], method="holm")[1])
    assert [pair.p_holm for pair in found] == pytest.approx(oracle.holm([c.p for c in raw]))


def test_four_pairs_of_a_distance_cell_are_corrected_among_themselves() -> None:
    rng = np.random.default_rng(11)
    rivals = ("structural", "attention", "cacheblend", "random")
    values = {
        "edit-local": rng.normal(0.4, 1, 30),
        **{name: rng.normal(0, 1, 30) for name in rivals},
        "else": [math.nan],
    }
    found = chosen_pairs(values, [("edit-local", rival) for rival in rivals])
    assert [(pair.b, pair.family_size) for pair in found] == [(rival, 4) for rival in rivals]
    assert [pair.p_holm for pair in found] == pytest.approx(oracle.holm([pair.contrast.p for pair in found]))
    assert chosen_pairs(values, []) == []


def test_the_papers_significance_is_within_reach_only_of_the_exact_test() -> None:
    """p <= 3e-9 after Holm's correction over 15 pairs, on 34 items that one arm all wins (edit paper, Table 2).

    Exactly, 34 one-sided items come to 2^-33, 15 times which is 1.7e-9; the normal approximation gives 4e-7.
    """
    rng = np.random.default_rng(12)
    values = {name: rng.normal(0.1, 0.01, 34) for name in "bcdef"} | {"window": rng.normal(0.993, 0.01, 34)}
    found = [pair for pair in all_pairs(values) if "window" in (pair.a, pair.b)]
    assert [pair.contrast.p for pair in found] == pytest.approx([2**-33] * 5, rel=1e-9)
    assert all(2**-33 < pair.p_holm <= 3e-9 for pair in found)


def test_the_papers_difference_is_that_of_its_means() -> None:
    """0.993 against 0.533 on Llama, "at least 0.46": per item first, yet equal to the difference of means."""
    rng = np.random.default_rng(13)
    window, rival = (rng.normal(0, 0.1, 34) for _ in range(2))
    found = contrast(window - window.mean() + 0.993, rival - rival.mean() + 0.533)
    assert round(found.difference, 3) == 0.46


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: contrast([], []), "not empty"),
        (lambda: contrast([1.0], [1.0, 2.0]), "equal lengths"),
        (lambda: contrast([math.nan], [1.0]), "a holds a value that is not finite"),
        (lambda: all_pairs({"a": [1.0]}), "1 arms make no pair"),
        (lambda: all_pairs({"a": [1.0, 2.0], "b": [1.0, math.nan]}), "'b' is nan at item 1"),
        (lambda: all_pairs({"a": [1.0, 2.0], "b": [1.0]}), r"numbers of items are \{'a': 2, 'b': 1\}"),
        (lambda: all_pairs({"a": [[1.0]], "b": [1.0]}), "'a' has shape"),
        (lambda: chosen_pairs({"a": [1.0]}, [("a", "sur")]), "no values for 'sur'; known: a"),
        (lambda: chosen_pairs({"a": [1.0]}, [("a", "a")]), "compared with itself"),
        (lambda: chosen_pairs({"a": [1.0], "b": [1.0]}, [("a", "b"), ("b", "a")]), "given twice"),
    ],
)
def test_bad_input_raises(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
