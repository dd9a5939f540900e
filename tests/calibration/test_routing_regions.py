"""Scores and regions: against a plain transcription of equations 4 to 6, and equation 11 by hand."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing import (
    REGENERATE,
    REGENERATE_ALL,
    REUSE,
    VERIFY,
    RiskBlock,
    RiskMap,
    RoutingScores,
    Thresholds,
    route,
    routing_scores,
)

from oracles import routing_map as map_oracle
from oracles import routing_matching
from oracles import routing_policy as oracle

QUICK = settings(max_examples=30, deadline=None)
NAMES = {"reuse": REUSE, "verify": VERIFY, "regenerate": REGENERATE}
STEP = st.integers(0, 10).map(lambda step: step / 10)
ROW = st.tuples(STEP, STEP, STEP, st.booleans(), STEP, st.booleans())
LIMITS = st.tuples(*[st.one_of(STEP, st.just(float("inf")))] * 7).map(lambda values: Thresholds(*values))


def scores_of(rows: list[tuple[Any, ...]]) -> RoutingScores:
    s, d, u, h, u_cal, empty = (np.array(column) for column in zip(*rows, strict=True))
    return RoutingScores(s, d, u, h, u_cal, empty)


@QUICK
@given(st.lists(ROW, min_size=1, max_size=30), LIMITS)
def test_against_a_plain_transcription(rows: list[tuple[Any, ...]], limits: Thresholds) -> None:
    found = route(scores_of(rows), limits)
    for action, (s, d, u, h, u_cal, empty) in zip(found.tolist(), rows, strict=True):
        candidate = oracle.Candidate(s, d, u, h, True, "VALID", u_cal, empty)
        assert action == NAMES[oracle.route(candidate, oracle.Policy(*limits))]


@QUICK
@given(st.lists(ROW, min_size=1, max_size=30), LIMITS)
def test_a_conflict_never_reaches_direct_reuse(rows: list[tuple[Any, ...]], limits: Thresholds) -> None:
    scores = scores_of(rows)
    assert not (route(scores, limits) == REUSE)[scores.h].any()


@QUICK
@given(st.lists(ROW, min_size=1, max_size=30), LIMITS)
def test_without_conditions_everything_is_regenerated(rows: list[tuple[Any, ...]], limits: Thresholds) -> None:
    scores = scores_of(rows)._replace(empty=np.ones(len(rows), bool))
    assert (route(scores, limits) == REGENERATE).all()


def test_thresholds_are_inclusive_and_a_missing_number_passes_none() -> None:
    limits = Thresholds(0.8, 0.1, 0.5, 0.6, 0.9, 0.7, 0.9)
    rows = [
        (0.8, 0.1, 0.5, False, 0.1, False),
        (0.8, 0.1, 0.5, True, 0.1, False),
        (0.9, 0.7, 0.9, True, 0.1, False),
        (0.6, 0.7, 0.9, False, 0.1, False),
        (float("nan"), 0.0, 0.0, False, 0.1, False),
        (0.9, float("nan"), 0.0, False, 0.1, False),
    ]
    assert route(scores_of(rows), limits).tolist() == [REUSE, REGENERATE, VERIFY, VERIFY, REGENERATE, REGENERATE]
    assert (route(scores_of(rows), REGENERATE_ALL) == REGENERATE).all()
    assert route(scores_of(rows), limits).dtype == np.int8


def signals(**columns: list[Any]) -> Any:
    """What condition matching returns; only its fields are read."""
    return SimpleNamespace(**{name: np.array(values) for name, values in columns.items()})


RAW = signals(
    d_match=[0.1, 0.8, 0.8, 1.0],
    u_match=[0.2, 0.9, 0.1, 1.0],
    h_rule=[False, True, False, False],
    h_ctx=[False, False, False, False],
    h_own=[True, False, False, False],
    n_cache=[2, 1, 3, 0],
    n_request=[1, 1, 3, 4],
)
MAP = RiskMap(blocks=(RiskBlock(0.0, 0.4, 40, 2), RiskBlock(0.5, 0.9, 20, 15)))


def test_equation_11() -> None:
    scores = routing_scores([0.9, 0.8, 0.7, 1.0], RAW, MAP)
    blocks = [map_oracle.Block(*block) for block in MAP.blocks]
    for at, n in enumerate(RAW.n_cache * RAW.n_request):
        raw = routing_matching.Match(float(RAW.d_match[at]), float(RAW.u_match[at]), n == 0)
        wanted = map_oracle.signals(blocks, raw)
        assert (scores.d[at], scores.u[at]) == pytest.approx((wanted.d, wanted.u), abs=1e-12)
    # By hand: 15 of 20 invalid have a 90 % Wilson interval of 0.7202 +- 0.1524.
    assert scores.u_cal[1] == pytest.approx(2 * 0.1524, abs=1e-4)
    assert scores.d[1] == pytest.approx(0.75 + 0.05 * scores.u_cal[1])
    assert scores.u[2] == scores.u_cal[2] > 0.1
    assert scores.empty.tolist() == [False, False, False, True]
    assert (scores.d[3], scores.u[3]) == (1, 1)


def test_conflicts_with_and_without_the_guards_of_our_own() -> None:
    assert routing_scores(np.ones(4), RAW, MAP).h.tolist() == [True, True, False, False]
    assert routing_scores(np.ones(4), RAW, MAP, own_guards=False).h.tolist() == [False, True, False, False]


def test_take_keeps_the_rows_together() -> None:
    scores = routing_scores([0.9, 0.8, 0.7, 1.0], RAW, MAP)
    taken = scores.take(np.array([2, 0]))
    assert [column.tolist() for column in taken] == [column[[2, 0]].tolist() for column in scores]


def test_bad_similarities_are_refused() -> None:
    with pytest.raises(CalibrationError, match=r"similarity 1\.5 of candidate 1 is no cosine"):
        routing_scores([0.5, 1.5, 0, 0], RAW, MAP)
    with pytest.raises(CalibrationError, match="similarity nan of candidate 0"):
        routing_scores([float("nan"), 0, 0, 0], RAW, MAP)
    with pytest.raises(ValueError, match="must be equal"):
        routing_scores([0.5], RAW, MAP)
