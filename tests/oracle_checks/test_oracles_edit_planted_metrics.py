"""Plausible faults in the metrics and paired tests of an in-place edit.

Each case runs a second implementation twice: without a fault it agrees with the oracle, with it it does not.
"""

import itertools
import math
import re

import numpy as np
import pytest
from scipy import stats as library

from oracles import edit_metrics as metrics


def other_recovery(repaired, stale, oracle, fault):
    if fault == "share of the oracle":
        return repaired / oracle
    if fault == "share left":
        return (oracle - repaired) / (oracle - stale)
    if oracle == stale and fault != "zero without a gap":
        return None
    found = (repaired - stale) / (oracle - stale) if oracle != stale else 0.0
    if fault == "size of the gap":
        found = (repaired - stale) / abs(oracle - stale)
    if fault == "clipped":
        return min(1, max(0, found))
    return min(1, found) if fault == "clipped above" else found


@pytest.mark.parametrize(
    "fault",
    ["clipped", "clipped above", "share of the oracle", "share left", "zero without a gap", "size of the gap"],
)
def test_margin_recovery_fault(fault):
    cases = [(1.0, -2.0, 2.0), (3.0, -2.0, 2.0), (-3.0, -2.0, 2.0), (-3.0, 2.0, -2.0), (1.0, 2.0, 2.0)]
    assert all(other_recovery(*case, None) == metrics.margin_recovery(*case) for case in cases)
    assert any(other_recovery(*case, fault) != metrics.margin_recovery(*case) for case in cases)


def other_flip(answer, new, old, fault):
    flags = re.IGNORECASE if fault == "any case" else re.ASCII if fault == "ASCII words" else 0

    def shows(value):
        inner = value if fault == "pattern characters" else re.escape(value)
        if fault == "substring":
            return value in answer
        if fault == "equality":
            return answer.strip() == value
        if fault == "split words":
            return value in answer.split()
        if fault == "starts the answer":
            return answer.strip().startswith(value)
        edge = (r"\b", r"\b") if fault == "word edge of the value" else (r"(?<!\w)", r"(?!\w)")
        return re.search(edge[0] + inner + edge[1], answer, flags) is not None

    return shows(new) and (fault == "old not looked for" or not shows(old))


@pytest.mark.parametrize(
    ("fault", "case"),
    [
        ("substring", ("Oslo, not Romeo", "Oslo", "Rome")),
        ("substring", ("Oslofjord", "Oslo", "Rome")),
        ("equality", ("It is Oslo.", "Oslo", "Rome")),
        ("split words", ("It is Oslo.", "Oslo", "Rome")),
        ("starts the answer", ("It is Oslo.", "Oslo", "Rome")),
        ("old not looked for", ("Oslo, not Rome", "Oslo", "Rome")),
        ("any case", ("oslo", "Oslo", "Rome")),
        ("ASCII words", ("Osloø", "Oslo", "Rome")),
        ("pattern characters", ("axb", "a.b", "Rome")),
        ("word edge of the value", ("grade A+.", "A+", "B")),
    ],
)
def test_flip_fault(fault, case):
    assert other_flip(*case, None) is metrics.flip(*case)
    assert other_flip(*case, fault) is not metrics.flip(*case)


def other_kl_recovery(repaired, stale, oracle, fault):
    def distance(p):
        one, two = (np.array(oracle), np.array(p)) if fault == "reversed" else (np.array(p), np.array(oracle))
        if fault == "total variation":
            return abs(one - two).sum() / 2
        if fault == "Jensen-Shannon":
            middle = (one + two) / 2
            return (library.entropy(one, middle) + library.entropy(two, middle)) / 2
        return library.entropy(one, two)

    found = 1 - distance(repaired) / distance(stale)
    if fault == "not taken from 1":
        return 1 - found
    return max(0, found) if fault == "clipped" else found


@pytest.mark.parametrize("fault", ["reversed", "total variation", "Jensen-Shannon", "not taken from 1", "clipped"])
def test_kl_recovery_fault(fault):
    rng = np.random.default_rng(0)
    cases = [rng.dirichlet(np.ones(6), size=3) for _ in range(8)]
    cases.append((cases[0][1], cases[0][0], cases[0][2]))
    truth = [metrics.kl_recovery(*case) for case in cases]
    assert min(truth) < 0  # so that clipping shows
    assert [other_kl_recovery(*case, None) for case in cases] == pytest.approx(truth, rel=1e-12)
    assert [other_kl_recovery(*case, fault) for case in cases] != pytest.approx(truth, rel=1e-3)


def other_record(ours, theirs, band, fault):
    d = np.array(ours) - np.array(theirs)
    if fault == "other way round":
        d = -d
    if fault == "relative":
        d = d / np.maximum(np.abs(theirs), 1e-9)
    band = 0 if fault == "no band" else band / 2 if fault == "half the band" else band
    win = d >= band if fault == "band's edge wins" else d > band
    loss = d < 0 if fault == "band above only" else d < -band
    return int(win.sum()), int((~win & ~loss).sum()), int(loss.sum())


@pytest.mark.parametrize(
    "fault", ["other way round", "relative", "no band", "half the band", "band's edge wins", "band above only"]
)
def test_win_tie_loss_fault(fault):
    ours, theirs = [0.5, 1, 0.25, 0.75, 0, 0.375, 1.1], [0, 0.75, 0.1, 0.85, 0.5, 0, 0.9]
    truth = metrics.win_tie_loss(ours, theirs, 0.25)
    assert other_record(ours, theirs, 0.25, None) == truth
    assert other_record(ours, theirs, 0.25, fault) != truth


def other_bootstrap(values, draws, fault):
    x = np.array(values, dtype=float)
    means = x[np.array(draws)].mean(axis=1)
    point, ends = x.mean(), [2.5, 97.5]
    if fault == "median":
        means, point = np.median(x[np.array(draws)], axis=1), np.median(x)
    if fault == "90 %":
        ends = [5, 95]
    if fault == "no interpolation":
        low, high = np.percentile(means, ends, method="lower")
    elif fault == "normal":
        low, high = point - 1.96 * means.std(), point + 1.96 * means.std()
    elif fault == "basic":
        low, high = 2 * point - np.percentile(means, ends)[::-1]
    else:
        low, high = np.percentile(means, ends)
    return (means.mean() if fault == "mean of the draws" else point), low, high


@pytest.mark.parametrize("fault", ["median", "90 %", "no interpolation", "normal", "basic", "mean of the draws"])
def test_bootstrap_fault(fault):
    values = [0.1, 0.9, 1.0, 1.02, 0.97, -0.4, 1.3]
    draws = np.random.default_rng(3).integers(0, 7, size=(200, 7)).tolist()
    truth = metrics.percentile_bootstrap(values, draws=draws)
    assert other_bootstrap(values, draws, None) == pytest.approx(truth, abs=1e-12)
    assert other_bootstrap(values, draws, fault) != pytest.approx(truth, abs=1e-4)


def test_bootstrap_of_a_contrast_is_paired():
    ours = [0.2, 0.5, 0.9, 1.4]
    theirs = [x - 0.1 for x in ours]
    d = [x - y for x, y in zip(ours, theirs, strict=True)]
    paired = metrics.percentile_bootstrap(d, replicates=500)
    assert paired == pytest.approx((0.1, 0.1, 0.1), abs=1e-12)
    rng = np.random.default_rng(0)  # arms drawn apart
    apart = [np.mean(rng.choice(ours, 4)) - np.mean(rng.choice(theirs, 4)) for _ in range(500)]
    assert np.percentile(apart, 97.5) - np.percentile(apart, 2.5) > 0.5


def other_wilcoxon(d, fault):
    """By convolving the distribution of W+ over doubled ranks."""
    d = np.array(d, dtype=float)
    if fault == "zeros dropped first":
        d = d[d != 0]
    ranks = library.rankdata(abs(d), method="ordinal" if fault == "ties by order" else "average")
    if fault == "zeros counted half":
        plus = ranks[d > 0].sum() + ranks[d == 0].sum() / 2
        used = ranks
    else:
        plus, used = ranks[d > 0].sum(), ranks[d != 0]
    doubled = np.rint(2 * used).astype(int)
    ways = np.array([1.0])
    for r in doubled:
        step = np.zeros(r + 1)
        step[[0, r]] = 0.5
        ways = np.convolve(ways, step)
    at = np.arange(len(ways)) - doubled.sum() / 2
    seen = 2 * plus - doubled.sum() / 2
    if fault == "one side":
        return ways[at >= seen - 1e-9].sum()
    if fault == "strictly beyond":
        return ways[abs(at) > abs(seen) + 1e-9].sum()
    if fault == "normal":
        spread = math.sqrt((used**2).sum()) / 2
        return 2 * library.norm.sf(abs(seen) / 2 / spread)
    return ways[abs(at) >= abs(seen) - 1e-9].sum()


WILCOXON_FAULTS = [
    "zeros dropped first",
    "zeros counted half",
    "ties by order",
    "one side",
    "strictly beyond",
    "normal",
]


@pytest.mark.parametrize("fault", WILCOXON_FAULTS)
def test_wilcoxon_fault(fault):
    cases = [[0, 1, 2, 3, -4], [0, 0, 1, 1, -1, 2, 5], [0.4, 0.1, -0.2, 0.3], [1, -1, -1, -1, 2, 3]]
    truth = [metrics.wilcoxon_pratt(case) for case in cases]
    assert [other_wilcoxon(case, None) for case in cases] == pytest.approx(truth, abs=1e-12)
    assert [other_wilcoxon(case, fault) for case in cases] != pytest.approx(truth, abs=1e-3)


def test_wilcoxon_zero_method_shows_in_the_library_too():
    d, every = [0, 1, 2, 3, -4], library.PermutationMethod(n_resamples=np.inf)
    p = {z: library.wilcoxon(d, zero_method=z, method=every).pvalue for z in ("pratt", "wilcox")}
    assert p["pratt"] == pytest.approx(metrics.wilcoxon_pratt(d), abs=1e-12)
    assert p["wilcox"] != pytest.approx(metrics.wilcoxon_pratt(d), abs=1e-3)


def other_holm(ps, fault):
    p = np.array(ps)
    order = np.argsort(-p if fault == "largest first" else p, kind="stable")
    left = len(p) - np.arange(len(p))
    if fault == "Bonferroni":
        left = np.full(len(p), len(p))
    steps = p[order] * (len(p) / np.arange(1, len(p) + 1) if fault == "Benjamini-Hochberg" else left)
    if fault != "not monotone":
        steps = np.maximum.accumulate(steps)
    steps = steps if fault == "above 1" else np.minimum(1, steps)
    adjusted = np.empty(len(p))
    adjusted[order] = steps
    return steps.tolist() if fault == "in sorted order" else adjusted.tolist()


@pytest.mark.parametrize(
    "fault",
    ["largest first", "Bonferroni", "Benjamini-Hochberg", "not monotone", "above 1", "in sorted order"],
)
def test_holm_fault(fault):
    ps = [0.03, 0.012, 0.9, 0.02, 0.8]
    assert other_holm(ps, None) == pytest.approx(metrics.holm(ps), abs=1e-15)
    assert other_holm(ps, fault) != pytest.approx(metrics.holm(ps), abs=1e-6)


def test_second_versions_agree_on_random_cases():
    rng = np.random.default_rng(1)
    for _ in range(60):
        d = rng.integers(-3, 4, size=int(rng.integers(2, 9))).tolist()
        assert other_wilcoxon(d, None) == pytest.approx(metrics.wilcoxon_pratt(d), abs=1e-12)
    for answer in map("".join, itertools.product(["a", "b", " ", "."], repeat=5)):
        assert other_flip(answer, "a", "b", None) is metrics.flip(answer, "a", "b")
