"""From condition records to rates and cost, whole, against the oracles: map, D and U, regions, budget, outcome."""

from importlib import import_module
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cachemend.calibration.conditions.extracting import Condition
from cachemend.calibration.conditions.matching import match_many
from cachemend.calibration.conditions.signals import CandidateSignals
from cachemend.calibration.reliability import equal_width_bins, reliability
from cachemend.calibration.routing import (
    ABLATIONS,
    REUSE,
    VERIFY,
    RiskBlock,
    RiskMap,
    RoutingScores,
    Thresholds,
    outcome,
    regions,
    replay,
    risk_map,
    route,
    routing_scores,
)
from cachemend.calibration.routing.ablations import Ablation
from cachemend.calibration.routing.policy import NO_REUSE, NO_VERIFICATION

from oracles import routing_map as map_oracle
from oracles import routing_matching as matching_oracle
from oracles import routing_policy as oracle
from support.oracle_cases import QUICK, as_oracle, notices

WORDS = ["order", "tenant", "on", "off", "paid", "é"]
WITHOUT = dict(enumerate((Ablation(name=""), *ABLATIONS)))


class Pair(NamedTuple):
    """Two sides, the cosine of their requests, three levels of conflict, the label and the verifier's output."""

    cache: list[Condition]
    request: list[Condition]
    s: float
    h: tuple[bool, bool, bool]
    valid: bool
    output: object


class Case(NamedTuple):
    """What the map is fitted on, what is routed, whose scores are the thresholds, which regions are on, and how."""

    dev: list[Pair]
    test: list[Pair]
    places: list[int]
    on: str
    budget: float
    window: int | None
    without: int
    own_guards: bool
    order: list[int]


def case_of(seed: int) -> Case:
    """Draw a case: with few words, records and scores repeat."""
    random = Random(seed)
    dev, test = ([pair_of(random) for _ in range(random.randint(*sizes))] for sizes in ((6, 14), (2, 12)))
    return Case(
        dev,
        test,
        [random.randrange(len(test)) for _ in Thresholds._fields],
        random.choice(["both", "both", "both", "direct", "verify"]),
        random.choice([0.0, 0.16, 0.29, 0.3, 0.5, 1.0]),
        random.choice([None, 3, 4, 7]),
        random.choice(sorted(WITHOUT)),
        random.random() < 0.5,
        random.sample(range(len(test)), len(test)),
    )


def pair_of(random: Random) -> Pair:
    cache, request = (
        sorted({Condition("state", *random.sample(WORDS, 3)) for _ in range(random.choice([0, 1, 1, 2, 2, 3]))})
        for _ in range(2)
    )
    h = (random.random() < 0.3, random.random() < 0.2, random.random() < 0.2)
    output = random.choice(["VALID", "VALID", "INVALID", " VALID", None])
    return Pair(cache, request, random.choice([0.6, 0.7, 0.8, 1.0]), h, random.random() < 0.5, output)


CASES = st.integers(0, 10**6).map(case_of)


def signals_of(pairs: list[Pair]) -> CandidateSignals:
    matched = match_many([pair.cache for pair in pairs], [pair.request for pair in pairs])
    h_rule, h_ctx, h_own = np.array([pair.h for pair in pairs]).T
    n_cache, n_request = np.array([(len(pair.cache), len(pair.request)) for pair in pairs]).T
    return CandidateSignals(*matched, h_rule, h_ctx, h_own, n_cache, n_request)


def compare_scores(dev: list[Pair], test: list[Pair], own_guards: bool) -> tuple[RoutingScores, list[oracle.Candidate]]:
    """Compare map and scores; the oracle's map reads our mismatches, whose ties end a block or do not."""
    known, asked = signals_of(dev), signals_of(test)
    fitted = RiskMap.fit(known.d_match, np.array([pair.valid for pair in dev]))
    blocks = map_oracle.risk_map(known.d_match.tolist(), [not pair.valid for pair in dev])
    assert [tuple(block) for block in fitted.blocks] == [tuple(block) for block in blocks]
    found = routing_scores([pair.s for pair in test], asked, fitted, own_guards=own_guards)
    predicted, candidates = fitted.predict(asked.d_match).rate, []
    for at, pair in enumerate(test):
        raw = matching_oracle.match(pair.cache, pair.request)
        assert (asked.d_match[at], asked.u_match[at]) == pytest.approx(raw[:2], abs=1e-9)
        wanted = map_oracle.signals(blocks, raw._replace(d=float(asked.d_match[at])))
        assert (predicted[at], found.d[at], found.u[at]) == pytest.approx((wanted.k, wanted.d, wanted.u), abs=1e-9)
        assert found.empty[at] == raw.empty
        # Without records, D and U are 1; of their parts the paper says nothing, and ours is 1 as well.
        u_cal = 1 if raw.empty else wanted.u_cal
        assert found.u_cal[at] == pytest.approx(u_cal, abs=1e-9)
        h = pair.h[0] or pair.h[1] or (own_guards and pair.h[2])
        # At our last bit, so that a threshold between two roundings cannot decide.
        scores = (pair.s, float(found.d[at]), float(found.u[at]))
        candidates.append(oracle.Candidate(*scores, h, pair.valid, pair.output, float(found.u_cal[at]), raw.empty))
    compare_reliability(predicted, np.array([pair.valid for pair in test]))
    return found, candidates


def compare_reliability(predicted: NDArray[np.float64], valid: NDArray[np.bool_]) -> None:
    rates, invalid = predicted.tolist(), (~valid).tolist()
    tenths = reliability(predicted, valid, equal_width_bins(predicted))
    assert (tenths.ece, tenths.brier) == pytest.approx(
        (map_oracle.ece(rates, invalid, 10), map_oracle.brier(rates, invalid)), abs=1e-9
    )
    # One group per predicted rate; with blocks for groups, neighbours of equal rate would stay two.
    assert reliability(predicted, valid, predicted).ece == pytest.approx(map_oracle.ece(rates, invalid), abs=1e-9)


def compare_chain(case: Case) -> None:
    test, order, budget, window = case.test, case.order, case.budget, case.window
    without, name = WITHOUT[case.without], ("", *oracle.ABLATIONS)[case.without]
    found, candidates = compare_scores(case.dev, test, case.own_guards)
    limits = thresholds_of(case, found)
    actions = route(without.scores(found), changed(limits, name))
    served = replay(actions, [pair.output == "VALID" for pair in test], order, budget, window)
    came_to = outcome(served, np.array([pair.valid for pair in test]), local_cost=0.01)
    queue = [candidates[i] for i in order]
    names = {"reuse": REUSE, "verify": VERIFY, "regenerate": 0}
    assert actions[order].tolist() == [names[oracle.route(x, as_oracle(limits), name)] for x in queue]
    wanted = oracle.replay(queue, as_oracle(limits), budget, window, name)
    assert (came_to.n, came_to.valid, came_to.invalid, int(served.verified.sum()), served.demand) == tuple(wanted)
    assert came_to.vchr == pytest.approx(float(oracle.vchr(wanted)), abs=1e-12)
    assert came_to.fh == pytest.approx(float(oracle.false_hits(wanted)), abs=1e-12)
    backend = (wanted.n - wanted.safe - wanted.unsafe) / wanted.n
    cost = oracle.cost("0.01", wanted.calls / wanted.n, backend)
    assert came_to.relative_cost == pytest.approx(float(cost), abs=1e-9)


def thresholds_of(case: Case, scores: RoutingScores) -> Thresholds:
    """Return thresholds at the scores of some candidates, so that every limit decides and equality counts."""
    axes = (scores.similarity, scores.d, scores.u, scores.similarity, scores.similarity, scores.d, scores.u)
    limits = [float(axis[place]) for axis, place in zip(axes, case.places, strict=True)]
    direct = limits[:3] if case.on != "verify" else NO_REUSE
    return Thresholds(*direct, *(limits[3:] if case.on != "direct" else NO_VERIFICATION))


def changed(limits: Thresholds, without: str) -> Thresholds:
    """Return what the ablations of the grid make of one policy."""
    return {
        "uncertainty routing": limits._replace(upsilon_r=np.inf, upsilon_v=np.inf),
        "conflict threshold": limits._replace(tau_v_conflict=limits.tau_v),
    }.get(without, limits)


@settings(QUICK, max_examples=60)
@given(CASES)
def test_the_whole_chain(case: Case) -> None:
    compare_chain(case)


def block_below(fitted: RiskMap, d_match: NDArray[np.float64]) -> Any:
    """Look up with the lower block in a gap."""
    lows = [block.low for block in fitted.blocks[1:]]
    block = np.searchsorted(lows, d_match, side="right")
    return risk_map.Risk(fitted._rates[block], fitted._widths[block], block)


replay_module = import_module("cachemend.calibration.routing.replay")  # `routing.replay` is the function
WITHIN, MAY_VERIFY, METERS = regions._within, regions.may_verify, replay_module._meters
FAULTS: dict[str, tuple[Any, str, Any]] = {
    "five blocks": (risk_map, "INITIAL_BLOCKS", 5),
    "equal rates merged": (risk_map, "_falls", lambda a, b: a.invalid * b.n >= b.invalid * a.n),
    "never merged": (risk_map, "_falls", lambda a, b: False),
    "95 %": (risk_map, "CONFIDENCE", 0.95),
    "block below": (RiskMap, "predict", block_below),
    "pooled without the lower": (risk_map, "_pooled", lambda a, b: RiskBlock(a.low, b.high, b.n, b.invalid)),
    "strict": (
        regions,
        "_within",
        lambda s, tau, delta, upsilon: (s.similarity > tau) & (s.d < delta) & (s.u < upsilon),
    ),
    "free risk": (regions, "_within", lambda s, tau, delta, upsilon: WITHIN(s, tau, 2.0, upsilon)),
    "free uncertainty": (regions, "_within", lambda s, tau, delta, upsilon: WITHIN(s, tau, delta, 2.0)),
    "one threshold": (regions, "may_verify", lambda s, tau, other, *limits: MAY_VERIFY(s, tau, tau, *limits)),
    "no order": (
        replay_module,
        "_meters",
        lambda order, budget, window: METERS(np.sort(order), budget, window),
    ),
    "no window": (replay_module, "_meters", lambda order, budget, window: METERS(order, budget, None)),
    "no budget": (replay_module, "_meters", lambda order, budget, window: METERS(order, 1, window)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    assert notices(compare_chain, CASES)


@pytest.mark.parametrize("at", [1, 2])
def test_an_ablation_that_takes_out_nothing_is_noticed(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WITHOUT, at, WITHOUT[0])
    assert notices(compare_chain, CASES)
