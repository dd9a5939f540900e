"""The policies of a grid that are worth certifying, in the order that the development subset gives."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.certified.ordering import order_on_dev
from cachemend.calibration.routing.budget import Window
from cachemend.calibration.routing.counting import count_policies
from cachemend.calibration.routing.exact import Rate
from cachemend.calibration.routing.grid import DEFAULT_GRID, PolicyGrid
from cachemend.calibration.routing.policy import Thresholds
from cachemend.calibration.routing.regions import may_reuse
from cachemend.calibration.routing.scores import RoutingScores


class PoliciesToTest(NamedTuple):
    """Policies from the safest on.

    Attributes:
        policies: their thresholds.
        regions: whether each reuses directly and whether it verifies, bool ``[policies, 2]``.
    """

    policies: tuple[Thresholds, ...]
    regions: NDArray[np.bool_]


def policies_to_test(
    scores: RoutingScores,
    valid: NDArray[np.bool_],
    verified: NDArray[np.bool_],
    *,
    budget: Rate,
    order: NDArray[np.intp],
    grid: PolicyGrid = DEFAULT_GRID,
    window: Window | None = None,
) -> PoliciesToTest:
    """Order a grid by its hits on the development subset, direct and verified ones bounded separately.

    Args:
        scores: of n development candidates.
        valid: whether reuse is valid, ``[n]``.
        verified: whether the verifier says exactly VALID, ``[n]``.
        budget, order, window: as for `replay`.
        grid: the policies.

    Raises:
        CalibrationError: a budget outside 0 to 1, or an empty window.
    """
    counts = count_policies(scores, valid, verified, grid=grid, budget=budget, order=order, window=window)
    direct = may_reuse(scores, *grid.direct.T[:, :, None])
    places = np.argwhere(grid.allowed)
    a, b = places.T
    hits, wrong = direct.sum(axis=1)[a], (direct & ~valid).sum(axis=1)[a]
    all_wrong = counts.invalid[a, b]
    all_hits = counts.valid[a, b] + all_wrong
    on = places > 0
    chosen = order_on_dev(np.c_[wrong, all_wrong - wrong], np.c_[hits, all_hits - hits], on)
    return PoliciesToTest(tuple(grid.policy(*places[at].tolist()) for at in chosen), on[chosen])
