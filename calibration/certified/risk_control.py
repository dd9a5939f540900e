"""Conformal risk control of invalid returns per request (Angelopoulos et al. 2024): a mean, without a confidence."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cachemend.calibration.certified.hits import check_hits
from cachemend.calibration.certified.levels import check_levels
from cachemend.calibration.errors import CalibrationError


class RiskControl(NamedTuple):
    """The policy whose mean of invalid returns per request is controlled.

    It says nothing about one calibration: over many, the mean is at most `alpha`, single ones lie above it. Keep it
    apart from counts of violated certificates.

    Attributes:
        alpha: invalid returns per request, not per hit.
        chosen: number of the policy; None for an abstention: regenerate everything.
        bound: ``(n * mean loss + 1) / (n + 1)`` of each policy, shape ``[policies]``.
        n_clusters: n, the exchangeable units.
        reason: why nothing was chosen; "" otherwise.
    """

    alpha: float
    chosen: int | None
    bound: NDArray[np.float64]
    n_clusters: int
    reason: str


def control_risk(accepted: ArrayLike, valid: ArrayLike, clusters: ArrayLike, *, alpha: float) -> RiskControl:
    """Choose the most permissive policy of a nested family whose mean loss on a new cluster is at most `alpha`.

    The loss of a cluster is the share of its pairs returned though invalid. It grows along the family, so that the
    last policy with ``(n * mean + 1) / (n + 1) <= alpha`` keeps the expectation.

    Args:
        accepted: whether each policy returned the cached response, shape ``[policies, pairs]``; each policy returns
            all that the one before returns (a path of one threshold), and the path does not depend on these pairs.
        valid: whether it may be returned, shape ``[pairs]``.
        clusters: the cluster of each pair.
        alpha: the expectation allowed; 0 abstains.

    Raises:
        CalibrationError: policies that are not nested.
        ValueError: shapes that do not fit, values other than 0 and 1, or `alpha` out of range.
    """
    check_levels(alpha, 0.5)
    hits = check_hits(accepted, valid, clusters)
    lost = (hits.accepted[:-1] & ~hits.accepted[1:]).any(axis=1)
    if lost.any():
        row = int(np.flatnonzero(lost)[0])
        raise CalibrationError(
            f"accepted: policy {row + 1} refuses a pair that policy {row} returns; order a nested family from strict "
            "to permissive"
        )
    sizes = np.bincount(hits.clusters)
    loss = (hits.per_cluster(hits.accepted & ~hits.valid) / sizes).mean(axis=1)
    bound = risk_bound(loss, hits.n_clusters)
    chosen = last_controlled(bound, alpha)
    n = hits.n_clusters
    if chosen >= 0:
        return RiskControl(alpha, int(chosen), bound, n, "")
    reason = (
        "alpha = 0 can never be controlled: the bound is at least 1 / (n + 1)"
        if alpha == 0
        else f"no policy has a bound of at most {100 * alpha:g} %: the strictest has {100 * bound[0]:.3g} %, "
        f"and {n} clusters without a loss give {100 / (n + 1):.3g} %"
    )
    return RiskControl(alpha, None, bound, n, reason)


def risk_bound(mean_loss: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return ``(n * mean_loss + 1) / (n + 1)``, for losses from 0 to 1 of n exchangeable units."""
    return (n * mean_loss + 1) / (n + 1)


def last_controlled(bound: NDArray[np.float64], alpha: float) -> NDArray[np.intp]:
    """Return the last place along the final axis with a bound of at most `alpha`; -1 for none.

    Args:
        bound: nondecreasing along the final axis, shape ``[..., policies]``.
        alpha: the expectation allowed.
    """
    return (bound <= alpha).sum(axis=-1) - 1
