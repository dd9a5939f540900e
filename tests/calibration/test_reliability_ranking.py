"""Reliability by hand and ranking against scikit-learn, draw by draw."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.ranking import ranking
from cachemend.calibration.reliability import equal_width_bins, reliability


def test_reliability_by_hand() -> None:
    """Blocks of 4 and 2: |0.25 - 0.5| * 4/6 + |0.9 - 1| * 2/6 = 0.2."""
    found = reliability([0.25] * 4 + [0.9] * 2, [1, 0, 1, 0, 0, 0], [0] * 4 + [3] * 2)
    assert found.ece == pytest.approx(0.2)
    assert found.bins == ((4, 0.25, 0.5), (2, 0.9, 1.0))
    assert found.brier == pytest.approx((2 * 0.25**2 + 2 * 0.75**2 + 2 * 0.01) / 6)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 16), st.booleans()), min_size=2, max_size=50))
def test_reliability_against_scikit_learn_and_a_loop(rows: list[tuple[int, bool]]) -> None:
    """Sixteenths and four bins are exact in binary: an edge is an edge."""
    rate, valid = (np.array(column) for column in zip(*rows, strict=True))
    rate = rate / 16
    found = reliability(rate, valid, equal_width_bins(rate, 4))
    assert found.brier == pytest.approx(brier_score_loss(~valid, rate))
    bins = np.minimum(np.digitize(rate, [0.25, 0.5, 0.75]), 3)
    gaps = [abs(rate[bins == b].mean() - (~valid[bins == b]).mean()) * (bins == b).sum() for b in set(bins)]
    assert found.ece == pytest.approx(sum(gaps) / len(rate))
    assert [b.n for b in found.bins] == [int((bins == b).sum()) for b in sorted(set(bins))]


def test_bin_edges() -> None:
    assert equal_width_bins([0, 0.25, 0.5, 0.74, 1], 4).tolist() == [0, 1, 2, 2, 3]


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000), st.integers(3, 9))
def test_intervals_against_scikit_learn_on_the_same_draws(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    clusters = np.r_[np.arange(n), rng.integers(0, n, 40)]
    signal = rng.integers(0, 6, len(clusters)) / 4
    valid = rng.random(len(clusters)) < 0.6 - signal / 4
    valid[:2] = True, False
    found = ranking(signal, valid, clusters, replicates=40, seed=seed)
    drawn = np.random.default_rng(seed).integers(0, n, size=(40, n))
    areas = []
    for row in drawn:
        rows = np.concatenate([np.flatnonzero(clusters == name) for name in row])
        if 0 < valid[rows].sum() < len(rows):
            y, s = ~valid[rows], signal[rows]
            areas.append((roc_auc_score(y, s), average_precision_score(y, s)))
    assert found.replicates == len(areas)
    low, high = np.percentile(areas, [2.5, 97.5], axis=0)
    assert found.auroc == pytest.approx((roc_auc_score(~valid, signal), low[0], high[0], n))
    assert found.auprc == pytest.approx((average_precision_score(~valid, signal), low[1], high[1], n))
    assert found.prevalence == pytest.approx((~valid).mean())


def test_large_data_is_drawn_in_blocks_and_repeats_add_nothing() -> None:
    rng = np.random.default_rng(0)
    clusters, signal, valid = rng.integers(0, 300, 2000), rng.random(2000), rng.random(2000) < 0.5
    once = ranking(signal, valid, clusters, replicates=1500)
    again = ranking(np.tile(signal, 4), np.tile(valid, 4), np.tile(clusters, 4), replicates=1500)
    assert once.auroc == pytest.approx(again.auroc)
    assert once.auprc == pytest.approx(again.auprc, abs=1e-9)
    assert once.auroc.low < 0.5 < once.auroc.high


def test_perfect_reversed_and_infinite_signals() -> None:
    valid, clusters = [1, 1, 0, 0], [0, 1, 0, 1]
    best = ranking([-np.inf, 0, 1, np.inf], valid, clusters, replicates=20)
    assert best.auroc[:3] == best.auprc[:3] == (1, 1, 1)
    assert ranking([1, 2, 0, -1], valid, clusters, replicates=20).auroc[:3] == (0, 0, 0)


def test_refusals() -> None:
    with pytest.raises(CalibrationError, match="all exposures are valid"):
        ranking([1, 2], [1, 1], [0, 1])
    with pytest.raises(CalibrationError, match="no draw of clusters"):
        ranking([1, 2], [1, 0], [0, 1], replicates=1, seed=next(s for s in range(99) if _same(s)))
    with pytest.raises(ValueError, match="NaN at exposure 1"):
        ranking([1, float("nan")], [1, 0], [0, 1])
    with pytest.raises(ValueError, match="outside 0 to 1"):
        reliability([1.2], [1], [0])
    with pytest.raises(ValueError, match="one shape"):
        reliability([0.2], [1, 0], [0])
    with pytest.raises(ValueError, match="n_bins 0"):
        equal_width_bins([0.2], 0)


def _same(seed: int) -> bool:
    return len(set(np.random.default_rng(seed).integers(0, 2, size=2))) == 1
