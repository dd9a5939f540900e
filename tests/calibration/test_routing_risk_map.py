"""The risk map: against an independent reading, a library's isotonic fit, the min-max formula and hand figures."""

import json
from fractions import Fraction
from math import sqrt
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing.risk_map import RiskBlock, RiskMap

from oracles import routing_map as oracle

QUICK = settings(max_examples=30, deadline=None)
# A coarse grid of mismatches: ties, and gaps between blocks, are frequent.
SAMPLES = st.lists(st.tuples(st.integers(0, 20).map(lambda step: step / 20), st.booleans()), min_size=1, max_size=60)
Z90 = 1.6448536269514722


def fitted(samples: list[tuple[float, bool]]) -> RiskMap:
    return RiskMap.fit(np.array([d for d, _ in samples]), np.array([valid for _, valid in samples], dtype=bool))


@QUICK
@given(SAMPLES, st.lists(st.floats(0, 1), max_size=20))
def test_against_an_independent_reading(samples: list[tuple[float, bool]], asked: list[float]) -> None:
    found = fitted(samples)
    wanted = oracle.risk_map([d for d, _ in samples], [not valid for _, valid in samples])
    assert [tuple(block) for block in found.blocks] == [tuple(block) for block in wanted]
    risk = found.predict(np.array(asked))
    for at, d in enumerate(asked):
        block = oracle.block_of(wanted, d)
        assert wanted[risk.block[at]] == block
        assert risk.rate[at] == pytest.approx(float(block.rate), abs=1e-15)
        assert risk.u_cal[at] == pytest.approx(oracle.wilson_width(block.bad, block.n), abs=1e-12)


@QUICK
@given(SAMPLES)
def test_values_are_the_isotonic_fit_of_the_initial_blocks(samples: list[tuple[float, bool]]) -> None:
    initial = oracle.initial_blocks([d for d, _ in samples], [not valid for _, valid in samples])
    means, weights = [float(block.rate) for block in initial], [block.n for block in initial]
    library = IsotonicRegression().fit_transform(np.arange(len(initial)), means, sample_weight=weights)
    ours = fitted(samples).predict(np.array([block.high for block in initial])).rate
    assert ours == pytest.approx(library, abs=1e-12)
    for at, value in enumerate(ours):
        # max over starts of min over stops of the pooled mean: the least-squares monotone fit, in closed form.
        exact = max(min(pooled(initial[a:b]) for b in range(at + 1, len(initial) + 1)) for a in range(at + 1))
        assert value == pytest.approx(float(exact), abs=1e-15)


def pooled(blocks: list[oracle.Block]) -> Fraction:
    return Fraction(sum(block.bad for block in blocks), sum(block.n for block in blocks))


@QUICK
@given(SAMPLES, st.randoms(use_true_random=False))
def test_the_order_of_the_samples_does_not_matter(samples: list[tuple[float, bool]], random: Random) -> None:
    shuffled = random.sample(samples, len(samples))
    assert fitted(shuffled) == fitted(samples)


@QUICK
@given(SAMPLES)
def test_every_sample_is_in_its_block_and_the_rate_never_falls(samples: list[tuple[float, bool]]) -> None:
    found = fitted(samples)
    d = np.array([d for d, _ in samples])
    risk = found.predict(d)
    assert np.bincount(risk.block, minlength=len(found.blocks)).tolist() == [block.n for block in found.blocks]
    assert len(found.blocks) <= 6
    assert (np.diff(found.predict(np.linspace(0, 1, 101)).rate) >= 0).all()


def test_twelve_samples_by_hand() -> None:
    """Pairs of samples make six blocks, with 0 1 0 1 1 2 invalid ones: the second and third are pooled."""
    d = np.array([0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9])
    invalid = np.array([0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1, 1], dtype=bool)
    found = RiskMap.fit(d, ~invalid)
    assert found.blocks == (
        RiskBlock(0.05, 0.1, 2, 0),
        RiskBlock(0.15, 0.3, 4, 1),
        RiskBlock(0.5, 0.55, 2, 1),  # equal to its neighbour: not pooled
        RiskBlock(0.6, 0.7, 2, 1),
        RiskBlock(0.8, 0.9, 2, 2),
    )
    # Inside, in a gap (the upper block, even next to the lower one), on both sides of all blocks.
    risk = found.predict([0.2, 0.31, 0.3, 0.0, 1.0])
    assert risk.block.tolist() == [1, 2, 1, 0, 4]
    assert risk.rate.tolist() == [0.25, 0.5, 0.25, 0.0, 1.0]
    # Wilson by hand: 2 z / (1 + z^2/n) * sqrt(p (1 - p) / n + z^2 / (4 n^2)).
    width = 2 * Z90 / (1 + Z90**2 / 4) * sqrt(0.25 * 0.75 / 4 + Z90**2 / 64)
    assert risk.u_cal[0] == pytest.approx(width, abs=1e-12)
    assert risk.u_cal[3] == pytest.approx(Z90**2 / (2 + Z90**2), abs=1e-12)


def test_a_block_extends_through_ties() -> None:
    d = np.array([0.1] * 7 + [0.2, 0.3, 0.4, 0.5, 0.6])
    assert [block.n for block in RiskMap.fit(d, np.zeros(12, bool)).blocks] == [7, 1, 2, 2]
    assert [block.n for block in RiskMap.fit(np.full(9, 0.5), np.ones(9, bool)).blocks] == [9]
    assert len(RiskMap.fit([0.1, 0.2, 0.3], np.ones(3, bool)).blocks) == 3


@QUICK
@given(SAMPLES)
def test_round_trip_through_json(samples: list[tuple[float, bool]]) -> None:
    found = fitted(samples)
    assert RiskMap.from_dict(json.loads(json.dumps(found.to_dict()))) == found


BLOCK = {"low": 0.1, "high": 0.2, "n": 5, "invalid": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "risk_map is a list"),
        ({}, "risk_map.blocks is missing"),
        ({"blocks": [], "more": 1}, "risk_map.more is unknown"),
        ({"blocks": []}, "no blocks"),
        ({"blocks": {}}, "risk_map.blocks is a dict; it must be a list"),
        ({"blocks": [7]}, r"risk_map.blocks\[0\] is a int"),
        ({"blocks": [BLOCK | {"n": 5.0}]}, r"risk_map.blocks\[0\].n is 5.0; it must be a int"),
        ({"blocks": [BLOCK | {"n": True}]}, r"risk_map.blocks\[0\].n is True"),
        ({"blocks": [BLOCK | {"n": 10**400}]}, r"risk_map.blocks\[0\].n is a number of 1329 bits"),
        ({"blocks": [BLOCK | {"n": 0, "invalid": 0}]}, r"risk_map.blocks\[0\] .* n >= 1"),
        ({"blocks": [BLOCK | {"invalid": 6}]}, r"risk_map.blocks\[0\] .* invalid <= n"),
        ({"blocks": [BLOCK | {"high": float("nan")}]}, r"risk_map.blocks\[0\] .* low <= high"),
        ({"blocks": [BLOCK, BLOCK]}, r"risk_map.blocks\[1\] lies below"),
        ({"blocks": [BLOCK, BLOCK | {"low": 0.3, "high": 0.4, "invalid": 0}]}, r"risk_map.blocks\[1\] lies below"),
    ],
)
def test_damaged_maps_are_refused(content: object, message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        RiskMap.from_dict(content)


def test_bad_samples_are_refused() -> None:
    with pytest.raises(CalibrationError, match="no samples"):
        RiskMap.fit([], np.zeros(0, bool))
    with pytest.raises(CalibrationError, match="d_match of sample 1 is nan"):
        RiskMap.fit([0.5, float("nan")], np.ones(2, bool))
    with pytest.raises(CalibrationError, match=r"d_match of sample 0 is 1\.5"):
        RiskMap.fit([0.5], np.ones(1, bool)).predict([1.5])
    with pytest.raises(ValueError, match="give 2 booleans"):
        RiskMap.fit([0.5, 0.6], np.ones(2))
