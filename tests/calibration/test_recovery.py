"""Recovery against its formulas, loops over replicates, SciPy and the edit paper's words."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from cachemend.calibration.recovery import (
    flip_rate,
    kl_divergence,
    kl_recovery,
    margin_recovery,
    summarise_recovery,
)

from oracles import edit_metrics
from oracles import stats as oracle

MARGINS = st.lists(
    st.tuples(st.floats(-9, 9), st.floats(-9, 0), st.floats(0.5, 9)).map(lambda t: tuple(round(x, 3) for x in t)),
    min_size=1,
    max_size=10,
)


def columns(rows: list[tuple[float, float, float]]) -> tuple[list[float], list[float], list[float]]:
    m, s, c = (list(column) for column in zip(*rows, strict=True))
    return m, s, c


def test_the_stale_cache_recovers_nothing_the_clean_one_everything_and_neither_end_is_clipped() -> None:
    assert margin_recovery(-3.0, -3.0, 5.0) == 0
    assert margin_recovery(5.0, -3.0, 5.0) == 1
    assert margin_recovery([-5.0, 1.0, 7.0], -3.0, 5.0) == pytest.approx([-0.25, 0.5, 1.25])
    assert isinstance(margin_recovery(1.0, 0.0, 2.0), float)


def test_without_a_gap_there_is_no_margin_recovery() -> None:
    found = margin_recovery([1.0, 1.0, 2.0], [2.0, 0.0, 2.0], [2.0, 4.0, 2.0])
    assert np.isnan(found).tolist() == [True, False, True]
    assert math.isnan(margin_recovery(2.0, 2.0, 2.0))


@settings(max_examples=15, deadline=None)
@given(MARGINS)
def test_summary_against_a_loop_over_replicates(rows: list[tuple[float, float, float]]) -> None:
    found = summarise_recovery(*columns(rows))
    sorted_items = sorted(((m - s) / (c - s), c - s) for m, s, c in rows)
    n = len(rows)
    draws = np.random.default_rng(20260928).integers(0, n, size=(10_000, n)).tolist()
    band = oracle.percentile_bootstrap_mean([r for r, _ in sorted_items], draws=draws)
    gains = [r * gap for r, gap in sorted_items]
    ratios = [sum(gains[i] for i in draw) / sum(sorted_items[i][1] for i in draw) for draw in draws]
    assert found[:3] == pytest.approx(band, abs=1e-9)
    assert found.median == pytest.approx(oracle.linear_percentile([r for r, _ in sorted_items], 50))
    assert found.ratio_of_means == pytest.approx(sum(m - s for m, s, _ in rows) / sum(c - s for _, s, c in rows))
    assert found.ratio_low == pytest.approx(oracle.linear_percentile(ratios, 2.5), abs=1e-9)
    assert found.ratio_high == pytest.approx(oracle.linear_percentile(ratios, 97.5), abs=1e-9)
    assert found.n == n


def test_the_order_of_items_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    stale, clean, margin = rng.normal(-4, 1, 50), rng.normal(4, 1, 50), rng.normal(0, 3, 50)
    order = rng.permutation(50)
    assert summarise_recovery(margin, stale, clean) == summarise_recovery(margin[order], stale[order], clean[order])


def test_items_without_a_gap_are_left_out() -> None:
    with_one = summarise_recovery([1.0, 2.0, 9.0], [0.0, 0.0, 3.0], [4.0, 4.0, 3.0])
    assert with_one == summarise_recovery([1.0, 2.0], [0.0, 0.0], [4.0, 4.0])
    assert (with_one.n, with_one.mean, with_one.median) == (2, 0.375, 0.375)


def test_a_small_gap_explodes_the_mean_but_neither_the_median_nor_the_ratio_of_means() -> None:
    stale, clean, margin = np.zeros(21), np.full(21, 8.0), np.full(21, 4.0)
    clean[0], margin[0] = 0.001, -1.0
    found = summarise_recovery(margin, stale, clean)
    assert found.mean < -40
    assert found.median == 0.5
    assert found.ratio_of_means == pytest.approx(79 / 160.001)


def test_a_replicate_without_a_mean_gap_leaves_the_ratio_without_an_interval() -> None:
    """Of two items with gaps 2 and -2 every other replicate draws both."""
    found = summarise_recovery([1.0, 1.0], [0.0, 0.0], [2.0, -2.0])
    assert (found.mean, found.n) == (0.0, 2)
    assert all(math.isnan(x) for x in (found.ratio_of_means, found.ratio_low, found.ratio_high))


def test_more_items_than_are_drawn_at_once() -> None:
    """1,099 items of the distance variant; the interval of a mean narrows with the root of n."""
    rng = np.random.default_rng(3)
    values = rng.normal(0.5, 0.2, 1099)
    found = summarise_recovery(values, np.zeros(1099), np.ones(1099))
    assert found[:3] == pytest.approx(found[4:7])  # equal gaps: the ratio of means is the mean
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * 0.2 / 1099**0.5, rel=0.1)


PROBABILITIES = st.lists(st.tuples(st.floats(0.001, 1), st.floats(0.001, 1)), min_size=1, max_size=8)


@given(PROBABILITIES)
def test_divergence_against_scipy(pairs: list[tuple[float, float]]) -> None:
    p, q = (np.array(column) / sum(column) for column in zip(*pairs, strict=True))
    assert kl_divergence(p, q) == pytest.approx(entropy(p, q), abs=1e-12)
    assert kl_divergence(p, p) == 0
    assert kl_divergence([p, q], [q, p]) == pytest.approx([entropy(p, q), entropy(q, p)], abs=1e-12)


COUNTS = st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=2, max_size=5).filter(
    lambda rows: all(sum(column) for column in zip(*rows, strict=True))
)


@given(COUNTS)
def test_recovery_of_distributions_with_zeros_against_the_oracle(rows: list[tuple[int, int, int]]) -> None:
    repaired, stale, clean = ([x / sum(column) for x in column] for column in zip(*rows, strict=True))
    found = [kl_divergence(p, clean) for p in (repaired, stale)]
    assert found == pytest.approx([edit_metrics.kl(repaired, clean), edit_metrics.kl(stale, clean)], abs=1e-12)
    expected = edit_metrics.kl_recovery(repaired, stale, clean)
    if expected is None or math.inf in found:
        assert math.isnan(kl_recovery(*found))
    else:
        assert kl_recovery(*found) == pytest.approx(expected)


def test_divergence_with_impossible_tokens() -> None:
    assert kl_divergence([0.5, 0.5, 0.0], [0.25, 0.25, 0.5]) == pytest.approx(math.log(2))
    assert kl_divergence([0.25, 0.25, 0.5], [0.5, 0.5, 0.0]) == math.inf
    assert kl_divergence([0.0, 1.0], [0.0, 1.0]) == 0


def test_divergence_of_rounded_distributions_is_never_negative() -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(5000), 20)
    nearly = (p * (1 + rng.normal(0, 1e-6, p.shape))).astype(np.float32)
    assert (kl_divergence(p.astype(np.float32), nearly) >= 0).all()


def test_kl_recovery_by_hand() -> None:
    clean, stale = [0.9, 0.1], [0.1, 0.9]
    to_clean = kl_divergence([clean, stale, [0.5, 0.5]], [clean] * 3)
    found = kl_recovery(to_clean, to_clean[1])
    assert found[:2].tolist() == [1, 0]
    assert found[2] == pytest.approx(1 - (0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(5)) / (0.8 * math.log(9)))
    assert kl_recovery(3.0, 1.5) == -1  # worse than no repair, unclipped


@pytest.mark.parametrize(
    ("repaired", "stale"), [(0.0, 0.0), (1.0, 0.0), (1.0, math.inf), (math.inf, 1.0), (math.inf,) * 2]
)
def test_kl_recovery_is_undefined_without_a_finite_stale_divergence(repaired: float, stale: float) -> None:
    assert math.isnan(kl_recovery(repaired, stale))


def test_flip_rates_of_the_paper() -> None:
    """Rivals flip at most one of 34 items on Llama; the window flips 95 to 100 %."""
    one = flip_rate([1] + [0] * 33)
    assert (one.point, one.n) == (1 / 34, 34)
    assert one.high < 0.16
    assert flip_rate(np.ones(34)).low > 0.89


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: margin_recovery(math.nan, 0.0, 1.0), "margin holds a value that is not finite"),
        (lambda: margin_recovery(0.0, 0.0, math.inf), "clean holds a value that is not finite"),
        (lambda: summarise_recovery([], [], []), "not empty"),
        (lambda: summarise_recovery([1.0, 2.0], [0.0], [1.0]), "2 margins, 1 stale and 1 clean"),
        (lambda: summarise_recovery([1.0], [2.0], [2.0]), "none of the 1 items has a gap"),
        (lambda: kl_divergence([0.5, 0.5], [1.0]), "same vocabulary"),
        (lambda: kl_divergence([0.5, 0.4], [0.5, 0.5]), "p does not sum to 1"),
        (lambda: kl_divergence([0.5, 0.5], [1.5, -0.5]), "q must hold probabilities"),
        (lambda: kl_recovery(-0.1, 1.0), "kl_repaired holds a value that is negative"),
        (lambda: kl_recovery(0.1, math.nan), "kl_stale holds a value that is negative or undefined"),
        (lambda: flip_rate([0.5]), "must be 0 or 1"),
        (lambda: flip_rate([]), "not empty"),
    ],
)
def test_bad_input_raises(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
