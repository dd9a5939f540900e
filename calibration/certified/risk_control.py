"""Conformal risk control of invalid returns per request (Angelopoulos et al. 2024): a mean, without a confidence."""

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cachemend.calibration.certified.hits import Hits, check_hits
from cachemend.calibration.certified.levels import check_levels
from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing.exact import exact_rate


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
    last policy with ``(n * mean + 1) / (n + 1) <= alpha`` keeps the expectation. Both sides are compared as fractions.

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
    n = hits.n_clusters
    exact = risk_bound(_mean_loss(hits), n)
    chosen = last_controlled(exact, exact_rate("alpha", alpha))
    bound = exact.astype(np.float64)
    if chosen >= 0:
        return RiskControl(alpha, int(chosen), bound, n, "")
    reason = (
        "alpha = 0 can never be controlled: the bound is at least 1 / (n + 1)"
        if alpha == 0
        else f"no policy has a bound of at most {100 * alpha:g} %: the strictest has {100 * bound[0]:.3g} %, "
        f"and {n} clusters without a loss give {100 / (n + 1):.3g} %"
    )
    return RiskControl(alpha, None, bound, n, reason)


def _mean_loss(hits: Hits) -> NDArray[Any]:
    """Return the mean over clusters of the share of pairs lost, as fractions, shape ``[policies]``."""
    size = np.bincount(hits.clusters)
    lost = hits.per_cluster(hits.accepted & ~hits.valid)
    sizes = np.unique(size)
    of_size = np.stack([lost[:, size == each].sum(axis=1) for each in sizes], axis=1).tolist()
    totals = [sum(map(Fraction, row, sizes.tolist()), Fraction(0)) for row in of_size]
    return np.array([total / hits.n_clusters for total in totals], dtype=object)


def risk_bound(mean_loss: NDArray[Any], n: int) -> NDArray[Any]:
    """Return ``(n * mean_loss + 1) / (n + 1)``, for losses from 0 to 1 of n exchangeable units."""
    return (n * mean_loss + 1) / (n + 1)


def last_controlled(bound: NDArray[Any], alpha: float | Fraction) -> NDArray[np.intp]:
    """Return the last place along the final axis with a bound of at most `alpha`; -1 for none.

    Args:
        bound: nondecreasing along the final axis, shape ``[..., policies]``.
        alpha: the expectation allowed.
    """
    return (bound <= alpha).sum(axis=-1) - 1
