"""Choice of the policy on the calibration part: by its counts, or by a test that bounds its risk."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.baselines.similarity_verifier import GRID as SIMILARITY_AND_VERIFIER
from cachemend.calibration.certified.candidates import policies_to_test
from cachemend.calibration.certified.learn_then_test import DELTA, certify_by_binomial_tests
from cachemend.calibration.routing import (
    DEFAULT_GRID,
    REGENERATE_ALL,
    CalibrationCounts,
    PolicyGrid,
    Replay,
    RoutingScores,
    Thresholds,
    replay,
    route,
    select_policy,
)
from cachemend.calibration.routing.budget import WINDOW
from cachemend.calibration.routing.policy import NO_VERIFICATION
from cachemend.flows.calibrate_parts import Part


class Chosen(NamedTuple):
    """A policy and how it came about.

    Attributes:
        thresholds: `REGENERATE_ALL` for an abstention.
        counts: what it did on the calibration part.
        selected_by: how it was chosen, in words.
        abstained: why everything is regenerated, in words; "" where something is returned.
    """

    thresholds: Thresholds
    counts: CalibrationCounts
    selected_by: str
    abstained: str


@dataclass(frozen=True, kw_only=True)
class DirectGrid(PolicyGrid):
    """The policies without verification."""

    @cached_property
    def verify(self) -> NDArray[np.float64]:
        return np.array([NO_VERIFICATION])


SIMILARITY_ALONE = DirectGrid(tau_r=SIMILARITY_AND_VERIFIER.tau_r, delta_r=(0.0,), upsilon_r=(0.0,))
"""Similarity thresholds from .50 to 1 in steps of .01."""


def policies(budget: float) -> PolicyGrid:
    """The policies to choose among: those without verification where there is no budget for it."""
    return DEFAULT_GRID if budget else DirectGrid()


def by_similarity(part: Part) -> Part:
    """The same pairs, of which nothing but the similarity is known."""
    n = len(part.ids)
    nothing, never = np.zeros(n), np.zeros(n, dtype=bool)
    similarity = part.scores.similarity
    return part._replace(scores=RoutingScores(similarity, d=nothing, u=nothing, h=never, u_cal=nothing, empty=never))


def played(part: Part, thresholds: Thresholds, budget: float) -> Replay:
    """Replay a policy in the budget windows that serving has."""
    return replay(route(part.scores, thresholds), part.verified, part.order, budget, WINDOW)


def choose(cal: Part, *, alpha: float, budget: float, grid: PolicyGrid) -> Chosen:
    """Choose the policy with the most valid hits among those that keep to `alpha`.

    One that returns no valid response there is not taken either: nothing would speak for it.

    Raises:
        CalibrationError: pairs all valid or all invalid.
    """
    found = select_policy(
        cal.scores, cal.valid, cal.verified, alpha=alpha, budget=budget, order=cal.order, grid=grid, window=WINDOW
    )
    how = f"most valid hits on the calibration part with at most {100 * alpha:g} % invalid"
    if found.valid:
        return Chosen(found.thresholds, CalibrationCounts.of(found), how, "")
    why = (
        f"no policy returns a valid response on the {found.n} calibration pairs with at most {100 * alpha:g} % invalid"
    )
    return Chosen(REGENERATE_ALL, CalibrationCounts(found.n, 0, 0, 0, 0, found.policies, found.feasible), how, why)


def certify(dev: Part, cal: Part, *, alpha: float, budget: float, grid: PolicyGrid, seed: int) -> Chosen:
    """Choose the policy with the most valid hits among those that learn-then-test certifies at `alpha`."""
    ordered, on = policies_to_test(
        dev.scores, dev.valid, dev.verified, budget=budget, order=dev.order, grid=grid, window=WINDOW
    )
    done = [played(cal, limits, budget) for limits in ordered]
    found = certify_by_binomial_tests(
        np.stack([each.accepted for each in done]),
        np.stack([each.verified for each in done]),
        cal.valid,
        cal.clusters,
        cal.ids,
        alpha=alpha,
        regions=on,
        seed=seed,
    )
    how = (
        f"learn-then-test at a risk of {100 * alpha:g} % with confidence {100 * (1 - DELTA):g} %, averaged over "
        "clusters, not over requests: a popular entry counts once"
    )
    limits = REGENERATE_ALL if found.chosen is None else ordered[found.chosen]
    result = played(cal, limits, budget)
    counts = CalibrationCounts(
        n=len(cal.ids),
        valid=int((result.accepted & cal.valid).sum()),
        invalid=int((result.accepted & ~cal.valid).sum()),
        calls=int(result.verified.sum()),
        demand=result.demand,
        policies=len(ordered),
        feasible=len(found.certified),
    )
    told = f"{how}: abstained, everything is regenerated" if found.chosen is None else how
    return Chosen(limits, counts, told, found.reason)
