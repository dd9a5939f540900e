"""The router with one part taken out (paper section 4.3, Table 2), as changes to its inputs and to the grid."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from cachemend.calibration.routing.exact import Rate
from cachemend.calibration.routing.grid import PolicyGrid
from cachemend.calibration.routing.scores import RoutingScores


def _same_scores(scores: RoutingScores) -> RoutingScores:
    return scores


def _same_grid(grid: PolicyGrid) -> PolicyGrid:
    return grid


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """One part taken out. A policy is chosen anew on changed scores, and replayed on scores changed likewise.

    Attributes:
        name: what is taken out.
        scores: changes the scores, in calibration and in test.
        grid: changes the policies to choose from.
        filters_risk: whether policies above alpha are dropped.
    """

    name: str
    scores: Callable[[RoutingScores], RoutingScores] = _same_scores
    grid: Callable[[PolicyGrid], PolicyGrid] = _same_grid
    filters_risk: bool = True

    def alpha(self, alpha: Rate) -> Rate:
        """The target to choose under: 1, which every policy meets, where nothing is dropped."""
        return alpha if self.filters_risk else 1


def _without_conflicts(scores: RoutingScores) -> RoutingScores:
    return scores._replace(h=np.zeros_like(scores.h))


def _without_matching_uncertainty(scores: RoutingScores) -> RoutingScores:
    return scores._replace(u=scores.u_cal)


def _without_uncertainty_limits(grid: PolicyGrid) -> PolicyGrid:
    return replace(grid, upsilon_r=(inf,), upsilon_v=(inf,))


def _without_conflict_threshold(grid: PolicyGrid) -> PolicyGrid:
    return replace(grid, tau_v_conflict=None)


ABLATIONS = (
    Ablation(name="explicit contradiction check", scores=_without_conflicts),
    Ablation(name="matching uncertainty", scores=_without_matching_uncertainty),
    Ablation(name="uncertainty-aware routing", grid=_without_uncertainty_limits),
    Ablation(name="conflict-conditioned threshold", grid=_without_conflict_threshold),
    Ablation(name="risk-constrained selection", filters_risk=False),
)
