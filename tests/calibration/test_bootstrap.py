"""Intervals against their definitions, SciPy, published arithmetic and hand numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap

from cachemend.calibration import Interval, bootstrap_mean, paired_bootstrap, wilson_interval
from cachemend.calibration import intervals as module

from oracles import stats as oracle

VALUES = st.lists(st.floats(-100, 100), min_size=1, max_size=12)


@settings(max_examples=40, deadline=None)
@given(VALUES)
def test_bootstrap_mean_against_a_loop_over_replicates(values: list[float]) -> None:
    rng = np.random.default_rng(20260928)
    draws = rng.integers(0, len(values), size=(500, len(values)))
    expected = oracle.percentile_bootstrap_mean(values, draws=draws.tolist())
    assert bootstrap_mean(values, replicates=500) == pytest.approx((*expected, len(values)), abs=1e-9)


def test_defaults_are_the_papers_and_the_result_is_reproducible() -> None:
    values = np.random.default_rng(2).normal(size=30)
    assert bootstrap_mean(values) == bootstrap_mean(values, replicates=10_000, seed=20260928)
    assert bootstrap_mean(values, seed=1) != bootstrap_mean(values)


def test_agrees_with_scipy_on_a_large_sample() -> None:
    values = np.random.default_rng(3).normal(size=400)
    mine = bootstrap_mean(values)
    other = bootstrap((values,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(4))
    assert mine.low == pytest.approx(other.confidence_interval.low, abs=0.01)
    assert mine.high == pytest.approx(other.confidence_interval.high, abs=0.01)
    assert (mine.point, mine.n) == (pytest.approx(values.mean()), 400)


def reference(a: list[float], b: list[float], strata: list[str], sources: list[int], replicates: int) -> Interval:
    """Section 8.3 spelled out: draw sources inside each stratum, carry all their pairs, average."""
    rng = np.random.default_rng(20260928)
    differences = [x - y for x, y in zip(a, b, strict=True)]
    pools = {}
    for stratum in sorted(set(strata)):
        members: dict[int, list[float]] = {}
        for d, t, s in zip(differences, strata, sources, strict=True):
            if t == stratum:
                members.setdefault(s, []).append(d)
        pools[stratum] = [members[s] for s in sorted(members)]
    drawn = {t: rng.integers(0, len(p), size=(replicates, len(p))) for t, p in pools.items()}
    means = []
    for r in range(replicates):
        carried = [d for t, pool in pools.items() for i in drawn[t][r] for d in pool[i]]
        means.append(sum(carried) / len(carried))
    ends = [oracle.linear_percentile(means, q) for q in (2.5, 97.5)]
    return Interval(sum(differences) / len(differences), ends[0], ends[1], len(a))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(-5, 5), st.floats(-5, 5), st.sampled_from("xyz"), st.integers(0, 3)),
        min_size=1,
        max_size=20,
    )
)
def test_paired_bootstrap_against_its_definition(rows: list[tuple[float, float, str, int]]) -> None:
    a, b, strata, sources = (list(column) for column in zip(*rows, strict=True))
    mine = paired_bootstrap(a, b, strata, sources, replicates=200)
    assert mine == pytest.approx(reference(a, b, strata, sources, 200), abs=1e-9)


def test_blocks_of_replicates_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(60), rng.random(60)
    whole = paired_bootstrap(a, b, np.arange(60) % 2, np.arange(60) // 3, replicates=1000)
    monkeypatch.setattr(module, "_DRAWS_AT_ONCE", 77)
    assert paired_bootstrap(a, b, np.arange(60) % 2, np.arange(60) // 3, replicates=1000) == whole


def test_draws_that_are_remembered_are_those_drawn_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    values, sources = np.random.default_rng(6).random(60), np.arange(60) // 3
    remembered = [paired_bootstrap(values, values**2, sources=s, replicates=1000) for s in (None, sources) * 2]
    monkeypatch.setattr(module, "_DRAWS_AT_ONCE", 77)
    assert [paired_bootstrap(values, values**2, sources=s, replicates=1000) for s in (None, sources) * 2] == remembered


def test_placements_of_a_source_stay_together() -> None:
    """Three equal placements per source carry no more information than one."""
    difference = np.random.default_rng(5).normal(size=100)
    one = paired_bootstrap(difference, np.zeros(100), sources=np.arange(100))
    three = paired_bootstrap(np.repeat(difference, 3), np.zeros(300), sources=np.repeat(np.arange(100), 3))
    apart = paired_bootstrap(np.repeat(difference, 3), np.zeros(300))
    assert three[:3] == pytest.approx(one[:3])
    assert (apart.high - apart.low) / (three.high - three.low) == pytest.approx(3**-0.5, rel=0.1)


def test_strata_are_not_resampled() -> None:
    """With one value per stratum nothing varies, however far the strata are apart."""
    strata = np.repeat(np.arange(4), 25)
    interval = paired_bootstrap(strata * 10.0, np.zeros(100), strata, np.arange(100))
    assert (interval.low, interval.high) == (interval.point, interval.point) == (15.0, 15.0)


def test_equal_methods_differ_by_nothing() -> None:
    x = np.random.default_rng(1).random(40)
    assert paired_bootstrap(x, x) == Interval(0.0, 0.0, 0.0, 40)


@pytest.mark.parametrize(("successes", "n", "percent"), [(9, 4968, 0.3111), (21, 5478, 0.5473), (24, 5579, 0.6003)])
def test_wilson_upper_bounds_as_published(successes: int, n: int, percent: float) -> None:
    """One-sided 95 % is the upper end of the two-sided 90 % interval."""
    assert round(100 * wilson_interval(successes, n, 0.90).high, 4) == percent


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_ends_solve_its_equation(case: tuple[int, int]) -> None:
    k, n = case
    interval = wilson_interval(k, n)
    z = 1.959963984540054
    for end in (interval.low, interval.high):
        assert abs(k / n - end) == pytest.approx(z * (end * (1 - end) / n) ** 0.5, abs=1e-6)
    assert 0 <= interval.low <= k / n <= interval.high <= 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bootstrap_mean([]), "not empty"),
        (lambda: bootstrap_mean([1.0, float("nan")]), "not finite"),
        (lambda: bootstrap_mean([[1.0]]), "one-dimensional"),
        (lambda: paired_bootstrap([1, 0], [1]), "equal lengths"),
        (lambda: paired_bootstrap([1, 0], [1, 0], strata=[1]), "label each of the 2 pairs"),
        (lambda: paired_bootstrap([1, 0], [1, 0], replicates=0), "below 1"),
        (lambda: wilson_interval(3, 2), "not a proportion"),
        (lambda: wilson_interval(0, 0), "not a proportion"),
        (lambda: wilson_interval(1, 2, 1.0), "outside 0 to 1"),
    ],
)
def test_bad_input_raises(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
