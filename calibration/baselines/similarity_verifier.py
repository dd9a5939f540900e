"""Similarity and the verifier alone: what three-way routing comes to without conditions, risk and conflicts."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cachemend.calibration.baselines.evidence import Decisions, Evidence, Rule, abstain
from cachemend.calibration.routing.exact import Rate
from cachemend.calibration.routing.grid import PolicyGrid
from cachemend.calibration.routing.policy import Thresholds
from cachemend.calibration.routing.regions import route
from cachemend.calibration.routing.replay import replay
from cachemend.calibration.routing.scores import RoutingScores
from cachemend.calibration.routing.selection import select_policy


class Target(NamedTuple):
    """An operating point (paper appendix A): accepted-unsafe target alpha and verifier calls per request B."""

    alpha: Rate
    budget: Rate


TARGETS = (Target(0.0, 0.16), Target(0.0, 0.30), Target(0.025, 0.30))

_STEPS = tuple(step / 100 for step in range(50, 101))
GRID = PolicyGrid(
    tau_r=_STEPS, delta_r=(0.0,), upsilon_r=(0.0,), tau_v=_STEPS, tau_v_conflict=None, delta_v=(0.0,), upsilon_v=(0.0,)
)
"""Every pair of similarity thresholds from .50 to 1 in steps of .01, and each of the two alone."""


def fit_similarity_verifier(calibration: Evidence, valid: ArrayLike, target: Target) -> Rule:
    """Choose two similarity thresholds, for direct reuse and for verification, as routing policies are chosen.

    Selection, hard budget and order are those of routing (equations 7 to 9); only the scores are fewer. `abstain` where
    no pair of thresholds keeps to the target.

    Args:
        calibration: of n candidates.
        valid: whether reuse is valid, bool ``[n]``.
        target: what to keep to.

    Raises:
        CalibrationError: a target outside 0 to 1.
    """
    chosen = select_policy(
        _scores(calibration),
        valid,
        calibration.column("verified"),
        alpha=target.alpha,
        budget=target.budget,
        order=calibration.column("order"),
        grid=GRID,
    )
    if not chosen.feasible:
        return abstain
    return partial(similarity_verifier, thresholds=chosen.thresholds, budget=target.budget)


def similarity_verifier(evidence: Evidence, thresholds: Thresholds, budget: Rate) -> Decisions:
    """Replay the thresholds in order; after ``floor(budget * n)`` calls, candidates to verify are regenerated."""
    actions = route(_scores(evidence), thresholds)
    played = replay(actions, evidence.column("verified"), evidence.column("order"), budget)
    return Decisions(played.accepted, played.verified)


def _scores(evidence: Evidence) -> RoutingScores:
    n = len(evidence)
    nothing, never = np.zeros(n), np.zeros(n, dtype=bool)
    return RoutingScores(similarity=evidence.similarity, d=nothing, u=nothing, h=never, u_cal=nothing, empty=never)
